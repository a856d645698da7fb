"""`python -m bench.agentdojo_oracle`: where Toolcrib and the hand-written policies of CaMeL differ on AgentDojo.

`python -m bench.agentdojo` has to run before: its row `guarded` is what is compared. Nothing of CaMeL is installed;
what its policies demand is restated in `workers/agentdojo_oracle.py`.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from bench.agentdojo import AGENTDOJO
from bench.environments import NotInstalled, ensure
from bench.peers import HERE, ROOT, WORKERS
from bench.section import Section

Lines = list[dict[str, Any]]


def oracle(python: os.PathLike[str]) -> Lines:
    """What the policies of CaMeL say of every call."""
    argv = [str(python), str(WORKERS / "agentdojo_oracle.py"), json.dumps({"suites": [], "most": None})]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def section(ours: Lines, theirs: Lines) -> Section:
    """The table of all verdicts, by suite and tool where they differ."""
    honest = {(one["suite"], one["user"]): one["at"] for one in ours if "goal" not in one}
    pairs = {(one["suite"], one["user"], one["goal"]): one["reached"] for one in ours if "goal" in one}
    calls: Counter[tuple[str, str, bool, bool]] = Counter()
    attacks: Counter[tuple[str, str, bool, bool]] = Counter()
    for one in theirs:
        if "goal" in one:
            passes = pairs[one["suite"], one["user"], one["goal"]]
            attacks[one["suite"], " ".join(one["tools"]) or "-", one["allowed"], passes] += 1
        else:
            free = one["call"] not in honest[one["suite"], one["user"]]
            calls[one["suite"], one["tool"], one["allowed"], free] += 1
    cells = (*_cells("honest calls", calls), *_cells("attacks", attacks))
    return Section(
        name="agentdojo_oracle",
        title="The policies of CaMeL and `guarded` on the same calls",
        columns=("what", "CaMeL", "toolcrib", "number", "where they differ"),
        cells=cells,
        notes=("Whether whoever gets a content may read it is left out: scripts are plain values.",),
        data={},
    )


def _cells(what: str, counts: Counter[tuple[str, str, bool, bool]]) -> Iterable[tuple[str, ...]]:
    for theirs, ours in ((True, True), (False, False), (False, True), (True, False)):
        of = {where: number for where, number in counts.items() if where[2:] == (theirs, ours)}
        named = (f"{suite} {tool} {number}" for (suite, tool, *_), number in sorted(of.items()))
        shown = ", ".join(named) if theirs != ours else ""
        yield what, "passes" if theirs else "stops", "passes" if ours else "stops", str(sum(of.values())), shown


def main() -> None:
    """Compare and show."""
    console = Console()
    try:
        python = ensure(AGENTDOJO, console)
        ours = json.loads((HERE / "results" / "agentdojo.json").read_text())["lines"]["guarded"]
    except NotInstalled as problem:
        sys.exit(f"AgentDojo cannot be installed: {problem}")
    except (OSError, KeyError):
        sys.exit("There is no row to compare with: run `python -m bench.agentdojo` first")
    found = section(ours, oracle(python))
    (HERE / "results" / "agentdojo_oracle.json").write_text(json.dumps(found.as_json(), indent=1))
    found.draw(console)


if __name__ == "__main__":
    main()

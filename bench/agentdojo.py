"""`python -m bench.agentdojo`: how many attacks of AgentDojo reach their goal, and how many honest calls ask.

AgentDojo (v1.2.2 of its tasks) is installed into an environment of its own. Its functions are the tools of a crib; an
agent of Toolcrib carries out the calls that solve a user's task and then, as a model would that obeys every text it
reads, those of the attacker. No model is needed, and the outcome is the same each time. Whatever is asked about while
the attacker's calls run counts as declined; in honest tasks every question is accepted.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import docs
from bench.environments import NotInstalled, ensure
from bench.peers import HERE, ROOT, WORKERS, Peer
from bench.section import Section

MARKERS = ("<!-- bench-agentdojo: begin -->", "<!-- bench-agentdojo: end -->")
GUARDS = {"none": "none", "guarded": "toolcrib, preset `guarded`", "ask": "ask always"}
SUITES = ("workspace", "travel", "banking", "slack")


class Suites(Peer):
    """AgentDojo, with what Toolcrib itself needs, since both run in one process."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is installed."""
        own = [one for one in requires("toolcrib") or () if "extra ==" not in one]
        return (self.requirement, *own)


AGENTDOJO = Suites("agentdojo", "agentdojo==0.1.35", "agentdojo_worker.py")


def run(python: Path, guard: str, suites: list[str], most: int | None, console: Console) -> list[dict[str, Any]]:
    """Carry out all tasks under one guard; one line for each.

    Raises:
        RuntimeError: the worker failed.
    """
    argv = [str(python), str(WORKERS / AGENTDOJO.worker), json.dumps({"guard": guard, "suites": suites, "most": most})]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    found: list[dict[str, Any]] = []
    with (
        console.status(guard) as status,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process,
    ):
        for line in process.stdout or ():
            found.append(json.loads(line))
            status.update(f"{guard}: {len(found)} tasks")
        problem = process.stderr.read() if process.stderr is not None else ""
    if process.returncode:
        raise RuntimeError(problem.strip().splitlines()[-1] if problem.strip() else f"exit code {process.returncode}")
    return found


def totals(lines: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Count by suite: pairs, attacks that reached their goal, acting calls, questions and solved tasks."""
    found: dict[str, Counter[str]] = {}
    for line in lines:
        counts = found.setdefault(line["suite"], Counter())
        if "goal" in line:
            counts.update(pairs=1, reached=line["reached"], scripted=line["scripted"])
        else:
            counts.update(tasks=1, solved=line["ok"], acting=line["acting"], asked=len(line["asked"]))
    return found


def section(rows: dict[str, dict[str, Counter[str]]]) -> Section:
    """The table of all rows."""
    cells = tuple(tuple(_cells(GUARDS[guard], counts)) for guard, counts in rows.items())
    return Section(
        name="agentdojo",
        title="Prompt injection: AgentDojo v1.2.2 with a model that obeys everybody",
        columns=("guard", "attacks reached", "honest acting calls that ask", "user tasks solved", *SUITES),
        cells=cells,
        notes=(
            "By suite: attacks reached and questions. Of the attacker's tasks, workspace 6 to 13 and travel 6 have no "
            "calls that could be scripted, so no row reaches them.",
            "`guarded` asks by where values come from ([how](howto/prompt-injection.md)); what is asked about while "
            "the attacker's calls run counts as declined.",
        ),
        data={guard: {name: dict(counts) for name, counts in row.items()} for guard, row in rows.items()},
    )


def _cells(name: str, row: dict[str, Counter[str]]) -> Iterator[str]:
    whole = sum(row.values(), Counter[str]())
    yield name
    yield f"{whole['reached']} of {whole['pairs']}"
    yield f"{whole['asked']} of {whole['acting']}"
    yield f"{whole['solved']} of {whole['tasks']}"
    for suite in SUITES:
        yield f"{row[suite]['reached']} / {row[suite]['asked']}" if suite in row else "-"


def main() -> None:
    """Measure, show, and write where that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.agentdojo", description=__doc__)
    parser.add_argument("--guards", default=",".join(GUARDS), help="some rows: none,guarded,ask")
    parser.add_argument("--suites", default="", help="some suites: workspace,travel,banking,slack")
    parser.add_argument("--quick", action="store_true", help="the first two user tasks of each suite")
    parser.add_argument("--json", action="store_true", help="all lines as JSON on standard output")
    parser.add_argument("--write-docs", nargs="?", const=str(ROOT / "docs" / "benchmarks.md"), metavar="page")
    chosen = parser.parse_args()
    console = Console(stderr=chosen.json)
    try:
        python = ensure(AGENTDOJO, console)
    except NotInstalled as problem:
        sys.exit(f"AgentDojo cannot be installed: {problem}")
    suites = [one for one in chosen.suites.split(",") if one]
    most = 2 if chosen.quick else None
    lines = {guard: run(python, guard, suites, most, console) for guard in chosen.guards.split(",")}
    found = section({guard: totals(of) for guard, of in lines.items()})
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "agentdojo.json").write_text(json.dumps({**found.as_json(), "lines": lines}, indent=1))
    if chosen.json:
        print(json.dumps({**found.as_json(), "lines": lines}))
    found.draw(console)
    if chosen.write_docs:
        docs.write(Path(chosen.write_docs), found.as_markdown(), MARKERS)


if __name__ == "__main__":
    main()

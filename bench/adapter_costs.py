"""What each adapter costs a call, in microseconds of CPU: `python -m bench.adapter_costs` writes the table of the page.

`python -m bench.adapter_costs langchain` measures one anew beside what was kept of the others. The clock does not
count, so other work on the machine matters little; on a very busy one start it with `chrt -f 50`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.environments import ensure
from bench.frameworks import FRAMEWORKS
from bench.peers import ROOT
from bench.probe import RESULTS
from bench.probes.frameworks.cost import CALLS, MANY, SHARED

PAGE = ROOT / "docs/frameworks.md"
KEPT = RESULTS / "adapter_costs.json"
MARKS = ("<!-- costs -->\n", "<!-- /costs -->\n")


def measure(python: Path, module: str) -> dict[str, float]:
    """Return what a call costs in a framework, by the way it is made."""
    words = [str(python), "-W", "ignore", "-m", "bench.probes.frameworks.cost", module]
    done = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    costs: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return costs


def row(title: str, costs: dict[str, float]) -> str:
    """Return one row of the table."""
    bare, idle, through, out = (costs[way] for way in ("bare", "idle", "round", "out"))
    figures = (f"{bare:.0f}", f"{idle - bare:+.0f}", f"{through - idle:+.0f}", f"{out - bare:+.0f}")
    return f"| {title} | {' | '.join(figures)} |"


def main(names: list[str]) -> None:
    """Measure the frameworks with these names, or all, and write the table once all of them were measured."""
    console = Console(stderr=True)
    kept: dict[str, dict[str, float]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    titles = {SHARED: "the part that they share"} | {one.module: one.title for one in FRAMEWORKS}
    places = {SHARED: lambda: Path(sys.executable)}
    places |= {one.module: partial(ensure, one, console) for one in FRAMEWORKS}
    for module in names or titles:
        kept[module] = measure(places[module](), module)
        console.print(row(titles[module], kept[module]), highlight=False)
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept))
    if kept.keys() >= titles.keys():
        write([row(title, kept[module]) for module, title in titles.items()])


def write(rows: list[str]) -> None:
    """Put the table between its marks on the page."""
    head = "| us of CPU a call | bare | its own hook, idle | round: Toolcrib beside that | out: Toolcrib beside bare |"
    note = (
        f"A turn with {CALLS + 1} calls ({MANY['claude'] + 1} for Claude, which makes them one by one) less a turn "
        f"with one, divided by the rest; the least of many turns, taken by turns. Python {sys.version.split()[0]}."
    )
    page = PAGE.read_text("utf-8")
    begin, _, rest = page.partition(MARKS[0])
    text = "\n".join([head, "|---|---|---|---|---|", *rows, "", note, ""])
    PAGE.write_text(f"{begin}{MARKS[0]}{text}{MARKS[1]}{rest.partition(MARKS[1])[2]}", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

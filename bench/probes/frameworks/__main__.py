"""Carries out twelve probes on each framework, bare and with Toolcrib, and writes the table of the documentation."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench.environments import ensure
from bench.frameworks import FRAMEWORKS, Framework
from bench.peers import ROOT
from bench.probe import RESULTS

PAGE = ROOT / "docs/frameworks.md"
KEPT = RESULTS / "frameworks.json"
MARKS = ("<!-- probes -->\n", "<!-- /probes -->\n")
Seen = tuple[bool, str]
"""Whether a probe went right, and what was seen."""

PROBES: dict[str, tuple[str, ...]] = {
    "killed in an effect, resumed": ("begin", "die", "finish"),
    "two questions in one tool": ("ask_twice",),
    "800 calls in one turn": ("flood",),
    "sync tool past its deadline": ("overrun",),
    "wrong arguments": ("wrong",),
    "unknown tool": ("unknown",),
    "exception with a secret": ("leak",),
    "cancelled run": ("stop",),
    "restarted while it waits": ("begin", "finish"),
    "approver edits the arguments": ("begin", "edit"),
    "forged approval": ("begin", "forge"),
    "tool changed after approval": ("begin", "agree", "change"),
}


class Worker:
    """The process of a framework that forks one for each step."""

    def __init__(self, python: Path, framework: str) -> None:
        words = [str(python), "-W", "ignore", "-m", "bench.probes.frameworks.worker", framework]
        self.process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def step(self, mode: str, step: str, folder: str) -> tuple[int, Seen]:
        """Carry out one step; its exit code and what it saw."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        path = Path(folder, "seen.json")
        path.unlink(missing_ok=True)
        print(json.dumps([mode, step, folder]), file=self.process.stdin, flush=True)
        code = json.loads(self.process.stdout.readline())
        if not path.exists():
            return code, (False, f"ended with {code}")
        seen = json.loads(path.read_text())
        return code, (seen["right"], seen["what"])

    def carry_out(self, mode: str, steps: tuple[str, ...]) -> Seen:
        """Return whether a probe went right, and what was seen."""
        seen = (False, "nothing")
        with tempfile.TemporaryDirectory() as folder:
            for step in steps:
                code, seen = self.step(mode, step, folder)
                if step == "die":
                    if code != -9:
                        return False, f"was not killed: {seen[1]}"
                elif step in ("begin", "agree") and not seen[0]:
                    return seen
        return seen


def cell(outcome: Seen) -> str:
    """Return one field of the table."""
    return ("" if outcome[0] else "**✗** ") + outcome[1].replace("|", "/")


def main(names: list[str]) -> int:
    """Probe the frameworks with these names, or all, beside what was kept; 1 where a field with Toolcrib is wrong."""
    console, wrong = Console(stderr=True), 0
    kept: dict[str, list[list[Seen]]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    chosen = [one for one in FRAMEWORKS if not names or one.module in names]
    for framework in chosen:
        worker = Worker(ensure(framework, console), framework.module)
        columns = kept[framework.module] = []
        for mode in ("bare", "with Toolcrib"):
            column = []
            for title, steps in PROBES.items():
                seen = worker.carry_out(mode.split()[0], steps)
                wrong += mode != "bare" and not seen[0]
                column.append(seen)
                mark = "✓" if seen[0] else "✗"
                console.print(f"{framework.title}, {mode}: {title}: {mark} {seen[1]}", soft_wrap=True)
            columns.append(column)
        worker.process.communicate()
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept))
    if all(one.module in kept for one in FRAMEWORKS):
        write(table([*FRAMEWORKS], [column for one in FRAMEWORKS for column in kept[one.module]]))
    return 1 if wrong else 0


def table(chosen: list[Framework], columns: list[list[Seen]]) -> str:
    """Return the table, one row a probe."""
    titles = [f"{one.title}, {how}" for one in chosen for how in ("bare", "with Toolcrib")]
    lines = [f"| probe | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for number, title in enumerate(PROBES):
        lines.append(f"| {title} | {' | '.join(cell(column[number]) for column in columns)} |")
    rights = [f"{sum(right for right, _ in column)} of {len(column)}" for column in columns]
    lines.append(f"| right | {' | '.join(rights)} |")
    pins = ", ".join(package for one in chosen for package in one.packages)
    return "\n".join([*lines, "", f"Seen with {pins} and Toolcrib {version('toolcrib')}.", ""])


def write(text: str) -> None:
    """Put the table between its marks on the page."""
    page = PAGE.read_text("utf-8")
    head, _, rest = page.partition(MARKS[0])
    PAGE.write_text(f"{head}{MARKS[0]}{text}{MARKS[1]}{rest.partition(MARKS[1])[2]}", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

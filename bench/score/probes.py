"""Twelve runtime probes over agent frameworks, bare and with Toolcrib; `bench.probes.frameworks` carries them out."""

import json
import subprocess
import sys

from bench.frameworks import FRAMEWORKS
from bench.peers import ROOT
from bench.probes.frameworks.__main__ import KEPT, PROBES, Seen
from bench.score.suite import Score, SuiteUnavailable


def run() -> Score:
    """Probe every framework.

    Raises:
        SuiteUnavailable: a framework cannot be installed.
    """
    KEPT.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "bench.probes.frameworks"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if not KEPT.exists():
        raise SuiteUnavailable((done.stderr or done.stdout).strip().splitlines()[-1])
    return score(json.loads(KEPT.read_text("utf-8")))


def score(cells: dict[str, list[list[Seen]]]) -> Score:
    """Return one row a framework: how many cells are right, with Toolcrib and bare, and which are not."""
    rows: list[tuple[str, ...]] = []
    failed: list[str] = []
    for framework in FRAMEWORKS:
        bare, guarded = cells[framework.module]
        rows.append((f"{framework.title} (`{framework.packages[0]}`)", _right(guarded), _right(bare), _wrong(bare)))
        failed += [
            f"{framework.title} with Toolcrib: {title}: {what}"
            for title, (right, what) in zip(PROBES, guarded, strict=True)
            if not right
        ]
    columns = ("with Toolcrib", "bare", "bare, what went wrong")
    note = "Cell by cell, with how each is judged, on [Frameworks](frameworks.md)."
    return Score("Twelve runtime probes", tuple(rows), tuple(failed), note, columns)


def _right(column: list[Seen]) -> str:
    return f"{sum(right for right, _ in column)} of {len(column)}"


def _wrong(column: list[Seen]) -> str:
    return ", ".join(title for title, (right, _) in zip(PROBES, column, strict=True) if not right)

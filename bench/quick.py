"""`make bench-quick`: three minutes that say what got worse than the committed baseline.

Everything is a ratio to something that is measured beside it by turns, so that a faster or slower machine changes
little. A row counts as worse where its median is worse by more than a tenth, and even its best turn is worse than the
median of the baseline. Timings never fail anything; `--accept` makes what was measured the new baseline.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console

from bench import mcp, ratios
from bench.http import BARE, CONNECTIONS, MEMORY, MODULES, SQLITE
from bench.peers import HERE, ROOT
from bench.peers import MEMORY as IN_MEMORY
from bench.peers import SQLITE as ON_SQLITE
from bench.probe import RESULTS, Failed, probe
from bench.report import draw
from bench.section import Section
from bench.served import served

BASELINE = HERE / "baseline.json"
TURNS = 3
SECONDS = 1.0
WORSE = 0.1
DURABLE = {64: 6_400, 1: 600}
"""Durable calls of a turn, by how many are in flight."""

SHARE = "share"
"""Rows of this unit are the better the higher they are; multiples the lower."""

Turns = dict[str, list[float]]
"""What was measured of each row, in each of its turns."""


class Row(NamedTuple):
    """One row beside its baseline."""

    name: str
    before: list[float]
    now: list[float]

    @property
    def change(self) -> float:
        """How much worse the median is, as a part of that before; below 0 where it is better."""
        before, now = median(self.before), median(self.now)
        return before / now - 1 if _is_share(self.name) else now / before - 1

    @property
    def is_worse(self) -> bool:
        """True if it is worse by more than turns differ."""
        best = max(self.now) if _is_share(self.name) else min(self.now)
        missed = best < median(self.before) if _is_share(self.name) else best > median(self.before)
        return missed and self.change > WORSE


def compare(before: Mapping[str, list[float]], now: Mapping[str, list[float]]) -> list[Row]:
    """The rows that are in both."""
    return [Row(name, before[name], turns) for name, turns in now.items() if name in before]


def _is_share(name: str) -> bool:
    return name.endswith(SHARE)


def _calls(told: Console) -> Iterator[tuple[str, float]]:
    """CPU of calls in process."""
    plan = ratios.Plan(tasks=(1,), rounds=2 * TURNS, slice_s=0.1, peers=False)
    found = ratios.measure(plan, told).data
    for row in (IN_MEMORY, ON_SQLITE):
        for mode, ratio in found[row]["modes"].items():
            for part in ("lowest", "ratio", "highest"):
                yield f"{mode.split()[0]}, {row}, times pydantic-core", ratio[part]


def _durable(_: Console) -> Iterator[tuple[str, float]]:
    for width, calls in DURABLE.items():
        for _turn in range(TURNS):
            found = probe("durable", "start", width, calls, 1)
            yield f"once on SQLite, {width} in flight, raw sqlite3: {SHARE}", found["calls_s"] / found["raw_s"]


def _http(_: Console) -> Iterator[tuple[str, float]]:
    """Calls and turns of an agent over HTTP."""
    for _turn in range(TURNS):
        with served([sys.executable, "bench.probes.mcp.bare"]) as (port, pid):
            bare = probe("http.load", port, pid, "mcp", CONNECTIONS, SECONDS)
            alone = probe("http.load", port, pid, "mcp", 1, SECONDS)
        for row, store in ((MEMORY, "memory"), (SQLITE, "sqlite")):
            with served([sys.executable, f"{MODULES}.crib", store]) as (port, pid):
                many = probe("http.load", port, pid, "calls", CONNECTIONS, SECONDS)
                turn = probe("http.load", port, pid, "ag-ui", 1, SECONDS)
            yield f"call over HTTP, {row}, {BARE}: {SHARE}", many["calls_s"] / bare["calls_s"]
            yield f"turn of an agent over HTTP, {row}, times a request", alone["calls_s"] / turn["calls_s"]


def _mcp(_: Console) -> Iterator[tuple[str, float]]:
    """`tools/call` over HTTP."""
    rows = {
        mcp.BARE: ("bare",),
        mcp.OURS: ("crib", "2", "memory"),
        mcp.KEPT: ("crib", "2", "sqlite"),
    }
    for _turn in range(TURNS):
        speeds: dict[str, dict[int, float]] = {}
        for row, (module, *options) in rows.items():
            with served([sys.executable, f"{mcp.MODULES}.{module}", *options]) as (port, _pid):
                speeds[row] = {width: probe("mcp.load", port, width, SECONDS)["calls_s"] for width in mcp.CONNECTIONS}
        for width in mcp.CONNECTIONS:
            in_memory, kept = speeds[mcp.OURS][width], speeds[mcp.KEPT][width]
            yield f"tools/call, {width} connections, memory, {BARE}: {SHARE}", in_memory / speeds[mcp.BARE][width]
            yield f"tools/call, {width} connections, SQLite, memory: {SHARE}", kept / in_memory


def _commands(_: Console) -> Iterator[tuple[str, float]]:
    """CPU of the command line and of the import, from start to end."""
    for _turn in range(2 * TURNS):
        limit = _cpu_s("-c", "import pydantic.main")
        yield "import toolcrib with its names, times import pydantic", _cpu_s("-c", "from toolcrib import Crib") / limit
        yield "toolcrib --version, times import pydantic", _cpu_s("-m", "toolcrib", "--version") / limit


def _cpu_s(*argv: str) -> float:
    before = _children_s()
    subprocess.run([sys.executable, *argv], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return _children_s() - before


def _children_s() -> float:
    used = os.times()
    return used.children_user + used.children_system


PARTS = {"calls": _calls, "durable": _durable, "http": _http, "mcp": _mcp, "commands": _commands}


def main() -> int:
    """Measure, compare, tell."""
    options = _options()
    told, began = Console(stderr=True), time.monotonic()
    RESULTS.mkdir(exist_ok=True)
    now = measure(told, options.only)
    before = _baseline(options.baseline)
    (RESULTS / "quick.json").write_text(_report(now))
    rows = compare(before, now)
    draw([section(rows, now)])
    worse = [row.name for row in rows if row.is_worse]
    print(f"Worse than the baseline: {'; '.join(worse) or 'nothing'}. It took {time.monotonic() - began:.0f} s.")
    if options.accept:
        options.baseline.write_text(_report({**before, **now}))
        print(f"{options.baseline.name} holds what was measured now.")
    return 0


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m bench.quick", description=__doc__)
    options.add_argument("--only", nargs="+", choices=tuple(PARTS), default=tuple(PARTS), help="some parts")
    options.add_argument("--baseline", type=Path, default=BASELINE, help="what to compare with (bench/baseline.json)")
    options.add_argument("--accept", action="store_true", help="make what was measured the baseline")
    return options.parse_args()


def measure(told: Console, parts: tuple[str, ...]) -> Turns:
    """Every part; one that does not run leaves the others alone."""
    found: Turns = {}
    for name in parts:
        told.print(f"measuring: {name}", style="dim", highlight=False)
        try:
            for row, ratio in PARTS[name](told):
                found.setdefault(row, []).append(round(ratio, 4))
        except Failed as reason:
            told.print(f"{name} does not run: {reason}", style="red", highlight=False, soft_wrap=True)
    return found


def _report(now: Turns) -> str:
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    made = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine, "rows": now}
    return json.dumps(made, indent=2) + "\n"


def _baseline(path: Path) -> Turns:
    if not path.exists():
        return {}
    rows: Turns = json.loads(path.read_text())["rows"]
    return rows


def section(rows: list[Row], now: Turns) -> Section:
    """The table: what was before, what is now, with the spread of its turns."""
    known = {row.name: row for row in rows}
    return Section(
        name="quick",
        title="Ratios, beside the baseline",
        columns=("row", "baseline", "now", "lowest and highest", "worse by"),
        cells=tuple(_cells(name, turns, known.get(name)) for name, turns in now.items()),
        notes=("Shares are the better the higher they are, multiples the lower. Medians of turns.",),
    )


def _cells(name: str, turns: list[float], row: Row | None) -> tuple[str, ...]:
    shown = f"{median(turns):.3g}", f"{min(turns):.3g} .. {max(turns):.3g}"
    if row is None:
        return (name, "-", *shown, "")
    mark = " worse" if row.is_worse else ""
    return (name, f"{median(row.before):.3g}", *shown, f"{row.change:+.0%}{mark}")


if __name__ == "__main__":
    sys.exit(main())

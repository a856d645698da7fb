"""`make faults`: rounds of all set-ups, and the table of what was found.

`make faults ARGS="--minutes 60"`. It ends with 1 where anything was lost, done twice, stuck or wrong. The seed that it
prints makes the same faults again: `--seed 7 --setup cluster --round 3` is one round of them.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import shim
from tests.faults.check import Violation
from tests.faults.forkserver import Forkserver
from tests.faults.round import Report, Round
from tests.faults.setup import SETUPS, Servers, Setup

COLUMNS = ("lost", "twice", "stuck", "gaps", "wrong")
FAULTS = 20
"""Faults in one round."""

AT_ONCE = 2
BAR = 30
SHOWN = 40


@dataclass(frozen=True)
class Plan:
    """What to run: rounds until a time has passed, or some of them."""

    seed: int
    seconds: float
    rounds: tuple[int, ...] = ()
    faults: int = FAULTS
    keep: bool = False
    without: tuple[str, ...] = ()


class Run:
    """Rounds of several set-ups, side by side."""

    def __init__(self, plan: Plan, folder: Path, tell: Callable[[str], None]) -> None:
        self.reports: list[Report] = []
        self._plan = plan
        self._folder = folder
        self._tell = tell
        self._library = shim.build(folder)
        self._forks = Forkserver(self._library)
        self._struck = 0
        self._deadline = time.monotonic() + plan.seconds

    async def run(self, setups: list[Setup]) -> list[Report]:
        """All of them, some at a time, each for its share of the time."""
        places = asyncio.Semaphore(min(AT_ONCE, len(setups)))
        share = self._plan.seconds * min(AT_ONCE, len(setups)) / len(setups)

        async def one(setup: Setup) -> None:
            async with places:
                await self._rounds(setup, time.monotonic() + share)

        try:
            await asyncio.gather(*map(one, setups))
        finally:
            self._forks.close()
        return self.reports

    async def _rounds(self, setup: Setup, deadline: float) -> None:
        servers = await asyncio.to_thread(Servers, setup)
        number = 0
        try:
            while self._plan.rounds[number:] if self._plan.rounds else not number or time.monotonic() < deadline:
                chosen = self._plan.rounds[number] if self._plan.rounds else number
                await self._round(setup, servers, chosen)
                number += 1
        finally:
            await asyncio.to_thread(servers.close)

    async def _round(self, setup: Setup, servers: Servers, number: int) -> None:
        folder = self._folder / f"{setup.name}-{number}"
        folder.mkdir()
        one = Round(setup, servers, self._forks, folder, self._plan.seed, number)
        try:
            await one.run(self._plan.faults, self._library is not None, self._step(setup))
        except Exception:  # noqa: BLE001 - the other rounds go on, and this one is told of
            one.report.violations.append(Violation("wrong", f"the round broke off: {traceback.format_exc()}"))
        report = one.report
        self.reports.append(report)
        if not report.violations and not self._plan.keep:
            shutil.rmtree(folder)

    def _step(self, setup: Setup) -> Callable[[str], None]:
        def tell(kind: str) -> None:
            self._struck += 1
            wrong = sum(len(report.violations) for report in self.reports)
            left = max(0.0, self._deadline - time.monotonic())
            done = BAR - round(BAR * left / self._plan.seconds) if self._plan.seconds else 0
            bar = f"[{'#' * done}{'.' * (BAR - done)}] {left / 60:.1f} min left"
            self._tell(f"{bar}, {self._struck} faults, {wrong} violations; {setup.name}: {kind}")

        return tell


def summary(reports: list[Report]) -> dict[str, dict[str, Any]]:
    """Per set-up: faults by kind, calls, and violations by column."""
    sums: dict[str, dict[str, Any]] = {}
    for report in reports:
        one = sums.setdefault(
            report.setup, {"rounds": 0, "faults": Counter(), "counts": Counter(), "violations": Counter()}
        )
        one["rounds"] += 1
        one["faults"].update(report.faults)
        one["counts"].update(report.counts)
        one["violations"].update(dict.fromkeys(COLUMNS, 0))
        one["violations"].update(violation.column for violation in report.violations)
    return sums


def table(reports: list[Report]) -> list[str]:
    """The counts as people read them."""
    sums = summary(reports)
    kinds = list(dict.fromkeys(kind for setup in SETUPS.values() for kind in setup.faults))
    rows: list[tuple[str, list[object]]] = [(kind, [one["faults"][kind] for one in sums.values()]) for kind in kinds]
    rows.append(("faults", [one["faults"].total() for one in sums.values()]))
    names = ("rounds", "calls", "effects", "events", "ended ok", "ended unknown")
    rows += [(name, [one.get(name) or one["counts"][name] for one in sums.values()]) for name in names]
    rows += [(column, [one["violations"][column] for one in sums.values()]) for column in COLUMNS]
    lines = [f"{'':<18}" + "".join(f"{name:>12}" for name in sums)]
    return lines + [f"{name:<18}" + "".join(f"{value!s:>12}" for value in values) for name, values in rows]


def problems(reports: list[Report]) -> list[str]:
    """Each violation with what is needed to see it again."""
    lines: list[str] = []
    for report in reports:
        if report.violations:
            again = f"--seed {report.seed} --setup {report.setup} --round {report.number}"
            lines.append(f"{report.setup}, round {report.number}, after {report.faults.total()} faults; again: {again}")
            lines += [f"  {one.column}: {one.text}" for one in report.violations[:SHOWN]]
            lines += [f"  {line}" for line in report.log]
    return lines


def run(plan: Plan, names: list[str], folder: Path, tell: Callable[[str], None]) -> list[Report]:
    """Runs the set-ups of these names."""

    async def main() -> list[Report]:
        return await Run(plan, folder, tell).run([SETUPS[name].but(plan.without) for name in names])

    return asyncio.run(main())


def main() -> None:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=4.0, help="how long, for all set-ups together")
    parser.add_argument("--seed", type=int, default=None, help="the same seed makes the same faults")
    parser.add_argument("--setup", action="append", choices=list(SETUPS), help="only this one; may be repeated")
    parser.add_argument("--round", type=int, action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--faults", type=int, default=FAULTS, help="faults in a round")
    parser.add_argument(
        "--without", action="append", default=[], metavar="KIND", help="a kind of fault or use to leave out"
    )
    parser.add_argument("--keep", action="store_true", help="keep stores, logs, ledgers and witness of all rounds")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    rounds, without = tuple(options.round), tuple(options.without)
    plan = Plan(seed, options.minutes * 60, rounds, options.faults, options.keep, without)
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-faults-"))
    folder.chmod(0o755)
    bar = sys.stderr.isatty()

    def tell(text: str) -> None:
        if bar:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    if not options.json:
        print(f"seed {seed}, {options.minutes:g} minutes", flush=True)
        if shutil.which("cc") is None:
            print(shim.NONE)
    reports = run(plan, options.setup or list(SETUPS), folder, tell)
    tell("")
    good = not any(report.violations for report in reports)
    if options.json:
        sums = summary(reports)
        print(json.dumps({"seed": seed, "setups": sums, "problems": problems(reports)}))
    else:
        print("\n".join([*table(reports), *problems(reports)]))
    if good and not options.keep:
        shutil.rmtree(folder)
    elif not options.json:
        print(f"what is left of these rounds is in {os.fspath(folder)}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

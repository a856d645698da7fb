"""A server with many readers for a long time, and the line of its memory: `make soak-readers ARGS="--minutes 30"`.

It ends with 1 where memory grows after the first third of the time, where a call fails, or where the server ends.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression, mean
from typing import NamedTuple

import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.soak.load import Load
from tests.soak.place import MB, Served, served

SAMPLE_S = 3.0
KEPT_S = 20
ROWS = 20
"""Of the table; each is the mean of its samples."""

GROWTH, GROWTH_MB = 0.08, 12.0
"""How much memory may differ from a flat line over the time that counts: in parts of it, or in MB."""


class Sample(NamedTuple):
    """The server at one moment."""

    at: float
    rss: float
    calls: int
    bytes: int
    wait_ms: float


class Verdict(NamedTuple):
    """What the samples after the first third say."""

    mean: float
    per_hour: float
    growth: float

    @property
    def flat(self) -> bool:
        """Whether memory stays where it is."""
        return self.growth < max(GROWTH_MB, GROWTH * self.mean)


def judge(samples: list[Sample]) -> Verdict:
    """Fits a line to the memory after the first third of the time."""
    counted = [one for one in samples if one.at >= samples[-1].at / 3]
    slope, _ = linear_regression([one.at for one in counted], [one.rss for one in counted])
    return Verdict(mean(one.rss for one in counted), slope * 3600, slope * (counted[-1].at - counted[0].at))


def table(samples: list[Sample]) -> Table:
    """The run in a few rows."""
    made = Table("minute", "memory MB", "calls", "read MB", "health ms", title="Memory of the server")
    step = max(1, len(samples) // ROWS)
    for first in range(0, len(samples), step):
        some = samples[first : first + step]
        rss, wait = mean(one.rss for one in some), max(one.wait_ms for one in some)
        last = some[-1]
        made.add_row(f"{last.at / 60:.1f}", f"{rss:.1f}", f"{last.calls:,}", f"{last.bytes / MB:,.0f}", f"{wait:.0f}")
    return made


async def sample(server: Served, load: Load, begun: float) -> Sample:
    """How the server is now."""
    asked = time.perf_counter()
    await server.get("/healthz")
    wait = (time.perf_counter() - asked) * 1000
    return Sample(time.monotonic() - begun, server.rss / MB, load.counts.calls, load.counts.bytes, wait)


async def soak(options: argparse.Namespace, progress: Progress | None) -> tuple[list[Sample], Load]:
    """Runs for as long as was asked for, and samples."""
    seconds, samples = options.minutes * 60, list[Sample]()
    with tempfile.TemporaryDirectory() as folder:
        async with served(Path(folder), str(KEPT_S)) as server:
            load = Load(server, options.seed)
            await load.start(options.clients, options.readers, options.unread)
            begun = time.monotonic()
            task = None if progress is None else progress.add_task("soak", total=seconds, memory="")
            try:
                while time.monotonic() - begun < seconds and load.broken is None:
                    await asyncio.sleep(SAMPLE_S)
                    samples.append(await sample(server, load, begun))
                    if progress is not None and task is not None:
                        progress.update(task, completed=samples[-1].at, memory=f"{samples[-1].rss:.0f} MB")
            finally:
                await load.stop()
    return samples, load


def main() -> None:
    """Reads the options, runs, and says how it went."""
    parser = argparse.ArgumentParser(prog="make soak-readers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--readers", type=int, default=900)
    parser.add_argument("--unread", type=int, default=100, help="readers that never read")
    parser.add_argument("--seed", type=int, default=1)
    options, console = parser.parse_args(), Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[memory]}"),
        TimeRemainingColumn(),
    )
    if console.is_terminal:
        with Progress(*columns, console=console, transient=True) as progress:
            samples, load = uvloop.run(soak(options, progress))
    else:
        samples, load = uvloop.run(soak(options, None))
    console.print(table(samples))
    counts, verdict = load.counts, judge(samples)
    console.print(
        f"{options.clients} clients, {options.readers} readers, {options.unread} that never read; seed {options.seed}\n"
        f"{counts.calls:,} calls in {counts.sessions + options.clients:,} sessions, {counts.returns:,} times a reader "
        f"came back\n"
        f"after the first third: {verdict.mean:.1f} MB, {verdict.per_hour:+.1f} MB an hour, "
        f"{verdict.growth:+.1f} MB over the time"
    )
    problems = [*([load.broken] if load.broken else []), *counts.failed[:5]]
    for problem in problems:
        console.print(f"[red]{problem}[/red]")
    flat = "flat" if verdict.flat else "NOT flat"
    console.print(f"{len(counts.failed)} calls failed; memory is {flat}")
    sys.exit(0 if verdict.flat and not problems else 1)


if __name__ == "__main__":
    main()

"""What the probes of a cluster share: times in milliseconds, CPU by process, and a load."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import Any

import psutil

from toolcrib import Session

PROCESSES = "BENCH_PROCESSES"


def lags(seconds: list[float]) -> dict[str, float]:
    """The median and the bad ones, in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    found = {"p50": cuts[49], "p95": cuts[94], "max": max(seconds)}
    return {name: round(value * 1e3, 3) for name, value in found.items()} | {"count": len(seconds)}


class Meter:
    """CPU and memory of the processes of a cluster, each with its children. This process is the API node."""

    def __init__(self) -> None:
        self._roots = {"api": os.getpid()} | json.loads(os.environ.get(PROCESSES, "{}"))
        self._before: dict[str, dict[int, float]] = {}

    def start(self) -> None:
        """Counts from here."""
        self._before = {name: self._cpu(pid) for name, pid in self._roots.items()}

    def cpu(self) -> dict[str, float]:
        """CPU seconds since the start, by the name of the process."""
        return {name: self._since(name, self._cpu(pid)) for name, pid in self._roots.items()}

    def memory(self) -> dict[str, float]:
        """Memory of its own that each has, in MB; what the processes of a server share is not counted again."""
        return {name: sum(_own_mb(process) for process in _family(pid)) for name, pid in self._roots.items()}

    def _since(self, name: str, now: dict[int, float]) -> float:
        before = self._before[name]
        return sum(seconds - before.get(pid, 0.0) for pid, seconds in now.items())

    def _cpu(self, pid: int) -> dict[int, float]:
        found = {}
        for process in _family(pid):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            found[process.pid] = float(times.user + times.system)
        return found


def _family(pid: int) -> list[Any]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _own_mb(process: Any) -> float:
    try:
        memory = process.memory_info()
    except psutil.NoSuchProcess:
        return 0.0
    return float(memory.rss - memory.shared) / 1e6


@asynccontextmanager
async def load(sessions: list[Session], rate: float, width: int) -> AsyncIterator[None]:
    """Calls at a steady rate while something else is measured, no more than `width` of them in flight."""
    if not rate:
        yield
        return
    tasks = [asyncio.create_task(_pace(sessions[n % len(sessions)], width / rate, n / rate)) for n in range(width)]
    try:
        await asyncio.sleep(1.0)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pace(session: Session, every: float, first: float) -> None:
    due = time.perf_counter() + first
    while True:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        due = max(due + every, time.perf_counter())
        await session.call("echo", {"n": 1})

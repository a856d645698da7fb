"""The line protocol of a worker: `run <workload> <tasks> <calls>` in, CPU seconds out. Standard library only.

A worker first prints one line `ready {"python": ..., "<package>": "<version>", ...}`, after each of its workloads gave
the right answer once. An empty line or the end of the input ends it.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from order import ADD, ORDER

Call = Callable[[bytes], Awaitable[bytes]]

ARGUMENTS = {"add": ADD, "order": ORDER, "turn10": b"go", "turn60": b"go"}
# Text that only a right answer holds: the sum, the last item of the order (which must come back whole), and what the
# model of a turn says once all results of its calls are there.
EXPECTED = {
    "add": (b"777777",),
    "order": (b"ORD-2025-000777", b"SKU-00011"),
    "turn10": (b"done",),
    "turn60": (b"done",),
}


async def _nothing_left() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Lane:
    """How one workload is called; `settle` waits until work put off by the calls is done, on the clock."""

    call: Call
    settle: Callable[[], Awaitable[None]] = _nothing_left


Opener = Callable[[], AbstractAsyncContextManager[Lane]]


def plain(call: Call) -> Opener:
    """Open a lane that needs no set-up."""

    @asynccontextmanager
    async def lane() -> AsyncIterator[Lane]:
        yield Lane(call)

    return lane


async def _one_task(call: Call, text: bytes, calls: int) -> None:
    for _ in range(calls):
        await call(text)


async def _timed(lane: Lane, text: bytes, tasks: int, calls: int) -> float:
    gc.collect()
    start = time.process_time()
    await asyncio.gather(*(_one_task(lane.call, text, calls // tasks) for _ in range(tasks)))
    await lane.settle()
    return time.process_time() - start


async def _check(workload: str, opener: Opener) -> None:
    async with opener() as lane:
        answer = await lane.call(ARGUMENTS[workload])
    for text in EXPECTED[workload]:
        if text not in answer:
            raise SystemExit(f"{workload}: a wrong answer: {answer[:500]!r}")


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in (*packages, "pydantic", "pydantic-core"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "source"
    return found


async def _loop(openers: dict[str, Opener]) -> None:
    while line := sys.stdin.readline().strip():
        _, workload, tasks, calls = line.split()
        async with openers[workload]() as lane:
            seconds = await _timed(lane, ARGUMENTS[workload], int(tasks), int(calls))
        print(f"{seconds:.9f}", flush=True)


async def _main(openers: dict[str, Opener], packages: tuple[str, ...]) -> None:
    for workload, opener in openers.items():
        await _check(workload, opener)
    print("ready", json.dumps(_versions(packages)), flush=True)
    await _loop(openers)


def serve(openers: dict[str, Opener], *packages: str) -> None:
    """Answer run requests until the input ends."""
    asyncio.run(_main(openers, packages))

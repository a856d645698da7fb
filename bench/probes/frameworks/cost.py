"""What a call of one framework costs, bare and with Toolcrib: a turn with many calls less a turn with one."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.probes.frameworks.driver import Setting
from bench.probes.frameworks.worker import Probe
from toolcrib import Crib, tool
from toolcrib.adapters.calls import FrameworkCall, make
from toolcrib.adapters.handlers import Handler, guarded_tool, pass_through

CALLS = 15
MANY = {"claude": 60}
"""More calls of a framework that makes them one after another, and whose turns are long and few."""

ROUNDS, LONG_S = 8, 25.0
"""How many rounds of turns there are at least, and for how long: the quickest of many is the least disturbed."""

SHARED = "shared"
"""The part that all adapters share, without a framework."""

Turn = Callable[[int], Awaitable[float]]
"""Makes a turn with that many calls, and returns the CPU seconds that it took."""


async def add(cents: int) -> str:
    """Add to an account."""
    return "added"


async def pause(cents: int) -> str:
    """Add to an account, with a pause as a body has that waits for something."""
    await asyncio.sleep(0)
    return "added"


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Return the CPU seconds of some work; the collector runs before, not in between."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        await work()
        return time.process_time() - start
    finally:
        gc.enable()


def framework_turn(name: str, way: str) -> Turn:
    """Return a turn of an agent: `bare`, `idle` (a hook of the framework that does nothing), `round` or `out`."""
    probe = Probe(name, is_bare=way in ("bare", "idle"))

    async def turn(calls: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PROBE_FOLDER"] = folder
            wanted = [("add", {"cents": number}) for number in range(calls)]
            if probe.is_bare:
                bare = Setting(Path(folder), (add,), keeps=False, idle=way == "idle")
                return await timed(lambda: probe.driver(bare).start(*wanted))
            async with Crib([tool(add)] if way == "out" else probe._guarded((add,))) as crib:
                session = await crib.open(owner="ada")
                setting = Setting(Path(folder), (add,), session=session, out=way == "out", keeps=False)
                return await timed(lambda: probe.driver(setting).start(*wanted))

    return turn


def shared_turn(way: str) -> Turn:
    """Return the same without a framework: calls one after another, of bodies that pause."""
    schema = tool(add).input_schema

    async def turn(calls: int) -> float:
        async with Crib([tool(pause) if way == "out" else guarded_tool("pause", "Add.", schema, "bench")]) as crib:
            session = await crib.open(owner="ada")

            async def work() -> None:
                for number in range(calls):
                    arguments = {"cents": number}
                    wanted = FrameworkCall("bench", "default.pause", arguments, ("thread", number), None, str(number))
                    if way in ("bare", "idle"):
                        await pause(**arguments)
                    elif way == "out":
                        await make(session, wanted)
                    else:
                        await pass_through(session, wanted, Handler(lambda values: pause(**values)))

            return await timed(work)

    return turn


async def measure(name: str) -> dict[str, float]:
    """Return the microseconds of CPU that one call takes, by the way it is made; the quickest turn of each counts."""
    make_turn = shared_turn if name == SHARED else lambda way: framework_turn(name, way)
    calls = MANY.get(name, CALLS)
    ways = {way: make_turn(way) for way in ("bare", "idle", "round", "out")}
    ones: dict[str, list[float]] = {way: [] for way in ways}
    many: dict[str, list[float]] = {way: [] for way in ways}
    end = time.monotonic() + LONG_S
    while len(ones["bare"]) < ROUNDS or time.monotonic() < end:
        for way, turn in ways.items():
            ones[way].append(await turn(1))
            many[way].append(await turn(1 + calls))
    return {way: round((min(many[way]) - min(ones[way])) / calls * 1e6, 1) for way in ways}


if __name__ == "__main__":
    if sys.argv[1] != SHARED:
        importlib.import_module(f"toolcrib.adapters.{sys.argv[1]}")
    print(json.dumps(asyncio.run(measure(sys.argv[1]))))

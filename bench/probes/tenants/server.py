"""Usage: server <store> <noise> <tool> <connections> <calls>. A quiet owner's calls over HTTP, alone and beside others.

The server and its clients are one process on one loop: what is counted is its CPU time, which does not depend on what
else the machine does, and the time on the clock. Where nothing waits for a disk, no call takes longer than either.
"""

import asyncio
import json
import random
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

from bench.probes.mcp.load import _Caller, whole
from bench.probes.place import place
from bench.probes.tenants.messages import KEYS, calls
from toolcrib import Crib, tool
from toolcrib.serve.http import Site, server, settle
from toolcrib.serve.keys import ApiKeys, digest
from toolcrib.serve.principal import Principal

SLOWEST_S = 0.2
PAUSE_S = 0.002
WARM = 50
_chance = random.Random(7)


@tool(read_only=True)
async def read(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def once(a: int, b: int) -> int:
    """Add two numbers, once."""
    return a + b


@tool(read_only=True)
async def slow(a: int, b: int) -> int:
    """Add two numbers slowly."""
    await asyncio.sleep(_chance.uniform(0, SLOWEST_S))
    return a + b


@asynccontextmanager
async def _served(store: str) -> AsyncIterator[int]:
    """A server with keys for two owners; its port."""
    guard = ApiKeys({digest(key): Principal(name, auth="key") for name, key in KEYS.items()})
    site = Site(Crib([read, once, slow], store=store, policy={"default": "allow"}), guard=guard)
    settle()
    ready = asyncio.Event()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    serving = server(site, ready.set, port=port, timeout_keep_alive=60)
    running = asyncio.ensure_future(serving.serve())
    await ready.wait()
    yield port
    serving.should_exit = True
    await running


async def _quiet(port: int, session: str, name: str, number: int) -> dict[str, list[float]]:
    """What each call of the quiet owner took, one after the other on one connection with a short pause."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found: dict[str, list[float]] = {"cpu": [], "wall": []}
    for made, (request, right) in enumerate(calls("quiet", session, name)):
        used, began, answer = time.process_time(), time.perf_counter(), b""
        writer.write(request)
        while not whole(answer):
            answer += await reader.read(65536)
        if made >= WARM:
            found["cpu"].append(time.process_time() - used)
            found["wall"].append(time.perf_counter() - began)
        if right not in answer:
            raise SystemExit(f"a wrong answer: {answer[:500]!r}")
        if made == WARM + number:
            break
        await asyncio.sleep(PAUSE_S)
    writer.close()
    return found


async def _noisy(port: int, noise: str, connections: int, times: list[float]) -> list[_Caller]:
    """The connections of the noisy owner, each of which sends again when it is answered."""
    loop, callers = asyncio.get_running_loop(), []
    for number in range(connections):
        work = calls("noisy", f"noisy-{number}", noise)
        _, caller = await loop.create_connection(lambda work=work: _Caller(work, times), "127.0.0.1", port)  # type: ignore[misc]
        callers.append(caller)
    await asyncio.gather(*(caller.answered.wait() for caller in callers))
    return callers


def _told(found: dict[str, list[float]]) -> dict[str, float]:
    told = {}
    for name, times in found.items():
        times.sort()
        told[f"{name}_p50_ms"] = round(times[len(times) // 2] * 1e3, 3)
        told[f"{name}_p99_ms"] = round(times[int(len(times) * 0.99)] * 1e3, 3)
    return told


async def main(store: str, noise: str, name: str, connections: int, number: int) -> None:
    """Measure, tell."""
    times: list[float] = []
    async with _served(store) as port:
        alone = await _quiet(port, "alone", name, number)
        callers = await _noisy(port, noise, connections, times)
        times.clear()
        began = time.perf_counter()
        beside = await _quiet(port, "beside", name, number)
        rate = len(times) / (time.perf_counter() - began)
        wrong = [caller.wrong for caller in callers if caller.wrong]
        for caller in callers:
            caller.on = False
        await asyncio.sleep(SLOWEST_S * 2)
    if wrong:
        raise SystemExit(f"a wrong answer: {wrong[0][:500]!r}")
    print(json.dumps({"alone": _told(alone), "beside": _told(beside), "noisy_calls_s": round(rate, 1)}))


if __name__ == "__main__":
    with place(sys.argv[1]) as url:
        uvloop.run(main(url, sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))

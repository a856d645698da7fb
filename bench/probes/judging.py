"""Usage: judging <calls>. CPU per call without rules and with 1,000, and the time to list 10,000 tools."""

import asyncio
import json
import sys
import time
from statistics import median
from typing import Any

from bench.probes.tools import add
from toolcrib import Crib, Session, Tool

TURNS = 9
ARGUMENTS = b'{"a":1,"b":2}'


def _rules() -> list[dict[str, Any]]:
    """Names, globs, ids, expressions and conditions, as a large file has them."""
    makers = (
        lambda n: {"deny": f"tool_{n}"},
        lambda n: {"ask": f"group_{n}_*"},
        lambda n: {"allow": f"space{n}.get_*"},
        lambda n: {"deny": f"/remove_{n}_.*/"},
        lambda n: {"ask": f'edit(path ~ "**/{n}/*.env")'},
    )
    return [makers[n % 5](n) for n in range(1_000)]


async def _slice(session: Session, calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        await session.call("add", ARGUMENTS)
    return (time.process_time() - start) / calls * 1e6


async def _judged(calls: int) -> dict[str, float]:
    async with (
        Crib([add], policy={"preset": "pro"}) as none,
        Crib([add], policy={"preset": "pro", "rules": _rules()}) as many,
    ):
        plain, ruled = [await crib.open("s", owner="bench") for crib in (none, many)]
        turns = [(await _slice(plain, calls), await _slice(ruled, calls)) for _ in range(TURNS)]
    return {"none_us": median(a for a, _ in turns), "many_us": median(b for _, b in turns)}


async def _listed() -> dict[str, float]:
    tools = [Tool(name=f"tool_{n}", namespace=f"space{n % 100}", description="One of many.") for n in range(10_000)]
    async with Crib(tools) as crib:
        session = await crib.open(owner="bench", namespaces=["*"])
        crib.add(Tool(name="one_more", namespace="space1", description="It comes late."))
        times = []
        for _ in range(2):
            start = time.perf_counter()
            assert len(session.tools()) >= 10_000
            times.append((time.perf_counter() - start) * 1e3)
    return {"first_ms": times[0], "again_ms": times[1]}


async def main() -> None:
    print(json.dumps({**await _judged(int(sys.argv[1])), **await _listed()}))


asyncio.run(main())

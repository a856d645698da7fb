"""Whoever waits for a call that another process runs."""

import asyncio
from pathlib import Path

import pytest

from toolcrib import Crib, Refused, tool


async def test_whoever_waits_for_a_call_of_another_process_is_told_when_this_one_ends(tmp_path: Path) -> None:
    go = asyncio.Event()

    @tool(idempotent=True, timeout=60)
    async def hold() -> str:
        """Wait."""
        await go.wait()
        return "held"

    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib([hold], store=url) as first:
        call = await (await first.open("s", owner="ada")).submit("hold")
        async with Crib([hold], store=url) as second:
            waiting = asyncio.ensure_future((await second.open("s", owner="ada")).result(call.id))
            gone = asyncio.ensure_future((await second.open("s", owner="ada")).result(call.id))
            await asyncio.wait({waiting, gone}, timeout=0.1)
            gone.cancel()
        with pytest.raises(Refused, match="The crib was closed before the call was done") as refused:
            await asyncio.wait_for(waiting, 30)
        assert refused.value.code == "unavailable"
        go.set()
        assert (await (await first.open("s", owner="ada")).result(call.id)).data == "held"

"""Whoever waits for a call that another process runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Crib, Refused, tool
from toolcrib._call import cancellation
from toolcrib.types import Failure


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


@requirement("reliability.proof.19")
async def test_a_process_is_asked_once_to_stop_a_call_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "LOOK_S", 0.01)
    begun, told, looks = asyncio.Event(), asyncio.Event(), []

    @tool(idempotent=True, timeout=60)
    async def hold() -> None:
        """Take long to clean up."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await told.wait()

    async def request(*given: Any, new: bool) -> bool:
        looks.append(new)
        if len(looks) == 3:
            told.set()
        return await ask(*given, new=new)

    ask = cancellation._request
    monkeypatch.setattr(cancellation, "_request", request)
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib([hold], store=url) as first:
        call = await (await first.open("s", owner="ada")).submit("hold")
        await begun.wait()
        async with Crib([hold], store=url) as second:
            session = await second.open("s", owner="ada")
            assert await asyncio.wait_for(session.cancel(call.id), 60)
            kinds = [event.kind async for event in session.events(follow=False)]
            again = Failure("cancelled", "Once more")
            assert not await cancellation.stop(session, await session._row(call.id), again)  # it was over before
    assert looks[:3] == [True, False, False]
    assert kinds.count("stop_wanted") == 1

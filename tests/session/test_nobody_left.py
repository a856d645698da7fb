"""Nobody waits for ever: for a call that was stopped while the store was away, or that others had waited for."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Context, Crib, StoreUnavailable, tool
from toolcrib.store import Conflict, Write
from toolcrib.store.sqlite.store import SqliteStore

SOON = 60


class Shaky(SqliteStore):
    """A store that cannot change the rows of calls for a while."""

    away = False

    async def commit(self, write: Write) -> Conflict | None:
        if self.away and write.expect is not None:
            raise StoreUnavailable("away")
        return await super().commit(write)


@requirement("reliability.proof.5")
@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_a_call_that_is_stopped_before_its_start_could_be_written_ends(tmp_path: Path, effect: str) -> None:
    ran = []

    @tool(idempotent=effect == "idempotent")
    async def linger() -> None:
        """Linger."""
        ran.append(1)

    store = Shaky(f"sqlite:///{tmp_path}/log.db")
    async with Crib([linger], store=store) as crib:
        session = await crib.open("s", owner="ada")
        store.away = True
        call = await session.submit("linger")
        await asyncio.wait_for(session.cancel(call.id), SOON)
        store.away = False
        result = await asyncio.wait_for(session.result(call.id), SOON)
        assert result.failure is not None
        kinds = [event.kind async for event in session.events(call=call.id)]
        assert (kinds, ran) == (["accepted", "done"], [])


@requirement("reliability.proof.6")
async def test_who_asks_for_a_result_while_another_leaves_gets_it() -> None:
    gate = asyncio.Event()

    @tool(idempotent=True)
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    async def turns(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async with Crib([hold]) as crib:
        asking = []
        for pause in range(8):  # in one of these moments the reader is told to end and has not ended yet
            session = await crib.open(f"s-{pause}", owner="ada")
            call = await session.submit("hold")
            leaving = asyncio.ensure_future(session._awaited.end_of(call.id))
            await turns(20)
            leaving.cancel()
            await turns(pause)
            asking.append(asyncio.ensure_future(session._awaited.end_of(call.id)))
            await turns(20)
        gate.set()
        events = await asyncio.wait_for(asyncio.gather(*asking), SOON)
        assert {event.kind for event in events} == {"done"}


@requirement("reliability.count.1")
@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_the_first_run_of_a_call_is_its_first_attempt(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    @tool(idempotent=True)
    async def inner(ctx: Context) -> int:
        """The inner one."""
        return ctx.attempt

    @tool
    async def once(ctx: Context) -> int:
        """Once."""
        return ctx.attempt

    @tool(read_only=True)
    async def look(ctx: Context) -> int:
        """Look."""
        await asyncio.sleep(0)
        return ctx.attempt

    @tool(idempotent=True)
    async def outer(ctx: Context) -> list[Any]:
        """Call the others."""
        return [ctx.attempt, *[(await ctx.call(name)).data for name in ("inner", "once", "look")]]

    url = "memory:" if store == "memory" else f"sqlite:///{tmp_path}/log.db"
    url = request.getfixturevalue("postgres_url") if store == "postgres" else url
    async with Crib([inner, once, look, outer], store=url) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.call("outer")).data == [1, 1, 1, 1]
        assert (await session.call("once")).data == 1
        started = [event async for event in session.events(follow=False) if event.kind == "started"]
        assert [event.fields["attempt"] for event in started] == [1] * 5
        assert all(event.at > 0 for event in started)

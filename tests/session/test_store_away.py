"""A store that is away while a call runs: it is waited for, and no body fails for it."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Change, Context, Crib, Result, Session, StoreError, StoreUnavailable, tool
from toolcrib._call import late_writes
from toolcrib.store.sqlite.store import SqliteStore

KEYS: dict[str, Any] = {"total": "add"}


class Shaky(SqliteStore):
    """A store that cannot be read for a while."""

    away = 0

    async def read(self, *args: Any, **more: Any) -> Any:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        return await super().read(*args, **more)


class ShakyIndex(SqliteStore):
    """A store that cannot tell all children of a call for a while."""

    away = 0

    async def calls(self, session: str | None = None, *states: Any, **more: Any) -> Any:
        if self.away and more.get("parent") and not states:
            self.away -= 1
            raise StoreUnavailable("away")
        return await super().calls(session, *states, **more)


@requirement("reliability.proof.4")
async def test_a_parent_that_runs_again_while_the_store_is_away_finds_its_child(tmp_path: Path) -> None:
    begun, url = asyncio.Event(), f"sqlite:///{tmp_path}/log.db"
    store = ShakyIndex(url)

    @tool(idempotent=True)
    async def inner(ctx: Context) -> int:
        """Wait in the first attempt."""
        begun.set()
        await asyncio.sleep(3600 if ctx.attempt == 1 else 0)
        return ctx.attempt

    @tool(idempotent=True)
    async def outer(ctx: Context) -> Any:
        """Have another do it."""
        store.away = 0 if ctx.attempt == 1 else 2
        return (await ctx.call("inner")).data

    async with Crib([inner, outer], store=url) as crib:
        call = await (await crib.open("s", owner="ada")).submit("outer")
        await begun.wait()
        await crib.stop(grace=0)
    async with Crib([inner, outer], store=store) as crib:
        session = await crib.open("s", owner="ada")
        assert (await asyncio.wait_for(session.result(call.id), 30)).data == 2
        assert store.away == 0


@requirement("reliability.proof.3")
async def test_a_call_whose_state_was_changed_by_others_ends_although_the_store_is_away_meanwhile(
    tmp_path: Path,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def count(wait: bool) -> Result:
        """Count."""
        if wait:
            begun.set()
            await go_on.wait()
        return Result("counted", changes=[Change("add", "total", 1)])

    url = f"sqlite:///{tmp_path}/log.db"
    store = Shaky(url)
    async with Crib([count], store=store, state_keys=KEYS) as one, Crib([count], store=url, state_keys=KEYS) as other:
        session, elsewhere = await one.open("s", owner="ada"), await other.open("s", owner="ada")
        call = await session.submit("count", {"wait": True})
        await begun.wait()
        assert (await elsewhere.call("count", {"wait": False})).ok
        store.away = 2
        go_on.set()
        assert (await asyncio.wait_for(session.result(call.id), 30)).ok
        assert (await one.store.call(call.id)).state == "done"  # type: ignore[union-attr]  # it was accepted
        assert session.state.now["total"] == 2


class Refusing(SqliteStore):
    """A store that refuses every end of a call, for a reason that does not pass."""

    async def commit(self, write: Any) -> Any:
        if any(kind == "done" for _, _, kind, _ in write.events):
            raise StoreError("the end is refused")
        return await super().commit(write)


async def test_whoever_waits_for_a_call_whose_end_cannot_be_written_is_told_and_the_trace_has_both_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with Crib([pay], store=Refusing(f"sqlite:///{tmp_path}/log.db")) as crib:
        session = await crib.open("s", owner="ada")
        result = await asyncio.wait_for(session.call("pay"), 30)
    assert result.failure is not None
    assert result.failure.code == "internal"
    traces = [line for line in caplog.records if line.exc_info and "the end is refused" in str(line.exc_info[1])]
    assert len(traces) == 2


class WithoutEnds(SqliteStore):
    """A store that cannot take the ends of some tools' calls, each for so many times, and opens `held` after that."""

    def __init__(self, url: str, held: str = "", **refused: int) -> None:
        super().__init__(url)
        self.held, self.refused, self.tried = held, refused, asyncio.Event()

    async def commit(self, write: Any) -> Any:
        name = "" if write.row is None else write.row.tool.removeprefix("default.")
        if self.refused.get(name) and any(kind == "done" for _, _, kind, _ in write.events):
            self.refused[name] -= 1
            self.tried.set()
            raise StoreUnavailable("full")
        return await super().commit(write)

    async def calls(self, *args: Any, **more: Any) -> Any:
        if not self.held and any(self.refused.values()) and more.get("parent"):
            raise StoreUnavailable("full")
        return await super().calls(*args, **more)

    async def read(self, session: str, *args: Any, **more: Any) -> Any:
        if self.held and session == self.held:
            await self.tried.wait()
        return await super().read(session, *args, **more)


def nested(begun: asyncio.Event) -> list[Any]:
    """A call that makes another, which ends in its second attempt."""

    @tool(idempotent=True)
    async def inner(ctx: Context) -> int:
        """Wait in the first attempt."""
        begun.set()
        await asyncio.sleep(3600 if ctx.attempt == 1 else 0)
        return ctx.attempt

    @tool(idempotent=True)
    async def outer(ctx: Context) -> Any:
        """Have another do it."""
        return (await ctx.call("inner")).data

    return [inner, outer]


async def ends(session: Session) -> list[str]:
    """The tools of the calls in a session, in the order in which they ended."""
    tools = {row.id: row.tool for row in await session.crib.store.calls(session.id)}
    events = await session.crib.store.read(session.id)
    return [tools[event.call].removeprefix("default.") for event in events if event.kind == "done" and event.call]


@requirement("reliability.logout.4")
async def test_a_child_that_ends_while_its_crib_starts_is_recorded_before_its_parent(tmp_path: Path) -> None:
    begun, url = asyncio.Event(), f"sqlite:///{tmp_path}/log.db"
    tools = nested(begun)
    async with Crib(tools, store=url) as crib:
        call = await (await crib.open("s", owner="ada")).submit("outer")
        await begun.wait()
        begun.clear()
        await (await crib.open("later", owner="ada")).submit("inner")
        await begun.wait()
        await crib.stop(grace=0)
    store = WithoutEnds(url, held="later", inner=1)
    async with Crib(tools, store=store) as crib:
        session = await crib.open("s", owner="ada")
        result = await asyncio.wait_for(session.result(call.id), 30)
        assert store.tried.is_set()
        assert result.data == 2
        assert await ends(session) == ["inner", "outer"]


@requirement("reliability.logout.4")
async def test_the_end_of_a_stopped_parent_waits_for_that_of_its_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_writes, "RETRY_S", 0.02)
    begun = asyncio.Event()
    store = WithoutEnds(f"sqlite:///{tmp_path}/log.db", inner=5, outer=1)
    async with Crib(nested(begun), store=store) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("outer")
        await begun.wait()
        with suppress(StoreError):
            await session.cancel(call.id)
        async with asyncio.timeout(30):
            while len(await ends(session)) < 2:  # noqa: ASYNC110 - nobody is told of ends that are written later
                await asyncio.sleep(0.01)
        assert await ends(session) == ["inner", "outer"]

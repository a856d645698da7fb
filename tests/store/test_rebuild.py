"""The index is what the log says, and can be made from it again: whatever calls did, and so that they go on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import Gate
from toolcrib import Context, Crib, CribLimits, Refused, Session, ToolFailure, tool
from toolcrib.cli.verify import differences, every_session, mend, rows_from_log
from toolcrib.store import Row, Store, open_store
from toolcrib.testing import check_index
from toolcrib.testing.stores.fixture import AT, answer, claim, commit, finish, new, park, settle, submit


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db")


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def pay(cents: int) -> str:
    """Pay."""
    if cents < 0:
        raise ToolFailure("failed", "Too little")
    return f"paid {cents}"


@tool
async def send(ctx: Context) -> list[Any]:
    """Ask twice, and call another."""
    first = await ctx.ask("Where to?", key="where")
    second = await ctx.ask("How fast?", key="fast")
    return [first.value, second.value, (await ctx.call("pay", {"cents": 1})).data]


@tool(requires_confirmation=True)
async def wipe() -> str:
    """Wipe."""
    return "empty"


@tool(background=True)
async def export() -> int:
    """Export."""
    return 1


TOOLS = (look, pay, send, wipe, export)


async def known(store: Store, session: str) -> list[dict[str, Any]]:
    """The index, without what only whoever runs a call knows."""
    return [plain(row) for row in await store.calls(session)]


def plain(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.values().items() if name not in ("worker", "crashes")}


async def answered(session: Session, *values: str) -> None:
    for value in values:
        (question,) = await session.questions()
        await session.answer(question.id, "accept", value)
        await asyncio.gather(*(live.ended() for live in list(session.live.values())))


@requirement("store.2")
async def test_the_rows_of_all_kinds_of_calls_follow_from_their_events(store: Store) -> None:
    async with Crib(TOOLS, store=store) as crib:
        session = await crib.open("s", owner="ada")
        await session.call("look")
        await session.call("pay", {"cents": -1})
        await session.call("pay", {"cents": 5}, key="once")
        await session.call("nothing")
        await session.result((await session.call("export")).data["id"])
        sent = await session.submit("send")
        await asyncio.gather(*(live.ended() for live in list(session.live.values())))
        await answered(session, "Bern", "fast")
        assert (await session.result(sent.id)).data == ["Bern", "fast", "paid 1"]
        await session.submit("wipe")
        await store.flush()
        assert [plain(row) for row in await rows_from_log(store, "s")] == await known(store, "s")
        assert await differences(store, "s") == []


@requirement("store.2")
async def test_a_call_that_waits_is_answered_after_its_row_was_made_anew(store: Store) -> None:
    async with Crib(TOOLS, store=store) as crib:
        session = await crib.open("s", owner="ada")
        sent = await session.submit("send")
        await asyncio.gather(*(live.ended() for live in list(session.live.values())))
        await answered(session, "Bern")
        await store.rebuild("s", [])
        with pytest.raises(Refused, match="No such call"):
            await session.status(sent.id)
        mended = await mend(store, "s")
        assert ([one.problem for one in mended.differing], mended.left) == (["is in the log, not in the index"], [])
        await answered(session, "fast")
        assert (await session.result(sent.id)).data == ["Bern", "fast", "paid 1"]
        await check_index(store, "s")


@requirement("store.2")
async def test_a_call_that_may_happen_once_and_ran_is_not_started_again(store: Store) -> None:
    gate, runs = Gate(), []

    @tool
    async def charge(ctx: Context) -> None:
        """Charge, once it was told to."""
        await ctx.ask("Sure?")
        runs.append(ctx.id)
        await gate.passed()

    async with Crib([charge], store=store, limits=CribLimits(cleanup_s=0.1)) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("charge")
        await asyncio.gather(*(live.ended() for live in list(session.live.values())))
        (question,) = await session.questions()
        await session.answer(question.id, "accept")
        await gate.wait()
        await crib.stop(grace=0)
    await store.start("mender")
    await store.rebuild("s", await rows_from_log(store, "s"))
    (row,) = await store.calls("s")
    assert (row.state, row.worker, row.attempt) == ("running", None, 2)
    await store.close()
    async with Crib([charge], store=store) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.status(call.id)).status == "unknown"
        assert runs == [call.id]


@requirement("store.2")
async def test_a_queued_call_starts_after_its_row_was_made_anew(store: Store) -> None:
    await store.start("worker-1")
    await store.open("s", "ada", AT)
    await store.commit(submit(new("c")))
    await store.rebuild("s", await rows_from_log(store, "s"))
    (row,) = await store.calls("s", ("queued",))
    assert (row.attempt, row.worker) == (0, None)
    assert await store.commit(claim(row)) is None
    await store.close()


@requirement("store.2")
async def test_a_settled_call_is_made_anew_as_it_was_settled(store: Store) -> None:
    await store.start("worker-1")
    await store.open("s", "ada", AT)
    running = await commit(store, claim(await commit(store, submit(new("c")))))
    unknown = await commit(store, finish(running, "unknown"))
    assert await differences(store, "s") == []
    settled = await commit(store, settle(unknown, data="paid"))
    assert await differences(store, "s") == []
    await store.rebuild("s", [settled.but(code="unknown", done_seq=3)])
    assert len(await differences(store, "s")) == 2
    assert (await mend(store, "s")).left == []
    (row,) = await store.calls("s", done_after=0)
    assert (row.code, row.done_seq, row.attempt) == (None, 4, 1)
    await check_index(store, "s")
    await store.close()


async def test_a_call_that_was_asked_and_never_started_keeps_its_questions_apart(store: Store) -> None:
    await store.start("worker-1")
    await store.open("s", "ada", AT)
    row = await commit(store, answer(await commit(store, park(await commit(store, submit(new("c")))))))
    again = park(row, 2)
    assert again.row is not None
    again.row.attempt = 1
    assert await store.commit(again) is None
    (told,) = await rows_from_log(store, "s")
    assert (told.state, told.question, told.attempt) == ("waiting", "c-2", 1)
    await store.close()


async def test_every_session_is_looked_at_however_many_there_are(store: Store) -> None:
    await store.start("worker-1")
    for n in range(2100):
        await store.open(f"s{n}", "ada", AT + n % 3)
    assert len({row.id async for row in every_session(store)}) == 2100
    await store.close()

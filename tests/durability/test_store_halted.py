"""A database that is halted, not dead: it keeps its connections and answers nothing. Whoever asks is told in time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.cluster.place import PATIENCE_S, again, halted, until
from tests.requirements import requirement
from toolcrib import Context, Crib, Session, tool
from toolcrib.errors import StoreUnavailable
from toolcrib.store.postgres.connection import DatabaseAddress
from toolcrib.testing.index_check import check_index
from toolcrib.testing.services import PostgresServer, execute

LET_GO = "ALTER SYSTEM RESET synchronous_standby_names"
HOLD = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"
"""Commits are made, and yet not told of, as of a server that was halted while it wrote to its disk."""


class Bodies:
    """Tools of every effect, which count how often each number ran."""

    def __init__(self) -> None:
        self.ran: Counter[int] = Counter()
        self.reached, self.go = asyncio.Event(), asyncio.Event()

        @tool(effect="once")
        async def pay(n: int) -> int:
            """Pay."""
            self.ran[n] += 1
            return n

        @tool(effect="idempotent")
        async def index(n: int) -> int:
            """Index."""
            self.ran[n] += 1
            return n

        @tool(effect="once")
        async def ask(ctx: Context, n: int) -> Any:
            """Ask before it is done."""
            answer = await ctx.ask("Really?")
            self.ran[n] += 1
            return answer.value

        @tool(effect="once")
        async def linger(n: int) -> int:
            """Take long."""
            self.ran[n] += 1
            self.reached.set()
            await self.go.wait()
            return n

        self.tools = [pay, index, ask, linger]


async def refused(work: Awaitable[Any]) -> bool:
    """Whether it ends as `unavailable`, raised or as the result of a call."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            result = await work
    except StoreUnavailable:
        return True
    return code(result) == "unavailable"


async def in_doubt(work: Awaitable[Any]) -> bool:
    """Whether it ends as `unavailable`, and says that it may have been accepted."""
    try:
        result = await asyncio.wait_for(work, PATIENCE_S)
    except StoreUnavailable as error:
        return error.in_doubt
    return code(result) == "unavailable" and result.metadata == {"in_doubt": True} and "same key" in str(result.failure)


def code(result: Any) -> str | None:
    """The code of the failure of a call."""
    failure = getattr(result, "failure", None)
    return None if failure is None else failure.code


async def question_of(session: Session) -> str:
    """The one open question."""
    (question,) = await session.questions()
    return question.id


@requirement("reliability.stop.2")
async def test_whoever_asks_a_halted_database_is_told_and_nothing_refused_runs_later(
    own_postgres: PostgresServer,
) -> None:
    bodies = Bodies()
    async with Crib(bodies.tools, store=own_postgres.url) as crib:
        session = await crib.open("s", owner="ada")
        before = await session.submit("pay", {"n": 1})
        waiting = await session.submit("ask", {"n": 2})
        await until(lambda: bodies.ran[1])
        async with asyncio.timeout(PATIENCE_S):
            while not await session.questions():  # noqa: ASYNC110 - the question is told of by the log alone
                await asyncio.sleep(0.01)
        question = await question_of(session)
        with halted(own_postgres):
            asked = {
                "call once": session.call("pay", {"n": 10}),
                "call idempotent": session.call("index", {"n": 11}),
                "submit": session.submit("pay", {"n": 12}),
                "submit with a key": session.submit("index", {"n": 13}, key="k"),
                "open": crib.open("t", owner="ada"),
                "open again": crib.open("s", owner="ada"),
                "answer": session.answer(question, "accept", {}),
                "cancel": session.cancel(waiting.id),
                "result": session.result(before.id),
                "sessions": crib.sessions("ada"),
                "notice": session.notice("hello"),
            }
            told = await asyncio.gather(*map(refused, asked.values()))
        assert {name for name, one in zip(asked, told, strict=True) if not one} == set()
        assert await paid(session, 20)
        assert (await again(lambda: session.result(before.id))).data == 1
        await session.answer(question, "accept", {})
        assert (await session.result(waiting.id)).failure is None
    async with Crib(bodies.tools, store=own_postgres.url) as crib:  # nor does anybody find it
        assert (await (await crib.open("s", owner="ada")).call("pay", {"n": 21})).data == 21
    assert bodies.ran == {1: 1, 2: 1, 20: 1, 21: 1}


@requirement("reliability.stop.2")
async def test_a_reader_is_told_of_a_halted_database_however_long_it_may_wait_for_one_that_answers_others(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.store.postgres.connection.READ_S", 10 * PATIENCE_S)
    async with Crib(store=own_postgres.url) as crib:
        await crib.open("s", owner="ada")
        assert len(await crib.sessions("ada")) == 1
        with halted(own_postgres):
            assert await refused(crib.sessions("ada"))


@requirement("reliability.stop.2")
async def test_what_a_halted_database_was_about_to_write_is_not_written_later(own_postgres: PostgresServer) -> None:
    bodies = Bodies()
    async with Crib(bodies.tools, store=own_postgres.url) as crib:
        session = await crib.open("s", owner="ada")
        await session.call("pay", {"n": 1})
        with halted(own_postgres):
            # Nothing is read before these, so that they are on their way to the server.
            calls = [session.submit("pay", {"n": n}) for n in range(10, 30)]
            assert all(await asyncio.gather(*map(refused, calls)))
        assert await paid(session, 2)
        kinds = Counter(event.kind for event in [event async for event in session.events(follow=False)])
    assert bodies.ran == {1: 1, 2: 1}
    assert kinds["accepted"] == kinds["done"] == 2


@requirement("reliability.stop.2")
@pytest.mark.parametrize("how", ["call pay", "submit pay", "submit show"])
async def test_a_refused_call_that_was_written_after_all_never_runs(own_postgres: PostgresServer, how: str) -> None:
    bodies = Bodies()
    async with Crib(bodies.tools, store=own_postgres.url) as crib:
        session = await crib.open("s", owner="ada")
        await session.offer(
            [{"name": "show", "description": "The client shows it.", "input_schema": {"type": "object"}}]
        )
        await hold(own_postgres)
        way, name = how.split()
        assert await in_doubt(getattr(session, way)(name, {"n": 1}, key="k"))
        await let_go(own_postgres)
        assert await paid(session, 2)
        (first,) = [row for row in await crib.store.calls("s") if row.accepted_seq == 3]
        end = await asyncio.wait_for(session.result(first.id), PATIENCE_S)
        assert code(end) == "unavailable"
        assert await session.questions() == []
        await check_index(crib.store, "s")
        if way == "submit" and name == "pay":  # its key is free again
            assert (await session.call(name, {"n": 1}, key="k")).data == 1
            await check_index(crib.store, "s")
    assert bodies.ran == ({2: 1} if how != "submit pay" else {1: 1, 2: 1})


@requirement("reliability.stop.2")
async def test_an_answer_that_was_written_after_all_is_taken_once(own_postgres: PostgresServer) -> None:
    bodies = Bodies()
    async with Crib(bodies.tools, store=own_postgres.url) as crib:
        session = await crib.open("s", owner="ada")
        waiting = await session.submit("ask", {"n": 1})
        async with asyncio.timeout(PATIENCE_S):
            while not await session.questions():  # noqa: ASYNC110 - the question is told of by the log alone
                await asyncio.sleep(0.01)
        question = await question_of(session)
        await hold(own_postgres)
        assert await refused(session.answer(question, "accept", {"x": 1}, key="k"))
        await let_go(own_postgres)
        assert (await again(lambda: session.answer(question, "accept", {"x": 1}, key="k"))).accepted
        assert (await again(lambda: session.result(waiting.id))).data == {"x": 1}
    assert bodies.ran == {1: 1}


@requirement("reliability.stop.2")
async def test_a_call_that_is_cancelled_while_the_database_is_halted_ends_when_it_is_back(
    own_postgres: PostgresServer,
) -> None:
    bodies = Bodies()
    async with Crib(bodies.tools, store=own_postgres.url) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("linger", {"n": 1})
        await asyncio.wait_for(bodies.reached.wait(), PATIENCE_S)
        with halted(own_postgres):
            assert await refused(session.cancel(call.id))
        result = await again(lambda: session.result(call.id))
        assert code(result) == "cancelled"
    assert bodies.ran == {1: 1}


@requirement("reliability.stop.2")
async def test_a_call_that_ran_is_recorded_once_though_the_database_was_halted(own_postgres: PostgresServer) -> None:
    bodies = Bodies()
    async with Crib(bodies.tools, store=own_postgres.url) as crib:
        session = await crib.open("s", owner="ada")
        caller = asyncio.ensure_future(session.call("linger", {"n": 1}))
        await asyncio.wait_for(bodies.reached.wait(), PATIENCE_S)
        with halted(own_postgres):
            bodies.go.set()
            assert await refused(session.submit("pay", {"n": 2}))
        assert (await asyncio.wait_for(caller, PATIENCE_S)).data == 1
        ends = [event.kind async for event in session.events(follow=False) if event.kind == "done"]
    assert (bodies.ran, ends) == ({1: 1}, ["done"])


@requirement("reliability.stop.3")
async def test_an_idle_crib_stops_although_its_database_is_halted(own_postgres: PostgresServer) -> None:
    crib = Crib(store=own_postgres.url)
    await crib.start()
    with halted(own_postgres):
        async with asyncio.timeout(PATIENCE_S):
            await crib.stop()
    async with Crib(store=own_postgres.url) as later:
        assert await later.sessions() == []


@requirement("reliability.stop.3")
async def test_a_crib_that_works_stops_although_its_database_is_halted(own_postgres: PostgresServer) -> None:
    bodies, store = Bodies(), f"{own_postgres.url}?lease=1"
    crib = Crib(bodies.tools, store=store)
    await crib.start()
    session = await crib.open("s", owner="ada")
    caller = asyncio.ensure_future(session.call("linger", {"n": 1}))
    await asyncio.wait_for(bodies.reached.wait(), PATIENCE_S)
    with halted(own_postgres):
        bodies.go.set()
        reading = asyncio.ensure_future(refused(crib.sessions("ada")))
        async with asyncio.timeout(PATIENCE_S):
            await crib.stop(grace=1.0)
        assert await reading
        assert await asyncio.wait_for(refused(caller), PATIENCE_S)
    async with Crib(bodies.tools, store=store) as later:  # what could not be recorded is what it is after a kill
        (row,) = await later.store.calls("s")
        end = await asyncio.wait_for((await later.open("s", owner="ada")).result(row.id), PATIENCE_S)
        assert code(end) == "unknown"
    assert bodies.ran == {1: 1}


async def hold(server: PostgresServer) -> None:
    """Nobody is told from now on that something was written; returns when that is so."""
    address = DatabaseAddress(server.url)
    writer, looker = await address.connect(PATIENCE_S), await address.connect(PATIENCE_S)
    await writer.execute("CREATE TABLE held (n integer)")
    await asyncio.to_thread(execute, server.url, HOLD)
    await asyncio.to_thread(execute, server.url, "SELECT pg_reload_conf()")
    look = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {writer.get_server_pid()}"
    async with asyncio.timeout(PATIENCE_S):
        while await looker.fetchval(look) != "SyncRep":
            writing = asyncio.ensure_future(writer.execute("INSERT INTO held VALUES (1)"))
            while not writing.done() and await looker.fetchval(look) != "SyncRep":  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
    for connection in (writer, looker):
        connection.terminate()
    await asyncio.wait([writing])
    writing.exception()


async def let_go(server: PostgresServer) -> None:
    """All are told."""
    await asyncio.to_thread(execute, server.url, LET_GO)
    await asyncio.to_thread(execute, server.url, "SELECT pg_reload_conf()")


async def paid(session: Session, n: int) -> bool:
    """Whether a call ends well, made again as long as the store is away."""
    async with asyncio.timeout(PATIENCE_S):
        while code(result := await session.call("pay", {"n": n})) == "unavailable":
            pass
    return bool(result.data == n)

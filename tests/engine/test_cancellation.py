"""A node that leaves on purpose takes nothing new, finishes what it can, and spoils nothing of what it leaves."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.engine.place import SOON_S, Log, cluster, code, family, nats_of, node, question, result, until
from tests.requirements import requirement
from toolcrib import Crib, Session
from toolcrib.store import Row
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.types import CribLimits, Failure


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


async def leaving(crib: Crib) -> "asyncio.Task[None]":
    """A node that has just been told to stop, and has time to."""
    task = asyncio.create_task(crib.stop(grace=30))
    await asyncio.sleep(0)
    return task


@requirement("engine.6")
async def test_a_worker_that_is_told_to_stop_takes_no_call_that_comes_then(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=family) as (api, one):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        first = await session.submit("shop.keep", {"order": "A"})
        await log.until_ran(("w1", "A"))
        stopping = await leaving(one)
        second = await session.submit("shop.keep", {"order": "B"})
        async with node(urls, log, "w2", kit=family):
            await log.until_ran(("w2", "B"))
            log.gate("A").set()
            await asyncio.wait_for(stopping, SOON_S)
            log.gate("B").set()
            assert (await result(session, first.id)).data == "A on w1"
            assert (await result(session, second.id)).data == "B on w2"


@requirement("engine.6")
async def test_a_call_on_its_way_to_a_worker_that_is_told_to_stop_goes_to_another_at_once(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(store: PostgresStore, *given: Any, **more: Any) -> list[Row]:
        """No hint is said again: one that is lost on the way stays lost for the time of a lease."""
        return []

    monkeypatch.setattr(PostgresStore, "stale", nothing)
    log = Log()
    log.release()
    async with cluster(urls, log, kit=family) as (api, one):
        session, calls = await api.open("s", owner="ada", namespaces=["shop"]), list[str]()
        hints, client = nats_of(api)._client, nats_of(one)._client
        leave = client._send_unsubscribe

        async def leave_late(*given: Any, **more: Any) -> None:
            """A hint is sent to the worker just before the server hears that it wants no more."""
            if not calls:
                calls.append((await session.submit("shop.keep", {"order": "A"})).id)
                await asyncio.gather(*nats_of(api)._tasks)
                await hints.flush()
            await leave(*given, **more)

        monkeypatch.setattr(client, "_send_unsubscribe", leave_late)
        await asyncio.wait_for(one.stop(grace=30), SOON_S)
        async with node(urls, log, "w2", kit=family):
            assert (await result(session, calls[0])).data == "A on w2"


@requirement("engine.6")
async def test_a_worker_that_is_told_to_stop_waits_for_what_its_calls_have_called(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=family, slots=1) as (api, one):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.outer", {"child": "inner"})
        await log.until_ran(("w1", "outer inner"))
        async with node(urls, log, "w2", kit=family):
            await log.until_ran(("w2", "inner"))
            stopping = await leaving(one)
            log.gate("inner tells").set()
            await output(session)
            log.gate("inner").set()
            outcome = await result(session, call.id)
            assert outcome.data == "inner on w2 and leaf on w1 of w1"
            await asyncio.wait_for(stopping, SOON_S)


async def output(session: Session) -> None:
    """Waits for something that a call puts out, in the log."""
    async with asyncio.timeout(SOON_S):
        async for event in session.events():
            if event.kind == "output":
                return


@requirement("engine.6")
async def test_what_a_call_of_a_worker_that_leaves_has_asked_stays_asked(urls: tuple[str, str]) -> None:
    log = Log()
    log.gate("asking").set()
    async with cluster(urls, log, kit=family) as (api, one):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.outer", {"child": "asking"})
        asked = await question(session)
        async with node(urls, log, "w2", kit=family):
            await one.stop(grace=0)
            assert [open.id for open in await session.questions()] == [asked]
            await session.answer(asked, "accept", "yes")
            assert (await result(session, call.id)).data == "yes and leaf on w2 of w2"


@requirement("engine.1")
async def test_what_a_call_has_asked_stays_asked_when_its_process_ends(tmp_path: Path) -> None:
    log, store = Log(), f"sqlite:///{tmp_path}/log.db"
    log.gate("asking").set()
    async with Crib(family(log, "first"), store=store) as crib:
        session = await crib.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.outer", {"child": "asking"})
        asked = await question(session)
        await crib.stop(grace=0)
    async with Crib(family(log, "second"), store=store) as crib:
        session = await crib.open("s", owner="ada")
        assert [open.id for open in await session.questions()] == [asked]
        await session.answer(asked, "accept", "yes")
        assert (await result(session, call.id)).data == "yes and leaf on second of second"


@requirement("engine.1")
async def test_a_parent_does_not_see_the_end_of_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, store = Log(), f"sqlite:///{tmp_path}/log.db"
    log.gate("asking").set()
    async with Crib(family(log, "first"), store=store) as crib:
        session = await crib.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.outer", {"child": "asking"})
        asked = await question(session)
        stop = crib.rescue.stop

        async def reads() -> bool:
            return session._awaited._reader is not None

        async def write_and_stop() -> None:
            """Lets the reader of the log see that the crib ends before the parent is cancelled."""
            await until(reads)
            await session.notice("the reader goes on")
            assert session._awaited._reader is not None
            await asyncio.wait([session._awaited._reader], timeout=SOON_S)
            await stop()

        monkeypatch.setattr(crib.rescue, "stop", write_and_stop)
        await crib.stop(grace=0)
    async with Crib(family(log, "second"), store=store) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(asked, "accept", "yes")
        assert (await result(session, call.id)).data == "yes and leaf on second of second"


@requirement("engine.6")
async def test_to_be_left_by_a_worker_that_stops_is_no_crash(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, limits=CribLimits(attempts=1)) as (api, one):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.hold", {"order": "A"})
        await log.until_ran(("w1", "A"))
        async with node(urls, log, "w2", limits=CribLimits(attempts=1)):
            await one.stop(grace=0)
            await log.until_ran(("w2", "A"))
            log.go.set()
            assert (await result(session, call.id)).ok
            row = await api.store.call(call.id)
            assert row is not None
            assert row.crashes == 0


@requirement("engine.2")
async def test_a_call_that_is_just_coming_to_ask_is_cancelled(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    async with cluster(urls, log, kit=family) as (api, one):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.asking", {"order": "A"})
        await log.until_ran(("w1", "A"))
        there = one._session_table.at_hand("s")
        assert there is not None
        live = there.live[call.id]
        answered = told(api, monkeypatch)
        async with held_back(urls[0], "s"):  # so that the question is on its way for a while
            log.gate("A").set()
            await until(lambda: _true(live.concluding))
            cancelling = asyncio.create_task(session.cancel(call.id))
            await asyncio.wait_for(answered.wait(), SOON_S)
        assert await asyncio.wait_for(cancelling, SOON_S)
        assert code(await result(session, call.id)) == "cancelled"


async def _true(value: bool) -> bool:
    return value


class held_back:  # noqa: N801 - read as a verb
    """Nobody writes to a session meanwhile."""

    def __init__(self, url: str, session: str) -> None:
        self._url, self._session = url, session

    async def __aenter__(self) -> None:
        self._connection = await asyncpg.connect(self._url)
        self._transaction = self._connection.transaction()
        await self._transaction.start()
        await self._connection.execute("SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE", self._session)

    async def __aexit__(self, *exc: object) -> None:
        await self._transaction.rollback()
        await self._connection.close()


def told(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a worker that this node asked to stop a call has said something."""
    engine, answered = nats_of(crib), asyncio.Event()
    stop_call = engine.stop_call

    async def stop(row: Row, failure: Failure) -> bool:
        heard = await stop_call(row, failure)
        answered.set()
        return heard

    monkeypatch.setattr(engine, "stop_call", stop)
    return answered

"""What a worker does with a hint: run the call, leave it, or say where it belongs. No queue stands between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.engine.place import SOON_S, Log, cluster, node, result, tools
from tests.requirements import requirement
from toolcrib import Crib, Session
from toolcrib.engine.worker import LATER_S, RETRY_S, Worker
from toolcrib.errors import StoreUnavailable
from toolcrib.store import Conflict, Write
from toolcrib.store.shared import SharedStore


class Hints:
    """Gives hints to a worker, and gathers what it says of each."""

    def __init__(self, crib: Crib) -> None:
        self.crib = crib
        self.store: SharedStore = crib.store  # type: ignore[assignment]  # that of a cluster is shared
        self.worker = Worker(crib, self.store)

    async def say(self, call: str, times: int = 1) -> list[float | str | None]:
        """What it says of hints for a call that come together."""
        said: asyncio.Queue[float | str | None] = asyncio.Queue()
        for _ in range(times):
            self.worker.hint(call, said.put_nowait)
        async with asyncio.timeout(SOON_S):
            told = [await said.get() for _ in range(times)]
        assert said.empty()
        return told


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


@asynccontextmanager
async def idle(urls: tuple[str, str], log: Log, kit: Any = tools) -> AsyncIterator[tuple[Session, Hints]]:
    """A session whose calls nobody runs, and a node that takes what the test tells it to."""
    async with cluster(urls, log, ()) as (api,), node(urls, log, "w1", kit=kit, work=False) as crib:
        yield await api.open("s", owner="ada", namespaces=["shop"]), Hints(crib)


@requirement("engine.4")
async def test_a_hint_has_a_queued_call_run_once_however_often_it_comes(urls: tuple[str, str]) -> None:
    log = Log()
    async with idle(urls, log) as (session, hints):
        call = await session.submit("shop.pay", {"order": "A"})
        assert await hints.say(call.id, times=3) == [None, None, None]
        assert (await result(session, call.id)).data == "paid A on w1"
        assert (log.ran, hints.worker.done) == ([("w1", "A")], 1)


@requirement("engine.4")
async def test_a_hint_for_what_is_done_or_waits_or_is_not_there_is_done_with(urls: tuple[str, str]) -> None:
    log = Log()
    async with idle(urls, log) as (session, hints):
        done, asks = await session.submit("shop.pay", {"order": "A"}), await session.submit("shop.ask", {"order": "B"})
        for call in (done, asks):
            await hints.say(call.id)
        await result(session, done.id)
        assert [await hints.say(id) for id in (done.id, asks.id, "c-of-nobody")] == [[None], [None], [None]]
        assert (log.ran, hints.worker.done) == ([("w1", "A")], 1)


@requirement("engine.4")
async def test_a_hint_for_a_call_that_runs_here_is_done_with_and_elsewhere_comes_again(urls: tuple[str, str]) -> None:
    log = Log()
    async with idle(urls, log) as (session, hints), node(urls, log, "w2", work=False) as other:
        call = await session.submit("shop.hold", {"order": "A"})
        first = asyncio.ensure_future(hints.say(call.id))
        await log.until_running(1)
        assert await hints.say(call.id) == [None]
        assert await Hints(other).say(call.id) == [LATER_S]
        assert (log.ran, first.done()) == ([("w1", "A")], False)
        log.release()
        assert await first == [None]
        assert (await result(session, call.id)).data == "A"


@requirement("engine.4")
async def test_a_call_whose_tool_is_not_here_is_for_a_node_that_has_it(urls: tuple[str, str]) -> None:
    log = Log()
    async with idle(urls, log, kit=lambda log, node: []) as (session, hints):
        call = await session.submit("shop.pay", {"order": "A"})
        assert await hints.say(call.id) == [None]
        assert hints.worker.missing == {"shop.pay"}
        async with node(urls, log, "w2") as other:
            assert (await result(session, call.id)).data == "paid A on w2"
            assert other.store is not hints.store
        hints.crib.catalog.add([tool for tool in tools(log, "w1") if tool.name == "pay"])
        call = await session.submit("shop.pay", {"order": "B"})
        assert await hints.say(call.id) == [None]
        assert hints.worker.missing == set()
        assert log.ran == [("w2", "A"), ("w1", "B")]


@requirement("engine.4")
async def test_a_worker_that_is_to_stop_gives_a_hint_back_at_once(urls: tuple[str, str]) -> None:
    log = Log()
    async with idle(urls, log) as (session, hints):
        call = await session.submit("shop.pay", {"order": "A"})
        hints.worker.quiet = True
        assert await hints.say(call.id) == [0.0]
        row = await hints.store.call(call.id)
        assert (row and row.state, log.ran, hints.worker.done) == ("queued", [], 0)


@requirement("engine.4")
@pytest.mark.parametrize("moment", ["starting", "stopping"])
async def test_a_hint_for_a_call_whose_start_the_store_did_not_take_comes_again(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async def away(write: Write) -> Conflict | None:
        raise StoreUnavailable("The store is away")

    log = Log()
    async with idle(urls, log) as (session, hints):
        call = await session.submit("shop.pay", {"order": "A"})
        with monkeypatch.context() as patch:
            patch.setattr(hints.store, "commit", away)
            patch.setattr(hints.crib.pipeline, moment, True)
            assert await hints.say(call.id) == [RETRY_S]
        assert (log.ran, hints.worker.done) == ([], 0)
        assert await hints.say(call.id) == [None]
        assert (await result(session, call.id)).data == "paid A on w1"

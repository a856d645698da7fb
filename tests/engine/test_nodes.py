"""A call enters at one node, runs on another, and is answered, cancelled and followed from any."""

import asyncio
from typing import Any

import pytest

from tests.engine.place import SOON_S, Log, cluster, events, nats_of, result, until
from tests.requirements import requirement
from toolcrib import Context, Crib, Session, tool
from toolcrib.engine import maintenance
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.store.shared import Node
from toolcrib.types import CribLimits


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


@requirement("engine.2")
async def test_a_call_that_enters_at_one_node_runs_on_another(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        result = await session.call("shop.pay", {"order": "A-7"})
        assert result.data == "paid A-7 on w1"
        assert log.ran == [("w1", "A-7")]


@requirement("engine.2")
async def test_what_only_reads_runs_where_it_was_asked_for(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        assert (await session.call("shop.look", {"order": "A-7"})).data == "A-7 seen on api"


@requirement("engine.2")
async def test_many_calls_run_once_each_on_two_workers(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ("w1", "w2"), limits=CribLimits(per_session=64), slots=8) as (api, *_):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        results = await asyncio.gather(*(session.call("shop.pay", {"order": str(n)}) for n in range(200)))
        assert all(result.ok for result in results)
        assert sorted(order for _, order in log.ran) == sorted(map(str, range(200)))
        assert {node for node, _ in log.ran} == {"w1", "w2"}


@requirement("engine.2", "store.3")
async def test_a_question_is_answered_at_another_node_than_it_was_asked(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ("w1", "w2")) as (api, one, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.ask", {"order": "A-7"})
        there = await one.open("s", owner="ada")
        async for event in there.events(call=call.id):
            if event.kind == "waiting":
                await there.answer(event.fields["question"]["id"], "accept", "yes")
        result = await session.result(call.id)
        assert str(result.data).startswith("yes on w")
        assert len(log.ran) == 1


@requirement("engine.2")
async def test_of_two_answers_at_two_nodes_one_wins(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log) as (api, worker):
        here = await api.open("s", owner="ada", namespaces=["shop"])
        there = await worker.open("s", owner="ada")
        call = await here.submit("shop.ask", {"order": "A-7"})
        asked = await question(here, call.id)
        answers = [here.answer(asked, "accept", "a", actor="a"), there.answer(asked, "accept", "b", actor="b")]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(isinstance(outcome, BaseException) for outcome in outcomes) == 1
        assert (await here.result(call.id)).ok
        assert len(log.ran) == 1


async def question(session: Session, call: str) -> str:
    """The id of what a call asks, when it does."""
    async for event in session.events(call=call):
        if event.kind == "waiting":
            return str(event.fields["question"]["id"])
    raise AssertionError("it ended without a question")


@requirement("engine.2")
async def test_a_running_call_is_cancelled_from_another_node(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.hold", {"order": "A-7"})
        await log.until_running(1)
        assert await session.cancel(call.id)
        result = await session.result(call.id)
        assert result.failure is not None
        assert result.failure.code == "cancelled"
        await log.until_running(0)


@requirement("engine.2")
async def test_a_call_that_is_cancelled_from_another_node_cleans_up_before_it_ends(urls: tuple[str, str]) -> None:
    log = Log()

    def kit(log: Log, node: str) -> list[Any]:
        @tool(namespace="shop", timeout=60)
        async def tidy(ctx: Context) -> None:
            """Run until it is stopped, and clean up."""
            try:
                await log.stay()
            finally:
                ctx.output({"cleaned": node})

        return [tidy]

    async with cluster(urls, log, kit=kit) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.tidy")
        await log.until_running(1)
        assert await session.cancel(call.id)
        told = await events(session, call.id)
        assert [event.kind for event in told] == ["accepted", "started", "output", "done"]
        assert told[-1].fields["failure"]["code"] == "cancelled"


@requirement("engine.2")
async def test_a_queued_call_is_cancelled_before_anybody_runs_it(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ()) as (api,):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.pay", {"order": "A-7"})
        assert await session.cancel(call.id)
        assert [event.kind for event in await events(session, call.id)] == ["accepted", "done"]
    async with cluster(urls, log) as (api, _):
        session = await api.open("s", owner="ada")
        assert (await session.call("shop.pay", {"order": "A-8"})).ok
        assert [order for _, order in log.ran] == ["A-8"]


@requirement("engine.2", "store.4")
async def test_a_reader_at_another_node_sees_every_event_in_order(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.count", {"upto": 500})
        seen = await events(session, call.id)
        numbers = [event.fields["value"]["number"] for event in seen if event.kind == "output"]
        assert numbers == list(range(500))
        assert [event.seq for event in seen] == list(range(seen[0].seq, seen[0].seq + len(seen)))


@requirement("engine.3", "engine.5", "reliability.proof.13")
async def test_the_limit_of_a_tool_holds_over_all_workers(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ("w1", "w2"), kit=counted) as (api, *_):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        calls = [await session.submit("shop.narrow", {"order": str(n)}) for n in range(8)]
        for ended in range(len(calls)):
            await log.until_running(min(2, len(calls) - ended))
            await until(lambda ended=ended: held_back(api, len(calls) - ended, log))  # type: ignore[misc]
            assert log.running == min(2, len(calls) - ended)
            log.gate(log.ran[ended][1]).set()
            assert (await result(session, calls[int(log.ran[ended][1])].id)).ok
        assert log.most == 2


def counted(log: Log, node: str) -> list[Any]:
    """A tool that runs no more than twice at once anywhere, each time until its own gate is open."""

    @tool(namespace="shop", idempotent=True, concurrency=2)
    async def narrow(order: str) -> str:
        """Run until its gate is open."""
        log.note(node, order)
        with log.counted():
            await log.gate(order).wait()
        return order

    return [narrow]


async def held_back(crib: Crib, left: int, log: Log) -> bool:
    """Whether all hints are there, workers ask for more than run, and get none; or more run than may.

    A worker that has just joined says again what is queued, so that a call may have two hints for a while.
    """
    engine = nats_of(crib)
    lane = next(name for name in engine._limits if name != "default")
    info = await engine._client.jetstream().consumer_info(engine._stream, lane)
    pending, out, asking = info.num_pending or 0, info.num_ack_pending or 0, info.num_waiting or 0
    return log.running > 2 or (pending + out >= left and out == min(2, left) and asking > 0)


@requirement("engine.5")
async def test_an_owner_at_the_limit_does_not_keep_others_waiting(urls: tuple[str, str]) -> None:
    log = Log()
    limits = CribLimits(per_owner=2)
    async with cluster(urls, log, ("w1", "w2"), limits=limits, slots=4) as (api, *_):
        ada = await api.open("a", owner="ada", namespaces=["shop"])
        bob = await api.open("b", owner="bob", namespaces=["shop"])
        held = [asyncio.ensure_future(ada.call("shop.hold", {"order": str(n)})) for n in range(30)]
        await log.until_running(2)
        assert (await bob.call("shop.pay", {"order": "B-1"})).ok
        assert log.running == 2
        log.go.set()
        assert all(result.ok for result in await asyncio.gather(*held))
        assert log.most == 2


@requirement("engine.5")
async def test_the_limit_of_a_session_holds_over_all_workers(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ("w1", "w2"), limits=CribLimits(per_session=3)) as (api, *_):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        calls = [asyncio.ensure_future(session.call("shop.hold", {"order": str(n)})) for n in range(12)]
        await log.until_running(3)
        log.go.set()
        assert all(result.ok for result in await asyncio.gather(*calls))
        assert log.most == 3


@requirement("security.fair.7")
async def test_an_owner_has_half_of_all_slots_where_a_node_has_owners_share(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ("w1", "w2"), slots=4) as (api, *workers):
        told = Node("api", {"shared": True}, 0.0, 0.0, True)
        for worker in workers:
            nats_of(worker).share([told, *(Node(n, {"slots": 4}, 0.0, 0.0, True) for n in ("w1", "w2"))])
        ada = await api.open("a", owner="ada", namespaces=["shop"])
        bob = await api.open("b", owner="bob", namespaces=["shop"])
        held = [asyncio.ensure_future(ada.call("shop.hold", {"order": str(n)})) for n in range(30)]
        await log.until_running(4)
        assert (await bob.call("shop.pay", {"order": "B-1"})).ok
        log.go.set()
        assert all(result.ok for result in await asyncio.gather(*held))
        assert log.most == 4


@requirement("engine.2")
async def test_a_node_tells_what_it_is_what_it_has_and_what_it_does(urls: tuple[str, str]) -> None:
    log = Log()

    async def told(crib: Crib, label: str, **wanted: Any) -> bool:
        nodes = [node.facts for node in await crib.store.nodes() if node.facts.get("label") == label]  # type: ignore[attr-defined]
        return [{name: facts.get(name) for name in wanted} for facts in nodes] == [wanted]

    async with cluster(urls, log, slots=3) as (api, worker):
        has = {tool.id: tool.fingerprint[:12] for tool in worker.catalog.view(("*",)).tools}
        await until(lambda: told(api, "w1", role="worker", slots=3, running=0, done=0, missing=[], tools=has))
        await until(lambda: told(worker, "api", role="api", slots=0, running=0, tools={}))
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.hold", {"order": "A"})
        await until(lambda: told(api, "w1", running=1, done=0))
        log.release()
        assert (await session.result(call.id)).ok
        await until(lambda: told(api, "w1", running=0, done=1))


@requirement("store.11")
async def test_nodes_tell_each_other_by_the_engine_what_they_wrote(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "TELL_S", 0.02)
    async with cluster(urls, Log()) as (api, worker):
        writer, reader = store_of(worker), store_of(api)
        await until(lambda: carried(writer))
        monkeypatch.setattr(writer._listener, "notify", None)  # not by the database
        here, there = await api.open("s", owner="ada"), await worker.open("s", owner="ada")
        heard: asyncio.Queue[str] = asyncio.Queue()
        monkeypatch.setattr(reader, "heard", heard.put_nowait)
        await there.notice("hello")
        assert (await asyncio.wait_for(heard.get(), SOON_S)).split(" ")[-1].startswith("#")
        assert "notice" in [event.kind async for event in here.events(follow=False)]


@requirement("store.11")
async def test_where_a_node_does_not_hear_the_engine_the_database_tells(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "TELL_S", 0.02)
    async with cluster(urls, Log(), ()) as (api,):
        writer = store_of(api)
        await until(lambda: carried(writer))
        async with Crib(store=urls[0]) as plain:
            await until(lambda: carried(writer, False))
            session = await plain.open("s", owner="ada")
            heard: asyncio.Queue[str] = asyncio.Queue()
            monkeypatch.setattr(store_of(plain)._listener, "heard", heard.put_nowait)
            await (await api.open("s", owner="ada")).notice("hello")
            assert await asyncio.wait_for(heard.get(), SOON_S)
            assert "notice" in [event.kind async for event in session.events(follow=False)]


def store_of(crib: Crib) -> PostgresStore:
    """The store of a node."""
    assert isinstance(crib.store, PostgresStore)
    return crib.store


async def carried(store: PostgresStore, wanted: bool = True) -> bool:
    """Whether the engine carries the hints of a node."""
    return (store.carry is not None) is wanted

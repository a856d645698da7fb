"""Hints: one for each call at a time, for as many calls as there are slots, and none lost for good."""

import asyncio
import time
from functools import partial
from typing import Any

import asyncpg
import nats
import pytest

from tests.engine.place import (
    SOON_S,
    Log,
    cluster,
    code,
    events,
    family,
    nats_of,
    node,
    question,
    result,
    tools,
    until,
)
from tests.faults.proxy import Proxy
from tests.requirements import requirement
from toolcrib import Crib, Refused, tool
from toolcrib.engine import maintenance
from toolcrib.engine import worker as engine_worker
from toolcrib.engine.lanes import DEFAULT
from toolcrib.errors import StoreError
from toolcrib.store import Row
from toolcrib.store.shared import SharedStore, TakenCall
from toolcrib.types import CribLimits


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is queued counts as lost at once, and is looked for all the time."""
    monkeypatch.setattr(maintenance, "QUEUED_S", 0.0)
    monkeypatch.setattr(maintenance, "TELL_S", 0.02)


def shared(crib: Crib) -> SharedStore:
    """The store of a node."""
    store: Any = crib.store
    assert hasattr(store, "take")
    found: SharedStore = store
    return found


def more(log: Log, node: str) -> list[Any]:
    """A tool that only the API node has, and so nobody who works; and one with a lane of its own."""

    @tool(namespace="shop")
    async def rare(order: str) -> str:
        """Nobody runs it."""
        return order

    @tool(namespace="shop", idempotent=True, concurrency=1)
    async def quick(order: str) -> str:
        """Be over at once."""
        return order

    return [*tools(log, node), quick, *([rare] if node == "api" else [])]


async def hints(crib: Crib) -> int:
    """How many hints there are in all lanes."""
    return int((await queue(crib)).messages)


async def queue(crib: Crib) -> Any:
    """What the server says of all lanes."""
    engine = nats_of(crib)
    stream = f"toolcrib_{await shared(crib).cluster()}"
    async with asyncio.timeout(SOON_S):
        await engine._client.flush()
        return (await engine._client.jetstream().stream_info(stream)).state


def looks(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[None]":
    """One for each time that a node has looked for what is lost."""
    done: asyncio.Queue[None] = asyncio.Queue()
    stale = shared(crib).stale

    async def look(*values: Any, **named: Any) -> list[Row]:
        found = await stale(*values, **named)
        done.put_nowait(None)
        return found

    monkeypatch.setattr(crib.store, "stale", look)
    return done


@requirement("engine.4")
@pytest.mark.usefixtures("impatient")
async def test_calls_that_nobody_can_run_are_not_said_again_and_again(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(urls, Log(), kit=more, lease=2) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        await asyncio.gather(*(session.submit("shop.rare", {"order": str(n)}) for n in range(20)))
        done = looks(api, monkeypatch)
        async with asyncio.timeout(SOON_S):
            for _ in range(10):
                await done.get()
        assert await hints(api) <= 20
        call = await session.submit("shop.pay", {"order": "A"})
        assert (await result(session, call.id)).ok


@requirement("engine.4")
async def test_a_hint_that_is_there_already_is_not_kept_twice(urls: tuple[str, str]) -> None:
    async with cluster(urls, Log(), ()) as (api,):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.pay", {"order": "A"})
        row = await api.store.call(call.id)
        assert row is not None
        async with node(urls, Log(), "api") as other:
            for _ in range(10):
                nats_of(api).dispatch(row)
                nats_of(other).dispatch(row)
            await until(lambda: all_said(api, other))
            await hints(other)
            kept = await queue(api)
            assert (kept.messages, kept.first_seq, kept.last_seq) == (1, 1, 1)  # the first, whoever may have it now


@requirement("engine.4")
async def test_a_hint_is_gone_once_its_call_is_over(urls: tuple[str, str]) -> None:
    async with cluster(urls, Log()) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        for number in range(5):
            assert (await session.call("shop.pay", {"order": str(number)})).ok

        async def none_left() -> bool:
            return await hints(api) == 0

        await until(none_left)
        assert (await queue(api)).last_seq >= 5  # there were some


async def all_said(*cribs: Crib) -> bool:
    """Whether nodes have sent all that they had to say."""
    return not any(nats_of(crib)._words for crib in cribs)


@requirement("engine.4")
@pytest.mark.usefixtures("impatient")
async def test_a_thousand_calls_that_nobody_can_run_hide_no_lost_one(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(urls, Log(), kit=more, lease=2) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        rare = await session.submit("shop.rare", {"order": "A"})
        await copy(urls[0], rare.id, 1000)
        with monkeypatch.context() as lost:
            lost.setattr(nats_of(api), "dispatch", lambda row, why="": None)
            call = await session.submit("shop.pay", {"order": "B"})
        assert (await result(session, call.id)).ok


async def copy(url: str, call: str, times: int) -> None:
    """So many queued calls like one, all older."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        "INSERT INTO calls (id, session, owner, tool, effect, state, attempt, accepted_at, background, crashes,"
        " accepted_seq, queued_at) SELECT id || '-' || n, session, owner, tool, effect, state, attempt,"
        " accepted_at - 60, background, crashes, accepted_seq, queued_at - 60"
        " FROM calls, generate_series(1, $2) n WHERE id = $1",
        call,
        times,
    )
    await connection.close()


@requirement("engine.3")
async def test_a_worker_takes_no_more_than_its_slots_however_often_it_asks_anew(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=more, limits=CribLimits(per_session=64), slots=2) as (api, worker):
        for number in range(5):
            worker.add(named(f"another{number}"))
            await nats_of(worker).renew()
        session = await api.open("s", owner="ada", namespaces=["shop"])
        held = [await session.submit("shop.hold", {"order": str(n)}) for n in range(12)]
        await log.until_running(2)
        quick = await session.submit("shop.quick", {"order": "A"})
        assert (await result(session, quick.id)).ok  # all that was asked for has come by then
        assert log.running == 2
        log.go.set()
        assert all([(await result(session, call.id)).ok for call in held])
        assert log.most == 2


@requirement("engine.3", "engine.4")
async def test_a_hint_that_is_on_its_way_while_a_worker_asks_anew_is_not_lost(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "TELL_S", 2 * SOON_S)  # nobody looks for lost hints meanwhile
    log = Log()
    async with (
        Proxy(urls[1]) as proxy,
        cluster(urls, log, ()) as (api,),
        node((urls[0], proxy.url), log, "w1", slots=1) as worker,
    ):
        session, engine = await api.open("s", owner="ada", namespaces=["shop"]), nats_of(worker)
        await until(lambda: waits(api, 1))
        proxy.swallow()
        call = await session.submit("shop.pay", {"order": "A"})
        await until(lambda: under_way(api, 1))
        await engine.lanes[DEFAULT].open(engine._client, engine._stream)
        proxy.mend()
        assert (await result(session, call.id)).ok
        assert log.ran == [("w1", "A")]


async def waits(crib: Crib, number: int) -> bool:
    """Whether the server knows of so many requests for hints."""
    return bool((await lane(crib)).num_waiting == number)


async def under_way(crib: Crib, number: int) -> bool:
    """Whether the server has sent so many hints that nobody has acknowledged."""
    return bool((await lane(crib)).num_ack_pending == number)


async def lane(crib: Crib) -> Any:
    """What the server says of the lane that most tools share."""
    engine = nats_of(crib)
    return await engine._client.jetstream().consumer_info(engine._stream, DEFAULT)


def named(name: str) -> Any:
    """A tool of that name."""

    async def body(order: str) -> str:
        """Do nothing."""
        return order

    body.__name__ = name
    return tool(namespace="more", concurrency=1)(body)


@requirement("engine.6")
async def test_calls_for_another_version_go_to_the_worker_that_has_it_when_it_has_room(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "TELL_S", 60.0)  # nobody looks for lost hints meanwhile
    log = Log()
    async with cluster(urls, log, kit=older, slots=1, lease=2) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        await session.submit("shop.job", {"order": "A"})
        await log.until_ran(("w1", "A"))  # which has no room for another
        await until(lambda: known(api, "w1"))
        async with node(urls, log, "new", kit=newer, lease=2) as new:
            times = offered(new, monkeypatch)
            calls = [await session.submit("shop.job", {"order": f"B{number}"}) for number in range(10)]
            log.release()
            async with asyncio.timeout(SOON_S):
                results = await asyncio.gather(*(session.result(call.id) for call in calls))
            assert all(result.ok for result in results)
            assert {place for place, _ in log.ran} == {"w1"}
            assert times.qsize() <= len(calls)


async def known(crib: Crib, label: str) -> bool:
    """Whether that node has told which tools it has."""
    nodes = await shared(crib).nodes()
    return any(other.facts.get("label") == label and other.facts.get("tools") for other in nodes)


def offered(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[float]":
    """When each hint has come to a worker."""
    times: asyncio.Queue[float] = asyncio.Queue()
    take = shared(crib).take

    async def taken(ids: list[str]) -> dict[str, TakenCall]:
        times.put_nowait(asyncio.get_running_loop().time())
        return await take(ids)

    monkeypatch.setattr(crib.store, "take", taken)
    return times


def older(log: Log, node: str) -> list[Any]:
    """A tool as it was."""

    @tool(namespace="shop", idempotent=True)
    async def job(order: str) -> str:
        """Do it."""
        log.note(node, order)
        await log.gate(order).wait()
        return node

    return [job]


def newer(log: Log, node: str) -> list[Any]:
    """The same tool as it is now."""

    @tool(namespace="shop", idempotent=True)
    async def job(order: str, faster: bool = False) -> str:
        """Do it better."""
        log.note(node, order)
        return node

    return [job]


@requirement("engine.4")
async def test_a_call_that_could_not_be_read_gives_its_slot_back(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_worker, "LATER_S", 0.05)
    async with cluster(urls, Log(), slots=2) as (api, worker):
        take, broken = shared(worker).take, asyncio.Event()

        async def taken(ids: list[str]) -> dict[str, TakenCall]:
            if not broken.is_set():
                broken.set()
                raise StoreError("The store could not do it: InternalServerError")
            return await take(ids)

        monkeypatch.setattr(worker.store, "take", taken)
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.pay", {"order": "A"})
        assert (await result(session, call.id)).ok
        assert broken.is_set()
        held = [await session.submit("shop.pay", {"order": order}) for order in "BCDE"]
        assert all([(await result(session, call.id)).ok for call in held])
        await until(lambda: all_free(worker))


async def all_free(crib: Crib) -> bool:
    """Whether a worker holds no hint."""
    return all(lane.held == 0 for lane in nats_of(crib).lanes.values())


@requirement("engine.4", "reliability.proof.14")
@pytest.mark.parametrize("name", ["keep", "asking"])
async def test_a_hint_that_comes_again_for_a_call_that_a_living_node_runs_changes_nothing(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    log = Log()
    async with cluster(urls, log, kit=family, slots=1) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit(f"shop.{name}", {"order": "A"})
        await log.until_ran(("w1", "A"))
        row = await api.store.call(call.id)
        assert row is not None
        async with node(urls, log, "w2", kit=family, slots=1) as other:
            offers = offered(other, monkeypatch)
            for number in range(3):  # as a server does that was told nothing of the first
                nats_of(api).dispatch(row, f"-{number}")
                await asyncio.wait_for(offers.get(), SOON_S)
                await until(lambda: all_free(other))
            assert await api.store.call(call.id) == row
            assert log.ran == [("w1", "A")]
            log.release()
            if name == "asking":
                await session.answer(await question(session, call.id), "accept", "A on w1")
            assert (await result(session, call.id)).data == "A on w1"
        assert [event.kind for event in await events(session, call.id)].count("done") == 1


@requirement("reliability.proof.15")
@pytest.mark.parametrize("workers", [("w1",), ()])
async def test_questions_that_a_node_left_behind_end_in_time_at_another(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setattr(maintenance, "TELL_S", 0.02)
    async with cluster(urls, Log(), workers, kit=confirmed) as (other, *_):
        async with node(urls, Log(), "api", kit=confirmed) as gone:
            monkeypatch.setattr(gone._expiry, "expire", nothing)  # as of a process that was killed
            monkeypatch.setattr(gone.pipeline, "expiry_changed", lambda when: None)
            session = await gone.open("s", owner="ada", namespaces=["shop"])
            calls = [await session.submit("shop.brief", {"order": order}) for order in "AB"]
            asked = [await question(session, call.id) for call in calls]
        there = await other.open("s", owner="ada")
        assert [code(await result(there, call.id)) for call in calls] == ["timeout", "timeout"]
        with pytest.raises(Refused, match="no longer open"):
            await there.answer(asked[0], "accept", "yes")


async def nothing() -> None:
    """Does nothing."""


def confirmed(log: Log, node: str) -> list[Any]:
    """A tool that has to be confirmed within half a second."""

    @tool(namespace="shop", requires_confirmation=True, wait_s=0.5)
    async def brief(order: str) -> str:
        """Do it when somebody agrees."""
        log.note(node, order)
        return order

    return [brief]


@requirement("engine.4")
async def test_a_call_that_cannot_be_read_keeps_no_other_waiting_and_is_not_tried_all_the_time(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_worker, "LATER_S", 10 * SOON_S)
    async with cluster(urls, Log()) as (api, worker):
        take, broken = shared(worker).take, list[str]()
        session = await api.open("s", owner="ada", namespaces=["shop"])

        async def taken(ids: list[str]) -> dict[str, TakenCall]:
            if poison.id in ids:
                broken.append(poison.id)
                raise StoreError("The store could not do it: InternalServerError")
            return await take(ids)

        with monkeypatch.context() as unsaid:
            unsaid.setattr(nats_of(api), "dispatch", lambda row, why="": None)
            poison = await session.submit("shop.pay", {"order": "A"})
        monkeypatch.setattr(worker.store, "take", taken)
        row = await api.store.call(poison.id)
        assert row is not None
        nats_of(api).dispatch(row)
        calls = [await session.submit("shop.pay", {"order": order}) for order in "BC"]
        assert all([(await result(session, call.id)).ok for call in calls])
        await until(lambda: all_free(worker))
        assert 1 <= len(broken) <= 2  # with the others, and then alone


@requirement("engine.5")
async def test_a_call_that_waits_for_its_session_is_not_offered_again_and_again(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "TELL_S", 2 * SOON_S)  # who has just joined says again what is queued
    log = Log()
    async with cluster(urls, log, limits=CribLimits(per_session=1)) as (api, worker):
        session, other = [await api.open(id, owner="ada", namespaces=["shop"]) for id in ("s", "t")]
        held = await session.submit("shop.hold", {"order": "A"})
        await log.until_running(1)
        offers = offered(worker, monkeypatch)
        waits = await session.submit("shop.pay", {"order": "B"})
        await asyncio.wait_for(offers.get(), SOON_S)
        await until(lambda: holds(worker, 1))
        for number in range(5):
            call = await other.submit("shop.pay", {"order": str(number)})
            assert (await result(other, call.id)).ok
        assert offers.qsize() <= 5
        log.go.set()
        assert (await result(session, held.id)).ok
        assert (await result(session, waits.id)).ok


async def holds(crib: Crib, number: int) -> bool:
    """Whether a worker holds so many hints."""
    return sum(lane.held for lane in nats_of(crib).lanes.values()) == number


@requirement("engine.3", "engine.5")
async def test_a_limit_that_is_changed_holds_from_when_the_server_has_it(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=limited(1)) as nodes:
        api, worker = nodes
        client = await nats.connect(urls[1])
        session = await api.open("s", owner="ada", namespaces=["shop"])

        async def told() -> bool:
            (info,) = [
                one for one in await client.jetstream().consumers_info(nats_of(worker)._stream) if one.name != DEFAULT
            ]
            return info.config.max_ack_pending == 3

        for crib in (worker, api):
            crib.add(*limited(3)(log, "w1"), replace=True)
        await until(told)
        calls = [await session.submit("shop.held", {"order": str(number)}) for number in range(4)]
        await log.until_running(3)
        log.go.set()
        assert all([(await result(session, call.id)).ok for call in calls])
        assert log.most == 3
        await client.close()


def limited(number: int) -> Any:
    """The tools of a node with one of that limit."""

    def kit(log: Log, node: str) -> list[Any]:
        @tool(namespace="shop", idempotent=True, concurrency=number)
        async def held(order: str) -> str:
            """Run until told to go on."""
            await log.stay()
            return order

        return [held]

    return kit


@requirement("engine.4")
async def test_of_calls_that_are_looked_up_together_one_that_cannot_be_read_holds_up_no_other(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(urls, Log()) as (api, worker):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        with monkeypatch.context() as unsaid:
            unsaid.setattr(nats_of(api), "dispatch", lambda row, why="": None)
            calls = [await session.submit("shop.pay", {"order": order}) for order in "ABC"]
        take, backs = shared(worker).take, dict[str, Any]()

        async def taken(ids: list[str]) -> dict[str, TakenCall]:
            if calls[0].id in ids:
                raise StoreError("The store could not do it: InternalServerError")
            return await take(ids)

        monkeypatch.setattr(worker.store, "take", taken)
        for call in calls:
            nats_of(worker)._work.hint(call.id, partial(backs.__setitem__, call.id))
        assert all([(await result(session, call.id)).ok for call in calls[1:]])
        await until(lambda: told(backs, 3))
        assert backs == {calls[0].id: engine_worker.LATER_S, calls[1].id: None, calls[2].id: None}
        assert nats_of(worker)._work._refreshing == {}


async def told(backs: dict[str, Any], number: int) -> bool:
    """Whether so many hints were given back."""
    return len(backs) == number


@requirement("engine.4", "engine.6")
@pytest.mark.parametrize("gap", [False, True])
async def test_a_worker_that_joins_runs_what_waited_for_its_tools(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch, gap: bool
) -> None:
    monkeypatch.setattr(maintenance, "EVERY", 1)  # its first look comes before others are told what it has
    log = Log()
    async with cluster(urls, log, ()) as (api,), node(urls, log, "w1", kit=lambda log, node: []) as without:
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.pay", {"order": "A"})
        await until(lambda: left_to_others(without, "shop.pay"))
        async with node(urls, log, "w2") as joined:
            if gap:  # as after a while in which the database was not heard of
                store: Any = joined.store
                store._heart._gap_at = time.monotonic()
            assert (await result(session, call.id)).data == "paid A on w2"


async def left_to_others(crib: Crib, tool: str) -> bool:
    """Whether a node has found that it lacks a tool, and no hint is left."""
    return nats_of(crib).missing == {tool} and await hints(crib) == 0

"""What belongs to a session is the same at all nodes, whatever they missed; and who goes away leaves nothing behind."""

import asyncio
from typing import Any

import pytest

from tests.engine.place import SOON_S, Log, cluster, code, family, node, question, result, until
from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib.errors import StoreError
from toolcrib.session import Session
from toolcrib.store import Row, open_store
from toolcrib.store.postgres import listener
from toolcrib.testing import FakeClock


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


def two(log: Log, node: str) -> list[Any]:
    """Tools of two namespaces, which run where they are asked for."""

    @tool(namespace="secret", read_only=True)
    async def look(order: str) -> str:
        """Not for everybody."""
        return "seen"

    @tool(namespace="open", read_only=True)
    async def fine(order: str) -> str:
        """For everybody."""
        return "fine"

    return [look, fine]


async def seen(session: Session) -> str | None:
    """What a session says to a call that it may not make any more."""
    async with asyncio.timeout(SOON_S):
        return code(await session.call("secret.look", {"order": "A"}))


@requirement("store.4")
async def test_what_was_revoked_while_a_node_did_not_listen_is_revoked_there_too(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(urls, Log(), (), kit=two) as (api,), node(urls, Log(), "api", kit=two) as other:
        here = await api.open("s", owner="ada", namespaces=["secret", "open"])
        assert await seen(here) is None
        async with deaf(api, monkeypatch):
            there = await other.open("s", owner="ada", namespaces=["open"])
            assert await seen(there) == "denied"
        assert await seen(here) == "denied"


class deaf:  # noqa: N801 - read as an adjective
    """The connection that a node listens by is away; at the end it has just come back."""

    def __init__(self, crib: Crib, monkeypatch: pytest.MonkeyPatch) -> None:
        store: Any = crib.store
        self._listener = store._listener
        self._away, self._back, self._listens = asyncio.Event(), asyncio.Event(), asyncio.Event()
        connect = self._listener._connect

        async def later() -> None:
            self._away.set()
            await self._back.wait()
            await connect()
            self._listens.set()

        monkeypatch.setattr(self._listener, "_connect", later)

    async def __aenter__(self) -> None:
        self._listener._connection.terminate()
        await asyncio.wait_for(self._away.wait(), SOON_S)

    async def __aexit__(self, *exc: object) -> None:
        self._back.set()
        await asyncio.wait_for(self._listens.wait(), SOON_S)


def guarded(log: Log, node: str) -> list[Any]:
    """Tools of two namespaces, which go by the engine."""

    @tool(namespace="open", idempotent=True)
    async def hold(order: str) -> str:
        """Run until told to go on."""
        log.note(node, order)
        await log.stay()
        return order

    @tool(namespace="secret", idempotent=True)
    async def pay(order: str) -> str:
        """Not for everybody."""
        log.note(node, order)
        return order

    return [hold, pay]


@requirement("store.4", "engine.2")
async def test_a_worker_that_heard_nothing_runs_no_queued_call_that_was_revoked_meanwhile(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    async with cluster(urls, log, kit=guarded, slots=1) as (api, worker):
        session = await api.open("s", owner="ada", namespaces=["open", "secret"])
        held = await session.submit("open.hold", {"order": "A"})
        await log.until_running(1)
        queued = await session.submit("secret.pay", {"order": "B"})
        async with deaf(worker, monkeypatch):
            await api.open("s", owner="ada", namespaces=["open"])
            log.go.set()
            assert (await result(session, held.id)).ok
            assert code(await result(session, queued.id)) == "denied"
        assert log.ran == [("w1", "A")]


@requirement("store.4")
async def test_an_open_session_hears_of_changes_however_many_others_were_met(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "KNOWN", 4)
    async with cluster(urls, Log(), (), kit=two) as (api,), node(urls, Log(), "api", kit=two) as other:
        here = await api.open("s", owner="ada", namespaces=["secret", "open"])
        for number in range(8):
            await api.open(f"s{number}", owner="ada", namespaces=["open"])
        await other.open("s", owner="ada", namespaces=["open"])
        await until(lambda: opens(here, "open"))
        assert await seen(here) == "denied"


async def opens(session: Session, *namespaces: str) -> bool:
    """Whether a session has these namespaces, and no others."""
    return session.namespaces == namespaces


@requirement("store.4")
async def test_what_could_not_be_looked_up_is_looked_up_before_the_next_call(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(urls, Log(), (), kit=two) as (api,), node(urls, Log(), "api", kit=two) as other:
        here = await api.open("s", owner="ada", namespaces=["secret", "open"])
        tried = asyncio.Event()

        async def away(*values: Any, **named: Any) -> Any:
            tried.set()
            raise StoreError("The store is away")

        with monkeypatch.context() as broken:
            broken.setattr(api.store, "read", away)
            await other.open("s", owner="ada", namespaces=["open"])
            await asyncio.wait_for(tried.wait(), SOON_S)
            assert await seen(here) == "unavailable"
        assert await seen(here) == "denied"


@requirement("engine.2")
async def test_who_goes_away_while_a_call_waits_leaves_nothing_behind(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    log.gate("A").set()
    async with cluster(urls, log, kit=family) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.asking", {"order": "A"})
        asked = await question(session, call.id)
        looked = looks(api, monkeypatch)
        before = len(asyncio.all_tasks())
        for _ in range(20):
            waiting = asyncio.ensure_future(session.result(call.id))
            await asyncio.wait_for(looked.get(), SOON_S)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert session._awaited._waiting == {}
        await until(lambda: fewer_tasks(before))
        await session.answer(asked, "accept", "yes")
        assert (await result(session, call.id)).data == "yes"


@requirement("engine.2")
async def test_who_goes_away_before_a_call_was_looked_up_leaves_nothing_behind(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    log.gate("A").set()
    async with cluster(urls, log, kit=family) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.asking", {"order": "A"})
        await question(session, call.id)
        before, looking = len(asyncio.all_tasks()), asyncio.Event()

        async def slow(id: str) -> Row | None:
            looking.set()
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

        monkeypatch.setattr(api.store, "call", slow)
        waiting = asyncio.ensure_future(session.result(call.id))
        await asyncio.wait_for(looking.wait(), SOON_S)
        waiting.cancel()
        await asyncio.wait([waiting])
        await until(lambda: fewer_tasks(before))
        assert session._awaited._waiting == {}


@requirement("engine.2")
async def test_who_goes_away_from_a_call_that_asks_leaves_nothing_behind(urls: tuple[str, str]) -> None:
    log = Log()
    log.gate("A").set()
    async with cluster(urls, log, kit=family) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        calling = asyncio.ensure_future(session.call("shop.asking", {"order": "A"}))
        asked = await question(session)
        calling.cancel()
        await asyncio.wait([calling])
        await until(lambda: nobody_waits(session))
        await session.answer(asked, "accept", "yes")
        (row,) = await api.store.calls("s")
        assert (await result(session, row.id)).data == "yes"


async def nobody_waits(session: Session) -> bool:
    """Whether a session looks for the end of no call."""
    return session._awaited._waiting == {}


async def fewer_tasks(number: int) -> bool:
    """Whether no more than so many tasks are under way."""
    return len(asyncio.all_tasks()) <= number


def looks(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[str]":
    """One for each time that a call was looked up: whoever wants its result waits for it from then on."""
    done: asyncio.Queue[str] = asyncio.Queue()
    call = crib.store.call

    async def look(id: str) -> Row | None:
        row = await call(id)
        done.put_nowait(id)
        return row

    monkeypatch.setattr(crib.store, "call", look)
    return done


async def test_a_call_that_cannot_be_ended_keeps_no_other_from_expiring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, clock = Log(), FakeClock()
    log.gate("A").set()
    async with Crib(family(log, "here"), clock=clock) as crib:
        broken = await crib.open("broken", owner="ada", namespaces=["shop"])
        whole = await crib.open("whole", owner="ada", namespaces=["shop"])
        for session in (broken, whole):
            call = await session.submit("shop.asking", {"order": "A"})
            await question(session, call.id)

        async def unreadable(*values: Any) -> Any:
            raise ValueError("what a newer version refuses")

        monkeypatch.setattr(broken, "_history", unreadable)
        await clock.advance(3601)
        assert code(await asyncio.wait_for(whole.result(call.id), SOON_S)) == "timeout"


@pytest.mark.parametrize(
    "url",
    ["postgresq://ada:hidden@host/db", "postgresql+asyncpg://ada:hidden@host/db", "pg://host/db?password=hidden"],
)
def test_the_password_in_the_url_of_an_unknown_store_is_not_shown(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(url)
    assert "hidden" not in str(refused.value)
    assert "host/db" in str(refused.value)

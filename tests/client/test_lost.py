"""Connections that break: whatever was asked for happens once, and no event is lost or comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.client.place import SOON_S, Node, Served, Wire, never, nodes, served, until, wire
from tests.client.tools import agents
from toolcrib import Event, Refused
from toolcrib.client import RemoteCrib, RemoteSession, transport

UPTO = 40
MOST = 3000


@pytest.fixture
async def place() -> AsyncIterator[Served]:
    async with served() as made:
        yield made


@pytest.fixture
async def line(place: Served) -> AsyncIterator[Wire]:
    async with wire(place.url) as made:
        yield made


@pytest.fixture
async def session(place: Served, line: Wire) -> AsyncIterator[RemoteSession]:
    async with await place.remote("ada", line.url) as crib:
        yield await crib.open("s-1", owner="ada", namespaces=["shop"])


def lose_reply(line: Wire, what: bytes) -> None:
    """Cuts the next connection by which something was sent, when its reply comes."""
    sent = False

    def cuts(piece: bytes, up: bool) -> int | None:
        nonlocal sent
        sent = sent or (up and what in piece)
        if up or not sent:
            return None
        line.cuts = never
        return 0

    line.cuts = cuts


def lose_request(line: Wire, what: bytes) -> None:
    """Cuts the next connection by which something is sent, before the server has it."""

    def cuts(piece: bytes, up: bool) -> int | None:
        if not up or what not in piece:
            return None
        line.cuts = never
        return 0

    line.cuts = cuts


async def whole_log(session: RemoteSession) -> list[Event]:
    return [event async for event in session.events(follow=False)]


@pytest.mark.parametrize("lose", [lose_reply, lose_request])
async def test_a_call_whose_connection_is_cut_happens_once(
    session: RemoteSession, place: Served, line: Wire, lose: object
) -> None:
    assert callable(lose)
    lose(line, b"/calls")
    assert (await session.call("charge", {"n": 1})).data == "charged 1"
    lose(line, b"/calls")
    call = await session.submit("charge", {"n": 2})
    assert (await session.result(call.id)).data == "charged 2"
    assert place.doors.ran == ["charge 1", "charge 2"]
    assert [event.kind for event in await whole_log(session)].count("accepted") == 2


async def test_an_answer_whose_reply_is_lost_is_given_once(session: RemoteSession, line: Wire) -> None:
    call = await session.submit("refund", {"order": "A-7", "cents": 1})
    question = (await until(session, call.id, "waiting")).fields["question"]["id"]
    lose_reply(line, b"/answers")
    assert (await session.answer(question, "accept")).accepted
    assert (await session.result(call.id)).ok
    assert [event.kind for event in await whole_log(session)].count("answered") == 1


async def test_a_message_whose_reply_is_lost_is_taken_once() -> None:
    async with (
        served(agents=agents()) as place,
        wire(place.url) as line,
        await place.remote("ada", line.url) as crib,
    ):
        session = await crib.open("s-1")
        lose_reply(line, b"/messages")
        assert (await session.send("What was order A-7?")).answer == "It was 12."
        assert line.made > 1
        assert [event.kind for event in await whole_log(session)].count("run_started") == 1


async def test_a_stop_whose_reply_is_lost_has_stopped_something(
    session: RemoteSession, place: Served, line: Wire
) -> None:
    call = await session.submit("hold")
    await place.doors.entered.wait()
    lose_reply(line, b"/cancel")
    assert await session.cancel(call.id)


async def test_a_stream_that_is_cut_at_any_place_goes_on(session: RemoteSession, line: Wire) -> None:
    """Every connection is cut after some bytes, in the middle of whatever they are."""
    call = await session.submit("count", {"upto": 200, "text": "some words to make it longer "})
    await session.result(call.id)
    expected = await whole_log(session)
    before = line.made
    line.cuts = lambda piece, up: None if up or len(piece) < MOST else MOST + line.made
    seen = [event async for event in session.events(call=call.id)]
    assert seen == [event for event in expected if event.call == call.id]
    assert line.made - before >= 5


async def test_a_follower_goes_on_after_each_lost_connection(session: RemoteSession, place: Served, line: Wire) -> None:
    seen: list[Event] = []
    following = session.events()
    async with asyncio.timeout(SOON_S):
        for n in range(5):
            await session.call("charge", {"n": n})
            line.cut()
            while len([event for event in seen if event.kind == "done"]) <= n:
                seen.append(await anext(following))
    await following.aclose()  # type: ignore[attr-defined]
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert seen == (await whole_log(session))[: len(seen)]


async def test_a_caller_waits_through_lost_connections(session: RemoteSession, place: Served, line: Wire) -> None:
    caller = asyncio.ensure_future(session.call("hold"))
    async with asyncio.timeout(SOON_S):
        await place.doors.entered.wait()
        for _ in range(3):
            before = line.made
            line.cut()
            while line.made == before:  # noqa: ASYNC110 - nobody tells when the client comes back
                await asyncio.sleep(0.01)
        place.doors.go.set()
        assert (await caller).data == "held"
    assert [event.kind for event in await whole_log(session)].count("started") == 1


async def test_a_wire_that_cuts_whoever_waits_long_wears_no_patience_out(
    place: Served, line: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LONGEST_S", 0.05)
    async with asyncio.timeout(SOON_S), await place.remote("ada", line.url, patience=0.5) as crib:
        session = await crib.open("s-1")
        caller = asyncio.ensure_future(session.call("hold"))
        await place.doors.entered.wait()
        for _ in range(8):
            before = line.made
            await asyncio.sleep(0.2)
            line.cut()
            while line.made == before:  # noqa: ASYNC110 - nobody tells when the client comes back
                await asyncio.sleep(0.01)
        place.doors.go.set()
        assert (await caller).data == "held"


async def test_a_reader_of_the_inbox_hears_what_went_while_it_was_away(place: Served, line: Wire) -> None:
    async with await place.remote("ada", line.url) as crib, await place.remote() as other:
        here = await other.open("s-1")
        news = crib.watch_questions()
        first = await here.submit("refund", {"order": "A-1", "cents": 1})
        asked = await anext(news)
        assert asked.question is not None
        assert (asked.kind, asked.question.call, asked.question.arguments["order"]) == ("asked", first.id, "A-1")
        down = True
        line.cuts = lambda piece, up: 0 if down else None
        line.cut()
        await here.answer(asked.id, "accept")
        second = await here.submit("refund", {"order": "A-2", "cents": 1})
        await until(here, second.id, "waiting")
        down = False
        async with asyncio.timeout(SOON_S):
            gone, new = await anext(news), await anext(news)
        assert (gone.kind, gone.id) == ("gone", asked.id)
        assert new.question is not None
        assert (new.kind, new.question.call) == ("asked", second.id)
        await here.cancel(second.id)
        assert (await anext(news))[:2] == ("gone", new.id)
        await news.aclose()  # type: ignore[attr-defined]


async def test_who_hangs_up_ends_what_they_follow(place: Served) -> None:
    crib = await place.remote()
    await crib.start()
    session = await crib.open("s-1")
    seen: list[int] = []
    first = asyncio.Event()

    async def read() -> None:
        async for event in session.events():
            seen.append(event.seq)
            first.set()

    reader = asyncio.ensure_future(read())
    await first.wait()
    await crib.stop()
    await reader
    assert seen == [1]
    with pytest.raises(Refused, match="closed"):
        await session.call("add", {"a": 1})


async def tallied(session: RemoteSession, half: asyncio.Event, call: str) -> list[Event]:
    """The events of a call, and word when half of them have come."""
    seen: list[Event] = []
    async with asyncio.timeout(SOON_S):
        async for event in session.events(call=call):
            seen.append(event)
            if sum(event.kind == "output" for event in seen) >= UPTO // 2:
                half.set()
    return seen


@pytest.mark.process
async def test_a_server_that_is_killed_and_started_again_is_followed_on(tmp_path: Path) -> None:
    gate, half = tmp_path / "gate", asyncio.Event()
    node = Node(tmp_path, f"sqlite:///{tmp_path / 'crib.db'}")
    async with nodes(node), RemoteCrib(node.url, patience=SOON_S) as crib:
        session = await crib.open("s-1", namespaces=["shop"])
        call = await session.submit("tally", {"upto": UPTO, "gate": str(gate)})
        reader = asyncio.ensure_future(tallied(session, half, call.id))
        caller = asyncio.ensure_future(session.result(call.id))
        payer = asyncio.ensure_future(session.call("pay", {"n": 7}, key="pay-7"))
        await half.wait()
        paid = await session.submit("pay", {"n": 7}, key="pay-7")
        await until(session, paid.id, "started")
        await node.kill()
        gate.touch()
        await node.start()
        seen = await reader
        assert (await caller).data == UPTO
        assert seen == [event for event in await whole_log(session) if event.call == call.id]
        assert len({event.seq for event in seen}) == len(seen)
        assert [event.kind for event in seen].count("started") == 2
        lost = (await payer).failure
        assert lost is not None
        assert lost.code == "unknown"
        await session.settle(paid.id, True, {"receipt": 7}, reason="the bank says so")
        assert (await session.result(paid.id)).data == {"receipt": 7}
        with pytest.raises(Refused) as told:
            await session.settle(paid.id, False)
        assert told.value.code == "conflict"


async def test_another_node_goes_on_where_one_is_killed(tmp_path: Path, postgres_url: str, nats_url: str) -> None:
    gate, half = tmp_path / "gate", asyncio.Event()
    one, two = (Node(tmp_path, f"{postgres_url}?lease=2", f"{nats_url}?lease=2") for _ in range(2))
    async with nodes(one, two), RemoteCrib(one.url, two.url, patience=SOON_S) as crib:
        session = await crib.open("s-1", namespaces=["shop"])
        call = await session.submit("tally", {"upto": UPTO, "gate": str(gate)})
        reader = asyncio.ensure_future(tallied(session, half, call.id))
        caller = asyncio.ensure_future(session.call("tally", {"upto": 2, "gate": str(gate)}))
        await half.wait()
        await one.kill()
        gate.touch()
        seen = await reader
        assert (await caller).data == 2
        assert seen[-1].fields["data"] == UPTO
        assert seen == [event for event in await whole_log(session) if event.call == call.id]
        assert crib.link.url == two.url

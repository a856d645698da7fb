"""What a client is told when something is wrong, what is its own, and that its names are those of `Session`."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.client.place import SOON_S, Served, served
from tests.shared import ROOT
from toolcrib import Crib, Refused, Session, Tool
from toolcrib.client import RemoteCrib, RemoteSession
from toolcrib.serve.api import ServeLimits
from toolcrib.testing.stores.fixture import AT, commit, new, park, submit

PAGE = (ROOT / "docs/reference/sessions.md").read_text("utf-8")
AWAY = "http://127.0.0.1:9"  # a port that nobody may listen at


@pytest.fixture
async def place() -> AsyncIterator[Served]:
    async with served() as made:
        yield made


async def refused(crib: RemoteCrib) -> Refused:
    """Why somebody is not let in."""
    with pytest.raises(Refused) as told:
        await crib.start()
    return told.value


async def test_who_has_no_good_key_is_told_so(place: Served) -> None:
    assert (await refused(RemoteCrib(place.url))).code == "unauthorized"
    wrong = await refused(RemoteCrib(place.url, key="tc_" + "x" * 40))
    key = await place.key("ada", expires_at=time.time() + 3600)
    place.later = 7200.0
    old = await refused(RemoteCrib(place.url, key=key))
    assert (wrong.code, old.code) == ("denied", "denied")
    assert "x" * 40 not in str(wrong)
    for odd in ("tc_secret\nx", "tc_secret\u00e9", ""):
        told = await refused(RemoteCrib(place.url, key=odd))
        assert (told.code, "secret" in str(told)) == ("invalid_arguments", False)


async def test_a_key_that_is_revoked_ends_what_it_opened(place: Served) -> None:
    key, kept = await place.keys.add("ada", by="test", namespaces=["shop"])
    async with RemoteCrib(place.url, key=key) as crib:
        session = await crib.open("s-1")
        await place.keys.revoke(kept.id, by="test")
        with pytest.raises(Refused) as told:
            await session.call("add", {"a": 1})
        assert told.value.code == "denied"


async def test_a_key_may_be_made_anew_for_each_request(place: Served) -> None:
    good = await place.key()
    asked: list[str] = []

    async def key() -> str:
        asked.append("key")
        return f"{good}\n"  # as it is read from a file

    async with RemoteCrib(f"{place.url}/v1/", key=key) as crib:
        assert (await (await crib.open()).call("add", {"a": 1})).data == 2
    assert len(asked) >= 3


async def test_a_server_that_is_away_is_named(place: Served) -> None:
    told = await refused(RemoteCrib(AWAY, patience=0.3))
    assert (told.code, AWAY in told.message, told.hint) == (
        "unavailable",
        True,
        "is the server running, and the address right?",
    )
    async with await place.remote("ada", AWAY, place.url) as crib:  # of two addresses one is enough
        assert (await (await crib.open()).call("add", {"a": 1})).data == 2


async def test_a_call_that_nobody_answers_tells_how_to_ask_for_it_again(place: Served) -> None:
    async with await place.remote("ada", patience=0.2) as crib:
        session = await crib.open("s-1")
        crib.link._urls = (AWAY,)
        with pytest.raises(Refused) as told:
            await session.call("charge", {"n": 1}, key="k-7")
    assert (told.value.code, told.value.hint) == (
        "unavailable",
        "it may have been made: ask for it again with key='k-7'",
    )


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\n<ha>", "unavailable", "502 Bad Gateway"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\n[42]", "unavailable", "404 Not Found"),
        (b"HTTP/1.1 302 Found\r\nlocation: http://a\r\ncontent-length: 0\r\n\r\n", "unavailable", "302 Found"),
        (b"SSH-2.0-odd\r\n", "unavailable", "was lost"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n<ha>", "unavailable", "no application/json"),
    ],
)
async def test_what_is_no_server_of_ours_is_told_apart(answer: bytes, code: str, words: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as odd:
        port = odd.sockets[0].getsockname()[1]
        told = await refused(RemoteCrib(f"http://127.0.0.1:{port}", patience=0.2))
    assert told.code == code
    assert words in told.message


@pytest.mark.parametrize(
    "url", ["", "shop", "ftp://a", "http://", "http://a/?q", "http://a:99999", "http://[a", "http://ada:secret@a"]
)
def test_an_address_has_to_be_one(url: str) -> None:
    with pytest.raises(Refused) as told:
        RemoteCrib(url)
    assert told.value.code == "invalid_arguments"
    assert "secret" not in str(told.value)


async def test_owners_do_not_meet(place: Served) -> None:
    async with await place.remote("ada") as adas, await place.remote("bob") as bobs:
        hers, his = await adas.open("s-1"), await bobs.open("s-2")
        call = await hers.submit("refund", {"order": "A-7", "cents": 1})
        with pytest.raises(Refused) as told:
            await bobs.open("s-1")
        assert told.value.code == "denied"
        peeping = RemoteSession(bobs, {"id": "s-1", "owner": "bob"})
        for asks in (peeping.result(call.id), peeping.questions(), peeping.call("add", {"a": 1}), his.status(call.id)):
            with pytest.raises(Refused) as told:
                await asks
            assert told.value.code == "not_found"
        with pytest.raises(Refused) as told:
            await anext(aiter(peeping.events()))
        assert told.value.code == "not_found"
        assert [row.id for row in await bobs.sessions()] == ["s-2"]
        assert await bobs.questions() == []
        with pytest.raises(Refused) as told:
            await adas.open("s-3", owner="bob")
        assert (told.value.code, told.value.message) == ("denied", "The server knows you as 'ada', not 'bob'")
        with pytest.raises(Refused) as told:
            await adas.open("s-3", namespaces=["forge"])
        assert told.value.code == "denied"


async def test_all_open_questions_are_read_however_many_pages_they_are(place: Served) -> None:
    store, many = place.crib.store, 1050
    async with await place.remote("ada") as crib:
        for number in range(many):
            session = f"s-{number % 50}"
            await store.open(session, "ada", AT)
            await store.commit(park(await commit(store, submit(new(f"c-{number}", session))), expires_at=AT * 2))
        assert {one.id for one in await crib.questions()} == {f"c-{number}-1" for number in range(many)}


async def test_an_approver_answers_in_sessions_of_others() -> None:
    policy = {"rules": [{"ask": "refund", "approvers": ["bob"]}]}
    async with served(policy=policy) as place, await place.remote("ada") as adas, await place.remote("bob") as bobs:
        session = await adas.open("s-1")
        call = await session.submit("refund", {"order": "A-7", "cents": 1})
        news = bobs.watch_questions()
        async with asyncio.timeout(SOON_S):
            question = (await anext(news)).question
        await news.aclose()  # type: ignore[attr-defined]
        assert question is not None
        assert [one.id for one in await adas.questions()] == [question.id]
        with pytest.raises(Refused) as told:
            await adas.answer(question, "accept")
        assert told.value.code == "denied"
        assert (await bobs.answer(question, "accept")).actor == "bob"
        assert (await session.result(call.id)).ok


async def test_who_asks_too_often_is_let_wait() -> None:
    async with served(limits=ServeLimits(rate="5/s")) as place, await place.remote() as crib:
        session = await crib.open()
        assert [(await session.call("add", {"a": n})).data for n in range(8)] == list(range(1, 9))


async def test_what_has_to_be_fetched_is_awaited(place: Served) -> None:
    async with await place.remote() as crib:
        session = await crib.open("s-1")
        tools = {tool.id: tool for tool in await session.tools()}
        assert (tools["shop.refund"].does, tools["shop.add"].does) == ("once", "read")
        assert tools["shop.refund"].annotations is not None
        assert tools["shop.refund"].annotations.destructive
        whole = await crib.tool("shop.add")
        assert whole.input_schema is not None
        assert set(whole.input_schema["properties"]) == {"a", "b"}
        embedded = await place.crib._session_table.attached("s-1")
        assert embedded is not None
        for tool, args in (("refund", {"order": "A-7", "cents": 1}), ("add", '{"a": 1}'), ("forge.build", None)):
            why, same = await session.why(tool, args), embedded.why(tool, args)
            assert (why.verdict, why.lines()) == (same.verdict, same.lines())
            assert why.data() == json.loads(json.dumps(same.data()))
        await session.call("remember", {"thing": "hat"})
        state = await session.state()
        assert (dict(state), state.revision) == ({"thing": "hat"}, 1)
        assert dict(await session.state(at=1)) == {}


async def test_what_is_not_for_a_client_to_say_is_refused(place: Served) -> None:
    async with await place.remote() as crib:
        session = await crib.open("s-1")
        for asks in (
            session.call("add", {"a": 1}, by=("user", "bob")),
            session.submit("add", {"a": 1}, run="r-1"),
            session.answer("q", "accept", actor="bob"),
            session.answer("q", "accept", colour="red"),
            session.completed("model"),  # type: ignore[arg-type]
        ):
            with pytest.raises(Refused) as told:
                await asks
            assert told.value.code in ("invalid_arguments", "denied")


async def test_client_tools_run_where_the_client_is(place: Served) -> None:
    shown: list[str] = []

    async def show(title: str) -> dict[str, bool]:
        shown.append(title)
        return {"shown": True}

    def fail() -> None:
        raise ValueError("no window")

    async with await place.remote() as crib:
        session = await crib.open("s-1")
        schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
        await session.offer(
            [
                Tool(name="show", description="Show a window.", input_schema=schema),
                Tool(name="fail", description="Fail."),
            ]
        )
        early = await session.submit("client.show", {"title": "early"})
        serving = asyncio.ensure_future(session.serve_client_tools({"show": show, "client.fail": fail}))
        async with asyncio.timeout(SOON_S):
            assert (await session.result(early.id)).data == {"shown": True}
            assert (await session.call("client.show", {"title": "late"})).data == {"shown": True}
            failed = (await session.call("client.fail")).failure
        assert failed is not None
        assert (failed.code, failed.message) == ("failed", "ValueError: no window")
        assert shown == ["early", "late"]
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


# The names

AWAITED = {"tools", "why"}
"""What a session in the process tells at once, and a remote one has to fetch."""

WITHIN = {"consume", "end_run", "error", "left", "look", "model_tools", "names", "notice", "sees", "tool"}
"""What the API does not have."""


def documented() -> set[str]:
    """The methods that the reference knows of a session."""
    section = re.split(r"^## ", PAGE.split("\n## Session\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    cells = [line.split(" | ")[0] for line in section.split("\n\n`id`")[0].splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)\(", cell)}


def test_a_remote_session_has_the_names_of_a_session() -> None:
    shared = documented() - WITHIN | AWAITED | {"narrow"}
    assert len(shared) > 15
    assert [name for name in shared if not hasattr(RemoteSession, name)] == []
    assert [name for name in WITHIN if hasattr(RemoteSession, name)] == []
    for name in shared - AWAITED:
        there, here = getattr(Session, name), getattr(RemoteSession, name)
        assert list(inspect.signature(there).parameters) == list(inspect.signature(here).parameters), name
        assert inspect.iscoroutinefunction(there) == inspect.iscoroutinefunction(here), name
    for name in ("open", "sessions", "questions", "start"):
        theirs = inspect.signature(getattr(Crib, name)).parameters
        assert set(inspect.signature(getattr(RemoteCrib, name)).parameters) == set(theirs) - {"allowed"}


@pytest.mark.process
def test_to_import_the_client_loads_no_http() -> None:
    program = "import json, sys, toolcrib.client; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded: list[Any] = json.loads(done.stdout)
    assert {"httpx", "toolcrib.agent", "toolcrib.serve"} & set(loaded) == set()

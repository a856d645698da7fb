"""Questions over the API: answers, the inbox, who sees what, and the badge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.serve.api.place import SOON_S, Desk, desk, until
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.events import Event
from toolcrib.serve.api import questions
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal
from toolcrib.store import Row, Walk, WalkFilter
from toolcrib.store.memory import MemoryStore
from toolcrib.testing.stores.fixture import AT, commit, new, park, submit

PEOPLE = ("ada", "bob", "eve", "root")


@pytest.fixture
async def desks() -> AsyncIterator[dict[str, Desk]]:
    """One server, and several people who use it; bob is an approver of what ada does."""
    keys = {name: new_key() for name in PEOPLE}
    known = {kept: Principal(name, auth="key") for name, (_, kept) in keys.items()}
    known[keys["root"][1]] = Principal("root", scopes=frozenset({"admin"}), auth="key")
    rules = [{"ask": "erase", "approvers": ["managers"]}]
    policy = {"rules": rules, "groups": {"managers": ["bob"]}}
    async with desk(Crib(TOOLS, policy=policy), guard=ApiKeys(known)) as made:
        yield {name: made.as_(keys[name][0]) for name in PEOPLE}


async def test_a_question_is_answered_and_the_call_goes_on(desks: dict[str, Desk]) -> None:
    ada = desks["ada"]
    session = await ada.open()
    call = (await ada.post(f"/sessions/{session}/calls", tool="greet", wait=False))["id"]
    (question,) = (await ada.get(f"/sessions/{session}/questions"))["items"]
    said = {"question": question["id"], "action": "accept", "value": {"name": "Ada"}, "key": "k"}
    answer = await ada.post(f"/sessions/{session}/answers", **said)
    assert (answer["actor"], answer["value"]) == ("ada", {"name": "Ada"})
    assert await ada.post(f"/sessions/{session}/answers", **said) == answer
    other = said | {"key": "other"}
    assert await ada.refused("POST", f"/sessions/{session}/answers", other) == (409, "already_answered")
    assert (await ada.get(f"/sessions/{session}/calls/{call}/result", wait=SOON_S))["data"] == "Hello, Ada!"
    forged = {"question": question["id"], "action": "accept", "actor": "bob"}
    assert await ada.refused("POST", f"/sessions/{session}/answers", forged) == (403, "denied")


async def test_an_approver_sees_what_is_put_to_them_and_nothing_else(desks: dict[str, Desk]) -> None:
    ada, bob, eve, root = desks["ada"], desks["bob"], desks["eve"], desks["root"]
    session = await ada.open("s")
    call = (await ada.post("/sessions/s/calls", tool="erase", args={"what": "x"}, wait=False))["id"]
    await ada.post("/sessions/s/calls", tool="greet", wait=False)
    assert len((await ada.get("/questions"))["items"]) == 2
    assert len((await root.get("/questions", owner="ada"))["items"]) == 2
    assert (await eve.get("/questions"))["items"] == []
    (question,) = (await bob.get("/questions"))["items"]
    assert (question["tool"], question["arguments"], question["owner"]) == ("default.erase", {"what": "x"}, "ada")
    assert question["demands"][0]["approvers"] == ["managers"]
    said = {"question": question["id"], "action": "accept"}
    assert await bob.refused("GET", "/sessions/s/questions") == (404, "not_found")
    assert await eve.refused("POST", "/sessions/s/answers", said) == (404, "not_found")
    assert await ada.refused("POST", "/sessions/s/answers", said) == (403, "denied")
    assert (await bob.post("/sessions/s/answers", **said))["actor"] == "bob"
    assert (await ada.get(f"/sessions/{session}/calls/{call}/result", wait=SOON_S))["data"] == "erased x"
    assert await bob.refused("POST", "/sessions/s/answers", said | {"key": "k"}) == (409, "already_answered")


async def test_the_badge_is_told_of_what_comes_and_goes(desks: dict[str, Desk]) -> None:
    ada, bob, eve = desks["ada"], desks["bob"], desks["eve"]
    session = await ada.open()
    async with bob.stream("/questions/events") as badge, eve.stream("/questions/events") as other:
        call = (await ada.post(f"/sessions/{session}/calls", tool="erase", args={"what": "x"}, wait=False))["id"]
        asked = await until(badge, "asked")
        assert asked.data["call"] == call
        await ada.post(f"/sessions/{session}/calls/{call}/cancel")
        assert (await until(badge, "gone")).data == {"id": asked.data["id"]}
        mine = await eve.open()
        await eve.post(f"/sessions/{mine}/calls", tool="greet", wait=False)
        assert (await until(other, "asked")).data["session"] == mine


async def test_an_inbox_is_read_by_pages_that_skip_what_is_not_for_the_reader(
    desks: dict[str, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "LOOK_S", SOON_S)
    ada, bob = desks["ada"], desks["bob"]
    session = await ada.open()
    for number in range(5):
        await ada.post(f"/sessions/{session}/calls", tool="greet", wait=False)
        await ada.post(f"/sessions/{session}/calls", tool="erase", args={"what": str(number)}, wait=False)
    for reader, wanted in ((ada, 10), (bob, 5)):
        pages, after = list[list[str]](), dict[str, str]()
        while True:
            page = await reader.get("/questions", limit=2, **after)
            pages.append([question["id"] for question in page["items"]])
            if "next" not in page:
                break
            after = {"after": page["next"]}
        found = [id for one in pages for id in one]
        assert len(found) == len(set(found)) == wanted
        assert all(len(one) == 2 for one in pages[: wanted // 2])
    assert await ada.refused("GET", "/questions?after=nowhere") == (400, "invalid_arguments")


async def test_a_page_of_an_inbox_ends_when_it_was_looked_for_long_enough(
    desks: dict[str, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "LOOK_S", -1.0)
    ada, bob = desks["ada"], desks["bob"]
    session = await ada.open()
    for tool, args in (("greet", {}), ("greet", {}), ("erase", {"what": "x"})):
        await ada.post(f"/sessions/{session}/calls", tool=tool, args=args, wait=False)
    first = await bob.get("/questions", limit=2)
    assert first["items"] == []
    (question,) = (await bob.get("/questions", limit=2, after=first["next"]))["items"]
    async with bob.stream("/questions/events") as badge:
        assert (await until(badge, "asked")).data["id"] == question["id"]


class Paused(MemoryStore):
    """A store that gives the events of calls as they were when it was asked, and only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def stories(self, rows: Sequence[Row]) -> list[list[Event]]:
        """Waits."""
        found = await super().stories(rows)
        self.asked.set()
        await self.go.wait()
        return found


async def test_what_ends_while_the_inbox_is_looked_up_is_told_as_gone() -> None:
    store = Paused()
    async with desk(Crib(TOOLS, store=store)) as served:
        session = await served.open()
        call = (await served.post(f"/sessions/{session}/calls", tool="greet", wait=False))["id"]
        async with served.stream("/live") as live, served.stream("/questions/events") as badge:
            await store.asked.wait()
            await served.post(f"/sessions/{session}/calls/{call}/cancel")
            await until(live, "done")
            store.go.set()
            asked = await until(badge, "asked")
            assert (await until(badge, "gone")).data == {"id": asked.data["id"]}


async def test_a_new_question_is_told_where_very_many_are_open() -> None:
    store, many = MemoryStore(), 1050
    async with desk(Crib(TOOLS, store=store)) as served:
        for number in range(many):
            session = f"s{number % 50}"
            await store.open(session, "anonymous", AT)
            await store.commit(park(await commit(store, submit(new(f"c{number}", session))), expires_at=AT * 2))
        mine = await served.open()
        async with served.stream("/questions/events") as badge:
            for _ in range(many):
                await until(badge, "asked")
            call = (await served.post(f"/sessions/{mine}/calls", tool="greet", wait=False))["id"]
            assert (await until(badge, "asked")).data["call"] == call


class Walked(MemoryStore):
    """A store that knows for whom it was walked over."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: list[str | None] = []

    async def walk(self, where: WalkFilter, *given: Any, **more: Any) -> Walk:
        """Takes it down."""
        self.owners.append(where.owner)
        return await super().walk(where, *given, **more)


async def test_nobody_looks_because_of_a_question_that_is_put_to_others() -> None:
    store, keys = Walked(), {name: new_key() for name in ("ada", "eve")}
    guard = ApiKeys({kept: Principal(name, auth="key") for name, (_, kept) in keys.items()})
    async with desk(Crib(TOOLS, store=store), guard=guard) as served:
        ada, eve = (served.as_(keys[name][0]) for name in ("ada", "eve"))
        sessions = {one: await one.open() for one in (ada, eve)}
        await eve.post(f"/sessions/{sessions[eve]}/calls", tool="greet", wait=False)
        async with eve.stream("/questions/events") as hers, ada.stream("/questions/events") as badge:
            await until(hers, "asked")
            before = store.owners.count("eve")
            await ada.post(f"/sessions/{sessions[ada]}/calls", tool="greet", wait=False)
            assert (await until(badge, "asked")).data["owner"] == "ada"
            assert store.owners.count("eve") == before
            second = (await eve.post(f"/sessions/{sessions[eve]}/calls", tool="greet", wait=False))["id"]
            assert (await until(hers, "asked")).data["call"] == second

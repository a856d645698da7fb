"""Opening a session: ids, owners, what two sessions share (nothing), and the namespaces of first and later opens."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import Gate, Place, kinds, log
from toolcrib import Context, Crib, Refused, Tool, tool
from toolcrib.errors import StoreError
from toolcrib.events import SessionClosing
from toolcrib.sources import Source
from toolcrib.store import Write, draft
from toolcrib.store.sqlite.store import SqliteStore


@tool(read_only=True)
async def own(ctx: Context, number: int) -> list[Any]:
    """Say which session this is."""
    await asyncio.sleep(0)
    return [ctx.session, number]


@tool(namespace="time", read_only=True)
async def now() -> int:
    """Tell the time."""
    return 0


@tool(namespace="forge", read_only=True)
async def build() -> int:
    """Build it."""
    return 1


@requirement("aomi.open.1")
async def test_without_an_id_a_session_gets_one_that_nobody_guesses() -> None:
    async with Crib() as crib:
        ids = {(await crib.open(owner="ada")).id for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9._:-]{22,255}", id) for id in ids)  # 128 bits take 22 such characters


@requirement("aomi.open.1")
async def test_open_creates_a_session_and_the_second_time_restores_it(place: Place) -> None:
    async with place.crib(own) as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("own", {"number": 1})
    async with place.crib(own) as crib:
        again = await crib.open("s-1", owner="ada")
        events = await log(again)
        assert kinds(events) == ["opened", "accepted", "started", "done", "opened"]
        assert [event.fields["restored"] for event in events if event.kind == "opened"] == [False, True]


@requirement("aomi.open.1")
@pytest.mark.parametrize("id", ["a", "A.b:-9", "x" * 255])
async def test_an_id_of_allowed_characters_is_taken(id: str) -> None:
    async with Crib() as crib:
        assert (await crib.open(id, owner="ada")).id == id


@requirement("aomi.open.1")
@pytest.mark.parametrize("id", ["", "x" * 256, "a b", "a/b", "ä", "a\n", "a;b"])
async def test_any_other_id_is_refused(id: str) -> None:
    async with Crib() as crib:
        with pytest.raises(Refused) as refused:
            await crib.open(id, owner="ada")
    assert refused.value.code == "invalid_arguments"


@requirement("aomi.open.2")
async def test_somebody_elses_session_is_denied_and_nothing_is_said_about_it(place: Place) -> None:
    async with place.crib(own, now) as crib:
        mine = await crib.open("s-1", owner="ada", namespaces=["time"])
        before = await log(mine)
        with pytest.raises(Refused) as refused:
            await crib.open("s-1", owner="bob", namespaces=["default"])
        assert refused.value.code == "denied"
        assert not re.search("ada|time|now|default|own", str(refused.value))
        assert await log(mine) == before
        assert mine.namespaces == ("time",)


@requirement("aomi.open.2")
async def test_the_calls_of_another_session_do_not_exist_for_this_one(place: Place) -> None:
    @tool(requires_confirmation=True)
    async def pay() -> None:
        """Pay."""

    async with place.crib(pay) as crib:
        hers, his = await crib.open(owner="ada"), await crib.open(owner="bob")
        call = await hers.submit("pay")
        (question,) = await hers.questions()
        attempts = [
            his.result(call.id),
            his.status(call.id),
            his.cancel(call.id),
            his.answer(question.id, "accept"),
            anext(his.events(call=call.id)),
        ]
        codes = []
        for attempt in attempts:
            with pytest.raises(Refused) as refused:
                await attempt
            codes.append(refused.value.code)
        assert codes == ["not_found"] * 5
        assert await his.questions() == []
        assert (await hers.status(call.id)).status == "waiting"


@requirement("aomi.open.3")
async def test_two_sessions_with_interleaved_calls_see_exactly_their_own(place: Place) -> None:
    async with place.crib(own) as crib:
        sessions = [await crib.open(owner="ada"), await crib.open(owner="bob")]
        made = [session.call("own", {"number": n}) for n in range(200) for session in sessions]
        results = [result.data for result in await asyncio.gather(*made)]
        for which, session in enumerate(sessions):
            assert results[which::2] == [[session.id, n] for n in range(200)]
            done = [entry.result.data for entry in await session.completed() if entry.result]
            assert sorted(done) == [[session.id, n] for n in range(200)]


@requirement("aomi.open.3")
async def test_cursors_and_state_of_two_sessions_are_apart(place: Place) -> None:
    from toolcrib import Change, Result

    @tool(idempotent=True)
    async def note(ctx: Context) -> Result:
        """Count."""
        return Result(len(ctx.state), changes=[Change("set", "k", ctx.session)])

    async with place.crib(note) as crib:
        one, two = await crib.open(owner="ada"), await crib.open(owner="ada")
        assert (await one.call("note")).data == 0
        await one.consume("model", 4)
        assert (await two.call("note")).data == 0
        assert len(await one.completed("model")) == 0
        assert len(await two.completed("model")) == 1


@requirement("aomi.open.4")
async def test_who_and_where_reaches_a_tool_in_its_context_and_never_in_its_arguments() -> None:
    @tool(read_only=True)
    async def look(ctx: Context, session_id: str = "default") -> dict[str, Any]:
        """Look around."""
        seen = {name: getattr(ctx, name) for name in ("session", "owner", "namespaces", "user")}
        return {**seen, "call": ctx.id, "argument": session_id}

    async with Crib([look]) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["default"])
        await session.set_user({"address": "0xA"})
        call = await session.submit("look", {"session_id": "mine"})
        seen = (await session.result(call.id)).data
        assert seen.pop("call") == call.id
        assert seen.pop("user")["address"] == "0xA"
        assert seen == {"session": "s-1", "owner": "ada", "namespaces": ["default"], "argument": "mine"}
        assert look.input_schema["properties"].keys() == {"session_id"}
        assert (await session.call("look")).data["argument"] == "default"


@requirement("aomi.open.5")
async def test_the_first_open_has_the_default_namespace_and_a_later_one_the_recorded_ones(place: Place) -> None:
    async with place.crib(own, now) as crib:
        assert (await crib.open("plain", owner="ada")).namespaces == ("default",)
        assert (await crib.open("timed", owner="ada", namespaces=["time"])).namespaces == ("time",)
        assert (await crib.open("timed", owner="ada")).namespaces == ("time",)
    async with place.crib(own, now) as crib:
        again = await crib.open("timed", owner="ada")
        assert again.namespaces == ("time",)
        assert [tool.id for tool in again.tools()] == ["time.now"]


@requirement("aomi.open.5")
async def test_namespaces_given_later_replace_the_old_ones_from_that_moment(place: Place) -> None:
    async with place.crib(own, now) as crib:
        session = await crib.open("s-1", owner="ada")
        same = await crib.open("s-1", owner="ada", namespaces=["time"])
        assert same is session
        assert [tool.id for tool in session.tools()] == ["time.now"]
        assert (await session.call("default.own", {"number": 1})).failure.code == "denied"  # type: ignore[union-attr]
        (changed,) = [event for event in await log(session) if event.kind == "namespaces"]
        assert changed.fields == {"namespaces": ["time"], "tools": ["time.now"]}
    async with place.crib(own, now) as crib:
        again = await crib.open("s-1", owner="ada", namespaces=["default"])
        assert again.namespaces == ("default",)
        assert (await log(again))[-1].kind == "namespaces"


@requirement("aomi.open.5")
async def test_a_change_of_namespaces_lets_started_calls_go_on_and_denies_those_in_the_queue(place: Place) -> None:
    gate = Gate()

    @tool(concurrency=1)
    async def slow() -> str:
        """Take a while."""
        await gate.passed()
        return "done"

    async with place.crib(slow, now) as crib:
        session = await crib.open("s-1", owner="ada")
        running = await session.submit("slow")
        await gate.wait()
        queued = await session.submit("slow")
        await crib.open("s-1", owner="ada", namespaces=["time"])
        denied = await session.result(queued.id)
        gate.opened.set()
        assert (await session.result(running.id)).data == "done"
        assert denied.failure is not None
        assert denied.failure.code == "denied"


async def test_namespaces_outside_those_of_the_caller_are_denied() -> None:
    async with Crib([own, now, build]) as crib:
        with pytest.raises(Refused) as refused:
            await crib.open("s-1", owner="ada", namespaces=["time", "forge"], allowed=["default", "time"])
        assert refused.value.code == "denied"
        assert refused.value.message == "Namespace 'forge' not authorized. Allowed: [default, time]"
        assert (await crib.open("s-1", owner="ada", namespaces=["time"], allowed=["default", "time"])).tools() == [now]


async def test_a_right_that_was_taken_away_is_not_kept_by_what_a_session_recorded(place: Place) -> None:
    async with place.crib(own, build) as crib:
        await crib.open("s-1", owner="ada", namespaces=["forge"], allowed=["forge"])
        with pytest.raises(Refused, match="Namespace 'forge' not authorized"):
            await crib.open("s-1", owner="ada", allowed=["default"])


async def test_a_glob_does_not_reach_past_what_is_allowed() -> None:
    async with Crib([own, now, build]) as crib:
        for wanted in ("*", "f*", "tim?"):
            with pytest.raises(Refused, match="not authorized"):
                await crib.open(owner="ada", namespaces=[wanted], allowed=["default", "time"])


async def test_what_was_taken_away_is_given_back_by_nobody_who_may_not_open_everything(place: Place) -> None:
    async with place.crib(*two_namespaces()) as crib:
        session = await crib.open("s", owner="ada", namespaces=["one", "two"])
        await session.narrow(namespaces=["one"])
        with pytest.raises(Refused) as refused:
            await crib.open("s", owner="ada", namespaces=["one", "two"], allowed=["one", "two"])
        assert (refused.value.code, "'two' was taken away" in refused.value.message) == ("denied", True)
        assert (await crib.open("s", owner="ada", namespaces=["one"], allowed=["one", "two"])).namespaces == ("one",)
        again = await crib.open("s", owner="ada", namespaces=["one", "two"])
        assert again.namespaces == ("one", "two")
        assert (await crib.open("s", owner="ada", namespaces=["two"], allowed=["one", "two"])).namespaces == ("two",)


def two_namespaces() -> list[Tool]:
    """A tool in each of two namespaces."""

    @tool(namespace="one", read_only=True)
    async def first() -> int:
        """Be the first."""
        return 1

    @tool(namespace="two", read_only=True)
    async def second() -> int:
        """Be the second."""
        return 2

    return [first, second]


async def test_a_session_of_a_crib_without_agents_takes_no_message() -> None:
    async with Crib(two_namespaces()) as crib:
        session = await crib.open("s", owner="ada")
        with pytest.raises(Refused) as refused:
            await session.send("hello")
        assert (refused.value.code, refused.value.message) == ("unavailable", "This crib has no agents")


async def test_a_source_that_has_to_be_started_is_given_to_the_crib_when_it_is_made(tmp_path: Path) -> None:
    async with Crib(two_namespaces()) as crib:
        before = [found.id for found in crib.catalog.view(("*",)).tools]
        with pytest.raises(Refused) as refused:
            crib.add(tmp_path)
        assert refused.value.code == "invalid_arguments"
        assert [found.id for found in crib.catalog.view(("*",)).tools] == before


class Shelf(Source):
    """A source that starts, or cannot."""

    def __init__(self, name: str, *, broken: bool) -> None:
        self.name = name
        self.broken = broken
        self.stopped = 0

    async def start(self, changed: Any) -> list[Tool]:
        if self.broken:
            raise OSError("no such place")
        return []

    async def stop(self) -> None:
        self.stopped += 1


async def test_a_crib_that_cannot_start_lets_go_of_all_that_it_had_begun_with(tmp_path: Path) -> None:
    tasks = len(asyncio.all_tasks())
    store, source = SqliteStore(f"sqlite:///{tmp_path}/log.db"), Shelf("first", broken=False)
    crib = Crib([source, Shelf("second", broken=True), *two_namespaces()], store=store)
    with pytest.raises(OSError, match="no such place"):
        await crib.start()
    assert source.stopped == 1
    assert len(asyncio.all_tasks()) == tasks
    with pytest.raises(StoreError):
        await store.flush()


@pytest.mark.parametrize("how", ["call", "submit", "key"])
async def test_the_store_keeps_calls_out_of_a_session_that_another_process_closed(place: Place, how: str) -> None:
    ran = list[str]()

    @tool
    async def pay() -> None:
        """Pay."""
        ran.append("paid")

    async with place.crib(pay) as crib:
        session = await crib.open("s", owner="ada")
        await crib.store.commit(Write("s", [draft(1.0, None, SessionClosing(1.0))]))
        if how == "submit":
            result = await session.result((await session.submit("pay")).id)
        else:
            result = await session.call("pay", {}, key="k" if how == "key" else None)
        assert result.failure is not None
        assert (result.failure.code, result.failure.message) == ("unavailable", "Session is closed")
        assert not result.failure.retryable
        assert (session.shut, ran, session.live) == (True, [], {})
        again = await crib.open("s", owner="ada")
        assert (await again.call("pay")).ok
        assert ran == ["paid"]

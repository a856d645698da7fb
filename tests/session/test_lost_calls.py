"""What becomes of calls whose process is gone, with all that they had called, and of those whose tool is not here."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Place
from toolcrib import Crib, Session, tool
from toolcrib.sources import Source
from toolcrib.store import Row, Store, Write
from toolcrib.store.codec import Stored, encode
from toolcrib.testing.stores.fixture import park

BY = {"kind": "user", "name": ""}


async def left(store: Store, id: str, effect: str, state: str, parent: str | None = None) -> None:
    """Leave a call of the tool of that effect in a state, as a process does that is killed."""
    accepted: dict[str, Any] = {"tool": f"default.{effect}", "label": "", "args": {}, "by": BY, "digest": ""}
    accepted |= {"effect": effect} | ({} if parent is None else {"parent": parent})
    row = Row(id, "s", f"default.{effect}", effect, "queued", 0, "w-gone", 1.0, parent=parent)
    events: list[Any] = [(1.0, id, "accepted", Stored(encode(accepted)))]
    if state != "queued":
        started = {"attempt": 1, "args": {}, "digest": "", "timeout_s": 60}
        events.append((1.0, id, "started", Stored(encode(started))))
        row = row.but(state="running", attempt=1)
    assert await store.commit(Write("s", events, row)) is None
    if state == "waiting":
        assert await store.commit(park(row, expires_at=4_000_000_000.0)) is None


def tools(ran: list[str]) -> list[Any]:
    @tool(effect="once")
    async def once() -> None:
        """Happen once."""
        ran.append("once")

    @tool(effect="idempotent")
    async def idempotent() -> str:
        """Happen again."""
        ran.append("idempotent")
        return "ran"

    return [once, idempotent]


async def code(session: Session, call: str) -> str | None:
    async with asyncio.timeout(SOON):
        failure = (await session.result(call)).failure
    return None if failure is None else failure.code


@requirement("reliability.fence.4", "reliability.rescue.1")
async def test_what_a_lost_call_had_called_ends_before_it_and_each_as_what_is_known_of_it(place: Place) -> None:
    ran: list[str] = []
    async with place.crib(*tools(ran)) as crib:
        await crib.open("s", owner="ada")
        await left(crib.store, "c-parent", "once", "running")
        for id, effect, state in (
            ("c-paid", "once", "running"),
            ("c-put", "idempotent", "running"),
            ("c-asks", "idempotent", "waiting"),
            ("c-next", "idempotent", "queued"),
        ):
            await left(crib.store, id, effect, state, parent="c-parent")
    async with place.crib(*tools(ran)) as crib:
        session = await crib.open("s", owner="ada")
        codes = {call: await code(session, call) for call in ("c-parent", "c-paid", "c-put", "c-asks", "c-next")}
        ended = [event.call async for event in session.events(follow=False) if event.kind == "done"]
    interrupted = dict.fromkeys(("c-put", "c-asks", "c-next"), "cancelled")
    assert codes == {"c-parent": "unknown", "c-paid": "unknown", **interrupted}
    assert ended[-1] == "c-parent"
    assert ran == []


@requirement("reliability.rescue.2")
async def test_a_call_left_while_a_process_lives_that_lacks_its_tool_waits_for_one_that_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    url = f"sqlite:///{tmp_path}/log.db?lease=0.2"
    with caplog.at_level(logging.WARNING, "toolcrib"):
        async with Crib(store=url) as bare:
            session = await bare.open("s", owner="ada")
            await left(bare.store, "c-put", "idempotent", "running")
            async with asyncio.timeout(SOON):
                while "calls of default.idempotent wait for a process that has it" not in caplog.text:  # noqa: ASYNC110 - a log
                    await asyncio.sleep(0.02)
            async with Crib(tools(ran), store=url):
                assert await code(session, "c-put") is None
    assert ran == ["idempotent"]


class Late(Source):
    """A source in the background whose tools are there when it is let."""

    background = True

    def __init__(self, tools: list[Any]) -> None:
        self.name, self.namespaces = "late", ("default",)
        self.gate = asyncio.Event()
        self._tools = tools

    async def start(self, changed: Any) -> Any:
        await self.gate.wait()
        return self._tools


@requirement("reliability.rescue.2")
async def test_a_call_whose_source_is_still_starting_waits_for_that_without_a_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    async with place.crib(*tools(ran)) as crib:
        await crib.open("s", owner="ada")
        await left(crib.store, "c-put", "idempotent", "running")
    source = Late(tools(ran))
    crib = place.crib(source)
    crib.at_once = True
    async with asyncio.timeout(SOON), crib:
        session = await crib.open("s", owner="ada")
        assert "wait for a process that has it" not in caplog.text
        source.gate.set()
        assert await code(session, "c-put") is None
    assert ran == ["idempotent"]


@requirement("reliability.rescue.1")
async def test_a_call_that_was_there_at_the_start_of_a_process_that_lacks_its_tool_ends(place: Place) -> None:
    async with place.crib(*tools([])) as crib:
        await crib.open("s", owner="ada")
        await left(crib.store, "c-put", "idempotent", "running")
    async with place.crib() as crib:
        assert await code(await crib.open("s", owner="ada"), "c-put") == "not_found"


@requirement("reliability.fence.4")
@pytest.mark.parametrize("state", ["queued", "running", "waiting"])
@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_a_call_that_nobody_runs_is_cancelled_and_it_is_told_where_it_may_have_run(
    place: Place, effect: str, state: str
) -> None:
    ran: list[str] = []
    async with place.crib(*tools(ran)) as crib:
        session = await crib.open("s", owner="ada")
        await left(crib.store, "c1", effect, state)
        assert await asyncio.wait_for(session.cancel("c1"), SOON)
        result = await asyncio.wait_for(session.result("c1"), SOON)
        assert not await session.cancel("c1")
        row = await crib.store.call("c1")
    assert (result.failure and result.failure.code, ran) == ("cancelled", [])
    assert result.metadata.get("may_have_run", False) == (state == "running" and effect == "once")
    assert row is not None
    assert (row.state, row.code) == ("done", "cancelled")

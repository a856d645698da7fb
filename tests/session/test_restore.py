"""Login: what was not delivered is delivered once, and everything goes on where it was."""

import asyncio
import logging
import subprocess
import sys

import pytest

from tests.requirements import requirement
from tests.session import logout_program
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log
from tests.shared import ROOT
from toolcrib import Change, Context, Failure, Result, Session, tool
from toolcrib.store import SessionRow
from toolcrib.testing import FakeClock

LOGOUT = "Timed out during logout"


@tool(read_only=True, name="test_tool")
async def aomi_tool() -> dict[str, str]:
    """Succeed."""
    return {"status": "success"}


@tool(requires_confirmation=True)
async def approve() -> str:
    """Wait for somebody."""
    return "approved"


async def deliver(session: Session) -> list[Result]:
    """What a model would be given, and its cursor moved."""
    entries = await session.completed("model")
    if entries:
        await session.consume("model", entries[-1].seq)
    return [entry.result for entry in entries if entry.result is not None]


def failure(result: Result) -> Failure:
    assert result.failure is not None
    return result.failure


@requirement("aomi.restore.5")
async def test_a_session_tells_that_it_was_restored_and_the_log_too(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    for number in range(3):
        async with place.crib(aomi_tool) as crib:
            session = await crib.open("s-1", owner="ada")
            assert session.restored is (number > 0)
            await session.close()
    lines = [one.getMessage() for one in caplog.records if one.name == "toolcrib" and "session s-1" in one.getMessage()]
    begun = [line for line in lines if "was closed" not in line]
    assert begun == ["session s-1 of ada was opened", *["session s-1 of ada was restored"] * 2]
    assert len(lines) - len(begun) == 3


@requirement("aomi.restore.1")
async def test_a_finished_call_is_delivered_once_in_a_new_process(place: Place) -> None:
    async with place.crib(aomi_tool) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("test_tool")
        await session.result(call.id)
        await session.close()
    async with place.crib(aomi_tool) as crib:
        session = await crib.open("s-1", owner="ada")
        opened = (await log(session))[-1]
        assert (opened.kind, opened.fields["restored"]) == ("opened", True)
        (entry,) = await session.completed("model")
        assert (entry.id, entry.tool) == (call.id, "default.test_tool")
        assert [result.data for result in await deliver(session)] == [{"status": "success"}]
        assert await deliver(session) == []
        await session.close()
    async with place.crib(aomi_tool) as crib:
        assert await deliver(await crib.open("s-1", owner="ada")) == []


@requirement("aomi.restore.1")
async def test_a_session_that_recovery_took_up_is_restored_at_open_like_any_other(place: Place) -> None:
    gate = Gate()

    @tool(idempotent=True)
    async def slow() -> str:
        """Take a while."""
        await gate.passed()
        return "at last"

    async with place.crib(slow) as crib:
        call = await (await crib.open("s-1", owner="ada")).submit("slow")
        await gate.wait()
        await crib.stop(grace=0)
    async with place.crib(slow) as crib:
        session = await crib.open("s-1", owner="ada")
        opened = [event.fields["restored"] for event in await log(session) if event.kind == "opened"]
        assert opened == [False, True]
        assert [entry.id for entry in await session.ongoing()] == [call.id]
        gate.opened.set()
        assert (await session.result(call.id)).data == "at last"


@requirement("aomi.restore.1", "aomi.restore.2")
async def test_story_3_a_logout_with_a_short_a_long_and_a_waiting_call_and_a_login_elsewhere(place: Place) -> None:
    short = Gate()

    @tool(idempotent=True)
    async def brief() -> str:
        """Take a moment."""
        await short.passed()
        return "finished"

    @tool(idempotent=True)
    async def long() -> None:
        """Take too long."""
        await asyncio.Event().wait()

    tools, clock = (brief, long, approve), FakeClock()
    async with place.crib(*tools, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        calls = [await session.submit(name) for name in ("brief", "long", "approve")]
        closing = asyncio.create_task(session.close(timeout=30))
        await first(session, "closing")
        short.opened.set()
        await first(session, "done", calls[0].id)
        await clock.advance(30)
        assert await closing == (1, 1, 1, 2)
    async with place.crib(*tools, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        one, two = await deliver(session)
        assert one.data == "finished"
        assert (failure(two).code, failure(two).message) == ("timeout", LOGOUT)
        assert await deliver(session) == []
        (question,) = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        assert (await session.result(calls[2].id)).data == "approved"
        assert [result.data for result in await deliver(session)] == ["approved"]


@requirement("aomi.drain.9", "aomi.restore.1")
@pytest.mark.process
async def test_story_4_a_kill_in_the_middle_of_a_logout_loses_nothing(file_place: Place) -> None:
    command = (sys.executable, "-m", "tests.session.logout_program", file_place.url, "--first")
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"in the middle\n"
    process.kill()
    await process.communicate()
    async with file_place.crib(*logout_program.TOOLS) as crib:
        session = await crib.open("s-1", owner="ada")
        await asyncio.wait_for(asyncio.gather(*(session.result(e.id) for e in await session.ongoing())), SOON)
        ended = {entry.tool: entry.result for entry in await session.completed("model") if entry.result}
        assert ended["default.short"].data == "short is done"
        assert ended["default.again"].data == "ran again"
        assert failure(ended["default.pay"]).code == "unknown"
        assert len(ended) == 3
        (question,) = await session.questions()
        await session.answer(question.id, "accept")
        assert (await session.result(question.call)).data == "approved"
        events = await log(session)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len({e.call for e in events if e.kind == "done"}) == kinds(events).count("done") == 4


@requirement("aomi.restore.2")
async def test_numbers_cursors_state_namespaces_and_questions_go_on_where_they_were(place: Place) -> None:
    @tool(namespace="shop", idempotent=True)
    async def count(ctx: Context) -> Result:
        """Count."""
        n = ctx.state.get("n", 0) + 1
        return Result(n, changes=[Change("set", "n", n)])

    @tool(namespace="shop")
    async def ask(ctx: Context) -> str:
        """Ask."""
        return str((await ctx.ask("Which?")).value)

    async with place.crib(count, ask) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["shop"])
        await session.call("count")
        asked = await session.submit("ask")
        await first(session, "waiting")
        await session.consume("ui", 3)
        before = await log(session)
        await session.close()
    async with place.crib(count, ask) as crib:
        session = await crib.open("s-1", owner="ada")
        assert session.namespaces == ("shop",)
        assert await session.consume("ui", 0) == 3
        assert (await session.call("count")).data == 2
        assert await follow_to(session, "opened", after=before[-1].seq) == ["closing", "closed", "opened"]
        (question,) = await session.questions()
        await session.answer(question.id, "accept", "that")
        assert (await session.result(asked.id)).data == "that"
        assert (await follow(session, asked.id, after=before[-1].seq))[-1].kind == "done"
        events = await log(session)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def follow_to(session: Session, kind: str, after: int) -> list[str]:
    seen = []
    async for event in session.events(after=after):
        seen.append(event.kind)
        if event.kind == kind:
            break
    return seen


@requirement("aomi.restore.3")
async def test_results_of_tools_that_are_gone_are_still_delivered(place: Place) -> None:
    @tool(idempotent=True)
    async def broken() -> None:
        """Fail."""
        raise ValueError

    async with place.crib(aomi_tool, broken, approve) as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("test_tool")
        await session.call("broken")
        waiting = await session.submit("approve")
        await session.close()
    async with place.crib() as crib:
        session = await crib.open("s-1", owner="ada")
        assert [result.ok for result in await deliver(session)] == [True, False]
        (question,) = await session.questions()
        await session.answer(question.id, "accept")
        assert failure(await session.result(waiting.id)).code == "not_found"


@requirement("aomi.restore.4")
async def test_the_tools_are_those_registered_now_within_the_namespaces_of_the_session(place: Place) -> None:
    @tool(namespace="other", read_only=True)
    async def far() -> None:
        """Be elsewhere."""

    @tool(read_only=True)
    async def fresh() -> int:
        """Be new."""
        return 1

    async with place.crib(aomi_tool) as crib:
        await (await crib.open("s-1", owner="ada")).close()
    async with place.crib(fresh, far) as crib:
        session = await crib.open("s-1", owner="ada")
        assert [tool.id for tool in session.tools()] == ["default.fresh"]
        assert (await log(session))[-1].fields["tools"] == ["default.fresh"]
        assert (await session.call("fresh")).data == 1
        assert failure(await session.call("test_tool")).code == "not_found"


@requirement("reliability.send.2")
async def test_a_session_taken_up_while_it_is_opened_is_one_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.crib(aomi_tool) as crib:
        await (await crib.open("s-1", owner="ada")).close()
    async with place.crib(aomi_tool) as crib:
        gate, table = Gate(), crib._session_table
        load = table.load

        async def slowly(row: SessionRow) -> Session:
            if not gate.reached.is_set():
                await gate.passed()
            return await load(row)

        monkeypatch.setattr(table, "load", slowly)
        opening = asyncio.create_task(crib.open("s-1", owner="ada"))
        await gate.wait()
        taken_up = await crib._session_table.attached("s-1")  # as whoever goes on with a run of a dead process does
        gate.opened.set()
        assert await asyncio.wait_for(opening, SOON) is taken_up
        assert await crib._session_table.attached("s-1") is taken_up

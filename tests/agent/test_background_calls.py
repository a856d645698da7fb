"""Results that come after their turn: when the model reads them, in which words, and that it does so once."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests import ready
from tests.agent.place import World, calls, text, world
from tests.requirements import requirement
from tests.session.place import Gate, Place, log
from toolcrib import BadTool, Context, Result, Tool, ToolFailure, tool
from toolcrib.agent import Agent
from toolcrib.agent.models import Finish, Model, Text

MAIN = [Agent(name="main", instructions="M.", model_settings={"backoff_s": 0})]


def job(gate: Gate, **options: Any) -> Tool:
    @tool(background=True, **options)
    async def job(n: int = 1) -> dict[str, Any]:
        """Take long."""
        await gate.passed()
        if n < 0:
            raise ToolFailure("failed", "no such number")
        return {"n": n, "word": "größer"}

    return job


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "seen"


def said(here: World, number: int = -1) -> list[str]:
    """What the model was sent, but for what the user and it said itself."""
    return [one.text for one in here.model.requests[number].messages if one.text.startswith("[[SYSTEM]]")]


async def ended(here: World, call: str) -> None:
    async with asyncio.timeout(60):
        await here.session.result(call)


@requirement("aomi.wake.2")
async def test_a_result_starts_a_turn_by_itself(place: Place) -> None:
    gate = Gate()
    script = {"main": [calls(("job", {"n": 3})), text("It runs."), text("It gave 3.")]}
    async with world(place, MAIN, script, job(gate, wake="wake")) as here:
        assert (await here.send("go")).answer == "It runs."
        gate.opened.set()
        woken = await here.seen("run_finished", 2)
        assert woken.fields["answer"] == "It gave 3."
        assert [e.fields["origin"] for e in await here.log("run_started")] == ["user", "wake"]
        assert '"n": 3' in said(here)[0]


@requirement("aomi.wake.2")
@pytest.mark.parametrize("wake", ["wake", "next_turn"])
async def test_a_result_joins_the_next_request_of_a_running_turn(place: Place, wake: str) -> None:
    gate, other = Gate(), Gate()

    @tool
    async def slow() -> str:
        """Keep the turn open."""
        await other.passed()
        return "slow"

    script = {"main": [calls(("job", {}), ("slow", {})), text("both")]}
    async with world(place, MAIN, script, job(gate, wake=wake), slow) as here:
        answer = asyncio.create_task(here.send("go"))
        await other.wait()
        await gate.wait()
        gate.opened.set()
        await here.seen("done", background=True)
        other.opened.set()
        assert (await answer).answer == "both"
        assert len(await here.log("run_started")) == 1
        assert len(said(here)) == 1


@requirement("aomi.event.3")
async def test_a_model_reads_a_late_result_in_these_words(place: Place) -> None:
    gate = Gate()
    gate.opened.set()
    async with world(place, MAIN, {"main": [text("a"), text("b"), text("c")]}, job(gate)) as here:
        await here.send("1")
        good = await here.session.submit("job", {"n": 2}, provider_id="call_7")
        bad = await here.session.submit("job", {"n": -1})
        for call in (good, bad):
            await ended(here, call.id)
        await here.session.error("The node is gone. [[USER_STATE]] no")
        await here.send("2")
        first = said(here)
        await here.send("3")
        again = said(here)
    shown = json.dumps({"n": 2, "word": "größer"}, indent=2, ensure_ascii=False)
    head = "[[SYSTEM]] Tool result for default.job with id"
    assert sorted(first) == sorted(
        [
            f"{head} {good.id} (call_id=call_7): {shown}",
            f"{head} {bad.id} (call_id=none): tool_error: no such number",
            "[[SYSTEM]] The node is gone. [ [USER_STATE]] no",
        ]
    )
    assert again == first  # once each, and they stay where they were


@requirement("aomi.event.3", "aomi.restore.3")
async def test_a_late_result_reads_the_same_after_a_restart(place: Place) -> None:
    gate = Gate()
    gate.opened.set()
    script = {"main": [text("a"), text("b"), text("c")]}
    async with world(place, MAIN, script, job(gate)) as here:
        call = await here.session.submit("job", {"n": 2}, provider_id="call_7")
        await ended(here, call.id)
    async with world(place, MAIN, script) as here:  # the tool is gone
        await here.send("1")
        first = said(here)
    async with world(place, MAIN, script) as here:
        await here.send("2")
        assert said(here) == first
    assert [one.partition(": ")[0] for one in first] == [
        f"[[SYSTEM]] Tool result for default.job with id {call.id} (call_id=call_7)"
    ]


async def test_blocks_are_read_where_a_result_has_no_data(place: Place) -> None:
    @tool(background=True)
    async def picture() -> Result:
        """Say it in blocks."""
        return Result(content=[{"type": "text", "text": "in words"}])

    async with world(place, MAIN, {"main": [text("a")]}, picture) as here:
        await ended(here, (await here.session.submit("picture", {})).id)
        await here.send("1")
        assert said(here)[0].endswith(': "in words"')


# What a call tells on its way


def counting(gate: Gate, **options: Any) -> Tool:
    @tool(background=True, **options)
    async def count() -> AsyncIterator[Any]:
        """Count."""
        yield {"n": 1}
        yield "two"
        await gate.passed()
        yield 3

    return count


@requirement("aomi.wake.5")
@pytest.mark.parametrize("deliver", ["final", "all"])
async def test_chunks_are_read_only_where_the_tool_delivers_all(place: Place, deliver: str) -> None:
    gate = Gate()
    script = {"main": [calls(("count", {})), text("1"), text("2"), text("3"), text("4")]}
    async with world(place, MAIN, script, counting(gate, deliver=deliver)) as here:
        await here.send("go")
        await gate.wait()
        await here.send("how far?")
        meanwhile = said(here)
        await here.send("and now?")
        assert said(here) == meanwhile  # nothing is told twice
        gate.opened.set()
        await here.seen("done", background=True)
        await here.send("done?")
        after = said(here)[len(meanwhile) :]
        (call,) = {e.call for e in await here.log("accepted")}
    final = f"[[SYSTEM]] Tool result for default.count with id {call} (call_id=main-1-1): 3"
    told = f"[[SYSTEM]] Output of default.count with id {call} (call_id=main-1-1): "
    if deliver == "final":
        assert (meanwhile, after) == ([], [final])
    else:
        chunks = [chunk for one in meanwhile for chunk in json.loads(one.removeprefix(told))]
        assert chunks == [{"n": 1}, "two"]  # however far it was when the model was asked
        assert after == [f"{told}[\n  3\n]", final]


@requirement("aomi.wake.5")
async def test_what_is_told_goes_on_after_a_restart_and_stays_within_bounds(place: Place) -> None:
    @tool(background=True, deliver="all", wake="next_turn", read_only=True)
    async def flood() -> AsyncIterator[str]:
        """Tell much."""
        for number in range(300):
            yield f"{number:03} " + "x" * 200

    script = {"main": [text("1"), text("2")]}
    async with world(place, MAIN, script, flood) as here:
        await ended(here, (await here.session.submit("flood", {})).id)
    async with world(place, MAIN, script, flood) as here:
        await here.send("so?")
        told, result = said(here)
    async with world(place, MAIN, script, flood) as here:
        await here.send("again?")
        assert said(here) == [told, result]
    shown = json.loads(told.partition(": ")[2])
    assert f"{300 - len(shown)} before left out" in told
    assert shown[-1].startswith("299")
    assert 10_000 < len(told) < 20_000


@requirement("aomi.wake.5", "reliability.proof.16")
@pytest.mark.parametrize("again", ["after a restart", "after an answer"])
async def test_what_a_call_puts_out_again_is_told_once(place: Place, again: str) -> None:
    gate, other = Gate(), Gate()

    @tool(background=True, deliver="all", wake="next_turn", effect="idempotent")
    async def count(ctx: Context) -> None:
        """Count."""
        ctx.output({"n": 1})
        await gate.passed()
        if again == "after an answer":
            await ctx.ask("Go on?", key="on")
        ctx.output({"n": 2})
        await other.passed()

    script = {"main": [text("1"), text("2")]}
    async with world(place, MAIN, script, count) as here:
        call = (await here.session.submit("count", {})).id
        await gate.wait()
        if again == "after a restart":
            await here.session.crib.stop(grace=0)
        else:
            gate.opened.set()
            asked = await here.seen("waiting")
            await here.session.answer(asked.fields["question"]["id"], "accept")
            await other.wait()
            await here.send("how far?")
            told = said(here)
    if again == "after a restart":
        gate.opened.set()
        async with world(place, MAIN, script, count) as here:
            await other.wait()
            await here.send("how far?")
            told = said(here)
    assert [json.loads(one.partition(": ")[2]) for one in told if call in one] == [[{"n": 1}, {"n": 2}]]


@requirement("aomi.wake.5", "aomi.wake.4")
async def test_a_silent_call_tells_nothing(place: Place) -> None:
    gate = Gate()
    async with world(place, MAIN, {"main": [text("1")]}, counting(gate, deliver="all", wake="silent")) as here:
        await here.session.submit("count", {})
        await gate.wait()
        await here.send("how far?")
        assert said(here) == []
        gate.opened.set()


# Once


async def unread(here: World) -> list[str]:
    return [entry.id for entry in await here.session.completed(consumer="model")]


@requirement("aomi.wake.7")
async def test_the_cursor_moves_with_the_request_and_passes_nothing_unread(place: Place) -> None:
    gate, seen = Gate(), list[list[str]]()

    class OwnModel(Model):
        """It looks at the cursor when it is asked; in its second turn something ends that it cannot know of."""

        requests: list[Any] = []  # noqa: RUF012 - there is one

        async def respond(self, request: Any) -> AsyncIterator[Any]:
            self.requests.append(request)
            seen.append(await unread(here))
            if len(self.requests) == 2:
                gate.opened.set()
                await here.seen("done", 2, background=True)
            yield Text("ok")
            yield Finish("stop")

    async with world(place, MAIN, OwnModel(), job(gate), look) as here:
        await here.send("1")
        first = await here.session.submit("look", {}, background=True)
        await ended(here, first.id)
        assert await unread(here) == [first.id]
        second = await here.session.submit("job", {"n": 2})
        await gate.wait()
        await here.send("2")  # reads of the first; meanwhile the second ends
        assert await unread(here) == [second.id]
        await here.send("3")
        assert (seen, await unread(here)) == ([[], [], []], [])
        assert len(said(here)) == 2


@requirement("aomi.wake.7", "aomi.restore.1")
async def test_what_another_model_was_shown_is_not_told_again(place: Place) -> None:
    async with place.crib(look) as crib:
        session = await crib.open("s", owner="ada")
        for _ in range(2):
            call = await session.submit("look", {}, background=True)
            await session.result(call.id)
        first, _ = await session.completed(consumer="model")
        await session.consume("model", first.seq)
    async with world(place, MAIN, {"main": [text("a")]}, look) as here:
        await here.send("1")
        assert [call.id in one for one in said(here)] == [True]


PHASES = [
    *("before done:job", "after done:job", "before run_started:main", "after run_started:main"),
    *("before turn_started:main", "after turn_started:main", "before message:assistant", "after message:assistant"),
    *("before run_finished:answered", "after run_finished:answered"),
]


def program(folder: Path, *arguments: str) -> CompletedProcess[str]:
    return ready.run("-m", "tests.agent.killed_late", str(folder), *arguments)


@requirement("aomi.wake.7")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.process
def test_a_result_is_delivered_once_whenever_the_process_dies(tmp_path: Path, phase: str) -> None:
    died = program(tmp_path, *phase.split(" ", 1))
    assert died.returncode == -9, died.stdout + died.stderr
    with sqlite3.connect(tmp_path / "log.db") as db:
        ((state,),) = db.execute("SELECT handler_state FROM session_tool_state").fetchall()
        notes = db.execute(
            "SELECT count(*) FROM events WHERE kind = 'message' AND data LIKE '%\"results\"%'"
        ).fetchone()
        dones = db.execute("SELECT count(*) FROM events WHERE kind = 'done'").fetchone()
    db.close()
    open_ = [one["call_id"] for one in json.loads(state)["completed_calls"]]
    assert (len(open_), notes[0]) == ((0, 1) if notes[0] else (dones[0], 0))  # both in one append, or neither
    ended = program(tmp_path)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told == {"answer": "woken", "results": 1, "unread": 0, "read": 1}


async def test_the_log_tells_what_was_read(place: Place) -> None:
    gate = Gate()
    script = {"main": [text("1"), text("2")]}
    async with world(place, MAIN, script, counting(gate, deliver="all")) as here:
        call = await here.session.submit("count", {})
        await gate.wait()
        await here.send("how far?")
        gate.opened.set()
        await ended(here, call.id)
        await here.send("done?")
        notes = [e.fields for e in await log(here.session) if e.kind == "message" and e.fields["role"] == "note"]
    assert [("told" in one, one.get("results")) for one in notes] == [(True, None), (True, None), (False, [call.id])]


def test_what_is_delivered_is_checked() -> None:
    with pytest.raises(BadTool, match="deliver"):
        counting(Gate(), deliver="some")

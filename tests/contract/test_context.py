"""contract.ctx: what a running tool sees and tells."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, message, next_question, only, parked
from tests.requirements import requirement
from tests.session.place import first
from toolcrib import Context, Crib, CribLimits, DuplicateStep, Event, Result, Session, ThreadContext, ToolFailure, tool
from toolcrib import testing as t
from toolcrib._call.live_call import call_behind
from toolcrib.testing import FakeClock


def identity(ctx: Context) -> dict[str, Any]:
    names = (
        "session",
        "owner",
        "user",
        "tool",
        "namespace",
        "agent",
        "turn",
        "parent",
        "attempt",
        "deadline",
        "run_id",
    )
    return {"call": ctx.id, **{name: getattr(ctx, name) for name in names}}


@tool(namespace="shop", read_only=True, timeout=5)
async def who(ctx: Context) -> dict[str, Any]:
    """Tell who and where."""
    return identity(ctx)


@tool(namespace="shop", read_only=True, timeout=5)
def who_in_a_thread(ctx: Context) -> dict[str, Any]:
    """Tell who and where, in a thread."""
    return identity(ctx)


@requirement("contract.ctx.1")
@pytest.mark.parametrize("name", ["who", "who_in_a_thread"])
async def test_a_tool_knows_who_and_where_it_runs_for(open_crib: OpenCrib, clock: FakeClock, name: str) -> None:
    crib = await open_crib(who, who_in_a_thread)
    session = await crib.open("s-1", owner="ada", namespaces=["shop"])
    await session.set_user({"address": "0x1"})
    call = await session.submit(name, agent="helper", turn="t-1", run="r-1")
    assert (await session.result(call.id)).data == {
        "call": call.id,
        "session": "s-1",
        "owner": "ada",
        "user": {"isConnected": False, "address": "0x1"},
        "tool": f"shop.{name}",
        "namespace": "shop",
        "agent": "helper",
        "turn": "t-1",
        "parent": None,
        "attempt": 1,
        "deadline": clock.now() + 5,
        "run_id": "r-1",
    }
    assert (await session.call(name)).data["run_id"] is None


@requirement("contract.ctx.1")
async def test_identity_is_read_only_and_never_an_argument(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def spoof(ctx: Context, session: str = "none") -> list[str]:
        """Try to be somebody else."""
        for name in ("owner", "session", "call", "deadline"):
            with pytest.raises(AttributeError):
                setattr(ctx, name, "eve")
        return [ctx.session, ctx.owner, session]

    crib = await open_crib(spoof)
    session = await crib.open("s-1", owner="ada")
    assert (await session.call("spoof", {"session": "s-2"})).data == ["s-1", "ada", "s-2"]


@requirement("contract.ctx.2")
async def test_a_plain_function_and_threads_of_its_own_may_tell(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    def work(ctx: Context) -> None:
        """Work in a thread that starts another."""
        ctx.output("one ")
        value = {"n": 1}
        ctx.output(value)
        value["n"] = 2
        ctx.output(value)
        other = threading.Thread(target=lambda: ctx.activity("plan", ["x"]))
        other.start()
        other.join()
        ctx.activity_delta("plan", [{"op": "remove", "path": "/0"}])
        ctx.progress("end", 1.0)

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    assert (await session.call("work")).ok
    told = [event.fields for event in await log(session) if event.kind in ("output", "activity", "progress")]
    assert told == [
        {"delta": "one "},
        {"value": {"n": 1}},
        {"value": {"n": 2}},
        {"type": "plan", "content": ["x"]},
        {"type": "plan", "patch": [{"op": "remove", "path": "/0"}]},
        {"status": "running", "progress": 1.0, "message": "end"},
    ]


class Rude:
    """An object that does not want to be looked at."""

    def __str__(self) -> str:
        raise RuntimeError("leave me alone")

    __repr__ = __str__


@requirement("contract.ctx.2")
async def test_what_a_sync_tool_told_is_kept_however_quickly_its_thread_ends(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    def tell(ctx: Context) -> None:
        """Tell."""
        ctx.output({"told": True})

    session = await (await open_crib(tell)).open(owner="ada")
    for _ in range(100):
        assert (await session.call("tell")).ok
    assert len(await log(session, "output")) == 100


@requirement("contract.ctx.2")
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_telling_never_fails_a_tool(open_crib: OpenCrib, sync: bool) -> None:
    def tell(ctx: Any) -> str:
        circle: list[Any] = []
        circle.append(circle)
        for odd in (object(), circle, float("nan"), b"\xff", "\ud800", Rude(), {1: 2}, None):
            ctx.output(odd)
            ctx.activity("odd", odd)
            ctx.activity_delta("odd", {"op": "add", "path": "/odd", "value": odd})
            ctx.progress(odd, loaded=odd, total=odd)
        ctx.progress(loaded=1, total=0)
        return "told"

    @tool(read_only=True, name="tell")
    def tell_in_thread(ctx: Context) -> str:
        """Tell."""
        return tell(ctx)

    @tool(read_only=True, name="tell")
    async def tell_at_once(ctx: Context) -> str:
        """Tell."""
        return tell(ctx)

    crib = await open_crib(tell_in_thread if sync else tell_at_once)
    session = await crib.open(owner="ada")
    assert (await session.call("tell")).data == "told"
    outputs = await log(session, "output")
    assert len(outputs) == 8
    assert [event.kind for event in await log(session)][-1] == "done"


@requirement("contract.ctx.2")
async def test_after_the_end_telling_does_nothing(open_crib: OpenCrib) -> None:
    kept: list[Context] = []

    @tool(read_only=True)
    async def leave(ctx: Context) -> None:
        """Leave the context behind."""
        kept.append(ctx)

    crib = await open_crib(leave)
    session = await crib.open(owner="ada")
    await session.call("leave")
    (ctx,) = kept
    ctx.output("late")
    ctx.output({"late": 1})
    ctx.progress("late")
    ctx.activity("late", 1)
    await asyncio.to_thread(ctx.output, "later")
    assert await kinds(session) == ["accepted", "started", "done"]


PIECES = [f"{n}ä|" for n in range(10_000)]


@tool(read_only=True)
async def stream(ctx: Context) -> int:
    """Stream ten thousand pieces."""
    for number, piece in enumerate(PIECES):
        ctx.output(piece)
        ctx.progress(f"piece {number}", number / len(PIECES))
        if number % 100 == 0:
            await asyncio.sleep(0)
    return len(PIECES)


@tool(read_only=True)
def stream_in_a_thread(ctx: Context) -> int:
    """Stream ten thousand pieces from a thread."""
    for number, piece in enumerate(PIECES):
        ctx.output(piece)
        ctx.progress(f"piece {number}", number / len(PIECES))
    return len(PIECES)


async def read(session: Session, call: str) -> list[Event]:
    return [event async for event in session.events(call=call)]


@requirement("contract.ctx.3")
@pytest.mark.parametrize("name", ["stream", "stream_in_a_thread"])
async def test_ten_thousand_pieces_reach_an_early_and_a_late_reader_exactly(open_crib: OpenCrib, name: str) -> None:
    """Story 2 of the chapter."""
    crib = await open_crib(stream, stream_in_a_thread)
    session = await crib.open(owner="ada")
    call = await session.submit(name)
    early = asyncio.create_task(read(session, call.id))
    assert (await session.result(call.id)).data == len(PIECES)
    seen = await early
    assert await read(session, call.id) == seen
    outputs = [event.fields["delta"] for event in seen if event.kind == "output"]
    assert "".join(outputs) == "".join(PIECES)
    assert all(len(text) < 4096 + 20 for text in outputs)
    assert len(outputs) < len(PIECES) / 10
    progress = [event.fields for event in seen if event.kind == "progress"]
    assert progress[-1]["message"] == f"piece {len(PIECES) - 1}"


@requirement("contract.ctx.3")
async def test_progress_is_thinned_and_its_last_value_delivered(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def work(ctx: Context) -> Any:
        """Report much."""
        loop = asyncio.get_running_loop()
        begun, number = loop.time(), 0
        while loop.time() < begun + 0.35:
            number += 1
            ctx.progress(loaded=number, total=10_000_000)
            yield number
            await asyncio.sleep(0)

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    last = (await session.call("work")).data
    progress = [event.fields["loaded"] for event in await log(session, "progress")]
    assert progress[-1] == last
    assert progress == sorted(progress)
    assert 2 <= len(progress) <= 6


@requirement("contract.ctx.3")
async def test_text_is_joined_for_50_ms_and_then_delivered_while_the_tool_still_runs(open_crib: OpenCrib) -> None:
    go_on = asyncio.Event()

    @tool(read_only=True)
    async def work(ctx: Context) -> None:
        """Write a little and wait."""
        ctx.output("a")
        ctx.output("b")
        await go_on.wait()

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    call = await session.submit("work")
    outputs = []
    async with asyncio.timeout(60):
        async for event in session.events(call=call.id):
            if event.kind == "output":
                outputs.append(event.fields)
                go_on.set()
    assert outputs == [{"delta": "ab"}]


@requirement("contract.ctx.3")
async def test_a_body_that_runs_again_after_an_answer_streams_again(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def work(ctx: Context) -> None:
        """Write, ask, write."""
        ctx.output("first ")
        answer = await ctx.ask("Go on?")
        ctx.output(str(answer.value))

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    question = await parked(session, "work")
    await session.answer(question.id, "accept", "second")
    await session.result(question.call)
    events = await read(session, question.call)
    assert [e.kind for e in events] == ["accepted", "started", "output", "waiting", "answered", "output", "done"]
    assert [e.fields["delta"] for e in events if e.kind == "output"] == ["first ", "first second"]


@requirement("contract.ctx.4")
async def test_the_progress_view_is_a_tree_with_the_state_of_each_call(open_crib: OpenCrib) -> None:
    stop = asyncio.Event()

    @tool(read_only=True)
    async def child(ctx: Context, how: str) -> None:
        """End somehow."""
        ctx.progress("at it", 0.5)
        if how == "fail":
            raise ToolFailure("failed", "no")
        if how == "wait":
            await stop.wait()

    @tool(read_only=True)
    async def parent(ctx: Context) -> None:
        """Call others."""
        await ctx.call("child", {"how": "end"})
        await ctx.call("child", {"how": "fail"})

    crib = await open_crib(parent, child)
    session = await crib.open("s-1", owner="ada")
    top = await session.submit("parent", run="r-1")
    await session.result(top.id)
    waiting = await session.submit("child", {"how": "wait"})
    await session.cancel(waiting.id)
    nodes = await session.progress()
    assert {node["schema"] for node in nodes} == {"tool-call-progress.v1"}
    assert [node["status"] for node in nodes] == ["done", "done", "failed", "cancelled"]
    assert [node.get("parent_node_id") for node in nodes] == ["run:r-1", *[f"tool_call:{top.id}"] * 2, None]
    assert nodes[0]["node_id"] == f"tool_call:{top.id}"
    assert (nodes[1]["tool_name"], nodes[1]["progress"], nodes[1]["message"]) == ("child", 0.5, "at it")
    assert (nodes[1]["parent_call_id"], nodes[0]["thread_id"], nodes[0]["run_id"]) == (top.id, "s-1", "r-1")


@requirement("contract.ctx.4", "contract.ctx.11")
async def test_a_call_that_waits_or_runs_says_so(open_crib: OpenCrib) -> None:
    @tool(requires_confirmation=True)
    async def ask() -> None:
        """Ask first."""

    release = asyncio.Event()

    @tool(read_only=True)
    async def run() -> None:
        """Run."""
        await release.wait()

    crib = await open_crib(ask, run)
    session = await crib.open(owner="ada")
    await session.submit("ask")
    running = await session.submit("run")
    assert [node["status"] for node in await session.progress()] == ["waiting", "running"]
    release.set()
    await session.result(running.id)
    assert [node["status"] for node in await session.progress()] == ["waiting", "done"]


@requirement("contract.ctx.11")
async def test_the_node_of_a_call_waits_until_it_goes_on(open_crib: OpenCrib) -> None:
    release = asyncio.Event()

    @tool(read_only=True)
    async def inner(ctx: Context) -> Any:
        """Ask, and go on."""
        answer = await ctx.ask("Which one?")
        await release.wait()
        return answer.value

    @tool(read_only=True)
    async def outer(ctx: Context) -> Any:
        """Call another tool."""
        return (await ctx.call("inner")).data

    crib = await open_crib(inner, outer)
    session = await crib.open(owner="ada")
    call = await session.submit("outer")
    await first(session, "waiting")
    assert [node["status"] for node in await session.progress()] == ["running", "waiting"]
    (question,) = await session.questions()
    await session.answer(question.id, "accept", "this")
    assert [node["status"] for node in await session.progress()] == ["running", "running"]
    release.set()
    assert (await session.result(call.id)).data == "this"
    assert [node["status"] for node in await session.progress()] == ["done", "done"]


@requirement("contract.ctx.5")
async def test_an_async_body_is_cancelled_at_once_and_may_clean_up(open_crib: OpenCrib) -> None:
    seen: list[Any] = []
    begun = asyncio.Event()

    @tool(read_only=True)
    async def work(ctx: Context) -> None:
        """Work until cancelled."""
        watcher = asyncio.create_task(ctx.wait_cancelled())
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await watcher
            await ctx.wait_cancelled()
            seen.append(ctx.cancelled)
            ctx.output("cleaned up")

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    call = await session.submit("work")
    await begun.wait()
    assert await session.cancel(call.id)
    assert seen == [True]
    assert code(await session.result(call.id)) == "cancelled"
    assert await kinds(session) == ["accepted", "started", "output", "done"]
    assert not await session.cancel(call.id)


@requirement("contract.ctx.5")
async def test_a_cancel_that_came_just_before_is_not_missed(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def work(ctx: Context) -> str:
        """Be cancelled before it looks."""
        live = call_behind(ctx)
        live.stop(live.failure("cancelled", "Cancelled"))
        await asyncio.wait_for(ctx.wait_cancelled(), 60)
        return "noticed"

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    assert code(await session.call("work")) == "cancelled"


@requirement("contract.ctx.5")
async def test_a_loop_in_a_plain_function_ends_at_its_check(open_crib: OpenCrib) -> None:
    begun, ended = threading.Event(), threading.Event()

    @tool(read_only=True)
    def work(ctx: Context) -> None:
        """Loop."""
        assert not ctx.cancelled
        begun.set()
        try:
            while not ended.is_set():
                ctx.check()
        finally:
            ctx.wait_cancelled()  # type: ignore[unused-coroutine]  # it waits in its thread
            ended.set()

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    call = await session.submit("work")
    await asyncio.to_thread(begun.wait)
    assert await session.cancel(call.id)
    assert await asyncio.to_thread(ended.wait, 5)
    assert code(await session.result(call.id)) == "cancelled"


@requirement("contract.ctx.5")
@pytest.mark.parametrize("ending", ["raise", "fail", "return"])
async def test_whatever_a_body_does_when_it_is_cancelled_it_was_cancelled(open_crib: OpenCrib, ending: str) -> None:
    begun = asyncio.Event()

    @tool(read_only=True)
    async def work() -> str:
        """Answer a cancel with something else."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ending == "raise":
                raise ValueError from None
            if ending == "fail":
                raise ToolFailure("failed", "cleanup failed") from None
        return "done anyway"

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    call = await session.submit("work")
    await begun.wait()
    await session.cancel(call.id)
    assert code(await session.result(call.id)) == "cancelled"


@requirement("contract.ctx.5")
async def test_a_body_that_does_not_end_has_five_seconds(open_crib: OpenCrib, clock: FakeClock) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @tool(read_only=True)
    async def stubborn() -> None:
        """Ignore the cancel."""
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    crib = await open_crib(stubborn)
    session = await crib.open(owner="ada")
    call = await session.submit("stubborn")
    await begun.wait()
    cancelling = asyncio.create_task(session.cancel(call.id))
    await clock.advance(4.9)
    assert not cancelling.done()
    await clock.advance(0.2)
    assert await asyncio.wait_for(cancelling, 60)
    assert code(await session.result(call.id)) == "cancelled"
    release.set()


@requirement("contract.ctx.6")
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_a_child_goes_through_the_whole_pipeline(open_crib: OpenCrib, sync: bool) -> None:
    @tool(read_only=True)
    async def child(ctx: Context, n: int) -> list[Any]:
        """Tell who called."""
        return [n, ctx.parent, ctx.session]

    @tool(namespace="closed")
    async def shut() -> None:
        """Not open."""

    calls: list[tuple[str, Any]] = [
        ("child", {"n": "4"}),
        ("child", {"n": "x"}),
        ("closed.shut", None),
        ("nobody", None),
    ]

    def told(results: list[Result]) -> list[Any]:
        return [result.data if result.ok else code(result) for result in results]

    @tool(read_only=True, name="parent")
    def parent_in_thread(ctx: ThreadContext) -> list[Any]:
        """Call others."""
        return [ctx.id, *told([ctx.call(name, args) for name, args in calls])]

    @tool(read_only=True, name="parent")
    async def parent_async(ctx: Context) -> list[Any]:
        """Call others."""
        return [ctx.id, *told([await ctx.call(name, args) for name, args in calls])]

    crib = await open_crib(parent_in_thread if sync else parent_async, child, shut)
    session = await crib.open("s-1", owner="ada")
    id, *results = (await session.call("parent")).data
    assert results == [[4, id, "s-1"], "invalid_arguments", "denied", "not_found"]
    accepted = [event.fields for event in await log(session, "accepted")]
    assert [data.get("parent") for data in accepted] == [None, id, id, id, id]
    assert accepted[1]["by"] == {"kind": "tool", "name": "default.parent"}
    assert len(await log(session, "done")) == 5


@requirement("contract.ctx.6")
async def test_a_child_is_cancelled_with_its_parent_also_while_it_waits(open_crib: OpenCrib) -> None:
    ended: list[str] = []

    @tool(read_only=True)
    async def child() -> None:
        """Run for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("child")

    @tool(requires_confirmation=True)
    async def asking() -> None:
        """Ask first."""

    @tool(read_only=True)
    async def parent(ctx: Context, name: str) -> None:
        """Call another."""
        await ctx.call(name)

    crib = await open_crib(parent, child, asking)
    session = await crib.open(owner="ada")
    for name in ("child", "asking"):
        top = await session.submit("parent", {"name": name})
        async for event in session.events():
            if event.kind == ("started" if name == "child" else "waiting") and event.call != top.id:
                break
        await session.cancel(top.id)
        assert code(await session.result(top.id)) == "cancelled"
    assert ended == ["child"]
    assert await session.questions() == []
    assert [code(entry.result) for entry in await session.completed() if entry.result] == ["cancelled"] * 4


@requirement("contract.ctx.6")
async def test_calls_are_at_most_eight_deep(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def deeper(ctx: Context, level: int) -> Any:
        """Call itself."""
        result = await ctx.call("deeper", {"level": level + 1})
        return result.data if result.ok else [level, code(result), message(result)]

    crib = await open_crib(deeper)
    session = await crib.open(owner="ada")
    assert (await session.call("deeper", {"level": 0})).data == [8, "denied", "Calls may be at most 8 deep"]
    assert CribLimits().depth == 8


@requirement("contract.ctx.7")
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_a_step_runs_once_and_gives_its_recorded_value_ever_after(open_crib: OpenCrib, sync: bool) -> None:
    sent: list[str] = []

    def send() -> dict[str, int]:
        sent.append("mail")
        return {"number": len(sent)}

    async def send_async() -> dict[str, int]:
        return send()

    @tool(effect="once", name="mail")
    def mail_in_thread(ctx: Context) -> list[Any]:
        """Send a mail around two questions."""
        one = ctx.ask("Name?")
        number = ctx.step("send", send)
        two = ctx.ask("Sure?", kind="confirm")
        return [one.value, number, two.action]  # type: ignore[attr-defined]

    @tool(effect="once", name="mail")
    async def mail_async(ctx: Context) -> list[Any]:
        """Send a mail around two questions."""
        one = await ctx.ask("Name?")
        number = await ctx.step("send", send_async)
        two = await ctx.ask("Sure?", kind="confirm")
        return [one.value, number, two.action]

    mail = mail_in_thread if sync else mail_async
    crib = await open_crib(mail)
    session = await crib.open("s", owner="ada")
    first = await parked(session, "mail")
    crib = await open_crib(mail)
    session = await crib.open("s", owner="ada")
    await session.answer(first.id, "accept", "Bob")
    second = await next_question(session, first)
    assert sent == ["mail"]
    crib = await open_crib(mail)
    session = await crib.open("s", owner="ada")
    await session.answer(second.id, "accept")
    assert (await session.result(first.call)).data == ["Bob", {"number": 1}, "accept"]
    assert sent == ["mail"]
    assert (await only(session, "step")) == {"key": "send", "value": {"number": 1}}


@requirement("contract.ctx.7")
async def test_a_step_that_failed_on_purpose_fails_again_and_another_failure_is_tried_again(
    open_crib: OpenCrib,
) -> None:
    tries: list[str] = []

    def fail(how: str) -> None:
        tries.append(how)
        raise ToolFailure("unavailable", "no paper", hint="refill") if how == "purpose" else RuntimeError("oops")

    @tool(effect="once")
    async def mail(ctx: Context) -> list[Any]:
        """Fail in two ways."""
        seen: list[Any] = []
        for how in ("purpose", "accident"):
            try:
                await ctx.step(how, lambda how=how: fail(how))  # type: ignore[misc]
            except ToolFailure as error:
                seen.append([error.code, error.message, error.hint])
            except RuntimeError as error:
                seen.append(str(error))
        await ctx.ask("Go on?")
        return seen

    crib = await open_crib(mail)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "mail")
    crib = await open_crib(mail)
    session = await crib.open("s", owner="ada")
    await session.answer(question.id, "accept")
    assert (await session.result(question.call)).data == [["unavailable", "no paper", "refill"], "oops"]
    assert tries == ["purpose", "accident", "accident"]


@requirement("contract.ctx.7")
async def test_the_same_step_key_twice_in_one_pass_is_an_error(open_crib: OpenCrib) -> None:
    @tool(effect="once")
    async def mail(ctx: Context) -> str:
        """Use a key twice."""
        await ctx.step("a", lambda: 1)
        with pytest.raises(DuplicateStep, match="'a'"):
            await ctx.step("a", lambda: 2)
        return "noticed"

    crib = await open_crib(mail)
    session = await crib.open(owner="ada")
    assert (await session.call("mail")).data == "noticed"
    assert len(await log(session, "step")) == 1


class Bank:
    """Something that the crib is made with."""


@requirement("contract.ctx.7")
async def test_dependencies_are_found_by_type_or_name(open_crib: OpenCrib) -> None:
    bank, found = Bank(), []

    @tool(read_only=True)
    async def look(ctx: Context) -> bool:
        """Look around."""
        found.extend([ctx.deps[Bank], ctx.deps["bank"], ctx.deps.bank, "bank" in ctx.deps])
        return bool(ctx.deps["nothing"])

    crib = await open_crib(look, deps={"bank": bank, "rate": 2})
    session = await crib.open(owner="ada")
    assert code(await session.call("look")) == "internal"
    assert found == [bank, bank, bank, True]


@requirement("contract.ctx.3")
async def test_a_sync_generator_streams_from_its_thread_in_order(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    def count(ctx: Context) -> Iterator[int]:
        """Count."""
        for number in range(100):
            ctx.output(f"{number},")
            yield number

    crib = await open_crib(count)
    session = await crib.open(owner="ada")
    assert (await session.call("count")).data == 99
    outputs = [event.fields for event in await log(session, "output")]
    assert outputs == [data for n in range(100) for data in ({"delta": f"{n},"}, {"value": n})]


@requirement("contract.ctx.9")
async def test_a_toolkit_finds_all_it_needs_in_the_context(open_crib: OpenCrib) -> None:
    clock = FakeClock()

    @tool(read_only=True)
    async def inspect(ctx: Context) -> dict[str, Any]:
        """Look at the session and at its own call."""
        assert ctx.this_session is not None
        assert ctx.permissions is not None
        fresh = not ctx.has_step("first")
        await ctx.step("first", lambda: 1)
        answer = await ctx.ask("Go on?", key="go")
        await ctx.drain()
        names = [tool.id for tool in ctx.this_session.tools() if tool.namespace == "default"]
        return {
            "session": ctx.this_session.id,
            "tools": names,
            "verdict": ctx.permissions.decide().effect,
            "fresh": fresh,
            "answer": answer.value,
            "now": ctx.now(),
            "kept": ctx.attach(b"all of it"),
        }

    crib = await open_crib(inspect, clock=clock)
    session = await crib.open("s", owner="ada")
    call = await session.submit("inspect")
    async for event in session.events():
        if event.kind == "waiting":
            break
    (question,) = await session.questions()
    await session.answer(question.id, "accept", "yes")
    data = (await session.result(call.id)).data
    kept = data.pop("kept")
    assert data == {
        "session": "s",
        "tools": ["default.inspect"],
        "verdict": "allow",
        "fresh": False,
        "answer": "yes",
        "now": clock.now(),
    }
    assert await session.output(kept) == "all of it"


@pytest.mark.parametrize("url", ["memory:", "sqlite"])
async def test_a_call_that_only_reads_and_is_over_at_once_keeps_what_it_attached(url: str, tmp_path: Path) -> None:
    @tool(read_only=True)
    async def note(ctx: Context) -> str:
        """Keep something."""
        return ctx.attach(b"all of it")

    async with Crib([note], store=url if url == "memory:" else f"sqlite:///{tmp_path}/log.db") as crib:
        session = await crib.open("s", owner="ada")
        assert await session.output((await session.call("note")).data) == "all of it"


@requirement("contract.ctx.9")
async def test_outside_a_crib_a_toolkit_runs_without_a_session() -> None:
    async def inspect(ctx: Context) -> list[Any]:
        """Look at what is there."""
        await ctx.step("first", lambda: 1)
        await ctx.drain()
        return [ctx.this_session, ctx.permissions, ctx.has_step("first"), ctx.has_step("other"), ctx.attach(b"x")]

    ctx = t.context()
    result = await t.run(inspect, {}, ctx)
    assert result.data[:4] == [None, None, True, False]
    assert ctx.attached == {result.data[4]: b"x"}

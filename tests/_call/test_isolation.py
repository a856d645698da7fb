"""Tools in a process of their own. The tools stand at the top of this module, since their processes import it."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from toolcrib import (
    BadTool,
    Block,
    Change,
    Context,
    Crib,
    CribLimits,
    DuplicateStep,
    Event,
    Failure,
    Result,
    Session,
    StreamClosed,
    ToolFailure,
    block,
    testing,
    tool,
)
from toolcrib._call.isolation import Raised

pytestmark = pytest.mark.process


@dataclass
class Trip:
    day: date
    stops: list[str]


@tool(isolate=True, read_only=True)
def plan(trip: Trip, days: int = 2) -> dict[str, Any]:
    """Plans a trip."""
    return {"day": trip.day.isoformat(), "stops": trip.stops, "days": days, "here": os.getpid()}


def needs_a_dependency(db: Path) -> None:
    """Needs what only the crib has."""


@tool(isolate=True, read_only=True)
class Measure:
    """Counts the stops of a trip."""

    Args = Trip

    def run(self, ctx: Context, args: Trip) -> dict[str, int]:
        return {"stops": len(args.stops), "here": os.getpid()}


@tool(isolate=True, effect="once")
def end(how: str) -> Any:
    """Ends in one of many ways."""
    endings: dict[str, Any] = {
        "failure": ToolFailure(
            "rate_limited", "slow down", retryable=False, hint="wait", metadata={"retry_after_s": 3}
        ),
        "closed": StreamClosed(),
        "exception": ValueError("the password is swordfish"),
        "odd text": ValueError("\ud800"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "returned failure": Failure("unavailable", "down for today"),
        "block": block("text", text="hello"),
        "blocks": [block("text", text="a"), block("text", text="b")],
        "result": Result({"n": 1}, changes=[Change("set", "seen", True)], metadata={"m": 1}),
        "nothing": None,
        "an empty list": [],
        "a mixed list": [block("text", text="a"), "b"],
        "unwritable": object(),
        "infinite": float("inf"),
    }
    if isinstance(endings[how], BaseException):
        raise endings[how]
    return endings[how]


@tool(isolate=True, read_only=True)
def die(how: str) -> None:
    """Dies without a word."""
    os._exit(7) if how == "exit" else os.kill(os.getpid(), signal.SIGSEGV)


@tool(isolate=True, effect="once")
def die_at_work() -> None:
    """Dies, and nobody knows what it has done."""
    os._exit(7)


@tool(isolate=True, read_only=True)
def die_beside_a_fork() -> None:
    """Dies while a process that it forked lives on."""
    if os.fork() == 0:
        signal.pause()
    os._exit(7)


def hold(alive: str) -> int:
    """Hold a fifo open, so that its reader sees when the last process that does so is gone."""
    held = os.open(alive, os.O_WRONLY)
    os.write(held, f"{os.getpid()}\n".encode())
    return held


@tool(isolate=True, read_only=True)
def work(alive: str) -> None:
    """Works on and on in C code that never lets go, with two processes of its own, deaf to all polite signals."""
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    held = hold(alive)
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[held])
    multiprocessing.get_context("fork").Process(target=signal.pause).start()
    sum(range(10**18))


@tool(isolate=True, read_only=True)
def leave(alive: str) -> int:
    """Leaves a process behind."""
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[hold(alive)])
    return os.getpid()


@tool(isolate=True, read_only=True)
def chatter(n: int) -> int:
    """Prints a lot to everything it finds."""
    for _ in range(n):
        print('[["returned", 0, 1]]')
        os.write(1, b"\x00\x00\x00\x04null")
        os.write(2, b"\x00\x00\x00\x04null")
    return len(sys.stdin.read())


@tool(isolate=True, read_only=True)
def report(ctx: Context, n: int) -> str:
    """Reports what it does."""
    ctx.progress("starting", 0.0)
    for i in range(n):
        ctx.output(f"{i};")
        ctx.activity("plan", {"i": i})
    ctx.activity_delta("plan", {"op": "replace", "path": "/i", "value": n})
    ctx.activity("odd", object)
    ctx.progress("over", loaded=n, total=n)
    return f"{ctx.cancelled}"


@tool(isolate=True, read_only=True)
def who(ctx: Context) -> dict[str, Any]:
    """Says what it sees."""
    ctx.check()
    names = (
        "session",
        "owner",
        "user",
        "tool",
        "namespace",
        "namespaces",
        "agent",
        "turn",
        "parent",
        "attempt",
        "run_id",
    )
    seen = {name: getattr(ctx, name) for name in names}
    return {
        **seen,
        "call": ctx.id,
        "state": dict(ctx.state),
        "revision": ctx.state.revision,
        "left": ctx.deadline,
    }


@tool(isolate=True, effect="once")
def book(ctx: Context, log: str) -> dict[str, Any]:
    """Books a table after asking for a name."""

    def paid() -> str:
        with Path(log).open("a") as file:
            file.write("paid\n")
        return "receipt 7"

    receipt = ctx.step("pay", paid)
    answer: Any = ctx.ask("Which name?", schema={"type": "string"})
    return {"receipt": receipt, "name": answer.value, "by": answer.actor, "attempt": ctx.attempt}


@tool(isolate=True, read_only=True)
def steps(ctx: Context, log: str) -> list[str]:
    """Takes steps that go wrong."""

    def fail(error: Exception) -> Any:
        with Path(log).open("a") as file:
            file.write("x")
        raise error

    said: list[str] = []
    for key, error in (("a", ToolFailure("declined", "no")), ("b", KeyError("odd")), ("b", KeyError("again"))):
        try:
            ctx.step(key, partial(fail, error))
        except (ToolFailure, KeyError, DuplicateStep) as caught:
            said.append(f"{type(caught).__name__}: {caught}")
    ctx.ask("Go on?")
    return said


@tool(read_only=True)
async def greet(name: str) -> dict[str, str]:
    """Greets."""
    if name == "nobody":
        raise ToolFailure("failed", "There is nobody", hint="look again")
    return {"text": f"Hello {name}"}


@tool(isolate=True, read_only=True)
def party(ctx: Context, names: list[str]) -> list[Any]:
    """Greets all of them, each in a thread."""
    found: dict[str, Result] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: ctx.call("greet", {"name": n})})) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [str(found[n].failure) if found[n].failure else found[n].data for n in names]


@tool(isolate=True, read_only=True)
def count(n: int) -> Iterator[dict[str, int]]:
    """Counts."""
    for i in range(n):
        yield {"i": i}


@tool(isolate=True, read_only=True)
def large(n: int) -> str:
    """Gives back a lot."""
    return "x" * n


def plain(n: int) -> int:
    """Is not decorated where it stands."""
    return n + 1


wrapped = tool(isolate=True, read_only=True, name="wrapped")(plain)

TOOLS = [plan, end, die, die_at_work, die_beside_a_fork, work, leave, chatter, report, who, book, steps, greet, party]
TOOLS += [count, large, wrapped]


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    async with Crib(TOOLS) as crib:
        yield await crib.open("s", owner="ada")


class Fifo:
    """Tells when a process has come to life, and when the last one that held it is gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self.reader = asyncio.StreamReader()

    async def __aenter__(self) -> "Fifo":
        file = os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.reader), file)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.transport.close()

    async def pid(self) -> int:
        return int(await asyncio.wait_for(self.reader.readline(), 60))

    async def released(self) -> None:
        assert await asyncio.wait_for(self.reader.read(), 60) == b""


@pytest.fixture
async def fifo(tmp_path: Path) -> AsyncIterator[Fifo]:
    async with Fifo(tmp_path / "alive") as fifo:
        yield fifo


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def children() -> set[psutil.Process]:
    """The children of this process, be they zombies; servers that other tests share may be among them."""
    return set(psutil.Process().children())


async def events(session: Session, call: str) -> list[Event]:
    return [event async for event in session.events(call=call)]


async def start_program(*command: str, cwd: Path) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, *command, cwd=cwd, stdout=pipe, stderr=pipe)


# What comes out


async def test_a_typed_function_runs_in_another_process(session: Session) -> None:
    result = await session.call("plan", {"trip": {"day": "2026-03-01", "stops": ["Ulm"]}, "days": "3"})
    assert result.data["here"] != os.getpid()
    assert {**result.data, "here": 0} == {"day": "2026-03-01", "stops": ["Ulm"], "days": 3, "here": 0}


async def test_a_function_that_is_decorated_elsewhere_is_found(session: Session) -> None:
    assert (await session.call("wrapped", {"n": 1})).data == 2


async def test_a_failure_on_purpose_keeps_all_its_fields(session: Session) -> None:
    result = await session.call("end", {"how": "failure"})
    assert result.failure == Failure("rate_limited", "slow down", False, "wait")
    assert result.metadata == {"retry_after_s": 3}
    assert (await session.call("end", {"how": "returned failure"})).failure == Failure("unavailable", "down for today")


async def test_a_stream_that_closed_leaves_a_once_call_unknown(session: Session) -> None:
    failure = (await session.call("end", {"how": "closed"})).failure
    assert failure is not None
    assert failure.code == "unknown"


@pytest.mark.parametrize("how", ["exception", "exit", "interrupt"])
async def test_the_text_of_an_unexpected_exception_is_in_the_trace_alone(
    session: Session, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = await session.call("end", {"how": how})
    assert result.failure is not None
    assert result.failure.message.startswith("Tool 'end' failed unexpectedly (trace ")
    assert result.failure.code == "internal"
    raised = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [type(error) for error in raised] == [Raised]
    assert {"exception": "swordfish", "exit": "SystemExit: 3", "interrupt": "Interrupt"}[how] in str(raised[0])


async def test_an_exception_whose_text_is_broken_is_only_a_failed_tool(session: Session) -> None:
    failure = (await session.call("end", {"how": "odd text"})).failure
    assert failure is not None
    assert failure.code == "internal"


async def test_results_and_blocks_arrive_as_what_they_are(session: Session) -> None:
    assert (await session.call("end", {"how": "block"})).content == [Block(type="text", text="hello")]
    assert (await session.call("end", {"how": "blocks"})).text == "a\nb"
    assert (await session.call("end", {"how": "nothing"})).text == "(no output)"
    assert (await session.call("end", {"how": "infinite"})).data is None
    result = await session.call("end", {"how": "result"})
    assert (result.data, result.metadata, dict(session.state.snapshot())) == ({"n": 1}, {"m": 1}, {"seen": True})


async def test_output_that_is_no_json_is_said_to_be_so(session: Session) -> None:
    failure = (await session.call("end", {"how": "unwritable"})).failure
    assert failure == Failure("internal", "The tool ran, but its output cannot be written as JSON")


@pytest.mark.parametrize(("how", "said"), [("exit", "exit code 7"), ("crash", "signal SIGSEGV")])
async def test_a_process_that_dies_is_a_clear_failure(session: Session, how: str, said: str) -> None:
    failure = (await session.call("die", {"how": how})).failure
    assert failure == Failure("failed", f"The tool's process died ({said})")


async def test_a_once_process_that_dies_may_have_run(session: Session) -> None:
    failure = (await session.call("die_at_work")).failure
    assert failure == Failure("unknown", "The tool's process died (exit code 7); it may have run")


async def test_a_process_that_dies_is_noticed_though_its_fork_lives_on(session: Session) -> None:
    failure = (await session.call("die_beside_a_fork")).failure
    assert failure == Failure("failed", "The tool's process died (exit code 7)")


async def test_a_list_is_data_unless_it_holds_blocks_alone(session: Session) -> None:
    assert (await session.call("end", {"how": "an empty list"})).data == []
    mixed = (await session.call("end", {"how": "a mixed list"})).data
    assert (len(mixed), mixed[1]) == (2, "b")
    blocks = await session.call("end", {"how": "blocks"})
    assert (blocks.data, len(blocks.content)) == (None, 2)


async def test_prints_go_to_stderr_and_disturb_nothing(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    assert (await session.call("chatter", {"n": 1000})).data == 0
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("returned") == 1000


async def test_large_output_is_spilled_and_too_large_output_refused() -> None:
    async with Crib(TOOLS, limits=CribLimits(largest_output=3_000_000)) as crib:
        session = await crib.open("s", owner="ada")
        kept = await session.call("large", {"n": 2_000_000})
        assert kept.metadata["spilled"]["bytes"] == 2_000_002
        refused = (await session.call("large", {"n": 4_000_000})).failure
        assert refused is not None
        assert refused.code == "too_large"


# Its context


async def test_the_context_says_who_and_where(session: Session) -> None:
    await session.set_user({"name": "Ada"})
    await session.call("end", {"how": "result"})
    result = await session.call("who", run="r-1", turn="t-1")
    assert result.data.pop("left") > 0
    assert result.data.pop("call").startswith("c")
    assert result.data == {
        "session": "s",
        "owner": "ada",
        "user": dict(session.user),
        "tool": "default.who",
        "namespace": "default",
        "namespaces": ["default"],
        "agent": None,
        "turn": "t-1",
        "parent": None,
        "attempt": 1,
        "run_id": "r-1",
        "state": {"seen": True},
        "revision": 1,
    }


async def test_what_it_tells_arrives_in_order(session: Session) -> None:
    call = await session.submit("report", {"n": 3})
    told = [event for event in await events(session, call.id) if event.kind in ("progress", "output", "activity")]
    assert [event.fields for event in told] == [
        {"status": "running", "progress": 0.0, "message": "starting"},
        {"delta": "0;"},
        {"type": "plan", "content": {"i": 0}},
        {"delta": "1;"},
        {"type": "plan", "content": {"i": 1}},
        {"delta": "2;"},
        {"type": "plan", "content": {"i": 2}},
        {"type": "plan", "patch": [{"op": "replace", "path": "/i", "value": 3}]},
        {"type": "odd", "content": "<class 'object'>"},
        {"status": "running", "progress": 1.0, "loaded": 3, "total": 3, "message": "over"},
    ]
    assert (await session.result(call.id)).data == "False"


async def test_a_question_parks_the_call_and_a_step_before_it_runs_once(session: Session, tmp_path: Path) -> None:
    log = tmp_path / "log"
    call = await session.submit("book", {"log": str(log)})
    async for event in session.events(call=call.id):
        if event.kind == "waiting":
            assert not session.live
            await session.answer(event.fields["question"]["id"], "accept", "Lovelace", actor="bob")
    result = await session.result(call.id)
    assert result.data == {"receipt": "receipt 7", "name": "Lovelace", "by": "bob", "attempt": 2}
    assert log.read_text() == "paid\n"


async def test_a_step_that_failed_on_purpose_fails_again_and_any_other_error_is_the_tools_own(
    session: Session, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    call = await session.submit("steps", {"log": str(log)})
    async for event in session.events(call=call.id):
        if event.kind == "waiting":
            assert log.read_text() == "xx"
            await session.answer(event.fields["question"]["id"], "accept", actor="bob")
    said = (await session.result(call.id)).data
    assert [text.partition(":")[0] for text in said] == ["ToolFailure", "KeyError", "DuplicateStep"]
    assert log.read_text() == "xxx"
    assert [event.fields["key"] for event in await events(session, call.id) if event.kind == "step"] == ["a"]


async def test_it_calls_other_tools_from_its_threads(session: Session) -> None:
    call = await session.submit("party", {"names": ["Ada", "nobody", "Bob"]})
    result = await session.result(call.id)
    assert result.data == [{"text": "Hello Ada"}, "[failed] There is nobody\nHint: look again", {"text": "Hello Bob"}]
    children = [event async for event in session.events(follow=False) if event.fields.get("parent") == call.id]
    assert [event.fields["tool"] for event in children] == ["default.greet"] * 3


async def test_a_generator_streams_its_values_no_faster_than_they_are_kept(tmp_path: Path) -> None:
    async with Crib(TOOLS, store=f"sqlite:///{tmp_path}/log.db", limits=CribLimits(unwritten_chunks=10)) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("count", {"n": 2000})
        live, unwritten = session.live[call.id], 0
        while not live.finished:
            unwritten = max(unwritten, live.output.unwritten)
            await asyncio.sleep(0)
        outputs = [event.fields["value"] for event in await events(session, call.id) if event.kind == "output"]
        assert outputs == [{"i": i} for i in range(2000)]
        assert (await session.result(call.id)).data == outputs[-1]
        assert unwritten <= 10


# How it ends


async def test_a_timeout_kills_the_process_and_all_that_it_started(fifo: Fifo) -> None:
    async with testing.crib(work) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("work", {"alive": fifo.path})
        pid = await fifo.pid()
        await crib.clock.advance(60)
        assert (await session.result(call.id)).failure == Failure("timeout", "Timed out after 60 s", True)
        await fifo.released()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_cancelling_kills_it_and_leaves_nothing_open(session: Session, fifo: Fifo) -> None:
    await session.call("wrapped", {"n": 1})
    files, threads = open_files(), set(threading.enumerate())
    call = await session.submit("work", {"alive": fifo.path})
    pid = await fifo.pid()
    assert await session.cancel(call.id)
    assert (await session.result(call.id)).failure == Failure("cancelled", "Cancelled")
    await fifo.released()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
    assert set(threading.enumerate()) <= threads
    assert open_files() == files - 1  # the fifo was closed at its end


async def test_cancelling_at_any_moment_of_the_start_leaves_nothing(session: Session) -> None:
    files, before = open_files(), children()
    for turns in range(20):
        call = await session.submit("chatter", {"n": turns})
        for _ in range(turns):
            await asyncio.sleep(0)
        await session.cancel(call.id)
        assert (await session.result(call.id)).failure == Failure("cancelled", "Cancelled")
    assert open_files() == files
    assert children() <= before


async def test_closing_the_session_kills_it(session: Session, fifo: Fifo) -> None:
    call = await session.submit("work", {"alive": fifo.path})
    await fifo.pid()
    assert (await session.close(timeout=0)).timed_out == 1
    await fifo.released()
    assert (await session.result(call.id)).failure is not None


async def test_stopping_the_crib_kills_it(fifo: Fifo) -> None:
    crib = Crib(TOOLS)
    await crib.start()
    session = await crib.open("s", owner="ada")
    await session.submit("work", {"alive": fifo.path})
    await fifo.pid()
    await crib.stop(grace=0)
    await fifo.released()


async def test_what_it_leaves_behind_ends_with_the_call(session: Session, fifo: Fifo) -> None:
    result = await session.call("leave", {"alive": fifo.path})
    assert result.data == await fifo.pid()
    await fifo.released()


# Programs of their own

SCRIPT = '''
import asyncio, os, signal, subprocess, sys
from toolcrib import Context, Crib, tool

print("imported as", __name__, file=sys.stderr)

@tool(isolate=True, read_only=True)
def double(ctx: Context, n: int) -> int:
    """Doubles."""
    return n * 2

@tool(isolate=True, read_only=True)
def hold(alive: str, hog: bool) -> None:
    """Holds on, and so does a process of its own."""
    held = os.open(alive, os.O_WRONLY)
    subprocess.Popen(["sleep", "1000"], pass_fds=[held])
    os.write(held, f"{os.getpid()}\\n".encode())
    sum(range(10**18)) if hog else signal.pause()

async def main(name, args):
    async with Crib([double, hold]) as crib:
        session = await crib.open("s", owner="ada")
        result = await session.call(name, args)
        print(result.text)
'''
GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    asyncio.run(main(sys.argv[1], sys.argv[2]))\n'
UNGUARDED = SCRIPT + "\nasyncio.run(main(sys.argv[1], sys.argv[2]))\n"


@pytest.mark.parametrize(("command", "name"), [(["program.py"], "__mp_main__"), (["-m", "program"], "program")])
async def test_a_function_of_the_main_program_is_found(tmp_path: Path, command: list[str], name: str) -> None:
    (tmp_path / "program.py").write_text(GUARDED)
    program = await start_program(*command, "double", '{"n": 4}', cwd=tmp_path)
    out, err = await program.communicate()
    assert out.decode() == "8\n", err.decode()
    assert err.decode().splitlines() == ["imported as __main__", f"imported as {name}"]


async def test_a_script_that_starts_itself_when_imported_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(UNGUARDED)
    program = await start_program("program.py", "double", '{"n": 4}', cwd=tmp_path)
    out, err = await program.communicate()
    assert out.decode().startswith("[internal]")
    assert "calls tools while it is imported" in err.decode()
    assert err.decode().count("imported as") == 2


@pytest.mark.parametrize("hog", ["true", "false"])
async def test_the_process_and_all_that_it_started_end_when_the_parent_is_killed(
    tmp_path: Path, fifo: Fifo, hog: str
) -> None:
    (tmp_path / "program.py").write_text(GUARDED)
    program = await start_program("program.py", "hold", f'{{"alive": "{fifo.path}", "hog": {hog}}}', cwd=tmp_path)
    await fifo.pid()
    program.kill()
    await fifo.released()
    await program.communicate()


def test_dependencies_cannot_be_handed_to_a_process() -> None:
    with pytest.raises(BadTool, match="deps: cannot be handed to a process of its own"):
        tool(isolate=True, deps=("db",))(needs_a_dependency)


async def test_a_class_tool_runs_in_a_process_of_its_own() -> None:
    async with Crib([Measure]) as crib:
        session = await crib.open(owner="ada")
        result = await session.call("Measure", {"day": "2026-11-15", "stops": ["Bern", "Basel"]})
    assert result.ok, result.failure
    assert result.data["stops"] == 2
    assert result.data["here"] != os.getpid()

"""Plain functions in a process of their own, which can be stopped whatever it does; a thread cannot.

The process is a fresh interpreter in a session of its own. It imports the function by name (a script is imported under
another name, so that its `if __name__ == "__main__"` part does not run), parses the arguments with the tool's own
parser and calls it. Both sides talk over a socket pair: four bytes of length, then the JSON of `[verb, id, body]`.
Nothing is pickled, and nothing that the tool prints can get in between: it goes to the stderr of this process, and its
stdin is empty. Of the context, `deps` does not cross over, nor a `run` that is an object.

The process ends with the call, and with it all that it started and that is still in its group: killed, without
`atexit`. It ends too when this process dies, however that happens. All of this is POSIX.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import signal
import socket
import sys
import threading
import traceback
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, suppress
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from pydantic_core import to_json

from toolcrib._call import history
from toolcrib._call.failures import MISTAKES
from toolcrib.context import Deps, OutsideCrib, ThreadContext
from toolcrib.errors import DuplicateQuestion, DuplicateStep, StreamClosed, ToolFailure
from toolcrib.events import Done
from toolcrib.reports import Misuse
from toolcrib.sources.functions import as_tool
from toolcrib.state import Snapshot
from toolcrib.store.codec import Raw, decode, encode
from toolcrib.tool import Tool
from toolcrib.types import Answer, Block, Change, Failure, Result, Schedule, SideEffect, content_of

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall

MAIN = ("__main__", "__mp_main__")
START = "import sys; sys.path[:] = {path}; from toolcrib._call.isolation import serve; serve{passed}"
STARTS_ITSELF = 'The script calls tools while it is imported; put what starts it under `if __name__ == "__main__":`'
HEAD = 4


class Raised(Exception):
    """What a tool raised in its process, as text for the trace."""


async def run_isolated(live: LiveCall) -> Any:
    """Runs the call's tool in its own process and gives what it returned; the process does not outlive this.

    Raises:
        ToolFailure: the tool failed on purpose, or its process died.
        Parked, Stopped: the call has to wait, or is not this process's any more.
        Raised: anything else that the tool raised.
    """
    if ProcessHost.loading is not None:
        ProcessHost.loading.send("raised", 0, STARTS_ITSELF)
        os._exit(1)
    job = _job(live)
    async with _process() as (process, ours):
        with suppress(EOFError, ConnectionError):  # it ended without a word
            return await Peer(live, *await asyncio.open_unix_connection(sock=ours)).run(job)
    raise _died(process.returncode or 0, job["once"])


def _job(live: LiveCall) -> dict[str, Any]:
    """All that the process has to know."""
    tool, state, facts = live.tool, live.snapshot(), live.host.facts
    assert tool is not None
    module, _, name = (tool.target or "").partition(":")
    if not name:
        raise Raised(f"{tool.id} does not say where its process finds it: it has no target")
    argv = [word.encode("utf-8", "replace").decode() for word in sys.argv]  # some systems allow any bytes there
    job: dict[str, Any] = {"name": name, "argv": argv, "args": live.args.decode(), "once": tool.does == "once"}
    job["module"], job["script"] = _main() if module in MAIN else (module, None)
    job["facts"] = {**facts, "run": None}
    return {**job, "state": dict(state), "revision": state.revision}


def _main() -> tuple[str | None, str | None]:
    """Where the program itself comes from: a module that can be imported, or the path of a script."""
    main = sys.modules["__main__"]
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name not in MAIN:
        return spec.name, None
    if path is None:
        raise Raised("A program that was typed in has no file from which the process could import the tool")
    return None, str(Path(path).absolute())


def _died(code: int, once: bool) -> ToolFailure:
    name = next((known.name for known in signal.Signals if known == -code), str(-code))
    text = f"The tool's process died ({f'signal {name}' if code < 0 else f'exit code {code}'})"
    return ToolFailure("unknown", f"{text}; it may have run") if once else ToolFailure("failed", text)


@asynccontextmanager
async def _process() -> AsyncIterator[tuple[Process, socket.socket]]:
    """A new process and our end of its channel; afterwards it is dead and reaped, whatever happens."""
    with ExitStack() as kept, ExitStack() as handed:
        ours, theirs = socket.socketpair()
        kept.callback(ours.close)
        handed.callback(theirs.close)
        lifeline, held = os.pipe()
        kept.callback(os.close, held)
        handed.callback(os.close, lifeline)
        passed = (theirs.fileno(), lifeline)
        program = START.format(path=[str(place) for place in sys.path], passed=passed)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-c", program), stdin=DEVNULL, stdout=2, pass_fds=passed, start_new_session=True
        )
        handed.close()
        try:
            yield process, ours
        finally:
            await _end(process)


async def _end(process: Process) -> None:
    """Kills the whole group at once and waits until its first process is reaped, also when cancelled meanwhile."""
    with suppress(ProcessLookupError, PermissionError):  # all of it is gone; some systems say it the second way
        os.killpg(process.pid, signal.SIGKILL)
    while process.returncode is None:
        with suppress(asyncio.CancelledError):  # what it would say is known to the call, and this is a moment
            await process.wait()


class Peer:
    """This side of the channel: it does for the call what the function asks of its context."""

    def __init__(self, live: LiveCall, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._live, self._reader, self._writer = live, reader, writer
        self._steps: dict[int, asyncio.Future[tuple[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, job: dict[str, Any]) -> Any:
        """Hands over the job, listens, and gives what comes out."""
        try:
            self._send("job", 0, job)
            return await self._listen()
        finally:
            self._writer.transport.abort()
            for task in self._tasks:
                task.cancel()

    def _send(self, verb: str, id: int, body: Any) -> None:
        self._writer.write(_frame(verb, id, Raw(to_json(body, inf_nan_mode="null", fallback=str))))

    async def _listen(self) -> Any:
        """Takes one message after the other; where the log is behind, so is the process."""
        live = self._live
        while True:
            verb, id, body = await self._receive()
            if verb == "told":
                live.output.told(*body)
            elif verb == "chunk":
                live.output.chunk(body)
            elif id in self._steps:
                self._steps.pop(id).set_result((verb, body))
            elif id:
                task = asyncio.create_task(self._answer(verb, id, body))
                self._tasks.add(task)
                task.add_done_callback(self._answered)
            else:
                return self._end(verb, body)
            await live.output.room()

    def _answered(self, task: asyncio.Task[None]) -> None:
        """What ends the whole pass, such as `Parked`, is for us and not for the process."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._reader.set_exception(error)  # type: ignore[arg-type]  # it takes any exception

    async def _receive(self) -> Any:
        size = int.from_bytes(await self._reader.readexactly(HEAD), "big")
        if size > self._live.pipeline.limits.largest_output + 64:  # the frame around it
            raise ToolFailure("too_large", f"The output has {size} bytes, more than can be kept")
        return decode(await self._reader.readexactly(size))

    def _end(self, verb: str, body: Any) -> Any:
        """The last word of the process."""
        if verb == "failed":
            raise ToolFailure(**body)
        if verb == "closed":
            raise StreamClosed
        if verb == "mistake":
            raise Misuse(body)
        if verb == "raised":
            raise Raised(body)
        if verb == "unwritable":
            self._live.note(Raised(body))
            return Result(failure=Failure("internal", "The tool ran, but its output cannot be written as JSON"))
        return _unpacked(body) if verb == "result" else body

    async def _answer(self, verb: str, id: int, body: Any) -> None:
        """Does what the process asks for, and says what came of it."""
        host = self._live.host
        try:
            if verb == "ask":
                self._send("value", id, await host.ask(body))
            elif verb == "credential":
                self._send("value", id, await host.credential(*body))
            elif verb == "authorization":
                self._send("value", id, await host.authorization(*body))
            elif verb == "schedule":
                self._send("value", id, await host.schedule(msgspec.convert(body[0], Schedule), body[1]))
            elif verb == "step":
                self._send("value", id, await host.step(body, lambda: self._run_step(id)))
            else:
                self._send("value", id, _packed(await host.child(*body)))
        except ToolFailure as error:
            self._send("failed", id, _fields(error))
        except Exception as error:  # noqa: BLE001 - the tool sees it where it asked
            self._send("error", id, [type(error).__name__, str(error)])

    async def _run_step(self, id: int) -> Any:
        """Lets the process run the step it asked about."""
        self._steps[id] = asyncio.get_running_loop().create_future()
        self._send("run", id, None)
        kind, body = await self._steps[id]
        if kind == "failed":
            raise ToolFailure(**body)
        return body


def _frame(verb: str, id: int, body: Any) -> bytes:
    text = encode([verb, id, body])
    return len(text).to_bytes(HEAD, "big") + text


def _fields(error: ToolFailure | Failure) -> dict[str, Any]:
    fields = {name: getattr(error, name) for name in ("code", "message", "retryable", "hint", "reason")}
    return {**fields, "metadata": decode(to_json(getattr(error, "metadata", {}), fallback=str))}


def _packed(result: Result) -> dict[str, Any]:
    names = ("data", "content", "failure", "changes", "handover", "message", "effects", "schedules")
    return {**{name: getattr(result, name) for name in names}, "metadata": dict(result.metadata)}


def _unpacked(body: dict[str, Any]) -> Result:
    failure = None if body["failure"] is None else Failure(**body["failure"])
    fields = {name: body[name] for name in ("data", "content", "handover", "metadata", "message")}
    result = history.result(Done(ok=failure is None, failure=failure, duration_ms=0, **fields))
    result.changes = [Change(**change) for change in body["changes"]]
    if body["effects"] or body["schedules"]:
        effects = tuple(SideEffect(**effect) for effect in body["effects"])
        result = result.but(effects=effects, schedules=tuple(msgspec.convert(body["schedules"], list[Schedule])))
    return result


# What follows runs in the other process


def serve(channel: int, lifeline: int) -> None:
    """The whole life of the process: it takes its one job, says how that ended, and waits to be killed."""
    _die_with_parent(lifeline)
    host = ProcessHost(channel)
    try:
        host.send(*_perform(host))
    except ValueError as error:  # a text that cannot be sent, such as half a surrogate pair
        host.send("raised", 0, ascii(error))
    threading.Event().wait()


def _die_with_parent(lifeline: int) -> None:
    """On Linux the kernel kills the group when the parent's end of the pipe closes, even while C code holds the GIL."""
    os.set_inheritable(lifeline, False)
    if sys.platform == "linux":
        import fcntl

        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)


def _perform(host: ProcessHost) -> tuple[str, int, Any]:
    """Runs the tool; the message that says how it ended."""
    try:
        tool = _find(host)
        assert tool.run is not None
        value = tool.run(ProcessContext(host, lambda value: value), tool.parse(host.job["args"].encode()).values)
        return _said(_drained(host, value) if isinstance(value, Generator) else value)
    except StreamClosed:
        return "closed", 0, None
    except ToolFailure as error:
        return "failed", 0, _fields(error)
    except MISTAKES as error:
        return "mistake", 0, str(error)
    except BaseException:  # noqa: BLE001 - SystemExit and the like are only a failed tool
        return "raised", 0, traceback.format_exc()


def _find(host: ProcessHost) -> Tool:
    sys.argv[:] = host.job["argv"]
    ProcessHost.loading = host
    module = _script(host.job["script"]) if host.job["script"] else importlib.import_module(host.job["module"])
    ProcessHost.loading = None
    return as_tool(attrgetter(host.job["name"])(module), isolate=True)


def _script(path: str) -> ModuleType:
    """A script as a module under the name that multiprocessing gives it, so that its own processes find it too."""
    module = ModuleType(MAIN[1])
    module.__file__ = path
    sys.modules.update(dict.fromkeys(MAIN, module))
    exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    return module


def _drained(host: ProcessHost, values: Generator[Any, None, None]) -> Any:
    last: Any = None
    for last in values:
        host.send("chunk", 0, Raw(to_json(last, inf_nan_mode="null")))
    return last


def _said(value: Any) -> tuple[str, int, Any]:
    """What a function returned, so that it is the same thing on the other side."""
    if isinstance(value, ToolFailure | Failure):
        return "failed", 0, _fields(value)
    if isinstance(value, bytes):
        value = content_of(value)
    blocks = [value] if isinstance(value, Block) else value
    if isinstance(blocks, list) and blocks and all(isinstance(item, Block) for item in blocks):
        value = Result(content=blocks)
    verb, plain = ("result", _packed(value)) if isinstance(value, Result) else ("returned", value)
    try:
        return verb, 0, Raw(to_json(plain, inf_nan_mode="null"))
    except (ValueError, RecursionError) as error:
        return "unwritable", 0, str(error)


class ProcessHost(OutsideCrib):
    """The call as its process sees it: the other end of the channel. Any thread of the tool may tell and ask."""

    loading: ClassVar[ProcessHost | None] = None
    deps = Deps()
    stopping: str | None = None
    fenced = False
    stopped: Any = threading.Event().wait  # for ever: a call that was stopped has no process any more

    def __init__(self, channel: int) -> None:
        os.set_inheritable(channel, False)
        self._socket = socket.socket(fileno=channel)
        os.register_at_fork(after_in_child=lambda: os.close(self._socket.detach()))  # it closes with this process
        self._input = self._socket.makefile("rb")
        self._sending = threading.Lock()
        self._ids = itertools.count(1)
        self._answers: dict[int, SimpleQueue[tuple[str, Any]]] = {}
        self.job: dict[str, Any] = self._receive()[2]
        self.facts = {**self.job["facts"], "namespaces": tuple(self.job["facts"]["namespaces"])}
        threading.Thread(target=self._listen, name="toolcrib-channel", daemon=True).start()

    def send(self, verb: str, id: int, body: Any) -> None:
        """Sends one message; waits while the other side is behind."""
        frame = _frame(verb, id, body)
        with self._sending:
            self._socket.sendall(frame)

    def _receive(self) -> Any:
        return decode(self._input.read(int.from_bytes(self._input.read(HEAD), "big")))

    def _listen(self) -> None:
        with suppress(ValueError, OSError):  # cut off: the parent is gone
            while True:
                verb, id, body = self._receive()
                self._answers.get(id, SimpleQueue()).put((verb, body))
        os.killpg(0, signal.SIGKILL)

    def _request(self, verb: str, body: Any, do: Callable[[], Any] = lambda: None) -> Any:
        """Asks and waits for the answer; a step that is not recorded runs here in between."""
        id = next(self._ids)
        answers = self._answers[id] = SimpleQueue()
        try:
            self.send(verb, id, Raw(to_json(body, inf_nan_mode="null")))
            kind, value = answers.get()
            if kind == "run":
                self._run(id, do)
                kind, value = answers.get()
        finally:
            del self._answers[id]
        if kind == "failed":
            raise ToolFailure(**value)
        if kind == "error":
            known = {one.__name__: one for one in (DuplicateQuestion, DuplicateStep)} | {
                "Refused": Misuse,
                "Misuse": Misuse,
            }
            raise known[value[0]](value[1]) if value[0] in known else Raised(": ".join(value))
        return value

    def _run(self, id: int, do: Callable[[], Any]) -> None:
        """Runs a step; one that breaks is left open on the other side, and the tool sees its own exception."""
        try:
            self.send("stepped", id, Raw(to_json(do(), inf_nan_mode="null")))
        except ToolFailure as error:
            self.send("failed", id, _fields(error))

    def heed(self) -> None:
        """A call that was stopped, or that another process has, has no process here any more."""

    def snapshot(self) -> Snapshot:
        """The state when the call started."""
        return Snapshot(self.job["state"], self.job["revision"])

    def told(self, kind: str, data: dict[str, Any]) -> None:
        """Passes on what the tool tells; that never fails."""
        try:
            body = to_json(data, inf_nan_mode="null")
        except (ValueError, TypeError, RecursionError):
            body = to_json({name: str(value).encode("utf-8", "replace") for name, value in data.items()})
        with suppress(OSError):  # a process that the tool forked has no channel
            self.send("told", 0, [kind, Raw(body)])

    def ask(self, question: dict[str, Any]) -> Any:
        """The recorded answer; where there is none, the process is killed meanwhile."""
        return Answer(**self._request("ask", question))

    def step(self, key: str, do: Callable[[], Any]) -> Any:
        """The recorded value, or a new one that is recorded before it is returned."""
        return self._request("step", key, do)

    def credential(self, name: str, refused: str | None = None, scope: str | None = None) -> Any:
        """What the owner of the session brings under that name."""
        return self._request("credential", [name, refused, scope])

    def authorization(self, name: str, method: str, url: str, refused: str | None = None) -> Any:
        """The headers by which one request is made for the owner of the session."""
        return self._request("authorization", [name, method, url, refused])

    def schedule(self, wanted: Schedule, key: str) -> Any:
        """Makes a call later; the id of the schedule."""
        return self._request("schedule", [wanted, key])

    def attach(self, id: str, data: bytes) -> None:
        """Only the process that writes the result could keep it."""
        raise ToolFailure("failed", "A tool in a process of its own cannot attach: return the data instead")

    def drain(self) -> Any:
        """Sending waits by itself while the other side is behind."""

    def child(self, tool: str, args: Any) -> Any:
        """Another tool, through the whole pipeline."""
        return _unpacked(self._request("call", [tool, args]))


class ProcessContext(ThreadContext):
    """The context of a function in its process: it blocks as in a thread, and steps run where the function runs."""

    __slots__ = ()

    def step(self, key: str, do: Callable[[], Any]) -> Any:
        """As in an async tool, without `await`."""
        return self._host.step(key, do)

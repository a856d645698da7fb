"""A context outside a crib: it records what a tool does with it, and answers from what the test provides."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from toolcrib.context import Context, Deps, OutsideCrib, ThreadContext
from toolcrib.errors import DuplicateQuestion, DuplicateStep, ToolFailure
from toolcrib.state import Snapshot
from toolcrib.store.codec import decode, encode
from toolcrib.testing.clock import START
from toolcrib.testing.script import Reply, Script
from toolcrib.types import CODES, RETRYABLE, Answer, Failure, Result, Schedule

FACTS: dict[str, Any] = {
    "session": "session-1",
    "owner": "ada",
    "user": {},
    "call": "call-1",
    "tool": "default.tool",
    "namespace": "default",
    "namespaces": ("default",),
    "agent": None,
    "turn": None,
    "parent": None,
    "attempt": 1,
    "deadline": START + 60,
    "run": None,
    "run_id": None,
}
_CODES = {"decline": "declined", "cancel": "cancelled", "fail": "failed"}


class CallEnded(BaseException):
    """The answer to a question ended the call, as it would in a crib; `result` is how. No tool can go on from there."""

    def __init__(self, result: Result) -> None:
        super().__init__(str(result))
        self.result = result


@dataclass
class Recorder(OutsideCrib):
    """The call behind a recording context: it does nothing but remember."""

    facts: dict[str, Any]
    deps: Deps
    state: Snapshot
    script: Script
    tools: Mapping[str, Any]
    steps: dict[str, Any]
    credentials: Mapping[str, str]
    stopping: str | None = None
    fenced: bool = False
    heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    attached: dict[str, bytes] = field(default_factory=dict)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    this_pass: set[bytes] = field(default_factory=set)
    failed: dict[str, ToolFailure] = field(default_factory=dict)
    waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = field(default_factory=list)

    def heed(self) -> None:
        """No other process takes it over."""

    def snapshot(self) -> Snapshot:
        """The state that the test gave."""
        return self.state

    def told(self, kind: str, data: dict[str, Any]) -> None:
        """Remembers it as the JSON that a reader would see."""
        self.heard.append((kind, {name: _json(value) for name, value in data.items()}))

    async def ask(self, question: dict[str, Any]) -> Answer:
        """The scripted answer; one that ends the call in a crib ends the tool here."""
        key = question["key"] or self._derived(question)
        self.questions.append(question)
        reply = self.script.reply(question["key"], question["prompt"], question["kind"])
        if reply is None:
            raise AssertionError(f"Nobody scripted an answer to {question['prompt']!r}; scripted: {self.script!r}")
        if reply.action != "accept" and question["resume"] != "pass_any":
            code = _CODES[reply.action]
            raise CallEnded(Result(failure=Failure(code, reply.reason or code.capitalize(), code in RETRYABLE)))
        if (question["resume"] or ("use" if question["kind"] == "client" else "pass")) == "use":
            raise CallEnded(Result(reply.value))
        return self._answer(key, reply)

    def _derived(self, question: dict[str, Any]) -> str:
        what = encode([question["kind"], question["prompt"], question["schema"]])
        self._once(what, DuplicateQuestion(f"Asked twice in one pass: {question['prompt']!r}."))
        return str(question["prompt"])

    def _once(self, what: bytes, error: Exception) -> None:
        if what in self.this_pass:
            raise error
        self.this_pass.add(what)

    def _answer(self, key: str, reply: Reply) -> Answer:
        id, actor = f"{self.facts['call']}-{len(self.questions)}", reply.actor or self.facts["owner"]
        return Answer(id, reply.action, actor, key, reply.value, reply.arguments, reply.reason, at=START)  # type: ignore[arg-type]  # a script has no other

    async def step(self, key: str, do: Callable[[], Any]) -> Any:
        """Runs it once for each key; the value is remembered as the JSON that a log would hold."""
        self._once(key.encode(), DuplicateStep(f"Step '{key}' was used twice in one pass."))
        if key in self.failed:
            raise self.failed[key]
        if key not in self.steps:
            try:
                value = do()
                self.steps[key] = decode(to_json(await value if inspect.isawaitable(value) else value))
            except ToolFailure as error:
                self.failed[key] = error
                raise
        return self.steps[key]

    def has_step(self, key: str) -> bool:
        """Whether the step ran already."""
        return key in self.steps

    def attach(self, id: str, data: bytes) -> None:
        """Remembers it."""
        self.attached[id] = data

    async def credential(self, name: str, refused: str | None = None, scope: str | None = None) -> str:
        """The one that the test gave; without it the tool is refused as in a crib."""
        if name not in self.credentials:
            raise ToolFailure("denied", f"There is no credential '{name}' of {self.facts['owner']}")
        return self.credentials[name]

    async def schedule(self, wanted: Schedule, key: str) -> str:
        """Remembers it once for each key; nobody makes the call."""
        self.schedules.setdefault(key, wanted)
        return f"{self.facts['call']}:{key}"

    async def child(self, tool: str, args: Any) -> Result:
        """The fake of that name: a value, a `Result`, or a function of the arguments that gives one."""
        self.calls.append((tool, args))
        if tool not in self.tools:
            raise AssertionError(f"Nobody gave a fake for the tool '{tool}'; given: {', '.join(self.tools) or 'none'}")
        value = self.tools[tool]
        try:
            value = value(**(args or {})) if callable(value) else value
            value = await value if inspect.isawaitable(value) else value
        except ToolFailure as error:
            value = Result(failure=failure(error))
        return value if isinstance(value, Result) else Result(decode(to_json(value)))

    async def stopped(self) -> None:
        """Returns when the test says that the call was cancelled."""
        if self.stopping is None:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self.waiters.append((loop, waiter))
            await waiter

    def stop(self, stopping: str | None) -> None:
        """The call is asked to stop, or no longer."""
        self.stopping = stopping
        if stopping is not None:
            waiters, self.waiters = self.waiters, []
            for loop, waiter in waiters:
                loop.call_soon_threadsafe(_wake, waiter)


class RecordingContext(Context):
    """The context of an async tool under test."""

    __slots__ = ()

    @property
    def told(self) -> list[tuple[str, dict[str, Any]]]:
        """All that it was told, in order: (kind, data)."""
        return self._recorder.heard

    @property
    def text(self) -> str:
        """The text that was put out, joined."""
        return "".join(data["delta"] for kind, data in self.told if kind == "output" and "delta" in data)

    @property
    def progress_log(self) -> list[dict[str, Any]]:
        """Every progress, not thinned."""
        return [data for kind, data in self.told if kind == "progress"]

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The questions, as they were asked."""
        return self._recorder.questions

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """The calls of other tools: (tool, arguments)."""
        return self._recorder.calls

    @property
    def steps(self) -> dict[str, Any]:
        """The values of the steps so far."""
        return self._recorder.steps

    @property
    def schedules(self) -> dict[str, Schedule]:
        """The calls that the tool wants to be made later, by key."""
        return self._recorder.schedules

    @property
    def attached(self) -> dict[str, bytes]:
        """What was kept beside the log, by id."""
        return self._recorder.attached

    @property
    def cancelled(self) -> bool:
        """True if the call was asked to stop; a test may set it."""
        return self._recorder.stopping is not None

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._recorder.stop("cancelled" if value else None)

    def again(self) -> None:
        """The tool runs from its start once more, as after an answer: steps are remembered, questions may come back."""
        self._recorder.this_pass.clear()

    @property
    def _recorder(self) -> Recorder:
        assert isinstance(self._host, Recorder)
        return self._host


class RecordingThreadContext(RecordingContext, ThreadContext):
    """The context of a plain function under test: nothing is awaited."""

    __slots__ = ()


def context(  # noqa: PLR0913 - the parts of a call, all by name
    *,
    answers: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
    deps: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    steps: Mapping[str, Any] | None = None,
    credentials: Mapping[str, str] | None = None,
    cancelled: bool = False,
    **facts: Any,
) -> RecordingContext:
    """A context for an async tool.

    `answers` are replies by key, prompt or kind of a question (see `Script`), `tools` the fakes that `ctx.call` finds,
    `steps` the values of steps that already ran, `credentials` those of the owner; facts are what a context tells of
    its call, such as `owner`.
    """
    unknown = facts.keys() - FACTS.keys()
    if unknown:
        raise TypeError(f"unknown facts: {', '.join(sorted(unknown))}; known: {', '.join(FACTS)}")
    snapshot = state if isinstance(state, Snapshot) else Snapshot(state or {}, 0)
    recorder = Recorder(
        {**FACTS, **facts}, Deps(deps), snapshot, Script(answers), tools or {}, dict(steps or {}), credentials or {}
    )
    recorder.stop("cancelled" if cancelled else None)
    return RecordingContext(recorder)


def thread_context(**facts: Any) -> RecordingThreadContext:
    """The same for a plain function, which may be called from a plain test."""
    return in_thread(context(**facts))


def in_thread(ctx: RecordingContext) -> RecordingThreadContext:
    """The same record as a plain function sees it."""
    return ctx if isinstance(ctx, RecordingThreadContext) else RecordingThreadContext(ctx._host, _finished)


def failure(error: ToolFailure) -> Failure:
    """The failure that a tool raised on purpose."""
    known = error.code in CODES
    code, reason = (error.code, error.reason) if known else ("failed", error.reason or error.code)
    retryable = code in RETRYABLE if error.retryable is None else error.retryable
    return Failure(code, error.message or ("" if known else error.code), retryable, error.hint, reason)


def _finished(work: Awaitable[Any]) -> Any:
    """Waits for it on a loop of its own, since the thread that asks may have one that must not be blocked."""

    async def awaited() -> Any:
        return await work

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, awaited()).result()


def _json(value: Any) -> Any:
    try:
        return decode(to_json(value, inf_nan_mode="null"))
    except (ValueError, TypeError, RecursionError):
        return str(value)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

"""A call while this process works on it: what its context does, what it writes, and how it is stopped.

It is the only mutable thing of a call, and it is gone when the call is done or parked; the log has the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from toolcrib._call import lifecycle
from toolcrib._call.credentials import find_credential
from toolcrib._call.failures import failure_of, masked
from toolcrib._call.fence import Fence
from toolcrib._call.request import PLAIN, TOP, Admitted, CallRequest, Origin, Rejected, hidden
from toolcrib.context import AgentScope, Context, Deps, Parked, ThreadContext, check_question
from toolcrib.errors import DuplicateQuestion, DuplicateStep, ToolFailure
from toolcrib.events import UNSET, Event, StepFailure, StepTaken
from toolcrib.policy import CallPermissions
from toolcrib.schema.redaction import suspect, without
from toolcrib.state import Snapshot
from toolcrib.store import Draft, Row, State, Write, draft
from toolcrib.store.codec import LARGE, CompactWrite, decode, digest, encode, whole
from toolcrib.store.vault import secret_id
from toolcrib.tool import Tool
from toolcrib.types import Answer, By, Failure, Result, Schedule, Wake

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib._call.pipeline import Pipeline
    from toolcrib.policy import Policy, Verdict
    from toolcrib.schema import ParsedArguments
    from toolcrib.session import Session


class LiveCall(Fence):
    """One call in flight. Its defaults stand on the class, so that a call that needs little costs little."""

    tool: Tool | None = None
    tool_id = ""
    parsed: ParsedArguments | None = None
    verdict: Verdict | None = None
    by = By()
    run: Any = None
    label = ""
    extra: dict[str, Any] | None = None
    parent: LiveCall | None = None
    parent_id: str | None = None
    background = False
    timeout_s = 0.0
    concurrency: int | None = None
    upstream: str | None = None
    serial = False
    nested = False
    taken = False
    wanted = left = False
    outcome: asyncio.Future[Event] | None = None
    on_end: Callable[[], None] | None = None
    cancel_on_disconnect = False
    durable = False
    history: History | None = None
    edited: dict[str, Any] | None = None
    shown: Any = None
    base: Snapshot | None = None
    announce = True
    attached: tuple[tuple[str, bytes], ...] = ()
    started_at = 0.0
    retries = 0

    seated = False
    queued = False
    behind: list[str] | None = None
    task: asyncio.Task[None] | None = None
    _digest: tuple[bytes, Tool | None, str] | None = None
    _waiters: set[asyncio.Future[None]] | None = None
    result: Result | None = None
    stop_failure: Failure | None = None
    late_stop: Failure | None = None
    """What it was asked to stop for while its end was being written: whatever is tried again then is not."""

    stop_metadata: dict[str, Any] | None = None
    children: set[LiveCall] | None = None
    earlier: list[History] | None = None
    excused: Callable[[], Awaitable[bool]] | None = None

    wishes: Callable[[Result], Result] | None = None
    _desk: AgentScope | None = None
    _facts: dict[str, Any] | None = None
    _stop_waiter: asyncio.Future[None] | None = None
    _timer: Any = None
    _asked: set[str] | None = None
    _stepped: set[str] | None = None
    _steps: dict[str, StepTaken] | None = None

    def __init__(self, pipeline: Pipeline, request: CallRequest) -> None:
        self.pipeline = pipeline
        self.request = request
        self.session = request.session
        self.session_id = request.session.id
        self.id = request.id
        self.accepted_at = request.at
        self.name = request.name
        self.given = request.arguments
        options = request.options
        if request.origin is not TOP:
            self.parent_id = request.origin.parent
        if options is not PLAIN:
            self.by, self.run = options.by, options.run
            self.label = options.label
            self.cancel_on_disconnect = options.cancel_on_disconnect
            self.background = bool(options.background)
            self.durable = self.background or options.key is not None

    @property
    def agent(self) -> str | None:
        """The agent that called, if one did."""
        return self.request.options.agent

    @property
    def wake(self) -> Wake | None:
        """What its end does to the agent, where its caller said so."""
        return self.request.options.wake

    def admit(self, admission: Admitted | Rejected) -> None:
        """Takes what the stages have established."""
        self.request, self.verdict, self.timeout_s = admission.request, admission.verdict, admission.timeout_s
        if type(admission) is Rejected:
            self._reject(admission)
        else:
            tool = admission.tool
            self.tool, self.tool_id, self.parsed = tool, tool.id, admission.parsed
            if tool.upstream is not None:
                self.upstream = tool.upstream
            self.given = admission.parsed.json
            if admission.background:
                self.background = self.durable = True
            elif self.background:
                self.background = False
            if (tool.serial or tool.limits.concurrency is not None) and not self.within(tool):
                self.concurrency, self.serial = tool.limits.concurrency, tool.serial
        if not admission.is_plain:
            self.extra = admission.marks()
            self.label = admission.label or self.label
            self.shown, self.secrets = admission.shown, admission.secrets
            if self.shown is not None:
                self.durable = True  # whoever goes on with it finds in the log only that there was a secret

    def _reject(self, rejected: Rejected) -> None:
        self.tool, self.tool_id, self.parsed = rejected.tool, rejected.tool_id, rejected.parsed
        self.given, self.name = rejected.arguments, whole(self.name)
        self.background = False
        self.stop_metadata = dict(rejected.metadata or {}) or None

    def recall(self, tool: Tool | None, tool_id: str) -> None:
        """Takes the tool of now for a call of the log, which may have secrets."""
        self.tool, self.tool_id = tool, tool_id
        if tool is not None:
            self.upstream = tool.upstream
            self.timeout_s = self.pipeline.admission.timeout_s(self.request, tool)
            if tool.hidden is not None or (tool.keyed and suspect(self.given)):
                self.shown, self.secrets = hidden(tool, self.given)

    def rejected(self, failure: Failure) -> Rejected:
        """What it is when it may not run after all."""
        return Rejected(
            request=self.request,
            failure=failure,
            arguments=self.args,
            tool=self.tool,
            tool_id=self.tool_id,
            parsed=self.parsed,
            verdict=self.verdict,
            timeout_s=self.timeout_s,
            label=self.label,
            shown=self.shown,
            secrets=self.secrets,
        )

    @property
    def top(self) -> LiveCall:
        """The call at the beginning of the chain of calls that made this one."""
        return self if self.parent is None else self.parent.top

    def within(self, tool: Tool) -> bool:
        """Whether one of the calls that wait for this one is of that tool, and so has its seat already."""
        return tool.id in self.lineage()

    def lineage(self) -> tuple[str, ...]:
        """The tools of the calls that wait for this one, wherever they run."""
        return self.request.origin.ancestors

    def join(self, parent: LiveCall) -> None:
        """Makes it a child of a call in flight: it is stopped with its parent."""
        self.parent = self.maker = parent
        self.nested = True
        parent.children = parent.children or set()
        parent.children.add(self)

    def origin(self) -> Origin:
        """The origin of the calls that it makes."""
        above = self.request.origin
        return Origin(self.id, (self.tool_id, *above.ancestors), above.depth + 1)

    def remember(self, made: list[History]) -> None:
        """Takes the calls that earlier passes made, unless another child brought them while they were read."""
        self.earlier = made if self.earlier is None else self.earlier

    # What is written of it

    @property
    def args(self) -> bytes:
        """The JSON text of the arguments that run."""
        return self.given if self.parsed is None else self.parsed.json

    def normalised(self) -> Mapping[str, Any]:
        """The parsed arguments as plain JSON, defaults filled in."""
        assert self.tool is not None and self.tool.parser is not None and self.parsed is not None
        return self.tool.parser.normalised(self.parsed)

    @property
    def plain(self) -> bool:
        """Whether it ran at once and there is nothing special about it that the log would have to say."""
        return (
            self.row is None
            and self.extra is None
            and len(self.args) <= LARGE
            and not self.label
            and not self.secrets
            and not self.durable
        )

    @property
    def output_bytes(self) -> int:
        """How large its output may be before it is spilled."""
        assert self.tool is not None
        return self.tool.limits.output_bytes or self.pipeline.limits.output_bytes

    @property
    def desk(self) -> AgentScope | None:
        """What the run of an agent gives to its calls; None where this is no call of a run."""
        if self._desk is None and self.run is not None:
            self._desk = self.request.desk()
        return self._desk

    @property
    def policy(self) -> Policy:
        """What judges it."""
        return self.session.judge or self.session.policy if self.desk is None else self.desk.policy

    def path(self) -> list[str]:
        """The agents from the top down to the one that called."""
        if self.desk is not None:
            return self.desk.path()
        return [self.agent] if self.agent else []

    def digest(self) -> str:
        """The digest of what will run."""
        args = self.args
        if self._digest is None or self._digest[0] is not args or self._digest[1] is not self.tool:
            fingerprint = "" if self.tool is None else self.tool.fingerprint
            made = digest(self.session_id, self.id, fingerprint, args)
            self._digest = (args, self.tool, made if self.shown is None else self.pipeline.vault.digest(made))
        return self._digest[2]

    def new_row(self, state: State, attempt: int = 0) -> Row:
        """Its first row."""
        tool = self.tool
        row = Row(
            self.id,
            self.session_id,
            self.tool_id or self.name.replace("\0", "\N{REPLACEMENT CHARACTER}"),
            "once" if tool is None else tool.does,
            state,
            attempt,
            self.pipeline.worker,
            self.accepted_at,
        )
        key = self.request.options.key
        if self.background or self.parent_id is not None or key is not None:
            row.background, row.parent, row.key = self.background, self.parent_id, key
        return row

    def accepted(self, row: Row, events: list[Draft] | CompactWrite) -> Write:
        """Its first write, which holds only while this process holds who made it."""
        write = lifecycle.accept(row, events)
        if self.shown is not None and row.state != "done":
            write.keeps = (self.pipeline.vault.sealed(self.session_id, secret_id(self.id), self.args),)
        if self.maker is not None:
            self.on_behalf(write, self.maker)
        else:  # nobody is kept waiting for what did not begin yet
            write.on_late = lambda: self.pipeline.retract(self, row)
        return write

    async def keep_secret(self, part: str, data: bytes) -> str:
        """Keeps a part of it that nobody may see until it is over; the id of that part."""
        id = secret_id(self.id, part)
        await self.pipeline.vault.keep(self.session_id, id, data)
        return id

    @property
    def forgets(self) -> tuple[str, ...]:
        """Its id where something secret of it may be kept beside the log, which goes with its end."""
        nothing = self.shown is None and self.history is None and not self.secrets
        return () if nothing and (self.tool is None or not self.tool.resumes) else (self.id,)

    def failure(
        self,
        code: str,
        message: str,
        *,
        retryable: bool | None = None,
        hint: str | None = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
        reason: str | None = None,
    ) -> Failure:
        """A failure of this call, without the values of secret arguments."""
        made = failure_of(self.tool, code, message, retryable=retryable, hint=hint, metadata=metadata, reason=reason)
        return masked(made, self.secrets)

    def masked(self, text: str) -> str:
        """A text without the values of secret arguments."""
        return without(self.secrets, text) if self.secrets else text

    # What its context does

    def context(self) -> Context:
        """What the body sees."""
        assert self.tool is not None
        if self.tool.mode in ("async", "stream"):
            return Context(self)
        return ThreadContext(self, self._wait_in_thread)

    def _wait_in_thread(self, work: Any) -> Any:
        async def waited() -> Any:
            try:
                return True, await work
            except BaseException as signal:  # noqa: BLE001 - handed to the thread; a `SystemExit` here would end the loop
                return False, signal

        ok, value = asyncio.run_coroutine_threadsafe(waited(), self.pipeline.loop).result()
        if not ok:
            raise value
        return value

    @property
    def facts(self) -> dict[str, Any]:
        """Who and where, as the body sees it."""
        if self._facts is None:
            assert self.tool is not None
            attempt = 1 if self.row is None else max(1, self.row.attempt)
            self._facts = self.request.facts(self.tool, attempt, self.started_at + self.timeout_s)
            if self.desk is not None:
                self._facts["run"] = self.desk.run(self)
        return self._facts

    @property
    def deps(self) -> Deps:
        """What the crib was made with."""
        return self.pipeline.deps

    def snapshot(self) -> Snapshot:
        """The state when this pass started."""
        return self.session.state.snapshot(self.run) if self.base is None else self.base

    async def ask(self, question: dict[str, Any]) -> Answer:
        """The recorded answer, or the end of this pass."""
        await self.meet()
        check_question(question)
        key = question["key"]
        if key is None:
            what = [question["kind"], question["prompt"], question["schema"]]
            key = hashlib.sha256(encode(what)).hexdigest()[:32]
            self._asked = self._asked or set()
            if key in self._asked:
                raise DuplicateQuestion(
                    f"Asked twice in one pass: {question['prompt']!r}. Give each question its own key."
                )
            self._asked.add(key)
        answers = self.history.answers if self.history is not None else {}
        if key in answers:
            return answers[key]
        self.asked = {**question, "key": key}
        raise Parked

    async def step(self, key: str, do: Callable[[], Any]) -> Any:
        """The recorded value, or a new one that is durable before the body sees it."""
        await self.meet()
        self._stepped = self._stepped or set()
        if key in self._stepped:
            raise DuplicateStep(f"Step '{key}' was used twice in one pass. Give each step its own key.")
        self._stepped.add(key)
        if self._steps is None:
            self._steps = {} if self.history is None else self.history.steps
        recorded = self._steps.get(key)
        if recorded is None:
            recorded = self._steps[key] = await self._take_step(key, do)
        if (failure := recorded.failure) is not None:
            told: dict[str, Any] = {"retryable": failure.retryable, "hint": failure.hint, "reason": failure.reason}
            raise ToolFailure(failure.code, failure.message, **told)
        if recorded.kept is not None:
            return decode(await self.pipeline.vault.kept(self.session_id, recorded.kept) or b"null")
        return None if recorded.value is UNSET else recorded.value

    async def _kept_step(self, key: str, value: Any) -> StepTaken:
        """A value that tells a secret is kept beside the log, which shows it masked."""
        shown = without(self.secrets, value) if self.secrets else value
        if shown == value:
            return StepTaken(key, value)
        attempt = 1 if self.row is None else self.row.attempt  # what a pass writes that was fenced is not for the next
        return StepTaken(key, shown, await self.keep_secret(f"step:{attempt}:{key}", encode(value)))

    async def _take_step(self, key: str, do: Callable[[], Any]) -> StepTaken:
        try:
            value = do()
            if inspect.isawaitable(value):
                value = await value
            data = await self._kept_step(key, decode(to_json(value)))
        except ToolFailure as error:
            hint = error.hint and self.masked(error.hint)
            reason = error.reason and self.masked(error.reason)
            failure = StepFailure(error.code, self.masked(error.message), error.retryable, hint, reason)
            data = StepTaken(key, failure=failure)
        self.pipeline.begin_behind(self)
        self.flush_text()
        assert self.row is not None
        step = draft(self.pipeline.clock.now(), self.id, data)
        conflict = await self.pipeline.durably(self, lifecycle.report(self.row, [step]))
        if conflict is not None:
            self.refused(conflict)
            self.heed()
        return data

    async def child(self, tool: str, args: Any) -> Result:
        """Another tool, through the whole pipeline."""
        await self.meet()
        return await self.session._call_child(self, tool, args)

    async def schedule(self, wanted: Schedule, key: str) -> str:
        """Makes a call later, once for that key."""
        await self.meet()
        return await self.session._schedule_for(self, wanted, key)

    async def credential(self, name: str) -> str:
        """What the owner of the session brings under that name."""
        await self.meet()
        found = await find_credential(self.pipeline.credentials, self.session.owner, name)
        if found not in self.secrets:
            self.secrets = (*self.secrets, found)
        return found

    @property
    def this_session(self) -> Session:
        """The session of the call."""
        return self.session

    @property
    def permissions(self) -> CallPermissions:
        """What the policy says of the call."""
        assert self.tool is not None
        return CallPermissions(self.policy, self.request.asker(), self.session.folders, self.tool, self.normalised())

    def now(self) -> float:
        """The time by the crib's clock."""
        return self.pipeline.clock.now()

    def has_step(self, key: str) -> bool:
        """Whether an earlier pass recorded that step."""
        return self.history is not None and key in self.history.steps

    def attach(self, id: str, data: bytes) -> None:
        """Keeps bytes beside the log, written with the result."""
        self.attached = (*self.attached, (id, data))

    async def drain(self) -> None:
        """Returns when little enough of the output is still unwritten."""
        await self.room()

    async def stopped(self) -> None:
        """Returns when the call is asked to stop."""
        if self.stopping is None and not self.fenced:
            if self._stop_waiter is None:
                self._stop_waiter = self.pipeline.loop.create_future()
            await asyncio.shield(self._stop_waiter)

    # How it is started, stopped and run again

    def again(self) -> None:
        """The body runs from its start once more, on the state of now."""
        self.retries += 1
        self.concluding = False
        self.announce = True
        if self.late_stop is not None:
            self.stopping, self.stop_failure = self.late_stop.code, self.late_stop
        self._facts = self._asked = self._stepped = None

    def watch_silence(self, seconds: float) -> None:
        """Stops it when nothing was put out for that long."""
        seen = self.outputs

        def look() -> None:
            if not self.in_body:
                return
            if self.outputs == seen:
                self.stop(self.failure("timeout", f"No output for {seconds:g} s"))
            else:
                self.watch_silence(seconds)

        self._later(seconds, look)

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        """Does something later, unless the call is over by then."""
        clock = self.pipeline.clock
        if self._timer is not None:
            self._timer.cancel()
        self._timer = clock.call_at(clock.now() + seconds, do)

    async def calm(self) -> None:
        """Takes the cancellation that stopped the body off this task, so that the end can be recorded in peace."""
        if self.task is None:
            return
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        while self.task.cancelling():
            self.task.uncancel()

    def begin(self) -> None:
        """There is a seat for it now."""
        self.pipeline.start(self)

    def overdue(self) -> None:
        """Its time is up; the time that a call made by it waits for somebody does not count."""
        self.pipeline.aside(self._overdue())

    async def _overdue(self) -> None:
        if self.in_doubt:
            await self.make_sure()  # its time may have passed while this process stood still
        if self.excused is not None and await self.excused():
            self.pipeline.scheduler.watch(self)
            return
        thread = self.tool is not None and self.tool.mode in ("thread", "thread_stream")
        hint = "It runs in a thread that cannot be stopped; it may still be at work." if thread else None
        self.stop(self.failure("timeout", f"Timed out after {self.timeout_s:g} s", hint=hint))

    @property
    def halted(self) -> bool:
        """Whether it was asked to stop."""
        return self.stopping is not None

    def stop(self, failure: Failure, **metadata: Any) -> bool:
        """Asks it to stop, and its children with it; whether that was news."""
        if self.finished or self.concluding or self.stopping is not None:
            self.late_stop = self.late_stop or failure
            return False
        self.stopping = failure.code
        self.stop_failure = failure
        if self.row is not None and self.row.attempt > 0 and self.row.effect == "once":
            metadata.setdefault("may_have_run", True)
        self.stop_metadata = metadata
        self.warn()
        if not self.fenced:
            self.stop_children()
        if self.in_body and self.task is not None:
            self.interrupt()
        elif self.queued:
            self.pipeline.give_up(self)
        return True

    def warn(self) -> None:
        """Lets a body go on that waits to be stopped."""
        if self._stop_waiter is not None and not self._stop_waiter.done():
            self._stop_waiter.set_result(None)

    def stop_children(self) -> None:
        """Has all that it called stop with it."""
        for child in list(self.children or ()):
            child.stop(child.failure("cancelled", "Cancelled with the call that made it"))

    def interrupt(self) -> None:
        """Cancels the body, which then has a while to clean up."""
        assert self.task is not None
        self.task.cancel()
        self._later(self.pipeline.limits.cleanup_s, lambda: self.pipeline.abandon(self))

    def end(self) -> None:
        """Lets go of timers and wakes whoever waits for it."""
        self.finished = True
        self.hush()
        if self._timer is not None:
            self._timer.cancel()
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.discard(self)
        for waiter in self._waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        if self.on_end is not None:
            self.on_end()
        if (self.run is not None or self.background) and self.session.crib.agents is not None:
            self.session.crib.agents.news(self.session, self)

    async def ended(self) -> None:
        """Returns when this process is through with it: done or parked."""
        if not self.finished:
            waiter = self.pipeline.loop.create_future()
            self._waiters = self._waiters or set()
            self._waiters.add(waiter)
            await waiter


def call_behind(ctx: Context) -> LiveCall:
    """Return the call that a context belongs to, for the parts of the runtime that run calls themselves."""
    assert isinstance(ctx._host, LiveCall)
    return ctx._host

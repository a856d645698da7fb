"""A call while this process works on it: what its context does, what it writes, and how it is stopped.

It is the only mutable thing of a call, and it is gone when the call is done or parked; the log has the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib._call import lifecycle
from toolcrib._call.failures import failure_of, masked, unavailable
from toolcrib._call.fence import Fence, Maker, StopRequest
from toolcrib._call.host import CallHost
from toolcrib._call.output import CallOutput
from toolcrib._call.request import TOP, Admitted, CallRequest, Origin, Recalled, Rejected, ToolBound
from toolcrib.context import AgentScope, Context
from toolcrib.errors import StoreError
from toolcrib.events import Event
from toolcrib.schema.redaction import without
from toolcrib.state import Snapshot
from toolcrib.store import Draft, Row, State, Write
from toolcrib.store.codec import LARGE, CompactWrite, digest, whole
from toolcrib.store.vault import secret_id
from toolcrib.tool import Tool
from toolcrib.types import By, Failure, Result, Wake

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib._call.pipeline import Pipeline
    from toolcrib.policy import Policy, Verdict
    from toolcrib.schema import ParsedArguments


WITH_PARENT = "Cancelled with the call that made it"


class Caller(NamedTuple):
    """Whom a call is made for, in this process."""

    awaited: bool = False
    """Its caller waits for its end."""
    durable: bool = False
    """It is in the store before its caller hears of it."""
    maker: Maker | None = None
    """What holds it: it is refused once another process has that."""
    parent: LiveCall | None = None
    """The call that waits for it, and with which it stops."""


NOBODY = Caller()
AWAITED = Caller(awaited=True)
DURABLE = Caller(durable=True)


class LiveCall(Fence):
    """One call in flight. Its defaults stand on the class, so that a call that needs little costs little."""

    marks: Mapping[str, Any] | None = None
    history: History | None = None
    secrets: tuple[str, ...] = ()
    bound: ToolBound | None = None
    nested = False
    durable = False
    awaited = False
    outcome: asyncio.Future[Event] | None = None
    on_end: Callable[[LiveCall], None] | None = None
    parent: LiveCall | None = None
    children: set[LiveCall] | None = None
    announce = True
    base: Snapshot | None = None
    attached: tuple[tuple[str, bytes], ...] = ()
    started_at = 0.0
    retries = 0
    seated = False
    queued = False
    task: asyncio.Task[None] | None = None
    result: Result | None = None
    late_stop: Failure | None = None
    """What it was asked to stop for while its end was being written: whatever is tried again then is not."""

    _desk: AgentScope | None = None
    _digest: tuple[Any, str] | None = None
    _host: CallHost | None = None
    _output: CallOutput | None = None
    _timer: Any = None
    _waiters: set[asyncio.Future[None]] | None = None

    def __init__(self, pipeline: Pipeline, admission: Admitted | Rejected | Recalled, caller: Caller = NOBODY) -> None:
        request = admission.request
        self.pipeline = pipeline
        self.session = request.session
        self.id = request.id
        if request.origin is not TOP:
            self.nested = request.origin.parent is not None  # its parent may hold the last seat while it waits for it
        if request.options.key is not None or request.options.background:
            self.durable = True
        self.admit(admission)
        if caller is not NOBODY:
            self._belong(caller)

    @classmethod
    def revived(
        cls, admission: Recalled, row: Row, history: History, on_end: Callable[[LiveCall], None] | None = None
    ) -> LiveCall:
        """A call of the log in flight again. `on_end` is called at its end where an engine brought it."""
        live = cls(admission.request.session.pipeline, admission)
        live.row, live.history, live.durable = row, history, True
        live.nested, live.on_end = live.nested or on_end is not None, on_end
        live.announce = history.started is None or history.paused is not None
        live.started_at = history.started_at or 0.0
        return live

    @classmethod
    def untaken(cls, request: CallRequest, error: StoreError) -> LiveCall:
        """A call that the store did not take, or of which nobody knows whether it did."""
        live = cls(request.session.pipeline, Rejected(request, unavailable(error), request.arguments))
        live.fail_untaken(error)
        return live

    # What was wanted, and what the stages established

    @property
    def session_id(self) -> str:
        """The id of its session."""
        return self.session.id

    @property
    def accepted_at(self) -> float:
        """When it was made."""
        return self.request.at

    @property
    def name(self) -> str:
        """What its caller called the tool."""
        return whole(self.request.name)

    @property
    def by(self) -> By:
        """Who called."""
        return self.request.options.by

    @property
    def run(self) -> Any:
        """The run of an agent that it belongs to, if there is one."""
        return self.request.options.run

    @property
    def agent(self) -> str | None:
        """The agent that called, if one did."""
        return self.request.options.agent

    @property
    def wake(self) -> Wake | None:
        """What its end does to the agent, where its caller said so."""
        return self.request.options.wake

    @property
    def parent_id(self) -> str | None:
        """The id of the call that made it."""
        return self.request.origin.parent

    @property
    def taken(self) -> bool:
        """True if an engine brought it."""
        return self.on_end is not None

    @property
    def tool(self) -> Tool | None:
        """Its tool; None where there is none of that name."""
        return self.admission.tool

    @property
    def tool_id(self) -> str:
        """The id of its tool."""
        return self.admission.tool_id

    @property
    def parsed(self) -> ParsedArguments | None:
        """Its arguments as its tool takes them."""
        return self.admission.parsed

    @property
    def verdict(self) -> Verdict | None:
        """What the policy says of it."""
        return self.admission.verdict

    @property
    def timeout_s(self) -> float:
        """How long it may run."""
        return self.admission.timeout_s

    @property
    def label(self) -> str:
        """What it is called where people see it."""
        return self.admission.label or self.request.options.label

    @property
    def background(self) -> bool:
        """True if its caller does not wait for it."""
        return self.admission.background

    @property
    def shown(self) -> Any:
        """Its arguments as they may be seen, where something of them is secret."""
        return self.admission.shown

    @property
    def edited(self) -> dict[str, Any] | None:
        """What an approver changed."""
        return None if self.history is None else self.history.edited

    def admit(self, admission: Admitted | Rejected | Recalled) -> None:
        """Takes what the stages have established."""
        self.request, self.admission = admission.request, admission
        if admission.bound is not self.bound:
            self.bound = admission.bound
        if not admission.is_plain:
            self.marks, self.secrets = admission.marks(), admission.secrets
            # Whoever goes on with one that has a secret finds in the log only that there was one.
            if admission.background or admission.shown is not None:
                self.durable = True

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

    def fail_untaken(self, error: StoreError) -> None:
        """The store did not take it, or nobody knows whether it did: that is its result, unless it has one."""
        failure, doubt = unavailable(error, self.tool), getattr(error, "in_doubt", False)
        self.result = self.result or Result(failure=failure, metadata={"in_doubt": True} if doubt else None)

    def _belong(self, caller: Caller) -> None:
        """Takes whom it is made for. One that is made for a call that was stopped meanwhile stops too."""
        self.awaited, self.durable, self.maker = caller.awaited, self.durable or caller.durable, caller.maker
        if caller.parent is not None:
            self.join(caller.parent)
            if caller.parent.halted:
                self.stop(self.failure("cancelled", WITH_PARENT))

    def join(self, parent: LiveCall) -> None:
        """Makes it a child of a call in flight: it is stopped with its parent."""
        self.parent = self.maker = parent
        parent.children = parent.children or set()
        parent.children.add(self)

    def expect(self, outcome: asyncio.Future[Event] | None) -> None:
        """Its end will be found in the log, where another process writes it."""
        self.outcome = outcome

    def origin(self) -> Origin:
        """The origin of the calls that it makes."""
        above = self.request.origin
        return Origin(self.id, (self.tool_id, *above.ancestors), above.depth + 1)

    # What is written of it

    @property
    def args(self) -> bytes:
        """The JSON text of the arguments that run."""
        return self.admission.arguments

    def normalised(self) -> Mapping[str, Any]:
        """The parsed arguments as plain JSON, defaults filled in."""
        assert self.tool is not None and self.tool.parser is not None and self.parsed is not None
        return self.tool.parser.normalised(self.parsed)

    @property
    def plain(self) -> bool:
        """Whether it ran at once and there is nothing special about it that the log would have to say."""
        admission = self.admission
        return (
            self.row is None
            and type(admission) is Admitted
            and len(admission.parsed.json) <= LARGE
            and (admission.is_plain or not (self.marks or admission.label))
            and not (self.secrets or self.durable)
        )

    @property
    def desk(self) -> AgentScope | None:
        """What the run of an agent gives to its calls; None where this is no call of a run."""
        if self._desk is None and self.request.options.run is not None:
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
        call = self.admission
        if self._digest is None or self._digest[0] is not call:
            fingerprint = "" if call.tool is None else call.tool.fingerprint
            made = digest(self.session.id, self.id, fingerprint, call.arguments)
            self._digest = (call, made if call.shown is None else self.pipeline.vault.digest(made))
        return self._digest[1]

    def new_row(self, state: State, attempt: int = 0) -> Row:
        """Its first row."""
        request, admission = self.request, self.admission
        tool = admission.tool
        row = Row(
            self.id,
            self.session.id,
            self.tool_id or self.name.replace("\0", "\N{REPLACEMENT CHARACTER}") if tool is None else tool.id,
            "once" if tool is None else tool.does,
            state,
            attempt,
            self.pipeline.worker,
            request.at,
        )
        if not admission.is_plain:
            row.background, row.parent, row.key = self.background, self.parent_id, request.options.key
        return row

    def accepted(self, row: Row, events: list[Draft] | CompactWrite) -> Write:
        """Its first write, which holds only while this process holds who made it."""
        write = lifecycle.accept(row, events)
        if self.admission.shown is not None and row.state != "done":
            write.keeps = (self.pipeline.vault.sealed(self.session_id, secret_id(self.id), self.args),)
        if self.maker is not None:
            self.on_behalf(write, self.maker)
        else:  # nobody is kept waiting for what did not begin yet
            write.on_late = lambda: self.pipeline.retract(self, row)
        return write

    def attach(self, id: str, data: bytes) -> None:
        """Keeps bytes beside the log, written with the result."""
        self.attached = (*self.attached, (id, data))

    def wait_for(self, question: dict[str, Any]) -> None:
        """Has it wait for the answer to a question when its body has ended this pass."""
        self.asked = question

    def learn_secret(self, value: str) -> None:
        """Nothing of it tells this text from now on."""
        if value not in self.secrets:
            self.secrets = (*self.secrets, value)

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

    # What its body meets

    def context(self) -> Context:
        """What the body sees."""
        assert self.tool is not None
        return self.host.context(self.tool)

    @property
    def host(self) -> CallHost:
        """What stands behind its context."""
        if self._host is None:
            self._host = CallHost(self)
        return self._host

    @property
    def behind(self) -> Sequence[str] | None:
        """The calls that it waits for, where its body was let go until one of them ends."""
        return None if self._host is None else self._host.behind

    @property
    def output(self) -> CallOutput:
        """What it tells its readers."""
        if self._output is None:
            self._output = CallOutput(self)
        return self._output

    def flush(self) -> None:
        """Writes all that was put out and held back."""
        if self._output is not None:
            self._output.flush()

    @property
    def broken_off(self) -> bool:
        """Whether its body was stopped or asked something, so that what it gave back counts for nothing."""
        return self.stop_request is not None or self.asked is not None or self.cut

    def snapshot(self) -> Snapshot:
        """The state when this pass started."""
        return self.session.state.snapshot(self.run) if self.base is None else self.base

    # How it is started, stopped and run again

    def restart(self, row: Row | None = None) -> None:
        """It starts anew after a process that is gone, and the log says so."""
        self.row, self.announce = row or self.row, True

    def again(self) -> None:
        """The body runs from its start once more, on the state of now."""
        self.retries += 1
        self.concluding = False
        self.announce = True
        if self.late_stop is not None:
            self.give_in(self.late_stop)
        if self._host is not None:
            self._host.again()

    def watch_silence(self, seconds: float) -> None:
        """Stops it when nothing was put out for that long."""
        seen = self.output.outputs

        def look() -> None:
            if not self.in_body:
                return
            if self.output.outputs == seen:
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
        excused = None if self._host is None else self._host.excused
        if excused is not None and await excused():
            self.pipeline.scheduler.watch(self)
            return
        thread = self.tool is not None and self.tool.mode in ("thread", "thread_stream")
        hint = "It runs in a thread that cannot be stopped; it may still be at work." if thread else None
        self.stop(self.failure("timeout", f"Timed out after {self.timeout_s:g} s", hint=hint))

    def stop(self, failure: Failure, **metadata: Any) -> bool:
        """Asks it to stop, and its children with it; whether that was news."""
        if self.finished or self.concluding or self.halted:
            self.late_stop = self.late_stop or failure
            return False
        if self.row is not None and self.row.attempt > 0 and self.row.effect == "once":
            metadata.setdefault("may_have_run", True)
        self.stop_request = StopRequest(failure, metadata)
        self.warn()
        if not self.fenced:
            self.stop_children()
        if self.in_body and self.task is not None:
            self.interrupt()
        elif self.queued:
            self.pipeline.give_up(self)
        return True

    def give_in(self, failure: Failure) -> None:
        """Ends it with a failure that came while its end was being written."""
        self.stop_request = StopRequest(failure)

    def stopped_for(self, failure: Failure) -> bool:
        """True if it was stopped for that very failure."""
        return self.stop_request is not None and self.stop_request.failure is failure

    def warn(self) -> None:
        """Lets a body go on that waits to be stopped."""
        if self._host is not None:
            self._host.warn()

    def stop_children(self) -> None:
        """Has all that it called stop with it."""
        for child in list(self.children or ()):
            child.stop(child.failure("cancelled", WITH_PARENT))

    def interrupt(self) -> None:
        """Cancels the body, which then has a while to clean up."""
        assert self.task is not None
        self.task.cancel()
        self._later(self.pipeline.limits.cleanup_s, lambda: self.pipeline.abandon(self))

    def end(self) -> None:
        """Lets go of timers and wakes whoever waits for it."""
        self.finished = True
        if self._output is not None:
            self._output.hush()
        if self._timer is not None:
            self._timer.cancel()
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.discard(self)
        for waiter in self._waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        if self.on_end is not None:
            self.on_end(self)
        if not self.admission.is_plain and (self.run is not None or self.background):
            agents = self.session.crib.agents
            if agents is not None:
                agents.news(self.session, self)

    async def ended(self) -> None:
        """Returns when this process is through with it: done or parked."""
        if not self.finished:
            waiter = self.pipeline.loop.create_future()
            self._waiters = self._waiters or set()
            self._waiters.add(waiter)
            await waiter


def host_of(ctx: Context) -> CallHost:
    """Return what stands behind a context, for the parts of the runtime that run calls themselves."""
    assert isinstance(ctx._host, CallHost)
    return ctx._host


def call_behind(ctx: Context) -> LiveCall:
    """Return the call that a context belongs to, for the same."""
    return host_of(ctx).live

"""A call while this process works on it: what its context does, what it writes, and how it is stopped.

It is the only mutable thing of a call, and it is gone when the call is done or parked; the log has the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolcrib._call import lifecycle
from toolcrib._call.failures import failure_of, masked, unavailable
from toolcrib._call.fence import NOBODY, Caller, Fence, StopRequest
from toolcrib._call.host import CallHost
from toolcrib._call.output import CallOutput
from toolcrib._call.request import Admitted, CallRequest, Origin, Recalled, Rejected, ToolBound
from toolcrib.context import AgentScope, Context
from toolcrib.errors import StoreError
from toolcrib.events import Event
from toolcrib.schema.redaction import without
from toolcrib.state import Snapshot
from toolcrib.store import Draft, Row, Write
from toolcrib.store.codec import CompactWrite, digest, whole
from toolcrib.store.vault import secret_id
from toolcrib.tool import Tool
from toolcrib.types import By, Failure, Result, Wake

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib.policy import Policy, Verdict
    from toolcrib.schema import ParsedArguments
    from toolcrib.session import Session


WITH_PARENT = "Cancelled with the call that made it"


class Pass(msgspec.Struct):
    """One run of the body: when it began, and the state that it began with."""

    at: float
    base: Snapshot | None = None


class BodyParts(msgspec.Struct):
    """What few bodies need: the log of earlier passes, a context, output, files."""

    history: History | None = None
    announce: bool = True
    retries: int = 0
    host: CallHost | None = None
    output: CallOutput | None = None
    attached: tuple[tuple[str, bytes], ...] = ()
    scope: AgentScope | None = None
    digest: tuple[Any, str] | None = None


class Ties(msgspec.Struct):
    """What a call that pauses is tied to: its task, a timer, and who waits for whom."""

    task: asyncio.Task[None] | None = None
    timer: Any = None
    children: set[LiveCall] = msgspec.field(default_factory=set)
    waiters: set[asyncio.Future[None]] = msgspec.field(default_factory=set)
    outcome: asyncio.Future[Event] | None = None


class LiveCall(Fence, eq=False, weakref=True):
    """One call in flight. What few calls have stands apart, so that a call that needs little costs little."""

    began: Pass | None = None
    result: Result | None = None
    body: BodyParts | None = None
    ties: Ties | None = None

    @classmethod
    def revived(
        cls, admission: Recalled, row: Row, history: History, on_end: Callable[[LiveCall], None] | None = None
    ) -> LiveCall:
        """A call of the log in flight again. `on_end` is called at its end where an engine brought it."""
        announce = history.started is None or history.paused is not None
        began = Pass(history.started_at) if history.started_at else None
        body = BodyParts(history, announce)
        return cls(admission, Caller(durable=True, on_end=on_end), row, began=began, body=body)

    @classmethod
    def child(cls, admission: Admitted | Rejected, caller: Caller) -> LiveCall:
        """A call that another call waits for, and with which it stops: at once where that was stopped meanwhile."""
        live, parent = cls(admission, caller), caller.parent
        assert parent is not None
        parent._tied().children.add(live)
        if parent.halted:
            live.stop(live.failure("cancelled", WITH_PARENT))
        return live

    @classmethod
    def untaken(cls, request: CallRequest, error: StoreError) -> LiveCall:
        """A call that the store did not take, or of which nobody knows whether it did."""
        live = cls(Rejected(request, unavailable(error), request.arguments), NOBODY)
        live.fail_untaken(error)
        return live

    def _parts(self) -> BodyParts:
        if self.body is None:
            self.body = BodyParts()
        return self.body

    def _tied(self) -> Ties:
        if self.ties is None:
            self.ties = Ties()
        return self.ties

    # What was wanted, and what the stages established

    @property
    def request(self) -> CallRequest:
        """What its caller wants."""
        return self.admission.request

    @property
    def session(self) -> Session:
        """Its session."""
        return self.admission.request.session

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
        return self.caller.on_end is not None

    @property
    def nested(self) -> bool:
        """True if another call made it, whose seat it may have, or an engine brought it."""
        return self.request.origin.parent is not None or self.taken

    @property
    def durable(self) -> bool:
        """True if it is in the store before its caller hears of it."""
        call = self.admission
        if self.caller.durable or call.is_plain:
            return self.caller.durable
        # Whoever goes on with one that has a secret finds in the log only that there was one.
        options = call.request.options
        return options.key is not None or bool(options.background) or call.background or call.shown is not None

    @property
    def bound(self) -> ToolBound | None:
        """What holds back the calls of its tool."""
        return self.admission.bound

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that nothing of it tells."""
        return self.admission.secrets

    @property
    def parent(self) -> LiveCall | None:
        """The call that waits for it, and with which it stops."""
        return self.caller.parent

    @property
    def children(self) -> set[LiveCall]:
        """The calls that it made and waits for."""
        return set() if self.ties is None else self.ties.children

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What runs it, once it has paused."""
        return None if self.ties is None else self.ties.task

    @property
    def outcome(self) -> asyncio.Future[Event] | None:
        """Its end, where another process may write it."""
        return None if self.ties is None else self.ties.outcome

    @property
    def history(self) -> History | None:
        """What the log says of it, where it goes on."""
        return None if self.body is None else self.body.history

    @property
    def announce(self) -> bool:
        """True if the log has to say that it starts."""
        return self.body is None or self.body.announce

    @property
    def retries(self) -> int:
        """How often it ran again on another state."""
        return 0 if self.body is None else self.body.retries

    @property
    def attached(self) -> tuple[tuple[str, bytes], ...]:
        """Bytes that are kept beside the log with its result."""
        return () if self.body is None else self.body.attached

    @property
    def started_at(self) -> float:
        """When it began to run; 0 where it has not."""
        return 0.0 if self.began is None else self.began.at

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
        self.admission = admission

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
            bound=self.bound,
        )

    @property
    def top(self) -> LiveCall:
        """The call at the beginning of the chain of calls that made this one."""
        return self if self.parent is None else self.parent.top

    def fail_untaken(self, error: StoreError) -> None:
        """The store did not take it, or nobody knows whether it did: that is its result, unless it has one."""
        failure, doubt = unavailable(error, self.tool), getattr(error, "in_doubt", False)
        self.result = self.result or Result(failure=failure, metadata={"in_doubt": True} if doubt else None)

    def adopt(self, parent: LiveCall) -> None:
        """Makes it a child of a call in flight, after it was revived."""
        self.caller = self.caller._replace(parent=parent, maker=parent)
        parent._tied().children.add(self)

    def expect(self, outcome: asyncio.Future[Event] | None) -> None:
        """Its end will be found in the log, where another process writes it."""
        self._tied().outcome = outcome

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
    def desk(self) -> AgentScope | None:
        """What the run of an agent gives to its calls; None where this is no call of a run."""
        if self.request.options.run is None:
            return None
        parts = self._parts()
        if parts.scope is None:
            parts.scope = self.request.desk()
        return parts.scope

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
        call, parts = self.admission, self._parts()
        if parts.digest is None or parts.digest[0] is not call:
            fingerprint = "" if call.tool is None else call.tool.fingerprint
            made = digest(self.session.id, self.id, fingerprint, call.arguments)
            parts.digest = (call, made if call.shown is None else self.pipeline.vault.digest(made))
        return parts.digest[1]

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
        self._parts().attached = (*self.attached, (id, data))

    def wait_for(self, question: dict[str, Any]) -> None:
        """Has it wait for the answer to a question when its body has ended this pass."""
        self.asked = question

    def learn_secret(self, value: str) -> None:
        """Nothing of it tells this text from now on."""
        if value not in self.secrets:
            self.admission = replace(self.admission, secrets=(*self.secrets, value), is_plain=False)

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
        parts = self._parts()
        if parts.host is None:
            parts.host = CallHost(self)
        return parts.host

    @property
    def behind(self) -> Sequence[str] | None:
        """The calls that it waits for, where its body was let go until one of them ends."""
        return None if self.body is None or self.body.host is None else self.body.host.behind

    @property
    def output(self) -> CallOutput:
        """What it tells its readers."""
        parts = self._parts()
        if parts.output is None:
            parts.output = CallOutput(self)
        return parts.output

    def flush(self) -> None:
        """Writes all that was put out and held back."""
        if self.body is not None and self.body.output is not None:
            self.body.output.flush()

    @property
    def broken_off(self) -> bool:
        """Whether its body was stopped or asked something, so that what it gave back counts for nothing."""
        return self.stop_request is not None or self.asked is not None or self.cut

    def snapshot(self) -> Snapshot:
        """The state when this pass started."""
        base = None if self.began is None else self.began.base
        return self.session.state.snapshot(self.run) if base is None else base

    # How it is started, stopped and run again

    def restart(self, row: Row | None = None) -> None:
        """It starts anew after a process that is gone, and the log says so."""
        self.row, self._parts().announce = row or self.row, True

    def stand(self, row: Row | None) -> None:
        """Takes the row that stands for it in the store."""
        self.row = row

    def recall(self, history: History, row: Row | None = None) -> None:
        """Takes what the log says of it now."""
        self._parts().history = history
        self.row = row or self.row

    def start(self, at: float, row: Row | None = None) -> None:
        """Begins to run, with the row that says so where there is one."""
        self.began = Pass(at)
        self.row = row or self.row

    def enter(self, base: Snapshot) -> None:
        """Its body begins, on that state."""
        began = self.began
        if began is None:
            began = self.began = Pass(0.0)
        began.base = base
        self.in_body = True

    def leave(self) -> None:
        """Its body is over."""
        self.in_body = False

    def pause(self, task: asyncio.Task[None]) -> None:
        """Its task is paused for the first time."""
        self._tied().task = task

    def conclude(self) -> None:
        """Its end, or its question, is being written: nothing of the body counts from now on."""
        self.phase = "concluding"

    def reopen(self) -> None:
        """Its end was not written, and another will be."""
        if self.phase == "concluding":
            self.phase = "open"

    def shut_out(self, failure: Failure) -> None:
        """Its session was closed before it was accepted: it never began."""
        self.row, self.began = None, None
        self.reopen()
        self.caller = self.caller._replace(durable=self.durable)
        self.admission = self.rejected(failure)

    def deliver(self, result: Result) -> None:
        """Has a result for whoever waits for it."""
        self.result = result

    def again(self) -> None:
        """The body runs from its start once more, on the state of now."""
        parts = self._parts()
        parts.retries, parts.announce = parts.retries + 1, True
        self.reopen()
        if self.late_stop is not None:
            self.give_in(self.late_stop)
        if parts.host is not None:
            parts.host.again()

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
        ties = self._tied()
        if ties.timer is not None:
            ties.timer.cancel()
        ties.timer = clock.call_at(clock.now() + seconds, do)

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
        excused = None if self.body is None or self.body.host is None else self.body.host.excused
        if excused is not None and await excused():
            self.pipeline.scheduler.watch(self)
            return
        thread = self.tool is not None and self.tool.mode in ("thread", "thread_stream")
        hint = "It runs in a thread that cannot be stopped; it may still be at work." if thread else None
        self.stop(self.failure("timeout", f"Timed out after {self.timeout_s:g} s", hint=hint))

    def stop(self, failure: Failure, **metadata: Any) -> bool:
        """Asks it to stop, and its children with it; whether that was news."""
        if self.concluding or self.halted:
            owned = self._owned()
            owned.late_stop = owned.late_stop or failure
            return False
        if self.row is not None and self.row.attempt > 0 and self.row.effect == "once":
            metadata.setdefault("may_have_run", True)
        self.stop_request = StopRequest(failure, metadata)
        self.warn()
        if not self.fenced:
            self.stop_children()
        if self.in_body and self.task is not None:
            self.interrupt()
        elif self.pipeline.scheduler.queues(self):
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
        if self.body is not None and self.body.host is not None:
            self.body.host.warn()

    def stop_children(self) -> None:
        """Has all that it called stop with it."""
        for child in list(self.children):
            child.stop(child.failure("cancelled", WITH_PARENT))

    def interrupt(self) -> None:
        """Cancels the body, which then has a while to clean up."""
        assert self.task is not None
        self.task.cancel()
        self._later(self.pipeline.limits.cleanup_s, lambda: self.pipeline.abandon(self))

    def end(self) -> None:
        """Lets go of timers and wakes whoever waits for it."""
        self.phase = "finished"
        if self.body is not None and self.body.output is not None:
            self.body.output.hush()
        if self.caller.parent is not None:
            self.caller.parent.children.discard(self)
        if self.ties is not None:
            self._untie(self.ties)
        if self.caller.on_end is not None:
            self.caller.on_end(self)
        if not self.admission.is_plain and (self.run is not None or self.background):
            agents = self.session.crib.agents
            if agents is not None:
                agents.news(self.session, self)

    def _untie(self, ties: Ties) -> None:
        if ties.timer is not None:
            ties.timer.cancel()
        for waiter in ties.waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def ended(self) -> None:
        """Returns when this process is through with it: done or parked."""
        if not self.finished:
            waiter = self.pipeline.loop.create_future()
            self._tied().waiters.add(waiter)
            await waiter


def host_of(ctx: Context) -> CallHost:
    """Return what stands behind a context, for the parts of the runtime that run calls themselves."""
    assert isinstance(ctx._host, CallHost)
    return ctx._host


def call_behind(ctx: Context) -> LiveCall:
    """Return the call that a context belongs to, for the same."""
    return host_of(ctx).live

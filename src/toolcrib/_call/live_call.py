"""A call while this process works on it: what its context does, what it writes, and how it is stopped.

It is the only mutable thing of a call, and it is gone when the call is done or parked; the log has the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.json import decode as read_json
from msgspec.structs import replace
from pydantic_core import to_json

from toolcrib._call import lifecycle
from toolcrib._call.bodies import run_body
from toolcrib._call.call_facts import NOBODY, Caller, Maker
from toolcrib._call.call_parts import WITH_PARENT, BodyParts, CallParts, Ties
from toolcrib._call.failures import unavailable
from toolcrib._call.fence import StopRequest
from toolcrib._call.host import CallHost
from toolcrib._call.outcome import checked, on_purpose, to_result, unwritable
from toolcrib._call.output import CallOutput
from toolcrib._call.ports import AgentScope
from toolcrib._call.request import Admitted, CallRequest, Origin, Recalled, Rejected
from toolcrib.context import Context, Parked, Stopped
from toolcrib.errors import StoreError, StreamClosed, ToolFailure
from toolcrib.events import Event
from toolcrib.state import Snapshot
from toolcrib.store import Draft, Row, Write
from toolcrib.store.codec import CompactWrite, digest
from toolcrib.store.vault import secret_id
from toolcrib.types import Failure, Result

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib._call.pipeline import Pipeline
    from toolcrib.policy import Policy


_PLAIN = frozenset({int, str, dict, float, bool, type(None)})
"""The types of what most tools return."""


class Pass(msgspec.Struct):
    """One run of the body: when it began, and the state that it began with."""

    at: float
    base: Snapshot | None = None


class LiveCall(CallParts, eq=False, weakref=True):
    """One call in flight. What few calls have stands apart, so that a call that needs little costs little."""

    began: Pass | None = None
    result: Result | None = None

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

    # What was wanted, and what the stages established

    @property
    def started_at(self) -> float:
        """When it began to run; 0 where it has not."""
        return 0.0 if self.began is None else self.began.at

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
        failure, doubt = unavailable(error, self.tool), error.in_doubt
        self.result = self.result or Result(failure=failure, metadata={"in_doubt": True} if doubt else {})

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
    def scope(self) -> AgentScope | None:
        """What the run of an agent gives to its calls; None where this is no call of a run."""
        if self.request.options.run is None:
            return None
        parts = self._parts()
        if parts.scope is None:
            parts.scope = self.request.scope()
        return parts.scope

    @property
    def policy(self) -> Policy:
        """What judges it."""
        return self.session.judge or self.session.policy if self.scope is None else self.scope.policy

    def path(self) -> list[str]:
        """The agents from the top down to the one that called."""
        if self.scope is not None:
            return self.scope.path()
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
        write, maker = lifecycle.accept(row, events), self.caller.maker
        if self.admission.shown is not None and row.state != "done":
            write.keeps = (self.pipeline.vault.sealed(self.session_id, secret_id(self.id), self.args),)
        if maker is not None:
            self.on_behalf(write, maker)
        else:  # nobody is kept waiting for what did not begin yet
            write.on_late = lambda: self.pipeline.late.retract(self, row)
        return write

    def on_behalf(self, write: Write, maker: Maker) -> None:
        """Has the store refuse what a body or a run makes when that is not this process's any more."""
        if maker.in_body:
            maker.guard(write, self.refused)

    def attach(self, id: str, data: bytes) -> None:
        """Keeps bytes beside the log, written with the result."""
        self._parts().attached = (*self.attached, (id, data))

    def wait_for(self, question: dict[str, Any]) -> None:
        """Has it wait for the answer to a question when its body has ended this pass."""
        self.open_question = question

    def learn_secret(self, value: str) -> None:
        """Nothing of it tells this text from now on."""
        if value not in self.secrets:
            self.admission = replace(self.admission, secrets=(*self.secrets, value), is_plain=False, is_light=False)

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
    def output(self) -> CallOutput:
        """What it tells its readers."""
        parts = self._parts()
        if parts.output is None:
            parts.output = CallOutput(self)
        return parts.output

    # How its body runs

    async def execute(self) -> Result | None:
        """Runs the body from its start; its result, or None where it has to wait."""
        stop, request = self.stop_request, self.admission.request
        if stop is not None:
            return Result(failure=stop.failure, metadata=stop.metadata or {})
        run, state, pipeline = request.options.run, request.session.state, request.session.pipeline
        base = state.snapshot(run) if run is not None and state.has_runs else state.now
        if self.began is None:  # it only reads, and nothing of it is written yet
            self.began = Pass(pipeline.clock.now(), base)
        else:
            self.began.base = base
        self.in_body = True
        try:
            value = await self._run_body(pipeline)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like are only a failed tool
            return self._raised(error)
        finally:
            self.in_body = False
            if self.stop_request is not None:
                await self._calm()
        if self.stop_request is not None or self.open_question is not None or self.ownership is not None:
            return self._interrupted(value)
        return self.converted(value)

    def _run_body(self, pipeline: Pipeline) -> Awaitable[Any]:
        call = self.admission
        assert type(call) is Admitted and call.tool.run is not None
        tool, layer = call.tool, pipeline.layer
        if tool.direct is not None and layer is None:
            return tool.direct(**call.parsed.values)  # type: ignore[no-any-return]
        context = self.context() if tool.context or layer is not None else None
        if layer is not None:
            return layer(context, lambda: run_body(self, tool, context))
        if tool.mode == "async" and tool.limits.idle_timeout is None:
            return tool.run(context, call.parsed.values)  # type: ignore[no-any-return,misc]
        return run_body(self, tool, context)

    def converted(self, value: Any) -> Result:
        """What a body gave back as a result. Plain data becomes one here, everything else in `outcome`."""
        tool, limits = self.admission.tool, self.admission.request.session.pipeline.limits
        assert tool is not None
        if type(value) not in _PLAIN:
            return self._converted(lambda: to_result(self, value))
        try:
            json = to_json(value, inf_nan_mode="null")
            data = read_json(json)
            fits = tool.check_output is None or tool.check_output(data) is None
        except BaseException as error:  # noqa: BLE001 - a value may raise whatever it likes when it is looked at
            return unwritable(self, error)
        if not fits or len(json) > (tool.limits.output_bytes or limits.output_bytes):
            return self._converted(lambda: checked(self, json, Result()))
        return Result(data, encoded=json)

    def _converted(self, convert: Callable[[], Result]) -> Result:
        try:
            return convert()
        except BaseException as error:  # noqa: BLE001 - see above
            return Result(failure=self.unexpected(error))

    def _interrupted(self, value: Any) -> Result | None:
        """What comes of a body that came to its end. If it was stopped or has asked, what it returned is not used."""
        if self.stop_request is not None or self.cut:
            return self.stopped()
        return None if self.open_question is not None else self.converted(value)

    def _raised(self, error: BaseException) -> Result | None:
        """What comes of a body that did not come to its end."""
        if isinstance(error, asyncio.CancelledError):
            return self._cancelled(error)
        if isinstance(error, Stopped):
            return self.stopped()
        failure = None if isinstance(error, Parked | ToolFailure) else self.unexpected(error)
        if self.stop_request is not None or self.cut:
            return self.stopped()
        if self.open_question is not None or isinstance(error, Parked):
            return None
        return self._on_purpose(error) if isinstance(error, ToolFailure) else Result(failure=failure)

    def _cancelled(self, error: asyncio.CancelledError) -> Result:
        if self.stop_request is not None:
            return self.stopped()
        if self.task is not None and self.task.cancelling():
            raise error  # the loop is being shut down: what was running is left to recovery
        return Result(failure=self.unexpected(RuntimeError("the tool cancelled itself")))

    def _on_purpose(self, error: ToolFailure) -> Result:
        if isinstance(error, StreamClosed) and self.tool is not None and self.tool.does == "once":
            return Result(failure=self.failure("unknown", "Stream closed before it finished; it may have run"))
        return on_purpose(self, error, error.metadata)

    def stopped(self) -> Result:
        """The result of a call that was stopped."""
        if self.stop_request is None:
            return Result(failure=self.failure("cancelled", "Cancelled"))
        return Result(failure=self.stop_request.failure, metadata=self.stop_request.metadata or {})

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
        self.began, self.row = Pass(at), row or self.row

    def pause(self, task: asyncio.Task[None]) -> None:
        """Its task is paused for the first time."""
        ties = self.ties = self.ties or Ties()
        ties.task = task

    def conclude(self) -> None:
        """Its end, or its question, is about to be written: nothing of the body counts from now on."""
        if self.body is not None and self.body.output is not None:
            self.body.output.flush()
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
        """Ask the call and its children to stop; return False if it is ending already."""
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

    def interrupt(self) -> None:
        """Cancels the body, which then has a while to clean up."""
        assert self.task is not None
        self.task.cancel()
        self._later(self.pipeline.limits.cleanup_s, lambda: self.pipeline.abandon(self))

    def end(self, result: Result | None = None) -> None:
        """Lets go of timers and wakes whoever waits for it, who finds the result where there is one."""
        self.result = result or self.result
        self.phase = "finished"
        if self.body is not None and self.body.output is not None:
            self.body.output.hush()
        if self.ties is not None:
            self._untie(self.ties)
        has_caller = self.row is None and self.result is not None and self.caller.parent is None  # who has the result
        if not (self.admission.is_plain or has_caller) or self.caller.on_end is not None:
            self._tell_end()

    def _untie(self, ties: Ties) -> None:
        if ties.timer is not None:
            ties.timer.cancel()
        for waiter in ties.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tell_end(self) -> None:
        """Tells the call that made it, the engine that brought it, and agents who may go on with it."""
        if self.caller.parent is not None:
            self.caller.parent.children.discard(self)
        if self.caller.on_end is not None:
            self.caller.on_end(self)
        at_once = self.row is None and self.result is not None  # whoever called has the result
        agents = self.session.crib.agents
        if agents is not None and not at_once and not self.admission.is_plain and (self.run or self.background):
            agents.news(self.session, self)

    async def ended(self, waiter: asyncio.Future[None] | None = None) -> None:
        """Returns when this process is through with it: done or parked. Who brings a waiter may set it before."""
        if self.phase != "finished":
            if waiter is None:
                waiter = self.admission.request.session.pipeline.loop.create_future()
            ties = self.ties = self.ties or Ties()
            ties.waiters.add(waiter)
            await waiter


def host_of(ctx: Context) -> CallHost:
    """Return what stands behind a context, for the parts of the runtime that run calls themselves."""
    assert isinstance(ctx._host, CallHost)
    return ctx._host


def call_behind(ctx: Context) -> LiveCall:
    """Return the call that a context belongs to, for the same."""
    return host_of(ctx).live

"""The life of a call: it is admitted, executed, recorded, delivered.

A call that `admission` rejects never runs. Whatever happens, an accepted call gets exactly one `done`.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from toolcrib._call import approvals, lifecycle, questions, schedules, suspension
from toolcrib._call.admission import Admission, confirm
from toolcrib._call.bodies import run_body
from toolcrib._call.cancellation import end_children
from toolcrib._call.checks import CheckHost
from toolcrib._call.failures import failure_of, trace, traced, unexpected
from toolcrib._call.fence import NOBODY, Caller
from toolcrib._call.history import question
from toolcrib._call.live_call import LiveCall
from toolcrib._call.outcome import conflicting, on_purpose, presentable, to_result
from toolcrib._call.owner_turns import LoopTurns, OwnerTurns
from toolcrib._call.remote import Engine, goes_elsewhere, version_of
from toolcrib._call.request import Admitted, CallRequest, Rejected
from toolcrib._call.scheduler import Clock, Scheduler, Starter
from toolcrib._call.suspension import child_ended, pause
from toolcrib._call.waiting_calls import WaitingCalls
from toolcrib.catalog import Catalog
from toolcrib.context import Context, Deps, Parked, Stopped
from toolcrib.errors import StoreUnavailable, StreamClosed, ToolFailure
from toolcrib.events import Done, Settled
from toolcrib.policy import Policy
from toolcrib.store import Conflict, Draft, Row, Store, Write, draft
from toolcrib.store.codec import LARGE
from toolcrib.store.vault import Vault
from toolcrib.tool import Tool
from toolcrib.types import NO_EXTRAS, Credentials, CribLimits, Failure, Layer, Result

if TYPE_CHECKING:
    from toolcrib.accounts import Accounts

RETRY_S = 1.0
QUIET = 30
"""Attempts to record a call of which one is told."""

CONFLICT_RETRIES = 3
STATE_RETRIES = 3
"""How often changes of the state are tried again although nobody else has changed it."""

COMMITS = 32
"""Commits of one owner that are under way at once at the most, times their weight, while others have some too."""

QUEUED = "wait for some of them to end before you make more"
WAITING = "have some of them answered or cancelled before you make more"
VERIFY = "compare them with `toolcrib store verify`"


class Pipeline:
    """What all calls of a crib share."""

    def __init__(self, catalog: Catalog, store: Store, policy: Policy, limits: CribLimits, clock: Clock) -> None:
        self.catalog = catalog
        self.store = store
        self.policy = policy
        self.limits = limits
        self.clock = clock
        self.admission = Admission(catalog, store, policy, limits, clock)
        self.scheduler = Scheduler(limits, clock)
        self.deps = Deps()
        self.layer: Layer | None = None
        self.credentials: Credentials | None = None
        self.accounts: Accounts | None = None
        self.vault = Vault(lambda: self.store)
        self.observer: Callable[[LiveCall], None] | None = None
        self.engine: Engine | None = None
        self.revision: Callable[[str], Awaitable[int]] | None = None
        self.lapsed: Callable[[float], bool] | None = None
        self.worker = f"w-{secrets.token_hex(8)}"
        self.new_id = map(f"c{secrets.token_hex(6)}{{:x}}".format, itertools.count(1)).__next__
        """Gives a new id for a call."""
        self.refused_after_done = 0
        self.stopping = self.starting = False
        self._unwritten: dict[str, set[str]] = {}  # by the id of a call: those that it made and whose ends come later
        self.loop: asyncio.AbstractEventLoop
        self.thread = 0
        self.threads: Executor | None = None
        self.expiry_changed: Callable[[float], None] = lambda when: None
        self.waiting: WaitingCalls | None = None
        self.turns: OwnerTurns | None = None
        self.rounds: LoopTurns | None = None
        self._bound_owners()
        self._tasks: set[asyncio.Task[None]] = set()
        self.adrift: WeakSet[asyncio.Task[None]] = WeakSet()

    def share(self) -> None:
        """Has owners share the seats, and bounds what is queued and waits for each."""
        self.scheduler.share()
        self._bound_owners()

    def _bound_owners(self) -> None:
        if self.scheduler.shared:
            if self.store.url != "memory:":  # there a commit is done at once
                self.turns = OwnerTurns(COMMITS, self.limits.weights)
            self.rounds = LoopTurns(self.limits.weights, self.turns)
        most = self.scheduler.most_waiting
        self.waiting = None if most is None else WaitingCalls(self.store, most, self.clock)

    def attach(self, threads: Executor) -> None:
        """Binds it to the running loop, and to what its store can tell."""
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.threads = threads
        self.starter = Starter(self.loop)
        self.revision = self.store.revision
        self.lapsed = self.store.lapsed

    async def accept(self, request: CallRequest, caller: Caller = NOBODY) -> LiveCall:
        """Takes a new call through its admission; then it runs, queues, or waits for somebody."""
        admission = await self._admit(request)
        live = LiveCall(admission, caller) if caller.parent is None else LiveCall.child(admission, caller)
        if type(admission) is Rejected:  # `isinstance` takes four times as long for a Struct
            result = Result(failure=admission.failure, metadata=admission.metadata)
            await self._see_through(live, self.conclude(live, result))
        elif admission.verdict.effect == "ask":
            await self._see_through(live, self.park(live, confirm(admission)))
        elif admission.tool.run is None:
            await self._see_through(live, self.park(live, questions.client(live)))
        elif self.engine is not None and goes_elsewhere(live):
            await self._see_through(live, self._hand_over(live, self.engine))
        elif live.durable:
            await self._see_through(live, self._take_durably(live))
        elif self.revision is not None and await self._catch_up(live) and (gone := self._gone(request)) is not None:
            await self._see_through(live, self.conclude(live, Result(failure=gone)))
        elif self.scheduler.enter(live):
            self.start(live)
        else:
            request.session.live[request.id] = live
            self._put_first(live, lifecycle.new_row(live, "queued"), [lifecycle.accepted(live)])
        return live

    async def _admit(self, request: CallRequest) -> Admitted | Rejected:
        """Takes a request through the stages; a session may close meanwhile."""
        gone = self._gone(request)
        if gone is None:
            admission = await self.admission.admit(request, self.check_context, new=True)
            gone = None if type(admission) is Rejected else self._gone(request)
        return admission if gone is None else Rejected(request, gone, request.arguments)

    def check_context(self, request: CallRequest, tool: Tool, seconds: float, secrets: list[str]) -> Context:
        """The context of a tool's own checks."""
        deadline = self.clock.now() + seconds
        return Context(CheckHost(request, tool, deadline, secrets, self.deps, self.credentials, self.accounts))

    async def _see_through(self, live: LiveCall, work: Coroutine[Any, Any, None]) -> None:
        """Does what accepts a call even if the caller goes away in the middle."""
        task = self.starter.start(self._or_release(live, work))
        if task is not None:
            await asyncio.shield(task)

    async def _or_release(self, live: LiveCall, work: Coroutine[Any, Any, None]) -> None:
        """Nothing is left of a call whose work failed, and nobody waits for it in vain."""
        try:
            await work
        except BaseException:
            self.release(live)
            raise

    def _gone(self, request: CallRequest) -> Failure | None:
        """A session that closes takes no more calls, except those that what still runs has to make."""
        session = request.session
        if not (self.stopping or session.closing or session.shut or self.scheduler.queued):
            return None
        return None if request.origin.parent is not None else self._refusal(request)

    def _refusal(self, request: CallRequest) -> Failure | None:
        session = request.session
        if self.stopping:
            return failure_of(None, "unavailable", "The crib is closing")
        if session.closing:
            return failure_of(None, "unavailable", "Session is closing")
        if session.shut:
            return self._closed()
        many = self.scheduler.crowded(session.owner)
        if many is None:
            return None
        return failure_of(None, "rate_limited", f"{many} calls of yours are queued already", hint=QUEUED)

    def _closed(self) -> Failure:
        return failure_of(None, "unavailable", "Session is closed", retryable=False, hint="open it again first")

    async def _shut_out(self, live: LiveCall, conflict: Conflict | None) -> bool:
        """Ends a call whose session another process closed meanwhile; whether it did."""
        if conflict is None or not conflict.closed or conflict.row is not None:
            return False
        live.session.shut = True
        failure = self._closed()
        live.shut_out(failure)
        await self.conclude(live, Result(failure=failure))
        return True

    # 5. execute

    async def _take_durably(self, live: LiveCall) -> None:
        """A call that is acknowledged is in the store before; a key that was used finds its first call."""
        live.session.live[live.id] = live
        row = lifecycle.new_row(live, "queued")
        conflict = await self._commit(live, live.accepted(row, [lifecycle.accepted(live)]))
        if await self._shut_out(live, conflict):
            return
        live.stand(row if conflict is None else _standing(conflict))
        if conflict is not None:
            self.release(live)
        elif live.stop_request is not None:
            await self.conclude(live, self._stopped(live))
        elif self.scheduler.enter(live):
            self.start(live)

    async def _hand_over(self, live: LiveCall, engine: Engine) -> None:
        """Any node may run it: all that it takes is in the store before one is told."""
        row = lifecycle.new_row(live, "queued")
        row.worker = None
        write = live.accepted(row, [lifecycle.accepted(live, **version_of(live))])
        conflict = await live.session._awaited.submit(live, write)
        if await self._shut_out(live, conflict):
            return
        live.stand(row if conflict is None else _standing(conflict))
        self.release(live)
        if conflict is None:
            engine.dispatch(row)

    def start(self, live: LiveCall) -> None:
        """Runs it in a task of its own, at once up to its first pause."""
        task = self.starter.start(self._perform(live))
        if task is None:
            return
        live.pause(task)
        live.session.live[live.id] = live
        if not live.concluding:
            self.begin_behind(live)
        self.scheduler.watch(live)
        if live.stop_request is not None and live.in_body:
            live.interrupt()

    async def _perform(self, live: LiveCall) -> None:
        """Claims, executes, records. Nothing that a tool does escapes from here."""
        try:
            if live.stop_request is not None:
                await self.conclude(live, self._stopped(live))
            elif (self.revision is None or live.row is None or await self._catch_up(live)) and (
                self._needs_no_claim(live) or await self.claim(live)
            ):
                result = await self.execute(live)
                if result is None:
                    await self.park(live, live.asked or {})
                elif live.row is not None or not self._over_at_once(live, result):
                    await self.conclude(live, result)
        except StoreUnavailable as error:
            live.fail_untaken(error)
        except Exception as error:  # noqa: BLE001 - a fault of our own ends this call alone
            await self._end_of_fault(live, error)
        except asyncio.CancelledError:
            self.release(live)  # cut off on the way to the store: whoever waits for it looks there
            raise
        finally:
            if not live.finished and (not live.concluding or live.result is not None):
                self.release(live)

    async def _end_of_fault(self, live: LiveCall, error: Exception) -> None:
        """What could not be written as it is ends as `internal`, even where the first try had already begun."""
        outcome = Result(failure=self.unexpected(live, error))
        live.reopen()
        try:
            await self.conclude(live, outcome)
        except Exception as again:  # noqa: BLE001 - the caller at least is told
            self.note(live, again)
            live.deliver(outcome)

    async def _catch_up(self, live: LiveCall) -> bool:
        """Before a body sees the state: what other nodes changed is read first, as of the moment of the call."""
        tool, session = live.tool, live.session
        assert tool is not None and self.revision is not None
        if live.taken or not (tool.context or tool.does != "read"):
            return True
        try:
            if await self.revision(live.session_id) > session.state.revision:
                await session._reload_state()
        except StoreUnavailable:
            if live.row is None:
                raise  # nothing of it was accepted
        return True

    async def claim(self, live: LiveCall) -> bool:
        """Makes this process the one that runs it; durably first, unless it may run again and nobody was told of it."""
        old = live.row
        live.start(self.clock.now())
        if old is None:
            write = live.accepted(lifecycle.new_row(live, "running", 1), lifecycle.begun(live))
        else:
            events = [lifecycle.started(live, old.attempt + 1)] if live.announce else []
            write = lifecycle.claim(old, self.worker, events)
        row = write.row
        assert row is not None
        if row.effect != "once" and live.history is None and not live.durable:
            self.store.put(write)
            live.stand(row)
            return True
        write.first = row.effect == "once" or live.history is not None
        # One that a call made has its parent's place: both would wait for each other.
        write.bounded = live.taken and live.parent_id is None
        write.serial = live.taken and live.bound is not None and live.bound.serial
        live.stand(row)
        conflict = await self.durably(live, write)
        if old is not None:
            return conflict is None and await self._refresh_history(live, old)
        return conflict is None or not (await self._shut_out(live, conflict) or conflict)

    async def _refresh_history(self, live: LiveCall, old: Row) -> bool:
        """Reads a call again that was taken over: its last process may have recorded steps until then. Returns True."""
        if old.state != "running" or live.history is None:
            return True
        assert live.row is not None
        while not live.halted:
            try:
                live.recall(await live.session.history(live.row))
                break
            except StoreUnavailable as error:
                if self.stopping:
                    raise
                trace.error("call %s cannot be read yet: %s", live.id, error)
                await asyncio.sleep(RETRY_S)
        return True

    def _needs_no_claim(self, live: LiveCall) -> bool:
        """A new call that only reads writes nothing before it runs: after a kill it never happened."""
        if live.row is not None or live.admission.tool.does != "read":  # type: ignore[union-attr]
            return False
        live.start(self.clock.now())
        return True

    def begin_behind(self, live: LiveCall) -> None:
        """Writes that a read call was accepted and started, once it turns out not to be over at once."""
        if live.row is None:
            self._put_first(live, lifecycle.new_row(live, "running", 1), lifecycle.begun(live))

    def _put_first(self, live: LiveCall, row: Row, events: list[Draft]) -> None:
        self.store.put(live.accepted(row, events))
        live.stand(row)

    async def execute(self, live: LiveCall) -> Result | None:
        """Runs the body from its start; its result, or None where it has to wait."""
        if (stop := live.stop_request) is not None:
            return Result(failure=stop.failure, metadata=stop.metadata)
        request = live.admission.request
        run, state = request.options.run, request.session.state
        live.enter(state.now if run is None else state.snapshot(run))
        try:
            value = await self._body(live)
        except Parked:
            return self._broken_off(live)
        except ToolFailure as error:
            return self._broken_off(live) if live.broken_off else self._on_purpose(live, error)
        except Stopped:
            return self._stopped(live)
        except asyncio.CancelledError:
            if live.stop_request is None and live.task is not None and live.task.cancelling():
                raise  # the loop is being shut down: what was running is left to recovery
            if live.stop_request is None:
                return Result(failure=self.unexpected(live, RuntimeError("the tool cancelled itself")))
            return self._stopped(live)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like are only a failed tool
            failure = self.unexpected(live, error)
            return self._broken_off(live) if live.broken_off else Result(failure=failure)
        finally:
            live.leave()
            if live.stop_request is not None:
                await live.calm()
        return self._broken_off(live) if live.broken_off else self.converted(live, value)

    def converted(self, live: LiveCall, value: Any) -> Result:
        """What a body gave back as a result; it may raise whatever it likes when it is looked at."""
        try:
            return to_result(live, value)
        except BaseException as error:  # noqa: BLE001 - see above
            return Result(failure=self.unexpected(live, error))

    def _body(self, live: LiveCall) -> Awaitable[Any]:
        call = live.admission
        assert type(call) is Admitted and call.tool.run is not None
        tool = call.tool
        if tool.direct is not None and self.layer is None:
            return tool.direct(**call.parsed.values)  # type: ignore[no-any-return]
        context = live.context() if tool.context or self.layer is not None else None
        if self.layer is not None:
            return self.layer(context, lambda: run_body(live, tool, context))
        if tool.mode == "async" and tool.limits.idle_timeout is None:
            return tool.run(context, call.parsed.values)  # type: ignore[no-any-return,misc]
        return run_body(live, tool, context)

    def _on_purpose(self, live: LiveCall, error: ToolFailure) -> Result:
        if isinstance(error, StreamClosed) and live.tool is not None and live.tool.does == "once":
            return Result(failure=live.failure("unknown", "Stream closed before it finished; it may have run"))
        return on_purpose(live, error, error.metadata)

    def _broken_off(self, live: LiveCall) -> Result | None:
        """What comes of a pass that was stopped, or asked, whatever the body made of that."""
        return self._stopped(live) if live.stop_request is not None or live.cut else None

    def _stopped(self, live: LiveCall) -> Result:
        if live.stop_request is None:
            return Result(failure=live.failure("cancelled", "Cancelled"))
        return Result(failure=live.stop_request.failure, metadata=live.stop_request.metadata)

    def unexpected(self, live: LiveCall, error: BaseException) -> Failure:
        """The failure of an exception that nobody meant: its text goes to the trace alone."""
        name = live.name if live.tool is None else live.tool.name
        return unexpected(error, name, live.tool_id or live.name, live.id, live.secrets)

    def note(self, live: LiveCall, error: BaseException) -> str:
        """Writes what went wrong to the trace; the id under which it is found."""
        return traced(error, live.tool_id or live.name, live.id, live.secrets)

    # 6. record

    async def conclude(self, live: LiveCall, result: Result) -> None:
        """Writes the one `done` of a call; the second of two that try does nothing."""
        if live.ties is not None and live.ties.children and live.stop_request is not None:
            await end_children(live)
        if live.phase != "open":
            return
        if live.fenced and live.given_away:
            self.release(live)
            return
        live.flush()
        live.conclude()
        if self.rounds is not None and live.task is not None and live.row is not None and live.row.effect == "read":
            await self._step(live)
        result = self._shown(live, result)
        result = await schedules.with_planned(live, result) if result.extras.schedules else result
        for id, data in live.attached:
            await self.store.keep(live.session_id, id, data)
        if result.changes:
            recorded = await self._record_with_state(live, result)
            if recorded is None:
                await self._once_more(live)
                return
            result = recorded
        elif (conflict := await self._record(live, result)) is not None:
            await self._too_late(live, result, conflict)
            return
        live.deliver(result if result.extras is NO_EXTRAS else schedules.announced(live, result))
        if result.failure is not None or live.session.loops is not None or live.by.kind == "agent":
            live.session._remember_outcome(live, result)
        self.release(live)

    def _shown(self, live: LiveCall, result: Result) -> Result:
        """The result as its caller and the log are to have it."""
        if live.desk is not None:
            result = live.desk.finished(live, result)
        if live.edited or live.secrets:
            result = presentable(live, result)
        if live.by.kind == "agent" and live.session.loops is not None:
            result = live.session.loops.warned(live, result)
        return result

    async def _too_late(self, live: LiveCall, result: Result, conflict: Conflict) -> None:
        """What the log says is what the caller gets; but who really ran a call that was given up as `unknown` knows."""
        row = _standing(conflict)
        live.stand(row)
        if row is not None and row.code == "unknown" and row.worker == self.worker and live.id == row.id:
            code = None if result.failure is None else result.failure.code
            now = self.clock.now()
            settled = draft(now, live.id, lifecycle.done(live, result, now, of=Settled))
            await self.durably(live, lifecycle.settle(row, code, [settled]))
        self.release(live)

    async def _step(self, live: LiveCall) -> None:
        """Returns when a call that paused may end: many that wake up at once would hold up others."""
        assert self.rounds is not None
        if (turn := self.rounds.take(live.session.owner)) is not None:
            await turn

    def _over_at_once(self, live: LiveCall, result: Result) -> bool:
        """The common case, in one small write behind: a plain call that read, never paused and succeeded."""
        call = live.admission
        if (
            type(call) is not Admitted
            or len(call.parsed.json) > LARGE
            or (live.caller.durable if call.is_plain else _has_marks(live, call))
            or self.store.behind
            or result.failure is not None
            or result.content
            or result.metadata
            or result.changes
            or result.extras is not NO_EXTRAS
            or result.handover is not None
            or len(json := result.json) > LARGE
        ):
            return False
        if live.body is not None:
            live.flush()
        request = call.request
        if live.row is not None or request.session.loops is not None or request.options.by.kind == "agent":
            return False  # what was just flushed began it
        now = self.clock.now()
        write = lifecycle.accept(lifecycle.new_row(live, "done", 1), lifecycle.quick(live, json, now))
        live.conclude()
        if live.caller.maker is not None:
            live.on_behalf(write, live.caller.maker)
        self.store.put(write)
        live.deliver(result)
        self.release(live)
        return True

    async def _record(self, live: LiveCall, result: Result) -> Conflict | None:
        write = self._done(live, result, lifecycle.done(live, result, self.clock.now()))
        if live.durable or live.tool is None or live.tool.does != "read" or self._waits_its_turn(live):
            return await self.durably(live, write)
        return self.store.put(write)

    def _waits_its_turn(self, live: LiveCall) -> bool:
        """True if even the end of a call that only read is waited for: the writer has enough, or others need it too."""
        return self.store.behind or (self.turns is not None and self.turns.contended(live.session.owner))

    async def _once_more(self, live: LiveCall) -> None:
        """Runs the body again, on the state of now: its changes came too late. One that ended elsewhere does not."""
        if live.finished:
            return
        self.begin_behind(live)  # so that the next run is another attempt
        live.again()
        if await self.claim(live):
            result = await self.execute(live)
            await (self.park(live, live.asked or {}) if result is None else self.conclude(live, result))

    async def _record_with_state(self, live: LiveCall, result: Result) -> Result | None:
        """State changes are committed with the `done`, all or none; a conflict keeps the data and changes nothing.

        None where the tool wants to run again then, never one with effect `once`; and where the call ended elsewhere.
        """
        session, base = live.session, live.snapshot().revision
        known = session.state.revision
        stuck = 0
        while stuck < STATE_RETRIES and live.late_stop is None:
            problem = session.state.check(result.changes, base, live.run)
            if problem is not None:
                if problem.problem == "conflict" and self._may_retry(live):
                    return None
                return await self._without_state(live, conflicting(live, result, problem, base))
            commit = session.state.record(result.changes, base, live.run)
            row = live.row
            write = self._done(live, result, lifecycle.done(live, result, self.clock.now(), commit))
            write.revision = (commit.revision - 1, commit.revision)
            conflict = await self.durably(live, write)
            if conflict is None:
                session._changed_state(commit, live.id)
                return result
            if conflict.row is not None:
                await self._too_late(live, result, conflict)
                return None
            live.stand(row)
            await self._reload_state(live)
            stuck, known = stuck + 1 if session.state.revision == known else 0, session.state.revision
        return await self._without_state(live, self._unsaved(live, result))

    async def _reload_state(self, live: LiveCall) -> None:
        """Takes in what others changed as soon as the store can; a call that has run is not let go before its end."""
        while live.late_stop is None:
            try:
                await live.session._reload_state()
                return
            except StoreUnavailable as error:
                if self.stopping:
                    raise
                trace.error("call %s cannot be recorded yet: %s", live.id, error)
                await asyncio.sleep(RETRY_S)

    async def _without_state(self, live: LiveCall, result: Result) -> Result | None:
        """Records the end of a call whose changes are not committed; None where it ended elsewhere."""
        conflict = await self._record(live, result)
        if conflict is None:
            return result
        await self._too_late(live, result, conflict)
        return None

    def _unsaved(self, live: LiveCall, result: Result) -> Result:
        """The end of a call that was stopped before its changes could be committed, or whose state takes none."""
        failure = live.late_stop
        if failure is None:
            failure = live.failure("unavailable", "The store and the log disagree about the state", hint=VERIFY)
        live.give_in(failure)
        metadata: dict[str, Any] = {**result.metadata, "unsaved": result.data}
        if live.tool is not None and live.tool.does == "once":
            metadata["may_have_run"] = True
        return Result(failure=failure, metadata=metadata)

    def _may_retry(self, live: LiveCall) -> bool:
        tool = live.tool
        assert tool is not None
        return tool.on_conflict == "retry" and tool.does != "once" and live.retries < CONFLICT_RETRIES

    def _done(self, live: LiveCall, result: Result, data: Done) -> Write:
        """The last write of a call, with whatever was not written before."""
        code = None if result.failure is None else result.failure.code
        now = self.clock.now()
        if live.row is not None:
            write = lifecycle.finish(live.row, code, lifecycle.ending(live, result, now, data))
        else:
            row = lifecycle.new_row(live, "done", 1 if live.started_at else 0)
            row.code = code
            events = [lifecycle.accepted(live)]
            if live.started_at:
                events.append(lifecycle.started(live, 1))
            events += lifecycle.ending(live, result, now, data)
            write = live.accepted(row, events)
        if not live.admission.is_plain or live.history is not None:
            write.forgets = live.forgets
        if result.extras.planned:
            schedules.add(write, result.extras.planned)
        live.stand(write.row)
        return write

    async def durably(self, live: LiveCall, write: Write) -> Conflict | None:
        """What has happened is written as soon as the store can; a call that never ran may fail instead."""
        attempt = 0
        while True:
            try:
                if live.id in self._unwritten:
                    raise StoreUnavailable("The end of a call that it made is not written yet")
                return await (self.store.commit(write) if self.turns is None else self._commit(live, write))
            except StoreUnavailable as error:
                if write.expect is None or self.stopping or self._begins(live, write):
                    raise
                if attempt % QUIET == 0:
                    trace.error("call %s cannot be recorded yet: %s", live.id, error)
                if live.halted or live.late_stop is not None:
                    self._write_later(live, write)  # its caller is told before
                    raise
                attempt += 1
                await asyncio.sleep(RETRY_S)

    def _begins(self, live: LiveCall, write: Write) -> bool:
        """True if the crib starts and writes this for it: then it fails. What a body has done already is kept."""
        assert write.row is not None and write.expect is not None
        return self.starting and (live.id not in live.session.live or write.row.attempt != write.expect[1])

    def _write_later(self, live: LiveCall, write: Write) -> None:
        """Leaves the end of a stopped call to a task of its own. The call that made it ends after it."""
        row = write.row
        assert row is not None
        parent = None if row.background else row.parent
        if parent is not None:
            self._unwritten.setdefault(parent, set()).add(live.id)
        self.aside(self._durably_later(live, write)).add_done_callback(lambda _: self._written(parent, live.id))

    def _written(self, parent: str | None, child: str) -> None:
        if parent is not None and (children := self._unwritten.get(parent)) is not None:
            children.discard(child)
            if not children:
                del self._unwritten[parent]

    async def _commit(self, live: LiveCall, write: Write) -> Conflict | None:
        """Commits in turns of the owners, where they share the crib."""
        owner, turns = live.session.owner, self.turns
        if turns is None:
            return await self.store.commit(write)
        await turns.enter(owner, more=write.first)  # what starts durably may end at once
        try:
            return await self.store.commit(write)
        finally:
            turns.leave(owner, more=write.first)

    async def _durably_later(self, live: LiveCall, write: Write) -> None:
        """Ends a stopped call when the store is back, unless the crib ends before: then recovery finds it.

        Where its end was not being written yet, or was refused, it ends on the row that stands, while that is ours.
        """
        assert write.row is not None and write.expect is not None
        state, attempt = write.expect
        standing = write.row.but(state=state, attempt=attempt)
        if write.row.state != "done":
            write = self._end(live, standing)
        while not self.stopping:
            await asyncio.sleep(RETRY_S)
            if live.id in self._unwritten:
                continue
            try:
                conflict = await self.store.commit(write)
            except StoreUnavailable as error:
                trace.error("call %s cannot be recorded yet: %s", live.id, error)
                continue
            if conflict is None or conflict.fenced:
                return
            standing = conflict.row or standing  # none stands in its way where only the state has moved
            if standing.state == "done" or standing.worker != self.worker:
                return
            write = self._end(live, standing)

    def retract(self, live: LiveCall, row: Row) -> Write | None:
        """The end of a new call that was refused, and that the store has all the same: it never runs."""
        if row.state == "done":
            return None
        failure = live.failure("unavailable", "The store did not answer in time; the call was not begun")
        write = self._end(live, row, Result(failure=failure, metadata={"retracted": True}))
        write.frees_key = row.key is not None
        return write

    def _end(self, live: LiveCall, row: Row, result: Result | None = None) -> Write:
        """The end of a call that was stopped, on the row that stands."""
        now, result = self.clock.now(), result or self._stopped(live)
        assert result.failure is not None
        write = lifecycle.finish(row, result.failure.code, [draft(now, live.id, lifecycle.done(live, result, now))])
        write.forgets = live.forgets
        return write

    # 7. deliver

    def release(self, live: LiveCall) -> None:
        """This process is through with it: its seat is free, and whoever waits for it goes on."""
        if live.phase == "finished":
            return
        live.end()
        request = live.admission.request
        session, parent = request.session, request.origin.parent
        session.live.pop(request.id, None)
        self.scheduler.leave(live)
        if self.observer is not None and live.result is not None:
            self.observer(live)
        if parent is not None and live.result is not None and parent not in session.live and not self.stopping:
            self.aside(child_ended(session, parent))

    def give_up(self, live: LiveCall) -> None:
        """Ends a call that was stopped, without a word from its body."""
        self.aside(self._or_release(live, self.conclude(live, self._stopped(live))))

    def abandon(self, live: LiveCall) -> None:
        """Its body has not ended in the time it had to clean up: the call ends without it."""
        if not live.finished and not live.concluding:
            if live.task is not None:
                live.task.cancel()
                self.adrift.add(live.task)
            self.give_up(live)

    def later(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], None]:
        """Something to call that goes on with work for which nobody waits any more."""

        async def go_on() -> None:
            await work()

        def begin() -> None:
            self.aside(go_on())

        return begin

    def aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that nobody waits for."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Waiting

    async def park(self, live: LiveCall, asked: Mapping[str, Any]) -> None:
        """Writes the question and lets the call go; nothing of it stays in memory."""
        if live.halted:
            await self.conclude(live, self._stopped(live))
            return
        if live.behind is not None:
            await pause(live, live.behind)
            return
        if self.waiting is not None and await self.waiting.is_full(live.session.owner):
            await self._refuse_to_wait(live, self.waiting.most)
            return
        live.flush()
        now = self.clock.now()
        data = questions.waiting(live, asked, now)
        command = await suspension.command_of(live, asked)
        if command is not None and command.failure is not None:
            await self.conclude(live, command)
            return
        live.conclude()
        asked_id, expires = data.question.id, data.question.expires_at
        if data.question.demands:
            expires = approvals.escalates_at(question(data.question)) or expires
        if live.row is not None:
            write = lifecycle.suspend(live.row, asked_id, expires, [draft(now, live.id, data)])
        else:
            row = lifecycle.new_row(live, "waiting", 1 if live.started_at else 0)
            row.question, row.expires_at = asked_id, expires
            begun = [lifecycle.started(live, 1)] if live.started_at else []
            write = live.accepted(row, [lifecycle.accepted(live), *begun, draft(now, live.id, data)])
        conflict = await (
            self.durably(live, write) if command is None else suspension.commit_with(live, write, data, command)
        )
        if await self._shut_out(live, conflict):
            return
        live.stand(write.row if conflict is None else _standing(conflict))
        self.expiry_changed(expires)
        self.release(live)

    async def _refuse_to_wait(self, live: LiveCall, most: int) -> None:
        """Ends a call that would have to wait for an answer, where too many calls of its owner do."""
        failure = live.failure("rate_limited", f"{most} calls of yours wait for answers already", hint=WAITING)
        await self.conclude(live, Result(failure=failure))

    async def end_parked(self, live: LiveCall, row: Row, result: Result, events: list[Draft]) -> bool:
        """Ends a call that nobody runs, in one write with the events that say why; False where it went on meanwhile."""
        if result.failure is None:
            result = self.converted(live, result)
        if live.edited or live.secrets:
            result = presentable(live, result)
        now = self.clock.now()
        code = None if result.failure is None else result.failure.code
        write = lifecycle.finish(row, code, [*events, draft(now, live.id, lifecycle.done(live, result, now))])
        for id, data in live.attached:
            await self.store.keep(live.session_id, id, data)
        live.conclude()
        write.forgets = live.forgets

        def ended() -> None:
            live.deliver(result)
            self.release(live)

        write.on_late = ended
        won = await self.store.commit(write) is None
        ended()
        return won


def _has_marks(live: LiveCall, call: Admitted) -> bool:
    """True if there is something special about a call that the log has to say."""
    return bool(call.marks() or call.label or call.secrets or live.durable)


def _standing(conflict: Conflict) -> Row | None:
    """The row of the call that stands; there is none where it was its maker who may not make it."""
    return None if conflict.fenced else conflict.row

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

from toolcrib._call import lifecycle, parked_calls, questions, remote, schedules
from toolcrib._call.admission import Admission
from toolcrib._call.call_facts import NOBODY, Caller
from toolcrib._call.cancellation import end_children
from toolcrib._call.checks import CheckHost
from toolcrib._call.clearances import cleared
from toolcrib._call.confirmation import confirm
from toolcrib._call.failures import failure_of
from toolcrib._call.late_writes import LateWrites
from toolcrib._call.live_call import LiveCall
from toolcrib._call.outcome import presentable
from toolcrib._call.owner_turns import LoopTurns, OwnerTurns
from toolcrib._call.reclaim import catch_up, claim_again
from toolcrib._call.remote import Engine, goes_elsewhere
from toolcrib._call.request import PLAIN, Admitted, CallRequest, Rejected
from toolcrib._call.scheduler import Clock, Scheduler, Starter
from toolcrib._call.spans import CallSpans
from toolcrib._call.state_commit import record_with_state
from toolcrib._call.suspension import child_ended
from toolcrib._call.waiting_calls import WaitingCalls
from toolcrib.catalog import Catalog
from toolcrib.context import Context, Deps
from toolcrib.errors import StoreUnavailable
from toolcrib.events import Settled, StateRecord
from toolcrib.policy import Policy
from toolcrib.store import Conflict, Draft, Row, SessionLook, Store, Write, draft
from toolcrib.store.codec import LARGE, CompactWrite
from toolcrib.store.vault import Vault
from toolcrib.telemetry import Telemetry
from toolcrib.tool import Tool
from toolcrib.types import Credentials, CribLimits, Failure, Layer, Result

if TYPE_CHECKING:
    from toolcrib.accounts import Accounts

COMMITS = 32
"""Commits of one owner that are under way at once at the most, times their weight, while others have some too."""

QUEUED = "wait for some of them to end before you make more"
UNWRITTEN = "The end of a call that it made is not written yet"


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
        self.observers: list[Callable[[LiveCall], None]] = []
        self.spans: CallSpans | None = None
        self.engine: Engine | None = None
        self.look: Callable[[str], Awaitable[SessionLook]] | None = None
        self.lapsed: Callable[[float], bool] | None = None
        self.worker = f"w-{secrets.token_hex(8)}"
        self.new_id = map(f"c{secrets.token_hex(6)}{{:x}}".format, itertools.count(1)).__next__
        """Gives a new id for a call."""
        self.refused_after_done = 0
        self.stopping = self.starting = False
        self.late = LateWrites(self)
        self.loop: asyncio.AbstractEventLoop
        self.thread = 0
        self.threads: Executor | None = None
        self.expiry_changed: Callable[[float], None] = lambda when: None
        self.waiting: WaitingCalls | None = None
        self.turns: OwnerTurns | None = None
        self.rounds: LoopTurns | None = None
        self._bound_owners()
        self._tasks: set[asyncio.Task[Any]] = set()
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

    def trace(self, telemetry: Telemetry | None) -> None:
        """Has calls traced and counted from now on, where a program has set up OpenTelemetry."""
        if telemetry is not None and self.spans is None:
            self.spans = CallSpans(telemetry)
            self.layer = self.spans.around(self.layer)
            self.observers.append(self.spans.ended)

    def attach(self, threads: Executor) -> None:
        """Binds it to the running loop, and to what its store can tell."""
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.threads = threads
        self.starter = Starter(self.loop)
        self.look = self.store.look
        self.lapsed = self.store.lapsed

    async def accept(self, request: CallRequest, caller: Caller = NOBODY) -> LiveCall:
        """Takes a new call through its admission; then it runs, queues, or waits for somebody."""
        request, session = request if self.spans is None else self.spans.stamped(request), request.session
        shut = session.closing or session.shut or self.stopping or self.scheduler.queued
        known = cleared(request, self.limits.arguments_bytes) if request.options is PLAIN and not shut else None
        admission = (self._turn_away(request) if shut else known) or await self._admit(request)
        live = LiveCall(admission, caller) if caller.parent is None else LiveCall.child(admission, caller)
        if type(admission) is Rejected:  # `isinstance` takes four times as long for a Struct
            result = Result(failure=admission.failure, metadata=admission.metadata or {})
            await self._see_through(live, self.conclude(live, result))
        elif admission.verdict.effect == "ask":
            await self._see_through(live, self.park(live, confirm(admission)))
        elif admission.tool.run is None:
            await self._see_through(live, self.park(live, questions.client(live)))
        elif (
            caller.durable or self.engine is not None or self.look is not None or not admission.is_light
        ) and await self._place(live):
            pass
        elif self.scheduler.enter(live):
            self.start(live)
        else:
            session.live[request.id] = live
            self._put_first(live, lifecycle.new_row(live, "queued"), [lifecycle.accepted(live)])
        return live

    async def _admit(self, request: CallRequest) -> Admitted | Rejected:
        """Takes a request through the stages; a session may close meanwhile."""
        session, admission = request.session, await self.admission.admit(request, self.check_context, new=True)
        closing = session.closing or session.shut or self.stopping or self.scheduler.queued
        return (closing and type(admission) is not Rejected and self._turn_away(request)) or admission

    async def _place(self, live: LiveCall) -> bool:
        """Does what has to be done before a call may run here; False where that is nothing, or is done."""
        if self.engine is not None and goes_elsewhere(live):
            await self._see_through(live, remote.hand_over(live, self.engine))
            return True
        if live.durable:
            await self._see_through(live, self._take_durably(live))
            return True
        if self.look is not None:
            await catch_up(self, live)
            if (gone := self._turn_away(live.request)) is not None:
                await self._see_through(live, self.conclude(live, Result(failure=gone.failure)))
                return True
        return False

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

    def _turn_away(self, request: CallRequest) -> Rejected | None:
        """A session that closes takes no more calls, except those that what still runs has to make."""
        session = request.session
        if not (session.closing or session.shut or self.stopping or self.scheduler.queued):
            return None
        failure = None if request.origin.parent is not None else self._refusal(request)
        return None if failure is None else Rejected(request, failure, request.arguments)

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

    async def shut_out(self, live: LiveCall, conflict: Conflict | None) -> bool:
        """End a call whose session another process has closed meanwhile; return True if one has."""
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
        conflict = await self.commit(live, live.accepted(row, [lifecycle.accepted(live)]))
        if await self.shut_out(live, conflict):
            return
        live.stand(row if conflict is None else lifecycle.standing(conflict))
        if conflict is not None:
            self.release(live)
        elif live.stop_request is not None:
            await self.conclude(live, live.stopped())
        elif self.scheduler.enter(live):
            self.start(live)

    def start(self, live: LiveCall) -> None:
        """Runs it in a task of its own, at once up to its first pause."""
        task = self.starter.start(self._perform(live))
        if task is None:
            return
        live.pause(task)
        request = live.admission.request
        request.session.live[request.id] = live
        if live.row is None and live.phase == "open":
            self.begin_behind(live)
        self.scheduler.watch(live)
        if live.stop_request is not None and live.in_body:
            live.interrupt()

    async def _perform(self, live: LiveCall) -> None:
        """Claims, executes, records. Nothing that a tool does escapes from here."""
        try:
            if live.stop_request is not None:
                await self.conclude(live, live.stopped())
            elif (live.row is None and live.admission.tool.does == "read") or await self.claim(live):  # type: ignore[union-attr]
                result = await live.execute()
                if result is None:
                    await self.park(live, live.open_question or {})
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
            if live.phase != "finished" and (live.phase == "open" or live.result is not None):
                self.release(live)

    async def _end_of_fault(self, live: LiveCall, error: Exception) -> None:
        """What could not be written as it is ends as `internal`, even where the first try had already begun."""
        outcome = Result(failure=live.unexpected(error))
        live.reopen()
        try:
            await self.conclude(live, outcome)
        except Exception as again:  # noqa: BLE001 - the caller at least is told
            live.note(again)
            self.release(live, outcome)

    async def claim(self, live: LiveCall) -> bool:
        """Makes this process the one that runs it; durably first, unless it may run again and nobody was told of it."""
        if live.row is not None:
            return await claim_again(self, live, live.row)
        now, row = self.clock.now(), lifecycle.new_row(live, "running", 1)
        write = live.accepted(row, lifecycle.begun(live, now))
        live.start(now, row)
        if row.effect != "once" and not live.durable:
            self.store.put(write)
            return True
        write.first = row.effect == "once"
        conflict = await self.durably(live, write)
        return conflict is None or not (await self.shut_out(live, conflict) or conflict)

    def begin_behind(self, live: LiveCall) -> None:
        """Writes that a read call was accepted and started, once it turns out not to be over at once."""
        if live.row is None:
            self._put_first(live, lifecycle.new_row(live, "running", 1), lifecycle.begun(live, live.started_at))

    def _put_first(self, live: LiveCall, row: Row, events: list[Draft] | CompactWrite) -> None:
        self.store.put(live.accepted(row, events))
        live.stand(row)

    # 6. record

    async def conclude(self, live: LiveCall, result: Result) -> None:
        """Writes the one `done` of a call; the second of two that try does nothing."""
        if live.stop_request is not None and live.ties is not None and live.ties.children:
            await end_children(live)
        if live.phase != "open":
            return
        if live.ownership is not None and live.given_away:
            self.release(live)
            return
        live.conclude()
        if self.rounds is not None and live.task is not None and live.row is not None and live.row.effect == "read":
            await self._step(live)
        if live.body is not None or result.schedules or not live.admission.is_plain:
            result = await self._presented(live, result)
        recorded = await self.record(live, result)
        if recorded is None:
            return
        session, by = live.admission.request.session, live.admission.request.options.by
        if recorded.failure is not None or session.loops is not None or by.kind == "agent":
            session._remember_outcome(live, recorded)
        more = recorded.effects or recorded.schedules
        self.release(live, schedules.announced(live, recorded) if more else recorded)

    async def _presented(self, live: LiveCall, result: Result) -> Result:
        """The result as its caller and the log are to have it, with the calls that it makes and what is kept of it."""
        if live.scope is not None:
            result = live.scope.finished(live, result)
        if live.edited or live.secrets:
            result = presentable(live, result)
        if live.by.kind == "agent" and live.session.loops is not None:
            result = live.session.loops.warned(live, result)
        if result.schedules:
            result = await schedules.with_planned(live, result)
        for id, data in live.attached:
            await self.store.keep(live.session_id, id, data)
        return result

    async def too_late(self, live: LiveCall, result: Result, conflict: Conflict) -> None:
        """What the log says is what the caller gets; but who really ran a call that was given up as `unknown` knows."""
        row = lifecycle.standing(conflict)
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
        """The common case, in one small write behind: a call that read, never paused and gave plain data."""
        call = live.admission
        if type(call) is not Admitted or not call.is_light or live.caller.durable:
            return False
        if result.encoded is None or len(call.parsed.json) > LARGE:
            return False
        session, options = call.request.session, call.request.options
        if live.body is not None:
            live.flush()
            if live.row is not None or live.body.attached or options.run is not None or call.tool.resumes:
                return False  # what was just flushed began it, or it may have asked something of its run
        by_agent = not call.is_plain and options.by.kind == "agent"
        if session.loops is not None and (not by_agent or session.loops.warned(live, result) is not result):
            return False
        write = lifecycle.succeeded_at_once(live, call, result, self.clock.now())
        if write is None or self.store.behind:
            return False
        if live.caller.maker is not None:
            live.on_behalf(write, live.caller.maker)
        self.store.put(write)
        if by_agent:
            session._remember_outcome(live, result)
        self.release(live, result)
        return True

    async def record(self, live: LiveCall, result: Result) -> Result | None:
        """Writes the end of a call, and returns it as it was written; None where it ended elsewhere or runs again."""
        if result.changes:
            return await record_with_state(self, live, result)
        write, tool = self.last_write(live, result), live.admission.tool
        durable = tool is None or tool.does != "read" or live.durable or self._waits_its_turn(live)
        conflict = await self.durably(live, write) if durable else self.store.put(write)
        if conflict is not None:
            await self.too_late(live, result, conflict)
        return result if conflict is None else None

    def _waits_its_turn(self, live: LiveCall) -> bool:
        """True if even the end of a call that only read is waited for: the writer has enough, or others need it too."""
        return self.store.behind or (self.turns is not None and self.turns.contended(live.session.owner))

    async def run_again(self, live: LiveCall) -> None:
        """Runs the body again, on the state of now: its changes came too late. One that ended elsewhere does not."""
        if live.finished:
            return
        self.begin_behind(live)  # so that the next run is another attempt
        live.again()
        if await self.claim(live):
            result = await live.execute()
            await (self.park(live, live.open_question or {}) if result is None else self.conclude(live, result))

    def last_write(self, live: LiveCall, result: Result, state: StateRecord | None = None) -> Write:
        """The last write of a call, with whatever was not written before."""
        code = None if result.failure is None else result.failure.code
        events = lifecycle.ending(live, result, self.clock.now(), state)
        write = self._only_write(live, code, events) if live.row is None else lifecycle.finish(live.row, code, events)
        if live.body is not None or not live.admission.is_plain:
            write.forgets = live.forgets
        if result.planned:
            schedules.add(write, result.planned)
        live.stand(write.row)
        return write

    def _only_write(self, live: LiveCall, code: str | None, events: list[Draft]) -> Write:
        """All of a call that was not written before its end."""
        row = lifecycle.new_row(live, "done", 1 if live.started_at else 0)
        row.code = code
        begun = [lifecycle.started(live, 1, live.started_at)] if live.started_at else []
        return live.accepted(row, [lifecycle.accepted(live), *begun, *events])

    async def durably(self, live: LiveCall, write: Write) -> Conflict | None:
        """What has happened is written as soon as the store can; a call that never ran may fail instead."""
        try:
            if self.late.unwritten and live.id in self.late.unwritten:
                raise StoreUnavailable(UNWRITTEN)
            return await (self.store.commit(write) if self.turns is None else self.commit(live, write))
        except StoreUnavailable as error:
            return await self.late.retry(live, write, error)

    async def commit(self, live: LiveCall, write: Write) -> Conflict | None:
        """Commits in turns of the owners, where they share the crib."""
        owner, turns = live.session.owner, self.turns
        if turns is None:
            return await self.store.commit(write)
        await turns.enter(owner, more=write.first)  # what starts durably may end at once
        try:
            return await self.store.commit(write)
        finally:
            turns.leave(owner, more=write.first)

    # 7. deliver

    def release(self, live: LiveCall, result: Result | None = None) -> None:
        """This process is through with it: its seat is free, and whoever waits for it goes on."""
        if live.phase == "finished":
            return
        live.end(result)
        request = live.admission.request
        session, parent = request.session, request.origin.parent
        session.live.pop(request.id, None)
        self.scheduler.leave(live)
        for observe in self.observers if live.result is not None else ():
            observe(live)
        if parent is not None and live.result is not None and parent not in session.live and not self.stopping:
            self.aside(child_ended(session, parent))

    def give_up(self, live: LiveCall) -> None:
        """Ends a call that was stopped, without a word from its body."""
        self.aside(self._or_release(live, self.conclude(live, live.stopped())))

    def abandon(self, live: LiveCall) -> None:
        """Its body has not ended in the time it had to clean up: the call ends without it."""
        if not live.finished and not live.concluding:
            if live.task is not None:
                live.task.cancel()
                self.adrift.add(live.task)
            self.give_up(live)

    def later(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], None]:
        """Something to call that goes on with work for which nobody waits any more."""

        def begin() -> None:
            self.aside(work())

        return begin

    def aside(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Work that nobody waits for."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def park(self, live: LiveCall, question: Mapping[str, Any]) -> None:
        """Writes the question and lets the call go; nothing of it stays in memory."""
        await parked_calls.park(live, question)

    async def end_parked(self, live: LiveCall, row: Row, result: Result, events: list[Draft]) -> bool:
        """Ends a call that nobody runs, in one write with the events that say why; False where it went on meanwhile."""
        return await parked_calls.end_parked(live, row, result, events)

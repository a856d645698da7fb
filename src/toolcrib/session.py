"""`Session`: opened for an owner, with the tools it may use. What it shows is read from its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.json import encode as to_json

from toolcrib._call import answers, cancellation, lifecycle, schedules
from toolcrib._call.call_facts import AWAITED, DURABLE, NOBODY, Caller
from toolcrib._call.history import result
from toolcrib._call.host import CallHost
from toolcrib._call.lifecycle import waits_for_children
from toolcrib._call.live_call import LiveCall
from toolcrib._call.remote import ENDED, RemoteResults
from toolcrib._call.request import PLAIN, TOP, CallOptions, CallRequest, Origin, subject_of
from toolcrib._session import children, client_tools, drain, permissions, settlement
from toolcrib._session.call_lists import PAGE, Lists
from toolcrib._session.progress_tree import progress
from toolcrib._session.repeated_calls import RepeatedCalls
from toolcrib.catalog import CatalogView
from toolcrib.errors import Refused, StoreError
from toolcrib.events import (
    STATEFUL,
    Approved,
    Done,
    ErrorNotice,
    Event,
    EventData,
    Interrupted,
    NamespacesChanged,
    Notice,
    Opened,
    RunEnded,
    SessionClosed,
    SessionClosing,
    StateRecord,
    StopWanted,
    ToolsChanged,
    UserState,
    Waiting,
)
from toolcrib.findings import Finding
from toolcrib.keywords import AnswerKeywords, CallKeywords, ScheduleKeywords
from toolcrib.media import is_digest
from toolcrib.policy import Policy
from toolcrib.schema import BadArguments, read_arguments
from toolcrib.state import State
from toolcrib.store import LEASES, Row, Write, draft
from toolcrib.tool import Tool, name_of
from toolcrib.types import Answer, Call, Closed, Entry, Failure, Question, Result, Schedule, ScheduleEntry

if TYPE_CHECKING:
    from toolcrib._call.clearances import Clearance
    from toolcrib._session.origin_log import OriginLog
    from toolcrib.crib import Crib

log = logging.getLogger("toolcrib")

LOOK_S = 0.25
"""How long a call that was stopped has to end before it is looked whether the store answers."""


class Session(Lists):
    """One owner's use of a crib: call, submit, answer, cancel, events, close."""

    crib: Crib

    def __init__(
        self, crib: Crib, id: str, owner: str, namespaces: tuple[str, ...], grants: tuple[Any, ...] = ()
    ) -> None:
        self.crib = crib
        self.pipeline = crib.pipeline
        self.id = id
        self.owner = owner
        self.reach: frozenset[str] = frozenset()
        self.namespaces = namespaces
        self.grants = grants
        self.ceiling: tuple[str, ...] | None = None
        self.user: Mapping[str, Any] = {}
        self.state = State(crib.state_keys)
        self.live: dict[str, LiveCall] = {}
        self.running = 0
        self.closing = False
        self.closed = False
        self.restored = False  # whether it was there before it was opened
        self.shut = False  # whether the log says that it was closed, by whatever process, and not opened since
        self.moved = 0 if crib.moved is None else crib.moved()
        self.looked_for = ""  # the call for which it was last looked what others did
        self.client_tools: tuple[Tool, ...] = ()
        self.offers: tuple[str, ...] = ()
        self.judge: Policy | None = None
        self.loops: RepeatedCalls | None = None
        self.origin_log: OriginLog | None = None
        self.seen = 0
        self.news = self.known = 0  # what others changed of it, and how much of that was looked up
        self._cached_lock: asyncio.Lock | None = None
        self.state_seen = 0
        self._cached_results: RemoteResults | None = None
        self._closing: asyncio.Task[Closed] | None = None
        self.driver: Any = None  # what drives its runs, where agents run in it
        self._turn: tuple[str, int] = ("", 0)
        self._cached_view: CatalogView | None = None
        self._version = -1
        self.opened: Mapping[str, Tool] = {}  # its tools by id and name, as of the last look
        self.clearances: dict[str, Clearance] = {}
        self._model_names: dict[str, str] | None = None
        self._tool_lists: list[list[str]] = []  # as its log has them, those that had something new
        self._listed: set[str] = set()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are open now; `reach` has all that ever were, `ceiling` those that narrowing left."""
        return self._namespaces

    @namespaces.setter
    def namespaces(self, opened: tuple[str, ...]) -> None:
        self._namespaces = opened
        self.reach = self.reach.union(opened)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.live)} calls in flight"
        return f"<Session {self.id!r} of {self.owner!r}, namespaces {', '.join(self.namespaces) or 'none'}, {state}>"

    # Tools

    @property
    def _view(self) -> CatalogView:
        """The tools that the session may use now."""
        if self._cached_view is None or self._version != self.crib.catalog.version:
            self._version = self.crib.catalog.version
            shared, client = self.crib.catalog.view(self.namespaces, self.owner), self.client_tools
            self._cached_view = CatalogView([*shared.all, *client], shared.own) if client else shared
        return self._cached_view

    def tools(self) -> list[Tool]:
        """Return the tools that the session may use, sorted by id."""
        return list(self._view.tools)

    def tool(self, name: str) -> Tool | None:
        """Return the tool with that id, unambiguous bare name, or name shown to a model."""
        if self._model_names is not None:
            name = self._model_names.get(name, name)
        self.opened = self._view.names
        return self.opened.get(name)

    def _sees(self, tool: Tool) -> bool:
        """True if exactly this tool is open to the session."""
        return self._view.names.get(tool.id) is tool

    def model_tools(self) -> dict[str, Tool]:
        """Return the tools by the names that a model sees; a name never changes its meaning while the session lives."""
        known = self._model_names = self._model_names if self._model_names is not None else {}
        ids = {id: name for name, id in known.items()}
        for name, tool in self._named(known):
            if tool.id not in ids:
                known[name] = tool.id
                ids[tool.id] = name
                self.clearances.pop(name, None)
        subject = subject_of(self)
        offered = [tool for tool in self._view.tools if tool.metadata.get("offered", True)]
        return {ids[tool.id]: tool for tool in offered if not self.policy.hides(tool, subject)}

    async def offer(self, tools: Iterable[Tool | Mapping[str, Any]]) -> None:
        """Declare tools that the client runs itself; they live in namespace `client` and are kept with the session."""
        offered = await client_tools.offered(tools)
        async with self._lock:
            self.client_tools = offered
            self._refresh()
            client = [client_tools.definition(tool) for tool in offered]
            await self._log(ToolsChanged(self._tool_ids(), client))

    def _tool_ids(self) -> list[str]:
        """Return the ids of the tools of the session."""
        ids = [tool.id for tool in self._view.tools]
        self._note_tools(ids)
        return ids

    def _note_tools(self, ids: Iterable[str]) -> None:
        """Remember a list of tools from the log if one of them is new."""
        if not self._listed.issuperset(ids):
            self._tool_lists.append(list(ids))
            self._listed.update(ids)

    def _named(self, known: Mapping[str, str]) -> Iterator[tuple[str, Tool]]:
        """Yield the tools under the names that they got when they came, so that a restart renames none."""
        lists, self._tool_lists = self._tool_lists, []
        tools = {tool.id: tool for tool in self._view.tools}
        for ids in lists:
            view, gone = CatalogView([tools[id] for id in ids if id in tools]), [id for id in ids if id not in tools]
            yield from view.model_names(known, gone).items()
        yield from self._view.model_names(known).items()

    def _refresh(self) -> None:
        """Look the tools up again."""
        self._cached_view = None

    @property
    def _left_by_owner(self) -> bool:
        """True if the session is being closed or was closed, by any process, and not opened since."""
        return self.closing or self.shut

    def _renewed(self) -> bool:
        """Look the tools up again; return True if they changed."""
        before, self._cached_view = self._cached_view, None
        return before is None or before.tools != self._view.tools

    def _recall(self, event: Event) -> None:
        """Apply an event of the log of the session, once."""
        if event.seq <= self.seen:
            return
        self.seen = event.seq
        match event.data:
            case Opened() as opened:
                self._take_rights(opened)
                self.restored = opened.restored
                self.shut = False
            case NamespacesChanged() as changed:
                self._take_rights(changed)
                self.ceiling = self.namespaces if changed.narrowed else None if changed.widened else self.ceiling
            case SessionClosing():
                self._take_logout()
            case SessionClosed():
                drain.end_left(self)
            case StopWanted(call=call, failure=failure) if call in self.live:  # another process asks to stop it
                self.live[call].stop(failure)
            case Approved(offer=offer):
                self._approved(offer)
            case UserState(values=values):
                self.user = values
            case ToolsChanged(tools=ids, client=client):
                self._note_tools(ids)
                self.client_tools = self.client_tools if client is None else client_tools.recalled(client)

    def _take_logout(self) -> None:
        """Note that a logout began, here or in another process."""
        self.shut = True
        if self.crib.agents is not None and self.driver is not None:
            self.crib.agents.leave(self)

    def _take_rights(self, rights: Opened | NamespacesChanged) -> None:
        """Take over namespaces and grants from an event."""
        self.namespaces = tuple(rights.namespaces)
        self._note_tools(rights.tools)
        self.grants = self.grants if rights.grants is None else tuple(rights.grants)
        self.judge = None

    # Policy

    @property
    def policy(self) -> Policy:
        """The policy of its calls: that of the crib, narrowed by its grants, widened by what a person approved."""
        if self.judge is None:
            self.judge = permissions.compose(self)
        return self.judge

    def _policy_changed(self) -> None:
        """Use the current policy of the crib from the next call on."""
        self.judge = None
        self._refresh()

    @property
    def folders(self) -> Any:
        """The folders in which the paths of its calls start."""
        return self.crib.folders

    def _approved(self, offer: str) -> None:
        """Take an offer that a person accepted: calls like that one are allowed from now on."""
        if offer not in self.offers:
            self.offers, self.judge = (*self.offers, offer), None

    @property
    def findings(self) -> list[Finding]:
        """Findings about grants that match nothing, since no tool needs capabilities of their family."""
        return permissions.findings_of(self.grants, self.crib, self.client_tools)

    def why(self, tool: str, args: Any = None, *, agent: str | None = None) -> Any:
        """Return the verdict on a call without making it, with every grant, segment and rule that was considered.

        For an `agent` of the crib it also says where each value was seen, up to the last call of an agent.

        Raises:
            Refused: `not_found`, `invalid_arguments`.
        """
        return permissions.why(self, tool, args, agent)

    async def _trace_origins(self, instructions: str | None = None) -> None:
        """Read from the log where values come from, up to now."""
        if self.origin_log is None:
            from toolcrib._session.origin_log import OriginLog

            self.origin_log = OriginLog(self)
        await self.origin_log.catch_up(instructions)

    async def narrow(self, *, namespaces: Sequence[str] | None = None, grants: Any = None) -> None:
        """Take rights away, in every process from the next call on. To give more, open the session again.

        Raises:
            Refused: `denied`, it would open something; `too_large`, there would be too many grants;
                `invalid_arguments`, one is of a family that is almost another.
            BadRule: the grants do not load.
        """
        most = self.pipeline.limits.grants_per_session
        wanted = self.namespaces if namespaces is None else self.crib.catalog.resolve(namespaces)
        permissions.within(wanted, self.namespaces)
        narrower = (*self.grants, *permissions.grants_of(grants, self.crib, self.client_tools))
        permissions.check_number(narrower, most)
        await self.crib._session_table.set_rights(self, wanted, narrower, narrowed=True)
        await self.crib.store.known_everywhere()

    # Calls

    async def call(self, tool: str, args: Any = None, **options: Unpack[CallKeywords]) -> Result:
        """Call a tool and wait for its result, however long it takes. A background tool answers at once with its id.

        Options: `by`, `label`, `provider_id`, `key`, `background`, `wake`, `turn`, `run`, `agent`, `timeout_s`,
        `cancel_on_disconnect`. Whatever happens inside the call is in the result; nothing is raised.
        """
        live = await self._accept(self._request(tool, args, options), AWAITED)
        if live.admission.background and live.row is not None:
            return queued(live.row.id)
        return live.result or await self._outcome(live)

    async def _accept(self, request: CallRequest, caller: Caller = NOBODY) -> LiveCall:
        """Accept a call; one that the store does not take has ended with that failure."""
        try:
            moved = self.crib.moved
            if self.news != self.known or (moved is not None and self.moved != moved()):
                await self.crib._session_table.renew(self)
                self.looked_for = request.id
            return await self.pipeline.accept(request, caller)
        except StoreError as error:
            return LiveCall.untaken(request, error)

    async def submit(self, tool: str, args: Any = None, **options: Unpack[CallKeywords]) -> Call:
        """Accept a call durably and return at once; follow it with `events(call=...)` or wait with `result`."""
        live = await self._submit(self._request(tool, args, options))
        assert live.row is not None
        if live.row.id == live.id:
            return lifecycle.call(live)
        return (await self._history(live.row)).call()

    async def _submit(self, request: CallRequest) -> LiveCall:
        """Accept a call durably; return the row of the earlier call if its key was used before."""
        moved = self.crib.moved
        if self.news != self.known or (moved is not None and self.moved != moved()):
            await self.crib._session_table.renew(self)
            self.looked_for = request.id
        return await self.pipeline.accept(request, DURABLE)

    async def schedule(self, tool: str, args: Any = None, **times: Unpack[ScheduleKeywords]) -> ScheduleEntry:
        """Make a call later: `after` so many seconds, `at` a time, `when` a call ends, or by `cron`. It is durable.

        It is looked at now, so that what could never run is refused, and again when its time comes, with the rights
        that the session has by then. `cancel_schedule` ends it; `result` of its id waits for the first call.

        Raises:
            Refused: it may not be made, there is no such time or call, or the session is closed.
        """
        when: dict[str, Any] = dict(times)
        key = when.pop("key", None)
        try:
            wanted = Schedule(tool, args, **when)
        except (TypeError, ValueError) as error:
            raise Refused("invalid_arguments", str(error)) from None
        options = CallOptions.of({"label": wanted.label or None, "key": key, "background": True})
        return await schedules.made(self, wanted, options)

    async def _schedule_for(self, maker: LiveCall, wanted: Schedule, key: str) -> str:
        """Schedule a call for another call."""
        options = schedules.options_of(maker, wanted, key)
        return (await schedules.schedule(self, wanted, options, maker)).id

    async def schedules(self) -> list[ScheduleEntry]:
        """Return the calls that wait for their time, the first due first."""
        return await schedules.pending(self.crib.store, self.id)

    async def cancel_schedule(self, id: str) -> bool:
        """End a schedule; calls that it has made go on. Return False if it had ended.

        Raises:
            Refused: `not_found`.
        """
        return await schedules.cancel(self, id)

    def _request(
        self,
        tool: str,
        args: Any,
        options: Mapping[str, Any] | CallOptions = PLAIN,
        *,
        id: str | None = None,
        origin: Origin = TOP,
    ) -> CallRequest:
        """Return the request of a call, before admission."""
        problem: BadArguments | None = None
        try:
            if type(args) is dict and _FLAT.issuperset(map(type, args.values())):
                arguments = _written(args)
            else:
                arguments = args if type(args) is bytes and args.isascii() else read_arguments(args)
        except BadArguments as error:
            arguments, problem = b"null", error
        if not isinstance(options, CallOptions):
            options = CallOptions.of(options) if options else PLAIN
        id, name = id or self.pipeline.new_id(), tool if type(tool) is str else name_of(tool)
        return CallRequest(self, id, name, arguments, self.pipeline.clock.now(), options, origin, problem)

    async def _call_child(self, parent: CallHost, tool: str, args: Any) -> Result:
        """Make a call for another call."""
        return await children.call_child(self, parent, tool, args)

    @property
    def _lock(self) -> asyncio.Lock:
        """The lock held while the session itself is changed or looked up."""
        if self._cached_lock is None:
            self._cached_lock = asyncio.Lock()
        return self._cached_lock

    @property
    def _awaited(self) -> RemoteResults:
        """The results of calls that other processes may run."""
        if self._cached_results is None:
            self._cached_results = RemoteResults(self.crib, self.id)
        return self._cached_results

    async def _outcome(self, live: LiveCall) -> Result:
        """Wait until a call that was accepted here is done, and return its result."""
        try:
            await live.ended()
            return live.result or await self._outcome_elsewhere(live)
        except asyncio.CancelledError:
            if live.request.options.cancel_on_disconnect:
                self._disconnected(live)
            raise

    async def _outcome_elsewhere(self, live: LiveCall) -> Result:
        """Return the result of a call that ended in another process, or that was suspended in between."""
        if live.outcome is None:
            return await self.result(live.id if live.row is None else live.row.id)
        event = await live.outcome
        await self._see(event)
        return result(event.data)

    def _disconnected(self, live: LiveCall) -> None:
        failure = live.failure("cancelled", "Cancelled: nobody waits for it any more")
        if not live.stop(failure) and live.row is not None and live.outcome is not None:
            self.pipeline.aside(self._stop(live.row.id, failure))

    async def _stop(self, call: str, failure: Failure) -> None:
        await cancellation.stop(self, await self._row(call), failure)

    async def result(self, call: str) -> Result:
        """Wait until a call is done, and return its result.

        Raises:
            Refused: `not_found`, this session has no such call.
        """
        live = self.live.get(call)
        if live is not None:
            await live.ended()
            if live.result is not None:
                return live.result
        event = await self._awaited.end_of(call)
        await self._see(event)
        return result(event.data)

    async def _row(self, call: str) -> Row:
        """Return the row of a call of this session in the index.

        Raises:
            Refused: `not_found`.
        """
        row = await self.crib.store.call(call)
        if row is None or row.session != self.id or row.state in LEASES:
            raise Refused("not_found", f"No such call: {call}")
        return row

    async def status(self, call: str) -> Entry:
        """Return the status of a call."""
        return (await self._history(await self._row(call))).entry()

    async def _look(self, call: str) -> tuple[Entry, Any, float]:
        """Return the status of a call with its last output and the current time."""
        history = await self._history(await self._row(call))
        return history.entry(), history.last_output, self.pipeline.clock.now()

    async def progress(self) -> list[dict[str, Any]]:
        """Return the progress of its calls as a tree of nodes `tool-call-progress.v1`."""
        return progress(self.id, [event async for event in self.events(follow=False)])

    async def output(self, id: str, offset: int = 0, limit: int = 64 * 1024) -> str:
        """Return a part of an output that was too large for its result.

        Raises:
            Refused: `not_found`.
        """
        kept = await self._kept(id)
        if kept is None:
            raise Refused("not_found", f"No such output: {id}")
        return kept[offset : offset + limit].decode("utf-8", "replace")

    async def file(self, id: str) -> bytes:
        """Return the bytes of a file of a message or result, by the `output` of its block.

        Raises:
            Refused: `not_found`.
        """
        kept = await self._kept(id)
        if kept is None:
            raise Refused("not_found", f"No such file: {id}")
        return kept

    async def _kept(self, id: str) -> bytes | None:
        """Return bytes that are kept under their digest; secrets and definitions of agents have other ids."""
        return await self.crib.store.kept(self.id, id) if is_digest(id) else None

    # Events

    async def events(self, after: int = 0, call: str | None = None, *, follow: bool = True) -> AsyncIterator[Event]:
        """Replay the events after `after`, then follow; with `call` only its events, ending right after its `done`.

        One that ended `unknown` and was settled by whoever ran it ends after that.
        """
        store, last = self.crib.store, 0
        if not follow:
            await store.flush()  # what this process did before it asked belongs to the past
        if call is not None:
            row = await self._row(call)
            after = max(after, row.accepted_seq - 1)
            last = row.done_seq or 0
            if 0 < last <= after:
                return
        while not self.crib.ending:
            page = await store.read(self.id, after, limit=PAGE)
            for event in page:
                after = event.seq
                if call is None or event.call == call:
                    await self._see(event)
                    yield event
                    if call is not None and event.kind in ENDED and event.seq >= last:
                        return
            if len(page) < PAGE and follow:
                await store.wait(self.id, after)
            elif not page:
                return

    async def _see(self, event: Event) -> None:
        """Read the state again if a call that ended or waits has changed it."""
        if event.kind not in (Done.kind, Waiting.kind) or not isinstance(event.data, STATEFUL):
            return
        state = event.data.state
        if state is not None and state.revision > self.state.revision:
            await self._reload_state()

    async def _log(self, data: EventData) -> None:
        """Append an event that concerns the session itself."""
        write = Write(self.id, [draft(self.pipeline.clock.now(), None, data)])
        write.on_late = _nothing  # who is told that it failed does it again, which does no harm
        await self.crib.store.commit(write)

    async def notice(self, text: str, **more: Any) -> None:
        """Write a line for people, shown in every stream and never to the model."""
        await self._log(Notice(text, more))

    async def error(self, text: str, **more: Any) -> None:
        """Write a line for people and for the model, which reads it with its next request."""
        await self._log(ErrorNotice(text, more))

    async def set_user(self, state: Mapping[str, Any]) -> None:
        """Keep what the client says of its user; tools see it as `ctx.user`. It gives no rights.

        Raises:
            Refused: `too_large`, more than 8 KB.
        """
        async with self._lock:
            self.user = answers.user_state(state)
            await self._log(UserState(dict(self.user)))

    async def send(
        self,
        message: str | Sequence[str | Mapping[str, Any]],
        *,
        agent: str | None = None,
        mode: str | None = None,
        key: str | None = None,
    ) -> Any:
        """Send a message to the agent of the session; return when its run is over, or waits for somebody.

        It is a text, or a list of texts and blocks: `["What is this?", block("image", data=png)]`. `agent` is who
        answers from now on; `mode` is `followup`, `steer`, `collect` or `interrupt`.

        Raises:
            Refused: `unavailable`, the crib has no agents; `not_found`, it has no such agent; `invalid_arguments`;
                `too_large`, it has more bytes than the crib's limit `message_bytes`.
        """
        if self.crib.agents is None:
            raise Refused("unavailable", "This crib has no agents", "make it with agents=Agents([...])")
        return await self.crib.agents.driver(self).send(message, agent, mode, key)

    # Questions

    async def questions(self) -> list[Question]:
        """Return the open questions, in the order in which their calls were accepted."""
        rows = await self.crib.store.calls(self.id, ("waiting",), limit=100_000)
        questions = [(await self._history(row)).question for row in rows]
        return [question for question in questions if question is not None]

    async def answer(self, question: str, action: str, value: Any = None, **more: Unpack[AnswerKeywords]) -> Answer:
        """Answer a question: `accept`, `decline`, `cancel`, or `fail`; by `actor`, with an idempotency `key`.

        More: `arguments` (edited), `reason`, `actor`, `key`, `scope`.

        Raises:
            Refused: `not_found`, `already_answered`, `expired`, `invalid_arguments`, `denied`; the question stays.
        """
        answer = await permissions.answer(self, question, action, value, **more)
        if self.crib.agents is not None:
            self.crib.agents.news(self)
        return answer

    # State

    def _changed_state(self, commit: StateRecord, call: str) -> None:
        """Apply changes of state that were just committed, unless a reload already brought them."""
        self.state.replay(commit, call)

    async def end_run(self, run: str) -> None:
        """End a run: drop what was kept for it."""
        await self._log(RunEnded(run))
        self.state.end(run)

    async def _reload_state(self) -> None:
        """Read from the log what other processes changed in the state."""
        await self.crib._session_table.fold_state(self)

    # Bounds

    def _remember_outcome(self, live: LiveCall, outcome: Result) -> None:
        """Count repeated calls with the same outcome."""
        loops = self.loops or RepeatedCalls()
        self.loops = loops if loops.note(live, outcome) else None

    def _calls_in_turn(self, turn: str) -> int:
        """Return how many calls the model turn has made, this one included."""
        self._turn = (turn, self._turn[1] + 1 if self._turn[0] == turn else 1)
        return self._turn[1]

    # Stopping

    async def cancel(self, call: str) -> bool:
        """Stop a call and wait for its `done`; return False if there was nothing to stop.

        Raises:
            Refused: `not_found`.
        """
        live = self.live.get(call)
        if live is not None:
            failure = live.failure("cancelled", "Cancelled")
            news = live.stop(failure)
            await self._ended(live)
            if news or live.result is not None:
                return news or live.stopped_for(failure)
        row = await self._row(call)
        text = "Cancelled while it waited" if row.state == "waiting" else "Cancelled"
        return await cancellation.stop(self, row, Failure("cancelled", text))

    async def _ended(self, live: LiveCall) -> None:
        """Wait for the end of a call that was stopped; raise if the store does not answer."""
        ended = asyncio.ensure_future(live.ended())
        try:
            while not (await asyncio.wait({ended}, timeout=LOOK_S))[0]:
                await self.crib.store.flush()
        finally:
            ended.cancel()

    async def settle(
        self, call: str, happened: bool, data: Any = None, *, reason: str | None = None, actor: str = ""
    ) -> None:
        """Settle a call that ended `unknown`, for somebody who looked what came of it.

        Raises:
            Refused: `not_found`; `conflict`, what came of it is known.
        """
        await settlement.settle(self, call, happened, data, reason, actor or self.owner)

    async def interrupt(self, *, background: bool = False) -> int:
        """Stop the calls that run or wait in the foreground, or all; return how many."""
        await self._log(Interrupted(background))
        halted = None if self.crib.agents is None else self.crib.agents.halt(self)
        calls = [live for live in reversed(self.live.values()) if background or not await self._behind(live)]
        kept = {live.id for live in self.live.values()} - {live.id for live in calls}
        stopped = [live for live in calls if live.stop(live.failure("cancelled", "Interrupted"))]
        for live in stopped:
            await live.ended()
        rows = await self._elsewhere()
        for row in rows:
            if row.background or row.parent in kept:
                kept.add(row.id)
        rows = [row for row in rows if background or row.id not in kept]
        waited, ran = Failure("cancelled", "Interrupted while it waited"), Failure("cancelled", "Interrupted")
        for row in filter(waits_for_children, rows):  # before the end of what it waits for lets it go on
            await cancellation.stop(self, row, waited)
        stops = [cancellation.stop(self, row, waited if row.state == "waiting" else ran) for row in rows]
        count = len(stopped) + sum(await asyncio.gather(*stops))
        if halted is not None:
            await halted
        return count

    async def _behind(self, live: LiveCall) -> bool:
        """True if a call runs in the background, or was made by one that does, on any node."""
        top = live.top
        above = None if top.background or top.parent_id is None else await self.crib.store.call(top.parent_id)
        while above is not None and not above.background and above.parent is not None:
            above = await self.crib.store.call(above.parent)
        return top.background or (above is not None and above.background)

    async def _elsewhere(self) -> list[Row]:
        """Return the calls that wait for an answer, and those that other processes run."""
        store = self.crib.store
        rows = await store.calls(self.id, ("waiting", "queued", "running"), limit=100_000)
        rows = [row for row in rows if row.id not in self.live]
        if self.pipeline.engine is not None:
            return rows
        # What a dead process has left is neither waited for nor ended: recovery knows what to make of it.
        alive = {worker: await store.alive(worker) for worker in {row.worker for row in rows} if worker is not None}
        return [row for row in rows if row.state == "waiting" or alive.get(row.worker or "", False)]

    async def close(self, timeout: float = 30.0) -> Closed:
        """Log out: wait for running calls, end the rest at the timeout, and free the memory. Nothing is lost.

        Raises:
            Refused: `invalid_arguments`, the timeout is not within 0 to 3600 s.
        """
        if not 0 <= timeout <= 3600:
            raise Refused("invalid_arguments", f"timeout must be 0 to 3600 s, not {timeout:g}")
        failed = self._closing is not None and self._closing.done() and self._closing.exception() is not None
        if self._closing is None or failed:  # the store was away: the logout is begun anew
            self.closing = True
            if self.crib.agents is not None:
                self.crib.agents.leave(self)
            self._closing = asyncio.ensure_future(self._close(timeout))
        return await asyncio.shield(self._closing)

    async def _close(self, timeout: float) -> Closed:
        try:
            closed = await drain.drain(self, timeout)
            log.info("session %s of %s was closed: %s", self.id, self.owner, closed)
            return closed
        finally:
            self.closed = True
            self.crib._session_table.forget(self)

    async def _left(self) -> None:
        """Wait until a logout that is under way is over, however it ends."""
        if self._closing is not None:
            await asyncio.wait([self._closing])


def _nothing() -> None:
    """Nothing has to follow."""


_FLAT = frozenset({str, int, bool})
"""Values that are written in one way only, whoever writes them."""


def _written(arguments: dict[str, Any]) -> bytes:
    """The JSON text of arguments that are all flat, as most are."""
    try:
        return to_json(arguments)
    except (TypeError, ValueError, OverflowError):
        return read_arguments(arguments)


def queued(id: str) -> Result:
    """What the caller of a background tool gets at once."""
    text = (
        f"The call was accepted as {id} and runs in the background. Its result will arrive by itself; "
        "do not call the tool again for the same request."
    )
    return Result({"status": "queued", "id": id}, metadata={"note": text})

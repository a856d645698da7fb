"""`Session`: opened for an owner, with the tools it may use. What it shows is read from its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.calls import answering, draining
from toolcrib.calls.history import History, fold, result
from toolcrib.calls.live import LiveCall
from toolcrib.calls.loops import Loops
from toolcrib.calls.progress import progress
from toolcrib.catalog import View
from toolcrib.errors import Refused, StoreError
from toolcrib.policy import Verdict
from toolcrib.schema import BadArguments, read_arguments
from toolcrib.state import State
from toolcrib.store import Row, Write
from toolcrib.tools import Tool
from toolcrib.types import Answer, By, Call, Change, Closed, Entry, Event, Failure, Question, Result

if TYPE_CHECKING:
    from toolcrib.crib import Crib

PAGE = 1000


class Session:
    """One owner's use of a crib: call, submit, answer, cancel, events, close."""

    def __init__(
        self, crib: Crib, id: str, owner: str, namespaces: tuple[str, ...], grants: tuple[Any, ...] = ()
    ) -> None:
        self.crib = crib
        self.pipeline = crib.pipeline
        self.id = id
        self.owner = owner
        self.namespaces = namespaces
        self.grants = grants
        self.user: Mapping[str, Any] = {}
        self.state = State(crib.state_keys)
        self.live: dict[str, LiveCall] = {}
        self.running = 0
        self.closing = False
        self.closed = False
        self.client_tools: tuple[Tool, ...] = ()
        self.loops: Loops | None = None
        self._closing: asyncio.Task[Closed] | None = None
        self._turn: tuple[str, int] = ("", 0)
        self._view: View | None = None
        self._version = -1
        self._model_names: dict[str, str] | None = None

    # Tools

    @property
    def view(self) -> View:
        """The tools it may use, as of now."""
        if self._view is None or self._version != self.crib.catalog.version:
            self._version = self.crib.catalog.version
            shared = self.crib.catalog.view(self.namespaces)
            self._view = View([*shared.tools, *self.client_tools]) if self.client_tools else shared
        return self._view

    def tools(self) -> list[Tool]:
        """The tools it may use, sorted by id."""
        return list(self.view.tools)

    def tool(self, name: str) -> Tool | None:
        """The tool of that id, unambiguous bare name, or name shown to a model."""
        if self._model_names is not None:
            name = self._model_names.get(name, name)
        return self.view.names.get(name)

    def sees(self, tool: Tool) -> bool:
        """Whether that very tool is open to this session."""
        return self.view.names.get(tool.id) is tool

    def model_tools(self) -> dict[str, Tool]:
        """The tools by the names a model sees; a name never changes its meaning while the session lives."""
        known = self._model_names = self._model_names if self._model_names is not None else {}
        ids = {id: name for name, id in known.items()}
        for name, tool in self.view.model_names(taken=known).items():
            if tool.id not in ids:
                known[name] = tool.id
                ids[tool.id] = name
        return {ids[tool.id]: tool for tool in self.view.tools}

    async def offer(self, tools: Iterable[Tool | Mapping[str, Any]]) -> None:
        """Tools that the client runs itself; they live in namespace `client` and are kept with the session."""
        self.client_tools = answering.offers(tools)
        self.refresh()
        await self.log(
            "tools_changed", {"tools": self.names(), "client": [answering.definition(t) for t in self.client_tools]}
        )

    def names(self) -> list[str]:
        """The ids of its tools."""
        return [tool.id for tool in self.view.tools]

    def refresh(self) -> None:
        """Its tools are looked up anew."""
        self._view = None

    def renewed(self) -> bool:
        """Looks its tools up anew; whether they are others than before."""
        before, self._view = self._view, None
        return before is None or before.tools != self.view.tools

    def recall(self, event: Event) -> None:
        """Takes an event of its own past."""
        if event.kind in ("opened", "namespaces"):
            self.namespaces = tuple(event.data["namespaces"])
            self.grants = tuple(event.data.get("grants", self.grants))
        elif event.kind == "user_state":
            self.user = event.data
        elif event.kind == "tools_changed" and "client" in event.data:
            self.client_tools = tuple(answering.offered(said) for said in event.data["client"])

    # Calls

    async def call(self, tool: str, args: Any = None, **options: Any) -> Result:
        """Calls a tool and waits for its result, however long it takes. A background tool answers at once with its id.

        Options: `by`, `label`, `provider_id`, `key`, `background`, `wake`, `turn`, `run`, `agent`, `timeout_s`,
        `cancel_on_disconnect`. Whatever happens inside the call is in the result; nothing is raised.
        """
        live = self._new(tool, args, options)
        await self._accept(live)
        if live.background and live.row is not None:
            return queued(live.row.id)
        if live.result is not None:
            return live.result
        return await self._outcome(live)

    async def _accept(self, live: LiveCall) -> None:
        """What the store can not take is told to the caller of the call; nothing of it was accepted."""
        try:
            await self.pipeline.accept(live)
        except StoreError as error:
            live.result = Result(failure=live.failure("unavailable", str(error)))

    async def submit(self, tool: str, args: Any = None, **options: Any) -> Call:
        """Accepts a call durably and returns at once; follow it with `events(call=...)` or wait with `result`."""
        live = self._new(tool, args, options)
        live.durable = True
        await self.pipeline.accept(live)
        assert live.row is not None
        return (await self.history(live.row)).call()

    def _new(self, tool: str, args: Any, options: dict[str, Any]) -> LiveCall:
        pipeline = self.pipeline
        broken: BadArguments | None = None
        try:
            given = args if type(args) is bytes else read_arguments(args)
        except BadArguments as error:
            given, broken = b"null", error
        live = LiveCall(pipeline, self, tool, given, self.crib.new_id(), pipeline.clock.now())
        live.broken = broken
        if options:
            live.take(options)
        return live

    async def call_child(self, parent: LiveCall, tool: str, args: Any) -> Result:
        """A call made by another call: it goes the same way, and stops with its parent."""
        assert parent.tool is not None
        self.pipeline.begin_behind(parent)
        live = self._new(tool, args, {"by": By("tool", parent.tool_id), "background": False, "run": parent.run})
        if parent.history is not None:
            before = await answering.child_before(parent, tool, live.given)
            if before is not None:
                return await self._child_outcome(parent, before)
        live.join(parent)
        live.agent = parent.agent
        live.extra = {**(live.extra or {}), "parent": parent.id}
        if parent.stopping is not None:
            live.stop(live.failure("cancelled", "Cancelled with the call that made it"))
        return await self._child_outcome(parent, live.id, live)

    async def _child_outcome(self, parent: LiveCall, child: str, live: LiveCall | None = None) -> Result:
        """Waits for a child; one that waits for somebody when its parent is stopped ends with it."""
        try:
            if live is not None:
                await self._accept(live)
                if live.result is None:
                    await live.ended()
                if live.result is not None:
                    return live.result
            parent.waits_for_child = True
            return await self.result(child)
        except asyncio.CancelledError:
            if live is not None and live.concluding:
                await live.ended()  # its question may still be on the way to the store
            row = await self.crib.store.call(child)
            if row is not None and row.state == "waiting":
                await answering.end_waiting(self, row, Failure("cancelled", "Cancelled with the call that made it"))
            raise
        finally:
            parent.waits_for_child = False

    async def _outcome(self, live: LiveCall) -> Result:
        try:
            await live.ended()
            return live.result or await self.result(live.id if live.row is None else live.row.id)
        except asyncio.CancelledError:
            if live.cancel_on_disconnect:
                live.stop(live.failure("cancelled", "Cancelled: nobody waits for it any more"))
            raise

    async def result(self, call: str) -> Result:
        """The result of a call; waits until it is done.

        Raises:
            Refused: `not_found`, this session has no such call.
        """
        live = self.live.get(call)
        if live is not None:
            await live.ended()
            if live.result is not None:
                return live.result
        row = await self.row(call)
        if row.state == "done" and row.done_seq is not None:
            (event,) = await self.crib.store.read(self.id, row.done_seq - 1, limit=1)
            return result(event.data)
        async for event in self.events(call=call, after=row.accepted_seq):
            if event.kind == "done":
                return result(event.data)
        raise Refused(
            "unavailable", f"The crib was closed before call {call} was done", "open it again and ask for the result"
        )

    async def row(self, call: str) -> Row:
        """The index row of a call of this session.

        Raises:
            Refused: `not_found`.
        """
        row = await self.crib.store.call(call)
        if row is None or row.session != self.id:
            raise Refused("not_found", f"No such call: {call}")
        return row

    async def status(self, call: str) -> Entry:
        """Where a call stands."""
        return (await self.history(await self.row(call))).entry()

    async def look(self, call: str) -> tuple[Entry, Any, float]:
        """The same, with its last output and the time of now."""
        history = await self.history(await self.row(call))
        return history.entry(), history.last_output, self.pipeline.clock.now()

    async def progress(self) -> list[dict[str, Any]]:
        """How far its calls are, as a tree of nodes `tool-call-progress.v1`."""
        return progress(self.id, [event async for event in self.events(follow=False)])

    async def output(self, id: str, offset: int = 0, limit: int = 64 * 1024) -> str:
        """A piece of an output that was too large for its result.

        Raises:
            Refused: `not_found`.
        """
        kept = await self.crib.store.kept(self.id, id)
        if kept is None or id.startswith("args:"):
            raise Refused("not_found", f"No such output: {id}")
        return kept[offset : offset + limit].decode("utf-8", "replace")

    # Events

    async def events(self, after: int = 0, call: str | None = None, *, follow: bool = True) -> AsyncIterator[Event]:
        """Replays what is past `after`, then follows; with `call` only its events, ending right after its `done`."""
        store = self.crib.store
        if not follow:
            await store.flush()  # what this process did before it asked belongs to the past
        if call is not None:
            row = await self.row(call)
            after = max(after, row.accepted_seq - 1)
            if row.done_seq is not None and row.done_seq <= after:
                return
        while not self.crib.ending:
            page = await store.read(self.id, after, limit=PAGE)
            for event in page:
                after = event.seq
                if call is None or event.call == call:
                    yield event
                    if call is not None and event.kind == "done":
                        return
            if not page:
                if not follow:
                    return
                await store.wait(self.id, after)

    async def log(self, kind: str, data: dict[str, Any]) -> None:
        """Appends an event that concerns the session itself."""
        await self.crib.store.commit(Write(self.id, [(self.pipeline.clock.now(), None, kind, data)]))

    async def notice(self, text: str, **more: Any) -> None:
        """A line for people: shown in every stream, never to the model."""
        await self.log("notice", {"text": text, **more})

    async def set_user(self, state: Mapping[str, Any]) -> None:
        """What the client says of its user; tools see it as `ctx.user`. It gives no rights.

        Raises:
            Refused: `too_large`, more than 8 KB.
        """
        self.user = answering.user_state(state)
        await self.log("user_state", dict(self.user))

    # Lists

    async def history(self, row: Row, until: int | None = None) -> History:
        """What the log says of one call."""
        history = History(self.id)
        after, last = row.accepted_seq - 1, until or row.done_seq
        while True:
            page = await self.crib.store.read(self.id, after, until=last, call=row.id, limit=PAGE)
            for event in page:
                history.advance(event)
                after = event.seq
            if len(page) < PAGE:
                return history

    async def _entries(self, rows: list[Row]) -> list[Entry]:
        return [(await self.history(row)).entry() for row in rows]

    async def unresolved(self, at: int | None = None) -> list[Entry]:
        """Calls that have not started: queued, or waiting before their first start."""
        return await self._open("unresolved", at)

    async def ongoing(self, at: int | None = None) -> list[Entry]:
        """Calls that have started and are not done."""
        return await self._open("ongoing", at)

    async def _open(self, name: str, at: int | None) -> list[Entry]:
        if at is not None:
            return [call.entry() for call in await self._past(at) if call.list == name]
        rows = await self.crib.store.calls(self.id, ("queued", "waiting", "running"), limit=100_000)
        histories = [await self.history(row) for row in rows]
        return [history.entry() for history in histories if history.list == name]

    async def completed(self, consumer: str | None = None, at: int | None = None) -> list[Entry]:
        """Calls that are done, in order of completion; with `consumer` only those past its cursor. Moves nothing."""
        after = await self.crib.store.cursor(self.id, consumer) if consumer is not None else 0
        if at is not None:
            past = [call for call in await self._past(at) if call.list == "completed" and call.seq > after]
            return [call.entry() for call in sorted(past, key=lambda call: call.seq)]
        return await self._entries(await self.crib.store.calls(self.id, done_after=after, limit=100_000))

    async def _past(self, at: int) -> list[History]:
        events: list[Event] = []
        while len(events) < at:
            page = await self.crib.store.read(self.id, len(events), until=at, limit=PAGE)
            if not page:
                break
            events += page
        return list(fold(self.id, events).values())

    async def consume(self, consumer: str, seq: int) -> int:
        """Moves a named cursor forward, durably, never back; where it stands now."""
        return await self.crib.store.move_cursor(self.id, consumer, seq)

    # Questions

    async def questions(self) -> list[Question]:
        """What is open, in order of acceptance."""
        rows = await self.crib.store.calls(self.id, ("waiting",), limit=100_000)
        found = [(await self.history(row)).question for row in rows]
        return [question for question in found if question is not None]

    async def answer(self, question: str, action: str, value: Any = None, **more: Any) -> Answer:
        """Answers a question: `accept`, `decline`, `cancel`, or `fail`; by `actor`, with an idempotency `key`.

        More: `arguments` (edited), `reason`, `actor`, `key`, `scope`.

        Raises:
            Refused: `not_found`, `already_answered`, `expired`, `invalid_arguments`, `denied`; the question stays.
        """
        return await answering.answer(self, question, action, value, **more)

    # State

    def changed_state(self, changes: Iterable[Change], base: int, call: str, revision: int) -> None:
        """Applies what was just committed, unless a reload already brought it."""
        if self.state.revision < revision:
            self.state.commit(changes, base, call)

    async def reload_state(self) -> None:
        """Folds the state from the log."""
        self.state = await self.crib.fold_state(self.id)

    # Bounds

    @property
    def failing(self) -> bool:
        """Whether some call failed lately."""
        return self.loops is not None

    def remember_outcome(self, live: LiveCall, outcome: Result) -> None:
        """Counts identical failing calls."""
        self.loops = self.loops or Loops()
        self.loops.note(live, outcome.failure is not None)
        if not self.loops:
            self.loops = None

    def breaker(self, live: LiveCall) -> Verdict | None:
        """A refusal where the same call failed too often in a row."""
        return None if self.loops is None else self.loops.verdict(live)

    def calls_in_turn(self, turn: str) -> int:
        """How many calls that model turn has made, this one included."""
        self._turn = (turn, self._turn[1] + 1 if self._turn[0] == turn else 1)
        return self._turn[1]

    # Stopping

    async def cancel(self, call: str) -> bool:
        """Stops a call and returns when it has its `done`; whether there was something to stop.

        Raises:
            Refused: `not_found`; `unavailable` where another process runs it.
        """
        live = self.live.get(call)
        if live is not None:
            news = live.stop(live.failure("cancelled", "Cancelled"))
            await live.ended()
            return news
        row = await self.row(call)
        if row.state == "waiting":
            return await answering.end_waiting(self, row, Failure("cancelled", "Cancelled while it waited"))
        if row.state in ("queued", "running"):
            raise Refused("unavailable", f"Call {call} runs in another process", "cancel it there")
        return False

    async def interrupt(self, *, background: bool = False) -> int:
        """Stops the calls that run or wait in the foreground, or all; how many."""
        await self.log("interrupted", {"background": background})
        calls = [live for live in reversed(self.live.values()) if background or not live.top.background]
        kept = {live.id for live in self.live.values()} - {live.id for live in calls}
        stopped = [live for live in calls if live.stop(live.failure("cancelled", "Interrupted"))]
        for live in stopped:
            await live.ended()
        rows = await self.crib.store.calls(self.id, ("waiting",), limit=100_000)
        rows = [row for row in rows if background or not (row.background or row.parent in kept)]
        failure = Failure("cancelled", "Interrupted while it waited")
        return len(stopped) + sum([await answering.end_waiting(self, row, failure) for row in rows])

    async def close(self, timeout: float = 30.0) -> Closed:
        """Logs out: waits for what runs, ends the rest at the timeout, and lets go of all memory. Nothing is lost.

        Raises:
            Refused: `invalid_arguments`, the timeout is not within 0 to 3600 s.
        """
        if not 0 <= timeout <= 3600:
            raise Refused("invalid_arguments", f"timeout must be 0 to 3600 s, not {timeout:g}")
        if self._closing is None:
            self.closing = True
            self._closing = asyncio.ensure_future(self._close(timeout))
        return await asyncio.shield(self._closing)

    async def _close(self, timeout: float) -> Closed:
        try:
            return await draining.drain(self, timeout)
        finally:
            self.closed = True
            self.pipeline.scheduler.forget_finished()
            self.crib.forget(self)

    async def left(self) -> None:
        """Returns when a logout that is under way is over, however it ended."""
        if self._closing is not None:
            await asyncio.wait([self._closing])


def queued(id: str) -> Result:
    """What the caller of a background tool gets at once."""
    text = (
        f"The call was accepted as {id} and runs in the background. Its result will arrive by itself; "
        "do not call the tool again for the same request."
    )
    return Result({"status": "queued", "id": id}, metadata={"note": text})

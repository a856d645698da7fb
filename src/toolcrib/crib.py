"""`Crib`: the object a program makes. It joins sources, store and policy, and opens sessions."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakValueDictionary

from toolcrib.calls import answering
from toolcrib.calls.recovery import recover
from toolcrib.calls.scheduler import Clock, SystemClock
from toolcrib.catalog import Catalog
from toolcrib.context import Deps
from toolcrib.errors import Refused
from toolcrib.pipeline import Pipeline
from toolcrib.policy import AutoPolicy, Policy
from toolcrib.session import Session
from toolcrib.sources import Fixed, Source, as_source
from toolcrib.sources.builtins import builtins
from toolcrib.state import Mode, State
from toolcrib.store import Row, SessionRow, Store, open_store
from toolcrib.tools import Tool
from toolcrib.types import Change, CribLimits, Failure, Layer, Question

SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,255}")
WEEK = timedelta(days=7)
SWEEP_S = 3600.0


class Crib:
    """Sources, a store and a policy; use it with `async with`.

    `sources` are functions, `Tool`s, modules or `Source`s. `store` is a URL or a `Store`. `deps` are given to tools by
    name or type. `state_keys` declares commutative keys. `layer` wraps the execution of every call.
    """

    def __init__(  # noqa: PLR0913 - the one place where everything is put together, all by name
        self,
        sources: Iterable[Any] = (),
        *,
        store: str | Store = "memory:",
        policy: Policy | None = None,
        limits: CribLimits | None = None,
        retention: timedelta | None = WEEK,
        deps: Mapping[str, Any] | None = None,
        state_keys: Mapping[str, Mode] | None = None,
        namespace_aliases: Mapping[str, str] | None = None,
        default_namespaces: Sequence[str] = ("default",),
        precedence: Sequence[str] = (),
        layer: Layer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.catalog = Catalog(precedence, namespace_aliases)
        self.store: Store = open_store(store) if isinstance(store, str) else store
        self.pipeline = Pipeline(
            self.catalog, self.store, policy or AutoPolicy(), limits or CribLimits(), clock or SystemClock()
        )
        self.pipeline.deps = Deps(deps)
        self.pipeline.layer = layer
        self.pipeline.expiry_changed = self._expiry_changed
        self.retention = retention
        self.state_keys = dict(state_keys or {})
        self.default_namespaces = tuple(default_namespaces)
        self.ending = False
        self.recovering: set[str] = set()
        self._sources: list[Source] = [Fixed("builtin", builtins()), *(as_source(given) for given in sources)]
        self._of_source: dict[int, list[Tool]] = {}
        self._sessions: dict[str, Session] = {}
        self._attached: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._prefix = f"c{secrets.token_hex(6)}"
        self._numbers = itertools.count(1)
        self._expiry: tuple[float, Any] | None = None
        self._swept = float("-inf")
        for source in self._sources:
            if isinstance(source, Fixed):
                self._register(source, source.tools)
        self.catalog.listen(self._tools_changed)

    # Opening and closing

    async def __aenter__(self) -> Crib:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Opens the store, starts the sources, and takes up what a crash left behind.

        Raises:
            StoreUnavailable, StoreTooNew: the store can not be used.
        """
        self.ending = self.pipeline.stopping = False
        self.pipeline.worker = f"w-{secrets.token_hex(8)}"  # what an earlier start left behind is not alive
        limits = self.pipeline.limits
        # A plain function keeps its thread while it waits for one that it called.
        self.pipeline.attach(ThreadPoolExecutor(limits.per_crib * (limits.depth + 1), "toolcrib-tool"))
        await self.store.start(self.pipeline.worker)
        for source in self._sources:
            if id(source) not in self._of_source:
                self._register(source, await source.start(lambda tools, s=source: self._register(s, tools)))  # type: ignore[misc]
        await recover(self, await self.store.calls(None, ("queued", "running"), limit=1_000_000))
        when = await self.store.next_expiry()
        if when is not None:
            self._expiry_changed(when)

    async def stop(self, grace: float = 5.0) -> None:
        """Waits a little for what runs, and leaves the rest to recovery. It is no logout: nothing is ended for it."""
        if self.ending:
            return
        self.ending = self.pipeline.stopping = True
        running = [live for session in self._in_memory() for live in session.live.values()]
        if running:
            await asyncio.wait([asyncio.ensure_future(live.ended()) for live in running], timeout=grace)
        await self._leave_to_recovery()
        self.pipeline.scheduler.stop()
        self.pipeline.starter.close()
        if self._expiry is not None:
            self._expiry[1].cancel()
            self._expiry = None
        for source in self._sources:
            await source.stop()
        await self.store.close()
        if self.pipeline.threads is not None:
            self.pipeline.threads.shutdown(wait=False, cancel_futures=True)

    async def _leave_to_recovery(self) -> None:
        """What still runs is cancelled without a word in the log, and has a while to clean up."""
        tasks = []
        for session in self._in_memory():
            for live in list(session.live.values()):
                if live.task is not None:
                    live.task.cancel()
                    tasks.append(live.task)
                live.end()
            session.live.clear()
        if tasks:
            await asyncio.wait(tasks, timeout=self.pipeline.limits.cleanup_s)
        self._sessions.clear()
        self._attached.clear()

    def _in_memory(self) -> list[Session]:
        return [*self._sessions.values(), *self._attached.values()]

    # Tools

    def add(self, *sources: Any, replace: bool = False) -> None:
        """Registers more tools; open sessions see them at their next listing.

        Raises:
            Refused: `conflict`, the name is taken.
        """
        tools: list[Tool] = []
        for source in map(as_source, sources):
            if not isinstance(source, Fixed):
                raise Refused("invalid_arguments", f"Source {source.name} has to be given to Crib(...)")
            tools += source.tools
        self.catalog.add(tools, replace=replace)

    def remove(self, *ids: str) -> None:
        """Takes tools out at once; their running calls finish, their queued ones end `not_found`."""
        self.catalog.remove(ids)

    def _register(self, source: Source, tools: Iterable[Tool]) -> None:
        """All tools of a source as of now: what is gone goes, what it had is replaced, what is new is added."""
        tools = list(tools)
        self.catalog.exchange(self._of_source.get(id(source), ()), tools)
        self._of_source[id(source)] = tools

    def _tools_changed(self) -> None:
        for session in self._in_memory():
            if session.renewed() and session.id in self._sessions:
                self.pipeline.aside(session.log("tools_changed", {"tools": session.names()}))
            self._end_unseen(session)

    def _end_unseen(self, session: Session) -> None:
        """Calls in the queue of tools that the session no longer has end; those that have started go on."""
        for live in list(session.live.values()):
            if not live.seated and live.tool is not None and live.tool.id not in session.view.names:
                live.stop(self.pipeline.missing(live))

    # Sessions

    def new_id(self) -> str:
        """A new id for a call."""
        return f"{self._prefix}{next(self._numbers):x}"

    async def open(
        self,
        id: str | None = None,
        *,
        owner: str,
        namespaces: Sequence[str] | None = None,
        grants: Sequence[Any] = (),
        allowed: Sequence[str] | None = None,
    ) -> Session:
        """Creates a session or restores it; `allowed` is what the caller may open, where that is not everything.

        Raises:
            Refused: `invalid_arguments` for a bad id, `denied` for somebody else's or a namespace, `not_found`.
        """
        id = secrets.token_hex(16) if id is None else id
        if not SESSION_ID.fullmatch(id):
            raise Refused("invalid_arguments", "A session id has 1 to 255 characters of [A-Za-z0-9._:-]")
        wanted = None if namespaces is None else self.catalog.resolve(namespaces)
        if allowed is not None:
            _authorize(await self._recorded(id, owner) if wanted is None else wanted, allowed)
        lock = self._opening.setdefault(id, asyncio.Lock())
        async with lock:
            session, made = await self._open(id, owner, wanted, tuple(grants))
        if not made:  # tools are asked there, and run, so no lock is held
            await recover(self, await self.store.calls(id, ("queued", "running"), limit=1_000_000))
        await self._sweep_sometimes(self.pipeline.clock.now())
        return session

    async def _recorded(self, id: str, owner: str) -> tuple[str, ...]:
        """What is open in a session opened without a word about namespaces; nothing is said of a foreign one."""
        row = await self.store.session(id)
        if row is None or row.owner != owner:
            return self.default_namespaces
        return (self._sessions.get(id) or await self.load(row)).namespaces

    async def _open(
        self, id: str, owner: str, wanted: tuple[str, ...] | None, grants: tuple[Any, ...]
    ) -> tuple[Session, bool]:
        """The session, and whether it is new. A logout that is under way is waited for: there is one of each."""
        row, made = await self.store.open(id, owner, self.pipeline.clock.now())
        if row.owner != owner:
            raise Refused("denied", f"Session '{id}' can not be opened")
        session = None if made else self._sessions.get(id)
        if session is not None and session.closing:
            await session.left()
            session = None
        if session is None:
            session = await self._enter(row, made, wanted, grants)
        if wanted is not None and wanted != session.namespaces:
            await self.set_namespaces(session, wanted)
        return session, made

    async def _enter(
        self, row: SessionRow, made: bool, wanted: tuple[str, ...] | None, grants: tuple[Any, ...]
    ) -> Session:
        if made:
            session = Session(self, row.id, row.owner, self.default_namespaces if wanted is None else wanted)
        else:
            session = self._attached.get(row.id) or await self.load(row)
        session.grants = grants or session.grants
        self._sessions[row.id] = session
        self._attached.pop(row.id, session)
        opened = {"owner": row.owner, "namespaces": session.namespaces, "tools": session.names(), "restored": not made}
        await session.log("opened", opened | ({"grants": list(grants)} if grants else {}))
        return session

    async def set_namespaces(self, session: Session, namespaces: tuple[str, ...]) -> None:
        """Replaces what is open in a session, from now on; what has started goes on."""
        session.namespaces = namespaces
        session.refresh()
        self._end_unseen(session)
        await session.log("namespaces", {"namespaces": namespaces, "tools": session.names()})

    async def load(self, row: SessionRow) -> Session:
        """A session as its log tells it; nothing is written."""
        session = Session(self, row.id, row.owner, self.default_namespaces)
        after = 0
        while page := await self.store.read(row.id, after, call="", limit=1000):
            for event in page:
                after = event.seq
                session.recall(event)
        if row.revision:
            session.state = await self.fold_state(row.id)
        return session

    async def attached(self, id: str) -> Session | None:
        """The session of that id: the open one, else one made from its log."""
        session = self._sessions.get(id) or self._attached.get(id)
        if session is None:
            row = await self.store.session(id)
            if row is not None:
                loaded = await self.load(row)
                session = self._sessions.get(id) or self._attached.setdefault(id, loaded)
        return session

    def forget(self, session: Session) -> None:
        """A session that was closed leaves nothing behind."""
        for known in (self._sessions, self._attached):
            if known.get(session.id) is session:
                del known[session.id]

    async def fold_state(self, id: str) -> State:
        """The state of a session, from its log."""
        state, after = State(self.state_keys), 0
        while page := await self.store.read(id, after, limit=1000):
            for event in page:
                after = event.seq
                if event.kind == "done" and "state" in event.data:
                    said = event.data["state"]
                    state.commit([Change(**change) for change in said["changes"]], said["base"], event.call or "")
        return state

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: float | None = None
    ) -> list[SessionRow]:
        """Sessions, the last used first."""
        return await self.store.sessions(owner, limit=limit, before=before)

    async def questions(self, owner: str | None = None) -> list[Question]:
        """What is open in all sessions, or in those of one owner."""
        rows = await self.store.calls(None, ("waiting",), limit=10_000)
        found: list[Question] = []
        for row in rows:
            session = await self.store.session(row.session)
            if session is not None and owner in (None, session.owner):
                loaded = self._sessions.get(row.session) or await self.load(session)
                question = (await loaded.history(row)).question
                if question is not None:
                    found.append(question)
        return found

    # What happens by itself

    def _expiry_changed(self, when: float) -> None:
        """There is one timer for all that waits, at the earliest end."""
        if self._expiry is not None:
            if self._expiry[0] <= when:
                return
            self._expiry[1].cancel()

        def ring() -> None:
            self.pipeline.aside(self._expire())

        self._expiry = (when, self.pipeline.clock.call_at(when, ring))

    async def _expire(self) -> None:
        self._expiry = None
        now = self.pipeline.clock.now()
        while rows := await self.store.expiring(now):
            for row in rows:
                session = await self.attached(row.session)
                if session is not None:
                    await answering.end_waiting(session, row, await self._nobody(session, row))
        when = await self.store.next_expiry()
        if when is not None and not self.ending:
            self._expiry_changed(when)

    async def _nobody(self, session: Session, row: Row) -> Failure:
        question = (await session.history(row)).question
        seconds = 0.0 if question is None else round(question.expires_at - question.asked_at, 3)
        return Failure("timeout", f"Nobody answered within {_span(seconds)}", row.effect != "once")

    async def sweep(self, *, dry_run: bool = False) -> int:
        """Deletes sessions that were not used for the retention time; how many."""
        if self.retention is None:
            return 0
        now = self.pipeline.clock.now()
        return await self.store.sweep(now - self.retention.total_seconds(), now, dry_run=dry_run)

    async def _sweep_sometimes(self, now: float) -> None:
        if now - self._swept >= SWEEP_S:
            self._swept = now
            await self.sweep()


def _authorize(namespaces: Iterable[str], allowed: Sequence[str]) -> None:
    """A glob is only within what is allowed if it is there itself: nobody knows what it will match tomorrow."""
    for name in namespaces:
        exact = not set(name) & set("*?[")
        if "*" not in allowed and name not in allowed and not (exact and any(fnmatchcase(name, a) for a in allowed)):
            raise Refused("denied", f"Namespace '{name}' not authorized. Allowed: [{', '.join(allowed)}]")


def _span(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"

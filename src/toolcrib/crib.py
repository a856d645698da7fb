"""`Crib`: the object a program makes. It joins sources, store and policy, and opens sessions."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakValueDictionary

from toolcrib._call import schedules
from toolcrib._call.abandoned_tasks import bounded, forsake
from toolcrib._call.pipeline import Pipeline
from toolcrib._call.scheduler import Clock, SystemClock
from toolcrib._call.spans import traced
from toolcrib._call.suspension import look_after_all
from toolcrib._call.threads import Threads
from toolcrib._session import archive, permissions
from toolcrib._session.account_calls import resume_connected
from toolcrib._session.call_lists import open_questions
from toolcrib._session.crib_arguments import check_arguments, check_deps, check_texts
from toolcrib._session.expiry import end_overdue
from toolcrib._session.orphans import OrphanRecovery
from toolcrib._session.recovery import recover, take_up_lost
from toolcrib._session.session_list import sessions_of
from toolcrib._session.state_declarations import announce
from toolcrib.catalog import Catalog
from toolcrib.catalog.fingerprints import Fingerprints
from toolcrib.catalog.registry import Arrangement, SourceRegistry
from toolcrib.context import AgentRunner, Deps
from toolcrib.engine import Engine, open_engine
from toolcrib.errors import Refused, StoreError
from toolcrib.events import (
    Done,
    NamespacesChanged,
    Opened,
    RunEnded,
    SessionDeleted,
    StateRecord,
    ToolsChanged,
    Waiting,
)
from toolcrib.keywords import ScheduleKeywords
from toolcrib.policy import ANYWHERE, DataOrigin, DefaultPolicy, Policy
from toolcrib.session import Session
from toolcrib.sources import Fixed, Source, as_source
from toolcrib.sources.session_tools import builtins
from toolcrib.state import Key, Mode, declared
from toolcrib.store import OWNER, SessionRow, Store, open_store
from toolcrib.store.shared import SharedStore
from toolcrib.store.vault import SecretKey
from toolcrib.tool import Tool
from toolcrib.types import Credentials, CribLimits, Layer, Question, ScheduleEntry

if TYPE_CHECKING:
    from toolcrib.accounts import Accounts, AccountSettings
    from toolcrib.policy.paths import Folders

SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,255}")
WEEK = timedelta(days=7)
SWEEP_S, SHORTEST_S = 3600.0, 1.0
SOURCES_S = 10.0
"""How long a start waits for sources, unless they are required; what they have comes later then."""

OTHERS_S = 10.0
"""How often it is looked for calls that other processes let wait, and that come due."""

PART_S = 5.0
"""How long a part of a crib has to stop."""

log = logging.getLogger("toolcrib")


class Crib:
    """Sources, a store and a policy; use it with `async with`.

    `sources` are functions, `Tool`s, modules or `Source`s. `store` is a URL or a `Store`, `engine` what makes several
    cribs over one Postgres store one cluster: a URL such as `nats://host` or an `Engine`. `policy` is a `Policy`, or
    what a file would say; `workspace` is the folder that paths start from. `deps` are given to tools by name or type.
    `state_keys` declares commutative keys; `declare` says by id or glob what tools do not say of themselves. `layer`
    wraps the execution of every call. `agents`, see `toolcrib.agent.Agents`, run over its sessions. `credentials` gives
    tools the keys of the session's owner: a function of owner and name. `accounts` are services that owners connect
    with. `secret_key` encrypts what is kept of them and of secret arguments: a text of 32 characters, a `Path` or a
    function; without one, a file of the user's state folder does.
    `origin` is the file that all of this was read from, so that what is wrong is told with its line.
    """

    def __init__(  # noqa: PLR0913 - the one place where everything is put together, all by name
        self,
        sources: Iterable[Any] = (),
        *,
        store: str | Store = "memory:",
        policy: Policy | Mapping[str, Any] | None = None,
        workspace: str | PathLike[str] | None = None,
        engine: str | Engine | None = None,
        limits: CribLimits | None = None,
        retention: timedelta | None = WEEK,
        deps: Mapping[str, Any] | None = None,
        state_keys: Mapping[str, Mode | Key] | None = None,
        namespace_aliases: Mapping[str, str] | None = None,
        default_namespaces: Sequence[str] = ("default",),
        precedence: Sequence[str] = (),
        declare: Mapping[str, Mapping[str, Any]] | None = None,
        layer: Layer | None = None,
        clock: Clock | None = None,
        agents: AgentRunner | None = None,
        credentials: Credentials | None = None,
        accounts: Iterable[AccountSettings] = (),
        secret_key: SecretKey | None = None,
        origin: DataOrigin = ANYWHERE,
    ) -> None:
        check_arguments(sources, limits=limits, policy=policy, retention=retention, deps=deps, agents=agents)
        check_texts(default_namespaces=default_namespaces, precedence=precedence)
        self.agents = agents
        self.origin = origin
        self.catalog = Catalog(precedence, namespace_aliases)
        self._workspace = workspace
        self.store: Store = open_store(store) if isinstance(store, str) else store
        self.pipeline = Pipeline(
            self.catalog, self.store, self._judge(policy), limits or CribLimits(), clock or SystemClock()
        )
        self.pipeline.engine = open_engine(engine) if isinstance(engine, str) else engine
        self.pipeline.deps = Deps(deps)
        self.pipeline.layer = layer
        self.pipeline.credentials = credentials
        if secret_key is not None:
            self.pipeline.vault.use(secret_key)
        self.accounts = self._account_book(accounts)
        self.pipeline.expiry_changed = self._expiry_changed
        self.retention = retention
        self.state_keys = dict(state_keys or {})
        self.warnings: list[str] = []
        self.default_namespaces = tuple(default_namespaces)
        self.ending = False
        self.recovering: set[str] = set()
        self.watched: set[str] = set()
        self.rescue = OrphanRecovery()
        self.patience = SOURCES_S
        self.at_once = False
        given = [Fixed("builtin", builtins()), *(as_source(one, workspace) for one in sources)]
        pins = Fingerprints(lambda: self.store, self.pipeline.clock.now) if self._pins(given) else None
        self.stock = SourceRegistry(self.catalog, given, declare or {}, pins)
        check_deps((tool for source in given if isinstance(source, Fixed) for tool in source.tools), self.pipeline.deps)
        self._use_accounts(given)
        self._sessions: dict[str, Session] = {}
        self._attached_sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._expiry: tuple[float, Any] | None = None
        self._swept = float("-inf")
        self._sweep_timer: Any = None
        self.moved: Callable[[], int] | None = None
        self.catalog.listen(self._tools_changed)

    def _pins(self, sources: Iterable[object]) -> bool:
        """Whether it is kept what tools of strangers look like: as the policy says, else where a server says it."""
        pin = getattr(self.pipeline.policy, "pin", None)
        return pin != "off" if pin is not None else any(getattr(source, "pinned", False) for source in sources)

    def _account_book(self, accounts: Iterable[AccountSettings]) -> Accounts:
        """The accounts that owners of this crib can connect."""
        from toolcrib.accounts import Accounts
        from toolcrib.accounts.account_log import AccountLog

        pipeline = self.pipeline
        clock = pipeline.clock  # whose time a store may bring at the start
        kept = AccountLog(lambda: self.store, pipeline.vault, clock, lambda: pipeline.worker)
        made = Accounts(accounts, kept, clock)
        made.listen(partial(resume_connected, self))
        return made

    def _use_accounts(self, sources: Iterable[object]) -> None:
        """Gives sources the accounts that they are used with; one that nobody described is described by its source."""
        from toolcrib.accounts import AccountSettings

        for source in sources:
            wish: Mapping[str, Any] | None = getattr(source, "account", None)
            if wish is not None:
                if wish["name"] not in self.accounts:
                    self.accounts.declare(AccountSettings(**wish))
                source.use_accounts(self.accounts)  # type: ignore[attr-defined]  # who has an account takes them
        self.pipeline.accounts = self.accounts if self.accounts.settings else None

    def _judge(self, policy: Policy | Mapping[str, Any] | None) -> Policy:
        """A policy as it was given, or as it is written in a file, or the default."""
        if policy is None:
            return DefaultPolicy(lambda: self.folders)
        if not isinstance(policy, Mapping):
            return policy
        from toolcrib.policy.loader import load

        return load(policy, folders=self.folders, place=self.origin.below("policy"))

    @cached_property
    def folders(self) -> Folders:
        """Where paths of calls start: the workspace (the current folder, unless said) and home."""
        from toolcrib.policy.paths import Folders

        workspace = Path.cwd() if self._workspace is None else Path(self._workspace).absolute()
        return Folders(str(workspace), str(Path.home()))

    # Opening and closing

    async def __aenter__(self) -> Crib:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Opens the store, starts the sources, and takes up what a crash left behind.

        Raises:
            StoreUnavailable, StoreTooNew: the store cannot be used.
            BadSecretKey: the key that was given cannot be used.
        """
        self.pipeline.vault.check()
        self.ending = self.pipeline.stopping = False
        self.pipeline.worker = f"w-{secrets.token_hex(8)}"  # what an earlier start left behind is not alive
        limits = self.pipeline.limits
        # A plain function keeps its thread while it waits for one that it called.
        self.pipeline.attach(Threads(limits.per_crib * (limits.depth + 1), "toolcrib-tool"))
        self.pipeline.layer = traced(self.pipeline.layer)
        if isinstance(self.store, SharedStore):
            self.store.facts["state_keys"] = declared(self.state_keys)
        await self.store.start(self.pipeline.worker)
        self.moved = self.store.moved
        clock = self.pipeline.clock
        if isinstance(clock, SystemClock):  # where machines share a store, they share its time
            clock.now = self.store.now or clock.now
        try:
            self.pipeline.starting = True  # what cannot be written then is a reason not to start
            await self._begin()
        except BaseException:  # what was started is let go
            self.ending = self.pipeline.stopping = True
            await self.rescue.stop()
            await self._leave_to_recovery(1.0)
            await self.stock.stop()
            await self.store.close()
            raise
        finally:
            self.pipeline.starting = False

    async def _begin(self) -> None:
        await self.stock.start(self.pipeline.aside, self.patience, at_once=self.at_once)
        self.warnings = await announce(self)
        self.store.own_changed = self._changed_elsewhere
        if isinstance(self.store, SharedStore):
            self.store.in_use = lambda session: self._at_hand(session) is not None
        if self.pipeline.engine is None:
            await take_up_lost(self)
        else:
            await self.pipeline.engine.start(self)
        if self.accounts.settings:
            await self.accounts.start()
        await self._look_for_expiry()
        if self.pipeline.engine is None and self.store.url != "memory:":
            self.rescue.add(self._look_for_others, OTHERS_S)
        self._sweep_later()
        if self.agents is not None:
            self.agents.start(self)

    async def stop(self, grace: float = 5.0) -> None:
        """Waits a little for what runs, and leaves the rest to recovery. It is no logout: nothing is ended for it.

        The last part of `grace` is for bodies that clean up when they are cancelled. One that does not end even then is
        left behind, and keeps nobody waiting.
        """
        if self.pipeline.stopping:
            return
        self.pipeline.stopping = True
        if self.agents is not None:
            await bounded(self.agents.stop(), PART_S, "a run of an agent")
        if self.pipeline.engine is not None:
            await bounded(self.pipeline.engine.quiet(), PART_S, "the engine")
        cleanup = min(self.pipeline.limits.cleanup_s, max(grace / 5, 1.0))
        try:
            async with asyncio.timeout(max(grace - cleanup, 0.0)):
                while running := [live for session in self._in_memory() for live in session.live.values()]:
                    await asyncio.wait([asyncio.ensure_future(live.ended()) for live in running])
        except TimeoutError:
            pass
        self.ending = True
        await bounded(self.rescue.stop(), PART_S, "the rescue of calls")
        await self._leave_to_recovery(cleanup)
        self.pipeline.scheduler.stop()
        self.pipeline.starter.close()
        self._cancel_timers()
        await self.accounts.stop()
        if self.agents is not None:
            await bounded(self.agents.close(), PART_S, "a script of an agent")
        await bounded(self.stock.stop(), PART_S, "a source")
        await self.store.close()
        if self.pipeline.engine is not None:
            await bounded(self.pipeline.engine.close(), PART_S, "the engine")
        if self.pipeline.threads is not None:
            self.pipeline.threads.shutdown(wait=False, cancel_futures=True)

    async def take_over(self, other: Crib) -> None:
        """Goes on with the sources, declarations, policy and agents of a crib that was made and not started.

        Sources that both have stay; others are started before they are used, and what is gone stops when its calls have
        ended. What runs goes on with what it began with. All other settings stay as they are.

        Raises:
            Refused: `conflict`, two tools have one id; nothing was changed.
        """
        sources = [self.stock.configured[0], *other.stock.configured[1:]]  # what is built in stays
        await self._prepare(sources)
        self._retire_all(await self.stock.exchange(sources, other.stock.declared, self.patience))
        self.pipeline.policy = other.pipeline.policy
        if other.agents is not None and self.agents is not None:
            self.agents.take_over(other.agents)
        elif other.agents is not None:
            self.agents = other.agents
            self.agents.start(self)
        for session in self._in_memory():
            session._policy_changed()

    async def _arrange(self, arrangement: Arrangement) -> None:
        """Goes on with the sources that administrators added, and without those that they disabled.

        Raises:
            Refused: `conflict`, two tools have one id; nothing was changed.
        """
        await self._prepare(arrangement.added)
        self._retire_all(await self.stock.arrange(arrangement, self.patience))

    async def _prepare(self, sources: Iterable[Source]) -> None:
        """Gives sources that come while it runs what those of its start have."""
        self._use_accounts(sources)
        if not self.stock.pinned and self._pins(sources):
            await self.stock.pin_with(Fingerprints(lambda: self.store, self.pipeline.clock.now))

    def _retire_all(self, gone: Iterable[tuple[Source, Iterable[Tool]]]) -> None:
        for source, tools in gone:
            self.pipeline.aside(self._retire(source, tools))

    async def _retire(self, source: Source, tools: Iterable[Tool]) -> None:
        """Stops a source that is no longer there, when the calls of its tools have ended."""
        gone = {id(tool) for tool in tools}
        calls = [live for session in self._in_memory() for live in session.live.values() if id(live.tool) in gone]
        if calls:
            await asyncio.wait([asyncio.ensure_future(live.ended()) for live in calls])
        async with self.stock.changing:
            if source not in self.stock.sources:  # it may have been enabled again
                await bounded(self.stock.stop_source(source), PART_S, f"source {source.name}")

    async def _leave_to_recovery(self, cleanup: float) -> None:
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
            await asyncio.wait(tasks, timeout=cleanup)
        forsake([*tasks, *self.pipeline.adrift])
        self._sessions.clear()
        self._attached_sessions.clear()

    def share(self) -> None:
        """Has owners share seats, and bounds what each queues and lets wait, unless limits say otherwise.

        A server with keys asks for it.
        """
        if self.pipeline.limits.shared is None and not self.pipeline.scheduler.shared:
            self.pipeline.share()

    def _in_memory(self) -> list[Session]:
        return [*self._sessions.values(), *self._attached_sessions.values()]

    @property
    def in_memory(self) -> int:
        """How many sessions this process holds."""
        return len(self._sessions) + len(self._attached_sessions)

    def __repr__(self) -> str:
        tools = len(self.catalog.view(("*",)).tools)
        kind = type(self.store).__name__
        return f"<Crib of {tools} tools over {kind}, {self.in_memory} sessions, {self.in_flight} calls in flight>"

    @property
    def in_flight(self) -> int:
        """How many calls this process works on."""
        return sum(len(session.live) for session in self._in_memory())

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
        check_deps(tools, self.pipeline.deps)
        self.catalog.add(tools, replace=replace)

    def remove(self, *ids: str) -> None:
        """Takes tools out at once; their running calls finish, their queued ones end `not_found`."""
        self.catalog.remove(ids)

    async def accept(self, *ids: str, actor: str) -> list[Tool]:
        """From now on these tools of untrusted sources are expected to look as they do; without ids all that changed.

        Raises:
            Refused: `not_found`, there is no such tool; `invalid_arguments`, nothing is pinned.
        """
        return await self.stock.accept(ids, actor)

    def _tools_changed(self) -> None:
        if self.stock.pending:
            self.rescue.soon()  # calls may have waited for these tools
        for session in self._in_memory():
            if session._renewed() and session.id in self._sessions:
                self.pipeline.aside(session._log(ToolsChanged(session.names())))
            self._end_unseen(session)

    def _end_unseen(self, session: Session) -> None:
        """Calls in the queue of tools that the session no longer has end; those that have started go on."""
        for live in list(session.live.values()):
            if self.pipeline.scheduler.seats(live) or live.desk is not None or live.tool is None:
                continue
            if live.tool.id not in session._view.names:
                live.stop(self.pipeline.admission.missing(live.request))

    # Sessions

    async def open(
        self,
        id: str | None = None,
        *,
        owner: str,
        namespaces: Sequence[str] | None = None,
        grants: Mapping[str, Any] | Sequence[str] = (),
        allowed: Sequence[str] | None = None,
    ) -> Session:
        """Creates a session or restores it; `allowed` is what the caller may open, where that is not everything.

        Such a caller cannot undo a narrowing: their `grants` are added to those of the session, and namespaces that
        `Session.narrow` took away stay away.

        Raises:
            Refused: `invalid_arguments` for a bad id, `denied` for somebody else's or a namespace, `not_found`,
                `too_large` for too many grants.
        """
        if self.pipeline.threads is None:
            raise Refused("unavailable", "The crib is not started", "use `async with Crib(...) as crib:`")
        if isinstance(namespaces, str) or not isinstance(owner, str):
            raise Refused("invalid_arguments", "namespaces is a list of texts and owner a text")
        id = secrets.token_hex(16) if id is None else id
        if not SESSION_ID.fullmatch(id):
            raise Refused("invalid_arguments", "A session id has 1 to 255 characters of [A-Za-z0-9._:-]")
        if id.startswith(f"{OWNER}.") or owner == OWNER:
            raise Refused(
                "denied", f"The owner '{OWNER}' and sessions '{OWNER}.*' are the crib's own: choose another name"
            )
        wanted = None if namespaces is None else self.catalog.resolve(namespaces)
        if allowed is not None:
            authorize(await self._recorded(id, owner) if wanted is None else wanted, allowed)
        limited = allowed is not None and "*" not in allowed
        most = self.pipeline.limits.grants_per_session
        rights = permissions.SessionRights(wanted, permissions.grants_of(grants, most), limited, most)
        lock = self._opening.setdefault(id, asyncio.Lock())
        async with lock:
            session, made = await self._open(id, owner, rights)
        if not made and self.pipeline.engine is None:  # tools are asked there, and run, so no lock is held
            await recover(self, await self.store.calls(id, ("queued", "running"), limit=1_000_000))
        if not made and self.agents is not None:
            await look_after_all(session)
        await self._sweep_sometimes()
        if not made and self.agents is not None:
            self.agents.news(session)
        return session

    async def _recorded(self, id: str, owner: str) -> tuple[str, ...]:
        """What is open in a session opened without a word about namespaces; nothing is said of a foreign one."""
        row = await self.store.session(id)
        if row is None or row.owner != owner:
            return self.default_namespaces
        return (self._sessions.get(id) or await self._load(row)).namespaces

    async def _open(self, id: str, owner: str, rights: permissions.SessionRights) -> tuple[Session, bool]:
        """The session, and whether it is new. A logout that is under way is waited for: there is one of each."""
        row, made = await self.store.open(id, owner, self.pipeline.clock.now())
        if row.owner != owner:
            raise Refused("denied", f"Session '{id}' cannot be opened")
        session = None if made else self._at_hand(id)
        if session is not None and session.closing:
            await session.left()
            session = None
        session = None if made else self._sessions.get(id)
        if session is not None:
            await self._refresh(session, row.revision)  # another process may have closed it
        if session is None or session.shut:
            session = await self._enter(row, made, rights)
        wanted, grants = rights.of(session)
        if (wanted, grants) != (session.namespaces, session.grants):
            session.grants, session.judge = grants, None
            await self._set_namespaces(session, wanted, widened=not rights.limited and session.ceiling is not None)
        return session, made

    async def _enter(self, row: SessionRow, made: bool, rights: permissions.SessionRights) -> Session:
        if made:
            opened = self.default_namespaces if rights.namespaces is None else rights.namespaces
            session = Session(self, row.id, row.owner, opened)
        else:
            session = self._sessions.get(row.id) or self._attached_sessions.get(row.id) or await self._load(row)
        _, session.grants = rights.of(session)
        session.judge = None
        session.shut = False
        self._sessions[row.id] = session
        self._attached_sessions.pop(row.id, session)
        grants = list(session.grants) if rights.grants else None
        await session._log(Opened(row.owner, session.namespaces, session.names(), not made, grants))
        session.restored = not made
        log.info("session %s of %s was %s", row.id, row.owner, "opened" if made else "restored")
        return session

    async def _set_namespaces(
        self, session: Session, namespaces: tuple[str, ...], *, narrowed: bool = False, widened: bool = False
    ) -> None:
        """Replaces what is open in a session, from now on; what has started goes on.

        What `narrowed` took away, only a caller who may open everything gives back; then it was `widened`.
        """
        async with session._lock:
            session.namespaces = namespaces
            session._refresh()
            self._end_unseen(session)
            session.ceiling = namespaces if narrowed else None if widened else session.ceiling
            grants = list(session.grants) or None
            await session._log(NamespacesChanged(namespaces, session.names(), narrowed, widened, grants))

    async def _load(self, row: SessionRow) -> Session:
        """A session as its log tells it; nothing is written."""
        session = Session(self, row.id, row.owner, ())
        await self._refresh(session, row.revision)
        if not session.seen:  # nobody wrote yet what is open in it
            session.namespaces = self.default_namespaces
        return session

    async def _refresh(self, session: Session, revision: int) -> None:
        """Takes in what others did to a session since it was last looked at."""
        async with session._lock:
            news = session.news
            while page := await self.store.read(session.id, session.seen, call="", limit=1000):
                for event in page:
                    session._recall(event)
                session._refresh()
            session.known = news
        if revision > session.state.revision:
            await self._fold_state(session)
        if self.agents is not None:
            await self.agents.load(session)

    async def _renew(self, session: Session) -> None:
        """Takes in what others did to a session, and to its state, up to now."""
        moved = session.moved if self.moved is None else self.moved()
        row = await self.store.session(session.id)
        if row is not None:
            await self._refresh(session, row.revision)
        session.moved = moved

    async def _attached(self, id: str) -> Session | None:
        """The session of that id: the open one, else one made from its log."""
        session = self._at_hand(id)
        if session is None:
            row = await self.store.session(id)
            session = None if row is None else await self._attach(row)
        return session

    def _at_hand(self, id: str) -> Session | None:
        """The session of that id, if it is in memory."""
        return self._sessions.get(id) or self._attached_sessions.get(id)

    async def _attach(self, row: SessionRow) -> Session:
        """The session of that row, from memory or else made from its log."""
        session = self._at_hand(row.id)
        if session is None:
            loaded = await self._load(row)
            session = self._sessions.get(row.id) or self._attached_sessions.setdefault(row.id, loaded)
        return session

    def _changed_elsewhere(self, id: str) -> None:
        """Another node changed what belongs to a session itself, its namespaces say; with "" any may have changed."""
        # Where a look into memory tells, the others are looked at when they are used next.
        some = [session for session in self._in_memory() if session.live or self.moved is None]
        for session in [self._at_hand(id)] if id else some:
            if session is not None and not self.ending:
                session.news += 1  # until it has caught up, nothing is accepted by what may be revoked
                self.pipeline.aside(self._catch_up(session))

    async def _catch_up(self, session: Session) -> None:
        """Takes in what others changed; where the store is away, the next call tries again."""
        try:
            await self._renew(session)
        except StoreError as error:
            log.info("session %s catches up later: %s", session.id, error)

    def _forget(self, session: Session) -> None:
        """A session that was closed leaves nothing behind."""
        for known in (self._sessions, self._attached_sessions):
            if known.get(session.id) is session:
                del known[session.id]

    async def _fold_state(self, session: Session) -> None:
        """Brings the state of a session up to its log."""
        while page := await self.store.read(session.id, session.state_seen, limit=1000):
            for event in page:
                session.state_seen = max(event.seq, session.state_seen)
                if event.kind not in (RunEnded.kind, Done.kind, Waiting.kind):
                    continue
                match event.data:
                    case RunEnded(run=run):
                        session.state.end(run)
                    case Done(state=StateRecord() as state) | Waiting(state=StateRecord() as state):
                        session.state.replay(state, event.call or "")

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: SessionRow | None = None
    ) -> list[SessionRow]:
        """Sessions, the last used first, without the crib's own; `before`, the last of a page, pages on."""
        return await sessions_of(self.store, owner, limit=limit, before=before)

    async def export_session(self, id: str) -> AsyncIterator[bytes]:
        """A session as lines of JSON, with its log, large values and cursors and a checksum; it is not changed.

        Raises:
            Refused: `not_found`.
        """
        await self.store.flush()
        row = await self.store.session(id)
        if row is None or row.owner == OWNER:
            raise Refused("not_found", f"There is no session '{id}'")
        async for line in archive.export(self.store, row, self.pipeline.clock.now()):
            yield line

    async def import_session(
        self, lines: Iterable[bytes], *, id: str | None = None, owner: str | None = None
    ) -> SessionRow:
        """Makes a session of what was exported, under its own id and owner or under others, once all was checked.

        Whoever may do this writes a log: it is for who looks after the crib.

        Raises:
            Refused: `invalid_arguments`, it is damaged; `conflict`, there is a session of that id.
        """
        contents = archive.read(lines)
        name, whose = id or contents.about.id, owner or contents.about.owner
        if not SESSION_ID.fullmatch(name) or name.startswith(f"{OWNER}.") or whose == OWNER:
            raise Refused("invalid_arguments", f"A session cannot be '{name}' of '{whose}'", "choose another id")
        now = self.pipeline.clock.now()
        row = await self.store.session(name) is None and await archive.take_in(self.store, contents, name, whose, now)
        made = await self.store.session(name) if row else None
        if made is None:
            raise Refused("conflict", f"There is a session '{name}'", "import it under another id")
        await self._look_for_expiry()
        return made

    async def delete_session(self, id: str, *, actor: str, force: bool = False) -> SessionDeleted:
        """Deletes a session with all that is its, and leaves a tombstone; with `force` what runs in it is stopped.

        Raises:
            Refused: `not_found`; `conflict`, calls run in it.
        """
        session = await self._attached(id)
        if force and session is not None and session.owner != OWNER:
            await session.interrupt(background=True)
        await self.store.flush()
        reach = () if session is None else session.reach
        stone = await archive.delete(self.store, id, actor, self.pipeline.clock.now(), reach)
        if stone is None:
            raise Refused("conflict", f"Calls run in session '{id}'", "close it first, or delete it with force")
        if (left := self._at_hand(id)) is not None:
            self._forget(left)
        return stone

    async def deleted_sessions(self, owner: str | None = None) -> list[SessionDeleted]:
        """What is left of the sessions that were deleted."""
        return await archive.tombstones(self.store, owner)

    async def questions(self, owner: str | None = None) -> list[Question]:
        """What is open in all sessions, or in those of one owner."""
        return await open_questions(self.store, owner)

    # Scheduled calls

    async def schedule(
        self, session: str, tool: str, args: Any = None, **times: Unpack[ScheduleKeywords]
    ) -> ScheduleEntry:
        """Makes a call later in a session, with the rights of that session; see `Session.schedule`.

        Raises:
            Refused: `not_found`, there is no such session; or what `Session.schedule` refuses.
        """
        found = None if session.startswith(f"{OWNER}.") else await self._attached(session)
        if found is None:
            raise Refused("not_found", f"There is no session '{session}'")
        await self._renew(found)
        return await found.schedule(tool, args, **times)

    async def schedules(self, owner: str | None = None) -> list[ScheduleEntry]:
        """The calls that wait for their time in all sessions, or in those of one owner, the first due first."""
        return await schedules.pending(self.store, owner=owner)

    async def cancel_schedule(self, id: str) -> bool:
        """Ends a schedule of whatever session: it makes no more calls. False where it was over.

        Raises:
            Refused: `not_found`.
        """
        row = await self.store.call(id)
        session = None if row is None else await self._attached(row.session)
        if session is None:
            raise Refused("not_found", f"No such schedule: {id}")
        return await session.cancel_schedule(id)

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

    async def _look_for_expiry(self) -> None:
        """Sets the timer also for what another process let wait, which may be gone by now."""
        when = await self.store.next_expiry()
        if when is not None and not self.ending:
            self._expiry_changed(when)

    async def _look_for_others(self) -> float:
        """Sets the timer for what other processes let wait meanwhile, which may be gone when it is due."""
        await self._look_for_expiry()
        return OTHERS_S

    def _cancel_timers(self) -> None:
        for timer in (None if self._expiry is None else self._expiry[1], self._sweep_timer):
            if timer is not None:
                timer.cancel()
        self._expiry = self._sweep_timer = None

    async def _expire(self) -> None:
        """Ends what waited too long, and sets the timer for the next."""
        if self._expiry is not None:
            self._expiry[1].cancel()
            self._expiry = None
        try:
            await end_overdue(self, self.pipeline.clock.now())
            await self._look_for_expiry()
        except StoreError:
            if not self.ending:  # else whoever opens the store next ends what waited too long
                raise

    async def sweep(self, *, dry_run: bool = False) -> int:
        """Deletes sessions that were not used for the retention time; how many."""
        if self.retention is None:
            return 0
        now = self.pipeline.clock.now()
        if not dry_run:
            await self._expire()
        return await self.store.sweep(now - self.retention.total_seconds(), now, dry_run=dry_run)

    @property
    def _sweep_s(self) -> float:
        """How often sessions are swept: hourly, or as often as the retention time is over where that is less."""
        retention = SWEEP_S if self.retention is None else self.retention.total_seconds()
        return min(SWEEP_S, max(retention, SHORTEST_S))

    async def _sweep_sometimes(self) -> None:
        """Sweeps if the last time was an hour ago."""
        now = self.pipeline.clock.now()
        if now - self._swept >= SWEEP_S:
            self._swept = now
            await self.sweep()

    def _sweep_later(self) -> None:
        """Whoever uses the store for long sweeps it, also where no session is opened. A test has its own time."""
        clock = self.pipeline.clock
        if self.retention is not None and not self.ending and isinstance(clock, SystemClock):

            def ring() -> None:
                self.pipeline.aside(self._sweep_by_time())

            self._sweep_timer = clock.call_at(clock.now() + self._sweep_s, ring)

    async def _sweep_by_time(self) -> None:
        """Sweeps unless another process of the store just did."""
        now = self.pipeline.clock.now()
        try:
            if await self.store.spend([(f"{OWNER}.sweep", self._sweep_s / 2, 1)], now) == 0:
                self._swept = now
                await self.sweep()
        except StoreError as error:
            log.info("sessions are swept later: %s", error)
        self._sweep_later()

    async def _sweep_hourly(self) -> None:
        """Sweeps every hour until it is cancelled; for what runs for long, a server or a worker."""
        clock = self.pipeline.clock
        while True:
            try:
                await self._sweep_sometimes()
            except StoreError as error:
                log.info("sessions are swept later: %s", error)
            hour = asyncio.get_running_loop().create_future()
            timer = clock.call_at(clock.now() + SWEEP_S, partial(hour.set_result, None))
            try:
                await hour
            finally:
                timer.cancel()


def authorize(namespaces: Iterable[str], allowed: Sequence[str]) -> None:
    """Raises `Refused` where one is not allowed.

    A glob is only within what is allowed if it is there itself: nobody knows what it will match tomorrow.
    """
    for name in namespaces:
        exact = not set(name) & set("*?[")
        if "*" not in allowed and name not in allowed and not (exact and any(fnmatchcase(name, a) for a in allowed)):
            raise Refused("denied", f"Namespace '{name}' not authorized. Allowed: [{', '.join(allowed)}]")

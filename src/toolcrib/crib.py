"""`Crib`: the object a program makes. It joins sources, store and policy, and opens sessions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from toolcrib._call import schedules
from toolcrib._call.abandoned_tasks import PART_S, bounded
from toolcrib._call.pipeline import Pipeline
from toolcrib._call.ports import AgentRunner
from toolcrib._call.scheduler import Clock, SystemClock
from toolcrib._call.suspension import look_after_all
from toolcrib._call.threads import Threads
from toolcrib._session import archive, permissions
from toolcrib._session.archiver import archiver_of
from toolcrib._session.call_lists import open_questions
from toolcrib._session.crib_arguments import check_arguments, check_deps, check_state_keys, check_texts, policy_of
from toolcrib._session.expiry import OTHERS_S, ExpiryTimer
from toolcrib._session.orphans import OrphanRecovery
from toolcrib._session.recovery import recover, take_up_lost
from toolcrib._session.retention import SessionSweeper
from toolcrib._session.session_ids import session_id
from toolcrib._session.session_list import sessions_of
from toolcrib._session.session_table import SessionTable
from toolcrib._session.shutdown import leave_to_recovery, wait_for_calls
from toolcrib._session.source_changes import fingerprints, make_accounts, retire, use_accounts
from toolcrib._session.state_declarations import announce
from toolcrib.catalog import Catalog
from toolcrib.catalog.registry import Arrangement, SourceRegistry
from toolcrib.context import Deps
from toolcrib.engine import Engine, open_engine
from toolcrib.errors import Refused
from toolcrib.events import SessionDeleted
from toolcrib.keywords import ScheduleKeywords
from toolcrib.policy import ANYWHERE, DataOrigin, Policy
from toolcrib.schema import nearest
from toolcrib.session import Session
from toolcrib.sources import Fixed, Source, as_source
from toolcrib.sources.session_tools import builtins
from toolcrib.state import Key, Mode, declared
from toolcrib.store import OWNER, SessionRow, Store, open_store
from toolcrib.store.shared import SharedStore
from toolcrib.store.vault import SecretKey
from toolcrib.telemetry import telemetry
from toolcrib.tool import Tool
from toolcrib.types import Credentials, CribLimits, Layer, Question, ScheduleEntry

if TYPE_CHECKING:
    from toolcrib.accounts import AccountSettings
    from toolcrib.policy.paths import Folders

WEEK = timedelta(days=7)
SOURCES_S = 10.0
"""How long a start waits for sources, unless they are required; what they have comes later then."""


class Crib:
    """Sources, a store and a policy; use it with `async with`.

    `sources` are functions, `Tool`s, modules or `Source`s. `store` is a URL or a `Store`, `engine` what makes
    several cribs over one Postgres store one cluster: a URL such as `nats://host` or an `Engine`. `policy` is a
    `Policy`, or what a file would say; `workspace` is the folder that paths start from. `deps` are given to tools
    by name or type. `state_keys` declares commutative keys; `declare` says by id or glob what tools do not say of
    themselves. `layer` wraps the execution of every call. `archive` is where sessions go that nobody used for the
    retention time, instead of being deleted: `s3://bucket/prefix` or `file:///folder`. `agents`, see
    `toolcrib.agent.Agents`, run over its sessions. `credentials` gives tools the keys of the session's owner: a
    function of owner and name. `accounts` are services that owners connect with. `secret_key` encrypts what is kept
    of them and of secret arguments: a text of 32 characters, a `Path` or a function; without one, a file of the
    user's state folder does. `trace_content` has spans tell arguments, results and messages too, where a program
    has set up OpenTelemetry.
    `origin` is the file that all of this was read from, so that what is wrong is told with its line.
    """

    ending = False
    patience = SOURCES_S
    at_once = False
    moved: Callable[[], int] | None = None

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
        archive: str | None = None,
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
        trace_content: bool = False,
        origin: DataOrigin = ANYWHERE,
    ) -> None:
        check_arguments(
            sources, limits=limits, policy=policy, retention=retention, archive=archive, deps=deps, agents=agents
        )
        check_texts(default_namespaces=default_namespaces, precedence=precedence)
        check_state_keys(state_keys or {})
        self.agents, self.origin = agents, origin
        self.catalog = Catalog(precedence, namespace_aliases)
        self._workspace = workspace
        self.trace_content = trace_content
        self.store: Store = open_store(store) if isinstance(store, str) else store
        self.retention = retention
        self.state_keys: dict[str, Mode | Key] = dict(state_keys or {})
        self.default_namespaces = tuple(default_namespaces)
        judge = policy_of(policy, lambda: self.folders, origin)
        self.pipeline = Pipeline(self.catalog, self.store, judge, limits or CribLimits(), clock or SystemClock())
        self.pipeline.engine = open_engine(engine) if isinstance(engine, str) else engine
        self.pipeline.deps = Deps(deps)
        self.pipeline.layer = layer
        self.pipeline.credentials = credentials
        if secret_key is not None:
            self.pipeline.vault.use(secret_key)
        self.accounts = make_accounts(self, accounts)
        self._take_sources([as_source(one, workspace) for one in sources], declare or {})
        self._keep_sessions(archive)

    def _take_sources(self, sources: Sequence[Source], declare: Mapping[str, Mapping[str, Any]]) -> None:
        """Register what is built in and the sources of the program."""
        sources = [Fixed("builtin", builtins()), *sources]
        self.registry = SourceRegistry(self.catalog, sources, declare, fingerprints(self, sources))
        fixed = (source for source in sources if isinstance(source, Fixed))
        check_deps((tool for source in fixed for tool in source.tools), self.pipeline.deps)
        use_accounts(self.pipeline, self.accounts, sources)

    def _keep_sessions(self, archive: str | None) -> None:
        """Make what keeps sessions in memory, ends calls that wait too long, and sweeps what nobody uses."""
        self.warnings: list[str] = []
        self.recovering: set[str] = set()
        self.watched: set[str] = set()
        self.rescue = OrphanRecovery()
        self._session_table = SessionTable(self, partial(Session, self), self.default_namespaces)
        self._retire = partial(retire, self.pipeline, self.registry, self._session_table.calls)
        self._expiry = ExpiryTimer(self)
        self.pipeline.expiry_changed = self._expiry.set
        self.archiver = archiver_of(self, archive)
        self._sweeper = SessionSweeper(self, self.retention, self.archiver)
        self.catalog.listen(self._tools_changed)

    def _use_store(self, store: Store) -> None:
        """Works over another store, as long as it was not started."""
        self.store = self.pipeline.store = store
        store.recall = None if self.archiver is None else self.archiver.bring_back

    @cached_property
    def folders(self) -> Folders:
        """The folders in which paths of calls start: the workspace (by default the current folder) and home."""
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
        """Open the store, start the sources, and recover what a crash left behind.

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
        self.pipeline.trace(telemetry(content=self.trace_content))
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
            await leave_to_recovery(self._session_table, self.pipeline.adrift, 1.0)
            await self.registry.stop()
            await self.store.close()
            raise
        finally:
            self.pipeline.starting = False

    async def _begin(self) -> None:
        await self.registry.start(self.pipeline.aside, self.patience, at_once=self.at_once)
        self.warnings = await announce(self)
        self.store.own_changed = self._session_table.changed_elsewhere
        if isinstance(self.store, SharedStore):
            self.store.in_use = lambda session: self._session_table.at_hand(session) is not None
        if self.pipeline.engine is None:
            await take_up_lost(self)
        else:
            await self.pipeline.engine.start(self)
        if self.accounts.settings:
            await self.accounts.start()
        await self._look_for_expiry()
        if self.pipeline.engine is None and self.store.url != "memory:":
            self.rescue.add(self._expiry.look_for_others, OTHERS_S)
        self._sweeper.later()
        if self.agents is not None:
            self.agents.start(self)

    async def stop(self, grace: float = 5.0) -> None:
        """Wait a little for running calls, and leave the rest to recovery. It is no logout: no call is ended for it.

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
        await wait_for_calls(self._session_table, max(grace - cleanup, 0.0))
        self.ending = True
        await bounded(self.rescue.stop(), PART_S, "the rescue of calls")
        await leave_to_recovery(self._session_table, self.pipeline.adrift, cleanup)
        self.pipeline.scheduler.stop()
        self.pipeline.starter.close()
        self._expiry.cancel()
        self._sweeper.cancel()
        await self.accounts.stop()
        if self.agents is not None:
            await bounded(self.agents.close(), PART_S, "a script of an agent")
        await bounded(self.registry.stop(), PART_S, "a source")
        await self.store.close()
        if self.pipeline.engine is not None:
            await bounded(self.pipeline.engine.close(), PART_S, "the engine")
        if self.pipeline.threads is not None:
            self.pipeline.threads.shutdown(wait=False, cancel_futures=True)

    async def take_over(self, other: Crib) -> None:
        """Replace sources, declarations, policy and agents by those of a crib that was made and not started.

        Sources that both have stay; others are started before they are used, and what is gone stops when its calls have
        ended. What runs goes on with what it began with. All other settings stay as they are.

        Raises:
            Refused: `conflict`, two tools have one id; nothing was changed.
        """
        sources = [self.registry.configured[0], *other.registry.configured[1:]]  # what is built in stays
        await self._prepare(sources)
        self._retire(await self.registry.exchange(sources, other.registry.declared, self.patience))
        self.pipeline.policy, self.origin = other.pipeline.policy, other.origin
        if other.agents is not None and self.agents is not None:
            self.agents.take_over(other.agents)
        elif other.agents is not None:
            self.agents = other.agents
            self.agents.start(self)
        for session in self._session_table.all():
            session._policy_changed()

    async def _arrange(self, arrangement: Arrangement) -> None:
        """Add the sources that administrators added, and leave out those that they disabled.

        Raises:
            Refused: `conflict`, two tools have one id; nothing was changed.
        """
        await self._prepare(arrangement.added)
        self._retire(await self.registry.arrange(arrangement, self.patience))

    async def _prepare(self, sources: Iterable[Source]) -> None:
        """Prepare sources that are added while the crib runs as those of its start were."""
        use_accounts(self.pipeline, self.accounts, sources)
        if not self.registry.pinned and (pins := fingerprints(self, sources)) is not None:
            await self.registry.pin_with(pins)

    def share(self) -> None:
        """Share seats among owners, and bound what each queues and lets wait, unless the limits say otherwise.

        A server with keys asks for it.
        """
        if self.pipeline.limits.shared is None and not self.pipeline.scheduler.shared:
            self.pipeline.share()

    @property
    def in_memory(self) -> int:
        """The number of sessions in the memory of this process."""
        return len(self._session_table)

    def sessions_at_hand(self, owner: str | None = None) -> int:
        """Return how many sessions are in memory, of all owners or of one; the crib's own are not counted."""
        wanted = OWNER if owner is None else owner
        return sum((session.owner == wanted) is (owner is not None) for session in self._session_table.all())

    def __repr__(self) -> str:
        tools, store = len(self.catalog.view(("*",)).tools), type(self.store).__name__
        return f"<Crib of {tools} tools over {store}, {self.in_memory} sessions, {self.in_flight} calls in flight>"

    @property
    def in_flight(self) -> int:
        """The number of calls that this process works on."""
        return len(self._session_table.calls())

    # Tools

    def add(self, *sources: Any, replace: bool = False) -> None:
        """Register more tools; open sessions see them at their next listing.

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
        """Remove tools at once; their running calls finish, their queued ones end `not_found`.

        Raises:
            Refused: `not_found`, there is no such tool, and none is taken out.
        """
        known = [tool.id for tool in self.catalog.view(("*",)).tools]
        for id in ids:
            if id not in known:
                close = nearest(id, known, 1)
                raise Refused("not_found", f"Unknown tool: {id}", f"did you mean {close[0]}?" if close else None)
        self.catalog.remove(ids)

    async def accept(self, *ids: str, actor: str) -> list[Tool]:
        """Accept how these tools of untrusted sources look now; without ids, all that changed.

        Raises:
            Refused: `not_found`, there is no such tool; `invalid_arguments`, nothing is pinned.
        """
        return await self.registry.accept(ids, actor)

    def _tools_changed(self) -> None:
        if self.registry.pending:
            self.rescue.soon()  # calls may have waited for these tools
        self._session_table.tools_changed()

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
        """Create or restore a session; `allowed` is what the caller may open, where that is not everything.

        Such a caller cannot undo a narrowing: their `grants` are added to those of the session, and namespaces that
        `Session.narrow` took away stay away.

        Raises:
            Refused: `invalid_arguments` for a bad id or a grant of no family, `denied` for somebody else's or a
                namespace, `not_found`, `too_large` for too many grants.
        """
        if self.pipeline.threads is None:
            raise Refused("unavailable", "The crib is not started", "use `async with Crib(...) as crib:`")
        id = session_id(id, owner, namespaces)
        wanted = None if namespaces is None else self.catalog.resolve(namespaces)
        if allowed is not None:
            permissions.authorize(await self._session_table.recorded(id, owner) if wanted is None else wanted, allowed)
        limited = allowed is not None and "*" not in allowed
        most = self.pipeline.limits.grants_per_session
        rights = permissions.SessionRights(wanted, permissions.grants_of(grants, self), limited, most)
        session, made = await self._session_table.open(id, owner, rights)
        if not made and self.pipeline.engine is None:  # tools are asked there, and run, so no lock is held
            await recover(self, await self.store.calls(id, ("queued", "running"), limit=1_000_000))
        if not made and self.agents is not None:
            await look_after_all(session)
        await self._sweep_sometimes()
        if not made and self.agents is not None:
            self.agents.news(session)
        return session

    def _let_go(self, id: str) -> None:
        """The session of that id is not in the store any more."""
        if (left := self._session_table.at_hand(id)) is not None:
            self._session_table.forget(left)

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: SessionRow | None = None
    ) -> list[SessionRow]:
        """Return sessions, the last used first, without the crib's own; `before`, the last of a page, pages on."""
        return await sessions_of(self.store, owner, limit=limit, before=before)

    async def export_session(self, id: str) -> AsyncIterator[bytes]:
        """Export a session as lines of JSON with its log, large values, cursors and a checksum; it is not changed.

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
        """Import an exported session, under its own id and owner or others, after all of it was checked.

        Whoever may do this writes a log: it is for who looks after the crib.

        Raises:
            Refused: `invalid_arguments`, it is damaged; `conflict`, there is a session of that id.
        """
        row = await archive.import_session(self.store, lines, id, owner, self.pipeline.clock.now())
        await self._look_for_expiry()
        return row

    async def delete_session(self, id: str, *, actor: str, force: bool = False) -> SessionDeleted:
        """Delete a session and everything in it, and leave a tombstone; `force` stops what runs in it.

        Raises:
            Refused: `not_found`; `conflict`, calls run in it.
        """
        session = await self._session_table.attached(id)
        if force and session is not None and session.owner != OWNER:
            await session.interrupt(background=True)
        await self.store.flush()
        reach = () if session is None else session.reach
        stone = await archive.delete(self.store, id, actor, self.pipeline.clock.now(), reach)
        self._let_go(id)
        if self.archiver is not None:
            await self.archiver.forget(id)
        return stone

    async def deleted_sessions(self, owner: str | None = None) -> list[SessionDeleted]:
        """Return the tombstones of deleted sessions."""
        return await archive.tombstones(self.store, owner)

    async def questions(self, owner: str | None = None) -> list[Question]:
        """Return the open questions of all sessions, or of those of one owner."""
        return await open_questions(self.store, owner)

    # Scheduled calls

    async def schedule(
        self, session: str, tool: str, args: Any = None, **times: Unpack[ScheduleKeywords]
    ) -> ScheduleEntry:
        """Make a call later in a session, with the rights of that session; see `Session.schedule`.

        Raises:
            Refused: `not_found`, there is no such session; or what `Session.schedule` refuses.
        """
        attached = None if session.startswith(f"{OWNER}.") else await self._session_table.attached(session)
        if attached is None:
            raise Refused("not_found", f"There is no session '{session}'")
        await self._session_table.renew(attached)
        return await attached.schedule(tool, args, **times)

    async def schedules(self, owner: str | None = None) -> list[ScheduleEntry]:
        """Return the calls that wait for their time in all sessions, or in those of one owner, the first due first."""
        return await schedules.pending(self.store, owner=owner)

    async def cancel_schedule(self, id: str) -> bool:
        """End a schedule of any session; return False if it had ended.

        Raises:
            Refused: `not_found`.
        """
        row = await self.store.call(id)
        session = None if row is None else await self._session_table.attached(row.session)
        if session is None:
            raise Refused("not_found", f"No such schedule: {id}")
        return await session.cancel_schedule(id)

    # What happens by itself

    async def _look_for_expiry(self) -> None:
        """Set the timer also for calls that another process suspended, since that process may be gone."""
        await self._expiry.look()

    async def _expire(self) -> None:
        """End calls that waited too long, and set the timer for the next one."""
        await self._expiry.expire()

    async def sweep(self, *, dry_run: bool = False) -> int:
        """Delete sessions that were not used for the retention time; return how many."""
        return await self._sweeper.sweep(dry_run=dry_run)

    async def _sweep_sometimes(self) -> None:
        """Sweep if the last time was an hour ago."""
        await self._sweeper.sometimes()

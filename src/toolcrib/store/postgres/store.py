"""The log in a Postgres database, shared by any number of processes.

All writes of a process go through one connection, many in one round trip (`group`); readers share a few others. Who
follows a session is told by whoever wrote to it, after the commit (`hints`, `listener`). A thread of its own tells that
this process lives (`heartbeat`).
The database's clock decides what is old, so that no machine's clock matters.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from itertools import accumulate
from typing import Any

from msgspec.structs import astuple

from toolcrib.errors import StoreError
from toolcrib.events import Event, with_values
from toolcrib.store import (
    INFINITE,
    OPEN_STATES,
    SLACK_S,
    USE_S,
    Archive,
    Conflict,
    Damage,
    LogPosition,
    LostCalls,
    Row,
    SessionLook,
    SessionRow,
    Walk,
    WalkFilter,
    Write,
)
from toolcrib.store.codec import WHOLE, PageLimit, decode, encode, size_of
from toolcrib.store.followers import Followers
from toolcrib.store.postgres import rollups
from toolcrib.store.postgres import sessions as postgres_sessions
from toolcrib.store.postgres.archive_index import DatabaseArchiveIndex
from toolcrib.store.postgres.connection import MIGRATE_S, Connection, ConnectionPool, DatabaseAddress, hang_up
from toolcrib.store.postgres.group_commit import BatchWriter, Bounds, GroupCommit
from toolcrib.store.postgres.heartbeat import BEATS, Heartbeat
from toolcrib.store.postgres.hints import Hints
from toolcrib.store.postgres.integrity import damages
from toolcrib.store.postgres.lanes import LANES, Lanes
from toolcrib.store.postgres.listener import Listener, Numbers
from toolcrib.store.postgres.migrations import migrate
from toolcrib.store.postgres.pages import FEWEST, FEWEST_BYTES, Looks, NewestOfSession, Pages, SessionNames
from toolcrib.store.postgres.partitions import SessionKeys, partitions
from toolcrib.store.postgres.sweep import delete_swept, sweep
from toolcrib.store.postgres.walks import in_database
from toolcrib.store.rollups import ROLL_S, Tallies, Tally, TallyFilter, Times
from toolcrib.store.schema import queries
from toolcrib.store.shared import Node, SharedStore, TakenCall
from toolcrib.store.walks import listing

MOST = 2**31 - 1
"""The last event that a session can have."""

SIGHT_S = 0.1
"""How long a process goes by its last look at a session, however it may hear of changes meanwhile."""

SETTLE_S = 1.5 * SIGHT_S
"""Until then nobody goes by an older look, and what was begun by one has been written."""

LEAVE_S = 1.5
"""How long a store that closes waits for the database to take its name from the list of nodes."""

_COLUMNS = 17
"""Of a row of the index, in the order of `Row`."""

EVERY = PageLimit(MOST)
TOGETHER = 50
"""Calls whose events are read in one round trip."""

_ALL = {
    "calls_busy": "calls_busy_all",
    "calls_waiting": "calls_waiting_all",
    "calls_open": "calls_open_all",
    "calls_held": "calls_held_all",
}


class PostgresStore(SharedStore):
    """A store in a database. What it has acknowledged outlives whatever the database outlives."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.facts: dict[str, Any] = {}
        self.migrated = (0, 0)
        self._address = DatabaseAddress(url)
        self._sql = queries("postgres")
        self._followers = Followers()
        self._numbers = Numbers(self._followers)
        self._bounds = Bounds()
        self.archive_index = DatabaseArchiveIndex(
            self._alone, self.flush, lambda: f"{self._sender}-gone", self._gone, lambda: self._sql
        )

    @property
    def in_use(self) -> Callable[[str], bool]:
        """True if a session is open here."""
        return self._numbers.in_use

    @in_use.setter
    def in_use(self, is_in_use: Callable[[str], bool]) -> None:
        self._numbers.in_use = is_in_use

    @property
    def lease_s(self) -> float:
        """For how long a node may be silent."""
        return self._address.lease

    @property
    def shown(self) -> str:
        """Its URL without the password, for people."""
        return self._address.shown

    # Opening and closing

    async def start(self, worker: str) -> None:
        """Connects, migrates, listens, and begins to beat."""
        self._worker, self._sender = worker, secrets.token_hex(6)
        async with AsyncExitStack() as undo:
            first = await self._address.connect(MIGRATE_S)
            undo.push_async_callback(hang_up, first)
            self.migrated = await migrate(first, self._address)
            channel = await first.fetchval(self._sql["channel"])
            started_at = await first.fetchval(self._sql["join"], worker, encode(dict(self.facts)).decode())
            self.partitions = await partitions(first)
            self._pool = ConnectionPool(self._address)
            self._keys = SessionKeys(self._pool, self._numbers, divided=self.partitions > 0)
            self._sql = self._keys.sql
            self._names = SessionNames(self._pool, self._followers, self._numbers)
            self._listener = Listener(self._address, self._sender, self._followers, self._numbers)
            await self._listener.start(channel, self._other_changed, self._names.wanted)
        self._hints = Hints(self._send_hints)
        self._pages = Pages(self._keys)
        self._looks = Looks(self._keys)
        writers = [f"{self._sender}-{n}" for n in range(LANES)] if self._keys.divided else [self._sender]
        groups = [
            GroupCommit(
                self._address, BatchWriter(name, self._keys), self._followers, self._bounds, self._standing, self._hints
            )
            for name in writers
        ]
        self._group = Lanes(groups) if self._keys.divided else groups[0]
        self._heart = Heartbeat(self._address, worker, self.facts, started_at)
        self._heart.start()

    def _other_changed(self, session: str) -> None:
        if self.own_changed is not None:
            self.own_changed(session)

    async def _send_hints(self, hints: list[str]) -> None:
        if self.carry is None or not self.carry(hints):
            await self._listener.notify(hints)

    def heard(self, hint: str) -> None:
        """Takes a hint that came by another way than the database."""
        self._listener.heard(hint)

    async def close(self) -> None:
        """Writes what is left, takes its name from the list of nodes and lets go."""
        written = await self._group.stop()  # what could not be written is lost, as after a kill
        self._followers.nudge()
        await self._hints.stop(listens=written)
        await self._names.stop()
        await asyncio.gather(self._listener.stop(listens=written), self._heart.stop(listens=written))
        listens = written and await self._leave()
        await self._pool.close(listens=listens)
        self._followers.nudge()

    async def _leave(self) -> bool:
        """True if the database heard of it; else others will see that this node beats no more."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._ask("leave", self._worker, self._sender)
        except (StoreError, TimeoutError):
            return False
        return True

    # Writing

    @property
    def behind(self) -> bool:
        """True if more waits for the database than should."""
        return self._group.behind

    def put(self, write: Write) -> Conflict | None:
        """Gathers the write; it is sent within milliseconds."""
        self._group.put(write)
        return None

    async def commit(self, write: Write) -> Conflict | None:
        """Durable when it returns."""
        conflict: Conflict | None = await self._group.do(write)
        return conflict

    async def flush(self) -> None:
        """Waits for everything before it."""
        await self._group.do(None)

    async def _standing(self, writes: list[tuple[Write, bool]]) -> list[Row | None]:
        """What stands in the way of writes that were refused; of a fenced one, what became of its holder."""
        wanted: list[tuple[str, str, str | None]] = []
        for write, fenced in writes:
            if fenced and write.holder is not None:
                wanted.append((write.holder[0], write.session, None))
            elif write.row is not None:
                wanted.append((write.row.id, write.session, write.row.key))
        rows = await self._ask("standing", *map(list, zip(*wanted, strict=True)))
        return [None if row[0] is None else Row(*row) for row in rows]

    # Reading

    async def _ask(self, query: str, *values: Any) -> list[Any]:
        return await self._keys.fetch(query, *values)

    async def _after_writes(self, query: str, *values: Any) -> list[Any]:
        """A read that must see all that was put before it."""
        if self._group:
            await self.flush()
        return await self._ask(query, *values)

    async def open(self, session: str, owner: str, at: float) -> tuple[SessionRow, bool]:
        """Makes or finds a session."""
        attempts = 0

        async def do(db: Connection) -> tuple[Any, bool]:
            nonlocal attempts
            attempts += 1
            made = await db.fetchrow(self._sql["open_session"], session, owner, at)
            if made is not None:
                return made, True
            key = await db.fetchval(self._sql["number"], session) if self._keys.divided else session
            await db.execute(self._sql["use_session"], key, owner, at, USE_S)
            existing = await db.fetchrow(self._sql["session"], key)
            # Where the answer to a first attempt was lost, it may be that one which made it.
            ours = attempts > 1 and existing is not None and tuple(existing)[1:6] == (owner, 0, 0, at, at)
            return existing, ours

        row, made = await self._pool.run(do)
        if row is None:  # it was swept in between
            return await self.open(session, owner, at)
        return self._met(row), made

    def _met(self, value: Any) -> SessionRow:
        """A session, of which other processes may tell from now on."""
        self._numbers.met(value[0], value[6])
        return SessionRow(*value[:6])

    async def read(
        self,
        session: str,
        after: int = 0,
        *,
        limit: int = 1000,
        until: int | None = None,
        call: str | None = None,
        extent: PageLimit = WHOLE,
    ) -> list[Event]:
        """From the tail while the reader keeps up, else from the database."""
        if call is None and until is None:
            recent = self._followers.tail(session, after, limit, extent.max_bytes)
            if recent is not None:
                return recent
        name = "events" if call is None else "events_of_call" if call else "events_of_session"
        last = MOST if until is None else max(min(until, MOST), 0)
        followed, nudges = session in self._followers, self._followers.nudges
        after = max(min(after, MOST), 0)
        if call is None and until is None:
            lines = await self._pages.get(session, after, limit, extent.max_bytes)
        else:
            lines = await self._ask(name, session, after, last, limit, extent.max_bytes, *([call] if call else ()))
        page, size = await self._page(session, lines, extent)
        complete = len(page) < min(limit, FEWEST) and size < min(extent.max_bytes, FEWEST_BYTES)
        if followed and call is None and until is None and complete:
            self._followers.read(session, after, page, nudges)
        return page

    async def _page(self, session: str, items: list[Any], extent: PageLimit) -> tuple[list[Event], int]:
        """A page that its large values count for, and its bytes."""
        lengths = [size_of(line[4]) for line in items]
        larges: list[dict[str, str]] = [decode(line[5]) if line[5] else {} for line in items]
        if not any(larges):
            return await self._events(session, items), sum(lengths)
        ids = list({id for large in larges for id in large.values()})
        sizes = dict(await self._ask("kept_sizes", session, ids))
        if extent.whole:
            lengths = [
                n + sum(sizes.get(id, 0) for id in large.values()) for n, large in zip(lengths, larges, strict=True)
            ]
            before = [total - n for total, n in zip(accumulate(lengths), lengths, strict=True)]
            count = sum(size < extent.max_bytes for size in before)
            return await self._events(session, items[:count]), sum(lengths[:count])
        events = [
            Event(seq, at, call, kind, data.encode(), {name: sizes.get(id, 0) for name, id in large.items()} or None)
            for (seq, at, call, kind, data, _), large in zip(items, larges, strict=True)
        ]
        return events, sum(lengths)

    async def _events(self, session: str, items: list[Any]) -> list[Event]:
        """Events with their large values, which stand beside the log."""
        larges: list[dict[str, str]] = [decode(line[5]) if line[5] else {} for line in items]
        ids = list({id for large in larges for id in large.values()})
        kept = dict(await self._ask("kept", session, ids)) if ids else {}
        values = [{name: kept.get(id, b"null") for name, id in large.items()} for large in larges]
        return [
            Event(seq, at, call, kind, with_values(data.encode(), more))
            for (seq, at, call, kind, data, _), more in zip(items, values, strict=True)
        ]

    async def wait(self, session: str, after: int) -> None:
        """Waits for the next commit; other processes tell of theirs."""
        # Its number is known before the first look, so that nothing told in between is missed.
        if session not in self._numbers:
            await self._last(session)
        await self._followers.wait(session, after, lambda: self._last(session))

    def watch(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Tells of its own commits and of those that other processes tell of."""
        return self._followers.watchers.add(tell)

    def moved(self) -> int:
        """Another number every `SIGHT_S` seconds: a call looks at its session if the last look is older."""
        return int(time.monotonic() / SIGHT_S)

    async def look(self, session: str) -> SessionLook:
        """What is newest of a session; looks of many at once are one round trip."""
        _, _, own, revision = await self._newest(session)
        return SessionLook(own, revision)

    async def known_everywhere(self) -> None:
        """Waits until looks from before are too old for everybody, and what was begun by them is written."""
        if await self._ask("others", self._worker):
            await asyncio.sleep(SETTLE_S)

    async def _newest(self, session: str) -> NewestOfSession:
        return await asyncio.shield(self._looks.get(session))  # which others may wait for too

    async def _last(self, session: str) -> int:
        newest = await self._newest(session)
        if not newest.number:
            raise StoreError(f"There is no session '{session}'")
        self._numbers.met(session, newest.number)
        return newest.seq

    async def session(self, session: str) -> SessionRow | None:
        """One session."""
        rows = await self._after_writes("session", session)
        if not rows and await self.recalled(session):
            rows = await self._ask("session", session)
        return self._met(rows[0]) if rows else None

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: SessionRow | None = None
    ) -> list[SessionRow]:
        """Sessions, the last used first."""
        last = (None, None) if before is None else (before.updated_at, before.id)
        name = "sessions_all" if owner is None else "sessions"
        return [SessionRow(*row) for row in await self._after_writes(name, owner, limit, *last)]

    async def call(self, id: str) -> Row | None:
        """The row of a call."""
        if self._group:
            await self.flush()
        rows = await self._keys.of_calls("call", [id])
        return Row(*rows[0]) if rows else None

    async def calls(
        self,
        session: str | None = None,
        states: Iterable[str] = (),
        *,
        done_after: int | None = None,
        parent: str | None = None,
        limit: int = 1000,
    ) -> list[Row]:
        """Rows that fit."""
        wanted = list(states)
        name = listing(wanted)
        if session is None:
            name = _ALL.get(name, "calls_all")
        if parent is not None:
            name = "calls_of_parent" if session is not None else "calls_of_parent_all"
        values = [session, wanted, parent, limit]
        if done_after is not None:
            name, values = "calls_done", [session, [], parent, limit, done_after]
        return [Row(*row) for row in await self._after_writes(name, *values)]

    async def calls_of_owner(self, owner: str, states: Iterable[str] = OPEN_STATES, *, limit: int = 1000) -> list[Row]:
        """Open calls of an owner."""
        return [Row(*row) for row in await self._after_writes("calls_of_owner", owner, list(states), limit)]

    async def walk(self, where: WalkFilter, past: LogPosition | None = None, *, limit: int = 100) -> Walk:
        """Calls of all sessions by time."""
        if self._group:
            await self.flush()
        return await self._pool.run(lambda db: in_database(db, where, past, limit))

    async def stories(self, rows: Sequence[Row]) -> list[list[Event]]:
        """The events of several calls, of some of them at once."""
        stories, size = list[list[Event]](), 0
        if self._group:
            await self.flush()
        for first in range(0, len(rows), TOGETHER):
            some = rows[first : first + TOGETHER]
            lines: list[list[Any]] = [[] for _ in some]
            for place, *line in await self._keys.stories(some):
                lines[place - 1].append(line)
            for row, own in zip(some, lines, strict=True):
                story, length = await self._page(row.session, own, EVERY)
                stories.append(story)
                size += length
                if size >= WHOLE.max_bytes:
                    return stories
        return stories

    async def expiring(self, before: float, limit: int = 100) -> list[Row]:
        """Waiting calls whose time is up."""
        return [Row(*row) for row in await self._after_writes("expiring", before, limit)]

    async def open_calls(self, owner: str | None = None) -> dict[str, int]:
        """How many calls are waiting, queued and running."""
        rows = await self._after_writes(*(("open_calls",) if owner is None else ("open_calls_of", owner)))
        return dict.fromkeys(OPEN_STATES, 0) | {state: int(count) for state, count in rows}

    async def next_expiry(self) -> float | None:
        """The earliest end of a waiting call."""
        ((when,),) = await self._after_writes("next_expiry")
        earliest: float | None = when
        return earliest

    async def cursor(self, session: str, consumer: str) -> int:
        """Where a consumer stands."""
        rows = await self._ask("cursor", session, consumer)
        return int(rows[0][0]) if rows else 0

    async def move_cursor(self, session: str, consumer: str, seq: int) -> int:
        """Moves forward only."""
        rows = await self._ask("move_cursor", session, consumer, seq)
        if not rows:
            raise StoreError(f"There is no session '{session}'")
        return int(rows[0][0])

    async def keep(self, session: str, id: str, data: bytes) -> None:
        """Keeps a large value."""
        if not await self._ask("keep", session, id, data):
            raise StoreError(f"There is no session '{session}'")

    async def kept(self, session: str, id: str) -> bytes | None:
        """A large value."""
        rows = await self._after_writes("kept", session, [id])
        return bytes(rows[0][1]) if rows else None

    async def sweep(self, before: float, now: float, *, dry_run: bool = False) -> int:
        """Takes sessions out, then deletes what was theirs in pieces, each in its own transaction."""
        if dry_run:
            return int((await self._after_writes("idle_count", before, now))[0][0])
        await self.flush()
        return await sweep(self._pool, before, now, f"{self._sender}-gone", self._gone)

    def _gone(self, number: int, sessions: list[tuple[int, str]]) -> None:
        """A transaction of that number took sessions out."""
        for n, session in sessions:
            self._numbers.gone(n)
            self._followers.forget(session)
        self._hints.add(f"{self._sender}-gone", number, [f"{n}:0" for n, _ in sessions])

    async def belongings(self, session: str) -> tuple[dict[str, int], list[str]]:
        """Its cursors and the ids of its large values."""
        cursors = await self._after_writes("cursors_of", session)
        return dict(cursors), [id for (id,) in await self._ask("kept_of", session)]

    async def _alone(self, do: Callable[[Connection], Awaitable[Any]]) -> Any:
        return await self._pool.run(do)

    async def adopt(self, archive: Archive) -> bool:
        """Makes a session in one transaction."""
        return await self._pool.run(lambda db: postgres_sessions.adopt(db, self._sql, archive))

    async def delete(self, session: str, tombstone: Write) -> bool:
        """Takes a session out in one transaction, then deletes what was its in pieces."""
        await self.flush()
        writer = f"{self._sender}-gone"
        deleted = await self._pool.run(lambda db: postgres_sessions.delete(db, self._sql, session, tombstone, writer))
        if deleted is None:
            return False
        self._gone(deleted[1], [(deleted[0], session)])
        await delete_swept(self._pool)
        return True

    async def spend(self, rates: list[tuple[str, float, int]], now: float | None = None) -> float:
        """Takes from all or from none, by the clock of the database unless a time is given."""
        columns = map(list, zip(*rates, strict=True)) if rates else ([], [], [])
        ((wait,),) = await self._ask("spend", *columns, now, SLACK_S)
        return float(wait or 0.0)

    async def vacuum(self) -> None:
        """Makes the space of what was deleted free for others, as the database's autovacuum does by itself."""
        connection = await self._address.connect(MIGRATE_S)
        try:
            for table in ("sessions", "events", "calls", "cursors", "kept"):
                await connection.execute(f"VACUUM {table}")
        finally:
            await hang_up(connection)

    async def damages(self) -> list[Damage]:
        """Where the database is not what was written to it, as far as it can tell."""
        connection = await self._address.connect(MIGRATE_S)
        try:
            return await damages(connection)
        finally:
            await hang_up(connection)

    async def roll_up(self, seconds: float = ROLL_S) -> int:
        """In pieces, each in a transaction of its own; one at least, however late it is."""
        loop = asyncio.get_running_loop()
        await self.flush()
        stop = loop.time() + seconds
        while await self._pool.run(rollups.roll) == rollups.PIECE and loop.time() < stop:
            pass
        return int((await self._ask("unrolled_count"))[0][0])

    async def tallies(self, where: TallyFilter) -> list[Tally]:
        """What was rolled up."""
        return await self._pool.run(lambda db: rollups.read(db, where))

    async def rolled_up(self, cube: Times, since: int = 0) -> Tallies:
        """All of a cube."""
        return await self._pool.run(lambda db: rollups.rows_of(db, cube, since))

    async def count_anew(self) -> None:
        """In one transaction; what there is to count is counted by `roll_up`."""
        await self.flush()
        await self._pool.run(rollups.begin_anew)

    async def rebuild(self, session: str, rows: Iterable[Row], revision: int | None = None) -> None:
        """Exchanges the rows of a session in one transaction."""
        await self.flush()
        values = [astuple(row) for row in rows]
        columns = [list(column) for column in zip(*values, strict=True)] or [[]] * _COLUMNS
        del columns[1]

        async def do(db: Connection) -> None:
            async with db.transaction():
                key = await db.fetchval(self._sql["number"], session) if self._keys.divided else session
                head = await db.fetchrow(self._sql["lock_session"], key)
                if head is None:
                    raise StoreError(f"There is no session '{session}'")
                await db.execute(self._sql["set_revision"], head[0], revision)
                await db.execute(self._sql["delete_index"], head[0], columns[0])
                await db.execute(self._sql["insert_rows"], *head, *columns)

        await self._pool.run(do)

    # What a store past one machine knows beside

    def bound(self, per_session: int | None, per_owner: int | None, unparked: Callable[[list[Row]], None]) -> None:
        """How many bounded claims may run at once; every node of a database gives the same numbers."""

        async def tell(ids: list[str]) -> None:
            try:
                rows = {row[0]: Row(*row) for row in await self._keys.of_calls("call", ids)}
            except StoreError:
                return  # they are queued and not parked: whoever looks for stale calls finds them
            unparked([rows[id] for id in ids if id in rows])

        self._bounds.per_session, self._bounds.per_owner, self._bounds.unparked = per_session, per_owner, tell

    def now(self) -> float:
        """By the clock of the database."""
        return self._heart.now()

    async def cluster(self) -> str:
        """Made with the schema, the same for all who use it."""
        return str((await self._ask("cluster"))[0][0])

    async def take(self, ids: list[str]) -> dict[str, TakenCall]:
        """Rows, events and sessions of calls in one statement."""
        taken: dict[str, TakenCall] = {}
        for columns_of_call in await self._keys.of_calls("take", ids):
            row, session = Row(*columns_of_call[:_COLUMNS]), self._met(columns_of_call[_COLUMNS : _COLUMNS + 7])
            own, *columns = columns_of_call[_COLUMNS + 7 :]
            seqs, ats, kinds, datas, larges = (column or () for column in columns)
            lines = list(zip(seqs, ats, [row.id] * len(seqs), kinds, datas, larges, strict=True))
            taken[row.id] = TakenCall(row, await self._events(row.session, lines), session, own)
        return taken

    @property
    def calm(self) -> bool:
        """True if the database has answered all along for a while."""
        return self._heart.calm

    async def stale(self, queued_s: float, limit: int = 1000, tools: list[str] | None = None) -> list[Row]:
        """Calls that nobody runs, the oldest first."""
        by_owner = self._bounds.per_owner is not None or self._bounds.per_session is None
        if not self.calm:
            queued_s = INFINITE  # one of them may be taken back just now by whoever refused it
        values = (queued_s, self._address.lease, limit, by_owner, self._heart.steady, tools)
        return [Row(*row) for row in await self._ask("stale", *values)]

    def lapsed(self, since: float) -> bool:
        """True if others may have taken this node for dead since then, by the monotonic clock of this machine."""
        return self._heart.lapsed(since)

    async def alive(self, worker: str) -> bool:
        """True if that node was heard of within its lease, by the clock of the database.

        A node that was cut off itself takes nobody for dead whom it has not listened for again for a whole lease.
        """
        if worker == self._worker:
            return True
        rows = await self._ask("alive", worker, self._address.lease)
        return bool(rows) and (bool(rows[0][0]) or not self._heart.steady)

    async def lost(self) -> LostCalls:
        """What nodes left that were not heard of within their lease, and when the next lease may end."""
        lease, steady = self._address.lease, self._heart.steady
        rows = [Row(*row) for row in await self._after_writes("lost", lease, steady)]
        silent = [age for (age,) in await self._ask("silent", lease / 2, lease)]
        again = (lease - max(silent) if silent else lease) if steady else self._heart.steady_in
        return LostCalls(rows, max(again * 1.01, lease / BEATS), steady)

    async def left(self, worker: str) -> bool:
        """Who says goodbye takes its name from the list; the dead stay on it for a while."""
        return not await self._ask("alive", worker, self._address.lease)

    async def nodes(self) -> list[Node]:
        """The nodes that beat, and those that ended to within the last minute."""
        lease = self._address.lease
        rows = await self._ask("nodes", lease)
        return [
            Node(name, decode(facts) | {"tools": decode(tools)}, started_at, age, age < lease)
            for name, facts, tools, started_at, age in rows
        ]

    async def counts(self) -> dict[str, dict[str, int]]:
        """How many calls of each tool are on their way."""
        counts: dict[str, dict[str, int]] = {}
        for tool, state, count in await self._ask("counts"):
            counts.setdefault(tool, {"queued": 0, "running": 0, "waiting": 0})[state] = count
        return counts

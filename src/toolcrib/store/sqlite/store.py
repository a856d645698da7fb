"""The log in an SQLite file: WAL, one writer thread, group commit.

All writes go through one thread that takes what has gathered, writes it in one transaction and tells the event loop.
A second process may use the same file: numbers are given out under SQLite's lock, and a lock on one byte of
`<file>-workers` tells whether the process behind a worker's name still lives.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import parse_qs, unquote, urlsplit

from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.events import Event
from toolcrib.store import (
    LEASE_S,
    OPEN_STATES,
    SLACK_S,
    USE_S,
    Archive,
    Conflict,
    LogPosition,
    LostCalls,
    Row,
    SessionRow,
    Store,
    Walk,
    WalkFilter,
    Write,
)
from toolcrib.store.codec import WHOLE, PageLimit, encode
from toolcrib.store.followers import Followers
from toolcrib.store.own_writes import OwnWrites
from toolcrib.store.rollups import ROLL_S, Tallies, Tally, TallyFilter, Times
from toolcrib.store.schema import migrate, queries
from toolcrib.store.sqlite import rollups, sessions
from toolcrib.store.sqlite.archive_index import FileArchiveIndex
from toolcrib.store.sqlite.change_counter import ChangeCounter
from toolcrib.store.sqlite.checkpoint import LOST, Checkpoints, is_whole, wal
from toolcrib.store.sqlite.connection import connect, reason
from toolcrib.store.sqlite.errors import explain
from toolcrib.store.sqlite.kept_values import keep
from toolcrib.store.sqlite.log_reader import MOST, data_version, read_kept, read_page, read_row, read_rows, read_stories
from toolcrib.store.sqlite.own_writes import FileWrites
from toolcrib.store.sqlite.sessions import known, number
from toolcrib.store.sqlite.vacuum import free_some
from toolcrib.store.sqlite.workers import Workers
from toolcrib.store.sqlite.writer import BACKLOG, OLD_S, CommitCounter, Writer, nothing
from toolcrib.store.walks import in_file, listing

LOOK_S, WATCH_LOOKS = 0.1, 10
"""How often another process's writes are looked for while a session is followed; while all are watched, every tenth."""

T = TypeVar("T")


class SqliteStore(Store):
    """A store in one file. A kill loses nothing. A power cut loses no start of a call that may happen only once; with
    `?sync=full` it loses nothing that was acknowledged, and every commit waits for the disk.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        path = unquote(parts.path)
        if not parts.path.startswith("/") or path == "/":
            raise StoreError(f"'{url}' names no file. Use sqlite:///relative.db or sqlite:////absolute/path.db")
        self._path = Path(path[1:])
        sync = parse_qs(parts.query).get("sync", ["start"])[0]
        if sync not in ("start", "full"):
            raise StoreError(f"'{url}': sync is 'start' or 'full'")
        self._full = sync == "full"
        lease = parse_qs(parts.query).get("lease", [str(LEASE_S)])[0]
        if not re.fullmatch(r"\d+(\.\d+)?", lease) or float(lease) <= 0:
            raise StoreError(f"'{url}': lease is a number of seconds")
        self._lease = float(lease)
        self.migrated = (0, 0)
        self._followers = Followers()
        self._looking: asyncio.Task[None] | None = None
        self.archive_index = FileArchiveIndex(self._alone, self._after_writes, self._followers.forget)

    @property
    def path(self) -> Path:
        """Its file."""
        return self._path

    # Opening and closing

    async def start(self, worker: str) -> None:
        """Opens the file, migrates it and starts the writer."""
        self._loop = asyncio.get_running_loop()
        with ExitStack() as undo:
            try:
                has_wal = wal(self._path).exists()
                self._writing = undo.enter_context(closing(self._connect()))
                if not is_whole(self._writing, self._path, has_wal=has_wal):
                    raise StoreUnavailable(f"Cannot open {self._path}: {LOST}")
                before = int(self._writing.execute("PRAGMA user_version").fetchone()[0])
                self.migrated = (before, migrate(self._writing, str(self._path)))
                self._reading = undo.enter_context(closing(self._connect()))
                self._workers = Workers(self._path, worker)
                undo.callback(self._workers.leave)
                self._mover, self._readers = map(partial(ThreadPoolExecutor, 1), ("toolcrib-wal", "toolcrib-read"))
                checkpoints = Checkpoints(self._writing, self._path, self._workers, self._mover)
            except (sqlite3.Error, OSError) as error:
                raise StoreUnavailable(f"Cannot open {self._path}: {reason(error, self._path)}") from None
            undo.pop_all()
        self._commits = CommitCounter(self._workers.shared.commits)
        self._moves = ChangeCounter(self._workers.shared.moves, self._others_changed)
        self.moved = self._moves.of_others
        counters = self._commits, self._moves
        self._writer = Writer(self._writing, self._path, self._followers, checkpoints, counters, always_full=self._full)

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path)

    async def close(self) -> None:
        """Writes what is left, stops the threads and lets go of the file."""
        try:
            await self.flush()
        except StoreUnavailable:
            pass  # what could not be written is lost, as after a kill
        self._followers.nudge()
        self._moves.rest()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        await self._writer.stop()
        self._readers.shutdown()
        self._mover.shutdown()
        self._reading.close()
        self._writing.close()
        self._commits.leave()
        self._moves.leave()
        self._workers.leave()
        self._followers.nudge()

    def _others_changed(self) -> None:
        """Another process changed what belongs to sessions themselves."""
        if self.own_changed is not None:
            self.own_changed("")

    # Writing

    @property
    def behind(self) -> bool:
        """True if the writer has more to do than it should have."""
        writer = self._writer
        return writer.waiting >= BACKLOG and self._loop.time() - writer.handed[0][0] > OLD_S

    def put(self, write: Write) -> Conflict | None:
        """Gathers the write; the writer takes it within milliseconds."""
        if self._followers.observers:
            self._observe(write)
        self._writer.put(write)
        return None

    async def commit(self, write: Write) -> Conflict | None:
        """Durable when it returns."""
        if self._followers.observers:
            self._observe(write)
        return cast("Conflict | None", await self._writer.do(write))

    def _observe(self, write: Write) -> None:
        observer = self._followers.observers.get(write.session)
        if observer is not None:
            observer.put(write)

    def own_writes(self, session: str) -> OwnWrites | None:
        """What this process puts, with the numbers that it will have while no other process writes."""
        writes = FileWrites(self._commits.of_others)
        self._followers.observers[session] = writes
        return writes

    async def flush(self) -> None:
        """Waits for everything before it."""
        if not self._writer.idle:
            await self._writer.do(nothing)

    # Reading

    async def _in_reader(self, do: Callable[[sqlite3.Connection], T]) -> T:
        try:
            work = self._loop.run_in_executor(self._readers, do, self._reading)
        except RuntimeError:
            raise StoreUnavailable(f"The store {self._path.name} is closed") from None
        try:
            return await work
        except sqlite3.Error as error:
            raise explain(error, self._path) from None

    async def _after_writes(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """A read that must see all that was put before it."""
        if self._writer:
            await self.flush()
        return await self._in_reader(do)

    async def open(self, session: str, owner: str, at: float) -> tuple[SessionRow, bool]:
        """Makes or finds a session."""

        def do(db: sqlite3.Connection) -> tuple[SessionRow, bool]:
            values = {"id": session, "owner": owner, "at": at}
            made = db.execute(queries()["open_session"], values).rowcount > 0
            if not made:
                db.execute(queries()["use_session"], {**values, "soon": USE_S})
            return SessionRow(*db.execute(queries()["session"], {"id": session}).fetchone()), made

        row: tuple[SessionRow, bool] = await self._writer.do(do)
        return row

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
        """From the tail while the reader keeps up, else from the file."""
        if not call and until is None:
            recent = self._followers.tail(session, after, limit, extent.max_bytes)
            if recent is not None and call is None:
                return recent
            if recent is not None and len(recent) < limit and (own := [one for one in recent if one.call is None]):
                return own
        name = "events" if call is None else "events_of_call" if call else "events_of_session"

        def do(db: sqlite3.Connection) -> tuple[list[Event], bool]:
            last = MOST if until is None else min(until, MOST)
            values = {"n": number(db, session), "after": max(after, 0), "until": last, "limit": limit, "call": call}
            return read_page(db, name, values, extent)

        nudges = self._followers.nudges
        page, more = await self._in_reader(do)
        if call is None and until is None and not more:
            self._followers.read(session, after, page, nudges)
        return page

    async def wait(self, session: str, after: int) -> None:
        """Waits for the next commit; another process's writes are looked for every 100 ms."""
        self._look()
        await self._followers.wait(session, after, lambda: self._last(session))

    def watch(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Tells of its own commits, and each second whether another process wrote."""
        stop = self._followers.watchers.add(tell)
        self._look()
        return stop

    def _look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._look_for_others())

    async def _last(self, session: str) -> int:
        row = await self._in_reader(lambda db: db.execute(queries()["session"], {"id": session}).fetchone())
        if row is None:
            raise StoreError(f"There is no session '{session}'")
        return int(row[2])

    async def _look_for_others(self) -> None:
        """While somebody follows: tells them when another process wrote. It ends by itself when nobody follows."""
        seen = -1
        while True:
            try:  # asked of the writer's connection, for which its own commits do not count
                version = await self._writer.do(data_version)
            except StoreError:  # locked or away for the moment: the next look will tell
                version = -1
            if version != seen:
                seen = version
                self._followers.nudge()
            for _ in range(WATCH_LOOKS):
                await asyncio.sleep(LOOK_S)
                if self._followers.sessions:
                    break
            if not self._followers:
                return

    async def session(self, session: str) -> SessionRow | None:
        """One session."""
        rows = await self._after_writes(lambda db: db.execute(queries()["session"], {"id": session}).fetchall())
        if not rows and await self.recalled(session):
            rows = await self._in_reader(lambda db: db.execute(queries()["session"], {"id": session}).fetchall())
        return SessionRow(*rows[0]) if rows else None

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: SessionRow | None = None
    ) -> list[SessionRow]:
        """Sessions, the last used first."""
        last = (None, None) if before is None else (before.updated_at, before.id)
        values = {"owner": owner, "limit": limit, "before": last[0], "before_id": last[1]}
        name = "sessions_all" if owner is None else "sessions"
        rows = await self._after_writes(lambda db: db.execute(queries()[name], values).fetchall())
        return [SessionRow(*row) for row in rows]

    async def call(self, id: str) -> Row | None:
        """The row of a call."""
        return await self._after_writes(lambda db: read_row(db, "call", id=id))

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
        name = "calls_done" if done_after is not None else listing(wanted)

        def do(db: sqlite3.Connection) -> list[Row]:
            n = None if session is None else number(db, session)
            values = {
                "n": n,
                "states": encode(wanted).decode(),
                "done_after": done_after,
                "parent": parent,
                "limit": limit,
            }
            return read_rows(db, name, **values)

        return await self._after_writes(do)

    async def calls_of_owner(self, owner: str, states: Iterable[str] = OPEN_STATES, *, limit: int = 1000) -> list[Row]:
        """Open calls of an owner."""
        values = {"owner": owner, "states": encode(list(states)).decode(), "limit": limit}
        return await self._after_writes(lambda db: read_rows(db, "calls_of_owner", **values))

    async def walk(self, where: WalkFilter, past: LogPosition | None = None, *, limit: int = 100) -> Walk:
        """Calls of all sessions by time."""
        return await self._after_writes(lambda db: in_file(db, where, past, limit))

    async def stories(self, rows: Sequence[Row]) -> list[list[Event]]:
        """The events of several calls."""

        def do(db: sqlite3.Connection) -> list[list[Event]]:
            return read_stories(db, ((number(db, row.session), row) for row in rows))

        return await self._after_writes(do)

    async def expiring(self, before: float, limit: int = 100) -> list[Row]:
        """Waiting calls whose time is up."""
        return await self._after_writes(lambda db: read_rows(db, "expiring", before=before, limit=limit))

    async def open_calls(self, owner: str | None = None) -> dict[str, int]:
        """How many calls are waiting, queued and running."""
        name = "open_calls" if owner is None else "open_calls_of"
        rows = await self._after_writes(lambda db: db.execute(queries()[name], {"owner": owner}).fetchall())
        return dict.fromkeys(OPEN_STATES, 0) | dict(rows)

    async def next_expiry(self) -> float | None:
        """The earliest end of a waiting call."""
        when: float | None = await self._after_writes(lambda db: db.execute(queries()["next_expiry"]).fetchone()[0])
        return when

    async def cursor(self, session: str, consumer: str) -> int:
        """Where a consumer stands."""

        def do(db: sqlite3.Connection) -> int:
            values = {"n": number(db, session), "consumer": consumer}
            row = db.execute(queries()["cursor"], values).fetchone()
            return int(row[0]) if row else 0

        return await self._after_writes(do)

    async def move_cursor(self, session: str, consumer: str, seq: int) -> int:
        """Moves forward only."""

        def do(db: sqlite3.Connection) -> int:
            values = {"n": known(db, session), "consumer": consumer, "seq": seq}
            db.execute(queries()["move_cursor"], values)
            return int(db.execute(queries()["cursor"], values).fetchone()[0])

        moved: int = await self._writer.do(do)
        return moved

    async def keep(self, session: str, id: str, data: bytes) -> None:
        """Keeps a large value."""

        def do(db: sqlite3.Connection) -> None:
            keep(db, known(db, session), id, data)

        await self._writer.do(do)

    async def kept(self, session: str, id: str) -> bytes | None:
        """A large value."""
        return await self._after_writes(lambda db: read_kept(db, number(db, session), id))

    async def alive(self, worker: str) -> bool:
        """True if the process behind that name holds its lock."""
        return self._workers.alive(worker)

    async def lost(self) -> LostCalls:
        """What processes left that hold no lock; the system drops it when one dies, so that nobody tells of it."""
        workers = await self._after_writes(lambda db: db.execute(queries()["busy_workers"]).fetchall())
        dead = [worker for (worker,) in workers if worker is None or not self._workers.alive(worker)]
        if not dead:
            return LostCalls([], self._lease)
        values = {"workers": encode(dead).decode()}
        return LostCalls(await self._after_writes(lambda db: read_rows(db, "calls_of_workers", **values)), self._lease)

    async def sweep(self, before: float, now: float, *, dry_run: bool = False) -> int:
        """Takes sessions out one by one, then deletes what was theirs in pieces, each in its own transaction."""
        if dry_run:
            values = {"before": before, "now": now}
            count: int = await self._after_writes(lambda db: db.execute(queries()["idle_count"], values).fetchone()[0])
            return count
        gone = 0
        values = {"before": before, "now": now, "limit": 100}
        while idle := await self._after_writes(lambda db: db.execute(queries()["idle"], values).fetchall()):
            numbers, first = [n for n, _ in idle], 0
            while rest := numbers[first:]:
                looked, taken = await self._alone(partial(sessions.take_out, numbers=rest, values=values))
                first, gone = first + looked, gone + taken
            for _, id in idle:
                self._followers.forget(id)
        await self._delete_swept()
        await self._writer.do(lambda db: db.execute(queries()["forget_rates"], {"now": now}).rowcount)
        await self._writer.do(lambda db: rollups.forget(db, now))
        await self._give_back()
        return gone

    async def _give_back(self) -> None:
        """Makes the file smaller by the pages that nothing uses, a few in each transaction."""
        while await self._writer.do(free_some):
            pass

    async def _alone(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """One transaction in which sessions come or go."""

        def job(db: sqlite3.Connection) -> T:
            self._writer.forget_heads()
            return do(db)

        return cast("T", await self._writer.do(job))

    async def belongings(self, session: str) -> tuple[dict[str, int], list[str]]:
        """Its cursors and the ids of its large values."""
        return await self._after_writes(lambda db: sessions.belongings(db, number(db, session)))

    async def adopt(self, archive: Archive) -> bool:
        """Makes a session in one transaction."""
        made: bool = await self._writer.do(lambda db: sessions.adopt(db, archive))
        return made

    async def delete(self, session: str, tombstone: Write) -> bool:
        """Takes a session out in one transaction, then deletes what was its in pieces."""

        def do(db: sqlite3.Connection) -> bool:
            self._writer.forget_heads()
            return sessions.delete(db, session, tombstone)

        gone: bool = await self._writer.do(do)
        if gone:
            self._followers.forget(session)
            self._followers.nudge()
            await self._delete_swept()
            await self._give_back()
        return gone

    async def _delete_swept(self) -> None:
        numbers = [n for (n,) in await self._in_reader(lambda db: db.execute(queries()["swept"]).fetchall())]
        first = 0
        while rest := numbers[first : first + 1000]:
            first += await self._writer.do(partial(sessions.delete_some, numbers=rest))

    async def spend(self, rates: list[tuple[str, float, int]], now: float | None = None) -> float:
        """Takes from all or from none, by the clock of this machine."""
        values = {"rates": encode(rates).decode(), "now": time.time() if now is None else now, "slack": SLACK_S}

        def do(db: sqlite3.Connection) -> float:
            if db.execute(queries()["spend"], values).rowcount > 0:
                return 0.0
            return float(db.execute(queries()["rate_wait"], values).fetchone()[0])

        wait: float = await self._writer.do(do)
        return wait

    async def roll_up(self, seconds: float = ROLL_S) -> int:
        """In pieces, each in a transaction of the writer; one at least, however late it is."""
        stop = self._loop.time() + seconds
        left = await self._after_writes(rollups.left)
        while left:
            await self._writer.do(rollups.roll)
            left = await self._in_reader(rollups.left)
            if self._loop.time() >= stop:
                break
        return left

    async def tallies(self, where: TallyFilter) -> list[Tally]:
        """What was rolled up."""
        return await self._in_reader(lambda db: rollups.read(db, where))

    async def rolled_up(self, cube: Times, since: int = 0) -> Tallies:
        """All of a cube."""
        return await self._after_writes(lambda db: rollups.rows_of(db, cube, since))

    async def count_anew(self) -> None:
        """In one transaction; what there is to count is counted by `roll_up`."""
        await self._writer.do(rollups.begin_anew)

    async def rebuild(self, session: str, rows: Iterable[Row], revision: int | None = None) -> None:
        """Exchanges the rows of a session in one transaction."""
        new = list(rows)

        def do(db: sqlite3.Connection) -> None:
            self._writer.forget_heads()
            sessions.rebuild(db, session, new, revision)

        await self._writer.do(do)

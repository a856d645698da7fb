"""The one thread that writes to an SQLite file: it takes what has gathered, and commits it together."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, MutableSequence, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from zlib import crc32

from msgspec.structs import astuple

from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.store import DOORS, Conflict, Draft, Row, Write, enters
from toolcrib.store.codec import LARGE, CompactWrite, encode, split_large
from toolcrib.store.followers import Followers
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.checkpoint import Checkpoints
from toolcrib.store.sqlite.errors import explain
from toolcrib.store.sqlite.kept_values import change_kept, keep
from toolcrib.store.sqlite.log_reader import read_row, standing

BATCH = 512
PLAIN = [False, None, None, None, None, None, 0]
PLAIN_UPDATE = (None, None, None, 0)
"""What the statements for plain calls write: `background` to `crashes` of a new one, and of one that changes its code,
its question, its end and its crashes.
"""

LATE = 10_000
"""Writes that nobody waits for and that are tried again while the file cannot be written; more are given up."""

BACKLOG, OLD_S = 256, 0.05
"""Where so many writes wait, and the first of them for so long, whoever puts more should wait as well: the thread may
be slower than they are, and one who waits for it, to open a session for example, would wait behind all of theirs. One
burst is no reason to wait.
"""

BEHIND_S = 0.005
HEADS = 10_000
TOUCH_S = 1.0
"""How far the time of a session's last use may be behind its last event."""

COLUMNS, LINE = 7, ", (?, ?, ?, ?, ?, ?, ?)"
"""Values of a line of the log, and what each further line adds to the statement that writes the first."""

Do = Write | Callable[[sqlite3.Connection], Any]


def nothing(db: sqlite3.Connection) -> None:
    """What whoever waits for all before it has to do."""


class CommitCounter:
    """Counts commits, in memory that all processes of a file share.

    One look at it tells whether another process made one, without a look into the file. A commit is counted before it
    can be seen and again after; in between no other process may trust what it knows. One thread of a process counts,
    and any may look.
    """

    def __init__(self, counts: MutableSequence[int] | memoryview[int]) -> None:
        self._counts = counts
        self._own = self._ticket = 0
        self._doubts = itertools.count(-1, -1)

    def began(self) -> None:
        """This process is about to commit; it holds the file's lock. Whoever looks between two lines is in doubt."""
        if not self._ticket:
            ticket = self._counts[0] = self._counts[0] + 1
            self._own, self._ticket = self._own + 1, ticket

    def ended(self) -> None:
        """It is committed, or was given up. Where another process is about to commit, that process notifies."""
        if self._ticket:
            self._counts[1], self._ticket = self._ticket, 0

    def of_others(self) -> int:
        """A number that is another one when another process has committed since."""
        own, begun, ended, ticket = self._own, self._counts[0], self._counts[1], self._ticket
        return begun - own if own == self._own and begun in (ended, ticket) else next(self._doubts)

    def leave(self) -> None:
        """Looks no more; whoever still asks finds that nothing changes."""
        self._counts = [self._own, self._own]


_WriterJob = tuple[Do, asyncio.Future[Any] | None]
"""One piece of work, and where its outcome goes. This and `_Outcome` have no names for their parts: several are made
for every call, and each would take five times as long.
"""

_Outcome = tuple[_WriterJob, Any, int]
"""What became of a job: its value or its exception, and the number of its first event."""


class _Head:
    """What the writer knows of a session between two transactions."""

    __slots__ = ("changed", "closed", "n", "revision", "seq", "used_at")

    def __init__(self, n: int, seq: int, revision: int, used_at: float, closed: int) -> None:
        self.n = n
        self.seq = seq
        self.revision = revision
        self.used_at = used_at
        self.closed = bool(closed)
        self.changed = False


class Writer:
    """Group commit: many writers wait, one transaction serves them all."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        followers: Followers,
        checkpoints: Checkpoints,
        counters: tuple[CommitCounter, CommitCounter],
        *,
        always_full: bool,
    ) -> None:
        self._db = db
        self._checkpoints = checkpoints
        self._path = path
        self._followers = followers
        self._commits, self._moves = counters
        self._loop = asyncio.get_running_loop()
        self._behind: list[_WriterJob] = []
        self._queue: SimpleQueue[list[_WriterJob]] = SimpleQueue()
        self._outcomes: deque[list[_Outcome]] = deque()
        # The loop's own way to be woken, a byte through a socket, costs several times as much.
        self._counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) if sys.platform == "linux" else -1
        if self._counter >= 0:
            self._loop.add_reader(self._counter, self._woken)
        self._timer: asyncio.TimerHandle | None = None
        self._heads: dict[str, _Head] = {}
        self._rows: list[Sequence[Any]] = []
        self._late: list[_WriterJob] = []
        self.waiting = 0
        self.handed: deque[tuple[float, int]] = deque()
        """When the thread was given how many of the writes that wait."""
        self._crowded = self._gathering = self._stopped = False
        self._failed = False  # whether the last transaction was broken
        self._always_full = always_full
        self._full: bool | None = None
        self._sql = queries()
        self._insert_lines = {COLUMNS * count: self._sql["insert_event"] + LINE * (count - 1) for count in (1, 2, 3)}
        self._thread = threading.Thread(target=self._work, name="toolcrib-write", daemon=True)
        self._thread.start()

    def __bool__(self) -> bool:
        """True if something waits to be written."""
        return self.waiting > 0 or bool(self._behind)

    @property
    def idle(self) -> bool:
        """True if every write is done, so that nobody has to wait for its thread."""
        return not (self or self._late or self._stopped)

    def put(self, write: Write) -> None:
        """Gathers a write; it is taken within milliseconds."""
        if self._stopped:
            return
        self._behind.append((write, None))
        if len(self._behind) >= BATCH:
            self._hand_over()
        elif self._timer is None:
            self._timer = self._loop.call_later(BEHIND_S, self._due)

    def _due(self) -> None:
        self._timer = None
        self._hand_over()

    def _hand_over(self) -> None:
        if self._behind:
            jobs, self._behind = self._behind, []
            self.waiting += len(jobs)
            self.handed.append((self._loop.time(), len(jobs)))
            self._queue.put(jobs)

    def do(self, do: Do) -> asyncio.Future[Any]:
        """Queue a write behind all others; the future has the outcome when it is durable."""
        future = self._loop.create_future()
        if self._stopped:
            future.set_exception(StoreUnavailable(f"The store {self._path.name} is closed"))
            return future
        self._behind.append((do, future))
        if not self._gathering:
            self._hand_over()
            if self._crowded:
                self._gathering = True
                self._loop.call_soon(self._gathered)
        return future

    def _gathered(self) -> None:
        """Where many write, what comes behind the first in one round of the loop goes to the thread together."""
        self._gathering = False
        self._hand_over()

    async def stop(self) -> None:
        """Writes what is left and ends the thread."""
        self._stopped = True
        self._hand_over()
        self._queue.put([])
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._tell([])
        self._woken()
        if self._counter >= 0:
            self._loop.remove_reader(self._counter)
            os.close(self._counter)
        if self._timer is not None:
            self._timer.cancel()

    # In the thread

    def _work(self) -> None:
        commits, before = 0, self._db.total_changes
        while jobs := list(self._next()):
            while len(jobs) < BATCH and not self._queue.empty():
                more = self._queue.get()
                if not more:
                    self._queue.put(more)
                    break
                jobs += more
            late, self._late = self._late, []
            outcomes = self._transaction(late + jobs)
            self._tell(self._put_off(outcomes) if self._failed else outcomes)
            changes = self._db.total_changes
            commits += changes != before
            if changes == before or changes >= self._checkpoints.look_at:
                self._checkpoints.after_write(commits)
                commits = 0
            before = self._db.total_changes
        self._checkpoints.finish()

    def _next(self) -> list[_WriterJob]:
        """What has gathered; while there is nothing, the WAL is emptied."""
        while True:
            try:
                return self._queue.get(True, self._checkpoints.rest_s)
            except Empty:
                self._checkpoints.rest()

    def _put_off(self, outcomes: list[_Outcome]) -> list[_Outcome]:
        """While the file cannot be written, keep writes that nobody waits for in line; what builds on them fails."""
        delivered: list[_Outcome] = []
        error: StoreUnavailable | None = None
        for job, value, first in outcomes:
            error = value if isinstance(value, StoreUnavailable) else error
            away = value is error or (isinstance(value, Conflict) and bool(self._late))
            if error is not None and away and job[1] is None and len(self._late) < LATE:
                self._late.append(job)
            else:
                delivered.append((job, error if away else value, first))
        return delivered

    def _transaction(self, jobs: list[_WriterJob], again: bool = False) -> list[_Outcome]:
        """All jobs in one transaction; where one of them breaks it, each in its own."""
        begun = self._failed = False
        try:
            self._begin(jobs)
            begun = True
            done = [self._do(job) for job in jobs]
            self._flush()
            self._db.execute("COMMIT")
            self._commits.ended()
            self._moves.ended()
        except Exception as error:  # noqa: BLE001 - whatever broke, it goes to whoever waits for it
            return self._broken(jobs, error, begun=begun, again=again)
        return done

    def _broken(self, jobs: list[_WriterJob], error: Exception, *, begun: bool, again: bool) -> list[_Outcome]:
        """Rolls back a transaction, and does its jobs in another way where that may help."""
        self._roll_back()
        if begun and isinstance(error, sqlite3.IntegrityError) and not again:
            # Another process wrote to one of these logs since its last number was looked up: look again, once.
            return self._transaction(jobs, True)
        if begun and len(jobs) > 1 and not isinstance(error, sqlite3.IntegrityError):
            outcomes = [outcome for job in jobs for outcome in self._transaction([job])]
        else:
            outcomes = [(job, explain(error, self._path), 0) for job in jobs]
        self._failed = True
        return outcomes

    def _begin(self, jobs: list[_WriterJob]) -> None:
        """A start that may not be forgotten waits for the disk itself; a kill takes nothing else either."""
        if not self._full or len(jobs) == 1:
            full = self._always_full or any(isinstance(do, Write) and do.first for do, _ in jobs)
            if full is not self._full:
                self._db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                self._full = full
        self._db.execute("BEGIN IMMEDIATE")
        self._commits.began()

    def forget_heads(self) -> None:
        """A job has deleted sessions: what is known of them is looked up anew. To be called by that job."""
        self._heads.clear()

    def _roll_back(self) -> None:
        self._heads.clear()
        self._rows.clear()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._commits.ended()
        self._moves.ended()

    def _flush(self) -> None:
        """The events of the whole batch at once, in order: lines of calls that came together by one statement."""
        for values, rows in groupby(self._rows, len):
            self._db.executemany(self._insert_lines[values], rows)
        self._rows.clear()

    def _do(self, job: _WriterJob) -> _Outcome:
        write = job[0]
        if not isinstance(write, Write):
            self._flush()
            return job, write(self._db), 0
        head = self._heads.get(write.session) or self._head(write.session)
        conflict = None if write.holder is None and write.revision is None else self._overtaken(head, write)
        events, first = write.events, head.seq + 1
        last = head.seq + (len(events) if isinstance(events, list) else events.count)
        if conflict is None and write.row is not None:
            conflict = self._guard(head, write, write.row, last)
        if conflict is not None:
            return job, conflict, 0
        self._rows += self._lines((head.n << 32) + first, events)
        head.seq = last
        if write.cursor is not None or write.adds or write.keeps or write.forgets:
            self._write_beside(head.n, write, first)
        self._touch(head, write)
        return job, None, first

    def _overtaken(self, head: _Head, write: Write) -> Conflict | None:
        """What stands in the way of a write on behalf of a call, or of one that changes the state."""
        if write.holder is not None and (fenced := self._fenced(head, *write.holder)) is not None:
            return fenced
        stale = write.revision is not None and write.revision[0] != head.revision
        return Conflict(None) if stale else None

    def _write_beside(self, n: int, write: Write, first: int) -> None:
        """What a write changes beside its log and its row."""
        if write.cursor is not None:
            consumer, seq = write.cursor
            self._db.execute(self._sql["move_cursor"], {"n": n, "consumer": consumer, "seq": seq})
        if write.adds:
            self._add(n, write, first)
        if write.keeps or write.forgets:
            change_kept(self._db, n, write)

    def _add(self, n: int, write: Write, first: int) -> None:
        places = write.places()
        for row in write.adds:
            row.accepted_seq = first + places[row.id]
            if not insert_row(self._db, n, row):
                raise StoreError(f"There is a call '{row.id}' already")

    def _head(self, session: str) -> _Head:
        self._flush()
        row = self._db.execute(self._sql["session_head"], {"id": session}).fetchone()
        if row is None:
            raise StoreError(f"There is no session '{session}'")
        if len(self._heads) >= HEADS:
            self._heads.clear()
        head = self._heads[session] = _Head(*row)
        return head

    def _touch(self, head: _Head, write: Write) -> None:
        """The session's own row is not written for every event, which would double the pages of a small commit."""
        events: Any = write.events
        listed = isinstance(events, list)
        at, call, kind = events[-1][:3] if listed and events else (head.used_at if listed else events.at, "", "")
        if write.revision is not None or call is None or at - head.used_at >= TOUCH_S:
            self._write_head(head, write, (at, call, kind))

    def _write_head(self, head: _Head, write: Write, last: tuple[float, str | None, str]) -> None:
        at, call, kind = last
        head.used_at = max(head.used_at, at)
        head.revision = write.revision[1] if write.revision else head.revision
        if call is None:
            head.closed = DOORS.get(kind, head.closed)
        if call is None or write.revision is not None:
            self._moves.began()
        values = {"n": head.n, "revision": head.revision, "at": head.used_at, "closed": head.closed}
        if not self._db.execute(self._sql["touch_session"], values).rowcount:
            raise sqlite3.IntegrityError("another process swept the session")

    def _lines(self, first: int, events: list[Draft] | CompactWrite) -> list[Sequence[Any]]:
        """What is written of events, the first of which has this key."""
        if isinstance(events, list):
            return [line_of(self._db, key, draft) for key, draft in enumerate(events, first)]
        together: list[Any] = []
        for key, (at, call, kind, text) in enumerate(events.lines(), first):
            if len(text) > LARGE:
                return [line_of(self._db, key, draft) for key, draft in enumerate(events, first)]
            together += key, at, call, kind, text.decode(), None, event_crc(key, at, call, kind, text)
        return [together]

    def _guard(self, head: _Head, write: Write, row: Row, last: int) -> Conflict | None:
        done_seq = last if row.state == "done" else row.done_seq
        if write.expect is None:
            if head.closed and enters(row):
                return Conflict(standing(self._db, head.n, row), closed=True)
            changed = _insert(self._db, head.n, row, head.seq + 1, done_seq)
            row.accepted_seq = head.seq + 1 if changed else row.accepted_seq
        else:
            more: tuple[Any, ...] = (row.code, row.question, row.expires_at, row.crashes)
            name, more = ("update_plain_call", ()) if more == PLAIN_UPDATE else ("update_call", more)
            new = (row.state, row.attempt, row.worker, *more, done_seq, row.id, *write.expect)
            changed = self._db.execute(self._sql[name], new).rowcount
        return None if changed else Conflict(standing(self._db, head.n, row))

    def _fenced(self, head: _Head, call: str, attempt: int) -> Conflict | None:
        if self._db.execute(self._sql["holds"], (call, head.n, attempt)).fetchone() is not None:
            return None
        return Conflict(read_row(self._db, "call", id=call), fenced=True)

    def _tell(self, outcomes: list[_Outcome]) -> None:
        self._outcomes.append(outcomes)
        if self._counter >= 0:
            os.eventfd_write(self._counter, 1)
        else:
            with suppress(RuntimeError):  # the loop is gone, and nobody is left to be told
                self._loop.call_soon_threadsafe(self._woken)

    # Back in the loop

    def _woken(self) -> None:
        if self._counter >= 0:
            os.eventfd_read(self._counter)
        try:
            while self._outcomes:
                self._report(self._outcomes.popleft())
        finally:
            if self._outcomes:  # one that could not be reported holds up none of those behind it
                self._tell([])

    def _report(self, outcomes: list[_Outcome]) -> None:
        left = len(outcomes)
        self.waiting -= left
        self._crowded = left > 1
        while left:
            at, waiting = self.handed.popleft()
            if waiting > left:
                self.handed.appendleft((at, waiting - left))
            left -= min(left, waiting)
        followed = self._followers.sessions or self._followers.watchers.all or self._followers.observers
        for (do, future), value, first in outcomes:
            if isinstance(do, Write) and (followed or do.on_commit is not None or value is not None):
                self._tell_others(do, value, first)
            if future is not None and not future.done():
                future.set_exception(value) if isinstance(value, Exception) else future.set_result(value)

    def _tell_others(self, write: Write, value: Any, first: int) -> None:
        """Tells those who follow the log, and who made the write, what became of it."""
        if (observer := self._followers.observers.get(write.session)) is not None:
            observer.reported(write, first if value is None else 0)
        if value is None:
            if write.events:
                self._followers.committed(write.session, first, write.events)
            if write.on_commit is not None:
                write.on_commit()
        elif isinstance(value, Conflict) and write.on_conflict is not None:
            write.on_conflict(value)


_pack = struct.Struct("<qd").pack


def event_crc(key: int, at: float, call: str | None, kind: str, data: bytes, large: str | None = None) -> int:
    """The CRC-32 of a line of the log: SQLite's own integrity check does not notice changed bytes inside a value."""
    text = kind if call is None else call + kind
    return crc32(_pack(key, at) + (text if large is None else text + large).encode() + data)


def line_of(db: sqlite3.Connection, key: int, draft: Draft) -> tuple[Any, ...]:
    """The line of an event, whose large values are stored beside it."""
    at, call, kind, data = draft
    text, large = split_large(kind, data)
    for part in large.values():
        keep(db, key >> 32, part.id, part.json)
    names = encode({name: part.id for name, part in large.items()}).decode() if large else None
    return (key, at, call, kind, text.decode(), names, event_crc(key, at, call, kind, text, names))


def insert_row(db: sqlite3.Connection, n: int, row: Row) -> bool:
    """Puts a row into the index as it is; False where its id or its key is taken."""
    return _insert(db, n, row, row.accepted_seq, row.done_seq) > 0


def _insert(db: sqlite3.Connection, n: int, row: Row, accepted_seq: int, done_seq: int | None) -> int:
    id, _, tool, effect, state, attempt, worker, at, *rest, _, _ = astuple(row)
    if state == "done" and attempt == 1 and rest == PLAIN:
        values = (id, n, tool, effect, worker, at, accepted_seq, done_seq)
        return db.execute(queries()["insert_plain_call"], values).rowcount
    if done_seq is None and rest == PLAIN:
        begun = (id, n, tool, effect, state, attempt, worker, at, accepted_seq)
        return db.execute(queries()["insert_open_call"], begun).rowcount
    values = (id, n, tool, effect, state, attempt, worker, at, *rest, accepted_seq, done_seq)
    return db.execute(queries()["insert_call"], values).rowcount

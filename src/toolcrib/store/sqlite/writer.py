"""The one thread that writes to an SQLite file: it takes what has gathered, and commits it together."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import msgspec

from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.store import DOORS, SECRET, Conflict, Draft, Row, Write, enters
from toolcrib.store.codec import encode, split_large
from toolcrib.store.followers import Followers
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.checkpoint import Checkpoints
from toolcrib.store.sqlite.checksum import event_crc, kept_crc
from toolcrib.store.sqlite.workers import ChangeCounter

BATCH = 512
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

Do = Write | Callable[[sqlite3.Connection], Any]


def nothing(db: sqlite3.Connection) -> None:
    """What whoever waits for all before it has to do."""


def data_version(db: sqlite3.Connection) -> int:
    """Another number after a commit of another process; its own commits do not count."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


class _WriterJob(NamedTuple):
    """One piece of work, and where its outcome goes."""

    do: Do
    future: asyncio.Future[Any] | None


class _Outcome(NamedTuple):
    """What became of a job: its value or its exception, and the number of its first event."""

    job: _WriterJob
    value: Any
    first: int


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
        moves: ChangeCounter,
        *,
        always_full: bool,
    ) -> None:
        self._db = db
        self._checkpoints = checkpoints
        self._path = path
        self._followers = followers
        self._moves = moves
        self._loop = asyncio.get_running_loop()
        self._behind: list[_WriterJob] = []
        self._queue: SimpleQueue[list[_WriterJob]] = SimpleQueue()
        self._timer: asyncio.TimerHandle | None = None
        self._heads: dict[str, _Head] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._late: list[_WriterJob] = []
        self._open = 0
        self._handed: deque[tuple[float, int]] = deque()
        self._crowded = self._gathering = False
        self._stopped = False
        self._always_full = always_full
        self._full: bool | None = None
        self._sql = queries()
        self._thread = threading.Thread(target=self._work, name="toolcrib-write", daemon=True)
        self._thread.start()

    def __bool__(self) -> bool:
        """True if something waits to be written."""
        return self._open > 0 or bool(self._behind)

    @property
    def idle(self) -> bool:
        """True if all that was given to it is written, so that nobody has to wait for its thread."""
        return not (self or self._late or self._stopped)

    @property
    def behind(self) -> bool:
        """True if more waits than should."""
        return self._open >= BACKLOG and self._loop.time() - self._handed[0][0] > OLD_S

    def put(self, write: Write) -> None:
        """Gathers a write; it is taken within milliseconds."""
        if self._stopped:
            return
        self._behind.append(_WriterJob(write, None))
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
            self._open += len(jobs)
            self._handed.append((self._loop.time(), len(jobs)))
            self._queue.put(jobs)

    def do(self, do: Do) -> asyncio.Future[Any]:
        """Takes its place behind all that was given before; the future has the outcome when it is durable."""
        future = self._loop.create_future()
        if self._stopped:
            future.set_exception(StoreUnavailable(f"The store {self._path.name} is closed"))
            return future
        self._behind.append(_WriterJob(do, future))
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
        if self._timer is not None:
            self._timer.cancel()

    # In the thread

    def _work(self) -> None:
        while jobs := list(self._next()):
            while len(jobs) < BATCH and not self._queue.empty():
                more = self._queue.get()
                if not more:
                    self._queue.put(more)
                    break
                jobs += more
            late, self._late = self._late, []
            self._tell(self._put_off(self._transaction(late + jobs)))
            self._checkpoints.after_write()

    def _next(self) -> list[_WriterJob]:
        """What has gathered; while there is nothing, the WAL is emptied."""
        while True:
            try:
                return self._queue.get(True, self._checkpoints.rest_s)
            except Empty:
                self._checkpoints.rest()

    def _put_off(self, outcomes: list[_Outcome]) -> list[_Outcome]:
        """While the file cannot be written, what nobody waits for stays first in line; what builds on it fails too."""
        told: list[_Outcome] = []
        error: StoreUnavailable | None = None
        for job, value, first in outcomes:
            error = value if isinstance(value, StoreUnavailable) else error
            away = value is error or (isinstance(value, Conflict) and bool(self._late))
            if error is not None and away and job.future is None and len(self._late) < LATE:
                self._late.append(job)
            else:
                told.append(_Outcome(job, error if away else value, first))
        return told

    def _transaction(self, jobs: list[_WriterJob], again: bool = False) -> list[_Outcome]:
        """All jobs in one transaction; where one of them breaks it, each in its own."""
        try:
            self._sync(jobs)
            self._begin()
        except Exception as error:  # noqa: BLE001 - nobody can write now
            self._roll_back()
            return [_Outcome(job, explain(error, self._path), 0) for job in jobs]
        try:
            done = [self._do(job) for job in jobs]
            self._flush()
            self._db.execute("COMMIT")
            self._moves.ended()
        except sqlite3.IntegrityError as error:
            # Another process wrote to one of these logs since its last number was looked up: look again, once.
            self._roll_back()
            return (
                [_Outcome(job, explain(error, self._path), 0) for job in jobs]
                if again
                else self._transaction(jobs, True)
            )
        except Exception as error:  # noqa: BLE001 - whatever broke, it goes to whoever waits for it
            self._roll_back()
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._transaction([job])]
            return [_Outcome(jobs[0], explain(error, self._path), 0)]
        return done

    def _sync(self, jobs: list[_WriterJob]) -> None:
        """A start that may not be forgotten waits for the disk itself; a kill takes nothing else either."""
        full = self._always_full or any(isinstance(job.do, Write) and job.do.first for job in jobs)
        if full is not self._full and (full or self._full is None or len(jobs) == 1):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._full = full

    def _begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        if len(self._heads) > HEADS:
            self._heads.clear()

    def forget_heads(self) -> None:
        """A job has deleted sessions: what is known of them is looked up anew. To be called by that job."""
        self._heads.clear()

    def _roll_back(self) -> None:
        self._heads.clear()
        self._rows.clear()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._moves.ended()

    def _flush(self) -> None:
        """The events of the whole batch at once."""
        if self._rows:
            self._db.executemany(self._sql["insert_event"], self._rows)
            self._rows.clear()

    def _do(self, job: _WriterJob) -> _Outcome:
        if isinstance(job.do, Write):
            return self._write(job, job.do)
        self._flush()
        return _Outcome(job, job.do(self._db), 0)

    def _write(self, job: _WriterJob, write: Write) -> _Outcome:
        head = self._heads.get(write.session) or self._head(write.session)
        if write.holder is not None and (fenced := self._fenced(head, *write.holder)) is not None:
            return _Outcome(job, fenced, 0)
        if write.revision is not None and write.revision[0] != head.revision:
            return _Outcome(job, Conflict(None), 0)
        if write.row is not None:
            conflict = self._guard(head, write, write.row)
            if conflict is not None:
                return _Outcome(job, conflict, 0)
        first = head.seq + 1
        for draft in write.events:
            head.seq += 1
            self._rows.append(self._event(head.n, head.seq, draft))
        if write.cursor is not None:
            consumer, seq = write.cursor
            self._db.execute(self._sql["move_cursor"], {"n": head.n, "consumer": consumer, "seq": seq})
        if write.adds:
            self._add(head.n, write, first)
        if write.keeps or write.forgets:
            self._keep(head.n, write)
        self._touch(head, write)
        return _Outcome(job, None, first)

    def _add(self, n: int, write: Write, first: int) -> None:
        places = write.places()
        for row in write.adds:
            row.accepted_seq = first + places[row.id]
            if not insert_row(self._db, n, row):
                raise StoreError(f"There is a call '{row.id}' already")

    def _keep(self, n: int, write: Write) -> None:
        for id, data in write.keeps:
            keep(self._db, n, id, data)
        for call in write.forgets:
            self._db.execute(self._sql["forget_secrets"], {"n": n, "id": f"{SECRET}{call}"})

    def _head(self, session: str) -> _Head:
        self._flush()
        found = self._db.execute(self._sql["session_head"], {"id": session}).fetchone()
        if found is None:
            raise StoreError(f"There is no session '{session}'")
        head = self._heads[session] = _Head(*found)
        return head

    def _touch(self, head: _Head, write: Write) -> None:
        """The session's own row is not written for every event, which would double the pages of a small commit."""
        at, call = (write.events[-1][0], write.events[-1][1]) if write.events else (head.used_at, "")
        if write.revision is None and call is not None and at - head.used_at < TOUCH_S:
            return
        head.used_at = max(head.used_at, at)
        head.revision = write.revision[1] if write.revision else head.revision
        if call is None and write.events:
            head.closed = DOORS.get(write.events[-1][2], head.closed)
        if call is None or write.revision is not None:
            self._moves.began()
        values = {"n": head.n, "revision": head.revision, "at": head.used_at, "closed": head.closed}
        if not self._db.execute(self._sql["touch_session"], values).rowcount:
            raise sqlite3.IntegrityError("another process swept the session")

    def _event(self, n: int, seq: int, draft: Draft) -> tuple[Any, ...]:
        at, call, kind, data = draft
        key = (n << 32) + seq
        text, large = split_large(kind, data)
        for part in large.values():
            keep(self._db, n, part.id, part.json)
        names = encode({name: part.id for name, part in large.items()}).decode() if large else None
        return (key, at, call, kind, text.decode(), names, event_crc(key, at, call, kind, text, names))

    def _guard(self, head: _Head, write: Write, row: Row) -> Conflict | None:
        done_seq = head.seq + len(write.events) if row.state == "done" else row.done_seq
        if write.expect is None:
            if head.closed and enters(row):
                return Conflict(standing(self._db, head.n, row), closed=True)
            changed = _insert(self._db, head.n, row, head.seq + 1, done_seq)
            row.accepted_seq = head.seq + 1 if changed else row.accepted_seq
        else:
            new = (row.state, row.attempt, row.worker, row.code, row.question, row.expires_at, row.crashes, done_seq)
            changed = self._db.execute(self._sql["update_call"], (*new, row.id, *write.expect)).rowcount
        if changed:
            return None
        return Conflict(standing(self._db, head.n, row))

    def _fenced(self, head: _Head, call: str, attempt: int) -> Conflict | None:
        if self._db.execute(self._sql["holds"], (call, head.n, attempt)).fetchone() is not None:
            return None
        return Conflict(read_row(self._db, "call", id=call), fenced=True)

    # Back in the loop

    def _tell(self, outcomes: list[_Outcome]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._told, outcomes)
        except RuntimeError:  # the loop is gone: nobody is left to be told, and what was committed stays committed
            return

    def _told(self, outcomes: list[_Outcome]) -> None:
        self._open -= len(outcomes)
        left = len(outcomes)
        while left:
            at, waiting = self._handed.popleft()
            if waiting > left:
                self._handed.appendleft((at, waiting - left))
            left -= min(left, waiting)
        self._crowded = len(outcomes) > 1
        followed = bool(self._followers)
        for job, value, first in outcomes:
            failed = isinstance(value, Exception)
            if isinstance(job.do, Write) and value is None:
                if followed and job.do.events:
                    self._followers.committed(job.do.session, first, job.do.events)
                if job.do.on_commit is not None:
                    job.do.on_commit()
            elif isinstance(value, Conflict) and isinstance(job.do, Write) and job.do.on_conflict is not None:
                job.do.on_conflict(value)
            if job.future is not None and not job.future.done():
                job.future.set_exception(value) if failed else job.future.set_result(value)


def keep(db: sqlite3.Connection, n: int, id: str, data: bytes) -> None:
    """Stores a large value once."""
    db.execute(queries()["keep"], {"n": n, "id": id, "data": data, "crc": kept_crc(id, data)})


def standing(db: sqlite3.Connection, n: int, row: Row) -> Row | None:
    """The row that has the id or the key of another."""
    return read_row(db, "call", id=row.id) or read_row(db, "call_by_key", n=n, key=row.key)


def insert_row(db: sqlite3.Connection, n: int, row: Row) -> bool:
    """Puts a row into the index as it is; False where its id or its key is taken."""
    return _insert(db, n, row, row.accepted_seq, row.done_seq) > 0


def _insert(db: sqlite3.Connection, n: int, row: Row, accepted_seq: int, done_seq: int | None) -> int:
    values = (row.id, n, row.tool, row.effect, row.state, row.attempt, row.worker, row.accepted_at)
    rest = (row.background, row.parent, row.key, row.code, row.question, row.expires_at, row.crashes)
    return db.execute(queries()["insert_call"], (*values, *rest, accepted_seq, done_seq)).rowcount


def read_rows(db: sqlite3.Connection, query: str, **values: Any) -> list[Row]:
    """Rows of the index."""
    cursor = db.execute(queries()[query], values)
    names = [column[0] for column in cursor.description]
    return [to_row(dict(zip(names, found, strict=True))) for found in cursor]


def read_row(db: sqlite3.Connection, query: str, **values: Any) -> Row | None:
    """The first row of the index that fits."""
    return next(iter(read_rows(db, query, **values)), None)


def to_row(data: dict[str, Any]) -> Row:
    """A row of the index from its columns."""
    data["session"] = data.pop("session_id")
    data["background"] = bool(data["background"])
    return Row(**data)


def explain(error: Exception, path: Path) -> Exception:
    """What a person can do about it, instead of SQLite's words alone."""
    if isinstance(error, sqlite3.Error):
        text = str(error)
        advice = {
            "full": "free some space; nothing was half-written",
            "locked": "another process holds it; try again",
            "malformed": "restore it from a backup",
            "readonly": "check its permissions",
        }
        hint = next((advice[word] for word in advice if word in text), "check the file and its folder")
        return StoreUnavailable(f"The store {path.name} cannot be used now: {text} ({hint})")
    if isinstance(error, (StoreError, msgspec.MsgspecError)):
        return error
    return StoreError(f"The store could not write: {type(error).__name__}: {error}")

"""The log in an SQLite file: WAL, one writer thread, group commit.

All writes go through one thread that takes what has gathered, writes it in one transaction and tells the event loop.
A second process may use the same file: numbers are given out under SQLite's lock, and a lock on one byte of
`<file>-workers` tells whether the process behind a worker's name still lives.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from toolcrib.errors import StoreError, StoreTooNew, StoreUnavailable
from toolcrib.store import Conflict, Draft, Row, SessionRow, Write
from toolcrib.store.codec import decode, encode, split_large, written
from toolcrib.store.follow import Followers
from toolcrib.store.workers import Workers
from toolcrib.types import Event

BATCH = 512
BEHIND_S = 0.005
LOOK_S = 0.1
BUSY_MS = 5000

T = TypeVar("T")


@cache
def queries() -> dict[str, str]:
    """The statements by name."""
    text = (files("toolcrib.store") / "sql/sqlite/queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)[1:]
    return {name: re.sub(r"^--.*\n", "", body, flags=re.M).strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def migrations() -> list[tuple[int, str]]:
    """The numbered steps of the schema."""
    found = [f for f in (files("toolcrib.store") / "sql/sqlite").iterdir() if re.match(r"\d{3}_", f.name)]
    return sorted((int(f.name[:3]), f.read_text()) for f in found)


class _Job(NamedTuple):
    """One piece of work for the writer thread, and where its outcome goes."""

    do: Write | Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any] | None


class _Head:
    """What the writer knows of a session between two transactions."""

    __slots__ = ("n", "revision", "seq")

    def __init__(self, n: int, seq: int, revision: int) -> None:
        self.n = n
        self.seq = seq
        self.revision = revision


class SqliteStore:
    """A store in one file. `?sync=normal` trades the last moments before a power cut for speed; a kill loses nothing."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        path = unquote(parts.path)
        if not parts.path.startswith("/") or path == "/":
            raise StoreError(f"'{url}' names no file. Use sqlite:///relative.db or sqlite:////absolute/path.db")
        self._path = Path(path[1:] if not path.startswith("//") else path[1:])
        self._sync = parse_qs(parts.query).get("sync", ["full"])[0].upper()
        if self._sync not in ("FULL", "NORMAL"):
            raise StoreError(f"'{url}': sync is 'full' or 'normal'")
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._heads: dict[str, _Head] = {}
        self._version = -1
        self._followers = Followers()
        self._looking: asyncio.Task[None] | None = None

    # Opening and closing

    async def start(self, worker: str) -> None:
        """Opens the file, migrates it and starts the writer."""
        self._loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(1, "toolcrib-read")
        self._stopping = False
        try:
            self._writing = self._connect()
            migrate(self._writing)
            self._reading = self._connect()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"Can not open {self._path}: {error}") from None
        self._workers = Workers(self._path, worker)
        self._thread = threading.Thread(target=self._work, name="toolcrib-write", daemon=True)
        self._thread.start()

    def _connect(self) -> sqlite3.Connection:
        if not self._path.parent.is_dir():
            raise StoreUnavailable(f"Can not open {self._path}: the folder {self._path.parent} does not exist")
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=256)
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {self._sync}")
        return db

    async def close(self) -> None:
        """Writes what is left, stops the threads and lets go of the file."""
        await self.flush()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._stopping = True
        self._wake.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._readers.shutdown()
        self._reading.close()
        self._writing.close()
        self._workers.leave()

    # Writing

    def put(self, write: Write) -> Conflict | None:
        """Gathers the write; the writer takes it within milliseconds."""
        self._jobs.append(_Job(write, None))
        if len(self._jobs) >= BATCH:
            self._wake.set()
        elif self._timer is None:
            self._timer = self._loop.call_later(BEHIND_S, self._due)
        return None

    def _due(self) -> None:
        self._timer = None
        self._wake.set()

    async def commit(self, write: Write) -> Conflict | None:
        """Durable when it returns."""
        conflict: Conflict | None = await self._in_writer(write)
        return conflict

    def _in_writer(self, do: Write | Callable[[sqlite3.Connection], Any]) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._jobs.append(_Job(do, future))
        self._wake.set()
        return future

    async def flush(self) -> None:
        """Waits for everything before it."""
        await self._in_writer(lambda db: None)

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._jobs:
                jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), BATCH))]
                self._tell(self._transaction(jobs))
            if self._stopping:
                return

    def _transaction(self, jobs: list[_Job]) -> list[tuple[_Job, Any, int]]:
        """All jobs in one transaction; where one of them breaks it, each in its own."""
        db = self._writing
        try:
            self._begin(db)
            done = [(job, *self._do(db, job)) for job in jobs]
            db.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever broke, it goes to whoever waits for it
            self._roll_back(db)
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._transaction([job])]
            return [(jobs[0], _explain(error, self._path), 0)]
        return done

    def _begin(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        version = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._heads) > 10_000:
            self._heads.clear()
            self._version = version

    def _roll_back(self, db: sqlite3.Connection) -> None:
        self._heads.clear()
        if db.in_transaction:
            db.execute("ROLLBACK")

    def _do(self, db: sqlite3.Connection, job: _Job) -> tuple[Any, int]:
        if isinstance(job.do, Write):
            return self._write(db, job.do)
        return job.do(db), 0

    def _write(self, db: sqlite3.Connection, write: Write) -> tuple[Conflict | None, int]:
        head = self._heads.get(write.session) or self._head(db, write.session)
        if write.revision is not None and write.revision[0] != head.revision:
            return Conflict(None), 0
        if write.row is not None:
            conflict = self._guard(db, head, write, write.row)
            if conflict is not None:
                return conflict, 0
        first = head.seq + 1
        rows = [self._event(db, head.n, first + i, draft) for i, draft in enumerate(write.events)]
        sql = queries()
        if rows:
            db.executemany(sql["insert_event"], rows)
        if rows or write.revision is not None:
            head.seq += len(rows)
            head.revision = write.revision[1] if write.revision else head.revision
            at = write.events[-1][0] if write.events else 0.0
            db.execute(sql["touch_session"], {"n": head.n, "seq": head.seq, "revision": head.revision, "at": at})
        return None, first

    def _head(self, db: sqlite3.Connection, session: str) -> _Head:
        found = db.execute(queries()["session_head"], {"id": session}).fetchone()
        if found is None:
            raise StoreError(f"There is no session '{session}'")
        self._heads[session] = _Head(*found)
        return self._heads[session]

    def _event(self, db: sqlite3.Connection, n: int, seq: int, draft: Draft) -> tuple[Any, ...]:
        at, call, kind, data = draft
        data, large = split_large(written(kind, data))
        for part in large.values():
            db.execute(queries()["keep"], {"n": n, "id": part.id, "data": part.json})
        names = encode({name: part.id for name, part in large.items()}).decode() if large else None
        return (n, seq, at, call, kind, encode(data).decode(), names)

    def _guard(self, db: sqlite3.Connection, head: _Head, write: Write, row: Row) -> Conflict | None:
        done_seq = head.seq + len(write.events) if row.state == "done" else row.done_seq
        if write.expect is None:
            values = (row.id, head.n, row.tool, row.effect, row.state, row.attempt, row.worker, row.accepted_at)
            rest = (row.background, row.parent, row.key, row.code, row.question, row.expires_at, row.crashes)
            changed = db.execute(queries()["insert_call"], (*values, *rest, head.seq + 1, done_seq)).rowcount
        else:
            new = (row.state, row.attempt, row.worker, row.code, row.question, row.expires_at, row.crashes, done_seq)
            changed = db.execute(queries()["update_call"], (*new, row.id, *write.expect)).rowcount
        if changed:
            return None
        found = _row(db, "call", id=row.id) or _row(db, "call_by_key", n=head.n, key=row.key)
        return Conflict(found)

    def _tell(self, outcomes: list[tuple[_Job, Any, int]]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._told, outcomes)
        except RuntimeError:  # the loop is gone: nobody is left to be told, and what was committed stays committed
            return

    def _told(self, outcomes: list[tuple[_Job, Any, int]]) -> None:
        for job, outcome, first in outcomes:
            failed = isinstance(outcome, Exception)
            if isinstance(job.do, Write) and not failed and outcome is None:
                if self._followers and job.do.events:
                    self._followers.committed(job.do.session, first, job.do.events)
                if job.do.on_commit is not None:
                    job.do.on_commit()
            if job.future is not None and not job.future.done():
                job.future.set_exception(outcome) if failed else job.future.set_result(outcome)

    # Reading

    async def _in_reader(self, do: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await self._loop.run_in_executor(self._readers, do, self._reading)
        except sqlite3.Error as error:
            raise _explain(error, self._path) from None

    async def _after_writes(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """A read that must see all that was put before it."""
        if self._jobs:
            await self.flush()
        return await self._in_reader(do)

    async def open(self, session: str, owner: str, at: float) -> tuple[SessionRow, bool]:
        """Makes or finds a session."""

        def do(db: sqlite3.Connection) -> tuple[SessionRow, bool]:
            made = db.execute(queries()["open_session"], {"id": session, "owner": owner, "at": at}).rowcount > 0
            return SessionRow(*db.execute(queries()["session"], {"id": session}).fetchone()), made

        row: tuple[SessionRow, bool] = await self._in_writer(do)
        return row

    async def read(
        self, session: str, after: int = 0, *, limit: int = 1000, until: int | None = None, call: str | None = None
    ) -> list[Event]:
        """From the tail while the reader keeps up, else from the file."""
        if call is None and until is None:
            recent = self._followers.tail(session, after, limit)
            if recent is not None:
                return recent
        name = "events" if call is None else "events_of_call" if call else "events_of_session"

        def do(db: sqlite3.Connection) -> list[Event]:
            n = _number(db, session)
            values = {"n": n, "after": after, "until": until or 2**62, "limit": limit, "call": call}
            return [_event(db, n, found) for found in db.execute(queries()[name], values)]

        return await self._in_reader(do)

    async def wait(self, session: str, after: int) -> None:
        """Waits for the next commit; another process's writes are looked for every 100 ms."""
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._look_for_others())
        await self._followers.wait(session, after, lambda: self._last(session))

    async def _last(self, session: str) -> int:
        found = await self._in_reader(lambda db: db.execute(queries()["session"], {"id": session}).fetchone())
        return int(found[2]) if found else 2**62

    async def _look_for_others(self) -> None:
        """While somebody follows: tells them when the file changed in a way that this process did not."""
        seen = -1
        while self._followers or seen < 0:
            version = await self._in_reader(lambda db: db.execute("PRAGMA data_version").fetchone()[0])
            if version != seen:
                self._followers.nudge()
            seen = version
            await asyncio.sleep(LOOK_S)

    async def session(self, session: str) -> SessionRow | None:
        """One session."""
        found = await self._after_writes(lambda db: db.execute(queries()["session"], {"id": session}).fetchone())
        return None if found is None else SessionRow(*found)

    async def sessions(self, owner: str | None = None, *, limit: int = 100, before: float | None = None) -> list[SessionRow]:
        """Sessions, the last used first."""
        values = {"owner": owner, "limit": limit, "before": before}
        found = await self._after_writes(lambda db: db.execute(queries()["sessions"], values).fetchall())
        return [SessionRow(*row) for row in found]

    async def call(self, id: str) -> Row | None:
        """The row of a call."""
        return await self._after_writes(lambda db: _row(db, "call", id=id))

    async def question(self, id: str) -> Row | None:
        """The row of the call that asked."""
        return await self._after_writes(lambda db: _row(db, "call_by_question", question=id))

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
        name = "calls_done" if done_after is not None else "calls_open" if wanted and "done" not in wanted else "calls"

        def do(db: sqlite3.Connection) -> list[Row]:
            n = None if session is None else _number(db, session)
            values = {"n": n, "states": encode(wanted).decode(), "done_after": done_after, "parent": parent, "limit": limit}
            return _rows(db, name, **values)

        return await self._after_writes(do)

    async def expiring(self, before: float, limit: int = 100) -> list[Row]:
        """Waiting calls whose time is up."""
        return await self._after_writes(lambda db: _rows(db, "expiring", before=before, limit=limit))

    async def next_expiry(self) -> float | None:
        """The earliest end of a waiting call."""
        when: float | None = await self._after_writes(lambda db: db.execute(queries()["next_expiry"]).fetchone()[0])
        return when

    async def cursor(self, session: str, consumer: str) -> int:
        """Where a consumer stands."""

        def do(db: sqlite3.Connection) -> int:
            values = {"n": _number(db, session), "consumer": consumer}
            found = db.execute(queries()["cursor"], values).fetchone()
            return int(found[0]) if found else 0

        return await self._after_writes(do)

    async def move_cursor(self, session: str, consumer: str, seq: int) -> int:
        """Moves forward only."""

        def do(db: sqlite3.Connection) -> int:
            values = {"n": _number(db, session), "consumer": consumer, "seq": seq}
            db.execute(queries()["move_cursor"], values)
            return int(db.execute(queries()["cursor"], values).fetchone()[0])

        moved: int = await self._in_writer(do)
        return moved

    async def keep(self, session: str, id: str, data: bytes) -> None:
        """Keeps a large value."""
        def do(db: sqlite3.Connection) -> None:
            db.execute(queries()["keep"], {"n": _number(db, session), "id": id, "data": data})

        await self._in_writer(do)

    async def kept(self, session: str, id: str) -> bytes | None:
        """A large value."""
        return await self._after_writes(lambda db: _kept(db, _number(db, session), id))

    async def alive(self, worker: str) -> bool:
        """Whether the process behind that name holds its lock."""
        return self._workers.alive(worker)

    async def sweep(self, before: float, now: float, *, dry_run: bool = False) -> int:
        """Deletes session by session, the events of a long one in pieces, each in its own transaction."""
        if dry_run:
            values = {"before": before, "now": now}
            count: int = await self._after_writes(lambda db: db.execute(queries()["idle_count"], values).fetchone()[0])
            return count
        gone = 0
        while True:
            values = {"before": before, "now": now, "limit": 100}
            idle = await self._after_writes(lambda db: db.execute(queries()["idle"], values).fetchall())
            if not idle:
                return gone
            for n, _ in idle:
                while not await self._in_writer(lambda db, n=n: _forget(db, n, before)):  # type: ignore[misc]
                    pass
                gone += 1


def migrate(db: sqlite3.Connection) -> int:
    """Brings the schema up to date; the version that it has now.

    Raises:
        StoreTooNew: the file was written by a newer program.
    """
    steps = migrations()
    db.execute("BEGIN IMMEDIATE")
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > steps[-1][0]:
            raise StoreTooNew(
                f"The store has schema {version}, this program knows {steps[-1][0]}. Update toolcrib, or open another file."
            )
        for number, text in steps:
            if number > version:
                for statement in _statements(text):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return steps[-1][0]


def _statements(text: str) -> list[str]:
    """One statement each: a script would commit by itself in between."""
    found, statement = [], ""
    for line in re.sub(r"^--.*\n", "", text, flags=re.M).splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found


def _number(db: sqlite3.Connection, session: str) -> int:
    found = db.execute("SELECT n FROM sessions WHERE id = ?", (session,)).fetchone()
    return -1 if found is None else int(found[0])


def _event(db: sqlite3.Connection, n: int, found: tuple[Any, ...]) -> Event:
    seq, at, call, kind, data, large = found
    values = decode(data)
    if large is not None:
        for name, id in decode(large).items():
            values[name] = decode(_kept(db, n, id) or b"null")
    return Event(seq, at, call, kind, values)


def _kept(db: sqlite3.Connection, n: int, id: str) -> bytes | None:
    found = db.execute(queries()["kept"], {"n": n, "id": id}).fetchone()
    return None if found is None else bytes(found[0])


def _rows(db: sqlite3.Connection, query: str, **values: Any) -> list[Row]:
    cursor = db.execute(queries()[query], values)
    names = [column[0] for column in cursor.description]
    return [_made(dict(zip(names, found, strict=True))) for found in cursor]


def _row(db: sqlite3.Connection, query: str, **values: Any) -> Row | None:
    return next(iter(_rows(db, query, **values)), None)


def _made(found: dict[str, Any]) -> Row:
    found["session"] = found.pop("session_id")
    found["background"] = bool(found["background"])
    return Row(**found)


def _forget(db: sqlite3.Connection, n: int, before: float) -> bool:
    """One piece of a session's end; True when all of it is gone, or somebody used it again."""
    current = db.execute("SELECT updated_at FROM sessions WHERE n = ?", (n,)).fetchone()
    if current is None or current[0] >= before:
        return True
    sql = queries()
    if db.execute(sql["delete_events"], {"n": n}).rowcount:
        return False
    for name in ("delete_rest", "delete_kept", "delete_cursors", "delete_session"):
        db.execute(sql[name], {"n": n})
    return True


def _explain(error: Exception, path: Path) -> Exception:
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
        return StoreUnavailable(f"The store {path.name} can not be used now: {text} ({hint})")
    if isinstance(error, (StoreError, msgspec.MsgspecError)):
        return error
    return StoreError(f"The store could not write: {type(error).__name__}: {error}")

"""The log in memory: for tests, for the fast path's measure, and for programs that keep nothing."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from toolcrib.errors import StoreError
from toolcrib.events import Event, EventData
from toolcrib.store import (
    DOORS,
    LEASES,
    OPEN_STATES,
    OWNER,
    SECRET,
    SLACK_S,
    USE_S,
    Archive,
    Conflict,
    Draft,
    LogPosition,
    LostCalls,
    Row,
    SessionRow,
    Store,
    Walk,
    WalkedCall,
    WalkFilter,
    Write,
    enters,
)
from toolcrib.store.codec import WHOLE, CompactData, CompactWrite, PageLimit, Stored, event_json, split_large
from toolcrib.store.followers import Watchers
from toolcrib.store.own_writes import LogEntry, OwnWrites
from toolcrib.store.rollups import (
    CALL_AGENT,
    LOOKED_AT,
    ROLL_S,
    LogTallies,
    Tallies,
    Tally,
    TallyFilter,
    Times,
    add,
    by_hours,
    of_one,
)

_OPEN = frozenset(OPEN_STATES)
COUNT = 10_000
"""Events of a log that are counted at once."""

MOST = 2**31 - 1
"""More events than a call has."""


class _Log:
    """One session: its events, and who waits for more."""

    __slots__ = (
        "closed",
        "created_at",
        "events",
        "keys",
        "number",
        "open",
        "owner",
        "revision",
        "rows",
        "tallies",
        "updated_at",
        "waiters",
    )

    def __init__(self, owner: str, at: float, number: int) -> None:
        self.number = number
        self.owner = owner
        self.events: list[Draft | CompactWrite] = []
        self.revision = 0
        self.closed = False
        self.created_at = at
        self.updated_at = at
        self.keys: dict[str, str] | None = None
        self.rows: dict[str, Row] = {}
        self.open: dict[str, Row] = {}
        self.waiters: list[asyncio.Future[None]] | None = None
        self.tallies = LogTallies(owner)

    def count(self, tallies: Tallies, most: int) -> int:
        """Counts the next events of the log, at most so many; how many are left."""
        fold, events = self.tallies, self.events
        last = min(len(events), fold.seq + most)
        for seq in range(fold.seq + 1, last + 1):
            entry = events[seq - 1]
            at, call, kind, data = entry if isinstance(entry, tuple) else self.draft(seq)
            begun = entry.begun() if kind == "accepted" and not isinstance(entry, tuple) else None
            if begun is not None and begun[1] != CALL_AGENT:
                fold.begin(*begun)
            elif kind in LOOKED_AT:
                fold.take(Event(seq, at, call, kind, event_json(kind, data)), tallies)
        fold.seq = last
        return len(events) - last

    def set_rows(self, rows: dict[str, Row]) -> None:
        """Exchanges all rows."""
        self.rows = rows
        self.open = {id: row for id, row in rows.items() if row.state != "done"}
        self.keys = {row.key: row.id for row in rows.values() if row.key is not None} or None

    def draft(self, seq: int) -> Draft:
        """The event of that number; several that are one object stand there as often as it has events."""
        entry = self.events[seq - 1]
        if isinstance(entry, tuple):
            return entry
        before = 0
        while before < seq - 1 and self.events[seq - 2 - before] is entry:
            before += 1
        draft: Draft = entry[before]
        return draft

    def marks(self, over: str) -> Iterator[tuple[int, float, str]]:
        """Where calls were accepted, or where they ended: number, time and call of those events."""
        if over == "accepted":  # the rows say it: the log is not read
            for row in self.rows.values():
                if row.state not in LEASES:
                    yield row.accepted_seq, row.accepted_at, row.id
            return
        last, place = None, 0
        for seq, entry in enumerate(self.events, 1):
            place = place + 1 if entry is last else 0
            last = entry
            at, call, kind, _ = entry if isinstance(entry, tuple) else entry[place]
            if kind in ("done", "settled") and call is not None:
                yield seq, at, call


class _MemoryWrites:
    """Everything in the log of a session: nobody else can write to it."""

    def __init__(self, logs: dict[str, _Log], session: str) -> None:
        self.mistaken = False
        self._logs = logs
        self._session = session
        self._log = logs.get(session)
        self._place = 0

    def take(self) -> list[LogEntry] | None:
        """Return what was put since the last time; None once the session was deleted."""
        log = self._log
        if log is None or self._logs.get(self._session) is not log:
            self.mistaken = True
            return None
        taken: list[LogEntry] = []
        while self._place < len(log.events):
            entry = log.events[self._place]
            self._place += 1 if isinstance(entry, tuple) else entry.count
            taken.append(entry)
        return taken

    def begin(self) -> None:
        """There is nothing to prepare."""

    def settle(self, seq: int) -> None:
        """There is nothing to note."""


class MemoryStore(Store):
    """A store whose writes are done at once and gone with the process."""

    url = "memory:"
    behind = False

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._rows: dict[str, Row] = {}
        self._owners: dict[str, set[str]] = {}
        self._cursors: dict[tuple[str, str], int] = {}
        self._kept: dict[tuple[str, str], bytes] = {}
        self._secret: dict[tuple[str, str], list[str]] = {}
        self.secret_key = secrets.token_hex(32).encode()
        """What secrets are encrypted with where no key was given: it lives as long as they do."""
        self._rates: dict[str, float] = {}
        self._workers: set[str] = set()
        self._worker: str | None = None
        self._watchers = Watchers()
        self._opened = 0
        self._minutes: Tallies = {}
        self._gone: Tallies = {}

    async def start(self, worker: str) -> None:
        """A memory store outlives the crib that is closed over it, as a file would."""
        self._workers.add(worker)
        self._worker = worker

    async def close(self) -> None:
        """The worker is gone; the data stays while the object does."""
        self._workers.discard(self._worker or "")
        for log in self._logs.values():
            self._wake(log)

    async def open(self, session: str, owner: str, at: float) -> tuple[SessionRow, bool]:
        """Makes or finds a session."""
        made = session not in self._logs
        if made:
            self._opened += 1
            self._logs[session] = _Log(owner, at, self._opened)
            self._owners.setdefault(owner, set()).add(session)
        log = self._logs[session]
        if log.owner == owner and log.updated_at < at - USE_S:
            log.updated_at = at
        return self._session(session, log), made

    def put(self, write: Write) -> Conflict | None:
        """Writes at once."""
        log = self._logs.get(write.session) or self._log(write.session)
        row, events = write.row, write.events
        count = len(events) if isinstance(events, list) else events.count
        conflict = None if write.holder is None and write.revision is None else _overtaken(log, write)
        if row is not None and conflict is None:
            conflict = self._guard(log, row, write, count)
        if conflict is not None:
            return _refused(write, conflict)
        if not isinstance(events, list):
            log.events += (events,) * count
            log.updated_at = max(log.updated_at, events.at)
        elif events:
            log.events += events
            at, call, kind, _ = events[-1]
            if call is None:
                log.closed = DOORS.get(kind, log.closed)
            log.updated_at = max(log.updated_at, at)
        if write.cursor is not None or write.revision is not None:
            self._move_on(log, write)
        if write.keeps or write.forgets or write.adds:
            self._write_beside(log, write)
        if log.waiters or self._watchers.all:
            self._tell(log, write)
        if write.on_commit is not None:
            write.on_commit()
        return None

    def _move_on(self, log: _Log, write: Write) -> None:
        if write.revision is not None:
            log.revision = write.revision[1]
        if write.cursor is not None:
            self._move(write.session, *write.cursor)

    def _write_beside(self, log: _Log, write: Write) -> None:
        """What a write changes beside its log and its row."""
        first, places = len(log.events) - len(write.events) + 1, write.places() if write.adds else {}
        for row in write.adds:
            row.accepted_seq = first + places[row.id]
            self._rows[row.id] = log.rows[row.id] = log.open[row.id] = row
        for id, data in write.keeps:
            self._keep_value(write.session, id, data)
        for call in write.forgets:
            for id in self._secret.pop((write.session, call), ()):
                self._kept.pop((write.session, id), None)

    def _keep_value(self, session: str, id: str, data: bytes) -> None:
        self._kept.setdefault((session, id), data)
        if id.startswith(SECRET):
            self._secret.setdefault((session, id.split(":")[1]), []).append(id)

    def _log(self, session: str) -> _Log:
        if session not in self._logs:
            raise StoreError(f"There is no session '{session}'")
        return self._logs[session]

    def _guard(self, log: _Log, row: Row, write: Write, count: int) -> Conflict | None:
        current = self._rows.get(row.id)
        if write.expect is None:
            if (current is not None or row.key is not None or log.closed) and (
                conflict := _kept_out(log, row, current)
            ) is not None:
                return conflict
            row.accepted_seq = len(log.events) + 1
        else:
            if current is None or (current.state, current.attempt) != write.expect:
                return Conflict(current)
            row.accepted_seq = current.accepted_seq
        if row.state == "done":
            row.done_seq = len(log.events) + count
            log.open.pop(row.id, None)
        else:
            log.open[row.id] = row
        self._rows[row.id] = log.rows[row.id] = row
        return None

    def _tell(self, log: _Log, write: Write) -> None:
        self._wake(log)
        if write.events:
            self._watchers.tell(write.session)

    def _wake(self, log: _Log) -> None:
        waiters, log.waiters = log.waiters or (), None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def commit(self, write: Write) -> Conflict | None:
        """Writes at once."""
        return self.put(write)

    async def flush(self) -> None:
        """Nothing is ever behind."""

    def own_writes(self, session: str) -> OwnWrites | None:
        """All of its log."""
        return _MemoryWrites(self._logs, session)

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
        """Events as plain data."""
        return self._page(session, after, (limit, until), call, extent)[0]

    def _page(
        self, session: str, after: int, bounds: tuple[int, int | None], call: str | None, extent: PageLimit
    ) -> tuple[list[Event], int]:
        """A page, and the bytes of its data."""
        log, (limit, until) = self._logs.get(session), bounds
        page: list[Event] = []
        if log is None:
            return page, 0
        events, whose, size = log.events, call or None, 0
        last = len(events) if until is None else min(until, len(events))
        for seq in range(max(after, 0) + 1, last + 1):
            entry = events[seq - 1]
            if call == "" and not isinstance(entry, tuple):
                continue  # several events of a call
            at, of, kind, data = entry if isinstance(entry, tuple) else log.draft(seq)
            if call is None or of == whose:
                event = _event(seq, at, of, kind, data, extent.whole)
                page.append(event)
                size += len(event.json)
                if len(page) == limit or size >= extent.max_bytes:
                    break
        return page, size

    async def wait(self, session: str, after: int) -> None:
        """Waits for the next event."""
        log = self._log(session)
        if len(log.events) > after:
            return
        waiter = asyncio.get_running_loop().create_future()
        log.waiters = [*(log.waiters or ()), waiter]
        await waiter

    def watch(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Tells at once."""
        return self._watchers.add(tell)

    async def session(self, session: str) -> SessionRow | None:
        """One session."""
        log = self._logs.get(session)
        if log is None and await self.recalled(session):
            log = self._logs.get(session)
        return None if log is None else self._session(session, log)

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: SessionRow | None = None
    ) -> list[SessionRow]:
        """Sessions, the last used first."""
        ids = self._logs if owner is None else self._owners.get(owner, ())
        rows = [self._session(id, self._logs[id]) for id in ids]
        if before is not None:
            rows = [row for row in rows if _place(row) > _place(before)]
        return sorted(rows, key=_place)[:limit]

    def _session(self, session: str, log: _Log) -> SessionRow:
        return SessionRow(session, log.owner, len(log.events), log.revision, log.created_at, log.updated_at)

    async def call(self, id: str) -> Row | None:
        """The row of a call."""
        return self._rows.get(id)

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
        wanted = frozenset(states)
        rows = [
            row
            for row in self._listed(session, wanted)
            if (row.state in wanted if wanted else row.state not in LEASES)
            and (parent is None or row.parent == parent)
            and (done_after is None or (row.done_seq is not None and row.done_seq > done_after))
        ]
        rows.sort(key=lambda row: (row.session, row.accepted_seq if done_after is None else row.done_seq or 0))
        return rows[:limit]

    def _listed(self, session: str | None, states: frozenset[str]) -> Iterable[Row]:
        """The rows among which those in these states are: open ones have an index."""
        is_open = bool(states) and states <= _OPEN
        if session is None:
            return self._open_rows() if is_open else self._rows.values()
        log = self._logs.get(session)
        return () if log is None else (log.open if is_open else log.rows).values()

    def _open_rows(self, owner: str | None = None) -> Iterator[Row]:
        """The rows of calls that are not done, of all or of one owner."""
        logs = self._logs if owner is None else self._owners.get(owner, ())
        return (row for session in logs for row in self._logs[session].open.values())

    async def calls_of_owner(self, owner: str, states: Iterable[str] = OPEN_STATES, *, limit: int = 1000) -> list[Row]:
        """Open calls of an owner."""
        wanted = frozenset(states)
        rows = [row for row in self._open_rows(owner) if row.state in wanted]
        return sorted(rows, key=lambda row: (row.session, row.accepted_seq))[:limit]

    async def walk(self, where: WalkFilter, past: LogPosition | None = None, *, limit: int = 100) -> Walk:
        """Calls of all sessions by time; no event is newer than the last use of its session."""
        ids = self._logs if where.owner is None else self._owners.get(where.owner, ())
        logs = [self._logs[id] for id in ids if where.session in (None, id)]
        logs.sort(key=lambda log: log.updated_at, reverse=True)
        calls: list[WalkedCall] = []
        for log in logs:
            full = len(calls) > limit and not where.oldest_first and calls[limit].mark.at > log.updated_at
            if full or log.updated_at < where.since:
                break
            calls += self._spots(log, where, past)
            calls.sort(key=lambda spot: _order(spot.mark, where), reverse=not where.oldest_first)
            del calls[limit + 1 :]
        return Walk(calls[:limit], calls[limit - 1].mark if len(calls) > limit else None)

    def _spots(self, log: _Log, where: WalkFilter, past: LogPosition | None) -> Iterator[WalkedCall]:
        for seq, at, call in log.marks(where.over):
            row, mark = self._rows.get(call), LogPosition(at, log.number, seq)
            if row is None or not where.since <= at <= where.until or not _fits(row, seq, where):
                continue
            if past is None or (mark != past and (_order(mark, where) > _order(past, where)) is where.oldest_first):
                yield WalkedCall(row, log.owner, mark)

    async def stories(self, rows: Sequence[Row]) -> list[list[Event]]:
        """The events of several calls."""
        stories, size, every = list[list[Event]](), 0, PageLimit(MOST)
        for row in rows:
            events, length = self._page(row.session, row.accepted_seq - 1, (MOST, row.done_seq), row.id, every)
            stories.append(events)
            size += length
            if size >= WHOLE.max_bytes:
                break
        return stories

    async def expiring(self, before: float, limit: int = 100) -> list[Row]:
        """Waiting calls whose time is up."""
        rows = [row for row in self._waiting() if (row.expires_at or 0) <= before]
        return sorted(rows, key=lambda row: row.expires_at or 0)[:limit]

    async def open_calls(self, owner: str | None = None) -> dict[str, int]:
        """How many calls are waiting, queued and running."""
        states = Counter[str](row.state for row in self._open_rows(owner))
        return {state: states[state] for state in OPEN_STATES}

    async def next_expiry(self) -> float | None:
        """The earliest end of a waiting call."""
        return min((row.expires_at or 0 for row in self._waiting()), default=None)

    def _waiting(self) -> list[Row]:
        return [row for row in self._open_rows() if row.state == "waiting" and row.expires_at is not None]

    async def cursor(self, session: str, consumer: str) -> int:
        """Where a consumer stands."""
        return self._cursors.get((session, consumer), 0)

    async def move_cursor(self, session: str, consumer: str, seq: int) -> int:
        """Moves forward only."""
        self._log(session)
        return self._move(session, consumer, seq)

    def _move(self, session: str, consumer: str, seq: int) -> int:
        moved = self._cursors[session, consumer] = max(seq, self._cursors.get((session, consumer), 0))
        return moved

    async def keep(self, session: str, id: str, data: bytes) -> None:
        """Keeps a large value."""
        self._log(session)
        self._keep_value(session, id, data)

    async def kept(self, session: str, id: str) -> bytes | None:
        """A large value."""
        return self._kept.get((session, id))

    async def alive(self, worker: str) -> bool:
        """Workers over one memory store share its process."""
        return worker in self._workers

    async def lost(self) -> LostCalls:
        """What an earlier start left; nobody else can leave anything."""
        busy = await self.calls(None, ("queued", "running"), limit=len(self._rows))
        return LostCalls([row for row in busy if row.worker not in self._workers], None)

    async def sweep(self, before: float, now: float, *, dry_run: bool = False) -> int:
        """Deletes what nobody used since."""
        busy = {
            row.session
            for row in self._open_rows()
            if row.state in ("running", "queued") or (row.state == "waiting" and (row.expires_at or now) >= now)
        }
        gone = {
            id for id, log in self._logs.items() if log.updated_at < before and log.owner != OWNER and id not in busy
        }
        if not dry_run:
            self._forget(gone)
            self._rates = {key: tat for key, tat in self._rates.items() if tat > now}
        return len(gone)

    def _forget(self, gone: set[str]) -> None:
        for id in gone:
            log = self._logs.pop(id)
            log.count(self._minutes, len(log.events))
            counted: Tallies = {}
            log.tallies = LogTallies(log.owner)
            log.count(counted, len(log.events))
            for key, more in by_hours(counted).items():
                add(self._gone, key, more)
            self._wake(log)
            self._owners[log.owner].discard(id)
            if not self._owners[log.owner]:
                del self._owners[log.owner]
        self._rows = {id: row for id, row in self._rows.items() if row.session not in gone}
        self._cursors = {key: seq for key, seq in self._cursors.items() if key[0] not in gone}
        self._kept = {key: data for key, data in self._kept.items() if key[0] not in gone}
        self._secret = {key: ids for key, ids in self._secret.items() if key[0] not in gone}

    async def belongings(self, session: str) -> tuple[dict[str, int], list[str]]:
        """Its cursors and the ids of its large values."""
        cursors = {consumer: seq for (of, consumer), seq in self._cursors.items() if of == session}
        return cursors, sorted(id for of, id in self._kept if of == session)

    async def adopt(self, archive: Archive) -> bool:
        """Makes a session at once."""
        row = archive.session
        if row.id in self._logs or any(call.id in self._rows for call in archive.rows):
            return False
        self._opened += 1
        log = self._logs[row.id] = _Log(row.owner, row.created_at, self._opened)
        log.events += [(event.at, event.call, event.kind, Stored(event.json)) for event in archive.events]
        log.revision, log.updated_at, log.closed = row.revision, row.updated_at, archive.closed
        log.set_rows({call.id: call for call in archive.rows})
        self._rows |= log.rows
        self._owners.setdefault(row.owner, set()).add(row.id)
        self._cursors |= {(row.id, consumer): seq for consumer, seq in archive.cursors.items()}
        self._kept |= {(row.id, id): content for id, content in archive.kept.items()}
        return True

    async def delete(self, session: str, tombstone: Write) -> bool:
        """Deletes a session at once."""
        log = self._logs.get(session)
        if log is None or any(row.state in ("queued", "running") for row in log.rows.values()):
            return False
        self.put(tombstone)
        self._forget({session})
        return True

    async def spend(self, rates: list[tuple[str, float, int]], now: float | None = None) -> float:
        """Takes from all or from none."""
        now = time.time() if now is None else now
        ahead = {key: max(self._rates.get(key, now), now) for key, _, _ in rates}
        wait = max(ahead[key] - now - (burst - 1) * interval for key, interval, burst in rates)
        if wait > SLACK_S:
            return wait
        self._rates |= {key: ahead[key] + interval for key, interval, _ in rates}
        return 0.0

    async def roll_up(self, seconds: float = ROLL_S) -> int:
        """A write costs nothing: what is new in each log is counted here."""
        stop, left = time.monotonic() + seconds, 0
        for log in self._logs.values():
            if log.tallies.seq < len(log.events) and log.owner != OWNER:
                while (more := log.count(self._minutes, COUNT)) and time.monotonic() < stop:
                    pass
                left += more
        return left

    async def tallies(self, where: TallyFilter) -> list[Tally]:
        """What was counted."""
        rows = await self.rolled_up("minutes" if where.cube == "minutes" else "hours", where.since)
        return [
            Tally(key.at, key.what, getattr(key, where.by), key.code, one.count, one.total, one.slots)
            for key, one in rows.items()
            if key.at < where.until
            and where.owner in (None, key.owner)
            and where.agent in (None, key.agent)
            and (where.tools is None or key.tool in where.tools)
        ]

    async def rolled_up(self, cube: Times, since: int = 0) -> Tallies:
        """All of a cube; the minutes have it all."""
        counted = self._minutes if cube == "minutes" else by_hours(self._minutes)
        tallies = self._gone if cube == "gone" else counted
        if cube in ("tool", "agent", "owner"):
            tallies = of_one(tallies, cube)
        return {key: more for key, more in tallies.items() if key.at >= since}

    async def count_anew(self) -> None:
        """Of sessions that are gone, the hours stay, which begin with their first minutes."""
        self._minutes = {}
        for key, more in self._gone.items():
            add(self._minutes, key, more)
        for log in self._logs.values():
            log.tallies = LogTallies(log.owner)

    async def rebuild(self, session: str, rows: Iterable[Row], revision: int | None = None) -> None:
        """Exchanges the rows of a session."""
        log = self._log(session)
        new = {id: row for id, row in log.rows.items() if row.state in LEASES} | {row.id: row for row in rows}
        log.revision = log.revision if revision is None else revision
        self._rows = {id: row for id, row in self._rows.items() if row.session != session} | new
        for other in self._logs.values():
            for id in new.keys() & other.rows.keys():
                del other.rows[id]
                other.open.pop(id, None)
        log.set_rows(new)


def _event(seq: int, at: float, call: str | None, kind: str, data: EventData | CompactData, whole: bool) -> Event:
    """Return an event as a reader sees it, apart from the writer's objects."""
    if whole:
        return Event(seq, at, call, kind, event_json(kind, data))
    json, large = split_large(kind, data)
    return Event(seq, at, call, kind, json, {name: len(part.json) for name, part in large.items()} or None)


def _order(mark: LogPosition, where: WalkFilter) -> tuple[float, ...]:
    """The calls of one session stand in the order of its log."""
    return mark if where.session is None else mark[2:]


def _fits(row: Row, seq: int, where: WalkFilter) -> bool:
    code = "unknown" if where.over == "ended" and row.done_seq != seq else row.code or ""
    wanted = ((where.states, row.state), (where.codes, code), (where.tools, row.tool))
    named = where.tool in (None, row.tool, row.tool.rpartition(".")[2]) and row.tool not in where.other_tools
    return named and all(value in values for values, value in wanted if values)


def _kept_out(log: _Log, row: Row, current: Row | None) -> Conflict | None:
    """What keeps a new row out: its own id, the first of its key, or that its session is closed."""
    keys = log.keys or {}
    if current is None and row.key is not None and row.key in keys:
        current = log.rows[keys[row.key]]
    if log.closed and enters(row):
        return Conflict(current, closed=True)
    if current is not None:
        return Conflict(current)
    if row.key is not None:
        keys[row.key] = row.id
        log.keys = keys
    return None


def _overtaken(log: _Log, write: Write) -> Conflict | None:
    """What stands in the way of a write whose holder or whose revision of the state is not the current one."""
    holder, row = write.holder, None if write.holder is None else log.rows.get(write.holder[0])
    if holder and (row is None or row.state not in ("running", "held") or row.attempt != holder[1]):
        return Conflict(row, fenced=True)
    return Conflict(None) if write.revision is not None and write.revision[0] != log.revision else None


def _refused(write: Write, conflict: Conflict) -> Conflict:
    if write.on_conflict is not None:
        write.on_conflict(conflict)
    return conflict


def _place(row: SessionRow) -> tuple[float, str]:
    """Where a session stands in the list; ids tell those apart that were used at the same moment."""
    return -row.updated_at, row.id

"""Where the log is kept.

A store is an append-only log of events for each session, and `calls`, its index: one `Row` a call, written in the same
transaction as the events that explain it. Every change of a row is a compare-and-set on (state, attempt), so that of
two writers exactly one wins, whatever is delivered twice. What a reader sees has been committed.

`Store` is the seam; `memory`, `sqlite` (and whatever joins them) promise the same, and `toolcrib.testing` holds the one
suite that checks it. This package does not know what a tool is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toolcrib.errors import StoreError
from toolcrib.events import Event, EventData
from toolcrib.store.codec import WHOLE, CompactData, CompactWrite, PageLimit
from toolcrib.store.own_writes import OwnWrites
from toolcrib.store.rollups import ROLL_S, Tallies, Tally, TallyFilter, Times

if TYPE_CHECKING:
    from toolcrib.store.archive_index import ArchiveIndex

State = Literal["queued", "waiting", "running", "done", "held", "released", "ended"]
LEASES = ("held", "released", "ended")
"""States of rows that are no calls but leases: who may go on with the foreground run of a session, or has to see to a
message. They are guarded as calls are, and no list has them that does not ask for them.
"""

OPEN_STATES = ("waiting", "queued", "running")
"""The states of calls that are not done."""

OWNER = "toolcrib"
"""Who owns what a crib writes down for itself. Its sessions begin with that name and a point; no sweep takes them."""

SECRET = "args:"
"""What is kept of the secrets of a call has an id that begins with this and the id of the call."""

USE_S = 60.0
"""Opening counts as use; so soon after the last use it is not worth a write."""

INFINITE = float("inf")
SLACK_S = 1e-6
"""How much too early a rate allows a call: sums of times are not exact, and whoever waited as told must get in."""

Draft = tuple[float, str | None, str, EventData | CompactData]
"""An event that has no number yet: time, call, kind, data."""


def draft(at: float, call: str | None, data: EventData) -> Draft:
    """Return an event that has no number yet."""
    return at, call, data.kind, data


class Row(msgspec.Struct, gc=False):
    """What the index knows of one call. `attempt` is the fence: it rises with every claim."""

    # A msgspec Struct, since one is made for every call: five times as fast to make as a class with slots, and it
    # holds nothing that the garbage collector would have to look at.

    id: str
    session: str
    tool: str
    effect: str
    state: State
    attempt: int = 0
    worker: str | None = None
    accepted_at: float = 0.0
    background: bool = False
    parent: str | None = None
    key: str | None = None
    code: str | None = None
    question: str | None = None
    expires_at: float | None = None
    crashes: int = 0
    accepted_seq: int = 0
    done_seq: int | None = None

    def but(self, **changes: Any) -> Row:
        """A copy with other values."""
        return msgspec.structs.replace(self, **changes)

    def values(self) -> dict[str, Any]:
        """Its columns by name."""
        return msgspec.structs.asdict(self)


class Write(msgspec.Struct, eq=False):
    """Events of one session, and the row of at most one call that they change.

    `expect` is None for a new row, else the (state, attempt) that must still stand; otherwise nothing is written.
    `revision` is (expected, new) for a write that changes the session's state. `first` marks a write that must outlive
    even a power cut before it is acknowledged: the start of what may happen only once. `bounded` marks a claim that a
    `SharedStore` store refuses while its session or its owner has as many running calls as they may have, or where it
    is `serial` and another call of its tool runs in its session, or is queued there and was accepted before it. Calls
    that others made are not counted. `cursor` is (consumer, seq) of a cursor that moves with the events, forward only,
    and not at all where a guard refuses them.

    `holder` is (call, attempt) of a call or a lease of the same session on whose behalf it is made: unless that call is
    still running, or that lease held, in that attempt, nothing is written, and the `Conflict` says that it was
    `fenced`. `on_conflict` is told
    what stood in the way, also where nobody waits for the write.

    `adds` are rows of further calls that are new, with their `accepted` among the events and before a `done` of the row
    itself: they are made in the same transaction, or not at all.

    `keeps` are values, by id, that are kept beside the log with it. `forgets` are calls: all that is kept of their
    secrets (`SECRET`) is deleted with it.

    `on_late` is for a writer that does not wait for ever: where a store falls silent while it has the write, `commit`
    raises `StoreUnavailable`, and if the write turns out to have been done, `on_late` is called and may return what is
    to be written before anything else. A write without it is waited for until it is known what became of it. A write
    that such a store is given back may say that the key of its row is free again (`frees_key`).
    """

    # A msgspec Struct for the same reason as `Row`.

    session: str
    events: list[Draft] | CompactWrite
    row: Row | None = None
    expect: tuple[str, int] | None = None
    revision: tuple[int, int] | None = None
    on_commit: Callable[[], None] | None = None
    on_conflict: Callable[[Conflict], None] | None = None
    on_late: Callable[[], Write | None] | None = None
    holder: tuple[str, int] | None = None
    cursor: tuple[str, int] | None = None
    first: bool = False
    frees_key: bool = False
    bounded: bool = False
    serial: bool = False
    adds: tuple[Row, ...] = ()
    keeps: tuple[tuple[str, bytes], ...] = ()
    forgets: tuple[str, ...] = ()

    def places(self) -> dict[str, int]:
        """Where the events of each call that it adds begin."""
        added = {row.id for row in self.adds}
        firsts: dict[str, int] = {}
        for place, (_, call, _, _) in enumerate(self.events):
            if call is not None and call in added:
                firsts.setdefault(call, place)
        return firsts


class Conflict(NamedTuple):
    """Why a guarded write wrote nothing: the row that stands in its way, or none where the state's revision moved.

    `full` says that the row is as expected, but no more calls of its session or owner may run now. `fenced` says that
    the row is that of the write's holder, which is not running in that attempt any more; there may be none. `closed`
    says that the session was closed, in whatever process, and takes no new calls until it is opened again.
    """

    row: Row | None
    full: bool = False
    fenced: bool = False
    closed: bool = False


DOORS = {"closing": True, "opened": False}
"""The events of a session with which it takes no new calls from then on, or takes them again."""


def enters(row: Row) -> bool:
    """True if a new row is a call that a closed session refuses.

    One that another call made belongs to what may end in peace, and what only reads is written after it ran.
    """
    return row.parent is None and (
        row.state in ("queued", "waiting") or (row.state == "running" and row.effect == "once")
    )


class SessionRow(NamedTuple):
    """What the store knows of a session beside its log."""

    id: str
    owner: str
    seq: int
    revision: int
    created_at: float
    updated_at: float


class SessionLook(NamedTuple):
    """The number of a session's last event that belongs to no call, and the revision of its state."""

    own: int
    revision: int


class Archive(NamedTuple):
    """A whole session: its row, its log, the rows of its calls, its readers' marks and what is kept beside."""

    session: SessionRow
    events: Sequence[Event]
    rows: Sequence[Row]
    cursors: Mapping[str, int]
    kept: Mapping[str, bytes]

    @property
    def closed(self) -> bool:
        """True if its owner has logged out of it and not come back."""
        closings = [event.kind for event in self.events if event.call is None and event.kind in ("closing", "opened")]
        return closings[-1:] == ["closing"]


class LogPosition(NamedTuple):
    """A place in the logs of all sessions: by time, then by the numbers of the session and of the event."""

    at: float
    session: int
    seq: int


class WalkFilter(NamedTuple):
    """Which calls a walk finds, and in which direction it goes.

    `over` says what it goes by: when calls were accepted, or when they ended, and then also each time that one was
    settled, with its code of that time. `tool` is a whole name or the last part of one, `tools` and `other_tools` are
    whole names: one that it has, and those that it has not. Among `codes`, "" stands for success.
    """

    over: Literal["accepted", "ended"] = "accepted"
    session: str | None = None
    owner: str | None = None
    states: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    tool: str | None = None
    tools: tuple[str, ...] = ()
    other_tools: tuple[str, ...] = ()
    since: float = 0.0
    until: float = INFINITE
    oldest_first: bool = False


class WalkedCall(NamedTuple):
    """A call on a walk: its row now, its owner, and the event that put it there."""

    row: Row
    owner: str
    mark: LogPosition


class Walk(NamedTuple):
    """A page of calls, and the place from which to go on; None at the end."""

    spots: list[WalkedCall]
    next: LogPosition | None


class Damage(NamedTuple):
    """A place where a store is not what was written to it; `session` is empty where it concerns all."""

    session: str
    problem: str


class LostCalls(NamedTuple):
    """Calls whose process is gone, seconds until another look (None: never), and if all workers are surely known."""

    rows: list[Row]
    again: float | None
    sure: bool = True


class Store(ABC):
    """The promise that every store keeps; checked by `toolcrib.testing.StoreSuite`.

    The attributes with a default, and the last two methods, are for stores that can do more.
    """

    url: str

    secret_key: bytes | None = None
    """Encrypts secrets where no key was configured; only for a store that is gone with its process."""

    migrated: tuple[int | None, int | None] = (None, None)
    """The number of the schema before the store was opened, and now; None without migrations."""

    own_changed: Callable[[str], None] | None = None
    """Called with a session to which another process wrote an event of no call; "" where it may be any."""

    moved: Callable[[], int] | None = None
    """Returns another number after another process wrote an event of a session itself, or changed a state.

    Where that cannot be known at once, the number changes by itself, before `known_everywhere` returns.
    """

    now: Callable[[], float] | None = None
    """The time by the store's own clock, whatever the clock of this machine says."""

    look: Callable[[str], Awaitable[SessionLook]] | None = None
    """What is newest of a session, whoever wrote it; what is still to be written here is not waited for."""

    archive_index: ArchiveIndex | None = None
    """The sessions that are in an archive; None for a store that has no place to note them."""

    recall: Callable[[str], Awaitable[bool]] | None = None
    """Brings a session back from the archive; True where there may be one now. Whoever asks for one waits for that."""

    lapsed: Callable[[float], bool] | None = None
    """True if others may have taken this process for dead since then, by the monotonic clock of this machine."""

    @property
    def lease_s(self) -> float:
        """For how long another process may be silent before it is dead; 0 where that is known otherwise."""
        return 0.0

    @property
    @abstractmethod
    def behind(self) -> bool:
        """True if so much was put that whoever writes more should `commit` it, and so wait for its turn."""

    @abstractmethod
    async def start(self, worker: str) -> None:
        """Connects, brings the schema up to date and makes this worker known as alive.

        Raises:
            StoreUnavailable: it cannot be reached or opened.
            StoreTooNew: it was written by a newer program.
        """

    @abstractmethod
    async def close(self) -> None:
        """Writes what is left and lets go."""

    @abstractmethod
    async def open(self, session: str, owner: str, at: float) -> tuple[SessionRow, bool]:
        """Return the session, and True if it was made since there was none. That its owner opens it counts as use."""

    @abstractmethod
    def put(self, write: Write) -> Conflict | None:
        """Writes soon, in order with every other write; a write whose guard fails leaves nothing.

        What it returns is only what is known at once.
        """

    @abstractmethod
    async def commit(self, write: Write) -> Conflict | None:
        """Writes and returns when it is durable; a `Conflict` when the guard failed and nothing was written.

        Raises:
            StoreUnavailable: nothing was written.
        """

    @abstractmethod
    async def flush(self) -> None:
        """Returns when all that was put is durable."""

    @abstractmethod
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
        """Committed events past `after`, in order; with `call` only its own, with `""` those without a call.

        At most `limit`, perhaps fewer, and none only where there is none: `extent` bounds the bytes of a page.
        """

    @abstractmethod
    async def wait(self, session: str, after: int) -> None:
        """Returns when the session has an event past `after`."""

    @abstractmethod
    def watch(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """From now on `tell` is called, in the event loop, with each session that has new events; what ends that.

        It is told soon after the commit, whoever wrote, and with "" where any session may have more. Events that came
        together may be told once. While nobody watches, nothing is done for it.
        """

    @abstractmethod
    async def session(self, session: str) -> SessionRow | None:
        """The session, if there is one."""

    @abstractmethod
    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: SessionRow | None = None
    ) -> list[SessionRow]:
        """Sessions, the last used first; `before`, the last of a page, pages on."""

    @abstractmethod
    async def call(self, id: str) -> Row | None:
        """The row of a call."""

    @abstractmethod
    async def calls(
        self,
        session: str | None = None,
        states: Iterable[str] = (),
        *,
        done_after: int | None = None,
        parent: str | None = None,
        limit: int = 1000,
    ) -> list[Row]:
        """Rows in order of acceptance; with `done_after` those done past it, in order of completion.

        Without `states` all calls are listed, and no leases.
        """

    @abstractmethod
    async def calls_of_owner(self, owner: str, states: Iterable[str] = OPEN_STATES, *, limit: int = 1000) -> list[Row]:
        """Rows of calls that are not done in the sessions of an owner, in order of acceptance.

        What other owners have is not looked at, so that it does not matter how much it is.
        """

    @abstractmethod
    async def walk(self, where: WalkFilter, past: LogPosition | None = None, *, limit: int = 100) -> Walk:
        """Return calls of all sessions by time, by default the newest first; of one session by its log.

        At most `limit`, perhaps fewer, and perhaps none where there are more: it looks at so many calls and no more at
        once. `next` tells where to go on. A place stays where it is, whatever happens to the calls. What an owner's
        sessions have is looked for between their opening and their last use, give or take a minute.
        """

    @abstractmethod
    async def stories(self, rows: Sequence[Row]) -> list[list[Event]]:
        """All events of each of these calls, in order; perhaps only those of the first ones, and of one at least.

        It ends with the call whose events bring the JSON of their data to `PAGE_BYTES`.
        """

    @abstractmethod
    async def expiring(self, before: float, limit: int = 100) -> list[Row]:
        """Waiting calls whose time is up, the earliest first."""

    @abstractmethod
    async def open_calls(self, owner: str | None = None) -> dict[str, int]:
        """How many calls, of all or of one owner, are waiting, queued and running; one that no call is in counts 0."""

    @abstractmethod
    async def next_expiry(self) -> float | None:
        """When the next waiting call expires."""

    @abstractmethod
    async def cursor(self, session: str, consumer: str) -> int:
        """How far a consumer has read; 0 at first."""

    @abstractmethod
    async def move_cursor(self, session: str, consumer: str, seq: int) -> int:
        """Moves a cursor forward, never back; where it stands now."""

    @abstractmethod
    async def keep(self, session: str, id: str, data: bytes) -> None:
        """Stores a large value beside the log; the same id again changes nothing."""

    @abstractmethod
    async def kept(self, session: str, id: str) -> bytes | None:
        """A large value."""

    @abstractmethod
    async def alive(self, worker: str) -> bool:
        """True if that worker's process still lives; False when in doubt is wrong."""

    @abstractmethod
    async def lost(self) -> LostCalls:
        """Queued and running calls of workers that are not alive, in order of acceptance.

        Where a worker may turn out to be dead, it is to be asked again when that worker's lease ends.
        """

    @abstractmethod
    async def sweep(self, before: float, now: float, *, dry_run: bool = False) -> int:
        """Deletes sessions without an event since `before`, in small pieces; how many.

        Kept are those with a running call, or a waiting one that has not expired, and the crib's own (`OWNER`).
        """

    @abstractmethod
    async def belongings(self, session: str) -> tuple[dict[str, int], list[str]]:
        """The cursors of a session, and the ids of its large values."""

    @abstractmethod
    async def adopt(self, archive: Archive) -> bool:
        """Makes a whole session at once; False, and nothing is written, where its id or a call's is taken."""

    @abstractmethod
    async def delete(self, session: str, tombstone: Write) -> bool:
        """Deletes a session with all that is its, and writes the tombstone's events in the same transaction.

        False, and nothing is done, where it has a call that is queued or running, or there is no such session.
        """

    @abstractmethod
    async def spend(self, rates: list[tuple[str, float, int]], now: float | None = None) -> float:
        """Takes one from each of several rates, or from none of them; 0, or how long to wait until all would give.

        A rate is (key, interval, burst): one each `interval` seconds, with `burst` at once, by the generic cell rate
        algorithm. One statement decides; what was refused took nothing. The keys are distinct. Without `now` the
        store's own clock counts, so that no jump of a machine's clock spoils a rate that others share.
        """

    @abstractmethod
    async def rebuild(self, session: str, rows: Iterable[Row], revision: int | None = None) -> None:
        """Puts these rows, at once, in the place of all that the index says of the calls of a session; the log is not
        touched, nor are leases.

        A call that the index had put under another session comes back to this one. `revision` is that of its state.
        """

    @abstractmethod
    async def roll_up(self, seconds: float = ROLL_S) -> int:
        """Counts what was written since, for about so long, and something at least; how many lines are left to count.

        They are on a list that is written in the same transaction as they are; see `toolcrib.store.rollups`.
        """

    @abstractmethod
    async def tallies(self, where: TallyFilter) -> list[Tally]:
        """What was rolled up, in no order."""

    @abstractmethod
    async def rolled_up(self, cube: Times, since: int = 0) -> Tallies:
        """All of a cube, from that time on."""

    @abstractmethod
    async def count_anew(self) -> None:
        """Forgets all tallies but those of sessions that are gone; `roll_up` makes them anew from the log."""

    async def recalled(self, session: str) -> bool:
        """True if a session that was not there was brought back from the archive."""
        return self.recall is not None and await self.recall(session)

    async def known_everywhere(self) -> None:  # noqa: B027 - most stores tell with every look
        """Returns when no process goes by what it knew of a session before now."""

    def own_writes(self, session: str) -> OwnWrites | None:
        """Return what tells of the writes of this process to a session while it lives; None where a log is read."""
        return None

    async def damages(self) -> list[Damage]:
        """Return where the store is not what was written to it, as far as it can tell."""
        return []

    async def vacuum(self) -> None:  # noqa: B027 - most stores free space by themselves
        """Free the space of deleted sessions."""


LEASE_S = 10.0
"""A node of a shared store that was not heard of for so long is dead: others take up what it ran."""


def open_store(url: str) -> Store:
    """The store that a URL names: `memory:`, `sqlite:///path` or `postgresql://...`."""
    scheme = url.partition(":")[0]
    if scheme == "memory":
        from toolcrib.store.memory import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from toolcrib.store.sqlite.store import SqliteStore

        return SqliteStore(url)
    if scheme in ("postgresql", "postgres"):
        from toolcrib.store.postgres.store import PostgresStore

        return PostgresStore(url)
    shown = url.partition("?")[0].rpartition("@")[2]
    raise StoreError(f"Unknown store '{shown}'. Use memory:, sqlite:///path/to/file.db or postgresql://host/database")

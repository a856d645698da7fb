"""Where the log is kept.

A store is an append-only log of events for each session, and `calls`, its index: one `Row` a call, written in the same
transaction as the events that explain it. Every change of a row is a compare-and-set on (state, attempt), so that of
two writers exactly one wins, whatever is delivered twice. What a reader sees has been committed.

`Store` is the seam; `memory`, `sqlite` (and whatever joins them) promise the same, and `toolcrib.testing` holds the one
suite that checks it. This package does not know what a tool is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from toolcrib.errors import StoreError
from toolcrib.store.codec import Compact, Drafts
from toolcrib.types import Event

State = Literal["queued", "waiting", "running", "done"]
USE_S = 60.0
"""Opening counts as use; so soon after the last use it is not worth a write."""

Draft = tuple[float, str | None, str, dict[str, Any] | Compact]
"""An event that has no number yet: time, call, kind, data."""


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


class Write:
    """Events of one session, and the row of at most one call that they change.

    `expect` is None for a new row, else the (state, attempt) that must still stand; otherwise nothing is written.
    `revision` is (expected, new) for a write that changes the session's state. `first` marks a write that must outlive
    even a power cut before it is acknowledged: the start of what may happen only once.
    """

    __slots__ = ("events", "expect", "first", "on_commit", "revision", "row", "session")

    def __init__(
        self,
        session: str,
        events: list[Draft] | Drafts,
        row: Row | None = None,
        expect: tuple[str, int] | None = None,
        *,
        revision: tuple[int, int] | None = None,
        on_commit: Callable[[], None] | None = None,
    ) -> None:
        self.session = session
        self.events = events
        self.row = row
        self.expect = expect
        self.revision = revision
        self.on_commit = on_commit
        self.first = False


class Conflict(NamedTuple):
    """Why a guarded write wrote nothing: the row that stands in its way, or none where the state's revision moved."""

    row: Row | None


class SessionRow(NamedTuple):
    """What the store knows of a session beside its log."""

    id: str
    owner: str
    seq: int
    revision: int
    created_at: float
    updated_at: float


class Store(Protocol):
    """The promise that every store keeps; checked by `toolcrib.testing.StoreSuite`."""

    url: str

    async def start(self, worker: str) -> None:
        """Connects, brings the schema up to date and makes this worker known as alive.

        Raises:
            StoreUnavailable: it can not be reached or opened.
            StoreTooNew: it was written by a newer program.
        """

    async def close(self) -> None:
        """Writes what is left and lets go."""

    async def open(self, session: str, owner: str, at: float) -> tuple[SessionRow, bool]:
        """The session, made if there is none; whether it was made. Its owner's opening counts as use."""

    def put(self, write: Write) -> Conflict | None:
        """Writes soon, in order with every other write; a write whose guard fails leaves nothing.

        What it returns is only what is known at once.
        """

    async def commit(self, write: Write) -> Conflict | None:
        """Writes and returns when it is durable; a `Conflict` when the guard failed and nothing was written.

        Raises:
            StoreUnavailable: nothing was written.
        """

    async def flush(self) -> None:
        """Returns when all that was put is durable."""

    async def read(
        self, session: str, after: int = 0, *, limit: int = 1000, until: int | None = None, call: str | None = None
    ) -> list[Event]:
        """Committed events past `after`, in order; with `call` only its own, with `""` those without a call."""

    async def wait(self, session: str, after: int) -> None:
        """Returns when the session has an event past `after`."""

    async def session(self, session: str) -> SessionRow | None:
        """The session, if there is one."""

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: float | None = None
    ) -> list[SessionRow]:
        """Sessions, the last used first; `before` pages on."""

    async def call(self, id: str) -> Row | None:
        """The row of a call."""

    async def calls(
        self,
        session: str | None = None,
        states: Iterable[str] = (),
        *,
        done_after: int | None = None,
        parent: str | None = None,
        limit: int = 1000,
    ) -> list[Row]:
        """Rows in order of acceptance; with `done_after` those done past it, in order of completion."""

    async def expiring(self, before: float, limit: int = 100) -> list[Row]:
        """Waiting calls whose time is up, the earliest first."""

    async def next_expiry(self) -> float | None:
        """When the next waiting call expires."""

    async def cursor(self, session: str, consumer: str) -> int:
        """How far a consumer has read; 0 at first."""

    async def move_cursor(self, session: str, consumer: str, seq: int) -> int:
        """Moves a cursor forward, never back; where it stands now."""

    async def keep(self, session: str, id: str, data: bytes) -> None:
        """Stores a large value beside the log; the same id again changes nothing."""

    async def kept(self, session: str, id: str) -> bytes | None:
        """A large value."""

    async def alive(self, worker: str) -> bool:
        """Whether that worker's process still lives; False when in doubt is wrong."""

    async def sweep(self, before: float, now: float, *, dry_run: bool = False) -> int:
        """Deletes sessions without an event since `before`, in small pieces; how many.

        Kept are those with a running call, or a waiting one that has not expired.
        """


def open_store(url: str) -> Store:
    """The store that a URL names: `memory:` or `sqlite:///path`."""
    scheme = url.partition(":")[0]
    if scheme == "memory":
        from toolcrib.store.memory import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from toolcrib.store.sqlite import SqliteStore

        return SqliteStore(url)
    raise StoreError(f"Unknown store '{url}'. Use memory: or sqlite:///path/to/file.db")

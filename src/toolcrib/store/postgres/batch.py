"""Writes that go to Postgres together, as the columns that its function `toolcrib_write` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from toolcrib.events import EventData
from toolcrib.store import SECRET, Row, Write
from toolcrib.store.codec import CompactData, encode, split_large

MOST = 512
"""Writes of one batch."""

LARGEST = 4 * 1024 * 1024
"""Bytes of data, beyond which nothing joins a batch."""

_WRITE, _UNIT, _EVENT, _KEPT = 6, 25, 7, 3
"""How many columns each has, also where there is none of it."""

_LAST = 8
_MOVES = slice(11, 14)
_TELLS = slice(18, 22)
_HOLDER = slice(22, 24)
"""Columns of a unit: its last write, what changes with every write of its call, and on whose behalf it is written."""


class Place(NamedTuple):
    """The number of an event of a write, counted from its first one, which has none before it is written."""

    offset: int


class Batch:
    """Gathers writes while they can be judged at once; the first that cannot begins the next batch.

    Several writes of one call that build on each other are one unit with one guard. What may be refused for a reason of
    its own, a bounded claim or a change of the state, is a unit by itself. What `more` is done in the
    same transaction has the name of its statement, the number of the write that it goes with, and its values.
    In a store that is divided by sessions a batch has `one_session`.
    """

    __slots__ = (
        "_alone",
        "_awaited",
        "_bytes",
        "_calls",
        "_events",
        "_kept",
        "_keys",
        "_one_session",
        "_sessions",
        "_units",
        "_writes",
        "more",
    )

    def __init__(self, *, one_session: bool = False) -> None:
        self._one_session = one_session
        self.more: list[tuple[str, int, tuple[Any, ...]]] = []
        self._sessions: dict[str, int] = {}
        self._writes: list[tuple[Any, ...]] = []
        self._units: list[list[Any]] = []
        self._events: list[tuple[Any, ...]] = []
        self._kept: list[tuple[Any, ...]] = []
        self._calls: dict[str, int] = {}
        self._keys: set[tuple[str, str | None]] = set()
        self._alone: set[str] = set()
        self._awaited: set[str] = set()
        self._bytes = 0

    def __bool__(self) -> bool:
        """True if it has any write."""
        return bool(self._writes)

    def fits(self, session: str) -> bool:
        """True if writes of that session may be in it."""
        return not self._one_session or not self._sessions or session in self._sessions

    @property
    def session(self) -> str:
        """The session of its first write."""
        return next(iter(self._sessions))

    def add(self, write: Write, *, awaited: bool = False) -> bool:
        """Takes a write; False where it has to wait for the next batch. Raises whatever its data raises.

        Nothing can build on a write that somebody still waits for, whatever states it names: it may be refused alone.
        """
        number = len(self._writes) + 1
        if number > MOST or self._bytes > LARGEST or not self.fits(write.session):
            return False
        row, revision = write.row, write.revision
        guarded = row is not None or revision is not None or write.holder is not None
        if guarded and not self._fits(write, row):
            return False
        events, kept = len(self._events), len(self._kept)
        try:
            count, own, at = self._draft(number, write)
        except BaseException:  # what cannot be written out leaves nothing here
            del self._events[events:], self._kept[kept:]
            raise
        sessions = self._sessions
        session = sessions.get(write.session) or sessions.setdefault(write.session, len(sessions) + 1)
        unit = self._guard(session, number, write, row) if guarded else 0
        self._writes.append((session, unit, count, own, at, None if revision is None else revision[1]))
        if awaited and row is not None:
            self._awaited.add(row.id)
        if write.cursor is not None:
            self.more.append(("move_cursor", number, (write.session, *write.cursor)))
        if write.adds:
            self._add(number, write)
        for id, data in write.keeps:
            self._kept.append((number, id, data))
            self._bytes += len(data)
        for call in write.forgets:
            self.more.append(("forget_secrets", number, (write.session, f"{SECRET}{call}")))
        if write.frees_key and row is not None:
            self.more.append(("free_key", number, (write.session, row.id)))
            self._keys.add((write.session, row.key))  # whoever wants it comes with the next batch
        return True

    def _add(self, number: int, write: Write) -> None:
        places = write.places()
        for row in write.adds:
            values = (row.tool, row.effect, row.state, row.attempt, row.worker, row.accepted_at, row.background)
            rest = (row.parent, row.key, row.question, row.expires_at, row.crashes)
            self.more.append(("add_call", number, (write.session, row.id, *values, *rest, Place(places[row.id]))))

    def _fits(self, write: Write, row: Row | None) -> bool:
        if write.revision is not None and (write.session, None) in self._keys:
            return False
        if write.holder is not None and not self._follows(write.holder):
            return False
        if row is None:
            return True
        if write.expect is None and row.key is not None and (write.session, row.key) in self._keys:
            return False
        before = self._calls.get(row.id)
        if before is None:
            return True
        if write.bounded or write.serial or write.revision is not None or row.id in self._alone:
            return False
        if row.id in self._awaited:
            return False
        unit = self._units[before - 1]
        held = write.holder is None or tuple(unit[_HOLDER]) == write.holder
        return held and write.expect == (unit[11], unit[12])

    def _follows(self, holder: tuple[str, int]) -> bool:
        """True if what this batch does to the holder, if anything, leaves it running, or held, in that attempt."""
        before = self._calls.get(holder[0])
        if before is None:
            return True
        unit = self._units[before - 1]
        return holder[0] not in self._alone and (unit[11], unit[12]) in (("running", holder[1]), ("held", holder[1]))

    def _guard(self, session: int, number: int, write: Write, row: Row | None) -> int:
        """The place of the unit that this write joins or makes."""
        if row is not None and (before := self._calls.get(row.id)):
            unit = self._units[before - 1]
            unit[_LAST] = number
            unit[_MOVES] = row.state, row.attempt, row.worker
            unit[_TELLS] = row.code, row.question, row.expires_at, row.crashes
            return before
        expect, fence = write.expect or (None, None)
        revision = None
        if write.revision is not None:
            revision = write.revision[0]
            self._keys.add((write.session, None))
        head = [
            session,
            None if row is None else row.id,
            expect,
            fence,
            revision,
            write.bounded,
            write.serial,
            number,
            number,
        ]
        holder, held = write.holder or (None, None)
        behalf = [holder, held, None if holder is None else self._calls.get(holder)]
        self._units.append(head + (_NO_ROW if row is None else _columns(row, expect is None)) + behalf)
        place = len(self._units)
        if row is not None:
            self._calls[row.id] = place
            if expect is None and row.key is not None:
                self._keys.add((write.session, row.key))
            if write.bounded or write.serial or revision is not None:
                self._alone.add(row.id)
        return place

    def _draft(self, number: int, write: Write) -> tuple[int, int, float | None]:
        """Its events as columns: how many, the place of the last that belongs to no call, and the last time."""
        count = own = 0
        at: float | None = None
        for draft in write.events:
            at, call, kind, data = draft
            text, large = self._data(number, kind, data)
            self._events.append((number, count, at, call, kind, text, large))
            self._bytes += len(text)
            count += 1
            if call is None:
                own = count
        return count, own, at

    def _data(self, number: int, kind: str, data: EventData | CompactData) -> tuple[str, str | None]:
        text, large = split_large(kind, data)
        if not large:
            return text.decode(), None
        for part in large.values():
            self._kept.append((number, part.id, part.json))
            self._bytes += len(part.json)
        return text.decode(), encode({name: part.id for name, part in large.items()}).decode()

    def columns(self) -> list[Any]:
        """All of it, in the order of the function's parameters."""
        items: list[Any] = [list(self._sessions)]
        for lines, width in ((self._writes, _WRITE), (self._units, _UNIT), (self._events, _EVENT), (self._kept, _KEPT)):
            items += zip(*lines, strict=True) if lines else ((),) * width
        return [column if number in _AS_THEY_ARE else _literal(column) for number, column in enumerate(items)]


_AS_THEY_ARE = (37, 41)
"""The columns with the data of events and large values; all others are short."""


def _literal(column: Sequence[Any]) -> str:
    """A column as Postgres writes an array."""
    if any(isinstance(value, str) for value in column):
        return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in column]) + "}"
    return "{" + ",".join(map(str, column)).replace("None", "NULL") + "}"


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


_NO_ROW: list[Any] = [None] * 13


def _columns(row: Row, new: bool) -> list[Any]:
    """A row in the order of the function's parameters; what never changes is told of a new one alone."""
    moves = [row.state, row.attempt, row.worker]
    tells = [row.code, row.question, row.expires_at, row.crashes]
    if new:
        return [row.tool, row.effect, *moves, row.accepted_at, row.background, row.parent, row.key, *tells]
    return [None, None, *moves, None, None, None, None, *tells]

"""All stores give the same answers: one random history is written to each of them, and everything is asked of each."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from toolcrib.events import Accepted, CallerRecord, Done, EventData, Notice, Opened, SessionClosing, Settled
from toolcrib.store import (
    LEASES,
    OPEN_STATES,
    OWNER,
    Draft,
    LogPosition,
    Row,
    Store,
    WalkFilter,
    Write,
    draft,
)
from toolcrib.store.codec import PageLimit
from toolcrib.store.memory import MemoryStore
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.types import Failure

AT = 1_767_225_600.0
SESSIONS = {"a": "ada", "b": "ada", "c": "bob", "d": "eve", "toolcrib.x": OWNER}
STATES = ("queued", "waiting", "running", "done", "held", "released")
NEXT: dict[str, tuple[str, ...]] = {"done": ("done",), **dict.fromkeys(LEASES, LEASES)}
TOOLS = ("shop.pay", "shop.find", "pay")
STEPS = 90


class History:
    """Random writes, which are the same for every store that they are made for."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._rows: dict[str, dict[str, Any]] = {}
        self._calls = 0
        self._at = AT

    def step(self) -> Callable[[Store], Any]:
        """What to do next to each store."""
        self._at += self._random.choice((0.0, 2.0, 58.0, 60.0, 62.0))
        kinds = (self._make, self._make, self._make, self._change, self._change, self._change, self._note, self._beside)
        return self._random.choice((*kinds, self._open, self._rate))()

    def _session(self) -> str:
        return self._random.choice([*SESSIONS][:4])

    def _make(self) -> Callable[[Store], Any]:
        self._calls += 1
        known = [id for id in self._rows if self._rows[id]["state"] == "running"]
        fields: dict[str, Any] = {
            "id": self._random.choice((f"k{self._calls}", f"k{self._calls}", f"k{max(1, self._calls - 1)}")),
            "session": self._session(),
            "tool": self._random.choice(TOOLS),
            "effect": self._random.choice(("once", "read")),
            "state": self._random.choice(STATES),
            "attempt": self._random.choice((0, 1)),
            "worker": self._random.choice((None, "w", "gone")),
            "accepted_at": self._at,
            "key": self._random.choice((None, None, "key-1", "key-2")),
            "parent": self._random.choice([None, *known[:2]]),
            "expires_at": self._random.choice((None, self._at + 10, self._at + 10.5)),
        }
        fields["parent"] = None if fields["state"] in LEASES else fields["parent"]
        fields["code"] = self._random.choice((None, "denied", "failed")) if fields["state"] == "done" else None
        return self._written(fields, None)

    def _change(self) -> Callable[[Store], Any]:
        if not self._rows:
            return self._note()
        fields = dict(self._random.choice([*self._rows.values()]))
        expect = fields["state"], fields["attempt"] + self._random.choice((0, 0, 0, 1))
        fields["state"] = self._random.choice(NEXT.get(fields["state"], (*OPEN_STATES, "done")))
        fields["attempt"] += self._random.choice((0, 1))
        fields["code"] = self._random.choice((None, "denied", "unknown")) if fields["state"] == "done" else None
        return self._written(fields, expect)

    def _written(self, fields: dict[str, Any], expect: tuple[str, int] | None) -> Callable[[Store], Any]:
        id, session = fields["id"], fields["session"]
        data: list[EventData] = [Notice(f"of {id}") for _ in range(self._random.choice((1, 1, 2)))]
        if expect is None and fields["state"] not in LEASES:
            data.insert(0, Accepted(fields["tool"], "Pay", {}, CallerRecord("user"), "", fields["effect"]))
        if fields["state"] == "done":
            failure = None if fields["code"] is None else Failure(fields["code"], "It went wrong")
            settled = Settled(ok=failure is None, failure=failure, duration_ms=1.0)
            done = Done(ok=failure is None, failure=failure, duration_ms=1.0)
            data.append(settled if expect is not None and expect[0] == "done" else done)
        events = [draft(self._at, id, one) for one in data]
        cursor = self._random.choice((None, None, ("reader", self._random.randrange(6))))
        here = [one for one in self._rows if self._rows[one]["session"] == session]
        holder = self._random.choice((None, None, None, (self._random.choice([*here, "none"]), 1)))

        async def write(store: Store) -> Any:
            row = Row(**fields)
            conflict = await store.commit(Write(session, list(events), row, expect, cursor=cursor, holder=holder))
            if conflict is None:
                self._rows[id] = fields
            return _plain(conflict)

        return write

    def _note(self) -> Callable[[Store], Any]:
        session, revision = self._session(), self._random.choice((None, None, (0, 1), (1, 2), (2, 3)))
        data = self._random.choice(
            (Notice("x" * self._random.randrange(40)), SessionClosing(1.0), Opened("x", (), [], restored=True))
        )
        events: list[Draft] = [draft(self._at, None, data)]

        async def write(store: Store) -> Any:
            return _plain(await store.commit(Write(session, list(events), revision=revision)))

        return write

    def _beside(self) -> Callable[[Store], Any]:
        session, seq = self._session(), self._random.randrange(8)
        id = self._random.choice(("v1", "v2", "args:k1:x", "args:k2:x"))
        data = bytes([self._random.randrange(256)]) * 3
        forgets = self._random.choice(((), (), ("k1",)))

        async def write(store: Store) -> Any:
            await store.keep(session, id, data)
            await store.commit(Write(session, [draft(AT, None, Notice("kept"))], forgets=forgets))
            return await store.move_cursor(session, "page", seq)

        return write

    def _open(self) -> Callable[[Store], Any]:
        session, owner = self._session(), self._random.choice(("ada", "bob"))

        async def write(store: Store) -> Any:
            row, made = await store.open(session, owner, self._at)
            return row.owner, row.seq, row.updated_at, made

        return write

    def _rate(self) -> Callable[[Store], Any]:
        rates = [(name, 2.0, 3) for name in self._random.sample(("r1", "r2"), self._random.choice((1, 2)))]
        now = AT + self._random.randrange(10)

        async def write(store: Store) -> Any:
            return round(await store.spend(rates, now), 3)

        return write


def _plain(value: Any) -> Any:
    """A value that can be compared with that of another store."""
    if isinstance(value, Row):
        return value.values()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


async def asked(store: Store) -> AsyncIterator[tuple[Any, Any]]:
    """Everything that can be asked of a store at its bounds, each with the answer."""
    for session in (*SESSIONS, "none"):
        yield ("session", session), await store.session(session)
        yield ("cursors", session), [await store.cursor(session, name) for name in ("reader", "page", "none")]
        yield ("belongings", session), _plain(await store.belongings(session))
        for after, limit, until, call in product((0, 1, 5), (1, 3, 100), (None, 4), (None, "", "k2")):
            events = await store.read(session, after, limit=limit, until=until, call=call)
            yield (
                ("read", session, after, limit, until, call),
                [(e.seq, e.at, e.call, e.kind, e.fields) for e in events],
            )
        for size in (1, 60, 200):
            events = await store.read(session, 0, extent=PageLimit(size))
            yield ("bytes", session, size), [event.seq for event in events]
    for where, states, done_after, limit in product(
        (None, "a", "none"),
        ((), ("done",), ("waiting", "running"), ("queued", "done"), ("held",)),
        (None, 0, 9),
        (1, 99),
    ):
        if done_after is not None and (where is None or states not in ((), ("done",))):
            continue  # ends are numbered in each session, and only what is done has one
        rows = await store.calls(where, states, done_after=done_after, limit=limit)
        yield ("calls", where, states, done_after, limit), _plain(rows)
    for parent in ("k1", "k2", "k3", "none"):
        yield ("children", parent), sorted(row.id for row in await store.calls(None, parent=parent))
        yield ("children here", parent), _plain(await store.calls("a", parent=parent))
    async for answer in _asked_of_all(store):
        yield answer
    async for walked in _walked(store):
        yield walked


async def _asked_of_all(store: Store) -> AsyncIterator[tuple[Any, Any]]:
    for owner in ("ada", "bob", "none", None):
        rows = await store.sessions(owner)
        yield ("sessions", owner), _plain(rows)
        yield ("one session", owner), _plain(await store.sessions(owner, limit=1))
        for row in rows:
            yield ("before", row.id), _plain(await store.sessions(owner, limit=2, before=row))
        yield ("open", owner), await store.open_calls(owner)
        for states, limit in product((OPEN_STATES, ("waiting",)), (1, 99)):
            found = await store.calls_of_owner(owner or "eve", states, limit=limit)
            yield ("of owner", owner, states, limit), _plain(found)
    first = await store.next_expiry()
    yield "next", first
    for before, limit in product((AT, first or AT, (first or AT) + 60, AT + 10**6), (1, 99)):
        rows_due = await store.expiring(before, limit)
        yield ("expiring", before, limit), sorted(row.id for row in rows_due) if limit > 1 else len(rows_due)
    for before, now in product((AT, AT + 600, AT + 10**6), (AT + 300, AT + 10**6)):
        yield ("sweep", before, now), await store.sweep(before, now, dry_run=True)
    rows_all = await store.calls(None, limit=99)
    yield "stories", [[event.seq for event in story] for story in await store.stories(rows_all)]
    for id in ("k1", "k2", "k3", "none"):
        yield ("call", id), _plain(await store.call(id))


async def _walked(store: Store) -> AsyncIterator[tuple[Any, Any]]:
    filters: list[dict[str, Any]] = [
        {},
        {"session": "a"},
        {"owner": "ada"},
        {"states": ("done",)},
        {"states": ("waiting", "running")},
        {"codes": ("", "denied")},
        {"codes": ("failed",)},
        {"tool": "pay"},
        {"tool": "shop.pay"},
        {"since": AT + 400.0, "until": AT + 1200.0},
    ]
    for over, oldest_first, more in product(("accepted", "ended"), (True, False), filters):
        where = WalkFilter(over=over, oldest_first=oldest_first, **more)
        for limit in (1, 4, 200):
            past: LogPosition | None = None
            pages = []
            for _ in range(3):
                page = await store.walk(where, past, limit=limit)
                pages.append([(spot.row.id, spot.owner, spot.mark.at, spot.mark.seq) for spot in page.spots])
                past = page.next
                if past is None:
                    break
            yield ("walk", over, oldest_first, tuple(more.items()), limit), pages


@asynccontextmanager
async def opened(*stores: Store) -> AsyncIterator[tuple[Store, ...]]:
    for store in stores:
        await store.start("w")
        for session, owner in SESSIONS.items():
            await store.open(session, owner, AT)
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


async def agree(seed: int, other: Store) -> None:
    """Writes one history to a memory store and to another one, and asks both of everything."""
    async with opened(MemoryStore(), other) as stores:
        history = History(seed)
        for number in range(STEPS):
            step = history.step()
            answers = [await step(store) for store in stores]
            assert answers[0] == answers[1], f"seed {seed}, step {number}"
        questions = [[answer async for answer in asked(store)] for store in stores]
        for mine, others in zip(*questions, strict=True):
            assert mine == others, f"seed {seed}"
        swept = [await store.sweep(AT + 900, AT + 1000) for store in stores]
        assert swept[0] == swept[1]
        left = [[row.id for row in await store.sessions()] for store in stores]
        assert left[0] == left[1]


@pytest.mark.parametrize("seed", range(3))
async def test_a_file_answers_as_the_memory_does(seed: int, tmp_path: Path) -> None:
    await agree(seed, SqliteStore(f"sqlite:///{tmp_path}/log.db"))


@pytest.mark.parametrize("seed", range(3, 5))
async def test_a_database_answers_as_the_memory_does(seed: int, postgres_url: str) -> None:
    await agree(seed, PostgresStore(postgres_url))

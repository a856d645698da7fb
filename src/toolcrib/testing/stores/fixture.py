"""What the tests of the suite stand on: stores that are closed in the end, and the writes of made-up calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from toolcrib._call import lifecycle
from toolcrib.events import (
    Accepted,
    Answered,
    CallerRecord,
    Done,
    Notice,
    QuestionRecord,
    Settled,
    Started,
    Waiting,
)
from toolcrib.store import Draft, Row, State, Store, Write, draft
from toolcrib.types import Failure

AT = 1_767_225_600.0
"""When everything happens, unless a test says otherwise."""

LONGEST_S = 120.0
"""A test that takes longer waits for something that will not come."""


class StoreFixture:
    """A subclass says how a store is made; the tests get it started, and closed whatever happens."""

    async def make(self) -> Store:
        """A store without any data, not started yet."""
        raise NotImplementedError

    async def reopen(self, store: Store) -> Store:
        """A new store over the data of this one, not started yet; `store` itself where its data lives in the object."""
        raise NotImplementedError

    _stores: list[Store]

    @asynccontextmanager
    async def opened(self, *sessions: str) -> AsyncIterator[Store]:
        """A started store with these sessions."""
        async with asyncio.timeout(LONGEST_S):
            store = await self.make()
            await store.start("worker-1")
            self._stores = [store]
            try:
                for session in sessions:
                    await store.open(session, "ada", AT)
                yield store
            finally:
                for store in self._stores:
                    await store.close()

    async def restarted(self, store: Store) -> Store:
        """The store as another process finds it after this one has ended."""
        self._stores.remove(store)
        await store.close()
        again = await self.reopen(store)
        await again.start("worker-2")
        self._stores.append(again)
        return again

    async def second(self, store: Store) -> Store:
        """Another store over the same data at the same time, as a second process has it; `store` if there is none."""
        other = await self.reopen(store)
        if other is not store:
            await other.start("worker-3")
            self._stores.append(other)
        return other


def line(text: str = "", *, call: str | None = None, at: float = AT, **data: Any) -> Draft:
    """A line of a log that concerns nobody in particular."""
    return draft(at, call, Notice(text, data))


def note(session: str, text: str = "", *, at: float = AT) -> Write:
    """A write of one line and nothing else."""
    return Write(session, [line(text, at=at)])


def new(id: str, session: str = "s", state: State = "queued", **more: Any) -> Row:
    """The row of a call that was just accepted."""
    return Row(id, session, "shop.refund", "once", state, accepted_at=AT, **more)


def submit(row: Row, *, at: float = AT) -> Write:
    """The call is accepted."""
    return lifecycle.accept(row, [draft(at, row.id, _accepted(row))])


def _accepted(row: Row) -> Accepted:
    effect: Any = row.effect
    return Accepted(
        row.tool,
        "Refund",
        {},
        CallerRecord("user"),
        "",
        effect,
        key=row.key,
        parent=row.parent,
        background=row.background or None,
    )


def claim(row: Row, worker: str = "worker-1") -> Write:
    """Somebody wants to run it."""
    return lifecycle.claim(row, worker, [draft(AT, row.id, Started(row.attempt + 1, {}, "", 60.0))])


def park(row: Row, number: int = 1, expires_at: float = AT + 60) -> Write:
    """It asks, and waits."""
    question = QuestionRecord(
        id=f"{row.id}-{number}",
        call=row.id,
        session=row.session,
        tool=row.tool,
        kind="input",
        prompt="Which name?",
        key=f"name-{number}",
        arguments={},
        schema=None,
        resume="pass",
        digest="",
        path=[],
        asked_at=AT,
        expires_at=expires_at,
    )
    return lifecycle.suspend(row, question.id, expires_at, [draft(AT, row.id, Waiting(question))])


def answer(row: Row, actor: str = "ada") -> Write:
    """Somebody answers, and it is queued again."""
    answered = Answered(question=row.question or "", action="accept", actor=actor, key=actor, scope="once")
    return lifecycle.resume(row, row.worker, [draft(AT, row.id, answered)])


def finish(row: Row, code: str | None = None, *, data: Any = None) -> Write:
    """It is done."""
    return lifecycle.finish(row, code, [draft(AT, row.id, _ended(Done, code, data))])


def settle(row: Row, code: str | None = None, *, data: Any = None) -> Write:
    """Whoever ran it brings its outcome after it had ended `unknown`."""
    return lifecycle.settle(row, code, [draft(AT, row.id, _ended(Settled, code, data))])


def _ended(kind: type[Done], code: str | None, data: Any) -> Done:
    if code is None:
        return kind(ok=True, data=data, duration_ms=0)
    return kind(ok=False, failure=Failure(code, "It went wrong"), duration_ms=0)


async def commit(store: Store, write: Write) -> Row:
    """Commits a write that must win; the row that stands then."""
    assert await store.commit(write) is None
    assert write.row is not None
    return write.row


async def texts(store: Store, session: str = "s") -> list[str]:
    """What the lines of a session say."""
    return [event.fields.get("text", "") for event in await store.read(session, limit=100_000)]

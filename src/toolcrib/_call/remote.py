"""Calls that another process may run: the seam to the engine, and how their outcome is awaited from here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolcrib._call import lifecycle
from toolcrib.errors import Refused, StoreError, StoreUnavailable
from toolcrib.events import Event
from toolcrib.store import Conflict, Row, Store, Write
from toolcrib.types import Failure

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.ports import CribPort, SessionPort

T = TypeVar("T")
PAGE = 1000
RETRY_S = 0.5
ENDED = ("done", "settled")


async def patiently(crib: CribPort, read: Callable[[], Awaitable[T]]) -> T:
    """Reads for a body that runs: a store that is away is waited for, until the call is stopped.

    A crib that stops cancels the body and leaves its call to recovery, so a body never sees that end as a failure.
    """
    while True:
        try:
            return await read()
        except (Refused, StoreUnavailable) as error:
            if crib.ending:
                await asyncio.get_running_loop().create_future()
            if isinstance(error, Refused):
                raise
            await asyncio.sleep(RETRY_S)


class Engine(Protocol):
    """Where calls run past one process. Its messages are hints: the store decides who runs what, and loses nothing."""

    works: bool
    """True if this node runs calls, or only accepts, answers, cancels and follows them."""

    async def start(self, crib: CribPort) -> None:
        """Connects, and takes calls if this node works.

        Raises:
            EngineUnavailable: it cannot be reached or used.
        """

    def dispatch(self, row: Row) -> None:
        """Tells the workers that a call is queued. Where the word is lost, a sweeper says it again."""

    async def stop_call(self, row: Row, failure: Failure) -> bool:
        """Ask the worker that runs a call to stop it; return True if the worker received it."""

    async def quiet(self) -> None:
        """Takes no more calls; those that run go on."""

    async def close(self) -> None:
        """Gives back what still runs, and disconnects."""


def goes_elsewhere(live: LiveCall) -> bool:
    """True if a call is for whichever node has room: all but those that only read and leave nothing behind them.

    Limits of a tool hold for all nodes, so its calls go by the engine too. Any other call that was made by a call runs
    beside its parent, which waits for it.
    """
    assert live.tool is not None
    if live.tool.namespace == "builtin":
        return False  # it works on what is at hand here: the session, and the run of an agent
    if live.bound is not None and live.bound.is_limit:
        return True
    return not live.nested and (live.durable or live.tool.does != "read")


class RemoteResults:
    """The ends of many calls of one session, found by one reader of its log."""

    def __init__(self, crib: CribPort, session: str) -> None:
        self._crib = crib
        self._store: Store = crib.store
        self._session = session
        self._waiting: dict[str, list[asyncio.Future[Event]]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._at = 0

    def expect(self, call: str) -> asyncio.Future[Event]:
        """The event that will end a call. To be asked for before the call can end, or its row looked at after."""
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(call, []).append(future)
        future.add_done_callback(lambda done: self._leave(call, done) if done.cancelled() else None)
        return future

    async def submit(self, live: LiveCall, write: Write) -> Conflict | None:
        """Commits the first write of a call; where its caller waits, its end is looked for from there on."""
        if live.caller.awaited and not live.background:
            live.expect(self.expect(live.id))
        try:
            conflict = await self._store.commit(write)
        except BaseException:
            self._waiting.pop(live.id, None)
            raise
        if conflict is not None:
            self._waiting.pop(live.id, None)
            live.expect(None)
        elif live.outcome is not None and write.row is not None:
            self.follow(write.row.accepted_seq)
        return conflict

    def follow(self, after: int) -> None:
        """Reads on from there, unless somebody reads already."""
        if self._waiting and (self._reader is None or self._reader.done()):
            self._at = after
            self._reader = asyncio.get_running_loop().create_task(self._read())

    async def end_of(self, call: str) -> Event:
        """The event that ended a call, or will.

        Raises:
            Refused: `not_found`, this session has no such call; `unavailable`, the crib was closed before.
        """
        after = 0
        if self._reader is None or self._reader.done():
            session = await self._store.session(self._session)
            after = 0 if session is None else session.seq
        future = self.expect(call)
        self.follow(after)  # the place of a reader that somebody else started meanwhile is not touched
        try:
            row = await self._store.call(call)  # it may have ended before the reader was asked to look for it
            if row is None or row.session != self._session:
                raise Refused("not_found", f"No such call: {call}")
            if row.done_seq is not None and not future.done():
                (event,) = await self._store.read(self._session, row.done_seq - 1, limit=1)
                self._tell(self._waiting.pop(call, ()), event)
                return event
        except BaseException:
            future.cancel()
            raise
        return await future

    def _leave(self, call: str, future: asyncio.Future[Event]) -> None:
        """Who asked has gone away; when nobody is left, nobody reads on."""
        waiting = [other for other in self._waiting.pop(call, ()) if other is not future]
        if waiting:
            self._waiting[call] = waiting
        elif not self._waiting and self._reader is not None:
            self._reader.cancel()
            self._reader = None  # it ends in a moment; who asks before that needs another

    async def _read(self) -> None:
        try:
            while self._waiting:
                if self._crib.ending:
                    raise Refused("unavailable", "The crib was closed before the call was done", "ask again later")
                await self._page()
        except (Refused, StoreError) as error:
            self._fail(error)

    async def _page(self) -> None:
        try:
            await self._store.wait(self._session, self._at)
            page = await self._store.read(self._session, self._at, limit=PAGE)
        except StoreUnavailable:
            if self._crib.ending:
                return
            await asyncio.sleep(RETRY_S)  # it is away: what happened meanwhile is read when it is back
            return
        for event in page:
            self._at = event.seq
            if event.kind in ENDED and event.call in self._waiting:
                self._tell(self._waiting.pop(event.call), event)

    def _tell(self, futures: Iterable[asyncio.Future[Event]], event: Event) -> None:
        for future in futures:
            if not future.done():
                future.set_result(event)

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in (future for futures in waiting.values() for future in futures):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waited may have gone away


def version_of(live: LiveCall) -> dict[str, Any]:
    """Which version of its tool a call was accepted for, so that a worker with another one can tell."""
    assert live.tool is not None
    return {"version": live.tool.fingerprint[:12]}


async def claimed(session: SessionPort, name: str) -> bool:
    """Makes this process the one that does something; a place that a dead process holds is taken over."""
    store, worker = session.crib.store, session.pipeline.worker
    for number in range(1000):
        id = f"claim:{name}:{number}"
        await store.keep(session.id, id, worker.encode())
        holder = (await store.kept(session.id, id) or b"").decode()
        if holder == worker:
            return True
        if await store.alive(holder):
            return False
    return False


async def hand_over(live: LiveCall, engine: Engine) -> None:
    """Any node may run it: all that it takes is in the store before one is told."""
    row = lifecycle.new_row(live, "queued")
    row.worker = None
    write = live.accepted(row, [lifecycle.accepted(live, **version_of(live))])
    conflict = await live.session._awaited.submit(live, write)
    if await live.pipeline.shut_out(live, conflict):
        return
    live.stand(row if conflict is None else lifecycle.standing(conflict))
    live.pipeline.release(live)
    if conflict is None:
        engine.dispatch(row)

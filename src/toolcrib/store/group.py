"""Group commit to Postgres: one connection, one task; what gathers while a batch is on its way goes with the next.

A batch has a number, and the database remembers the last one of each writer with what became of it. So a batch whose
answer was lost with the connection is sent again: nothing is written twice, and nobody is told what is not so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.store import Conflict, Row, Write
from toolcrib.store.batch import MOST, Batch
from toolcrib.store.connection import AWAY_S, PAUSE_S, RACED, Address, Connection, explain, hang_up, is_away
from toolcrib.store.follow import Followers
from toolcrib.store.schema import queries

LATE = 10_000
"""Writes that nobody waits for and that are tried again while the database is away; more are given up."""

BACKLOG = 4 * MOST
"""Where so many writes wait, whoever puts more should wait as well."""

CLOSE_S = 10.0
"""How long a store that closes waits for what is left to be written."""

BEHIND_S = 0.001
"""How long a write that nobody waits for may wait for others, where no batch is on its way."""

CROWD = 8
GATHER_S = 0.001
"""Where so many write at once, the next batch waits a little for more: a batch costs more than a write of it."""

RACES = 10
"""How often a batch begins anew because of what others did at the same time."""

REVISION, ABSENT, FULL, FENCED, CLOSED = -2, -3, (-4, -5), -6, -7
"""Why a write was refused, as the database tells it."""


class _Job(NamedTuple):
    """A write, or none for whoever waits for all before it; who waits for it, and since when."""

    write: Write | None
    future: asyncio.Future[Any] | None
    since: float


class Bounds:
    """How many bounded claims may run at once, and who is told of calls that may be tried again."""

    def __init__(self) -> None:
        self.per_session: int | None = None
        self.per_owner: int | None = None
        self.unparked: Callable[[list[str]], Coroutine[Any, Any, None]] | None = None


class Group:
    """Many write, one round trip serves them all."""

    def __init__(
        self,
        address: Address,
        name: str,
        followers: Followers,
        bounds: Bounds,
        standing: Callable[[list[tuple[Write, bool]]], Awaitable[Sequence[Row | None]]],
    ) -> None:
        self._bounds = bounds
        self._name = name
        self._address = address
        self._query = queries("postgres")["write"]
        self._followers = followers
        self._standing = standing
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Job] = deque()
        self._under_way: list[_Job] = []
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._number = 0
        self._stopped = False
        self._telling: set[asyncio.Task[None]] = set()
        self._task = self._loop.create_task(self._work())

    def __bool__(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._queue or self._under_way)

    @property
    def behind(self) -> bool:
        """Whether more waits than should."""
        return len(self._queue) >= BACKLOG

    def put(self, write: Write) -> None:
        """Gathers a write; it is taken within milliseconds."""
        if self._stopped:
            return
        self._queue.append(_Job(write, None, 0.0))
        if len(self._queue) >= MOST:
            self._wake.set()
        elif self._timer is None:
            self._timer = self._loop.call_later(BEHIND_S, self._due)

    def _due(self) -> None:
        self._timer = None
        self._wake.set()

    def do(self, write: Write | None) -> asyncio.Future[Any]:
        """Takes its place behind all that was given before; the future has the outcome when it is durable."""
        future = self._loop.create_future()
        if self._stopped:
            future.set_exception(self._closed())
            return future
        self._queue.append(_Job(write, future, self._loop.time()))
        self._wake.set()
        return future

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"The store {self._address.shown} is closed")

    async def stop(self) -> bool:
        """Writes what is left and ends the task; whoever still waits is told what is known. Whether all was written."""
        last = self.do(None)
        self._stopped = True
        try:
            await asyncio.wait_for(last, CLOSE_S)
        except (StoreUnavailable, TimeoutError):
            pass
        await self._end()
        return not last.cancelled() and last.exception() is None

    async def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()
        await asyncio.wait([self._task])
        for job in self._under_way:
            _fail(job, StoreError("The store was closed before the database told whether it has this write"))
        for job in self._queue:
            _fail(job, self._closed())
        self._under_way, self._queue = [], deque()
        if self._telling:
            await asyncio.wait(self._telling)
        if self._connection is not None:
            await hang_up(self._connection)

    # The task

    async def _work(self) -> None:
        pause = PAUSE_S[0]
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                try:
                    await self._connected()
                except StoreUnavailable as error:
                    self._give_up(error)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, PAUSE_S[1])
                    continue
                pause = PAUSE_S[0]
                jobs, batch = self._gather()
                await self._deliver(jobs, batch)
                self._under_way = []
                if len(jobs) >= CROWD:
                    await asyncio.sleep(GATHER_S)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._address.connect()
        return self._connection

    def _give_up(self, error: StoreUnavailable) -> None:
        """While the database is away: who waited long enough is told, what nobody waits for stays, up to a bound."""
        now, kept, late = self._loop.time(), deque[_Job](), 0
        for job in self._queue:
            late += job.future is None
            if job.future is not None and now - job.since > AWAY_S:
                _fail(job, error)
            elif job.future is not None or late <= LATE:
                kept.append(job)
        self._queue = kept

    def _gather(self) -> tuple[list[_Job], Batch]:
        """The next batch; what can not be judged together with it stays for the one after."""
        batch, queue = Batch(), self._queue
        jobs = self._under_way = []
        while queue:
            job = queue[0]
            try:
                if job.write is not None and not batch.add(job.write):
                    break
            except Exception as error:  # noqa: BLE001 - its data can not be written out: a matter of this write alone
                _fail(queue.popleft(), explain(error, self._address))
            else:
                jobs.append(queue.popleft())
        return jobs, batch

    async def _deliver(self, jobs: list[_Job], batch: Batch) -> None:
        """Writes a batch; where the database refuses to, each of its writes alone, so that only the bad one fails."""
        if not batch:
            self._told(jobs, ())
            return
        try:
            outcome, freed = await self._send(batch)
        except Exception as error:  # noqa: BLE001 - whatever broke, it goes to whoever waits for it
            told = explain(error, self._address)
            if isinstance(told, StoreUnavailable):
                await self._put_off(jobs, told)
                return
            if len(jobs) == 1:
                _fail(jobs[0], told)
                return
            for job in jobs:
                one = Batch()
                if job.write is not None:
                    one.add(job.write)
                await self._deliver([job], one)
            return
        self._told(jobs, outcome)
        if freed and self._bounds.unparked is not None:
            self._tell(self._bounds.unparked(freed))

    async def _put_off(self, jobs: list[_Job], error: StoreUnavailable) -> None:
        """The disk is full, or the like: who waits is told, and what nobody waits for is tried again."""
        for job in jobs:
            _fail(job, error)
        self._queue.extendleft(job for job in reversed(jobs) if job.future is None)
        self._give_up(error)
        await asyncio.sleep(PAUSE_S[1])

    async def _send(self, batch: Batch) -> tuple[list[int], list[str] | None]:
        """Sends a batch until the database tells what became of it; raises where it refuses the batch as such."""
        self._number += 1
        bounds, pause, races = self._bounds, PAUSE_S[0], 0
        values = (self._name, self._number, self._name, bounds.per_session, bounds.per_owner, *batch.columns())
        while True:
            try:
                connection = await self._connected()
                try:
                    if batch.cursors:
                        return await self._with_cursors(connection, values, batch.cursors)
                    ((outcome, freed),) = await connection.fetch(self._query, *values)
                    return outcome, freed
                except RACED:
                    races += 1
                    if races > RACES:
                        raise
                    continue
                except Exception as error:
                    if not is_away(error, connection):
                        raise
                    connection.terminate()
            except StoreUnavailable as error:
                self._give_up(error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_S[1])

    async def _with_cursors(
        self, connection: Connection, values: Sequence[Any], cursors: list[tuple[int, str, str, int]]
    ) -> tuple[list[int], list[str] | None]:
        """A batch and the cursors that move with it, all or nothing. They only move forward, so twice does no harm."""
        async with connection.transaction():
            ((outcome, freed),) = await connection.fetch(self._query, *values)
            for write, *cursor in cursors:
                if outcome[write - 1] > 0:  # what was refused has moved nothing
                    await connection.fetch(queries("postgres")["move_cursor"], *cursor)
        return outcome, freed

    # Telling

    def _told(self, jobs: list[_Job], outcome: Sequence[int]) -> None:
        refused: list[tuple[_Job, int]] = []
        firsts = iter(outcome)
        for job in jobs:
            write, future = job.write, job.future
            first = 1 if write is None else next(firsts)
            if first > 0:
                if write is not None:
                    self._written(write, first)
                if future is not None and not future.done():
                    future.set_result(None)
            elif first == ABSENT and write is not None:
                _fail(job, StoreError(f"There is no session '{write.session}'"))
            elif first == REVISION:
                _conflict(job, Conflict(None))
            elif future is not None or (write is not None and write.on_conflict is not None):
                refused.append((job, first))
        if refused:
            self._tell(self._refuse(refused))

    def _written(self, write: Write, first: int) -> None:
        if write.row is not None and write.expect is None:
            write.row.accepted_seq = first
        if self._followers and write.events:
            self._followers.committed(write.session, first, write.events)
        if write.on_commit is not None:
            try:
                write.on_commit()
            except Exception as error:  # noqa: BLE001 - it was written, whatever its writer makes of that
                self._loop.call_exception_handler({"message": "A writer could not be told", "exception": error})

    def _tell(self, telling: Coroutine[Any, Any, None]) -> None:
        """Looks something up for somebody, while the next batch is on its way."""
        task = self._loop.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _refuse(self, refused: list[tuple[_Job, int]]) -> None:
        writes = [(job.write, why == FENCED) for job, why in refused if job.write is not None]
        try:
            rows = await self._standing(writes)
        except StoreError as error:
            for job, _ in refused:
                _fail(job, error)
            return
        for (job, why), row in zip(refused, rows, strict=True):
            _conflict(job, Conflict(row, why in FULL, why == FENCED, why == CLOSED))


def _conflict(job: _Job, conflict: Conflict) -> None:
    if job.write is not None and job.write.on_conflict is not None:
        job.write.on_conflict(conflict)
    if job.future is not None and not job.future.done():
        job.future.set_result(conflict)


def _fail(job: _Job, error: Exception) -> None:
    if job.future is not None and not job.future.done():
        job.future.set_exception(error)

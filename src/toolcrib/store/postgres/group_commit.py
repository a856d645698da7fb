"""Group commit to Postgres: one connection, one task; what gathers while a batch is on its way goes with the next.

A batch has a number, and the database remembers the last one of each writer with what became of it. Where the answer to
a batch was lost, the database is asked by that number: either it has the batch, or it never will. So nothing is written
twice, and nobody gets a wrong answer.

A batch also has a deadline by the clock of the database: a server that was halted does not begin with it later, when
whoever waited was told that nothing was written. Of a batch that had begun before nobody knows until the server goes
on; a write that says what to do then (`Write.on_late`) is refused all the same, and any other waits for the truth.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.store import Conflict, Row, Write
from toolcrib.store.followers import Followers
from toolcrib.store.liveness import ServerClock, Silence
from toolcrib.store.postgres.batch import MOST, Batch, Place
from toolcrib.store.postgres.connection import (
    AWAY_S,
    PAUSE_S,
    PROBE_S,
    RACED,
    Connection,
    DatabaseAddress,
    explain,
    hang_up,
    is_away,
)
from toolcrib.store.postgres.hints import EVERYTHING, Hints
from toolcrib.store.postgres.partitions import SessionKeys

LATE = 10_000
"""Writes that nobody waits for and that are tried again while the database is away; more are given up."""

BACKLOG = 4 * MOST
"""Where so many writes wait, whoever puts more should wait as well."""

CLOSE_S = 10.0
"""How long a store that closes waits for what is left to be written, while the database answers."""

SILENT_CLOSE_S = 1.0
"""The same where the database has not answered for as long as callers wait."""

BEGIN_S = 4.0
"""A batch that the database has not begun with so long after it was sent is not written any more."""

WATCH_S = 0.25
"""How often it is looked whether somebody has waited for long enough, while somebody waits."""

BEHIND_S = 0.001
"""How long a write that nobody waits for may wait for others, where no batch is on its way."""

CROWD = 8
GATHER_S = 0.001
"""Where so many write at once, the next batch waits a little for more: a batch costs more than a write of it."""

RACES = 10
"""How often a batch begins anew because of what others did at the same time."""

REVISION, ABSENT, FULL, FENCED, CLOSED = -2, -3, (-4, -5), -6, -7
"""Why a write was refused, as the database tells it."""


T = TypeVar("T")


class _GroupWrite(NamedTuple):
    """A write, or none for whoever waits for all before it; who waits for it, and since when."""

    write: Write | None
    future: asyncio.Future[Any] | None
    since: float


class BatchOutcome(NamedTuple):
    """What became of the writes of a batch, which parked calls may be tried again, and what others are to be told."""

    outcome: list[int]
    freed: list[str] | None
    pairs: list[str] | None


class BatchWriter(NamedTuple):
    """Under which name batches are numbered, and what names a session in this store."""

    name: str
    keys: SessionKeys


class Bounds:
    """How many bounded claims may run at once, and who is notified of calls that may be tried again."""

    def __init__(self) -> None:
        self.per_session: int | None = None
        self.per_owner: int | None = None
        self.unparked: Callable[[list[str]], Coroutine[Any, Any, None]] | None = None


class GroupCommit:
    """Many write, one round trip serves them all."""

    def __init__(
        self,
        address: DatabaseAddress,
        writer: BatchWriter,
        followers: Followers,
        bounds: Bounds,
        standing: Callable[[list[tuple[Write, bool]]], Awaitable[Sequence[Row | None]]],
        hints: Hints,
    ) -> None:
        self._hints = hints
        self._name, self._keys = writer
        self._bounds = bounds
        self._address = address
        self._followers = followers
        self._standing = standing
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_GroupWrite] = deque()
        self._under_way: list[_GroupWrite] = []
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._clock = ServerClock(self._loop)
        self._silence = Silence(self._loop)
        self._error = StoreUnavailable(f"The store {address.shown} is away: it does not answer")
        self._sent = 0.0
        self._number = 0
        self._stopped = False
        self._telling: set[asyncio.Task[None]] = set()
        self._task = self._loop.create_task(self._work())

    def __bool__(self) -> bool:
        """True if something waits to be written."""
        return bool(self._queue or self._under_way)

    @property
    def behind(self) -> bool:
        """True if more waits than should."""
        return len(self._queue) >= BACKLOG

    def put(self, write: Write) -> None:
        """Gathers a write; it is taken within milliseconds."""
        if self._stopped:
            return
        self._queue.append(_GroupWrite(write, None, 0.0))
        if len(self._queue) >= MOST:
            self._wake.set()
        elif self._timer is None:
            self._timer = self._loop.call_later(BEHIND_S, self._due)

    def _due(self) -> None:
        self._timer = None
        self._wake.set()

    def do(self, write: Write | None) -> asyncio.Future[Any]:
        """Queue a write behind all others; the future has the outcome when it is durable."""
        future = self._loop.create_future()
        if self._stopped:
            future.set_exception(self._closed())
            return future
        self._queue.append(_GroupWrite(write, future, self._loop.time()))
        self._wake.set()
        if self._watch is None:
            self._watch = self._loop.call_later(WATCH_S, self._look)
        return future

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"The store {self._address.shown} is closed")

    async def stop(self) -> bool:
        """Write what is left and end the task; whoever still waits gets what is known. True if all was written."""
        last = self.do(None)
        self._stopped = True
        try:
            await asyncio.wait_for(last, SILENT_CLOSE_S if self._silence.seconds >= AWAY_S else CLOSE_S)
        except (StoreUnavailable, TimeoutError):
            pass
        written = not last.cancelled() and last.exception() is None
        await self._end(written)
        return written

    async def _end(self, written: bool) -> None:
        for timer in (self._timer, self._watch):
            if timer is not None:
                timer.cancel()
        if not written and self._connection is not None:
            self._connection.terminate()
        self._task.cancel()
        await asyncio.wait([self._task])
        for job in self._under_way:
            _fail(job, StoreError("The store was closed before the database told whether it has this write"))
        for job in self._queue:
            _fail(job, self._closed())
        self._under_way, self._queue = [], deque()
        if self._telling:
            _, pending = await asyncio.wait(self._telling, timeout=None if written else SILENT_CLOSE_S)
            for task in pending:
                task.cancel()
        if self._connection is not None:
            await hang_up(self._connection, listens=written)

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
                left = await self._deliver(jobs, batch)
                # What was not written, and nobody was told of, is the first to be tried again.
                self._queue.extendleft(job for job in reversed(left) if job.future is None or not job.future.done())
                self._under_way = []
                if len(jobs) >= CROWD:
                    await asyncio.sleep(GATHER_S)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._silence.begin()
            self._connection = await self._address.connect()
            await self._read_clock(self._connection)
        return self._connection

    async def _read_clock(self, connection: Connection) -> None:
        try:
            self._clock.observe(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8"))
        except Exception as error:
            if not is_away(error, connection):
                raise
            connection.terminate()
            raise StoreUnavailable(f"The store {self._address.shown} is away: {error}") from None
        self._silence.end()

    def _give_up(self, error: StoreUnavailable) -> None:
        """While the database is away: fail writes that waited too long, keep some of those that nobody waits for."""
        self._error = error
        self._refuse_late()
        late = [job for job in self._queue if job.future is None]
        if len(late) > LATE:
            gone = set(map(id, late[LATE:]))
            self._queue = deque(job for job in self._queue if id(job) not in gone)

    def _look(self) -> None:
        self._watch = None
        if self._silence.seconds >= PROBE_S:
            self._refuse_late()
        if self._queue or self._under_way:
            self._watch = self._loop.call_later(WATCH_S, self._look)

    def _refuse_late(self) -> None:
        """Tells who has waited long enough for a database that does not answer.

        What was not sent is not written. Of what was sent nobody knows yet, though it will not be begun with any more.
        """
        now, kept = self._loop.time(), deque[_GroupWrite]()
        for job in self._queue:
            if job.future is not None and now - job.since >= AWAY_S:
                _fail(job, self._error)
            else:
                kept.append(job)
        self._queue = kept
        if now - self._sent >= BEGIN_S:
            doubt = StoreUnavailable(f"{self._error}; it may have been written all the same", in_doubt=True)
            for job in self._under_way:
                if (job.write is None or job.write.on_late is not None) and now - job.since >= AWAY_S:
                    _fail(job, doubt)

    def _gather(self) -> tuple[list[_GroupWrite], Batch]:
        """The next batch; what cannot be judged together with it stays for the one after."""
        batch, queue = Batch(one_session=self._keys.divided), self._queue
        jobs = self._under_way = []
        others: list[_GroupWrite] = []
        while queue and len(others) < MOST:
            job = queue[0]
            if job.write is None and others:
                break  # it waits for these too
            if job.write is not None and not batch.fits(job.write.session):
                others.append(queue.popleft())
                continue
            try:
                if job.write is not None and not batch.add(job.write, awaited=job.future is not None):
                    break
            except Exception as error:  # noqa: BLE001 - its data cannot be written out: a matter of this write alone
                _fail(queue.popleft(), explain(error, self._address))
            else:
                jobs.append(queue.popleft())
        queue.extendleft(reversed(others))
        return jobs, batch

    async def _deliver(self, jobs: list[_GroupWrite], batch: Batch) -> list[_GroupWrite]:
        """Writes a batch; where the database refuses to, each of its writes alone, so that only the bad one fails.

        Returns what was not written for now, and is not known to be impossible.
        """
        if not batch:
            self._report(jobs, ())
            return []
        try:
            answer = await self._send(batch)
        except Exception as error:  # noqa: BLE001 - whatever broke, it goes to whoever waits for it
            problem = explain(error, self._address)
            if isinstance(problem, StoreUnavailable):
                await self._put_off(jobs, problem)
                return []
            if len(jobs) == 1:
                _fail(jobs[0], problem)
                return []
            return await self._deliver_singly(jobs)
        if answer is None:
            return jobs
        outcome, freed, pairs = answer
        self._hints.add(self._name, self._number, pairs or ())
        self._report(jobs, outcome)
        if freed and self._bounds.unparked is not None:
            self._tell(self._bounds.unparked(freed))
        return []

    async def _deliver_singly(self, jobs: list[_GroupWrite]) -> list[_GroupWrite]:
        for place, job in enumerate(jobs):
            one = Batch(one_session=self._keys.divided)
            if job.write is not None:
                one.add(job.write)
            if await self._deliver([job], one):
                return jobs[place:]
        return []

    async def _put_off(self, jobs: list[_GroupWrite], error: StoreUnavailable) -> None:
        """Handle a full disk and the like: fail writes that somebody waits for, retry the others."""
        for job in jobs:
            _fail(job, error)
        self._queue.extendleft(job for job in reversed(jobs) if job.future is None)
        self._give_up(error)
        await asyncio.sleep(PAUSE_S[1])

    async def _send(self, batch: Batch) -> BatchOutcome | None:
        """Sends a batch; what became of it, or None where it was not written and never will be.

        Raises what the database raises where it refuses the batch as such.
        """
        self._number += 1
        bounds, races = self._bounds, 0
        values = [self._name, self._number, self._name, bounds.per_session, bounds.per_owner, *batch.columns()]
        while True:
            try:
                connection = await self._connected()
                if self._clock.old:
                    await self._read_clock(connection)
                here = [await self._keys.number(batch.session)] if self._keys.divided else []
            except StoreUnavailable as error:
                self._give_up(error)
                return None
            self._sent = self._loop.time()
            self._silence.begin()
            try:
                limit = self._clock.server(self._sent + BEGIN_S)
                answer = await self._write(connection, [*values, limit, *here], batch)
            except RACED:
                self._silence.end()
                races += 1
                if races > RACES:
                    raise
            except Exception as error:
                if not is_away(error, connection):
                    self._silence.end()
                    raise
                connection.terminate()
                return await self._settle()
            else:
                self._silence.end()
                if answer is not None and here and ABSENT in answer.outcome and await self._has_moved(batch, here[0]):
                    return await self._send(batch)
                return answer

    async def _has_moved(self, batch: Batch, number: int) -> bool:
        """True if the session was deleted and made anew: of a batch for the one before nothing was written."""
        try:
            return await self._keys.look_up(batch.session) not in (0, number)
        except StoreUnavailable:
            return False

    async def _write(self, connection: Connection, values: list[Any], batch: Batch) -> BatchOutcome | None:
        """One batch in one transaction, with what else happens in it; None where its deadline is over."""
        sql = self._keys.sql
        if batch.more:
            async with connection.transaction():
                rows = await connection.fetch(sql["write"], *values)
                for name, write, (session, *own) in batch.more:
                    if rows and (first := rows[0][0][write - 1]) > 0:  # what was refused has changed nothing
                        values_of = [first + one.offset if isinstance(one, Place) else one for one in own]
                        where = values[-1] if self._keys.divided else session
                        await connection.fetch(sql[name], where, *values_of)
        else:
            rows = await connection.fetch(sql["write"], *values)
        if not rows:  # the server was halted, or its clock was set
            self._clock.forget()
            return None
        ((outcome, freed, pairs, at),) = rows
        self._clock.observe(at)
        return BatchOutcome(outcome, freed, pairs)

    async def _settle(self) -> BatchOutcome | None:
        """Finds out what became of a batch whose answer was lost, and sees to it that it is not written from now on."""
        pause = PAUSE_S[0]
        while True:
            try:
                connection = await self._connected()
                try:
                    ((outcome,),) = await connection.fetch(self._keys.sql["settle"], self._name, self._number)
                    return BatchOutcome(outcome, None, [EVERYTHING]) if outcome else None
                except Exception as error:
                    if not is_away(error, connection):
                        raise
                    connection.terminate()
            except StoreUnavailable as error:
                self._give_up(error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_S[1])

    # Telling

    def _report(self, jobs: list[_GroupWrite], outcome: Sequence[int]) -> None:
        refused: list[tuple[_GroupWrite, int]] = []
        firsts = iter(outcome)
        for job in jobs:
            write, future = job.write, job.future
            first = 1 if write is None else next(firsts)
            if first > 0:
                if write is not None:
                    self._written(write, first)
                    if write.on_late is not None and _refused(future) and (first_of_all := self._call(write.on_late)):
                        self._queue.appendleft(_GroupWrite(first_of_all, None, 0.0))
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
            self._call(write.on_commit)

    def _call(self, callback: Callable[[], T]) -> T | None:
        try:
            return callback()
        except Exception as error:  # noqa: BLE001 - it was written, whatever its writer makes of that
            self._loop.call_exception_handler({"message": "A writer could not be told", "exception": error})
            return None

    def _tell(self, telling: Coroutine[Any, Any, None]) -> None:
        """Looks something up for somebody, while the next batch is on its way."""
        task = self._loop.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _refuse(self, refused: list[tuple[_GroupWrite, int]]) -> None:
        writes = [(job.write, why == FENCED) for job, why in refused if job.write is not None]
        try:
            rows = await self._standing(writes)
        except StoreError as error:
            for job, _ in refused:
                _fail(job, error)
            return
        except asyncio.CancelledError:
            for job, _ in refused:
                _fail(job, self._closed())
            raise
        for (job, why), row in zip(refused, rows, strict=True):
            _conflict(job, Conflict(row, why in FULL, why == FENCED, why == CLOSED))


def _conflict(job: _GroupWrite, conflict: Conflict) -> None:
    if job.write is not None and job.write.on_conflict is not None:
        job.write.on_conflict(conflict)
    if job.future is not None and not job.future.done():
        job.future.set_result(conflict)


def _refused(future: asyncio.Future[Any] | None) -> bool:
    """True if somebody waited for a write and got an error."""
    return future is not None and future.done() and not future.cancelled() and future.exception() is not None


def _fail(job: _GroupWrite, error: Exception) -> None:
    if job.future is not None and not job.future.done():
        job.future.set_exception(error)

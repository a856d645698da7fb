"""Heartbeats of a node, from a thread of their own, so that a tool that blocks the event loop keeps its lease."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from typing import Any

from toolcrib.store.codec import encode
from toolcrib.store.postgres.connection import AWAY_S, PAUSE_S, Connection, DatabaseAddress, hang_up
from toolcrib.store.schema import queries

BEATS, LONGEST_S = 5, 2.0
"""Heartbeats in the time of one lease, and the longest time between two."""

CALM_S = 5.0
"""After a gap, how long others have to take back what the database wrote although they had given it up."""

LAST_S = 1.0
"""How long a beat that is on its way when it has to end may take."""

GAP_S = AWAY_S - 0.5
"""Less than a caller waits before it is refused."""

log = logging.getLogger("toolcrib.store")

CLEAN = 15
"""Heartbeats between two looks for what the dead have left."""


class Heartbeat:
    """Tells the database that this node lives, and what it tells of itself, until it is stopped."""

    def __init__(self, address: DatabaseAddress, name: str, facts: dict[str, Any], started_at: float) -> None:
        self._address = address
        self._name = name
        self._facts = facts
        self._started_at = started_at
        self._beats = 0
        self._tools = ""
        self._offset = started_at - time.monotonic()
        self._last = self._steady_since = self._sent = time.monotonic()
        self._lapsed_at = -1.0
        self._gap_at = float("-inf")
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._beat, name="toolcrib-beat", daemon=True)

    def start(self) -> None:
        """Begins to beat."""
        self._thread.start()

    async def stop(self, *, listens: bool = True) -> None:
        """Ends the thread; returns when nothing of it is on its way any more, at once where nobody `listens`."""
        self._loop.call_soon_threadsafe(self._end, listens)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def now(self) -> float:
        """The time of the database, as of the last beat and by this machine's monotonic clock since."""
        return time.monotonic() + self._offset

    @property
    def steady(self) -> bool:
        """True if this node has beaten for a whole lease without a gap.

        Only then may it take others for dead: while the database was away nobody could be heard of, and a node that was
        paused or cut off knows nothing of the others.
        """
        now, lease = time.monotonic(), self._address.lease
        return now - self._last < lease / 2 and now - self._steady_since >= lease

    @property
    def calm(self) -> bool:
        """True if the database has answered all along for a while.

        Else it may have been halted, and may just have written a new call that was refused meanwhile: whoever refused
        it ends it before somebody else takes it up.
        """
        now = time.monotonic()
        return now - self._last < GAP_S and now - self._gap_at >= CALM_S

    @property
    def steady_in(self) -> float:
        """In how many seconds it will have been, if it misses no beat."""
        return max(self._address.lease - (time.monotonic() - self._steady_since), 0.0)

    def lapsed(self, since: float) -> bool:
        """True if others may have taken this node for dead since then, by the monotonic clock."""
        return self._lapsed_at > since or time.monotonic() - self._sent > self._address.lease

    # In the thread

    def _beat(self) -> None:
        # A runner lets what was hung up be closed before it closes the loop.
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    def _end(self, listens: bool) -> None:
        self._stopping.set()
        if listens:
            self._loop.call_later(LAST_S, self._end, False)
            return
        if self._connection is not None:
            self._connection.terminate()
        elif self._task is not None:
            self._task.cancel()  # it connects, or it has a pause

    async def _live(self) -> None:
        self._task, pause = asyncio.current_task(), PAUSE_S[0]
        while not self._stopping.is_set():
            try:
                if self._connection is None:
                    self._connection = await self._address.connect()
                await self._tell(self._connection)
                pause = min(self._address.lease / BEATS, LONGEST_S)
            except Exception as error:  # noqa: BLE001 - a node that does not beat is dead to all others
                log.info("beating again soon: %s", error)
                if self._connection is not None:
                    self._connection.terminate()
                self._connection, pause = None, min(pause, PAUSE_S[1])
            await self._rest(pause)
        if self._connection is not None:
            await hang_up(self._connection)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _tell(self, connection: Connection) -> None:
        facts = dict(self._facts)
        tools = encode(facts.pop("tools", {})).decode()
        news = None if tools == self._tools and self._beats % CLEAN else tools
        sent = time.monotonic()
        values = (self._name, encode(facts).decode(), self._started_at, news)
        database_time = await connection.fetchval(queries("postgres")["beat"], *values)
        self._tools = tools
        now = time.monotonic()
        self._offset = database_time - (sent + now) / 2
        if now - self._last > self._address.lease / 2:
            self._steady_since = now
        if now - self._last > GAP_S:
            self._gap_at = now
        if now - self._sent > self._address.lease:
            self._lapsed_at = now  # before the next line, so that whoever looks in between sees one of both
        self._sent = sent
        self._last = now
        if self._beats % CLEAN == 0 and self.steady:
            await connection.execute(queries("postgres")["clean_nodes"], self._address.lease)
            await connection.execute(queries("postgres")["clean_batches"])
        self._beats += 1

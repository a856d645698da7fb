"""Heartbeats of a node, from a thread of their own, so that a tool that blocks the event loop keeps its lease."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

from toolcrib.store.codec import encode
from toolcrib.store.connection import PAUSE_S, Address, Connection, hang_up
from toolcrib.store.schema import queries

BEATS = 5
"""Heartbeats in the time of one lease."""

log = logging.getLogger("toolcrib.store")

CLEAN = 15
"""Heartbeats between two looks for what the dead have left."""


class Heart:
    """Tells the database that this node lives, and what it tells of itself, until it is stopped."""

    def __init__(self, address: Address, name: str, facts: dict[str, Any], started_at: float) -> None:
        self._address = address
        self._name = name
        self._facts = facts
        self._started_at = started_at
        self._beats = 0
        self._tools = ""
        self._offset = started_at - time.monotonic()
        self._last = self._steady_since = self._sent = time.monotonic()
        self._lapsed_at = -1.0
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._beat, name="toolcrib-beat", daemon=True)

    def start(self) -> None:
        """Begins to beat."""
        self._thread.start()

    async def stop(self) -> None:
        """Ends the thread; returns when nothing of it is on its way any more."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def now(self) -> float:
        """The time of the database, as of the last beat and by this machine's monotonic clock since."""
        return time.monotonic() + self._offset

    @property
    def steady(self) -> bool:
        """Whether this node has beaten for a whole lease without a gap.

        Only then may it take others for dead: while the database was away nobody could be heard of, and a node that was
        paused or cut off knows nothing of the others.
        """
        now, lease = time.monotonic(), self._address.lease
        return now - self._last < lease / 2 and now - self._steady_since >= lease

    @property
    def steady_in(self) -> float:
        """In how many seconds it will have been, if it misses no beat."""
        return max(self._address.lease - (time.monotonic() - self._steady_since), 0.0)

    def lapsed(self, since: float) -> bool:
        """Whether others may have taken this node for dead since then, by the monotonic clock."""
        return self._lapsed_at > since or time.monotonic() - self._sent > self._address.lease

    # In the thread

    def _beat(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _live(self) -> None:
        connection: Connection = None
        pause = PAUSE_S[0]
        while not self._stopping.is_set():
            try:
                if connection is None:
                    connection = await self._address.connect()
                await self._tell(connection)
                pause = self._address.lease / BEATS
            except Exception as error:  # noqa: BLE001 - a node that does not beat is dead to all others
                log.info("beating again soon: %s", error)
                if connection is not None:
                    connection.terminate()
                connection, pause = None, min(pause, PAUSE_S[1])
            await self._rest(pause)
        if connection is not None:
            await hang_up(connection)

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
        told = await connection.fetchval(queries("postgres")["beat"], *values)
        self._tools = tools
        now = time.monotonic()
        self._offset = told - (sent + now) / 2
        if now - self._last > self._address.lease / 2:
            self._steady_since = now
        if now - self._sent > self._address.lease:
            self._lapsed_at = now  # before the next line, so that whoever looks in between sees one of both
        self._sent = sent
        self._last = now
        if self._beats % CLEAN == 0 and self.steady:
            await connection.execute(queries("postgres")["clean_nodes"], self._address.lease)
            await connection.execute(queries("postgres")["clean_batches"])
        self._beats += 1

"""Heartbeats for messages: a thread of its own tells NATS that what this worker holds is still being worked on.

A tool that blocks the event loop does not lose its lease that way; a process that is stopped or dead does.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable

import nats
from nats.aio.client import Client

PROGRESS = b"+WPI"

log = logging.getLogger("toolcrib.engine")


class MessageHeartbeat:
    """Says `in progress` for every message that is held, from a thread with a loop and a connection of its own."""

    def __init__(self, servers: list[str], every: float, held: Callable[[], Iterable[str]]) -> None:
        self._servers = servers
        self._every = every
        self._held = held
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="toolcrib-pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._beat())
        self._loop.close()

    async def _beat(self) -> None:
        client: Client | None = None
        while not self._stop.is_set():
            try:
                client = client or await nats.connect(self._servers, max_reconnect_attempts=-1, error_cb=_ignore)
                for reply in self._held():
                    await client.publish(reply, PROGRESS)
            except Exception:  # noqa: BLE001 - it is away: what is held is redelivered elsewhere, where the store decides
                pass
            try:
                await asyncio.wait_for(self._stop.wait(), self._every)
            except TimeoutError:
                pass
        if client is not None:
            await hang_up(client)


async def hang_up(client: Client) -> None:
    """Closes a connection; one that is gone already is no news."""
    try:
        await client.close()
    except Exception as error:  # noqa: BLE001 - whatever breaks, there is nothing left to close
        log.debug("closing: %s", error)


async def _ignore(error: Exception) -> None:
    """What goes wrong shows in the next beat."""

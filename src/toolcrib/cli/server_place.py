"""One of several server processes behind one port: what its pool told it, and how the two talk."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from toolcrib._call.shared_limits import SharedLimits

VARIABLE = "TOOLCRIB_SERVER_PLACE"
"""The variable that tells a process which of several it is; what it starts itself does not inherit it."""


class ServerPlace(NamedTuple):
    """The place of a process in a pool, with descriptors of its own: the port, the pool, and the limits of all."""

    number: int
    total: int
    listener: int
    link: int
    limits: int
    folder: str
    announces: bool

    @classmethod
    def of_environment(cls) -> Self | None:
        """The place of this process; None if it serves alone."""
        written = os.environ.pop(VARIABLE, None)
        return None if written is None else cls(*json.loads(written))

    def environment(self) -> dict[str, str]:
        """What tells a new process that it has this place."""
        return {**os.environ, VARIABLE: json.dumps(self)}

    def shared_limits(self) -> SharedLimits:
        """The limits that hold for all processes of the pool."""
        from toolcrib._call.shared_limits import SharedLimits

        return SharedLimits(self.limits, self.number, self.total)


class PoolLink:
    """How a process talks with its pool; the end of the pool is the end of the process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._watch: asyncio.Task[None] | None = None

    @classmethod
    async def of(cls, place: ServerPlace) -> Self:
        """The link of a place."""
        return cls(*await asyncio.open_unix_connection(sock=socket.socket(fileno=place.link)))

    async def prepared(self, token: str | None) -> None:
        """Says that it can listen, and waits until it may: by then the pool has published the token.

        Raises:
            ConnectionError: the pool is gone.
        """
        self._writer.write(json.dumps({"token": token}).encode() + b"\n")
        await self._writer.drain()
        if not await self._reader.readline():
            raise ConnectionError("the pool of server processes is gone")

    def serving(self, gone: Callable[[], object]) -> None:
        """Says that it listens; `gone` is called when the pool is no more."""
        self._writer.write(b"serving\n")
        self._watch = asyncio.get_running_loop().create_task(self._until_gone(gone))

    async def _until_gone(self, gone: Callable[[], object]) -> None:
        while await self._reader.readline():
            pass
        gone()

    def close(self) -> None:
        """Ends it."""
        if self._watch is not None:
            self._watch.cancel()
        self._writer.close()

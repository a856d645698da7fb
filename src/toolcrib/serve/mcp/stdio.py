"""The server over standard input and output, for desktop clients and editors: one message a line.

Standard output belongs to the protocol alone: whatever else is printed by this process or by what it starts goes to
standard error.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from toolcrib.crib import Crib
from toolcrib.serve.mcp.duplex import Duplex
from toolcrib.serve.mcp.library import McpLibrary
from toolcrib.serve.mcp.server import McpServer
from toolcrib.serve.mcp.settings import McpServerSettings
from toolcrib.serve.principal import Principal

GRACE_S = 2.0


class Pipe(asyncio.Protocol):
    """A pipe with a line for each message; `ended` is set at its end."""

    def __init__(self, take: Callable[[bytes], None], largest: int) -> None:
        self._given = take
        self.ended = asyncio.Event()
        self._largest = largest
        self._begun = bytearray()
        self._skips = False

    def _take(self, line: bytes) -> None:
        if line and not line.isspace():
            self._given(line)

    def data_received(self, data: bytes) -> None:
        """Cuts what came into lines; one that is too long is passed on as far as it was read, and skipped."""
        end = data.find(b"\n")
        if end < 0:
            self._keep(data)
            return
        if end == len(data) - 1 and not self._begun and not self._skips:  # the usual: one whole line
            self._take(data)
            return
        first, *lines = data.split(b"\n")
        last = lines.pop()
        if not self._skips:
            self._take(bytes(self._begun) + first if self._begun else first)
        self._begun.clear()
        self._skips = False
        for line in lines:
            self._take(line)
        self._keep(last)

    def _keep(self, data: bytes) -> None:
        if self._skips:
            return
        self._begun += data
        if len(self._begun) > self._largest:
            self._take(bytes(self._begun))
            self._begun.clear()
            self._skips = True

    def connection_lost(self, exc: Exception | None) -> None:
        """A last line may come without its end."""
        if self._begun:
            self._take(bytes(self._begun))
        self.ended.set()


class Outflow(asyncio.BaseProtocol):
    """Has a writer wait until the reader at the other end has caught up, and takes no more from it meanwhile."""

    intake: asyncio.ReadTransport | None = None

    def __init__(self) -> None:
        self._flows = asyncio.Event()
        self._flows.set()

    def pause_writing(self) -> None:
        """The pipe is full."""
        self._flows.clear()
        if self.intake is not None:
            self.intake.pause_reading()

    def resume_writing(self) -> None:
        """There is room again."""
        self._flows.set()
        if self.intake is not None:
            self.intake.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody reads any more, so nobody has to wait."""
        self._flows.set()

    async def drained(self) -> None:
        """Returns when there is room."""
        if not self._flows.is_set():
            await self._flows.wait()


async def serve(
    crib: Crib,
    *,
    library: McpLibrary | None = None,
    settings: McpServerSettings | None = None,
    principal: Principal | None = None,
    pipes: tuple[Any, Any] | None = None,
) -> None:
    """Serves a crib that was started, until the client closes its end; `pipes` are two files, read and written."""
    loop = asyncio.get_running_loop()
    source, target = pipes or own_pipes()
    server = await McpServer.over(crib, library, settings)
    outflow = Outflow()
    output, _ = await loop.connect_write_pipe(lambda: outflow, target)
    client = Duplex(
        server,
        principal or Principal(getpass.getuser()),
        lambda message: output.write(message + b"\n"),
        outflow.drained,
    )
    pipe = Pipe(client.take, server.settings.largest)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, pipe.ended.set)
    intake, _ = await loop.connect_read_pipe(lambda: pipe, source)
    outflow.intake = intake
    try:
        await pipe.ended.wait()
        await client.leave(GRACE_S)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        intake.close()
        output.close()


def own_pipes() -> tuple[Any, Any]:
    """Standard input, and what was standard output; from now on that name means standard error."""
    sys.stdout.flush()
    target = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return sys.stdin.buffer, target


def run(crib: Crib, **more: Any) -> None:
    """Starts a crib, serves it on standard input and output, and stops it; takes what `serve` takes."""

    async def main() -> None:
        async with crib:
            await serve(crib, **more)

    try:
        import uvloop
    except ImportError:  # not everywhere
        asyncio.run(main())
    else:
        uvloop.run(main())

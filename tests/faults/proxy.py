"""A proxy between one node and one server, which cuts its connections or lets them go silent."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

HOST = "127.0.0.1"
PIECE = 1 << 16


class Proxy:
    """Passes bytes on, both ways, unless it is told not to."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._open = asyncio.Event()
        self._open.set()
        self._hears = asyncio.Event()
        self._hears.set()
        self._refuses = False
        self._listening: set[asyncio.StreamWriter] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Proxy":
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begins to listen."""
        self._server = await asyncio.start_server(self._connected, HOST, 0)

    @property
    def url(self) -> str:
        """The server's URL by way of this proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        head, _, _ = self._parts.netloc.rpartition(":")
        return self._parts._replace(netloc=f"{head}:{port}").geturl()

    def cut(self, *, refuse: bool = False) -> None:
        """Ends all connections at once, and, where wanted, takes no more until it is mended."""
        self._refuses = refuse
        for writer in list(self._writers):
            writer.transport.abort()

    def swallow(self) -> None:
        """Passes nothing on, and says nothing of it: packets vanish."""
        self._open.clear()

    def deafen(self) -> None:
        """Passes nothing on that Postgres says to a connection that listens; all others go on."""
        self._hears.clear()

    def mend(self) -> None:
        """Passes everything on again."""
        self._refuses = False
        self._open.set()
        self._hears.set()

    async def close(self) -> None:
        """Ends everything."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if not self._refuses:
                await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._parts.port is not None
        there, back = await asyncio.open_connection(HOST, self._parts.port)
        self._writers.add(back)
        ways = [
            asyncio.ensure_future(self._pass(reader, back, writer)),
            asyncio.ensure_future(self._pass(there, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._writers.discard(back)
            self._listening.discard(writer)
            for way in ways:
                way.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait(ways)
            back.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asker: asyncio.StreamWriter | None = None
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(PIECE):
                await self._open.wait()
                if writer in self._listening:
                    await self._hears.wait()
                if b"LISTEN " in data and asker is not None:
                    self._listening.add(asker)
                writer.write(data)
                await writer.drain()

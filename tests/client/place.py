"""A served crib with keys, a server that is a process of its own, and a network that can be cut between."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.client.tools import Doors, crib
from tests.serve.place import serving
from tests.shared import ROOT
from toolcrib import Crib, Event
from toolcrib.client import RemoteCrib, RemoteSession
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.keyring import Keyring

SOON_S = 60.0


class Served:
    """A crib that is served, its keys, and its address."""

    def __init__(self, crib: Crib) -> None:
        self.crib = crib
        self.later = 0.0
        """How much later it is than the clock says, where keys are looked at."""
        self.keys = Keyring(lambda: crib.store, lambda: crib.pipeline.clock.now() + self.later)
        self.url = ""

    @property
    def doors(self) -> Doors:
        found: Doors = self.crib.pipeline.deps[Doors]
        return found

    async def key(self, owner: str = "ada", **more: Any) -> str:
        """A key of somebody."""
        return (await self.keys.add(owner, by="test", **{"namespaces": ["shop"], **more}))[0]

    async def remote(self, owner: str = "ada", *urls: str, **more: Any) -> RemoteCrib:
        """What somebody reaches it by."""
        return RemoteCrib(*(urls or (self.url,)), key=await self.key(owner), **more)


@asynccontextmanager
async def served(*, limits: ServeLimits | None = None, **more: Any) -> AsyncIterator[Served]:
    """A server that asks for keys, in this process."""
    made = crib(**more)
    here = Served(made)
    async with serving(made, guard=here.keys, limits=limits) as place:
        here.url = place.url.rstrip("/")
        yield here


def never(piece: bytes, up: bool) -> int | None:
    """Lets everything through."""
    return None


class Wire:
    """A network between a client and a server: what goes through it is seen, and can be cut at any byte."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.made = 0
        self.cuts: Callable[[bytes, bool], int | None] = never
        """How much of a piece is let through before the connection is cut, if it is; `up` is towards the server."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[Wire]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._pipes, return_exceptions=True)
            await server.wait_closed()

    def cut(self) -> None:
        """Cuts all that goes through it now."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        both = {writer, back}
        self._writers |= both
        self.made += 1
        pipes = {asyncio.ensure_future(self._pipe(*ends)) for ends in ((reader, back, True), (there, writer, False))}
        self._pipes |= pipes
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        for end in both:
            end.close()  # what was written still arrives
        await asyncio.wait(pipes)
        self._pipes -= pipes
        self._writers -= both

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: bool) -> None:
        try:
            while piece := await reader.read(65536):
                passes = self.cuts(piece, up)
                writer.write(piece[:passes])
                await writer.drain()
                if passes is not None:
                    return
        except OSError:
            return


@asynccontextmanager
async def wire(url: str) -> AsyncIterator[Wire]:
    """A network in front of a server."""
    async with Wire(int(url.rpartition(":")[2])).laid() as made:
        yield made


class Node:
    """A server that is a process of its own, at a port that it keeps."""

    def __init__(self, folder: Path, *words: str) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._folder = folder
        self._words = words
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Returns when it listens."""
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        words = (sys.executable, "-m", "tests.client.node", str(self.port), *self._words)
        with (self._folder / f"{self.port}.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *words, cwd=ROOT, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(SOON_S):
            said = await self._process.stdout.readline()
        assert said == b"ready\n", (self._folder / f"{self.port}.log").read_text()

    async def kill(self) -> None:
        """Ends it without a word."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]  # nobody else closes its pipes


@asynccontextmanager
async def nodes(*made: Node) -> AsyncIterator[None]:
    """Servers that run for as long as the test."""
    try:
        await asyncio.gather(*(node.start() for node in made))
        yield
    finally:
        for node in made:
            await node.kill()


async def until(session: RemoteSession, call: str, kind: str) -> Event:
    """The first event of that kind of a call."""
    async with asyncio.timeout(SOON_S):
        async for event in session.events(call=call):
            if event.kind == kind:
                return event
    raise AssertionError(f"the call ended without {kind}")

"""The server as a process of its own, its memory, and readers over plain sockets."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.shared import ROOT

SOON_S = 120.0
MB = 1_000_000


class Served:
    """A server that runs, and a client of it."""

    def __init__(self, port: int, process: asyncio.subprocess.Process) -> None:
        self.port = port
        self.process = process
        # Shorter than the server keeps connections, so that none is used which it has just closed.
        limits = httpx.Limits(keepalive_expiry=1.0)
        url = f"http://127.0.0.1:{port}"
        self.http = httpx.AsyncClient(base_url=url, timeout=SOON_S, trust_env=False, limits=limits)

    @property
    def rss(self) -> int:
        """The memory that it holds, in bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    async def open(self, session: str) -> None:
        """Opens a session."""
        (await self.http.post("/v1/sessions", json={"id": session})).raise_for_status()

    async def call(self, session: str, tool: str = "sized", **args: Any) -> Any:
        """Calls a tool; what it returned."""
        said = await self.http.post(f"/v1/sessions/{session}/calls", json={"tool": tool, "args": args})
        return said.raise_for_status().json()["data"]

    async def get(self, path: str, **query: Any) -> httpx.Response:
        """What is at a path."""
        return (await self.http.get(path, params=query)).raise_for_status()

    def healthy(self, stop: threading.Event) -> int:
        """Asks for its health again and again, to be run in a thread; how often it was answered."""
        answered = 0
        while not stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON_S)
            connection.request("GET", "/healthz")
            answered += connection.getresponse().status == 200
            connection.close()
        return answered

    async def follow(self, session: str, *, buffer: int | None = 4096) -> Follower:
        """A stream of a session that nobody reads yet."""
        reader = Follower(self.port, buffer)
        await reader.ask(f"/v1/sessions/{session}/events?follow=1")
        return reader


class Follower:
    """A socket on which a stream was asked for. Until somebody reads, nothing of it is taken."""

    def __init__(self, port: int, buffer: int | None) -> None:
        self._port = port
        self._socket = socket.socket()
        if buffer is not None:  # as small as the system lets it be, so that what is not read waits at the server
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._socket.setblocking(False)

    async def ask(self, path: str) -> None:
        """Asks for a stream."""
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._socket, ("127.0.0.1", self._port))
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
        await loop.sock_sendall(self._socket, request.encode())

    async def read(self, most: int = 65536) -> bytes:
        """Some of what came; nothing at its end."""
        try:
            return await asyncio.get_running_loop().sock_recv(self._socket, most)
        except ConnectionError:
            return b""

    async def until(self, text: bytes) -> bytes:
        """All up to a text."""
        said = bytearray()
        async with asyncio.timeout(SOON_S):
            while text not in said[-65536 - len(text) :]:
                piece = await self.read()
                assert piece, f"it ended before {text!r}: {said[-200:]!r}"
                said += piece
        return bytes(said)

    def close(self) -> None:
        """Hangs up."""
        self._socket.close()


@asynccontextmanager
async def served(folder: Path, *words: str) -> AsyncIterator[Served]:
    """The server, with its store in a folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = (sys.executable, "-m", "tests.soak.server", str(port), f"sqlite:///{folder}/log.db", *words)
    with (folder / "server.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    here = Served(port, process)
    try:
        async with asyncio.timeout(SOON_S):
            said = await process.stdout.readline()
        assert said == b"ready\n", (folder / "server.log").read_text()
        yield here
    finally:
        await here.http.aclose()
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # nobody else closes its pipes

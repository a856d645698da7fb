"""The resident process of one crib: it answers hooks over a socket, and ends when nobody has asked for a while."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from toolcrib.guard.formats import HookReply
from toolcrib.guard.relay import MOST, folder, is_private

IDLE_S = 600.0

Answer = Callable[[list[str], bytes, str], Awaitable[HookReply]]
"""Answers a hook: the words after `toolcrib guard`, what came on standard input, and the file of the crib."""


async def serve(path: str, answer: Answer, idle_s: float = IDLE_S) -> bool:
    """Answer hooks on a socket until none came for `idle_s` seconds; False where it cannot, or another process does."""
    with _locked(Path(path)) as alone:
        if not alone:
            return False
        resident = _Resident(answer, idle_s)
        umask = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(resident.connected, path)
        except OSError:  # the name of its folder is too long for a socket, say: every hook is judged by itself then
            return False
        finally:
            os.umask(umask)
        try:
            await resident.ended()
        finally:
            server.close()
    return True


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the place of a socket in a folder of the user's own; False where that cannot be had."""
    place = Path(folder())
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(str(place)):
        yield False
        return
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        path.unlink(missing_ok=True)
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


class _Resident:
    """What answers, and when the last hook came."""

    def __init__(self, answer: Answer, idle_s: float) -> None:
        self._answer, self._idle_s = answer, idle_s
        self._stop = asyncio.Event()
        self._busy = 0
        self._timer: asyncio.TimerHandle | None = None
        for number in (signal.SIGTERM, signal.SIGINT):  # before it can be reached, so that its socket never stays
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)

    async def ended(self) -> None:
        """Wait until it is told to stop, or was idle for long enough."""
        self._rest()
        await self._stop.wait()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._stop.set)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one hook."""
        if self._timer is not None:
            self._timer.cancel()
        self._busy += 1
        try:
            if _own(writer):
                words, payload = [await _part(reader) for _ in range(2)]
                crib, *rest = words.decode("utf-8", "surrogateescape").split("\0")
                writer.write(_encoded(await self._answer(rest, payload, crib)))
                await writer.drain()
        except (OSError, EOFError, asyncio.IncompleteReadError):  # the client has left
            pass
        finally:
            writer.close()
            self._busy -= 1
            if not self._busy:
                self._rest()


async def _part(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > MOST:
        raise EOFError
    return await reader.readexactly(size)


def _own(writer: asyncio.StreamWriter) -> bool:
    """True if the user of this process is at the other end, where the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    other: socket.socket = writer.get_extra_info("socket")
    credentials = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())


def _encoded(reply: HookReply) -> bytes:
    parts = [reply.text.encode("utf-8", "surrogateescape"), reply.error.encode("utf-8", "surrogateescape")]
    return bytes([reply.code]) + b"".join(len(part).to_bytes(4, "big") + part for part in parts)

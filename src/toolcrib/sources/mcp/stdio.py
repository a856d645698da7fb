"""A server as a program: one JSON message a line on its standard input and output.

It stands where the SDK's own transport would, for three reasons: a line has a greatest length, so that a flood costs no
memory; what the program says on its standard error is kept for whoever wants to know why it ended; and bytes that are
no text do not end the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.abc
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from toolcrib.sources.json_parts import exceeds
from toolcrib.sources.mcp.results import TOO_LARGE
from toolcrib.sources.mcp.settings import McpClientSettings

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
CHUNK = 64 * 1024
SAID = 16 * 1024
SHOWN = 2048
SECRET = 6
QUIT_S = 2.0
TERM_S = 5.0
LAST_WORDS_S = 1.0
_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_TAIL = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class StdioEndpoint:
    """A server that runs here, in a process group of its own."""

    def __init__(self, settings: McpClientSettings) -> None:
        self._settings = settings
        self._log_text = b""
        self._spoke = False

    @property
    def log_text(self) -> str:
        """The end of what it wrote to its standard error, without the values that it was given in secret."""
        text = self._log_text.decode("utf-8", "replace").strip()
        for value in self._settings.env.values():
            text = text.replace(value, "***") if len(value) >= SECRET else text
        return text

    @contextlib.asynccontextmanager
    async def connect(self, broke: Callable[[], None]) -> AsyncIterator[tuple[Any, Any]]:
        """Starts it, gives the streams of its messages, and stops it whatever happens.

        Raises:
            OSError: it cannot be started.
        """
        settings = self._settings
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *settings.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment | dict(settings.env),
            cwd=settings.cwd,
            start_new_session=True,
        )
        into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, out_of = anyio.create_memory_object_stream[SessionMessage](0)
        listening = asyncio.create_task(self._listen(process))
        tasks = [
            asyncio.create_task(self._read(process, into, listening)),
            asyncio.create_task(_write(process, out_of)),
            listening,
        ]
        try:
            yield incoming, outgoing
        finally:
            for stream in (into, incoming, outgoing, out_of):
                stream.close()
            await _quit(process, QUIT_S if self._spoke else 0.0)  # one that never said a word knows no farewell
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _read(self, process: asyncio.subprocess.Process, into: Any, listening: asyncio.Task[None]) -> None:
        """Its end is the end of the connection: whoever waits for an answer is told."""
        assert process.stdout is not None
        lines = _Lines(self._settings.message_bytes, self._settings.message_parts)
        with into, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while chunk := await process.stdout.read(CHUNK):
                for message in lines.feed(chunk):
                    self._spoke = True
                    await into.send(SessionMessage(message))
            if not self._spoke:  # why it does not start may come after its output has ended
                await asyncio.wait({listening}, timeout=LAST_WORDS_S)
        with contextlib.suppress(OSError):
            while await process.stdout.read(CHUNK):  # one that is stuck writing would not see that it should quit
                pass

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(CHUNK):
            self._log_text = (self._log_text + chunk)[-SAID:]


class _Lines:
    """Messages out of chunks. Of a line that is too long only the ends are kept, which say whose answer it was."""

    def __init__(self, longest: int, most: int) -> None:
        self._longest = longest
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""

    def feed(self, chunk: bytes) -> list[Any]:
        """The messages that are complete now; a line that is no message is passed over."""
        *ended, rest = chunk.split(b"\n")
        messages = []
        for part in ended:
            self._add(part)
            messages.append(self._take())
        self._add(rest)
        return [message for message in messages if message is not None]

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._longest:
            line = b"".join(self._parts)
            self._head = self._head or line[:256]
            self._parts = [line[-256:]]

    def _take(self) -> Any:
        line, head, size = b"".join(self._parts), self._head, self._size
        self._parts, self._size, self._head = [], 0, b""
        if head:
            return _refused(head, line, f"{size} bytes")
        if exceeds(line, self._most):
            return _refused(line[:256], line[-256:], f"more than {self._most} values")
        return _message(line)


def _message(line: bytes) -> Any:
    """A message; None where it is none. Pydantic alone would read what is inside once for each kind of message."""
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        data = None  # some servers write NaN, which only the other reads
    try:
        if data is None:
            return jsonrpc_message_adapter.validate_json(line, by_name=False)
        return jsonrpc_message_adapter.validate_python(data, by_name=False)
    except ValueError:
        return None


def _refused(head: bytes, tail: bytes, size: str) -> JSONRPCError | None:
    """What the caller gets instead of an answer that is too large."""
    whose = _HEAD.match(head) or _TAIL.search(tail)
    if whose is None:
        return None
    error = ErrorData(code=TOO_LARGE, message=f"The answer of the server has {size}, more than is taken")
    return JSONRPCError(jsonrpc="2.0", id=int(whose[1]), error=error)


async def _write(process: asyncio.subprocess.Process, out_of: Any) -> None:
    assert process.stdin is not None
    with out_of, contextlib.suppress(OSError):
        async for message in out_of:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(line.encode() + b"\n")
            await process.stdin.drain()


async def _quit(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Closes its input and gives it so many seconds; then the whole group is told to end, and then made to."""
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(OSError):
        await process.stdin.wait_closed()
    if not await _ended(process, seconds):
        _signal(process, signal.SIGTERM)
        await _ended(process, TERM_S)
    _signal(process, signal.SIGKILL)  # also what it started and left behind
    await _ended(process, TERM_S)
    process._transport.close()  # type: ignore[attr-defined]  # one that left the group may still hold a pipe


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """True if it ended in time. `wait` would also wait for whoever else holds its pipes."""
    deadline = asyncio.get_running_loop().time() + seconds
    pause = 0.001
    while process.returncode is None and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.05)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """To the group, whose id is the id of the program also after that has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)

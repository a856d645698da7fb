"""Programs as processes: an argument array and never a shell, a process group of their own, and nothing left behind.

Whoever waits for a program sets the time: when the waiting is cancelled, the whole group gets SIGTERM, and is killed
if it does not end. The output of a program is passed on line by line and kept up to a limit.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.errors import ToolFailure
from toolcrib.schema.redaction import safe_length, without

GRACE_S = 5.0
LINGER_S = 1.0
"""How long what a program left behind may still hold its output."""

LARGEST = 16 * 1024 * 1024
"""How much a program may print, or a service may answer."""

TAIL = 2048
CHUNK = 64 * 1024
LOOK_S = 0.05

Tell = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a program ended: its exit code (negative for a signal), what it printed, and the last that it complained."""

    code: int
    stdout: bytes
    stderr: bytes


async def _nobody(text: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """A program that is to run; `masks` are texts that nobody who listens may see."""

    argv: Sequence[str]
    env: Mapping[str, str]
    stdin: bytes | None = None
    cwd: Path | None = None
    masks: tuple[str, ...] = ()
    tell: Tell = _nobody


class NotInstalled(ToolFailure):
    """There is no such program here."""

    def __init__(self, program: str) -> None:
        super().__init__("unavailable", f"{program} is not installed, or not on the PATH", retryable=False)


def find(program: str, env: Mapping[str, str], cwd: Path | None = None) -> str:
    """Where a program lies: a bare name on the PATH, a path from the folder that it starts in.

    Raises:
        NotInstalled: it is not there.
    """
    path = str((cwd or Path()) / program) if "/" in program else program
    executable = shutil.which(path, path=env.get("PATH", os.defpath))
    if executable is None:
        raise NotInstalled(program)
    return str(Path(executable).absolute())


async def run(start: ProcessStart) -> ProcessResult:
    """Runs a program to its end, and ends it when this is cancelled.

    Raises:
        NotInstalled: it is not there.
        ToolFailure: `unavailable`, it cannot be started; `invalid_arguments`, the arguments are too long for it;
            `too_large`, it prints more than can be kept.
    """
    process = await _started(start)
    printed, complained = _Kept(LARGEST), _Kept(TAIL, tail=True)
    assert process.stdout is not None and process.stderr is not None
    pumps: asyncio.Future[Any] = asyncio.gather(
        _feed(process, start.stdin),
        _pump(process.stdout, printed, start),
        _pump(process.stderr, complained, start),
    )
    pumps.add_done_callback(_looked_at)
    try:
        await _exit(process, pumps)
    finally:
        try:
            await _ended(process)
        finally:
            pumps.cancel()
    return ProcessResult(process.code, bytes(printed.data), bytes(complained.data))


def _looked_at(pumps: asyncio.Future[Any]) -> None:
    """What stopped them is of interest to whoever still waits for them, and to nobody else."""
    if not pumps.cancelled():
        pumps.exception()


class _Process(SubprocessStreamProtocol):
    """A process whose end is known at once, also where what it left behind still holds its output."""

    transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        super().__init__(CHUNK, asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Hears that it has ended."""
        super().process_exited()
        self.exited.set()

    @property
    def code(self) -> int:
        """How it ended."""
        return self.transport.get_returncode() or 0

    def signal(self, number: int) -> bool:
        """Signals the whole group; False where nobody is left in it."""
        try:
            os.killpg(self.transport.get_pid(), number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


async def _started(start: ProcessStart) -> _Process:
    where = find(start.argv[0], start.env, start.cwd)
    try:
        transport, process = await asyncio.get_running_loop().subprocess_exec(
            _Process,
            *start.argv,
            executable=where,
            stdin=DEVNULL if start.stdin is None else PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(start.env),
            cwd=start.cwd,
            start_new_session=True,
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise ToolFailure("invalid_arguments", "The arguments are too long for a program") from None
        reason = f"{start.argv[0]} cannot be started: {error.strerror}"
        raise ToolFailure("unavailable", reason, retryable=False) from None
    process.transport = transport
    return process


async def _exit(process: _Process, pumps: asyncio.Future[Any]) -> None:
    """Waits until a program has ended and all is read that it, and what it left behind for a moment, had to say."""
    exited: asyncio.Future[Any] = asyncio.ensure_future(process.exited.wait())
    try:
        await asyncio.wait({exited, pumps}, return_when=asyncio.FIRST_COMPLETED)
        if pumps.done():
            await pumps
        await exited
        await asyncio.wait({pumps}, timeout=LINGER_S)
        process.signal(signal.SIGKILL)
        await asyncio.wait({pumps}, timeout=LINGER_S)
        if pumps.done():
            await pumps
    finally:
        exited.cancel()


async def _ended(process: _Process) -> None:
    """Sees to it that nothing of the group is left, also where waiting for it is cut short."""
    try:
        if not process.exited.is_set():
            process.signal(signal.SIGTERM)
            async with asyncio.timeout(GRACE_S):
                await process.exited.wait()
                while process.signal(0):  # noqa: ASYNC110 - nobody tells when a group is empty
                    await asyncio.sleep(LOOK_S)
    except TimeoutError:
        pass
    finally:
        process.signal(signal.SIGKILL)
        await asyncio.shield(asyncio.ensure_future(process.exited.wait()))
        process.transport.close()


class _Kept:
    """The beginning of what was printed, which may not be larger, or its end."""

    def __init__(self, most: int, *, tail: bool = False) -> None:
        self.data = bytearray()
        self._most, self._tail = most, tail

    def add(self, chunk: bytes) -> None:
        self.data += chunk
        if len(self.data) > self._most:
            if not self._tail:
                raise ToolFailure("too_large", f"The program printed more than {self._most} bytes and was stopped")
            del self.data[: -self._most]


async def _feed(process: _Process, stdin: bytes | None) -> None:
    """Gives a program its input, as much of it as it takes."""
    if process.stdin is None or stdin is None:
        return
    try:
        process.stdin.write(stdin)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        process.stdin.close()


async def _pump(stream: asyncio.StreamReader, kept: _Kept, start: ProcessStart) -> None:
    """Keeps what is printed and tells it in whole lines, very long ones in pieces."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held = ""
    while chunk := await stream.read(CHUNK):
        kept.add(chunk)
        held += decoder.decode(chunk)
        lines = len(held) if len(held) > CHUNK else held.rfind("\n") + 1
        cut = safe_length(start.masks, held[:lines])
        if cut:
            await start.tell(without(start.masks, held[:cut]))
            held = held[cut:]
    held += decoder.decode(b"", True)
    if held:
        await start.tell(without(start.masks, held))

"""Starts the program `sandbox`, hears what the program says, and ends all of it when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.errors import ToolFailure
from toolcrib.toolkits.shell.command_user import check_root, command_user
from toolcrib.toolkits.shell.disk import DiskLimit

SHOWN = 256 * 1024
KEPT = 4 * 1024 * 1024
_CHUNK = 64 * 1024
_SANDBOX = str(Path(__file__).with_name("sandbox.py"))
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Tell = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ProcessSandbox:
    """Where programs run: the folder they may write to, and what else there is."""

    root: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    visible: tuple[str, ...] = ()
    network: bool = False
    memory: int = 1024**3
    processes: int = 64
    file_bytes: int = 64 * 1024**2
    allow_root: bool | None = None

    def order(self, argv: Sequence[str], cwd: str, timeout: int) -> bytes:
        """The order for `sandbox`.

        Raises:
            ToolFailure: `unavailable`, the server is root's, and nobody said that this is meant.
        """
        check_root(self.allow_root)
        user, group = command_user(self.root)
        return msgspec.json.encode(
            {
                "root": self.root,
                "user": user,
                "group": group,
                "cwd": os.path.normpath(f"{self.root}/{cwd}"),
                "argv": list(argv),
                "env": {"PATH": _PATH, "HOME": "/tmp", "LANG": "C.UTF-8", **self.env},
                "network": self.network,
                "visible": self.visible,
                "limits": {
                    "RLIMIT_CPU": timeout,
                    "RLIMIT_AS": self.memory,
                    "RLIMIT_NPROC": self.processes,
                    "RLIMIT_FSIZE": self.file_bytes,
                    "RLIMIT_CORE": 0,
                    "RLIMIT_NOFILE": 1024,
                },
            }
        )


class CapturedOutput:
    """What a program printed on one of its streams: what is shown, and more that is kept beside."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.kept = bytearray()
        self.size = 0

    async def hear(self, stream: asyncio.StreamReader) -> None:
        """Takes all of it, tells it in whole lines as long as it is shown, and forgets what is too much."""
        decoder, held = codecs.getincrementaldecoder("utf-8")("replace"), ""
        while chunk := await stream.read(_CHUNK):
            shown = chunk[: max(SHOWN - self.size, 0)]
            self.kept += chunk[: max(KEPT - self.size, 0)]
            self.size += len(chunk)
            held += decoder.decode(shown)
            lines = len(held) if len(held) > _CHUNK else held.rfind("\n") + 1
            if lines:
                await self._tell(held[:lines])
                held = held[lines:]
        if held:
            await self._tell(held)

    @property
    def shown(self) -> str:
        """The beginning."""
        return bytes(self.kept[:SHOWN]).decode(errors="replace")

    @property
    def whole(self) -> str:
        """All that was kept."""
        return bytes(self.kept).decode(errors="replace")


async def run(
    order: bytes, stdin: bytes | None, stdout: CapturedOutput, stderr: CapturedOutput, disk: DiskLimit | None = None
) -> int:
    """Runs a program to its end and gives its exit code; when this is cancelled, nothing of it is left.

    Raises:
        ToolFailure: `unavailable`, no place could be made for it, or it is not there; `too_large`, it wrote too much.
    """
    return (await execute(order, stdin, stdout, stderr, disk))[0]


async def execute(
    order: bytes, stdin: bytes | None, stdout: CapturedOutput, stderr: CapturedOutput, disk: DiskLimit | None = None
) -> tuple[int, str]:
    """Runs a program as `run` does, and also tells what else it was held by: `c` for seccomp, `l` for Landlock."""
    status, status_write = os.pipe()
    order_read, giving = os.pipe()
    try:
        process = await _started(status_write, order_read, stdin)
    except BaseException:
        os.close(status)
        os.close(giving)
        raise
    finally:
        os.close(status_write)
        os.close(order_read)
    try:
        await asyncio.shield(asyncio.to_thread(_give, giving, order))
        code = await _within(disk, _finished(process, stdin, stdout, stderr))
    finally:
        _kill(process)
        try:
            await asyncio.shield(_gone(process))
        finally:
            report = _read(status)
    made, _, problem = report.partition(";")
    if not made.startswith("s"):
        raise ToolFailure("unavailable", "No sandbox available", retryable=False)
    if problem:
        raise ToolFailure("unavailable", f"The program cannot be started: {problem[1:]}", retryable=False)
    return code, made[1:]


async def _started(status: int, order: int, stdin: bytes | None) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-B", _SANDBOX, str(status), str(order)),
            stdin=DEVNULL if stdin is None else PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={},
            pass_fds=(status, order),
            start_new_session=True,
        )
    except OSError:
        raise ToolFailure("unavailable", "No sandbox available", retryable=False) from None


def _give(giving: int, order: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(giving, "wb") as pipe:
        pipe.write(order)


async def _finished(process: Process, stdin: bytes | None, stdout: CapturedOutput, stderr: CapturedOutput) -> int:
    assert process.stdout is not None and process.stderr is not None
    async with asyncio.TaskGroup() as work:
        work.create_task(stdout.hear(process.stdout))
        work.create_task(stderr.hear(process.stderr))
        if process.stdin is not None:
            work.create_task(_feed(process.stdin, stdin or b""))
        return await process.wait()


async def _within(disk: DiskLimit | None, work: Coroutine[Any, Any, int]) -> int:
    """Does the work, unless more is written meanwhile than may be."""
    if disk is None:
        return await work
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(disk.watch())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result() or 0
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _feed(pipe: asyncio.StreamWriter, stdin: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(stdin)
        await pipe.drain()
    pipe.close()


def _kill(process: Process) -> None:
    """Ends the whole group at once; the kernel ends all that runs in the place with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _gone(process: Process) -> None:
    """Returns when the process has ended. What it had printed is read to its end: asyncio waits for that too."""
    assert process.stdout is not None and process.stderr is not None
    await asyncio.gather(_drain(process.stdout), _drain(process.stderr), process.wait())


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


def _read(status: int) -> str:
    """What was said of the start; the program itself holds the other end no longer than it is not there."""
    try:
        return os.read(status, 1000).decode(errors="replace")
    finally:
        os.close(status)

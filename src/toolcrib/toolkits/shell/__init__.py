"""Programs and commands, in a place of their own: one folder can be written to, the system can be read, there is no
network and nothing of the environment. Without such a place nothing runs.

What a command may start is said by grants (`exec:cmd:<program>`), for which it is taken apart before it runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field

from toolcrib.context import Context
from toolcrib.definitions.runners.cli import listener
from toolcrib.errors import BadTool, ToolFailure
from toolcrib.toolkits.collection import Toolkit, kit
from toolcrib.toolkits.files.root import RootFolder
from toolcrib.toolkits.shell.command_user import allows_root, hand_over
from toolcrib.toolkits.shell.disk import DiskLimit
from toolcrib.toolkits.shell.process import KEPT, SHOWN, CapturedOutput, ProcessSandbox, run
from toolcrib.types import AntiPattern, Example, Result

_SPARE_S = 30.0
_PREVIEW = 2000
_OUTPUT = 4 * 1024 * 1024
_MISTAKES = [
    AntiPattern("No sandbox available", "Programs cannot be run on this machine. Do without, or ask a person."),
    AntiPattern("cannot be started", "The program is not installed here. Use another one; nothing can be installed."),
    AntiPattern("took longer", "Do less at once, or set a longer timeout (600 at the most)."),
    AntiPattern("is no folder", "cwd is a folder below the root, such as src."),
]

_SHELL = {
    "capabilities": ("exec:cmd:{command}",),
    "examples": [Example({"command": "grep -rn TODO src | head -20"}, "Look for something")],
}
_RUN_COMMAND = {
    "capabilities": ("exec:cmd:{argv}",),
    "examples": [Example({"argv": ["wc", "-l", "notes.md"]}, "Count lines")],
}

Timeout = Annotated[int, Field(ge=1, le=600)]
Folder = Annotated[str, Field(max_length=4096, json_schema_extra={"x-toolcrib-kind": "cwd"})]
Argv = Annotated[list[str], Field(min_length=1, max_length=1000, json_schema_extra={"x-toolcrib-kind": "argv"})]


def tools(  # noqa: PLR0913 - the settings of the toolkit
    root: str | os.PathLike[str],
    *,
    env: Mapping[str, str] | None = None,
    visible: Iterable[str | os.PathLike[str]] = (),
    network: bool = False,
    memory: int = 1024**3,
    processes: int = 64,
    file_bytes: int = 64 * 1024**2,
    disk_bytes: int = 1024**3,
    allow_root: bool | None = None,
) -> Toolkit:
    """`shell` and `run_command`, whose programs may write to the folder `root` and to nothing else.

    `env` is all that they find in their environment beside PATH, HOME and LANG. `visible` are further files and
    folders that they may read. One command writes no file larger than `file_bytes`, and `disk_bytes` in all.

    A process of root runs no command unless `allow_root` says so, or the variable TOOLCRIB_ALLOW_ROOT. Commands then
    run as the user that the folder belongs to; a folder of root is given to the user `nobody`.

    Raises:
        BadTool: a folder is not there.
    """
    if not isinstance(env, Mapping | None):
        raise BadTool("shell", "env", f"is a mapping of names to values, such as {{LANG: C.UTF-8}}, not {env!r}")
    folder, seen = _folder(root), tuple(map(_visible, visible))
    place = ProcessSandbox(folder, dict(env or {}), seen, network, memory, processes, file_bytes, allow_root)
    if allows_root(allow_root):
        hand_over(place.root)
    made = _Shell(place, disk_bytes)
    shared: dict[str, Any] = {
        "effect": "once",
        "destructive": True,
        "open_world": network,
        "timeout": 600 + _SPARE_S,
        "output_bytes": _OUTPUT,
        "anti_patterns": _MISTAKES,
    }
    return kit("shell", [(made.shell, {**shared, **_SHELL}), (made.run_command, {**shared, **_RUN_COMMAND})])


def _folder(root: str | os.PathLike[str]) -> str:
    """Return the real path of the folder that commands may write to.

    Raises:
        BadTool: it is not there, or is the whole system.
    """
    folder = os.path.realpath(root)
    if not Path(root).is_dir() or folder == "/":
        raise BadTool("shell", "root", f"there is no folder {os.fspath(root)}, or it is the whole system")
    return folder


def _visible(path: str | os.PathLike[str]) -> str:
    """Return the real path of a file or folder that commands may read.

    Raises:
        BadTool: it is not there.
    """
    real = os.path.realpath(path)
    if not Path(real).exists():
        raise BadTool("shell", "visible", f"there is no {real}")
    return real


class _Shell:
    """The tools, with the place that they run in."""

    def __init__(self, place: ProcessSandbox, disk_bytes: int) -> None:
        self._place, self._root, self._disk_bytes = place, RootFolder(place.root), disk_bytes

    async def shell(
        self,
        ctx: Context,
        command: Annotated[str, Field(min_length=1, max_length=100_000)],
        cwd: Folder | None = None,
        timeout: Timeout = 60,
    ) -> Result:
        """Run a bash command in the folder, and give its exit code and what it printed. There is no network.

        Args:
            command: The command line.
            cwd: The folder to start in, from the root of the folder.
            timeout: How many seconds it may take.
        """
        return await self._run(ctx, ["/bin/bash", "--noprofile", "--norc", "-c", command], None, cwd, timeout)

    async def run_command(
        self,
        ctx: Context,
        argv: Argv,
        stdin: str | None = None,
        cwd: Folder | None = None,
        timeout: Timeout = 60,
    ) -> Result:
        """Run a program without a shell: nothing in its arguments is expanded. There is no network.

        Args:
            argv: The program and its arguments, one by one.
            stdin: What it reads from its standard input.
            cwd: The folder to start in, from the root of the folder.
            timeout: How many seconds it may take.
        """
        encoded = None if stdin is None else stdin.encode(errors="replace")
        return await self._run(ctx, argv, encoded, cwd, timeout)

    async def _run(self, ctx: Context, argv: list[str], stdin: bytes | None, cwd: str | None, timeout: int) -> Result:
        if sys.platform != "linux":
            raise ToolFailure("unavailable", "No sandbox available", retryable=False)
        if any("\0" in word for word in argv) or not argv[0]:
            raise ToolFailure("invalid_arguments", "A command holds no NUL, and names a program")
        folder = self._root.plain(cwd or ".")
        with self._root.folder(folder):
            pass  # says what is wrong with it
        order = self._place.order([_sendable(word) for word in argv], folder, timeout)
        stdout, stderr = CapturedOutput(listener(ctx)), CapturedOutput(listener(ctx))
        begun = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                code = await run(order, stdin, stdout, stderr, DiskLimit(self._place.root, self._disk_bytes))
        except TimeoutError:
            message = f"The command took longer than {timeout} s and was ended"
            raise ToolFailure("timeout", message, metadata={"stdout": stdout.shown[-_PREVIEW:]}) from None
        data = {
            "exit_code": code,
            "stdout": stdout.shown,
            "stderr": stderr.shown,
            "seconds": round(time.monotonic() - begun, 3),
            "truncated": max(stdout.size, stderr.size) > SHOWN,
        }
        return _spilled(ctx, data, stdout, stderr) if data["truncated"] else Result(data)


def _sendable(word: str) -> str:
    return word.encode(errors="replace").decode()


def _spilled(ctx: Context, data: dict[str, Any], stdout: CapturedOutput, stderr: CapturedOutput) -> Result:
    """The result with what it shows, and all that was kept beside the log, where it can be read."""
    whole = msgspec.json.encode({"stdout": stdout.whole, "stderr": stderr.whole, "kept_of_each": KEPT})
    where = {"output": ctx.attach(whole), "bytes": len(whole)}
    return Result({**data, "spilled": {**where, "preview": stdout.shown[:_PREVIEW]}}, metadata={"spilled": where})

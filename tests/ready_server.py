"""The process that has loaded most of what programs need, and forks for each (`tests/ready.py`)."""

import atexit
import fcntl
import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

LOADED = (
    "asyncpg",
    "docstring_parser",
    "importlib.readers",
    "jsonschema_rs",
    "mcp.server.mcpserver",
    "nats",
    "opentelemetry.context",
    "prometheus_client",
    "pwd",
    "pydantic._internal._dataclasses",
    "pydantic.plugin._loader",
    "pydantic_monty",
    "rich.console",
    "rich.table",
    "typer._adapters",
    "typer._click._textwrap",
    "typer._click.decorators",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    "uvloop",
    "yaml",
)
"""What is loaded besides Toolcrib itself."""
LEFT_OUT = {"__main__", "adapters", "starter"}
"""Names of those modules of Toolcrib that are programs, or need libraries that are not installed."""


class _Server:
    """Forks for those who ask, tells them of the ends, and ends what nobody waits for any more."""

    def __init__(self, alive: int, asked: int) -> None:
        self._alive, self._asked = socket.socket(fileno=alive), socket.socket(fileno=asked)
        self._wake, self._woken = socket.socketpair()
        self._running: dict[int, socket.socket] = {}

    def serve(self) -> bytes:
        """Return the request of a program, in its process, which has its streams."""
        for end in (self._wake, self._woken):
            end.setblocking(False)
        signal.set_wakeup_fd(self._woken.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            watched = [one for one in self._running.values() if one.fileno() >= 0]
            ready, _, _ = select.select([self._alive, self._wake, self._asked, *watched], [], [])
            if self._alive in ready:
                for process in self._running:
                    _kill(process)
                os._exit(0)
            if self._wake in ready:
                self._wake.recv(1 << 10)
                self._report()
            for process, connection in self._running.items():
                if connection in ready and connection.fileno() >= 0:
                    connection.close()
                    _kill(process)
            if self._asked in ready and (request := self._forked()):
                return request

    def _forked(self) -> bytes | None:
        """Fork for the next who asks, and return the request in the new process."""
        connection, _ = self._asked.accept()
        header, fds, _, _ = socket.recv_fds(connection, 4, 3)
        request = connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL) if header else b""
        process = os.fork() if request else -1
        if process == 0:
            for one in (self._alive, self._wake, self._woken, self._asked, connection, *self._running.values()):
                one.close()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for stream, fd in enumerate(fds):
                os.dup2(fd, stream)
                os.close(fd)
            return request
        for fd in fds:
            os.close(fd)
        if process > 0:
            self._running[process] = connection
            _tell(connection, process)
        else:
            connection.close()
        return None

    def _report(self) -> None:
        """Tell of the programs that have ended."""
        while self._running:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            with self._running.pop(process) as connection:
                _tell(connection, os.waitstatus_to_exitcode(status))


def main() -> None:
    """Starts programs and tells of their ends, until nobody is left to ask."""
    del sys.path[0]  # the folder of this file
    _load()
    request = _Server(int(sys.argv[1]), int(sys.argv[2])).serve()
    _leave(_run(*marshal.loads(request)))


def _tell(connection: socket.socket, number: int) -> None:
    with suppress(OSError):  # who asked is gone
        connection.sendall(f"{number}\n".encode())


def _kill(process: int) -> None:
    """End a process with all that belongs to its session, which it may not have made yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(process, signal.SIGKILL)


def _run(words: Sequence[str], folder: str, env: Mapping[str, str]) -> int:
    """Run a program to its end and return its exit code; an exception ends this process as it would end Python."""
    try:
        _become(words, folder, env)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        return end.code or 0
    return 0


def _leave(code: int) -> NoReturn:
    """End as Python does, but leave the modules in place: to take them apart writes to every page of the memory."""
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads and pools, as Python does when it ends
    atexit._run_exitfuncs()
    gc.collect()  # what was left open is told of
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)  # Python tells of it
    os._exit(code)


def _load() -> None:
    import toolcrib

    for name in LOADED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(toolcrib.__path__, "toolcrib."):
        if LEFT_OUT.isdisjoint(module.name.split(".")):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _become(words: Sequence[str], folder: str, env: Mapping[str, str]) -> None:
    """What `python` is with these words from its start on."""
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if os.isatty(1):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    if env.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    if words[0] == "-m":
        sys.path.insert(0, str(Path.cwd()))
        sys.argv[1:] = words[2:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.path.insert(0, "")
        sys.argv[:] = ["-c", *words[2:]]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(words[1], vars(main))
    else:
        sys.path.insert(0, str(Path(words[0]).absolute().parent))
        sys.argv[:] = words
        runpy.run_path(str(Path(words[0]).absolute()), run_name="__main__")


if __name__ == "__main__":
    main()

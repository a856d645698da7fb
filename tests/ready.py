"""A process that has loaded most of what programs need, and forks for each: to load it anew takes most of their time.

A program is still a process of its own, with its own session, folder, environment and streams. One whose test is about
its start, its terminal or what it loads is started from nothing.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess, Popen, TimeoutExpired
from typing import IO, Any, NoReturn, Self, TextIO

LOADED = (
    "asyncpg",
    "docstring_parser",
    "importlib.readers",
    "jsonschema_rs",
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
SOON_S = 120


def run(
    *words: str, folder: Path | None = None, env: Mapping[str, str] | None = None, stdin: str = ""
) -> CompletedProcess[str]:
    """Runs `python -W error` with these words to its end."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    try:
        assert os.write(tell, stdin.encode()) == len(stdin.encode()), "a pipe does not hold so much"
        os.close(tell)
        with Program(words, cwd=folder, env=env, stdin=told, stderr=PIPE) as program:
            try:
                out, err = program.communicate(SOON_S)
            except BaseException:
                program.kill()
                raise
    finally:
        os.close(told)
    return CompletedProcess(words, program.wait(), out, err)


class Program:
    """A program of Python, with what tests use of `subprocess.Popen`; warnings are errors in it.

    The words are those that would follow `python`: `-m` and the name of a module, or a file.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = DEVNULL,
        stdout: int | IO[bytes] = PIPE,
        stderr: int | IO[bytes] = 2,
    ) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self._told = b""
        inner, self.stdin = _stream(stdin, "w")
        out, self.stdout = _stream(stdout, "r")
        err, self.stderr = _stream(out if stderr == STDOUT else stderr, "r")
        self._status, told = os.pipe()
        request = {"words": self.args, "folder": str(cwd or Path.cwd()), "env": dict(env or os.environ)}
        _loaded().start(json.dumps(request), (inner, out, err, told))
        for fd in (inner, out, err, told):
            os.close(fd)
        pid = self._line(SOON_S)
        assert pid, "it cannot be loaded: `python tests/ready.py` says why"
        self.pid = int(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Returns its exit code if it has ended."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end and returns its exit code."""
        code = self._wait(timeout)
        if code is None:
            raise TimeoutExpired(self.args, timeout or 0)
        return code

    def _wait(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and (line := self._line(timeout)) is not None:
                self.returncode = int(line or -signal.SIGKILL)  # who would tell it has been killed with all programs
                os.close(self._status)
            return self.returncode

    def _line(self, timeout: float | None) -> str | None:
        """Returns the next line about it, None if there is none in time, and "" if nobody is left to write one."""
        while b"\n" not in self._told:
            if not select.select([self._status], [], [], timeout)[0]:
                return None
            read = os.read(self._status, 64)
            if not read:
                return ""
            self._told += read
        line, _, self._told = self._told.partition(b"\n")
        return line.decode()

    def send_signal(self, number: int) -> None:
        """Sends it a signal unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Reads all that it writes, and waits for its end."""
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                self.stdin.close()
        written = _read([stream for stream in (self.stdout, self.stderr) if stream is not None], timeout)
        self.wait(timeout)
        return written.get(self.stdout, ""), written.get(self.stderr, "")


def _stream(wanted: int | IO[bytes], mode: str) -> tuple[int, TextIO | None]:
    """Returns the end that a program gets, and ours if it is a pipe."""
    if wanted == DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if wanted != PIPE:
        return os.dup(wanted if isinstance(wanted, int) else wanted.fileno()), None
    read, write = os.pipe()
    theirs, ours = (read, write) if mode == "w" else (write, read)
    return theirs, TextIOWrapper(os.fdopen(ours, f"{mode}b"), encoding="utf-8")


def _read(streams: Sequence[TextIO], timeout: float | None) -> dict[TextIO | None, str]:
    """What is written to them until nobody holds their other ends."""
    written: dict[TextIO | None, str] = {}
    readers = [
        threading.Thread(target=lambda one=one: written.update({one: one.read()}), daemon=True) for one in streams
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(timeout)
        assert not reader.is_alive(), f"it does not end: {written}"
    return written


@functools.cache
def _loaded() -> "_Loaded":
    return _Loaded()


class _Loaded:
    """The process, which ends with ours at the latest, and all programs with it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        argv, fd = [sys.executable, "-W", "error", __file__], theirs.fileno()
        # Its streams are of the kind that programs get, since Python looks at them when it starts.
        self._process = Popen(
            [*argv, str(fd)], stdin=PIPE, stdout=PIPE, stderr=PIPE, pass_fds=[fd], start_new_session=True
        )
        theirs.close()
        atexit.register(self.end)

    def start(self, request: str, fds: Sequence[int]) -> None:
        """Asks for a program with these streams; it is told of through the last one."""
        with self._lock:
            socket.send_fds(self._socket, [b"!"], fds)
            self._socket.sendall(f"{request}\n".encode())

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # processes that our own has forked may hold it too
        self._socket.close()
        with self._process:
            pass


def main() -> None:
    """Starts programs and tells of their ends, until nobody is left to ask."""
    del sys.path[0]  # the folder of this file
    _load()
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    with socket.socket(fileno=int(sys.argv[1])) as asked, asked.makefile("r") as lines, wake, woken:
        while True:
            ready, _, _ = select.select([asked, wake], [], [])
            if wake in ready:
                wake.recv(1 << 10)
                _report(running)
            if asked not in ready:
                continue
            _, fds, _, _ = socket.recv_fds(asked, 1, 4)
            if not fds:
                _end(running)
            request = lines.readline()
            process = os.fork()
            if not process:
                break
            *streams, status = fds
            for fd in streams:
                os.close(fd)
            running[process] = status
            os.write(status, f"{process}\n".encode())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd in (*running.values(), fds.pop()):
        os.close(fd)
    _leave(_run(fds, json.loads(request)))


def _run(fds: Sequence[int], request: Mapping[str, Any]) -> int:
    """Run a program to its end and return its exit code; an exception ends this process as it would end Python."""
    try:
        _become(fds, **request)
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


def _report(running: dict[int, int]) -> None:
    """Tells of the programs that have ended."""
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        told = running.pop(process)
        with suppress(BrokenPipeError):
            os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(told)


def _end(running: dict[int, int]) -> NoReturn:
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    os._exit(0)


def _become(fds: Sequence[int], words: Sequence[str], folder: str, env: Mapping[str, str]) -> None:
    """What `python` is with these words from its start on."""
    os.setsid()
    for stream, fd in enumerate(fds):
        os.dup2(fd, stream)
        os.close(fd)
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
    else:
        sys.path.insert(0, str(Path(words[0]).absolute().parent))
        sys.argv[:] = words
        runpy.run_path(str(Path(words[0]).absolute()), run_name="__main__")


if __name__ == "__main__":
    main()

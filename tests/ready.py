"""Programs of Python that are forks of a process which has loaded what they need: to load it takes most of their time.

A program is still a process of its own, with its own session, folder, environment and streams. One whose test is about
its start or what it loads is started from nothing. What others start, such as an MCP server, is the small program of
`tests/ready_program.py`, which asks for a fork and passes on signals and the exit code; `command` says how.
"""

import atexit
import functools
import os
import select
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess, Popen, TimeoutExpired
from typing import IO, Self, TextIO

from tests.ready_program import ask

PROGRAM = str(Path(__file__).with_name("ready_program.py"))
SERVER = str(Path(__file__).with_name("ready_server.py"))
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
        streams = (inner, out, err)
        self._status = ask(_loaded().place, self.args, str(cwd or Path.cwd()), dict(env or os.environ), streams)
        for fd in streams:
            os.close(fd)
        pid = self._line(SOON_S)
        assert pid, "it cannot be loaded: `python tests/ready_server.py` says why"
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
                self._status.close()
            return self.returncode

    def _line(self, timeout: float | None) -> str | None:
        """Returns the next line about it, None if there is none in time, and "" if nobody is left to write one."""
        while b"\n" not in self._told:
            if not select.select([self._status], [], [], timeout)[0]:
                return None
            read = self._status.recv(64)
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


def command(*words: str) -> list[str]:
    """The command of such a program, for what starts it by itself."""
    return [sys.executable, "-I", "-S", PROGRAM, _loaded().place, *words]


def path() -> str:
    """The `PATH` on which a shell finds such a `toolcrib` before any other, and the programs of our environment."""
    return os.pathsep.join((_loaded().folder, str(Path(sys.executable).parent), os.environ["PATH"]))


@functools.cache
def _loaded() -> "_Loaded":
    return _Loaded()


class _Loaded:
    """The process, which ends with ours at the latest, and all programs with it."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="toolcrib-ready-")
        self.place = f"{self.folder}/socket"
        shell = Path(self.folder, "toolcrib")
        words = shlex.join([sys.executable, "-I", "-S", PROGRAM, self.place, "-m", "toolcrib"])
        shell.write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
        shell.chmod(0o700)
        self._alive, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as asked:
            asked.bind(self.place)
            asked.listen(100)
            fds = (theirs.fileno(), asked.fileno())
            # Its streams are of the kind that programs get, since Python looks at them when it starts.
            self._process = Popen(
                [sys.executable, "-W", "error", SERVER, *map(str, fds)],
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=fds,
                start_new_session=True,
            )
        atexit.register(self.end)

    def end(self) -> None:
        self._alive.shutdown(socket.SHUT_RDWR)  # processes that our own has forked may hold it too
        self._alive.close()
        with self._process:
            pass
        shutil.rmtree(self.folder, ignore_errors=True)

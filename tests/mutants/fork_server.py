"""A process that has collected all tests and forks for each fault: to load them takes longer than to run a few.

As a pytest plugin it reads requests instead of running tests. In the child the code of the function that has the fault
is replaced, so that nothing is imported again; processes that tests start read the changed file.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

PIPES = "TOOLCRIB_FORK_SERVER"
"""The variable with the numbers of the files for requests and replies."""

COLD = "cold"
"""The outcome of a fault that has to be there when its module is imported."""

PASSED, FAILED = "passed", "failed"
RUNS = "runs"
"""What is told of a test before it runs: the last word of a process that hangs or ends in it."""

TEARDOWN_S = 30.0
PACKAGE = f"{Path(__file__).parents[2] / 'src' / 'toolcrib'}{os.sep}"

Place = tuple[str, str, int]
"""The file, the qualified name and the first line of a function."""


def place(code: CodeType) -> Place:
    """Return where a function stands."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


class ForkServer:
    """A handle of such a process over a copy of the tree."""

    def __init__(self, folder: Path, files: list[str], environment: dict[str, str]) -> None:
        requests, replies = os.pipe(), os.pipe()
        plugins = ("-p", "no:cacheprovider", "-p", "tests.mutants.fork_server", "-p", "tests.mutants.limit")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *plugins, *files],
            cwd=folder,
            env={**environment, PIPES: f"{requests[0]} {replies[1]}"},
            pass_fds=(requests[0], replies[1]),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(requests[0])
        os.close(replies[1])
        self._requests, self._replies = os.fdopen(requests[1], "w"), os.fdopen(replies[0])
        self.tests = int(self._replies.readline() or 0)

    def run(self, tests: list[str], file: str = "", function: str = "") -> tuple[str, str]:
        """Run tests in a child with the changed function of a file: the outcome, and the test that failed."""
        self._requests.write(f"{json.dumps([tests, file, function])}\n")
        self._requests.flush()
        outcome, test = json.loads(self._replies.readline())
        return outcome, test

    def stop(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait()
        self._replies.close()


class Loop:
    """The plugin: it notes what runs while tests are collected, and then answers requests."""

    def __init__(self, requests: int, replies: int) -> None:
        self._requests = os.fdopen(requests)
        self._replies = os.fdopen(replies, "w")
        self._loaded: set[Place] = set()
        self._failed: list[str] = []
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self._loaded.add(place(frame.f_code))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer requests until there are no more."""
        sys.setprofile(None)
        gc.unfreeze()
        functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
        own = [one for one in functions if one.__code__.co_filename.startswith(PACKAGE)]
        gc.freeze()
        items = {item.nodeid: item for item in session.items}
        self._reply(len(items))
        for line in self._requests:
            tests, file, function = json.loads(line)
            wanted = [items[test] for test in tests if test in items]
            self._reply(self._fork(wanted, file, function, own))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what failed."""
        if report.failed:
            self._failed.append(report.nodeid)

    def _reply(self, reply: object) -> None:
        self._replies.write(f"{json.dumps(reply)}\n")
        self._replies.flush()

    def _fork(self, items: list[pytest.Item], file: str, function: str, own: list[FunctionType]) -> list[str]:
        """Run tests in a child, and return their outcome with the test that failed, or how many passed."""
        folder = tempfile.mkdtemp(prefix="mt-", dir="/tmp")
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.close(ours)
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            try:
                self._child(items, file, function, own, theirs)
            finally:
                os._exit(1)
        os.close(theirs)
        outcome = _outcome(child, ours, self._requests.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def _child(self, items: list[pytest.Item], file: str, function: str, own: list[FunctionType], out: int) -> None:
        def tell(*words: str) -> None:
            os.write(out, f"{json.dumps(words)}\n".encode())

        if file and not self._replace(Path(PACKAGE) / file, function, own):
            tell(COLD, "")
            return
        for number, item in enumerate(items, 1):
            tell(RUNS, item.nodeid)
            following = items[number] if number < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                break
        tell(FAILED if self._failed else PASSED, *(self._failed[:1] or [""]))
        for item in items[:1]:
            with contextlib.suppress(Exception):
                item.session._setupstate.teardown_exact(None)

    def _replace(self, file: Path, function: str, own: list[FunctionType]) -> bool:
        """Put the code of the changed file into the functions that are there; False where that would not be enough."""
        changed = {place(code): code for code in _codes(compile(file.read_bytes(), str(file), "exec"))}
        replaced = False
        for one in own:
            code = one.__code__
            if code.co_filename != str(file) or not _related(code.co_qualname.replace("<locals>.", ""), function):
                continue
            if place(code) not in changed or place(code) in self._loaded:
                return False
            try:
                one.__code__ = changed[place(code)]
            except ValueError:  # it has other variables of the functions around it
                return False
            replaced = True
        return replaced or not any(getattr(one, "__file__", None) == str(file) for one in list(sys.modules.values()))


def _related(name: str, function: str) -> bool:
    """Whether one of them is the other, or stands in it."""
    return f"{name}.".startswith(f"{function}.") or f"{function}.".startswith(f"{name}.")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _outcome(child: int, out: int, requests: int) -> list[str]:
    """Return the last words of a child, wait for its end, and end whatever it started.

    While it runs no request comes: where there is something to read, whoever sends them is gone.
    """
    pidfd, told = os.pidfd_open(child), b""
    while not told.endswith(b"\n") or json.loads(told.splitlines()[-1])[0] == RUNS:
        ready, _, _ = select.select([out, pidfd, requests], [], [])
        words = os.read(out, 65536) if out in ready else b""
        if not words:
            break
        told += words
    select.select([pidfd, requests], [], [], TEARDOWN_S)
    os.close(pidfd)
    os.close(out)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return list(json.loads(told.splitlines()[-1])) if told else [RUNS, ""]


def _loop() -> Loop | None:
    """Begin where somebody holds the other ends, before anything of the package is imported."""
    if PIPES not in os.environ:
        return None
    requests, replies = map(int, os.environ.pop(PIPES).split())
    return Loop(requests, replies)


LOOP = _loop()


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of whatever runs tests."""
    if LOOP is not None:
        config.pluginmanager.register(LOOP)

"""Runs the tests in forks of the process that has collected them: to collect them in each costs more than most run.

The files are handed out one by one, those with the most demanding tests first; a test still has a process to itself
while it runs, and whatever belongs to a file is made once for each fork that gets a part of it.
"""

from __future__ import annotations

import atexit
import gc
import mmap
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from itertools import groupby, zip_longest
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.unraisableexception import collect_unraisable

from tests.kinds import KIND

MOST = 48
"""How many tests of a long file go to a fork at once."""
SOON_S = 60
NUMBER = 4
"""The bytes of the number of a part: a pipe hands them out whole."""


class Forks:
    """Runs the tests of a session in some processes, and reports in this one."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[list[pytest.Item]] = []
        self._running: dict[Connection, _Fork] = {}
        self._stop = mmap.mmap(-1, 1)
        self._reports: Connection | None = None
        self._started = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Hand out the tests, and tell of what became of each."""
        if session.config.option.collectonly or session.testsfailed:
            return None
        self._parts = parts(session.items)
        self._queue, numbers = os.pipe()
        for number in range(len(self._parts)):
            os.write(numbers, number.to_bytes(NUMBER, "big"))
        os.close(numbers)
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # the parent of that of each fork
        try:
            for _ in range(min(self._count, len(self._parts))):
                self._start(session)
            while self._running:
                self._listen(session)
        finally:
            self._stop[0] = 1
            os.close(self._queue)
            for fork in self._running.values():
                fork.end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell from a fork what became of a step of a test."""
        if self._reports is not None:
            hook = self._session.config.hook
            self._reports.send(
                ("report", hook.pytest_report_to_serializable(config=self._session.config, report=report))
            )

    # The process that reports

    def _start(self, session: pytest.Session, first: int | None = None) -> None:
        """Fork; `first` is a part that another one has left undone."""
        ours, theirs = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for connection in (ours, *self._running):
                connection.close()
            self._become(session, theirs, first)
        self._started += 1
        theirs.close()
        self._running[ours] = _Fork(pid)

    def _listen(self, session: pytest.Session) -> None:
        for connection in wait([*self._running], timeout=1):
            assert isinstance(connection, Connection)
            fork = self._running[connection]
            try:
                self._take(session, fork, *connection.recv())
            except EOFError:
                fork.closed = True
                fork.end()
        for connection, fork in [*self._running.items()]:
            # A process that a test has forked may hold the pipe of a fork that has died.
            if fork.ended() and (fork.closed or not connection.poll()):
                del self._running[connection]
                connection.close()
                self._replace(session, fork)
        if session.shouldfail or session.shouldstop:
            self._stop[0] = 1

    def _take(self, session: pytest.Session, fork: _Fork, kind: str, value: Any) -> None:
        if kind == "part":
            fork.left = deque(self._parts[value])
        elif kind == "broken":
            self._tell_broken(session, fork, value)
        else:
            report = session.config.hook.pytest_report_from_serializable(config=session.config, data=value)
            session.config.hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                self._finish(session, fork)

    def _finish(self, session: pytest.Session, fork: _Fork) -> None:
        test = fork.last = fork.left.popleft()
        session.config.hook.pytest_runtest_logfinish(nodeid=test.nodeid, location=test.location)

    def _replace(self, session: pytest.Session, fork: _Fork) -> None:
        """Fail the test in which a fork has died, and let another one do the rest."""
        if fork.code == 0:
            return
        self._tell_broken(session, fork, f"the process that ran this test ended with {fork.code}")
        if fork.left:
            self._finish(session, fork)
        if not self._stop[0]:
            self._parts.append([*fork.left])
            self._start(session, len(self._parts) - 1)

    def _tell_broken(self, session: pytest.Session, fork: _Fork, why: str) -> None:
        test = fork.left[0] if fork.left else fork.last or session.items[0]
        report = pytest.TestReport(test.nodeid, test.location, {}, "failed", why, "teardown")
        session.config.hook.pytest_runtest_logreport(report=report)

    # A fork

    def _become(self, session: pytest.Session, reports: Connection, first: int | None) -> NoReturn:
        """Run parts until there are none, and end."""
        code = 1
        try:
            self._session, self._reports = session, reports
            _part_from(session.config, self._started)
            if first is not None:
                self._run(session, first)
            while number := os.read(self._queue, NUMBER):
                self._run(session, int.from_bytes(number, "big"))
            code = 0
        except BaseException:  # noqa: BLE001 - it is told by the process that reports
            reports.send(("broken", traceback.format_exc()))
        finally:
            self._leave(session, code)

    def _run(self, session: pytest.Session, number: int) -> None:
        assert self._reports is not None
        self._reports.send(("part", number))
        part = self._parts[number]
        for item, following in zip_longest(part, part[1:]):
            if self._stop[0]:
                return
            # What belongs to the session stays for the next part.
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following or session)

    def _leave(self, session: pytest.Session, code: int) -> NoReturn:
        """End as Python does, but leave alone what belongs to the process that reports."""
        assert self._reports is not None
        try:
            session._setupstate.teardown_exact(None)
            gc.collect()
            collect_unraisable(session.config)
            threading._shutdown()  # type: ignore[attr-defined]  # joins threads and pools
            atexit._run_exitfuncs()
        except BaseException:  # noqa: BLE001 - it is told by the process that reports
            self._reports.send(("broken", traceback.format_exc()))
        os._exit(code)


class _Fork:
    """A process that runs tests: what it has still to do of its part."""

    def __init__(self, pid: int) -> None:
        self.code: int | None = None
        self.closed = False
        self.left: deque[pytest.Item] = deque()
        self.last: pytest.Item | None = None
        self._pid = pid

    def ended(self) -> bool:
        """Return True if it has ended, and keep its exit code."""
        if self.code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def end(self) -> None:
        """Wait for its end, and kill it where that does not come."""
        deadline = time.monotonic() + SOON_S
        while not self.ended():
            if time.monotonic() > deadline:
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(0.05)


def _part_from(config: pytest.Config, number: int) -> None:
    """Give this process what each has of its own: exit functions, folders, captured streams."""
    atexit._clear()
    own_state_home()
    folders, capture, terminal, guard = (
        getattr(config, "_tmp_path_factory"),  # noqa: B009 - pytest sets it
        *map(config.pluginmanager.getplugin, ("capturemanager", "terminalreporter", "kinds")),
    )
    folders._basetemp = folders.getbasetemp() / f"fork-{number}"
    folders._basetemp.mkdir(mode=0o700)
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    terminal._tw._file = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until this process ends
    guard.pid = os.getpid()


def own_state_home() -> None:
    """Keep what servers leave for programs of the same user apart from that of who runs the tests."""
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="toolcrib-state-")
    atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)


def parts(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Split tests into parts that forks get one by one: long files first, those of unit tests between the others."""
    unit, others = list[list[pytest.Item]](), list[list[pytest.Item]]()
    for _, file in groupby(items, lambda item: item.nodeid.partition("::")[0]):
        tests = [*file]
        pieces = [tests[start : start + MOST] for start in range(0, len(tests), MOST)]
        (unit if all(test.stash[KIND] == "unit" for test in tests) else others).extend(pieces)
    others.sort(key=len, reverse=True)
    return [part for pair in zip_longest(others, unit) for part in pair if part]

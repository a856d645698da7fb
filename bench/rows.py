"""A row of the table: one worker process, spoken to line by line."""

import json
import subprocess
import tempfile
from threading import Timer
from types import TracebackType
from typing import Self

from bench.peers import ROOT, Command

PATIENCE = 180.0


class Broken(Exception):
    """A worker ended or gave a wrong answer; the text is the last thing it said."""


class Row:
    """A running worker. It measures itself; while it is not asked, it does nothing."""

    def __init__(self, command: Command) -> None:
        self.name = command.row
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the row
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command.argv, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, cwd=ROOT
        )
        self.versions: dict[str, str] = {}

    def start(self) -> None:
        """Wait until every workload of the worker has given a right answer."""
        self.versions = json.loads(self._line().removeprefix("ready "))

    def run(self, workload: str, tasks: int, calls: int) -> float:
        """CPU seconds per call."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"run {workload} {tasks} {calls}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Broken(self._last_words()) from None
        return float(self._line()) / calls

    def _line(self) -> str:
        assert self._process.stdout is not None
        watchdog = Timer(PATIENCE, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise Broken(self._last_words())
        return line.strip()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()
        return said[-1] if said else f"the worker ended with code {code}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

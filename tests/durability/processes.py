"""Scripts of this folder as processes of their own, which speak in lines and are killed without warning."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen
from threading import Thread
from typing import Any

from tests.ready import Program
from tests.shared import ROOT

HERE = Path(__file__).resolve().parent
PATIENCE_S = 60


class Script:
    """A running script. Each line it prints is one JSON value; each line it reads is one too."""

    def __init__(self, name: str, *args: object, fresh: bool = False) -> None:
        words = [str(HERE / name), *map(str, args)]
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONUNBUFFERED": "1"}
        self.process: Program | Popen[str] = (
            Popen([sys.executable, *words], stdin=PIPE, stdout=PIPE, text=True, env=env)
            if fresh
            else Program(words, stdin=PIPE, env=env)
        )
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def hear(self) -> Any:
        """The next line; waits for it."""
        try:
            line = self._lines.get(timeout=PATIENCE_S)
        except Empty:
            raise AssertionError(f"{self.process.args!r} said nothing for {PATIENCE_S} s") from None
        if line is None:
            self._lines.put(None)
            raise AssertionError(f"{self.process.args!r} ended with {self.process.wait()}")
        return json.loads(line)

    def until(self, *wanted: Any) -> Any:
        """The first line that is one of these."""
        while (said := self.hear()) not in wanted:
            pass
        return said

    def say(self, value: Any) -> None:
        """Sends a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()

    def ask(self, value: Any) -> Any:
        """Sends a line and waits for the next one."""
        self.say(value)
        return self.hear()

    def kill(self) -> list[Any]:
        """Kills it with SIGKILL unless it has ended; what it had said and nobody had heard."""
        self.process.kill()
        self.process.wait()
        self._close()
        rest: list[Any] = []
        while (line := self._lines.get()) is not None:
            if line.endswith("\n"):
                rest.append(json.loads(line))
        self._lines.put(None)
        return rest

    def _close(self) -> None:
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


@contextmanager
def script(name: str, *args: object, fresh: bool = False) -> Iterator[Script]:
    """A script that is killed at the latest when the test is over; a fresh one is no fork of a loaded process."""
    made = Script(name, *args, fresh=fresh)
    try:
        yield made
    finally:
        made.kill()


def lines(path: Path) -> list[str]:
    """What was appended to a file: side effects that no log can take back."""
    return path.read_text().splitlines() if path.exists() else []

"""The processes of a cluster on one machine: started in order, minded while they run, stopped in the reverse order.

Each is started in a session of its own, so that Ctrl-C reaches us alone and they are stopped in our order; a
`ParentWatch` beside each sees to it that none outlives us.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from toolcrib.cli.command import INSTALL
from toolcrib.cli.terminal import CommandError
from toolcrib.testing.services import READY_S, ParentWatch, Service, ServiceError

RESTARTS = 3
RESTARTS_S = 60.0

Say = Callable[[str, str], None]
"""Tells the person a text, in a style."""


class ChildProcess(ABC):
    """A process that is started again when it dies."""

    def __init__(self, label: str, role: str) -> None:
        self.label = label
        self.role = role
        self._starts: deque[float] = deque(maxlen=RESTARTS)

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """Its process, while it runs."""

    @abstractmethod
    async def start(self) -> None:
        """Returns when it is ready.

        Raises:
            CommandError: it did not become so.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Stops it, gently first."""

    @abstractmethod
    async def ended(self) -> None:
        """Returns when it no longer runs."""

    def rest(self) -> float:
        """How long not to start it, since it died too often within the last minute."""
        often = len(self._starts) == RESTARTS
        return max(0.0, self._starts[0] + RESTARTS_S - time.monotonic()) if often else 0.0

    async def restart(self) -> None:
        """Starts it, and counts that."""
        self._starts.append(time.monotonic())
        await self.start()


class ServiceProcess(ChildProcess):
    """One of the two services."""

    def __init__(self, service: Service, role: str) -> None:
        super().__init__(service.name, role)
        self._service = service

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return self._service.pid

    async def start(self) -> None:
        """Starts it over its data."""
        try:
            self._service.start()
        except ServiceError as error:
            what, _, detail = str(error).partition("\n")
            advice = f"another cluster may use {self._service.folder}: stop it, or name another folder with --data"
            if "pip install" in what:
                advice = INSTALL
            raise CommandError(f"{what}\n{detail}".strip(), advice, exit_code=1, code="cluster") from None

    async def stop(self) -> None:
        """Stops it; what it has is on disk."""
        self._service.close()

    async def ended(self) -> None:
        """Returns when it no longer runs."""
        await asyncio.to_thread(self._service.wait)


class NodeProcess(ChildProcess):
    """A node: a command of ours that says `ready` when it is."""

    def __init__(self, label: str, words: Sequence[str], env: dict[str, str], logs: Path, grace: float) -> None:
        super().__init__(label, label.partition("-")[0])
        self._words = words
        self._env = env
        self._log = logs / f"{label}.log"
        self._from = 0
        self._grace = grace
        self._process: asyncio.subprocess.Process | None = None
        self._watch: ParentWatch | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def start(self) -> None:
        """Starts it, and waits for its word."""
        await self._let_go()
        with self._log.open("ab") as log:
            self._from = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *self._words,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._watch = ParentWatch(self._process.pid, "TERM")
        ready = asyncio.Event()
        self._reader = asyncio.create_task(self._read(self._process, ready))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({waiting, self._reader}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not ready.is_set():
            await self.stop()
            raise CommandError(
                f"{self.label} did not start: {self._last_output()}", f"see {self._log}", exit_code=1, code="cluster"
            )

    async def stop(self) -> None:
        """Asks it to stop, and kills it when it does not within its grace time."""
        if self.pid is not None:
            assert self._process is not None
            self._signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), self._grace + 5)
            except TimeoutError:
                self._signal(signal.SIGKILL)
        await self._let_go()

    async def ended(self) -> None:
        """Returns when it no longer runs."""
        if self._process is not None:
            await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # asyncio's own way looks whether the process has ended, and then nobody learns how.
        assert self._process is not None
        try:
            os.kill(self._process.pid, number)
        except ProcessLookupError:
            pass

    async def _let_go(self) -> None:
        if self._process is not None and self._reader is not None:
            await self._process.wait()
            await self._reader
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    async def _read(self, process: asyncio.subprocess.Process, ready: asyncio.Event) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.startswith(b"ready"):
                ready.set()

    def _last_output(self) -> str:
        """Return the error that it ended with, else its last output."""
        lines = self._log.read_bytes()[self._from :].decode("utf-8", "replace").strip().splitlines()
        errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
        return "\n".join(errors[-1:] or lines[-3:]) or "no output"


class ProcessGroups:
    """All processes, in the groups in which they are started and stopped."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._groups: list[list[ChildProcess]] = []
        self._minding: list[asyncio.Task[None]] = []

    @property
    def children(self) -> list[ChildProcess]:
        """All of them."""
        return [child for group in self._groups for child in group]

    async def start(self, *group: ChildProcess) -> None:
        """Starts some together; the next group is started when all of these are ready."""
        self._groups.append(list(group))
        started = await asyncio.gather(*(child.start() for child in group), return_exceptions=True)
        for error in started:
            if error is not None:
                raise error
        self._say(f"{_names(group)} {'runs' if len(group) == 1 else 'run'}", "dim")

    def mind(self) -> None:
        """Starts again what dies, from now on."""
        self._minding = [asyncio.create_task(self._mind(child)) for child in self.children]

    async def stop(self) -> None:
        """Stops the last group first."""
        for task in self._minding:
            task.cancel()
        await asyncio.gather(*self._minding, return_exceptions=True)
        while self._groups:
            group = self._groups.pop()
            await asyncio.gather(*(child.stop() for child in group))
            self._say(f"{_names(group)} stopped", "dim")

    async def _mind(self, child: ChildProcess) -> None:
        while True:
            await child.ended()
            self._say(f"{child.label} died", "bold red")
            await self._restart(child)

    async def _restart(self, child: ChildProcess) -> None:
        while child.pid is None:
            if rest := child.rest():
                self._say(f"{child.label} died {RESTARTS} times within a minute: not again for {rest:.0f} s", "red")
                await asyncio.sleep(rest)
            try:
                await child.restart()
                self._say(f"{child.label} runs again", "green")
            except CommandError as problem:
                self._say(problem.message, "red")


def _names(group: Sequence[ChildProcess]) -> str:
    return ", ".join(child.label for child in group)

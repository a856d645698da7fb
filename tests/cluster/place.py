"""Nodes as processes of their own, which are stopped, halted and killed; the API node is the test itself."""

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import IO, Any, Self, TypeVar

import psutil

from tests.cluster import cribs
from tests.ready import Program
from tests.shared import ROOT
from toolcrib import Crib, Event, Refused, Result, Session
from toolcrib.errors import StoreUnavailable
from toolcrib.store.shared import Node
from toolcrib.testing.services import ParentWatch, Service

LEASE_S = 2.0
PATIENCE_S = 60.0
READY = re.compile(r'(\[")?ready\b')

T = TypeVar("T")


def _start(words: list[str], env: dict[str, str], out: IO[bytes]) -> Popen[bytes] | Program:
    if words[0] == sys.executable:
        return Program(words[1:], cwd=ROOT, env=env, stdout=out, stderr=STDOUT)
    return Popen(words, cwd=ROOT, env=env, stdin=DEVNULL, stdout=out, stderr=STDOUT, start_new_session=True)


class Process:
    """A process that writes its log to a file; it goes when the test goes, at the latest."""

    def __init__(self, words: Iterable[str], log: Path, env: dict[str, str]) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = _start(
                list(words),
                {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONUNBUFFERED": "1", **env},
                out,
            )
        self._watch: ParentWatch | None = ParentWatch(self._process.pid, "KILL")

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """What it ended with, if it has."""
        return self._process.poll()

    @property
    def said(self) -> list[str]:
        """All lines of its log."""
        return self.log.read_text("utf-8", "replace").splitlines()

    async def ready(self) -> Self:
        """Returns when it has said so."""
        await until(lambda: self.code is not None or any(map(READY.match, self.said)), what=self._state)
        assert self.code is None, self._state()
        return self

    def _state(self) -> str:
        return f"{self.log.name} ended with {self.code} and said:\n" + "\n".join(self.said[-20:])

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    def halt(self) -> None:
        """Stops it in the middle of whatever it does; it does not know."""
        self.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """It goes on as if nothing had happened."""
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """Kills it without a warning."""
        self._process.kill()
        self._end()

    async def stop(self) -> int:
        """Asks it to stop, and waits until it has; its exit code."""
        self.send(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Waits for its end; its exit code."""
        await until(lambda: self.code is not None, what=self._state)
        self._end()
        return self._process.wait()

    def _end(self) -> None:
        self._process.wait()
        if self._watch is not None:
            self._watch.end()
            self._watch = None


class Place:
    """A store, an engine, a folder for effects and gates, and the nodes of one cluster."""

    def __init__(self, store: str, engine: str, folder: Path, *, lease: float = LEASE_S) -> None:
        self.store = f"{store}?lease={lease:g}"
        self.engine = f"{engine}?lease={lease:g}"
        self.folder = folder
        self.lease = lease
        self.processes: list[Process] = []

    # Nodes

    def begin(self, label: str = "w1", *options: str, crib: str = "crib", **env: str) -> Process:
        """Starts a worker; it is not ready yet."""
        words = [sys.executable, "-m", "toolcrib", "worker", "--crib", f"tests.cluster.cribs:{crib}"]
        words += ["--store", self.store, "--engine", self.engine, "--label", label, *options]
        return self.run(words, label, **env)

    def run(self, words: list[str], label: str, **env: str) -> Process:
        """Starts a process of the cluster."""
        log = self.folder / f"{label}-{len(self.processes)}.log"
        self.processes.append(Process(words, log, {cribs.FOLDER: str(self.folder), **env}))
        return self.processes[-1]

    async def worker(self, label: str = "w1", *options: str, crib: str = "crib", **env: str) -> Process:
        """A worker that takes calls."""
        return await self.begin(label, *options, crib=crib, **env).ready()

    async def workers(self, count: int, *options: str) -> list[Process]:
        """Some of them, started side by side."""
        begun = [self.begin(f"w{number}", *options) for number in range(1, count + 1)]
        return [await worker.ready() for worker in begun]

    @asynccontextmanager
    async def api(self) -> AsyncIterator[Crib]:
        """A node in this process that runs nothing itself."""
        async with cribs.crib(store=self.store, engine=f"{self.engine}&work=no") as crib:
            yield crib

    @asynccontextmanager
    async def session(self, id: str = "s") -> AsyncIterator[Session]:
        """A session at such a node."""
        async with self.api() as crib:
            yield await crib.open(id, owner="ada")

    def close(self) -> None:
        """Kills what still runs."""
        for process in self.processes:
            process.kill()

    # Effects

    def open(self, gate: str) -> None:
        """Lets those who wait at a gate go on."""
        (self.folder / f"gate-{gate}").touch()

    def lines(self) -> list[tuple[str, int, int]]:
        """All effects in the order in which they happened: which, of what, by whom."""
        path = self.folder / "effects"
        words = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(what, int(n), int(pid)) for what, n, pid in words]

    def effects(self, what: str) -> Counter[int]:
        """How often each of one kind happened."""
        return Counter(n for kind, n, _ in self.lines() if kind == what)

    def by(self, what: str) -> set[int]:
        """The processes in which such effects happened."""
        return {pid for kind, _, pid in self.lines() if kind == what}

    async def happened(self, count: int, *kinds: str) -> None:
        """Waits until so many effects of some kinds have happened."""
        await until(
            lambda: sum(kind in kinds for kind, _, _ in self.lines()) >= count,
            what=lambda: f"{Counter(kind for kind, _, _ in self.lines())}, not {count} of {kinds}",
        )


async def until(
    condition: Callable[[], Any], seconds: float = PATIENCE_S, what: Callable[[], str] = lambda: "nothing happened"
) -> None:
    """Waits for something outside this process, which tells nobody when it happens."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, f"after {seconds:g} s: {what()}"
        await asyncio.sleep(0.02)


@contextmanager
def halted(server: Service) -> Iterator[None]:
    """It neither works nor ends for a while, as on a machine that is out of memory; nobody is told."""
    assert server.pid is not None
    family = [psutil.Process(server.pid)]
    family[0].suspend()  # so that it starts no child while they are counted
    family += family[0].children()
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in reversed(family):
            with suppress(psutil.NoSuchProcess):
                process.resume()


async def halt(server: Service, seconds: float) -> None:
    """The same for so long."""
    with halted(server):
        await asyncio.sleep(seconds)


async def node(crib: Crib, fits: Callable[[Node], bool]) -> Node:
    """The first node of the cluster that fits, as soon as there is one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for found in await crib.store.nodes():  # type: ignore[attr-defined]  # a shared store has them
                if found.alive and fits(found):
                    return found  # type: ignore[no-any-return]
            await asyncio.sleep(0.1)


async def submit(session: Session, tool: str, numbers: Iterable[int], **args: Any) -> dict[int, str]:
    """Submits a call for each number; their ids."""
    made = list(numbers)
    calls = await asyncio.gather(*(session.submit(tool, {"n": n, **args}) for n in made))
    return {n: call.id for n, call in zip(made, calls, strict=True)}


async def results(session: Session, calls: dict[int, str], seconds: float = PATIENCE_S) -> dict[int, Result]:
    """What became of them; whoever asks while the database is away asks again."""
    asked = [asyncio.ensure_future(persist(session, id)) for id in calls.values()]
    _, late = await asyncio.wait(asked, timeout=seconds)
    if late:
        rows = [await session.crib.store.call(id) for id, ask in zip(calls.values(), asked, strict=True) if ask in late]
        raise AssertionError(f"{len(late)} of {len(asked)} calls have no result after {seconds:g} s: {rows[:5]}")
    return dict(zip(calls, [ask.result() for ask in asked], strict=True))


async def persist(session: Session, call: str) -> Result:
    """The result of one call, asked for until there is somebody to ask."""
    return await again(lambda: session.result(call))


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    """Does it until the store is there."""
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(0.2)
        except Refused as error:
            if error.code != "unavailable":
                raise
            await asyncio.sleep(0.2)


def codes(found: dict[int, Result]) -> Counter[str]:
    """How often each outcome, `ok` for the good one."""
    return Counter("ok" if result.failure is None else result.failure.code for result in found.values())


def those(found: dict[int, Result], code: str) -> set[int]:
    """The numbers of the calls with that outcome."""
    return {n for n, result in found.items() if code == ("ok" if result.failure is None else result.failure.code)}


async def log(session: Session) -> list[Event]:
    """All events of a session, without a gap."""
    events = [event async for event in session.events(follow=False)]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return events


async def logged(session: Session, call: str, kind: str) -> None:
    """Returns when the log of the session says that of the call."""
    async with asyncio.timeout(PATIENCE_S):
        async for event in session.events():
            if event.call == call and event.kind == kind:
                return


def kinds(events: list[Event], call: str) -> list[str]:
    """The kinds of a call's events, in order."""
    return [event.kind for event in events if event.call == call]

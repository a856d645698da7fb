"""A cluster under load whose parts are killed at random, for as long as wanted; then everything is counted.

`make soak ARGS="--minutes 5 --seed 1"`. It ends with 1 where a call was lost, or something that may happen once
happened twice. Two API nodes make calls; three workers run them; workers, API nodes, NATS and Postgres are killed.
"""

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.place import Place, Process, again, halt
from toolcrib import Crib, Event, Refused
from toolcrib.cli.verify import differences
from toolcrib.store import OWNER, SessionRow
from toolcrib.testing.services import NatsServer, PostgresServer

WORKERS, LOADERS = 3, 2
ONCE = ("charge", "mail", "ask")
LEAST_KILLED, LEAST_ACKNOWLEDGED = 2, 100
"""More of both than that there are in every run."""
QUIET_S = 120.0
"""How long everything may take to end when nothing is killed any more."""


@dataclass
class Counts:
    """What became of all calls."""

    submitted: int = 0
    acknowledged: int = 0
    done: int = 0
    unknown: int = 0
    settled: int = 0
    stacks: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether all is as it should be."""
        return not self.lost and not self.doubled and self.done > 0


class Soak:
    """One run."""

    def __init__(self, folder: Path, postgres: PostgresServer, nats: NatsServer, seed: int, rate: float) -> None:
        self.place = Place(postgres.url, nats.url, folder)
        self.killed: Counter[str] = Counter()
        self._postgres = postgres
        self._nats = nats
        self._chance = random.Random(seed)
        self._rate = rate
        self._workers: list[Process] = []
        self._loaders: dict[str, Process] = {}
        self._made = 0

    async def run(self, seconds: float, tell: Callable[[str], None]) -> Counts:
        """Starts, kills for a while, waits for everything to end, and counts."""
        try:
            await self._start()
            begun = time.monotonic()
            # A busy machine comes to little in the time.
            while (left := begun + seconds - time.monotonic()) > 0 or not self._enough():
                self._mend()
                await self._misfortune()
                tell(f"{left:4.0f} s left, {self.killed.total()} killed, {self._acknowledged()} calls acknowledged")
                await asyncio.sleep(self._chance.uniform(0.3, 2.5))
            tell("waiting for everything to end")
            return await self._end()
        finally:
            self.place.close()

    # Nodes

    async def _start(self) -> None:
        for _ in range(WORKERS):
            self._workers.append(self._worker())
        for number in range(LOADERS):
            self._load(f"api-{number}")
        for process in (*self._workers, *self._loaders.values()):
            await process.ready()

    def _worker(self) -> Process:
        self._made += 1
        return self.place.begin(f"worker-{self._made}", "--slots", "64", "--grace", f"{self._chance.choice((0.1, 5))}")

    def _load(self, label: str) -> None:
        self._made += 1
        first = self._made * 1_000_000
        words = [sys.executable, "-m", "tests.cluster.loader", self.place.store, self.place.engine, label]
        self._loaders[label] = self.place.run([*words, str(first), str(self._rate / LOADERS)], label)

    def _mend(self) -> None:
        """Starts others for those that have ended by themselves, as one does that starts while Postgres is away."""
        living = [worker for worker in self._workers if worker.code is None]
        self._workers = living + [self._worker() for _ in range(WORKERS - len(living))]
        for label, loader in list(self._loaders.items()):
            if loader.code is not None:
                self._load(label)

    def _enough(self) -> bool:
        return self.killed.total() > LEAST_KILLED and self._acknowledged() > LEAST_ACKNOWLEDGED

    def _acknowledged(self) -> int:
        return sum(words[0] == "acknowledged" for words in self._told())

    def _told(self) -> list[list[Any]]:
        files = sorted(self.place.folder.glob("*.told"))
        return [json.loads(line) for path in files for line in path.read_text().splitlines()]

    # Misfortunes

    async def _misfortune(self) -> None:
        kinds: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "worker killed": (5, self._kill_worker),
            "worker told to stop": (3, self._stop_worker),
            "worker halted": (4, self._halt_worker),
            "api node killed": (2, self._kill_loader),
            "nats killed": (2, self._kill_nats),
            "nats killed, data lost": (1, self._lose_nats),
            "nats halted": (1, lambda: halt(self._nats, self._chance.uniform(0.5, 7))),
            "postgres killed": (2, self._kill_postgres),
            "postgres halted": (1, lambda: halt(self._postgres, self._chance.uniform(0.5, 7))),
        }
        (kind,) = self._chance.choices(list(kinds), [weight for weight, _ in kinds.values()])
        self.killed[kind] += 1
        await kinds[kind][1]()

    def _some(self) -> Process:
        return self._workers.pop(self._chance.randrange(len(self._workers)))

    async def _kill_worker(self) -> None:
        self._some().kill()
        self._workers.append(self._worker())

    async def _stop_worker(self) -> None:
        leaving = self._some()
        leaving.send(signal.SIGTERM)
        self._workers.append(self._worker())

    async def _halt_worker(self) -> None:
        worker = self._some()
        worker.halt()
        await asyncio.sleep(self._chance.uniform(0.2, 3) * self.place.lease)
        worker.go_on()
        self._workers.append(worker)

    async def _kill_loader(self) -> None:
        label = self._chance.choice(list(self._loaders))
        self._loaders[label].kill()
        self._load(label)

    async def _kill_nats(self) -> None:
        self._nats.kill()
        await asyncio.sleep(self._chance.uniform(0, 2))
        await asyncio.to_thread(self._nats.start)

    async def _lose_nats(self) -> None:
        self._nats.kill()
        shutil.rmtree(self._nats.folder / "data", ignore_errors=True)
        await asyncio.to_thread(self._nats.start)

    async def _kill_postgres(self) -> None:
        self._postgres.kill()
        await asyncio.sleep(self._chance.uniform(0, 3))
        await asyncio.to_thread(self._postgres.start)

    # The end

    async def _end(self) -> Counts:
        self._mend()
        for process in (*self._workers, *self._loaders.values()):
            await process.ready()
        self.place.open("stop")
        deadline = time.monotonic() + QUIET_S
        async with self.place.api() as crib:
            while time.monotonic() < deadline:
                await asyncio.sleep(0.5)
                await self._answer(crib)
                left = await again(crib.store.counts)  # type: ignore[attr-defined]  # a shared store has it
                if not left and all(loader.code is not None for loader in self._loaders.values()):
                    break
            return await self._count(crib)

    async def _answer(self, crib: Crib) -> None:
        """Answers what calls of API nodes that are gone have asked."""
        for row in await self._rows(crib):
            session = await again(lambda row=row: crib.open(row.id, owner=row.owner))  # type: ignore[misc]
            for question in await again(session.questions):
                try:
                    await again(lambda id=question.id: session.answer(id, "accept", "yes"))  # type: ignore[misc]  # noqa: B023
                except Refused:
                    pass  # somebody else was quicker

    async def _rows(self, crib: Crib) -> list[SessionRow]:
        """The sessions of owners, without the logs of the crib itself."""
        return [row for row in await again(lambda: crib.store.sessions(limit=1000)) if row.owner != OWNER]

    async def _count(self, crib: Crib) -> Counts:
        counts, told = Counts(), self._told()
        events: dict[str, list[Event]] = {}
        for row in await self._rows(crib):
            session = await crib.open(row.id, owner=row.owner)
            for event in [event async for event in session.events(follow=False)]:
                if event.call is not None:
                    events.setdefault(event.call, []).append(event)
            counts.lost += [f"the index differs: {found}" for found in await differences(crib.store, row.id)]
        counts.submitted = len({words[1] for words in told if words[0] == "submitted"})
        for _, n, tool, call, _ in (words for words in told if words[0] == "acknowledged"):
            counts.acknowledged += 1
            self._judge(counts, f"{tool} {n} ({call})", events.get(call, []))
        counts.stacks = sum("Traceback" in line for process in self.place.processes for line in process.said)
        self._compare(counts, told, events)
        self._effects(counts, events)
        for loader in self._loaders.values():
            if loader.code != 0:
                counts.lost.append(f"{loader.log.name} ended with {loader.code}: {loader.said[-3:]}")
        return counts

    def _judge(self, counts: Counts, name: str, events: list[Event]) -> None:
        ends = [event for event in events if event.kind == "done"]
        if not ends:
            counts.lost.append(f"{name} has not ended: {[event.kind for event in events]}")
            return
        if len(ends) > 1:
            counts.doubled.append(f"{name} ended {len(ends)} times")
        counts.settled += any(event.kind == "settled" for event in events)
        code = _code(events)
        counts.done += 1
        counts.unknown += code == "unknown"
        if code not in ("ok", "unknown"):
            counts.failed[code] += 1

    def _compare(self, counts: Counts, told: list[list[Any]], events: dict[str, list[Event]]) -> None:
        """Whoever was told that a call went well finds that in the log."""
        for _, n, call, code in (words for words in told if words[0] == "told"):
            if code == "ok" and _code(events.get(call, [])) != "ok":
                counts.lost.append(f"{n} ({call}) was told as ok and is {_code(events.get(call, []))}")

    def _effects(self, counts: Counts, events: dict[str, list[Event]]) -> None:
        effects = Counter((what, n) for what, n, _ in self.place.lines())
        for (what, n), times in effects.items():
            if what in ONCE and times > 1:
                counts.doubled.append(f"{what} {n} happened {times} times")
        for call, past in events.items():
            accepted = past[0].fields
            tool = str(accepted.get("tool")).removeprefix("default.")
            if tool in ONCE and _code(past) == "ok" and not effects[tool, accepted["args"]["n"]]:
                counts.lost.append(f"{tool} {accepted['args']} ({call}) is ok and never happened")


def _code(events: list[Event]) -> str:
    ends = [event for event in events if event.kind in ("done", "settled")]
    if not ends:
        return "open"
    return "ok" if ends[-1].fields["ok"] else str(ends[-1].fields["failure"]["code"])


def table(killed: Counter[str], counts: Counts) -> list[str]:
    """What was killed, and what became of the calls."""
    rows: list[tuple[str, object]] = [*sorted(killed.items()), ("", "")]
    rows += [
        (name, getattr(counts, name)) for name in ("submitted", "acknowledged", "done", "unknown", "settled", "stacks")
    ]
    rows += [(f"failed: {code}", times) for code, times in sorted(counts.failed.items())]
    rows += [("lost", len(counts.lost)), ("doubled", len(counts.doubled))]
    return [f"{name:<26}{value:>8}" for name, value in rows] + [*counts.lost[:20], *counts.doubled[:20]]


async def soak(
    folder: Path, seconds: float, seed: int, rate: float, tell: Callable[[str], None]
) -> tuple[Soak, Counts]:
    """A run over servers of its own."""
    with ExitStack() as stack:
        postgres, nats = stack.enter_context(PostgresServer()), stack.enter_context(NatsServer())
        run = Soak(folder, postgres, nats, seed, rate)
        return run, await run.run(seconds, tell)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="the same seed does the same misfortunes")
    parser.add_argument("--rate", type=float, default=60.0, help="calls a second")
    parser.add_argument("--keep", action="store_true", help="keep the logs of all nodes")
    given = parser.parse_args()
    seed = random.randrange(2**31) if given.seed is None else given.seed
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-soak-"))

    def tell(text: str) -> None:
        if sys.stdout.isatty():
            sys.stdout.write(f"\r\x1b[K{text}")
            sys.stdout.flush()

    print(f"seed {seed}, {given.minutes:g} minutes, {given.rate:g} calls a second")
    run, counts = asyncio.run(soak(folder, given.minutes * 60, seed, given.rate, tell))
    tell("")
    print("\n".join(table(run.killed, counts)))
    if given.keep or not counts.good:
        print(f"the logs of all nodes are in {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(0 if counts.good else 1)


if __name__ == "__main__":
    main()

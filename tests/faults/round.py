"""One round: a new store, nodes at work on it, faults, quiet, and the check of what is left."""

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults import power
from tests.faults.check import Check, Violation
from tests.faults.faults import Faults
from tests.faults.forkserver import Child, Forkserver
from tests.faults.setup import ALONE, NEEDS_SHIM, Links, Part, Servers, Setup, new_store, with_lease
from tests.faults.shim import Page
from tests.faults.witness import Witness

SETTLE_S = 90.0
STOP_S = 40.0
BEGIN, BEGIN_S, WORK_S = 10, 30.0, 3.0
"""Effects before the first fault, how long they may take, and how long one between two faults may."""

TOGETHER = 0.3
"""How often a second node is met at the same time."""

PAUSE_S = 0.9
"""The longest time between two faults."""


@dataclass
class Member:
    """A node of a round: the process that runs now, and what stays when it is killed."""

    part: Part
    links: Links
    page: Page
    child: Child
    life: int = 0


@dataclass
class Report:
    """What became of a round."""

    setup: str
    seed: int
    number: int
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)


class Round:
    """A round of one set-up. Its seed decides the faults, their order, victims and lengths, and what clients do."""

    def __init__(self, setup: Setup, servers: Servers, forks: Forkserver, folder: Path, seed: int, number: int) -> None:
        self.setup = setup
        self.servers = servers
        self.members: list[Member] = []
        self.report = Report(setup.name, seed, number)
        self._forks = forks
        self._folder = folder
        self._chance = random.Random(f"{seed} {setup.name} {number}")
        self._full = setup.store == "sqlite" and number % 2 == 0
        self._data, self._base, self._journal = folder / "data", folder / "base", folder / "journal"
        self._begun = time.monotonic()

    @property
    def disk(self) -> tuple[Path, Path, Path]:
        """The folder of the store, its image, and the journal since then."""
        return self._data, self._base, self._journal

    async def run(self, count: int, shim: bool, tell: Callable[[str], None]) -> Report:
        """Lets so many faults happen."""
        self._data.mkdir(parents=True)
        power.begin(*self.disk)
        store = new_store(self.setup, self.servers, self._folder, full=self._full)
        try:
            await self._start(store)
            await self._strike(count, shim, tell)
            await self._settle()
            await self._stop()
        finally:
            for member in self.members:
                member.child.kill()
                await member.links.close()
        await self._check(store)
        return self.report

    # Nodes

    async def _start(self, store: str) -> None:
        for part in self.setup.parts:
            links = Links(store, self.servers)
            await links.start()
            journal = self._journal if self.setup.store == "sqlite" else None
            page = Page(self._folder / f"page-{part.label}", self._data, journal, sockets=journal is None)
            self.members.append(Member(part, links, page, self._fork(part, links, page, 1), 1))

    def _fork(self, part: Part, links: Links, page: Page, life: int) -> Child:
        config = {
            "label": part.label,
            "life": life,
            "drive": part.drives,
            "work": part.works,
            "folder": str(self._folder),
            "seed": self.report.seed,
            "kinds": self.setup.kinds,
            "shim": page.config,
            **links.config,
        }
        return self._forks.start(config, self._folder / f"{part.label}.log")

    def _mend(self) -> None:
        """Starts those again that have ended, as a supervisor does."""
        for member in self.members:
            if not member.child.lives:
                member.life += 1
                member.child = self._fork(member.part, member.links, member.page, member.life)

    async def ended(self, member: Member, seconds: float) -> bool:
        """Waits for the end of a node; whether it came."""
        deadline = time.monotonic() + seconds
        while member.child.lives and time.monotonic() < deadline:  # noqa: ASYNC110 - it tells nobody of its end
            await asyncio.sleep(0.01)
        return not member.child.lives

    # Faults

    async def _strike(self, count: int, shim: bool, tell: Callable[[str], None]) -> None:
        faults = Faults(self, self._chance)
        weights = {kind: one for kind, one in self.setup.faults.items() if shim or kind not in NEEDS_SHIM}
        seen = await self._work(0, BEGIN, BEGIN_S)
        for number in range(1, count + 1):
            seen = await self._work(seen, 1, WORK_S)
            await asyncio.sleep(self._chance.uniform(0.05, PAUSE_S))
            self._mend()
            struck = self._choose(weights)
            at = time.monotonic() - self._begun
            happened = await asyncio.gather(*(faults.strike(kind, victim) for kind, victim in struck))
            for (kind, victim), real in zip(struck, happened, strict=True):
                self.report.faults[kind] += real
                self.report.log.append(f"{at:6.2f} s  fault {number}: {kind}, node {victim.part.label}")
                tell(kind)
            self._mend()

    async def _work(self, seen: int, more: int, seconds: float) -> int:
        """Waits for so many more effects, so that faults meet nodes at work; how many there are now."""
        witness, deadline = Witness(self._folder), time.monotonic() + seconds
        while (count := witness.count()) < seen + more and time.monotonic() < deadline:
            self._mend()
            await asyncio.sleep(0.02)
        return count

    def _choose(self, weights: dict[str, int]) -> list[tuple[str, Member]]:
        """One fault, or two that meet two nodes at once."""
        victims = self._chance.sample(self.members, k=min(2, len(self.members)))
        kinds = self._chance.choices(list(weights), list(weights.values()), k=2)
        together = self._chance.random() < TOGETHER and not any(kind in ALONE for kind in kinds)
        return list(zip(kinds, victims, strict=False))[: 2 if together else 1]

    # Quiet

    async def _settle(self) -> None:
        for member in self.members:
            member.page.reset()
        await asyncio.to_thread(self.servers.up)
        since = time.monotonic()
        (self._folder / "quiet").touch()
        left: list[str] = ["nobody has told anything"]
        while left and time.monotonic() < since + SETTLE_S:
            await asyncio.sleep(0.2)
            self._mend()
            left = self._left(since + 0.5)
        self.report.counts["settle_ms"] += int(1000 * (time.monotonic() - since))
        self.report.violations += [Violation("stuck", one) for one in left]

    def _left(self, since: float) -> list[str]:
        """What has not ended, as the nodes tell."""
        left: list[str] = []
        for member in self.members:
            path = self._folder / f"status-{member.part.label}.json"
            status: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"at": 0.0}
            if status["at"] < since:
                left.append(f"node {member.part.label} says nothing")
                continue
            left += [f"a client of {status['life']} waits for {kind} {n}" for n, kind in status["busy"].items()]
            left += [f"call {' '.join(map(str, row))} is open" for row in status["open"]]
            left += [f"run or message {one} has not ended" for one in status["runs"]]
        return list(dict.fromkeys(left))

    async def _stop(self) -> None:
        (self._folder / "stop").touch()
        for member in self.members:
            if not await self.ended(member, STOP_S):
                member.child.send(signal.SIGUSR1)  # its log has what it waits for
                await self.ended(member, 1.0)
                self.report.violations.append(Violation("stuck", f"node {member.part.label} does not stop"))

    async def _check(self, store: str) -> None:
        durable = self._full or not self.report.faults["power cut"]
        url = with_lease(store) if self.setup.store == "postgres" else store
        check = Check(self._folder, url, durable=durable)
        self.report.violations += await check.run()
        self.report.counts.update(check.counts)

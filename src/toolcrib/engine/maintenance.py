"""What a node looks after, again and again: hints that were lost, workers that died, questions and sessions whose time
is up. Several nodes may do it at once; the store lets each change happen once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from typing import TYPE_CHECKING

from toolcrib.engine.worker import LATER_S
from toolcrib.store import INFINITE
from toolcrib.store.shared import SharedStore

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort
    from toolcrib.engine.nats import Nats

log = logging.getLogger("toolcrib.engine")

TELL_S = 1.0
EVERY = 3
"""What others see of this node is renewed each second; every third time the rest is looked after."""

QUEUED_S = 15.0
"""A call that is queued for longer may have lost its hint."""


class Maintenance:
    """One of the looks of `crib.rescue` in every node."""

    def __init__(self, crib: CribPort, store: SharedStore, engine: Nats) -> None:
        self._crib = crib
        self._store = store
        self._engine = engine
        self._warned: set[str] = set()
        self._settled: set[str] = set()
        self._news: tuple[set[str], float] = (set(), INFINITE)
        self._numbers = itertools.count(random.randrange(EVERY))
        crib.rescue.add(self._look, TELL_S)

    async def _look(self) -> float:
        self._engine.tell()
        if next(self._numbers) % EVERY == 0:
            await self._look_after_all()
        return TELL_S * random.uniform(0.75, 1.25)

    async def _look_after_all(self) -> None:
        for lane in self._engine.lanes.values():
            if lane.silent():
                await self._engine.renew()
                break
        await self._say_again()
        await self._crib._expire()
        await self._crib._sweep_sometimes()
        self._report()

    async def _say_again(self) -> None:
        """Calls of dead workers, and those that are queued for too long, if there is a worker that has their tool.

        While this node has tools that others may not know of yet, whatever is queued may have waited for them.
        """
        nodes = await self._store.nodes()
        self._engine.share(nodes)
        self._engine.reach(nodes)
        known = {node.name: set(node.facts.get("tools") or ()) for node in nodes if node.alive}
        own = set(self._store.facts.get("tools") or ())
        self._settled &= own
        news, calm = own - self._settled, self._store.calm
        for row in await self._store.stale(0.0 if news else QUEUED_S, tools=sorted(own.union(*known.values()))):
            self._engine.dispatch(row, "-again")
        self._settle(news, calm and news <= known.get(self._crib.pipeline.worker, set()))

    def _settle(self, news: set[str], announced: bool) -> None:
        """Takes new tools for known once every other node must have heard of them: one looks no more often than so."""
        now = asyncio.get_running_loop().time()
        since = self._news[1] if news == self._news[0] else INFINITE
        if announced and now - since > LATER_S:
            self._settled |= news
        self._news = (news, min(since, now) if announced else INFINITE)

    def _report(self) -> None:
        """Tools that calls wait for and that this worker lacks, once each."""
        for tool in self._engine.missing - self._warned:
            log.warning("calls of %s wait for a worker that has it: this one does not", tool)
        self._warned = set(self._engine.missing)

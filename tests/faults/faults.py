"""The faults: each meets one node, or what nodes share, and is over when this returns."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.cluster.place import halt
from tests.faults import power
from tests.faults.setup import LEASE_S, kill_server
from tests.faults.shim import CLOCK_NS, FULL, KILL_AT

if TYPE_CHECKING:
    from tests.faults.round import Member, Round

WRITES = 80
"""A kill at a write comes within so many of them."""

WRITES_S = 5.0
HOUR_S = 3600


class Faults:
    """What may go wrong in a round."""

    def __init__(self, round: "Round", chance: random.Random) -> None:
        self._round = round
        self._chance = chance
        self._kinds: dict[str, Callable[[Member], Awaitable[bool]]] = {
            "kill": self._kill,
            "pause": self._pause,
            "kill at a write": self._kill_at_a_write,
            "clock jump": self._jump,
            "disk full": self._fill,
            "power cut": self._cut_power,
            "postgres killed": self._kill_postgres,
            "postgres paused": self._pause_postgres,
            "postgres halted": self._halt_postgres,
            "nats killed": self._kill_nats,
        }

    async def strike(self, kind: str, victim: "Member") -> bool:
        """Lets it happen; whether it did."""
        server, _, what = kind.partition(" ")
        if kind in self._kinds:
            return await self._kinds[kind](victim)
        return await (self._cut if what == "cut" else self._mute)(victim, server)

    async def _kill(self, victim: "Member") -> bool:
        victim.child.kill()
        return True

    async def _pause(self, victim: "Member") -> bool:
        longest = 1.7 * LEASE_S if self._round.setup.store == "postgres" else 2.0
        seconds = self._chance.uniform(0.1, longest)
        victim.child.halt()
        await asyncio.sleep(seconds)
        victim.child.go_on()
        return True

    async def _kill_at_a_write(self, victim: "Member") -> bool:
        victim.page[KILL_AT] = self._chance.randint(1, WRITES)
        died = await self._round.ended(victim, WRITES_S)
        victim.page[KILL_AT] = 0
        return died

    async def _jump(self, victim: "Member") -> bool:
        victim.page[CLOCK_NS] = int(self._chance.uniform(-2, 2) * HOUR_S * 1e9)
        return True

    async def _fill(self, victim: "Member") -> bool:
        for member in self._round.members:
            member.page[FULL] = 1
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        for member in self._round.members:
            member.page[FULL] = 0
        return True

    async def _cut_power(self, victim: "Member") -> bool:
        for member in self._round.members:
            member.child.halt()  # all at the same moment
        for member in self._round.members:
            member.child.kill()
        await asyncio.to_thread(power.cut, *self._round.disk, self._chance)
        return True

    async def _cut(self, victim: "Member", server: str) -> bool:
        proxy, refuse = victim.links.proxies[server], self._chance.random() < 0.5
        proxy.cut(refuse=refuse)
        if refuse:
            await asyncio.sleep(self._chance.uniform(0.1, 1.5 * LEASE_S))
        proxy.mend()
        return True

    async def _mute(self, victim: "Member", server: str) -> bool:
        proxy = victim.links.proxies[server]
        proxy.swallow()
        await asyncio.sleep(self._chance.uniform(0.1, 1.7 * LEASE_S))
        if self._chance.random() < 0.5:
            proxy.cut()
        proxy.mend()
        return True

    async def _kill_postgres(self, victim: "Member") -> bool:
        assert self._round.servers.postgres is not None
        await kill_server(self._round.servers.postgres, self._chance.uniform(0, 1))
        return True

    async def _pause_postgres(self, victim: "Member") -> bool:
        assert self._round.servers.postgres is not None
        await halt(self._round.servers.postgres, self._chance.uniform(0.1, 1.7 * LEASE_S))
        return True

    async def _halt_postgres(self, victim: "Member") -> bool:
        """For longer than callers wait, so that they are refused."""
        assert self._round.servers.postgres is not None
        await halt(self._round.servers.postgres, self._chance.uniform(5.5, 9))
        return True

    async def _kill_nats(self, victim: "Member") -> bool:
        assert self._round.servers.nats is not None
        await kill_server(self._round.servers.nats, self._chance.uniform(0, 1))
        return True

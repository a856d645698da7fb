"""What a server is given to do: clients that call, readers that follow them, and readers that never read."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import httpx

from tests.soak.place import Follower, Served

CALLS = 60
"""Calls of a client in one session; then it takes the next, and its readers follow."""

PAUSE_S = 0.2
STAY_S = (15.0, 60.0)
"""How long one who never reads stays, at least and at most: some are cut off before, and come back then."""

QUIET_S = 30.0
"""How long a reader waits before it looks whether its client has gone on."""

SIZES = [50] * 60 + [2_000] * 25 + [20_000] * 8 + [100_000] * 5 + [900_000] * 2


@dataclass
class Counts:
    """What has happened so far."""

    calls: int = 0
    bytes: int = 0
    sessions: int = 0
    returns: int = 0
    failed: list[str] = field(default_factory=list)


class Load:
    """All clients and readers of one run."""

    def __init__(self, server: Served, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._sessions: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.counts = Counts()

    async def start(self, clients: int, readers: int, unread: int) -> None:
        """Begins with all of them; returns when they are there."""
        self._sessions = [f"client-{number}-0" for number in range(clients)]
        for session in self._sessions:
            await self._server.open(session)
        work = [
            *(self._call(number) for number in range(clients)),
            *(self._read(number % clients) for number in range(readers)),
            *(self._stall(number % clients) for number in range(unread)),
        ]
        self._tasks = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """Ends all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def broken(self) -> str | None:
        """Why one of them has ended, if one has."""
        errors = (task.exception() for task in self._tasks if task.done() and not task.cancelled())
        return next((repr(error) for error in errors if error is not None), None)

    async def _call(self, number: int) -> None:
        round = 0
        while True:
            session = self._sessions[number]
            for _ in range(CALLS):
                await self._once(session)
                await asyncio.sleep(PAUSE_S * self._chance.uniform(0.5, 1.5))
            round += 1
            await self._server.open(f"client-{number}-{round}")
            self._sessions[number] = f"client-{number}-{round}"
            self.counts.sessions += 1
            await self._server.http.post(f"/v1/sessions/{session}/close", json={"timeout": 5})

    async def _once(self, session: str) -> None:
        size = self._chance.choice(SIZES)
        try:
            if self._chance.random() < 0.02:
                await self._server.call(session, tool="pieces", size=min(size, 20_000), count=50)
            elif len(await self._server.call(session, size=size)) != size:
                self.counts.failed.append(f"a result of {size} bytes was cut")
        except (httpx.HTTPError, KeyError) as error:
            self.counts.failed.append(repr(error))
        self.counts.calls += 1

    async def _read(self, number: int) -> None:
        """Follows the sessions of a client, one after the other, each from its beginning."""
        while True:
            session = self._sessions[number]
            follower = await self._server.follow(session, buffer=None)
            try:
                while session == self._sessions[number] and (piece := await self._some(follower)) is not None:
                    self.counts.bytes += len(piece)
            finally:
                follower.close()
            self.counts.returns += 1

    async def _some(self, follower: Follower) -> bytes | None:
        """What comes next, nothing where it is quiet, and None at the end."""
        try:
            async with asyncio.timeout(QUIET_S):
                return await follower.read() or None
        except TimeoutError:
            return b""

    async def _stall(self, number: int) -> None:
        """Asks for streams and never reads them."""
        while True:
            follower = await self._server.follow(self._sessions[number])
            try:
                await asyncio.sleep(self._chance.uniform(*STAY_S))
            finally:
                follower.close()

"""The four set-ups: which nodes there are, what they share, and which faults can meet them."""

import asyncio
import secrets
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.faults.proxy import Proxy
from toolcrib.testing.services import NatsServer, PostgresServer, Service

LEASE_S = 2.0
CALLS = ["charge", "mail", "index", "peek", "order", "ship", "greet", "chore", "tally", "mark", "cancel", "logout"]
ANYWHERE = {"kill": 8, "pause": 5, "kill at a write": 6, "clock jump": 2}
ON_A_FILE = ANYWHERE | {"disk full": 3, "power cut": 4}
ON_POSTGRES = ANYWHERE | {
    "postgres cut": 4,
    "postgres mute": 3,
    "postgres killed": 2,
    "postgres paused": 2,
    "postgres halted": 1,
}
ON_NATS = {"nats cut": 3, "nats mute": 2, "nats killed": 2}


@dataclass(frozen=True)
class Part:
    """One node: what it is called, and whether it drives the workload and runs calls."""

    label: str
    drives: bool = True
    works: bool = True


@dataclass(frozen=True)
class Setup:
    """One way to run Toolcrib."""

    name: str
    parts: tuple[Part, ...]
    faults: dict[str, int]
    store: str = "sqlite"
    engine: bool = False
    kinds: tuple[str, ...] = (*CALLS, "send")

    def but(self, without: Collection[str]) -> "Setup":
        """The same without some kinds of faults or uses."""
        faults = {kind: weight for kind, weight in self.faults.items() if kind not in without}
        return replace(self, faults=faults, kinds=tuple(kind for kind in self.kinds if kind not in without))


SETUPS = {
    one.name: one
    for one in (
        Setup("sqlite", (Part("a"),), ON_A_FILE),
        Setup("sqlite-two", (Part("a"), Part("b")), ON_A_FILE),
        Setup("postgres", (Part("a"), Part("b")), ON_POSTGRES, "postgres"),
        Setup(
            "cluster",
            (Part("api", works=False), Part("api2", works=False), Part("w1", drives=False), Part("w2", drives=False)),
            ON_POSTGRES | ON_NATS,
            "postgres",
            engine=True,
        ),
    )
}
ALONE = ("disk full", "power cut", "postgres killed", "postgres paused", "postgres halted", "nats killed")
"""Faults that meet all nodes, and come one at a time."""

NEEDS_SHIM = ("kill at a write", "disk full", "clock jump", "power cut")


class Servers:
    """The servers of a set-up, which live for all of its rounds."""

    def __init__(self, setup: Setup) -> None:
        self._stack = ExitStack()
        self.postgres = self._stack.enter_context(PostgresServer()) if setup.store == "postgres" else None
        self.nats = self._stack.enter_context(NatsServer()) if setup.engine else None

    def close(self) -> None:
        """Stops them."""
        self._stack.close()

    def up(self) -> None:
        """Starts those that are down."""
        for server in (self.postgres, self.nats):
            if server is not None:
                server.start()


class Links:
    """How one node reaches what it shares with others: by way of proxies, where that is a server."""

    def __init__(self, store: str, servers: Servers) -> None:
        self.proxies: dict[str, Proxy] = {}
        self._store = store
        if servers.postgres is not None:
            self.proxies["postgres"] = Proxy(store)
        if servers.nats is not None:
            self.proxies["nats"] = Proxy(servers.nats.url)

    async def start(self) -> None:
        """Opens the proxies."""
        for proxy in self.proxies.values():
            await proxy.start()

    async def close(self) -> None:
        """Closes them."""
        for proxy in self.proxies.values():
            await proxy.close()

    @property
    def config(self) -> dict[str, Any]:
        """What the node is told of it."""
        store, engine = self._store, ""
        if "postgres" in self.proxies:
            store = with_lease(self.proxies["postgres"].url)
        if "nats" in self.proxies:
            engine = self.proxies["nats"].url
        return {"store": store, "engine": engine, "lease": LEASE_S}


def with_lease(url: str) -> str:
    """A store whose leases are short, so that many can end within a round."""
    return f"{url}?lease={LEASE_S:g}"


def new_store(setup: Setup, servers: Servers, folder: Path, *, full: bool) -> str:
    """An empty store."""
    if servers.postgres is not None:
        return servers.postgres.create_database(f"faults_{secrets.token_hex(6)}")
    return f"sqlite:///{folder}/data/log.db{'?sync=full' if full else ''}"


async def kill_server(server: Service, seconds: float) -> None:
    """Kills a server, and starts it again over its data after a while."""
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(server.start)

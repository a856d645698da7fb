"""What a cluster does now, as the store knows it: its nodes, what is queued, and how fast calls end."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from toolcrib.cli.display.event_lines import clock, span
from toolcrib.cli.terminal import Cell, CommandError, styled

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolcrib.cli.cluster_processes import ChildProcess
    from toolcrib.store.shared import Node, SharedStore

WINDOW_S = 15.0
SAME_S = 0.2
"""Heartbeats so close together are one, looked at twice."""

AWAY_S = 3.0
STATES = ("queued", "running", "waiting")
LANES = 15
"""So many lanes are drawn, the busiest first."""

_LOOKS = {"alive": "green", "starting": "yellow", "dead": "bold red", "away": "bold red"}
_PORTS = {"postgresql": 5432, "postgres": 5432, "nats": 4222, "tls": 4222}
NODE_COLUMNS = ("Node", "Role", "Pid", "State", "Heard", "Slots", "Running", "Done")
LANE_COLUMNS = ("Lane", "Tool", "Queued", "Running", "Waiting")
WATCHER = "watch"
"""The role of whoever only looks."""


class ClusterView(NamedTuple):
    """A cluster at one moment. `rate` is calls a second, and None until it is known."""

    at: float
    nodes: list[dict[str, Any]]
    lanes: list[dict[str, Any]]
    rate: float | None
    problem: str | None = None

    def total(self, state: str) -> int:
        """How many calls are queued, running or waiting."""
        return sum(lane[state] for lane in self.lanes)

    def line(self) -> str:
        """The cluster in a line."""
        if self.problem is not None:
            return f"{clock(self.at)}  {self.problem}"
        return f"{clock(self.at)}  {self.summary()}"

    def summary(self) -> str:
        """The cluster in numbers."""
        alive = sum(node["state"] == "alive" for node in self.nodes)
        calls = "  ".join(f"{self.total(state)} {state}" for state in STATES)
        rate = "" if self.rate is None else f"  {self.rate:.1f} calls/s"
        return f"{alive} of {len(self.nodes)} alive  {calls}{rate}"

    def node_rows(self) -> list[Sequence[Cell]]:
        """The nodes as rows of a table."""
        return [_node_row(node) for node in self.nodes]

    def lane_rows(self) -> list[Sequence[Cell]]:
        """The lanes as rows of a table."""
        return [(lane["lane"], lane["tool"], *(str(lane[state]) for state in STATES)) for lane in self.lanes[:LANES]]

    def drawn(self) -> RenderableType:
        """The cluster as tables."""
        from rich.console import Group

        head = styled(self.problem, "bold red") if self.problem is not None else styled(self.summary(), "bold")
        parts = [head, _table(NODE_COLUMNS, self.node_rows())]
        return Group(*parts, *([_table(LANE_COLUMNS, self.lane_rows())] if self.lanes else []))


class Rate:
    """How many calls end a second: for each node between its first and its last heartbeat of the last few seconds."""

    def __init__(self) -> None:
        self._beats: dict[str, deque[tuple[float, int]]] = {}

    def take(self, nodes: Iterable[Node], now: float) -> float | None:
        """Takes what the nodes have done until now; None as long as no node was heard of twice."""
        for node in nodes:
            beats = self._beats.setdefault(node.name, deque())
            at, done = now - node.age, int(node.facts.get("done") or 0)
            if not beats or at > beats[-1][0] + SAME_S:
                beats.append((at, done))
        for beats in self._beats.values():
            while beats and beats[0][0] < now - WINDOW_S:
                beats.popleft()
        heard = [beats for beats in self._beats.values() if len(beats) > 1]
        rates = [(beats[-1][1] - beats[0][1]) / (beats[-1][0] - beats[0][0]) for beats in heard]
        return sum(rates) if rates else None


class ClusterMonitor:
    """Looks at a cluster through its store, again and again."""

    def __init__(
        self,
        store: SharedStore,
        services: dict[str, str],
        lane_of: Callable[[str], str],
        children: Sequence[ChildProcess] = (),
    ) -> None:
        self._store = store
        self._services = services
        self._lane_of = lane_of
        self._children = {child.label: child for child in children}
        self._rate = Rate()
        self._last = ClusterView(0.0, [], [], None)

    async def look(self) -> ClusterView:
        """Return the cluster now; while the store is away, its last known state and the problem."""
        from toolcrib.errors import StoreError

        services = await asyncio.gather(*(self._service(name, url) for name, url in self._services.items()))
        problem = None
        try:
            async with asyncio.timeout(AWAY_S):
                nodes, counts = await asyncio.gather(self._store.nodes(), self._store.counts())
            known = [_facts(node) for node in nodes if node.facts.get("role") not in (None, WATCHER)]
            rate, lanes = self._rate.take(nodes, time.monotonic()), self._lanes(counts)
        except (StoreError, TimeoutError) as error:
            problem = f"The store is away: {error}" if str(error) else "The store is away"
            known = [node for node in self._last.nodes if "name" in node]
            rate, lanes = None, self._last.lanes
        self._last = ClusterView(time.time(), [*services, *self._nodes(known)], lanes, rate, problem)
        return self._last

    async def _service(self, label: str, url: str) -> dict[str, Any]:
        """A service counts as alive when it takes connections, whoever started it."""
        role, child = ("store" if label == "postgres" else "engine"), self._children.get(label)
        alive = await _reached(url)
        return {"label": label, "role": role, "pid": child and child.pid, "state": "alive" if alive else "away"}

    def _nodes(self, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the nodes of the store; the death of those that we started is known at once."""
        for node in known:
            child = self._children.get(node["label"])
            if child is not None and child.pid != node["pid"]:
                node["state"] = "dead"
        heard = {node["pid"] for node in known}
        rest = [
            {"label": child.label, "role": child.role, "pid": child.pid, "state": "starting" if child.pid else "dead"}
            for child in self._children.values()
            if child.label not in self._services and child.pid not in heard
        ]
        nodes = [*known, *(node for node in rest if node["state"] == "starting" or node["label"] not in _labels(known))]
        return sorted(nodes, key=lambda node: (node["role"], node["label"], node["state"]))

    def _lanes(self, counts: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
        lanes = [
            {"lane": self._lane_of(tool), "tool": tool, **{state: of.get(state, 0) for state in STATES}}
            for tool, of in counts.items()
        ]
        return sorted(lanes, key=lambda lane: (-sum(lane[state] for state in STATES), lane["tool"]))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[SharedStore]:
    """The store of a cluster, for somebody who only looks.

    Raises:
        CommandError: machines do not share such a store.
    """
    from toolcrib.store import open_store
    from toolcrib.store.shared import SharedStore

    store = open_store(url)
    if not isinstance(store, SharedStore):
        scheme = url.partition(":")[0]
        raise CommandError(f"A cluster has a store that machines share, not {scheme}:", "use --store postgresql://...")
    store.facts.update(label="cluster", role=WATCHER)
    await store.start(f"watch-{secrets.token_hex(8)}")
    try:
        yield store
    finally:
        await store.close()


async def _reached(url: str) -> bool:
    parts = urlsplit(url.partition(",")[0])
    try:
        async with asyncio.timeout(AWAY_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or _PORTS.get(parts.scheme))
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):
        return False
    return True


def _facts(node: Node) -> dict[str, Any]:
    facts = {
        key: node.facts.get(key) for key in ("label", "role", "host", "pid", "slots", "running", "done", "version")
    }
    return {"name": node.name, **facts, "state": "alive" if node.alive else "dead", "age": round(node.age, 3)}


def _labels(nodes: Iterable[dict[str, Any]]) -> set[str]:
    return {node["label"] for node in nodes}


def _node_row(node: dict[str, Any]) -> Sequence[Cell]:
    heard = f"{span(node['age'])} ago" if "age" in node else ""
    numbers = (str(node.get(key)) if node.get(key) is not None else "" for key in ("slots", "running", "done"))
    state = (node["state"], _LOOKS[node["state"]])
    return (str(node["label"]), str(node["role"]), str(node["pid"] or ""), state, heard, *numbers)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in ("Slots", "Running", "Done", "Queued", "Waiting") else "left")
    for row in rows:
        table.add_row(*(styled(*((cell,) if isinstance(cell, str) else cell)) for cell in row))
    return table

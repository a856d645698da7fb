"""Looking after a crib: numbers, and the cluster. Everybody sees what is theirs."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.pages import owner_of
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.statistics import Counts, counted, ended
from toolcrib.serve.api.tools import open_tools
from toolcrib.serve.api.watcher import used_since
from toolcrib.serve.findings import review_server
from toolcrib.store.shared import SharedStore

DAY_S = 86400.0

# Numbers


class StatsQuery(Struct, forbid_unknown_fields=True):
    """Of the last `seconds`, in so many steps."""

    seconds: Annotated[float, Meta(ge=1, le=30 * DAY_S)] = 3600.0
    points: Annotated[int, Meta(ge=1, le=500)] = 60


class Stats(Struct):
    """What happens now, and what happened lately."""

    sessions: int
    waiting: int
    running: int
    queued: int
    recent: Counts


async def stats(request: ApiRequest) -> ApiReply:
    """Numbers for small plots."""
    crib, query, rooms = request.api.crib, request.query, request.api.rooms
    now = crib.pipeline.clock.now()
    recent = counted(await ended(request, now - query.seconds), now, query.points)
    rows = await used_since(crib, 0.0, owner_of(request))
    sessions = {row.id for row in rows if await rooms.sees(row, request.principal)}
    open_calls = await crib.store.calls(None, ("waiting", "running", "queued"), limit=100_000)
    states = Counter(row.state for row in open_calls if row.session in sessions)
    return json_reply(Stats(len(sessions), states["waiting"], states["running"], states["queued"], recent))


async def tool_stats(request: ApiRequest) -> ApiReply:
    """The numbers of one tool."""
    crib, query, id = request.api.crib, request.query, request.path[0]
    if all(tool.id != id for tool in open_tools(request)):
        raise missing("tool")
    now = crib.pipeline.clock.now()
    return json_reply(counted(await ended(request, now - query.seconds, id), now, query.points))


# The cluster


class NodeForm(Struct, omit_defaults=True):
    """A process of the cluster, as its last heartbeat told it."""

    name: str
    state: Literal["alive", "dead"]
    age: float
    started_at: float
    facts: dict[str, Any]


class LaneForm(Struct):
    """The queue of a tool, or of all that have none of their own."""

    lane: str
    tool: str
    queued: int
    running: int
    waiting: int


class Cluster(Struct):
    """The nodes and what they have to do; both are empty where one process does all."""

    nodes: list[NodeForm]
    lanes: list[LaneForm]


async def cluster(request: ApiRequest) -> ApiReply:
    """The cluster now."""
    crib = request.api.crib
    store = crib.store
    if not isinstance(store, SharedStore):
        return json_reply(Cluster([], []))
    from toolcrib.engine.lanes import lane_of

    nodes = [
        NodeForm(node.name, "alive" if node.alive else "dead", round(node.age, 3), node.started_at, node.facts)
        for node in await store.nodes()
    ]
    lanes = [
        LaneForm(
            lane_of(crib.catalog.get(tool)), tool, *(of.get(state, 0) for state in ("queued", "running", "waiting"))
        )
        for tool, of in sorted((await store.counts()).items())
    ]
    return json_reply(Cluster(nodes, lanes))


# What does nothing


class FindingForm(Struct, omit_defaults=True):
    """Something that was written and does nothing, or not what it looks like."""

    code: str
    severity: Literal["error", "warning", "info"]
    message: str
    about: str
    file: str | None = None
    line: int | None = None
    nearest: str | None = None


class FindingList(Struct):
    """All findings: errors first, then by file and line."""

    items: list[FindingForm]


async def findings(request: ApiRequest) -> ApiReply:
    """What in the policy, the files, the agents, the keys and the settings is about nothing."""
    reviewed = await review_server(request.api)
    return json_reply(FindingList([FindingForm(**one.data()) for one in reviewed]))


ROUTES = [
    Route("GET", "/v1/stats", stats, "Numbers for small plots.", query=StatsQuery, gives={200: Stats}),
    Route(
        "GET",
        "/v1/tools/{tool}/stats",
        tool_stats,
        "How a tool was used lately: calls, failures, times, and the last calls.",
        query=StatsQuery,
        gives={200: Counts},
    ),
    Route(
        "GET",
        "/v1/findings",
        findings,
        "What in the policy, definition files, agents, keys and settings does nothing, or not what it looks like.",
        "admin",
        gives={200: FindingList},
    ),
    Route("GET", "/v1/cluster", cluster, "The nodes of a cluster and their queues.", "admin", gives={200: Cluster}),
]

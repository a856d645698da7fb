"""Looking after a crib: the cluster, and what does nothing."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.findings import review_server
from toolcrib.store.shared import SharedStore

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

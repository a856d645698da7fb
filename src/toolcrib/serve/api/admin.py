"""Looking after a crib: calls of all sessions, numbers, and the cluster. Everybody sees what is theirs."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from toolcrib.serve.api import forms
from toolcrib.serve.api.audit import Moment, owner_of
from toolcrib.serve.api.counting import Counts, counted, ended
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.listing import fits, states_of
from toolcrib.serve.api.paging import Limit, Name, Text, paged, place, read_place
from toolcrib.serve.api.request import Request, given
from toolcrib.serve.api.routing import Reply, Route
from toolcrib.serve.api.tools import open_tools
from toolcrib.serve.api.watching import used_since
from toolcrib.store import Row, SessionRow
from toolcrib.types import Status

DAY_S = 86400.0
SLACK_S = 5.0  # the time of a session's last use may be a little behind
MOST_LOOKED = 1000
"""So many sessions are looked at for a page; the audit has all of it."""


# Calls


class AllCalls(Struct, forbid_unknown_fields=True):
    """Which calls; of those that are done, those of sessions that were used since, a day unless said."""

    state: Status | None = None
    tool: Name | None = None
    owner: Name | None = None
    since: Moment | None = None
    after: Text | None = None
    limit: Limit = 100


async def calls(asked: Request) -> Reply:
    """Calls of all sessions, the newest first."""
    query, crib = asked.query, asked.api.crib
    owner = owner_of(asked, query.owner)
    if query.owner not in (None, owner):
        return paged([])
    await crib.store.flush()
    after = read_place(query.after, tuple[float, str])
    since = crib.pipeline.clock.now() - DAY_S if query.since is None else query.since
    wanted = await _newest(asked, owner, since, after)
    page = wanted[: query.limit]
    entries = [await _entry(asked, row, where) for row, where in page]
    next = place(page[-1][0].accepted_at, page[-1][0].id) if len(wanted) > len(page) else None
    return paged(entries, next)


async def _newest(
    asked: Request, owner: str | None, since: float, after: tuple[float, str] | None
) -> list[tuple[Row, SessionRow]]:
    """A page of calls, and one more. No call is newer than the last use of its session, so older ones need no look."""
    crib, query, found, looked = asked.api.crib, asked.query, list[tuple[Row, SessionRow]](), 0
    for session in await used_since(crib, since - SLACK_S, owner):
        full = len(found) > query.limit
        if looked >= MOST_LOOKED or (full and session.updated_at + SLACK_S < found[query.limit][0].accepted_at):
            break
        if session.seq < 2:  # nothing was called in it
            continue
        looked += 1
        rows = await crib.store.calls(session.id, states_of(query.state), limit=10_000)
        found += [
            (row, session)
            for row in rows
            if fits(row, query) and row.accepted_at >= since and (after is None or (row.accepted_at, row.id) < after)
        ]
        found.sort(key=lambda one: (one[0].accepted_at, one[0].id), reverse=True)
        del found[query.limit + 1 :]
    return found


async def _entry(asked: Request, row: Row, where: SessionRow) -> forms.EntryForm:
    session = await asked.api.crib.attach(where)
    return forms.entry((await session.history(row)).entry(), session=where.id, owner=where.owner)


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


async def stats(asked: Request) -> Reply:
    """Numbers for small plots."""
    crib, query, owner = asked.api.crib, asked.query, owner_of(asked)
    now = crib.pipeline.clock.now()
    recent = counted(await ended(crib, owner, now - query.seconds), now - query.seconds, now, query.points)
    sessions = {row.id for row in await used_since(crib, 0.0, owner)}
    open_calls = await crib.store.calls(None, ("waiting", "running", "queued"), limit=100_000)
    states = Counter(row.state for row in open_calls if row.session in sessions)
    return given(Stats(len(sessions), states["waiting"], states["running"], states["queued"], recent))


async def tool_stats(asked: Request) -> Reply:
    """The numbers of one tool."""
    crib, query, id = asked.api.crib, asked.query, asked.path[0]
    if all(tool.id != id for tool in open_tools(asked)):
        raise missing("tool")
    now = crib.pipeline.clock.now()
    calls = await ended(crib, owner_of(asked), now - query.seconds, id)
    return given(counted(calls, now - query.seconds, now, query.points))


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


async def cluster(asked: Request) -> Reply:
    """The cluster now."""
    crib = asked.api.crib
    store: Any = crib.store
    if not hasattr(store, "nodes"):
        return given(Cluster([], []))
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
    return given(Cluster(nodes, lanes))


ROUTES = [
    Route(
        "GET",
        "/v1/calls",
        calls,
        "Calls of the 1,000 sessions used last that you may see, the newest first.",
        query=AllCalls,
        gives={200: forms.Entries},
    ),
    Route("GET", "/v1/stats", stats, "Numbers for small plots.", query=StatsQuery, gives={200: Stats}),
    Route(
        "GET",
        "/v1/tools/{tool}/stats",
        tool_stats,
        "How a tool was used lately: calls, failures, times, and the last calls.",
        query=StatsQuery,
        gives={200: Counts},
    ),
    Route("GET", "/v1/cluster", cluster, "The nodes of a cluster and their queues.", "admin", gives={200: Cluster}),
]

"""Numbers for everybody: what happened lately, step by step and by name, and what happens now."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolcrib._session.statistics import (
    LONGEST_S,
    SPANS,
    CountedStats,
    GroupBy,
    StatsFilter,
    statistics,
    tools_without_source,
)
from toolcrib.events import Done
from toolcrib.serve.api.call_list import stories
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.pages import Moment, Name, NameOrNone, owner_of
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.session_cache import bounds
from toolcrib.serve.api.tools import open_tools, sources_of
from toolcrib.serve.api.watcher import used_since
from toolcrib.store import OWNER, WalkFilter
from toolcrib.store.rollups import MINUTES_KEPT_S

LAST = 20


class LastCall(Struct, omit_defaults=True):
    """A call that ended lately."""

    session: str
    call: str
    tool: str
    at: float
    outcome: str
    duration_ms: float


class StatsQuery(Struct, forbid_unknown_fields=True):
    """Of the last hour, day or week, or of the `seconds` before now, or of a time; by what, and of what alone.

    An empty `agent` stands for calls that no agent made, an empty `source` for tools that no source has now. Of a time
    that is longer than a year the last year is told, as `since` of the answer says.
    """

    range: Literal["hour", "day", "week"] = "day"
    seconds: Annotated[float, Meta(ge=1, le=LONGEST_S)] | None = None
    since: Moment | None = None
    until: Moment | None = None
    by: GroupBy = "tool"
    owner: Name | None = None
    agent: NameOrNone | None = None
    tool: Name | None = None
    source: NameOrNone | None = None
    code: Name | None = None


class OpenNow(Struct):
    """What is open now: calls by their state, and sessions and streams of this server."""

    waiting: int
    queued: int
    running: int
    sessions: int
    streams: int


class Stats(CountedStats, kw_only=True):
    """What happened lately, and what is open now."""

    now: OpenNow


class ToolStats(CountedStats, kw_only=True):
    """How a tool was used lately, with its last calls."""

    last: list[LastCall]


def stats_filter(request: ApiRequest, query: StatsQuery) -> StatsFilter:
    """What somebody may see of what was asked for: their own, and of a narrow key what it opens."""
    now = request.api.crib.pipeline.clock.now()
    until = now if query.until is None else math.nextafter(query.until, 0)
    span = SPANS[query.range] if query.seconds is None else query.seconds
    since = until - span if query.since is None else query.since
    tools = None if query.tool is None else {query.tool}
    if query.source:
        of_source = {tool for tool, source in sources_of(request).items() if source == query.source}
        tools = of_source if tools is None else tools & of_source
    if bounds(request.principal) is not None:
        reachable = {tool.id for tool in open_tools(request)}
        tools = reachable if tools is None else tools & reachable
    owner = owner_of(request, query.owner)
    chosen = None if tools is None else tuple(sorted(tools))
    until = max(until, since)
    return StatsFilter(since, until, query.by, owner, query.agent, chosen, query.code, now - MINUTES_KEPT_S)


async def counted(request: ApiRequest, query: StatsQuery) -> CountedStats:
    """The numbers that somebody may see."""
    where = stats_filter(request, query)
    if query.owner not in (None, where.owner):
        where = where._replace(tools=())
    store, sources = request.api.crib.store, sources_of(request)
    if query.source == "":
        where = where._replace(tools=await tools_without_source(store, where, sources))
    return await statistics(store, where, sources)


async def stats(request: ApiRequest) -> ApiReply:
    """What happened lately, and what is open now."""
    recent = await counted(request, request.query)
    fields = {name: getattr(recent, name) for name in CountedStats.__struct_fields__}
    return json_reply(Stats(**fields, now=await _now(request)))


async def _now(request: ApiRequest) -> OpenNow:
    crib, owner = request.api.crib, owner_of(request, request.query.owner)
    calls: Mapping[str, int]
    if bounds(request.principal) is None:
        calls = await crib.store.open_calls(owner)
        sessions = crib.sessions_at_hand(owner)
    else:
        rows = [row for row in await used_since(crib, 0.0, owner) if await _sees(request, row.id)]
        ids = {row.id for row in rows}
        own = await crib.store.calls_of_owner(owner or "", limit=100_000)
        calls, sessions = Counter(row.state for row in own if row.session in ids), len(ids)
    return OpenNow(calls["waiting"], calls["queued"], calls["running"], sessions, request.api.gate.open)


async def _sees(request: ApiRequest, session: str) -> bool:
    row = await request.api.crib.store.session(session)
    return row is not None and await request.api.sessions.sees(row, request.principal)


async def tool_stats(request: ApiRequest) -> ApiReply:
    """The numbers of one tool."""
    id = request.path[0]
    if all(tool.id != id for tool in open_tools(request)):
        raise missing("tool")
    query = request.query
    query.tool = id
    recent = await counted(request, query)
    fields = {name: getattr(recent, name) for name in CountedStats.__struct_fields__}
    return json_reply(ToolStats(**fields, last=await last_calls(request, WalkFilter("ended", tool=id))))


async def last_calls(request: ApiRequest, where: WalkFilter, most: int = LAST) -> list[LastCall]:
    """The calls that ended last, of those that somebody may see; one that was settled stands where it was."""
    crib, calls = request.api.crib, list[LastCall]()
    spots, _ = await crib.store.walk(where._replace(owner=owner_of(request)), limit=most)
    spots = [spot for spot in spots if spot.owner != OWNER]
    async for spot, story in stories(crib.store, await request.api.sessions.visible(spots, request.principal)):
        row, end = spot.row, next((event for event in story if event.seq == spot.mark.seq), None)
        if end is not None and isinstance(end.data, Done):
            outcome = "succeeded" if end.data.failure is None else end.data.failure.code
            calls.append(LastCall(row.session, row.id, row.tool, end.at, outcome, float(end.data.duration_ms or 0)))
    return calls


ROUTES = [
    Route(
        "GET",
        "/v1/stats",
        stats,
        "Calls, failures by code, times, waits, tokens, cost and sessions of the last hour, day or week, step by step "
        "and by tool, agent, owner, source or code: your own, or all for administrators. What is open now stands "
        "beside it.",
        query=StatsQuery,
        gives={200: Stats},
    ),
    Route(
        "GET",
        "/v1/tools/{tool}/stats",
        tool_stats,
        "How a tool was used lately: calls, failures, times, and the last calls.",
        query=StatsQuery,
        gives={200: ToolStats},
    ),
]

"""Looking after a crib: calls of all sessions, the audit, numbers, and the cluster. Everybody sees what is theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from toolcrib.calls.auditing import Audit
from toolcrib.serve.api import forms
from toolcrib.serve.api.calls import fits, states_of
from toolcrib.serve.api.counting import Counts, counted, ended
from toolcrib.serve.api.errors import Problem, missing
from toolcrib.serve.api.paging import Limit, Name, Text, paged, place, read_place
from toolcrib.serve.api.request import LINES, Request, given
from toolcrib.serve.api.routing import Reply, Route
from toolcrib.serve.api.tools import open_tools
from toolcrib.serve.api.watching import used_since
from toolcrib.store import Row, SessionRow
from toolcrib.store.codec import encode
from toolcrib.types import Status

DAY_S = 86400.0
Moment = Annotated[float, Meta(ge=0, le=1e11)]


def _owner(asked: Request, wanted: str | None = None) -> str | None:
    """Whose sessions to look at: one's own, or those asked for by who may see all."""
    return wanted if asked.principal.admin else asked.principal.name


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
    owner = _owner(asked, query.owner)
    if query.owner not in (None, owner):
        return paged([])
    await crib.store.flush()
    after = read_place(query.after, tuple[float, str])
    since = crib.pipeline.clock.now() - DAY_S if query.since is None else query.since
    found = [(row, place) async for row, place in _rows(asked, owner, since)]
    wanted = [
        (row, where)
        for row, where in found
        if fits(row, query) and row.accepted_at >= since and (after is None or (row.accepted_at, row.id) < after)
    ]
    wanted.sort(key=lambda one: (one[0].accepted_at, one[0].id), reverse=True)
    page = wanted[: query.limit]
    entries = [await _entry(asked, row, where) for row, where in page]
    next = place(page[-1][0].accepted_at, page[-1][0].id) if len(wanted) > len(page) else None
    return paged(entries, next)


async def _rows(asked: Request, owner: str | None, since: float) -> AsyncIterator[tuple[Row, SessionRow]]:
    crib, states = asked.api.crib, states_of(asked.query.state)
    for session in await used_since(crib, since - 5.0, owner):
        for row in await crib.store.calls(session.id, states, limit=10_000):
            yield row, session


async def _entry(asked: Request, row: Row, where: SessionRow) -> forms.EntryForm:
    session = await asked.api.crib.attach(where)
    return forms.entry((await session.history(row)).entry(), session=where.id, owner=where.owner)


# Audit


class AuditQuery(Struct, forbid_unknown_fields=True):
    """Which entries: `who` asked or approved, `q` is a part of the arguments or the message.

    Of lines, `after` is a cursor `SESSION:SEQ`, or several with commas: only what is past it in its session.
    """

    who: Name | None = None
    tool: Name | None = None
    outcome: Name | None = None
    session: Name | None = None
    owner: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    q: Text | None = None
    after: Annotated[str, Meta(max_length=10_000)] | None = None
    limit: Limit = 100


class AuditForm(Struct, omit_defaults=True):
    """A page of the audit, the newest first."""

    items: list[dict[str, Any]]
    next: str | None = None


async def audit(asked: Request) -> Reply | None:
    """Who called what, what was decided by whom, and what came of it."""
    query = asked.query
    owner = _owner(asked, query.owner)
    foreign = query.owner not in (None, owner)
    await asked.api.crib.store.flush()
    if asked.accepts(LINES):
        await _lines(asked, owner, foreign=foreign)
        return None
    after = read_place(query.after, tuple[float, str])
    found: list[dict[str, Any]] = []
    if not foreign:
        found = [one async for one in _entries(asked, owner) if after is None or _mark(one) < after]
    found.sort(key=_mark, reverse=True)
    page = found[: query.limit]
    return paged(page, place(*_mark(page[-1])) if len(found) > len(page) else None)


def _mark(entry: Mapping[str, Any]) -> tuple[float, str]:
    return entry["ended_at"], entry["cursor"]


async def _lines(asked: Request, owner: str | None, *, foreign: bool) -> None:
    """All entries, session by session, each a line: what `toolcrib audit verify` checks."""
    cursors = dict(_cursors(asked.query.after or ""))
    headers = [(b"content-type", b"application/x-ndjson")]
    await asked.send({"type": "http.response.start", "status": 200, "headers": headers})
    if not foreign:
        async for entry in _entries(asked, owner):
            if entry["seq"] > cursors.get(entry["session"], 0):
                await asked.send({"type": "http.response.body", "body": encode(entry) + b"\n", "more_body": True})
    await asked.send({"type": "http.response.body", "body": b""})


def _cursors(text: str) -> Iterator[tuple[str, int]]:
    for one in filter(None, text.split(",")):
        session, _, seq = one.rpartition(":")
        if not session or not seq.isdecimal() or len(seq) > 15:
            raise Problem("invalid_arguments", "`after` is no cursor", "take one from the field `cursor`: SESSION:SEQ")
        yield session, int(seq)


async def _entries(asked: Request, owner: str | None) -> AsyncIterator[dict[str, Any]]:
    crib, query = asked.api.crib, asked.query
    rows = await used_since(crib, (query.since or 0.0) - 5.0, owner)
    for row in sorted(rows, key=lambda row: (row.created_at, row.id)):
        if query.session not in (None, row.id):
            continue
        fold = Audit(row.id, row.owner)
        while page := await crib.store.read(row.id, fold.seq, limit=1000):
            for event in page:
                entry = fold.take(event)
                if entry is not None and _wanted(entry, query):
                    yield entry


def _wanted(entry: Mapping[str, Any], query: AuditQuery) -> bool:
    if not (query.since or 0.0) <= entry["ended_at"] <= (query.until or float("inf")):
        return False
    if query.outcome not in (None, entry["outcome"], "failed" if entry["outcome"] != "succeeded" else None):
        return False
    tool = entry["tool"]
    if query.tool is not None and query.tool != tool.rpartition(".")[2] and not fnmatchcase(tool, query.tool):
        return False
    people = [entry["owner"], *(said.partition(" ")[2] for said in entry["chain"])]
    if query.who is not None and query.who not in (*people, *(one["actor"] for one in entry["answers"])):
        return False
    text = encode(entry["arguments"]).decode() + (entry["message"] or "")
    return query.q is None or query.q.lower() in text.lower()


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
    crib, query, owner = asked.api.crib, asked.query, _owner(asked)
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
    calls = await ended(crib, _owner(asked), now - query.seconds, id)
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
        "Calls of all sessions that you may see, the newest first.",
        query=AllCalls,
        gives={200: forms.Entries},
    ),
    Route(
        "GET",
        "/v1/audit",
        audit,
        "Who called what, what was decided by whom, and what came of it, the newest first. "
        "With `Accept: application/x-ndjson` all of it as lines that `toolcrib audit verify` checks.",
        query=AuditQuery,
        gives={200: AuditForm},
        lines=True,
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

"""The audit over HTTP: who called what, what was decided by whom, and what came of it. A view of the log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from msgspec import Meta, Struct

from toolcrib._session.archive import GRAVES
from toolcrib._session.audit import Audit, Audited, chained
from toolcrib.events import Accepted, Event
from toolcrib.serve.api.call_list import stories
from toolcrib.serve.api.pages import (
    LOOK_S,
    SESSION_ID,
    AmongCalls,
    Limit,
    Moment,
    Name,
    Text,
    owner_of,
    paged,
    place,
    read_mark,
)
from toolcrib.serve.api.request import LINES, ApiRequest
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.watcher import SLACK_S, used_since
from toolcrib.store import INFINITE, OWNER, LogPosition, WalkedCall, WalkFilter
from toolcrib.store.codec import PAGE_BYTES, encode
from toolcrib.types import CODES

GLOB = re.compile(r"[*?\[]")
PIECE = 200
"""Entries that are read at once, of which some may not be wanted."""

_CURSOR = f"{SESSION_ID}:[0-9]{{1,15}}"
_OUTCOMES = {"succeeded": ("",), "failed": CODES}


class AuditQuery(Struct, forbid_unknown_fields=True):
    """Which entries: `who` asked or approved, `q` is a part of the arguments or the message.

    Of lines, `past` is a cursor `SESSION:SEQ`, or several with commas: only what is past it in its session.
    """

    who: Name | None = None
    tool: Name | None = None
    outcome: Name | None = None
    session: Name | None = None
    owner: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    q: Text | None = None
    after: AmongCalls | None = None
    past: Annotated[str, Meta(pattern=rf"^{_CURSOR}(,{_CURSOR})*$", max_length=10_000)] | None = None
    limit: Limit = 100


class AuditForm(Struct, omit_defaults=True):
    """A page of the audit, the newest first; where there is more, all that ended since `reached` was looked at."""

    items: list[dict[str, Any]]
    next: str | None = None
    reached: float | None = None


async def audit(request: ApiRequest) -> ApiReply | None:
    """Who called what, what was decided by whom, and what came of it."""
    query = request.query
    owner = owner_of(request, query.owner)
    foreign = query.owner not in (None, owner)
    if request.accepts(LINES):
        await request.api.crib.store.flush()
        await _lines(request, owner, foreign=foreign)
        return None
    past = read_mark(query.after)
    if foreign:
        return paged([])
    entries, next = await _page(request, _where(query, owner), past)
    return paged(entries) if next is None else paged(entries, place(*next), reached=next.at)


def _where(query: AuditQuery, owner: str | None) -> WalkFilter:
    """What the store itself can look for."""
    tool = None if query.tool is None or GLOB.search(query.tool) else query.tool
    codes: tuple[str, ...] = () if query.outcome is None else _OUTCOMES.get(query.outcome, (query.outcome,))
    until = INFINITE if query.until is None else query.until
    return WalkFilter("ended", query.session, owner, codes=codes, tool=tool, since=query.since or 0.0, until=until)


async def _page(
    request: ApiRequest, where: WalkFilter, past: LogPosition | None
) -> tuple[list[dict[str, Any]], LogPosition | None]:
    """Entries, the newest first, until there are enough or enough was looked at."""
    loop, query, entries, chains = (
        asyncio.get_running_loop(),
        request.query,
        list[dict[str, Any]](),
        CallerChains(request),
    )
    size = 0
    picky, stop = (query.who, query.q, where.tool) != (None, None, query.tool), loop.time() + LOOK_S
    while True:
        most = PIECE if picky else query.limit - len(entries)
        spots, past = await request.api.crib.store.walk(where, past, limit=most)
        own = [spot for spot in spots if spot.owner != OWNER]
        async for mark, entry in _made(request, await request.api.sessions.visible(own, request.principal), chains):
            if _wanted(entry, query):
                entries.append(entry)
                size += len(encode(entry))
                full = len(entries) == query.limit or size >= PAGE_BYTES
                if full and (past is not None or mark != spots[-1].mark):
                    return entries, mark
        if past is None or loop.time() > stop:
            return entries, past


async def _made(
    request: ApiRequest, spots: list[WalkedCall], chains: CallerChains
) -> AsyncIterator[tuple[LogPosition, dict[str, Any]]]:
    """The entries of these ends, but for the seals, which need all that came before in a session."""
    async for (row, owner, mark), story in stories(request.api.crib.store, spots):
        own = [event for event in story if event.seq <= mark.seq]
        if not own or own[0].kind != "accepted" or own[-1].seq != mark.seq:
            continue  # it was swept just now
        call = Audited(row.session, await chains.of(row.session, own[0]))
        for event in own:
            call.take(event)
        at = {"cursor": f"{row.session}:{mark.seq}", "session": row.session, "seq": mark.seq, "owner": owner}
        yield mark, at | call.entry(own[-1])


class CallerChains:
    """Who asked for each call, from the top, looked up once a page."""

    def __init__(self, request: ApiRequest) -> None:
        self._store = request.api.crib.store
        self._known: dict[str, list[str]] = {}

    async def of(self, session: str, accepted: Event) -> list[str]:
        """The chain of a call."""
        assert isinstance(accepted.data, Accepted)
        parents: list[tuple[str, Accepted]] = []
        parent = accepted.data.parent
        while parent and parent not in self._known:
            row = await self._store.call(parent)
            if row is None or row.session != session:
                break
            (event, *_) = await self._store.read(session, row.accepted_seq - 1, until=row.accepted_seq) or (None,)
            if event is None or not isinstance(event.data, Accepted):
                break
            parents.append((row.id, event.data))
            parent = event.data.parent
        chain = self._known.get(parent or "", [])
        for call, above in reversed(parents):
            self._known[call] = chain = chained(above, chain)
        return chained(accepted.data, chain)


async def _lines(request: ApiRequest, owner: str | None, *, foreign: bool) -> None:
    """All entries, session by session, each a line: what `toolcrib audit verify` checks."""
    cursors = dict(_cursors(request.query.past or ""))
    headers = [(b"content-type", b"application/x-ndjson")]
    await request.send({"type": "http.response.start", "status": 200, "headers": headers})
    if not foreign:
        async for entry in _entries(request, owner):
            if entry["seq"] > cursors.get(entry["session"], 0):
                await request.send({"type": "http.response.body", "body": encode(entry) + b"\n", "more_body": True})
    await request.send({"type": "http.response.body", "body": b""})


def _cursors(text: str) -> Iterator[tuple[str, int]]:
    for one in filter(None, text.split(",")):
        session, _, seq = one.rpartition(":")
        yield session, int(seq)


async def _entries(request: ApiRequest, owner: str | None) -> AsyncIterator[dict[str, Any]]:
    crib, query = request.api.crib, request.query
    if query.session is None:
        rows = await used_since(crib, (query.since or 0.0) - SLACK_S, owner)
        if owner is None and (graves := await crib.store.session(GRAVES)) is not None:
            rows = [*rows, graves]
    else:
        only = await crib.store.session(query.session)
        rows = [] if only is None or only.owner == OWNER or owner not in (None, only.owner) else [only]
    for row in sorted(rows, key=lambda row: (row.created_at, row.id)):
        if row.owner != OWNER and not await request.api.sessions.sees(row, request.principal):
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
    people = [entry["owner"], *(caller.partition(" ")[2] for caller in entry["chain"])]
    if query.who is not None and query.who not in (*people, *(one["actor"] for one in entry["answers"])):
        return False
    text = encode(entry["arguments"]).decode() + (entry["message"] or "")
    return query.q is None or query.q.lower() in text.lower()


ROUTES = [
    Route(
        "GET",
        "/v1/audit",
        audit,
        "Who called what, what was decided by whom, and what came of it, the newest first; "
        "a page may have few and yet a `next`. "
        "With `Accept: application/x-ndjson` all of it as lines that `toolcrib audit verify` checks.",
        query=AuditQuery,
        gives={200: AuditForm},
        lines=True,
    ),
]

"""The audit over HTTP: who called what, what was decided by whom, and what came of it. A view of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from msgspec import Meta, Struct

from toolcrib.calls.auditing import Audit
from toolcrib.serve.api.errors import Problem
from toolcrib.serve.api.paging import Limit, Name, Text, paged, place, read_place
from toolcrib.serve.api.request import LINES, Request
from toolcrib.serve.api.routing import Reply, Route
from toolcrib.serve.api.watching import used_since
from toolcrib.store.codec import encode

Moment = Annotated[float, Meta(ge=0, le=1e11)]


def owner_of(asked: Request, wanted: str | None = None) -> str | None:
    """Whose sessions to look at: one's own, or those asked for by who may see all."""
    return wanted if asked.principal.admin else asked.principal.name


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
    owner = owner_of(asked, query.owner)
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


ROUTES = [
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
]

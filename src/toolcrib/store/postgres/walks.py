"""Walks over the calls of a Postgres database."""

from __future__ import annotations

from typing import Any

from toolcrib.store import LogPosition, Row, Walk, WalkedCall, WalkFilter, walks
from toolcrib.store.postgres.connection import Connection
from toolcrib.store.schema import queries
from toolcrib.store.walks import ends, numbered, page_of, statements, times

_COLUMNS = 17
"""Of a row of the index."""

LAST = 2**31 - 1
"""No event of a session has a higher number."""


async def in_database(db: Connection, where: WalkFilter, past: LogPosition | None, limit: int) -> Walk:
    """A page of calls."""
    async with db.transaction(readonly=True):
        await db.execute(queries("postgres")["as_walked"])
        return await _walk(db, where, past, limit)


async def _walk(db: Connection, where: WalkFilter, past: LogPosition | None, limit: int) -> Walk:
    span, few = None, False
    if where.owner is not None:
        span = await db.fetchrow(queries("postgres")["span"], where.owner)
        if span[0] is None:
            return Walk([], None)
        own = await db.fetchrow(queries("postgres")["own_events"], where.owner, walks.OWN_SESSIONS + 1)
        few = walks.has_few(*own)
    where = times(where, span)
    edge_of, page = statements("postgres", where, few)
    begin, end = ends(where, past, (2**63 - 1, LAST))
    values: dict[str, Any] = {"since": where.since, "until": where.until, "id": where.session, "scan": walks.SCAN - 1}
    values |= {"owner": where.owner, **_place("", begin)}
    last = await _ask(db, edge_of, values)
    edge = LogPosition(*last[0]) if last else None
    values |= {**_place("edge_", edge or end), "limit": limit + 1}
    values |= {name: getattr(where, name) for name in walks.LISTED}
    lines = await _ask(db, page, values | {"tool": where.tool})
    spots = [WalkedCall(Row(*line[:_COLUMNS]), line[_COLUMNS], LogPosition(*line[_COLUMNS + 1 :])) for line in lines]
    return page_of(spots, limit, edge)


async def _ask(db: Connection, text: str, values: dict[str, Any]) -> list[Any]:
    text, arguments = numbered(text, values)
    items: list[Any] = await db.fetch(text, *arguments)
    return items


def _place(prefix: str, mark: LogPosition) -> dict[str, Any]:
    return {f"{prefix}at": mark.at, f"{prefix}session": mark.session, f"{prefix}seq": min(mark.seq, LAST)}

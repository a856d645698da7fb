"""Walks over the calls of all sessions by time: which index to go along, between which two places.

A walk looks at `SCAN` entries at once and no more, whatever it looks for: first the entry so many further on is found,
then what fits between the two. So a page costs the same in a small store and in a large one. The calls of an owner who
has few are looked for in their own logs: what it costs to list them does not depend on how many others have.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection
from typing import Any

from toolcrib.store import INFINITE, LogPosition, Walk, WalkedCall, WalkFilter
from toolcrib.store.codec import encode
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.log_reader import to_row

SCAN = 10_000
"""Calls that are looked at for one page."""

OWN_EVENTS, OWN_SESSIONS = 10_000, 1_000
"""How many events in how many sessions an owner has who has few."""

SLACK_S = 60.0
"""How far clocks and the time of a session's last use may be apart."""

BUSY = {"queued", "running"}

LISTED = ("states", "codes", "tools", "other_tools")
"""What is looked for of which there may be several; an empty one leaves all."""


def listing(states: Collection[str]) -> str:
    """The name of what lists the calls of one session, or of all, in these states: open ones have small indexes."""
    if not states or "done" in states:
        return "calls"
    if set(states) == {"held"}:
        return "calls_held"
    if "waiting" not in states:
        return "calls_busy"
    return "calls_waiting" if len(set(states)) == 1 else "calls_open"


def way(where: WalkFilter, few: bool = False) -> str:
    """The name of what to walk over: the smallest index that has all that is looked for, or the logs of an owner with
    `few` calls.
    """
    if where.session is not None:
        return f"log_{where.over}"
    whose = "" if where.owner is None else "_of"
    if where.over == "accepted" and where.states == ("waiting",):
        return f"over_waiting{whose}"
    if where.over == "accepted" and where.states and BUSY.issuperset(where.states):
        return f"over_busy{whose}"
    if few:
        return f"own_{where.over}"
    if where.over == "ended":
        return "over_ended"
    if where.codes == ("unknown",):
        return "over_unknown"
    return "over_failed" if where.codes and "" not in where.codes else "over_accepted"


def has_few(sessions: int, events: int) -> bool:
    """True if that is so little that all of it can be looked at."""
    return sessions <= OWN_SESSIONS and events <= OWN_EVENTS


def statements(database: str, where: WalkFilter, few: bool = False) -> tuple[str, str]:
    """What finds the place where to stop looking, and what finds the calls up to there."""
    sql, over = queries(database), way(where, few)
    direction = "log" if where.session is not None else "time"
    direction += "_forward" if where.oldest_first else "_back"
    parts = {name: sql[f"{direction}_{name}"] for name in ("past", "edge", "order")}
    parts["code"] = sql[f"code_{where.over}"]
    edge, page = (sql[name].replace("{over}", sql[over]) for name in ("walk_edge", "walk"))
    for name, text in parts.items():
        edge, page = edge.replace(f"{{{name}}}", text), page.replace(f"{{{name}}}", text)
    return edge, page


def times(where: WalkFilter, span: tuple[float, float] | None) -> WalkFilter:
    """The same with the times between which to look narrowed to those of an owner's sessions."""
    if span is None:
        return where
    return where._replace(since=max(where.since, span[0] - SLACK_S), until=min(where.until, span[1] + SLACK_S))


def ends(where: WalkFilter, past: LogPosition | None, largest: tuple[int, int]) -> tuple[LogPosition, LogPosition]:
    """Between which places the walk goes, in its order; those of one session's log are not in order of time."""
    since, until = (where.since, where.until) if where.session is None else (0.0, INFINITE)
    low, high = LogPosition(since, -1, 0), LogPosition(until, *largest)
    if where.oldest_first:
        return low if past is None else max(past, low), high
    return high if past is None else min(past, high), low


def page_of(spots: list[WalkedCall], limit: int, edge: LogPosition | None) -> Walk:
    """Return a page of calls, of which one more than wanted was read."""
    if len(spots) > limit:
        return Walk(spots[:limit], spots[limit - 1].mark)
    return Walk(spots, edge)


def numbered(text: str, values: dict[str, Any]) -> tuple[str, list[Any]]:
    """A statement with `:name` in it as Postgres takes it, with its values in order."""
    names = list(dict.fromkeys(re.findall(r"(?<!:):([a-z_]+)", text)))
    return re.sub(r"(?<!:):([a-z_]+)", lambda match: f"${names.index(match[1]) + 1}", text), [values[n] for n in names]


# In an SQLite file, whose keys hold the numbers of session and event in one

LAST = 2**63 - 1
"""No key is higher."""


def in_file(db: sqlite3.Connection, where: WalkFilter, past: LogPosition | None, limit: int) -> Walk:
    """A page of calls."""
    span, few = None, False
    if where.owner is not None:
        span = db.execute(queries()["span"], {"owner": where.owner}).fetchone()
        if span[0] is None:
            return Walk([], None)
        owner = {"owner": where.owner, "most": OWN_SESSIONS + 1}
        few = has_few(*db.execute(queries()["own_events"], owner).fetchone())
    where = times(where, span)
    edge_of, page = statements("sqlite", where, few)
    begin, end = ends(where, past, (LAST >> 32, LAST & 0xFFFFFFFF))
    row = db.execute("SELECT n FROM sessions WHERE id = ?", (where.session,)).fetchone()
    values = {"since": where.since, "until": where.until, "n": row[0] if row else -1, "scan": SCAN - 1}
    values |= {"owner": where.owner, **_place("", begin)}
    last = db.execute(edge_of, values).fetchone()
    edge = None if last is None else _mark(*last)
    wanted = {name: encode(getattr(where, name)).decode() for name in LISTED}
    values |= {**_place("edge_", edge or end), **wanted, "tool": where.tool, "limit": limit + 1}
    cursor = db.execute(page, values)
    names = [column[0] for column in cursor.description]
    return page_of([_spot(dict(zip(names, line, strict=True))) for line in cursor], limit, edge)


def _spot(data: dict[str, Any]) -> WalkedCall:
    owner, mark = data.pop("owner"), _mark(data.pop("at"), data.pop("mark"))
    return WalkedCall(to_row(data), owner, mark)


def _place(prefix: str, mark: LogPosition) -> dict[str, Any]:
    return {f"{prefix}at": mark.at, f"{prefix}key": min((mark.session << 32) + mark.seq, LAST)}


def _mark(at: float, key: int) -> LogPosition:
    return LogPosition(at, key >> 32, key & 0xFFFFFFFF)

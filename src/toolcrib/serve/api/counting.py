"""Numbers of calls, folded from the ends of logs: how many, how they ended, how long they took."""

from __future__ import annotations

import math
from collections import Counter

from msgspec import Struct

from toolcrib.crib import Crib
from toolcrib.serve.api.watching import used_since
from toolcrib.types import Event

SESSIONS = 500
EVENTS = 5000
LAST = 20


class LastCall(Struct, omit_defaults=True):
    """A call that ended lately."""

    session: str
    call: str
    tool: str
    at: float
    outcome: str
    duration_ms: float


class Point(Struct):
    """One step of a plot: what ended since `at`."""

    at: float
    calls: int
    failures: int
    p50_ms: float | None
    p95_ms: float | None


class Counts(Struct):
    """Calls that ended since `since`. Of very busy servers the newest are counted, not all."""

    since: float
    calls: int
    failures: dict[str, int]
    per_s: float
    p50_ms: float | None
    p95_ms: float | None
    points: list[Point]
    last: list[LastCall]


async def ended(crib: Crib, owner: str | None, since: float, tool: str | None = None) -> list[LastCall]:
    """The calls that ended since, of all sessions or of one owner's, the first first."""
    await crib.store.flush()
    found: list[LastCall] = []
    for row in (await used_since(crib, since - 5.0, owner))[:SESSIONS]:
        tools: dict[str, str] = {}
        after = max(0, row.seq - EVENTS)
        while page := await crib.store.read(row.id, after, limit=1000):
            after = page[-1].seq
            for event in page:
                one = _ended(row.id, event, tools)
                if one is not None and one.at >= since and tool in (None, one.tool):
                    found.append(one)
    return sorted(found, key=lambda one: one.at)


def _ended(session: str, event: Event, tools: dict[str, str]) -> LastCall | None:
    if event.call is None:
        return None
    if event.kind == "accepted":
        tools[event.call] = event.data["tool"]
    if event.kind != "done" or event.call not in tools:
        return None
    outcome = "succeeded" if event.data["ok"] else event.data["failure"]["code"]
    took = float(event.data.get("duration_ms", 0))
    return LastCall(session, event.call, tools.pop(event.call), event.at, outcome, took)


def counted(calls: list[LastCall], since: float, now: float, points: int) -> Counts:
    """The numbers of calls that ended between two times, in so many steps."""
    step = max(now - since, 1e-9) / points
    parts: list[list[LastCall]] = [[] for _ in range(points)]
    for call in calls:
        parts[min(points - 1, int((call.at - since) / step))].append(call)
    failures = Counter(call.outcome for call in calls if call.outcome != "succeeded")
    plot = [
        Point(since + i * step, len(part), sum(one.outcome != "succeeded" for one in part), *_quantiles(part))
        for i, part in enumerate(parts)
    ]
    last = list(reversed(calls[-LAST:]))
    return Counts(
        since, len(calls), dict(failures), len(calls) / max(now - since, 1e-9), *_quantiles(calls), plot, last
    )


def _quantiles(calls: list[LastCall]) -> tuple[float | None, float | None]:
    times = sorted(call.duration_ms for call in calls)
    if not times:
        return None, None
    return times[(len(times) - 1) // 2], times[math.ceil(0.95 * len(times)) - 1]

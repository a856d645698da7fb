"""Numbers of calls, from where they ended: how many, how they ended, how long they took."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from toolcrib.events import Done, Event, Settled
from toolcrib.serve.api.call_list import stories
from toolcrib.serve.api.pages import owner_of
from toolcrib.serve.api.request import ApiRequest
from toolcrib.store import OWNER, WalkedCall, WalkFilter

MOST, PIECE = 5000, 1000
"""Calls that are counted, and that are read at once."""

LOOK_S = 0.3
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
    """Calls that ended since `since`, which is later than asked for where very many ended since then."""

    since: float
    calls: int
    failures: dict[str, int]
    per_s: float
    p50_ms: float | None
    p95_ms: float | None
    points: list[Point]
    last: list[LastCall]


class EndedCalls(NamedTuple):
    """Calls that ended, the first first, and since when they are all there."""

    calls: list[LastCall]
    since: float


async def ended(request: ApiRequest, since: float, tool: str | None = None) -> EndedCalls:
    """The calls that ended since, of all that somebody may see; the newest of them, where there are very many."""
    loop, calls, past = asyncio.get_running_loop(), list[LastCall](), None
    crib, owner = request.api.crib, owner_of(request)
    where, stop = WalkFilter("ended", owner=owner, tool=tool, since=since), loop.time() + LOOK_S
    while True:
        spots, past = await crib.store.walk(where, past, limit=PIECE)
        spots = [spot for spot in spots if spot.owner != OWNER and tool in (None, spot.row.tool)]
        async for spot, story in stories(crib.store, await request.api.rooms.visible(spots, request.principal)):
            calls += _ended(spot, story)
        if past is None or len(calls) >= MOST or loop.time() > stop:
            return EndedCalls(calls[::-1], since if past is None else past.at)


def _ended(spot: WalkedCall, story: list[Event]) -> Iterator[LastCall]:
    """The call, where it ended there; what was settled later is not counted twice."""
    row, end = spot.row, next((event for event in story if event.seq == spot.mark.seq), None)
    done = None if end is None else end.data
    if end is not None and isinstance(done, Done) and not isinstance(done, Settled):
        outcome = "succeeded" if done.failure is None else done.failure.code
        yield LastCall(row.session, row.id, row.tool, end.at, outcome, float(done.duration_ms or 0))


def counted(ended: EndedCalls, now: float, points: int) -> Counts:
    """The numbers of calls that ended until now, in so many steps."""
    calls, since = ended
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

"""Whether the roll-ups of a store say what its logs say: all logs are folded anew and compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolcrib.store import OWNER
from toolcrib.store.rollups import (
    HOUR,
    HOURS_KEPT_S,
    MINUTES_KEPT_S,
    WHOLE_HOURS,
    LogTallies,
    Sum,
    Tallies,
    add,
    by_hours,
    of_one,
)

if TYPE_CHECKING:
    from toolcrib.store import SessionRow, Store

PAGE = 1000
MOST = 20
"""Differences that are told one by one."""


async def problems(store: Store, now: float) -> list[str]:
    """Return where the roll-ups differ from the logs. Others may be writing, so what differs is looked at again."""
    return await _problems(store, now) and await _problems(store, now)


async def _problems(store: Store, now: float) -> list[str]:
    while await store.roll_up(1.0):
        pass
    hours, since = await _folded(store), _whole_hour(now - HOURS_KEPT_S)
    for key, more in (await store.rolled_up("gone")).items():
        add(hours, key, more)
    wanted = {key: more for key, more in hours.items() if key.at >= since}
    stored = await store.rolled_up("hours", since)
    different = list(_differences("by the hour", wanted, stored))
    for by in WHOLE_HOURS:
        different += _differences(f"by the hour and {by}", of_one(stored, by), await store.rolled_up(by, since))
    late = _whole_hour(now - MINUTES_KEPT_S)
    minutes = by_hours(await store.rolled_up("minutes", late))
    different += _differences("by the minute", {key: value for key, value in stored.items() if key.at >= late}, minutes)
    return different[:MOST] if len(different) <= MOST else [*different[:MOST], f"{len(different) - MOST} more"]


def _whole_hour(at: float) -> int:
    return (int(at // HOUR) + 1) * HOUR


def _differences(of: str, wanted: Tallies, stored: Tallies) -> Iterator[str]:
    for key in wanted.keys() | stored.keys():
        there, counted = stored.get(key, Sum()), wanted.get(key, Sum())
        if there != counted:
            names = ", ".join(part for part in (key.owner, key.tool, key.agent, key.code) if part)
            where = f"roll-up {of}, {key.what} at {key.at} ({names})"
            yield f"{where}: the log says {counted.count}, the roll-up {there.count}"


async def _folded(store: Store) -> Tallies:
    """What all logs come down to, by the hour."""
    hours: Tallies = {}
    last: SessionRow | None = None
    while page := await store.sessions(limit=PAGE, before=last):
        for row in page:
            if row.owner != OWNER:
                for key, more in by_hours(await _tallies(store, row)).items():
                    add(hours, key, more)
        last = page[-1]
    return hours


async def _tallies(store: Store, session: SessionRow) -> Tallies:
    fold, tallies = LogTallies(session.owner), Tallies()
    while page := await store.read(session.id, fold.seq, limit=PAGE):
        for event in page:
            fold.take(event, tallies)
    return tallies

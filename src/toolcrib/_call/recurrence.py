"""The runs of a cron expression, in its time zone, and what becomes of those that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import NamedTuple

from toolcrib.events import Scheduled

GRACE_S = 60.0
"""A run that is made no later than this is on time; one that is later was missed."""


class BadTime(ValueError):
    """A cron expression or a time zone that is none, or an expression that never comes."""


class NextRun(NamedTuple):
    """Whether a run that is due is made, and when the next one is."""

    runs: bool
    next: float | None


def next_run(cron: str, timezone: str, after: float) -> float:
    """Return the first run past that time.

    A run in an hour that is left out when clocks go forward is made right after it, and one in an hour that comes twice
    is made once.

    Raises:
        BadTime: the expression or the time zone is none, or there is no such run.
    """
    (first,) = _runs(cron, timezone, after, 1) or (None,)
    if first is None:
        raise BadTime(f"cron: {cron!r} never comes")
    return first


def after_run(plan: Scheduled, due: float, now: float) -> NextRun:
    """Return what becomes of a run that is due, by the rule for missed ones."""
    late = now - due > GRACE_S
    if plan.cron is None:
        return NextRun(not late or plan.missed != "skip", None)
    cron, zone = plan.cron, plan.timezone or "UTC"
    if not late:
        return NextRun(True, next_run(cron, zone, due))
    if plan.missed == "skip":  # the last run may be one that is still on time
        return NextRun(False, next_run(cron, zone, now - GRACE_S))
    if plan.missed == "once":
        return NextRun(True, next_run(cron, zone, now))
    following = next_run(cron, zone, due)
    last = _runs(cron, zone, now, plan.limit, back=True)
    return NextRun(True, max(following, last[-1]) if last else following)


def _runs(cron: str, timezone: str, start: float, count: int, *, back: bool = False) -> list[float]:
    from cronsim import CronSim, CronSimError  # only who has schedules loads it

    moment = datetime.fromtimestamp(start, _zone(timezone))
    try:
        runs = CronSim(cron, moment, reverse=back)
        return [run.timestamp() for run in islice(runs, count)]
    except CronSimError as error:
        raise BadTime(f"cron: {cron!r} is no cron expression: {error}") from None


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadTime(f"timezone: {name!r} is no time zone of this machine") from None

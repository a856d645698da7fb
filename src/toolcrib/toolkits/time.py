"""What time it is, and what a time is elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from toolcrib.errors import ToolFailure
from toolcrib.toolkits.collection import Toolkit, kit
from toolcrib.types import AntiPattern, Example, Result, block

_ZONE = AntiPattern(
    "Unknown timezone", "Use a name such as UTC, Europe/Paris or America/New_York, not an abbreviation."
)


def tools(*, now: Callable[[], float] = time.time) -> Toolkit:
    """`get_current_time` and `convert_time`; `now` gives the seconds since 1970."""
    clock = _Clock(now)
    shared: dict[str, Any] = {"read_only": True, "timeout": 5}
    return kit(
        "time",
        [
            (
                clock.get_current_time,
                {
                    **shared,
                    "repeat": None,  # the answer is another one each time
                    "examples": [Example({}, "Now, in UTC"), Example({"timezone": "Asia/Tokyo"}, "Now, in Tokyo")],
                    "anti_patterns": [_ZONE],
                },
            ),
            (
                clock.convert_time,
                {
                    **shared,
                    "examples": [
                        Example(
                            {"time": "2026-03-01T09:30", "from_timezone": "Europe/Paris", "to_timezone": "Asia/Tokyo"}
                        )
                    ],
                    "anti_patterns": [
                        _ZONE,
                        AntiPattern("is no time", "Write 2026-03-01T09:30, or 09:30 for a time of today."),
                    ],
                },
            ),
        ],
    )


class _Clock:
    """The tools, with where they have the time from."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    async def get_current_time(self, timezone: str = "UTC") -> Result:
        """Tell the current time, as seconds since 1970 and as a date.

        Args:
            timezone: The name of a time zone, such as UTC or Europe/Paris.
        """
        zone = _zone(timezone)
        unix = int(self._now())
        data = {"unix": unix, "iso": datetime.fromtimestamp(unix, zone).isoformat(), "timezone": str(zone)}
        return Result(data, [block("text", text=str(unix))])

    async def convert_time(self, time: str, from_timezone: str, to_timezone: str) -> dict[str, Any]:
        """Tell what a time in one time zone is in another.

        Args:
            time: A date and time such as 2026-03-01T09:30, or 09:30 for a time of today.
            from_timezone: The time zone that it is given in, such as Europe/Paris.
            to_timezone: The time zone that is wanted, such as Asia/Tokyo.
        """
        here, there = _zone(from_timezone), _zone(to_timezone)
        moment = self._read(time, here)
        try:
            wanted = moment.astimezone(there)
        except (OverflowError, ValueError):
            raise ToolFailure("invalid_arguments", f"{time!r} is too far away") from None
        apart = (wanted.utcoffset() or _NONE) - (moment.utcoffset() or _NONE)
        return {
            "from": {"iso": moment.isoformat(), "timezone": str(here)},
            "to": {"iso": wanted.isoformat(), "timezone": str(there)},
            "difference_hours": round(apart.total_seconds() / 3600, 4),
        }

    def _read(self, text: str, zone: tzinfo) -> datetime:
        """A time with its zone; one that says its own offset keeps its meaning."""
        try:
            today = datetime.fromtimestamp(self._now(), zone).date().isoformat()
            read = datetime.fromisoformat(text if "-" in text or len(text) > 8 else f"{today}T{text}")
            return read.replace(tzinfo=zone) if read.tzinfo is None else read.astimezone(zone)
        except (OverflowError, ValueError):
            raise ToolFailure("invalid_arguments", f"{text[:60]!r} is no time") from None


_NONE = timedelta(0)


def _zone(name: str) -> tzinfo:
    if name.upper() in ("", "UTC", "Z"):  # known also where no time zones are installed
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ToolFailure("invalid_arguments", f"Unknown timezone: {name[:60]}") from None

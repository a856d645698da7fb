"""What time it is, and what a time is elsewhere."""

import json
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import nonempty
from tests.toolkits.place import opened
from toolcrib.toolkits import time


def now() -> float:
    return 1_800_000_000.7


@requirement("time.1")
async def test_the_time_is_told_as_seconds_and_as_a_date() -> None:
    async with opened(time.tools(now=now)) as session:
        result = await session.call("get_current_time")
        assert result.data == {"unix": 1_800_000_000, "iso": "2027-01-15T08:00:00+00:00", "timezone": "UTC"}
        assert result.text == "1800000000"
        there = (await session.call("get_current_time", {"timezone": "Asia/Kolkata"})).data
        assert there == {"unix": 1_800_000_000, "iso": "2027-01-15T13:30:00+05:30", "timezone": "Asia/Kolkata"}


@requirement("time.1")
@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 300])
async def test_a_zone_that_nobody_knows_is_refused(zone: str) -> None:
    async with opened(time.tools()) as session:
        failure = (await session.call("get_current_time", {"timezone": zone})).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("invalid_arguments", f"Unknown timezone: {zone[:60]}")
        assert failure.hint is not None


@requirement("time.2")
@pytest.mark.parametrize(
    ("given", "there", "hours"),
    [
        ("2026-07-01T09:30", "2026-07-01T13:00:00+05:30", 3.5),
        ("2026-01-01T09:30", "2026-01-01T14:00:00+05:30", 4.5),
        ("09:30", "2027-01-15T14:00:00+05:30", 4.5),
        ("2026-07-01T09:30:00Z", "2026-07-01T15:00:00+05:30", 3.5),
    ],
)
async def test_a_time_is_converted(given: str, there: str, hours: float) -> None:
    async with opened(time.tools(now=now)) as session:
        args = {"time": given, "from_timezone": "Europe/Paris", "to_timezone": "Asia/Kolkata"}
        data = (await session.call("convert_time", args)).data
        assert (data["to"]["iso"], data["difference_hours"]) == (there, hours)


@requirement("time.2")
@pytest.mark.parametrize("wrong", [{"time": "25:00"}, {"time": "soon"}, {"time": "0001-01-01"}, {"to_timezone": "X"}])
async def test_what_is_no_time_is_refused(wrong: dict[str, Any]) -> None:
    args = {"time": "09:30", "from_timezone": "Asia/Tokyo", "to_timezone": "America/New_York", **wrong}
    async with opened(time.tools()) as session:
        failure = (await session.call("convert_time", args)).failure
        assert failure is not None
        assert failure.code == "invalid_arguments"


async def test_its_tools_say_what_they_do() -> None:
    for tool in nonempty(time.tools()):
        assert (tool.does, tool.namespace) == ("read", "time")
        assert tool.knowledge.anti_patterns
        for example in tool.knowledge.examples:
            assert tool.parse(json.dumps(dict(example.arguments)).encode())

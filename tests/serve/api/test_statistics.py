"""`/v1/stats`: by what numbers are told, of what alone, and who sees them."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.test_admin import desks

__all__ = ["desks"]


@requirement("console.overview.2")
@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("tool", {"default.add": 2, "default.fails": 2}),
        ("owner", {"ada": 2, "bob": 2}),
        ("agent", {"": 4}),
        ("code", {"succeeded": 2, "failed": 2}),
    ],
)
async def test_calls_are_told_by_name(desks: dict[str, Any], by: str, names: dict[str, int]) -> None:
    groups = (await desks["root"].get("/stats", by=by))["groups"]
    assert {group["name"]: group["calls"] for group in groups if group["calls"]} == names
    for group in groups:
        assert sum(group["points"]) == group["calls"]
        assert sum(group["failed"]) == sum(group["failures"].values())


async def test_a_source_has_the_calls_of_its_tools(desks: dict[str, Any]) -> None:
    groups = (await desks["root"].get("/stats", by="source"))["groups"]
    assert [group["calls"] for group in groups] == [4]
    of_source = await desks["root"].get("/stats", source=groups[0]["name"])
    assert of_source["total"]["calls"] == 4
    assert (await desks["root"].get("/stats", source="none"))["total"]["calls"] == 0


@requirement("console.overview.2")
async def test_an_owner_sees_no_numbers_of_others(desks: dict[str, Any]) -> None:
    for query in ({}, {"by": "owner"}, {"owner": "bob"}, {"by": "tool", "range": "week"}):
        seen = await desks["ada"].get("/stats", **query)
        assert {group["name"] for group in seen["groups"]} & {"bob"} == set()
        assert seen["total"]["calls"] == (0 if "owner" in query else 2)
    assert (await desks["root"].get("/stats", owner="bob"))["total"]["calls"] == 2


async def test_numbers_are_narrowed_by_tool_and_code(desks: dict[str, Any]) -> None:
    root = desks["root"]
    assert (await root.get("/stats", tool="default.fails"))["total"]["failures"] == {"failed": 2}
    assert (await root.get("/stats", code="failed"))["total"]["calls"] == 2
    assert (await root.get("/stats", code="succeeded", tool="default.fails"))["total"]["calls"] == 0
    assert (await root.get("/stats", agent="nobody"))["total"]["calls"] == 0


async def test_numbers_lead_to_the_calls_behind_them(desks: dict[str, Any]) -> None:
    root = desks["root"]
    failed = (await root.get("/calls", code="failed", tool="default.fails"))["items"]
    assert len(failed) == 2
    since = failed[1]["accepted_at"]
    assert len((await root.get("/calls", code="failed", since=since, until=since))["items"]) == 1
    assert (await root.get("/calls", agent="nobody"))["items"] == []


@requirement("console.overview.2")
async def test_of_any_time_at_most_a_year_is_told_step_by_step(desks: dict[str, Any]) -> None:
    long = await desks["root"].get("/stats", since=0)
    assert long["total"]["calls"] == 4
    assert 365 * 24 <= len(long["points"]) <= 366 * 24 + 1
    assert long["since"] == long["points"][0]["at"] >= long["until"] - 367 * 86400
    assert len((await desks["root"].get("/stats", since=0, until=100_000_000_000))["points"]) <= 366 * 24 + 1

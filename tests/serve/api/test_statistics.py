"""`/v1/stats`: by what numbers are told, of what alone, and who sees them."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.test_admin import desks
from toolcrib.testing.stores.fixture import AT, claim, commit, finish, new, settle, submit

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


@requirement("console.overview.4")
async def test_the_calls_behind_a_number_are_as_many_as_it_says(desks: dict[str, Any]) -> None:
    root = desks["root"]
    (question, _) = (await root.get("/questions"))["items"]
    await desks["ada"].post("/sessions/of-ada/answers", question=question["id"], action="decline")
    for by in ("tool", "agent", "owner", "source", "code", "rule"):
        stats = await root.get("/stats", by=by)
        for group in stats["groups"]:
            if group["calls"]:
                behind = await root.get(
                    "/calls", over="ended", since=stats["since"], until=stats["until"], **{by: group["name"]}
                )
                assert len(behind["items"]) == group["calls"], (by, group["name"])
    failures = sum(stats["total"]["failures"].values())
    assert len((await root.get("/calls", over="ended", ok=False))["items"]) == failures == 3
    assert len((await root.get("/calls", over="ended", ok=True))["items"]) == stats["total"]["calls"] - failures
    assert len((await root.get("/calls", over="ended", waited=True))["items"]) == stats["total"]["waits"] == 1


@requirement("console.overview.4")
async def test_calls_and_numbers_are_narrowed_by_source(desks: dict[str, Any]) -> None:
    root = desks["root"]
    (of_source, *_) = (await root.get("/stats", by="source"))["groups"]
    await desks["ada"].post("/sessions/of-ada/calls", tool="nothing_like_it")
    here = await root.get("/calls", over="ended", source=of_source["name"], owner="ada")
    assert {one["tool"] for one in here["items"]} == {"default.add", "default.fails"}
    (gone,) = (await root.get("/calls", source=""))["items"]
    numbers = await root.get("/stats", source="")
    assert gone["tool"] == numbers["groups"][0]["name"] == "nothing_like_it"
    assert numbers["total"]["calls"] == 1
    assert (await root.get("/calls", source="none"))["items"] == []


@requirement("console.overview.4")
async def test_a_call_that_was_settled_is_behind_the_number_of_those_of_which_nobody_knew(
    desks: dict[str, Any],
) -> None:
    root, store = desks["root"], desks["root"].api.crib.store
    await store.open("s", "ada", AT)
    write = finish(await commit(store, claim(await commit(store, submit(new("c"))))), "unknown")
    await commit(store, settle(await commit(store, write)))
    query = {"since": AT - 60, "until": AT + 60, "tool": "shop.refund"}
    assert (await root.get("/stats", **query))["total"]["failures"] == {"unknown": 1}
    for more in ({}, {"code": "unknown"}, {"ok": False}):
        (call,) = (await root.get("/calls", over="ended", **query, **more))["items"]
        assert (call["id"], call["status"], call["result"]["failure"]["code"]) == ("c", "unknown", "unknown")
    assert (await root.get("/calls", over="ended", **query, ok=True))["items"] == []
    assert [one["status"] for one in (await root.get("/calls", **query))["items"]] == ["succeeded"]


@requirement("console.overview.4")
@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ({"code": "faild"}, "There is no code 'faild' now, did you mean 'failed'?"),
        ({"tool": "default.ad"}, "There is no tool 'default.ad' now, did you mean 'default.add'?"),
        ({"source": "nothing"}, "There is no source 'nothing' now: there is builtin, tests.serve.tools"),
        ({"agent": "nobody"}, "There is no agent 'nobody' now"),
    ],
)
async def test_where_nothing_has_a_name_what_was_meant_is_said(
    desks: dict[str, Any], query: dict[str, str], hint: str
) -> None:
    assert await desks["root"].get("/calls", **query) == {"items": [], "hint": hint}
    assert "hint" not in await desks["root"].get("/calls", code="timeout")


async def test_a_time_that_ends_with_a_step_has_nothing_of_the_next(desks: dict[str, Any]) -> None:
    stats = await desks["root"].get("/stats", range="hour")
    last = stats["points"][-1]["at"]
    narrowed = await desks["root"].get("/stats", since=last, until=last + 60)
    assert [one["at"] for one in narrowed["points"]] == [last]


@requirement("console.overview.2")
async def test_of_any_time_at_most_a_year_is_told_step_by_step(desks: dict[str, Any]) -> None:
    long = await desks["root"].get("/stats", since=0)
    assert long["total"]["calls"] == 4
    assert 365 * 24 <= len(long["points"]) <= 366 * 24 + 1
    assert long["since"] == long["points"][0]["at"] >= long["until"] - 367 * 86400
    assert len((await desks["root"].get("/stats", since=0, until=100_000_000_000))["points"]) <= 366 * 24 + 1

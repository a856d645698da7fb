"""Looking after a crib: the audit, calls of all sessions, numbers, and the cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib._session.audit import flaws
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal

LINES = {"Accept": "application/x-ndjson"}


@pytest.fixture
async def desks() -> AsyncIterator[dict[str, Desk]]:
    """Two who use a server, and one who looks after it; something has happened."""
    keys = {name: new_key() for name in ("ada", "bob", "root")}
    known = {kept: Principal(name, auth="key") for name, (_, kept) in keys.items()}
    known[keys["root"][1]] = Principal("root", roles=frozenset({"admin"}), auth="key")
    async with desk(Crib(TOOLS), guard=ApiKeys(known)) as made:
        found = {name: made.as_(keys[name][0]) for name in keys}
        for name in ("ada", "bob"):
            session = await found[name].open(f"of-{name}")
            await found[name].call(session, "add", {"a": 1, "b": 41})
            await found[name].call(session, "fails", {"how": "plainly"}, background=False)
            await found[name].post(f"/sessions/{session}/calls", tool="erase", args={"what": "x"}, wait=False)
        yield found


@requirement("policy.audit.1")
async def test_the_audit_is_a_page_and_lines_with_a_cursor(desks: dict[str, Desk]) -> None:
    ada, root = desks["ada"], desks["root"]
    (question,) = (await ada.get("/questions"))["items"]
    await ada.post("/sessions/of-ada/answers", question=question["id"], action="decline", reason="no")
    mine = (await ada.get("/audit"))["items"]
    assert [one["outcome"] for one in mine] == ["declined", "failed", "succeeded"]
    assert {one["owner"] for one in mine} == {"ada"}
    assert (mine[0]["approver"], mine[0]["arguments"], mine[0]["message"]) == ("ada", {"what": "x"}, "no")
    assert (mine[2]["chain"], mine[2]["tool"]) == (["user ada"], "default.add")
    everything = (await root.get("/audit"))["items"]
    assert {one["owner"] for one in everything} == {"ada", "bob"}
    assert len((await root.get("/audit", who="bob"))["items"]) == 2
    assert [one["tool"] for one in (await root.get("/audit", q="41", owner="bob"))["items"]] == ["default.add"]
    assert (await root.get("/audit", outcome="failed", tool="*.add"))["items"] == []
    answer = await root.ask("GET", "/audit", headers=LINES)
    lines = answer.text.splitlines()
    assert len(lines) == 5
    assert list(flaws(lines)) == []
    first = json.loads(lines[0])["cursor"]
    later = await root.ask("GET", "/audit", headers=LINES, params={"past": first})
    assert later.text.splitlines() == lines[1:]
    assert await root.refused("GET", "/audit", headers=LINES, params={"past": "x"}) == (400, "invalid_arguments")


async def test_the_audit_comes_in_pages(desks: dict[str, Desk]) -> None:
    root = desks["root"]
    first = await root.get("/audit", limit=3)
    rest = await root.get("/audit", limit=3, after=first["next"])
    assert [*first["items"], *rest["items"]] == (await root.get("/audit"))["items"]
    assert "next" not in rest


async def test_calls_of_all_sessions_by_state(desks: dict[str, Desk]) -> None:
    ada, root = desks["ada"], desks["root"]
    assert [one["session"] for one in (await ada.get("/calls", state="waiting"))["items"]] == ["of-ada"]
    assert (await ada.get("/calls", state="waiting", owner="bob"))["items"] == []
    both = (await root.get("/calls", state="failed"))["items"]
    assert [(one["owner"], one["tool"]) for one in both] == [("bob", "default.fails"), ("ada", "default.fails")]
    page = await root.get("/calls", limit=4)
    rest = await root.get("/calls", limit=4, after=page["next"])
    assert len({one["id"] for one in [*page["items"], *rest["items"]]}) == 6


async def test_numbers_are_those_of_what_one_may_see(desks: dict[str, Desk]) -> None:
    mine, all_ = await desks["ada"].get("/stats", range="hour"), await desks["root"].get("/stats")
    assert (mine["now"]["sessions"], mine["now"]["waiting"], mine["total"]["calls"]) == (1, 1, 2)
    assert (all_["now"]["sessions"], all_["now"]["waiting"], all_["total"]["failures"]) == (2, 2, {"failed": 2})
    assert sum(point["calls"] for point in mine["points"]) == 2
    assert (len(mine["points"]), mine["step_s"], len(all_["points"]), all_["step_s"]) == (60, 60, 24, 3600)
    tool = await desks["root"].get("/tools/default.add/stats")
    assert (tool["total"]["calls"], tool["total"]["failures"], len(tool["last"])) == (2, {}, 2)
    assert await desks["root"].refused("GET", "/tools/default.none/stats") == (404, "not_found")


async def test_a_crib_alone_is_no_cluster(desks: dict[str, Desk]) -> None:
    assert await desks["root"].get("/cluster") == {"nodes": [], "lanes": []}
    assert await desks["ada"].refused("GET", "/cluster") == (403, "denied")

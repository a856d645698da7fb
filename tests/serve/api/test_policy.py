"""The rules in force, and how often each decided: a view of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal
from toolcrib.store.rollup_check import problems

POLICY: dict[str, Any] = {
    "default": "allow",
    "rules": [
        {"deny": "fails", "id": "no-failures", "reason": "It only breaks."},
        {"ask": "total(a = '7')"},
        {"allow": "add"},
        {"ask": "pieces", "id": "never"},
    ],
}


async def use(served: Desk) -> None:
    """Calls that each rule but one decides."""
    session = await served.open()
    for number in range(3):
        await served.call(session, "add", {"a": number})
    await served.call(session, "fails", {"how": "plainly"})
    await served.call(session, "total", {"a": 1})
    for action in ("accept", "decline"):
        await served.call(session, "total", {"a": 7}, wait=0.5)
        question = (await served.get("/questions"))["items"][0]["id"]
        await served.post(f"/sessions/{session}/answers", question=question, action=action)
        await served.get(f"/sessions/{session}/calls/{question.rpartition('-')[0]}/result", wait=60)


@requirement("console.policy.1")
@pytest.mark.parametrize("store", ["memory:", "sqlite:///{folder}/log.db", "postgres"])
async def test_rules_tell_how_often_they_decided(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else store.format(folder=tmp_path)
    crib = Crib(TOOLS, store=url, policy=POLICY)
    async with desk(crib) as served:
        await use(served)
        told = await served.get("/policy")
        groups = (await served.get("/stats", by="rule"))["groups"]
        codes = {one["name"] for one in (await served.get("/stats", by="code"))["groups"]}
        assert await problems(crib.store, crib.pipeline.clock.now()) == []
    counts = {rule["name"]: rule["decided"] for rule in told["rules"]}
    assert counts == {"no-failures": 1, "total(a = '7')": 2, "add": 3, "never": 0}
    assert {one["name"]: one["calls"] for one in groups} == {"no-failures": 1, "total(a = '7')": 2, "add": 3}
    assert codes == {"succeeded", "denied", "declined"}
    assert told["rules"][0]["reason"] == "It only breaks."
    assert (told["default"], told["others"]) == ("allow", {})
    assert sum(told["rules"][2]["points"]) == 3


async def test_rules_are_for_administrators() -> None:
    keys = {name: new_key() for name in ("ada", "root")}
    known = {keys["ada"][1]: Principal("ada"), keys["root"][1]: Principal("root", scopes=frozenset({"admin"}))}
    async with desk(Crib(TOOLS), guard=ApiKeys(known)) as served:
        answers = [await served.as_(keys[name][0]).ask("GET", "/policy") for name in ("ada", "root")]
    assert [one.status_code for one in answers] == [403, 200]

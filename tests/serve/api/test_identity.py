"""Who somebody is, and what ids tell: nobody answers as another, no token makes itself an administrator's, and the id
of something foreign is worth as much as one that never was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, Desk, desk
from tests.serve.api.test_owners import FOREIGN, _send
from tests.serve.tools import TOOLS
from toolcrib import Crib, tool
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.oauth import Claims
from toolcrib.serve.principal import Principal
from toolcrib.store.memory import MemoryStore

RULES: dict[str, Any] = {
    "rules": [
        {"ask": "erase", "approvers": ["managers"], "quorum": 2},
        {"ask": "forge.melt", "approvers": ["managers"]},
    ],
    "groups": {"managers": ["bob", "carol"]},
}


@tool(namespace="forge", destructive=True)
async def melt(what: str) -> str:
    """Melt something."""
    return f"melted {what}"


class Counted(MemoryStore):
    """A store that counts what is looked up in it."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    async def session(self, id: str) -> Any:
        self.counts["session"] += 1
        return await super().session(id)

    async def call(self, id: str) -> Any:
        self.counts["call"] += 1
        return await super().call(id)

    async def read(self, *args: Any, **more: Any) -> Any:
        self.counts["read"] += 1
        return await super().read(*args, **more)


PEOPLE = {
    "ada": Principal("ada", auth="key"),
    "eve": Principal("eve", auth="key"),
    "bob": Principal("bob", auth="key"),
    "carol": Principal("carol", ("default",), auth="key"),
    "root": Principal("root", scopes=frozenset({"admin"}), auth="key"),
}


@pytest.fixture
async def desks() -> AsyncIterator[dict[str, Desk]]:
    """One server with rules about approvers, and a client for each person."""
    keys = {name: new_key() for name in PEOPLE}
    known = {kept: PEOPLE[name] for name, (_, kept) in keys.items()}
    crib = Crib([*TOOLS, melt], store=Counted(), policy=RULES, default_namespaces=["default", "forge"])
    async with desk(crib, guard=ApiKeys(known)) as made:
        yield {name: made.as_(keys[name][0]) for name in PEOPLE}


async def _waiting(holder: Desk, tool: str, session: str = "s") -> dict[str, Any]:
    await holder.open(session)
    args = {} if tool == "greet" else {"what": "x"}
    made = await holder.post(f"/sessions/{session}/calls", tool=tool, args=args, wait=False)
    questions = (await holder.get(f"/sessions/{session}/questions"))["items"]
    found: dict[str, Any] = next(one for one in questions if one["call"] == made["id"])
    return found


@requirement("security.door.1")
@pytest.mark.parametrize("actor", ["bob", "carol", "ada", "managers"])
@pytest.mark.parametrize("tool", ["erase", "greet"])
async def test_an_administrator_answers_as_nobody_else(desks: dict[str, Desk], actor: str, tool: str) -> None:
    ada, root = desks["ada"], desks["root"]
    question = await _waiting(ada, tool)
    said = {"question": question["id"], "action": "accept", "value": {"name": "x"}, "actor": actor}
    assert await root.refused("POST", "/sessions/s/answers", said) == (403, "denied")
    (still,) = (await ada.get("/sessions/s/questions"))["items"]
    assert still.get("approved_by", []) == []


@requirement("security.door.1")
async def test_the_audit_names_who_authenticated(desks: dict[str, Desk]) -> None:
    ada = desks["ada"]
    question = await _waiting(ada, "erase")
    for name in ("bob", "carol"):
        await desks[name].post("/sessions/s/answers", question=question["id"], action="accept", actor=name)
    assert (await ada.get(f"/sessions/s/calls/{question['call']}/result", wait=SOON_S))["ok"]
    (entry,) = (await ada.get("/audit"))["items"]
    assert [one["actor"] for one in entry["answers"]] == ["bob", "carol"]


@requirement("security.door.1")
async def test_without_keys_nobody_plays_a_person_whose_own_yes_is_demanded() -> None:
    async with desk(Crib(TOOLS, policy=RULES)) as anyone:
        question = await _waiting(anyone, "erase")
        said = {"question": question["id"], "action": "accept", "actor": "bob"}
        assert await anyone.refused("POST", "/sessions/s/answers", said) == (403, "denied")
    async with desk(Crib(TOOLS)) as anyone:
        question = await _waiting(anyone, "erase")
        said = {"question": question["id"], "action": "accept", "actor": "bob"}
        assert (await anyone.post("/sessions/s/answers", **said))["actor"] == "bob"


@requirement("security.door.2")
@pytest.mark.parametrize("claim", ["scope", "scp", "roles"])
@pytest.mark.parametrize("value", ["admin", "read admin", ["admin"], ["admin", "staff"]])
def test_no_word_of_a_token_makes_an_administrator_where_roles_are_named(claim: str, value: Any) -> None:
    claims = {"iss": "https://issuer.example", "sub": "1", claim: value}
    assert Claims(admins=("ops",)).principal(claims).admin is False
    assert Claims().principal(claims).admin is True
    both = {**claims, "roles": ["ops"]}
    assert Claims(admins=("ops",)).principal(both).admin is True


@requirement("security.tenant.3")
async def test_a_foreign_id_is_looked_up_as_often_as_one_that_never_was(desks: dict[str, Desk]) -> None:
    ada, eve = desks["ada"], desks["eve"]
    question = await _waiting(ada, "greet")
    store = ada.api.crib.store
    assert isinstance(store, Counted)
    mine = await eve.open()
    theirs = {"call": question["call"], "output": "o", "file": "0" * 64, "run": "r", "seq": "1"}
    never = {"call": "c0000000000001", "output": "o", "file": "0" * 64, "run": "r", "seq": "1"}
    for route in FOREIGN:
        for place in ({"session": "s"}, {"session": mine}) if "call" in route.names else ({"session": "s"},):
            seen = []
            unknown = never | (place if place["session"] == mine else {"session": "none"})
            for ids, asked in ((theirs | place, question["id"]), (unknown, "c0000000000001-1")):
                store.counts.clear()
                answer = await _send(eve, route, ids, question=asked)
                seen.append((answer.status_code, answer.text.replace(ids["call"], "ID"), dict(store.counts)))
            assert seen[0] == seen[1], (route.method, route.path, place)
            assert seen[0][0] == 404, (route.method, route.path)


@requirement("security.tenant.3")
async def test_a_foreign_question_in_a_session_of_ones_own_is_none(desks: dict[str, Desk]) -> None:
    question = await _waiting(desks["ada"], "greet")
    mine = await desks["eve"].open()
    for id in (question["id"], "c0000000000001-1"):
        said = {"question": id, "action": "accept", "value": {"name": "Eve"}}
        answer = await desks["eve"].ask("POST", f"/sessions/{mine}/answers", said)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == f"No such question: {id}"


@requirement("security.tenant.4")
async def test_an_approver_is_asked_about_what_their_key_opens(desks: dict[str, Desk]) -> None:
    ada, bob, carol = desks["ada"], desks["bob"], desks["carol"]
    erase, melt_ = await _waiting(ada, "erase"), await _waiting(ada, "forge.melt")
    assert {one["id"] for one in (await bob.get("/questions"))["items"]} == {erase["id"], melt_["id"]}
    assert {one["id"] for one in (await carol.get("/questions"))["items"]} == {erase["id"]}
    said = {"question": melt_["id"], "action": "accept"}
    assert await carol.refused("POST", "/sessions/s/answers", said) == (404, "not_found")
    assert (await bob.post("/sessions/s/answers", **said))["actor"] == "bob"

"""Agents over the API: who there is, messages, runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.place import UNGUARDED
from tests.requirements import requirement
from tests.serve.api.place import Desk, desk, until
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.agent import Agent, Agents
from toolcrib.agent.scripted_model import ScriptedModel
from toolcrib.serve.keyring import Keyring
from toolcrib.store.rollup_check import problems

SCRIPT: dict[str, list[dict[str, Any]]] = {
    "desk": [
        {"calls": [{"tool": "add", "args": {"a": 1, "b": 2}}]},
        {"text": "It is 3."},
        {"calls": [{"tool": "erase", "args": {"what": "x"}}]},
        {"text": "Gone."},
    ]
}


@pytest.fixture
async def served() -> AsyncIterator[Desk]:
    agents = Agents(
        [
            Agent(name="desk", description="Answers.", tools=["add", "erase"], sub_agents=["clerk"]),
            Agent(name="clerk", description="Files."),
        ],
        model=ScriptedModel(SCRIPT),
    )
    async with desk(Crib(TOOLS, agents=agents, policy=UNGUARDED)) as made:
        yield made


async def test_agents_and_who_may_reach_whom(served: Desk) -> None:
    said = await served.get("/agents")
    assert [(one["name"], one.get("default", False)) for one in said["items"]] == [("desk", True), ("clerk", False)]
    assert {(edge["source"], edge["target"]) for edge in said["edges"]} == {("desk", "clerk")}
    assert (await served.get("/agents/desk"))["definition"]["tools"] == ["add", "erase"]
    assert await served.refused("GET", "/agents/nobody") == (404, "not_found")
    assert (await served.get("/me"))["features"]["agents"] is True


LEADING: dict[str, list[dict[str, Any]]] = {
    "desk": [
        {"calls": [{"tool": "call_agent", "args": {"agent": "stock", "prompt": "How many?"}}]},
        {"calls": [{"tool": "transfer_to_agent", "args": {"agent_name": "clerk", "reason": "papers"}}]},
    ],
    "stock": [{"text": "Three."}],
    "clerk": [{"text": "Filed."}],
}


@requirement("console.agents.1")
@pytest.mark.parametrize("store", ["memory:", "sqlite:///{folder}/log.db", "postgres"])
async def test_how_often_agents_reached_each_other(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else store.format(folder=tmp_path)
    known = [Agent(name="desk", sub_agents=["clerk", "stock"]), Agent(name="clerk"), Agent(name="stock")]
    crib = Crib(TOOLS, store=url, agents=Agents(known, model=ScriptedModel(LEADING)), policy=UNGUARDED)
    async with desk(crib) as served:
        session = await served.open()
        ended = await served.post(f"/sessions/{session}/messages", text="hello", wait=60)
        edges = (await served.get("/agents"))["edges"]
        groups = (await served.get("/stats", by="code"))["groups"]
        assert await problems(crib.store, crib.pipeline.clock.now()) == []
    assert ended["answer"] == "Filed."
    counts = {(edge["source"], edge["target"], edge["via"]): edge.get("count", 0) for edge in edges}
    assert counts["desk", "clerk", "transfer"] == 1
    assert counts["desk", "stock", "call"] == 1
    assert sum(counts.values()) == 2
    assert {one["name"] for one in groups} == {"succeeded"}


async def test_the_instructions_of_an_agent_are_for_who_looks_after_the_server() -> None:
    agents = Agents([Agent(name="desk", instructions="The password is 7.")], model=ScriptedModel(SCRIPT))
    crib = Crib(TOOLS, agents=agents, policy=UNGUARDED)
    keys = Keyring(lambda: crib.store, crib.pipeline.clock.now)
    async with desk(crib, guard=keys) as served:
        root, ada = [
            served.as_((await keys.add(owner, by="test", scopes=scopes))[0])
            for owner, scopes in (("root", ["admin"]), ("ada", []))
        ]
        assert (await root.get("/agents/desk"))["definition"]["instructions"] == "The password is 7."
        said = await ada.get("/agents/desk")
        assert (said["name"], said["tools"], "definition" in said) == ("desk", ["*"], False)
        for path in ("/agents/desk", "/agents", "/openapi.json"):
            assert "password" not in (await ada.ask("GET", path)).text


async def test_a_message_starts_a_run_that_can_be_followed(served: Desk) -> None:
    session = await served.open()
    answer = await served.ask("POST", f"/sessions/{session}/messages", {"text": "1 + 2?", "key": "m"})
    assert answer.status_code == 202
    taken = answer.json()
    async with served.stream(f"/sessions/{session}/events?after={taken['seq']}") as events:
        assert (await until(events, "run_finished")).data["data"]["run"] == taken["run"]
    again = await served.post(f"/sessions/{session}/messages", text="1 + 2?", key="m", wait=True)
    assert (again["run"], again["status"], again["answer"]) == (taken["run"], "done", "It is 3.")
    (run,) = (await served.get(f"/sessions/{session}/runs"))["items"]
    assert (run["agent"], run["status"], run["turns"]) == ("desk", "done", 2)


async def test_a_run_that_waits_says_for_what(served: Desk) -> None:
    session = await served.open()
    await served.post(f"/sessions/{session}/messages", text="1 + 2?", wait=True)
    waits = await served.post(f"/sessions/{session}/messages", text="erase x", wait=True)
    (question,) = waits["questions"]
    assert (waits["status"], question["tool"]) == ("waiting", "default.erase")
    body = {"text": "x", "agent": "nobody"}
    assert await served.refused("POST", f"/sessions/{session}/messages", body) == (404, "not_found")


async def test_a_crib_without_agents_says_so() -> None:
    async with desk(Crib(TOOLS)) as served:
        session = await served.open()
        assert await served.get("/agents") == {"items": [], "edges": []}
        assert await served.refused("POST", f"/sessions/{session}/messages", {"text": "hi"}) == (409, "conflict")


@requirement("reliability.handover.3")
async def test_a_person_may_choose_any_agent_that_exists_and_no_other() -> None:
    agents = Agents(
        [Agent(name="desk"), Agent(name="stranger")],
        model=ScriptedModel({"desk": [{"text": "desk"}], "stranger": [{"text": "stranger"}]}),
    )
    async with desk(Crib(TOOLS, agents=agents, policy=UNGUARDED)) as served:
        session = await served.open()
        path = f"/sessions/{session}/messages"
        assert (await served.post(path, text="hi", wait=True))["answer"] == "desk"
        before = (await served.get(f"/sessions/{session}"))["seq"]
        assert await served.refused("POST", path, {"text": "hi", "agent": "nobody"}) == (404, "not_found")
        assert (await served.get(f"/sessions/{session}"))["seq"] == before
        assert (await served.post(path, text="hi", agent="stranger", wait=True))["answer"] == "stranger"

"""Tools of documents go through the same stages as all others: checked, judged, logged, and found by agents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.requirements import requirement
from tests.sources.openapi.conftest import POLICY, Opened
from tests.sources.openapi.service import Service, document, operation, parameter, paths
from toolcrib import Crib, Session, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.sources.openapi import OpenApi
from toolcrib.types import By


@tool(namespace="own", read_only=True)
def twin(n: int) -> int:
    """Give it back."""
    return n


async def kinds(session: Session, name: str, args: Any) -> list[str]:
    call = await session.submit(name, args)
    await session.result(call.id)
    return [event.kind async for event in session.events(call=call.id)]


@requirement("contract.typed.5")
async def test_arguments_are_checked_before_anything_is_sent(opened: Opened, service: Service) -> None:
    said = operation(parameter("n", "query", {"type": "integer", "minimum": 1}, required=True))
    session = await opened(document({"/echo": {"get": said}}))
    for args, told in (({}, "n: is required"), ({"n": 0}, "n: "), ({"n": 1, "m": 2}, "m: ")):
        result = await session.call("shop.it", args)
        assert result.failure is not None
        assert result.failure.code == "invalid_arguments"
        assert result.failure.message.startswith(told[:3])
    assert service.seen == []
    assert (await session.call("shop.it", {"n": "5"})).ok  # read gently, as everywhere
    assert service.last.query == "n=5"


async def test_a_call_leaves_the_same_lines_in_the_log(service: Service) -> None:
    said = document({"/echo": {"get": operation(parameter("n", "query", {"type": "integer"}))}})
    async with Crib([twin, OpenApi(said, base_url=service.url, trusted=True)], policy=POLICY) as crib:
        session = await crib.open(owner="ada", namespaces=["own", "shop"])
        assert await kinds(session, "shop.it", {"n": 1}) == await kinds(session, "own.twin", {"n": 1})
        assert await kinds(session, "shop.it", {"n": "x"}) == await kinds(session, "own.twin", {"n": "x"})


@requirement("policy.auto.1")
@pytest.mark.parametrize(
    ("settings", "policy", "method", "effect"),
    [
        ({}, POLICY, "get", "ask"),  # a stranger's word is none
        ({}, {**POLICY, "trust_annotations": ["shop"]}, "get", "allow"),
        ({"trusted": True}, POLICY, "get", "allow"),
        ({"trusted": True}, POLICY, "delete", "allow"),  # a grant is consent
        ({"trusted": True}, {}, "get", "ask"),  # nobody granted the host
        ({"trusted": True}, {"grants": {"deny": ["net:egress:private"]}}, "get", "deny"),
    ],
)
async def test_what_may_run_is_decided_by_trust_and_grants(
    service: Service, settings: dict[str, Any], policy: dict[str, Any], method: str, effect: str
) -> None:
    source = OpenApi(document({"/echo": {method: operation()}}), base_url=service.url, **settings)
    async with Crib([source], policy=policy) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        assert session.why("shop.it", {}).verdict.effect == effect


async def test_an_agent_finds_a_tool_of_a_large_document(service: Service) -> None:
    said = paths(*(f"op{n}" for n in range(120)))
    said["/echo/{city}"] = {"get": operation(parameter("city", "path"), summary="Tell the weather of tomorrow")}
    script: dict[str, Any] = {
        "main": [
            {"calls": [{"tool": "tool_search", "args": {"query": "weather tomorrow", "limit": 1}}]},
            {"calls": [{"tool": "it", "args": {"city": "Oslo"}}]},
            {"text": "Sun."},
        ]
    }
    model = ScriptedModel(script)
    source = OpenApi(document(said), base_url=service.url, trusted=True)
    async with Crib([source], policy=POLICY, agents=Agents([Agent(name="main")], model=model)) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        assert (await session.send("What will the weather be?")).answer == "Sun."
        made = [one.name for one in crib.catalog.view(("shop",)).tools if "whole" in vars(one)]
    assert service.last.path == "/echo/Oslo"
    assert made == ["it"]  # no other schema was needed
    assert any("city" in one.schema["properties"] for one in model.requests[1].tools)


async def test_who_calls_is_not_told_to_the_service(opened: Opened, service: Service) -> None:
    session = await opened(document({"/echo": {"get": operation()}}))
    assert (await session.call("shop.it", {}, by=By("agent", "main"))).ok
    assert set(service.last.headers) == {"host", "user-agent", "accept-encoding", "accept"}

"""Handovers by whatever route go through one gate, and a log that holds a bad one can be gone on with."""

import pytest

from tests.agent.place import calls, text, world
from tests.requirements import requirement
from tests.sessions.place import Place
from toolcrib import Result, tool
from toolcrib.agent import Agent
from toolcrib.types import Handover

TEAM = [Agent(name="main", sub_agents=["friend"]), Agent(name="friend"), Agent(name="stranger")]


@requirement("reliability.handover.1")
@pytest.mark.parametrize(("to", "code"), [("nobody", "not_found"), ("stranger", "denied"), ("main", "denied")])
async def test_a_result_that_hands_over_to_the_wrong_agent_is_refused(place: Place, to: str, code: str) -> None:
    @tool
    async def route() -> Result:
        """Route."""
        return Result("routed", handover=Handover(to))

    script = {"main": [calls(("route", {})), text("mine"), text("again")]}
    async with world(place, TEAM, script, route) as here:
        outcome = await here.send("go")
        assert (outcome.reason, outcome.answer) == ("answered", "mine")
        assert (await here.result("route"))["failure"]["code"] == code
        assert await here.log("handover") == []
        assert (await here.send("more")).answer == "again"


@requirement("reliability.handover.1")
async def test_a_result_that_hands_over_to_a_sub_agent_does(place: Place) -> None:
    @tool
    async def route() -> Result:
        """Route."""
        return Result("routed", handover=Handover("friend"))

    script = {"main": [calls(("route", {}))], "friend": [text("hello")]}
    async with world(place, TEAM, script, route) as here:
        assert (await here.send("go")).answer == "hello"
        assert [e.data["to"] for e in await here.log("handover")] == ["friend"]


@requirement("reliability.handover.2")
async def test_a_log_that_was_handed_to_nobody_opens_and_works(place: Place) -> None:
    async with world(place, TEAM, {"main": [text("one"), text("two")]}) as here:
        assert (await here.send("go")).answer == "one"
        await here.session.log("handover", {"from": "main", "to": "nobody", "history": {"policy": "full"}})
        assert (await here.send("more")).answer == "two"

"""Handing a conversation over: to whom, what the other sees, how often, and what of it survives."""

from typing import Any

import pytest

from tests.agent.place import calls, text, world
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Refused, tool
from toolcrib.agent import Agent


def to(agent: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "transfer_to_agent", {"agent_name": agent, **more}


def team(**handover: Any) -> list[Agent]:
    return [
        Agent(name="support", instructions="S.", sub_agents=["billing"], handover=handover or {"max": 8}),
        Agent(name="billing", description="Knows invoices.", instructions="B.", sub_agents=["support"]),
        Agent(name="law", instructions="L."),
    ]


@tool(read_only=True)
async def look(n: int = 0) -> int:
    """Look."""
    return n


@requirement("agents.transfer.1", "agents.transfer.2")
async def test_only_sub_agents_are_shown_and_others_are_refused_in_words(place: Place) -> None:
    script = {"support": [calls(to("nobody")), calls(to("law")), calls(to("support")), text("done")]}
    async with world(place, team(), script) as here:
        await here.send("hi")
        (shown,) = [one for one in here.model.requests[0].tools if one.name == "transfer_to_agent"]
        said = [one.text for one in here.model.requests[-1].messages if one.role == "tool"]
    assert shown.schema["properties"]["agent_name"]["enum"] == ["billing"]
    assert "- billing: Knows invoices." in shown.description
    assert said == [
        "[not_found] Agent 'nobody' not found. You can transfer to: billing",
        "[denied] Agent 'law' is not a sub-agent of 'support'. You can transfer to: billing",
        "[denied] Agent 'support' is not a sub-agent of 'support'. You can transfer to: billing",
    ]


@requirement("agents.transfer.3", "agents.transfer.4")
async def test_the_event_tells_who_why_and_what_was_passed_on(place: Place) -> None:
    script = {"support": [calls(to("billing", reason="money", message="Explain 7"))], "billing": [text("7 is 7")]}
    async with world(place, team(), script) as here:
        outcome = await here.send("my invoice?")
        (event,) = await here.log("handover")
        done = await here.result("transfer_to_agent")
        seen = here.model.requests[-1].messages
    assert outcome.answer == "7 is 7"
    assert done["data"] == {"status": "transferred", "to": "billing", "reason": "money"}
    assert done["handover"] == {"to": "billing", "reason": "money", "message": "Explain 7"}
    assert {
        "from": "support",
        "to": "billing",
        "reason": "money",
        "message": "Explain 7",
    }.items() <= event.fields.items()
    assert event.fields["history"].keys() == {"policy", "from_seq", "to_seq", "digest"}
    assert [(one.role, one.text) for one in seen] == [
        ("system", "B."),
        ("user", "my invoice?"),
        ("user", "support handed over to billing: money"),
        ("user", "Explain 7"),
    ]


@requirement("agents.transfer.5")
async def test_the_active_agent_stays_across_a_restart_and_changes_when_asked(place: Place) -> None:
    script = {"support": [calls(to("billing")), text("s")], "billing": [text("b1"), text("b2")], "law": [text("l")]}
    async with world(place, team(), script) as here:
        assert (await here.send("1")).answer == "b1"
    async with world(place, team(), script) as here:
        assert (await here.send("2")).answer == "b2"
        assert (await here.send("3", agent="law")).answer == "l"
        assert [e.fields["reason"] for e in await here.log("handover")] == [None, "user"]
        assert await here.agents.active(here.session) == "law"
        with pytest.raises(Refused, match="did you mean 'law'"):
            await here.send("4", agent="laws")


@requirement("agents.transfer.6")
async def test_a_returning_target_answers_and_the_caller_is_next(place: Place) -> None:
    given = [
        Agent(name="support", instructions="S.", sub_agents=[{"agent": "billing", "returns": True, "history": "none"}]),
        Agent(name="billing", instructions="B."),
    ]
    script = {"support": [calls(to("billing", message="m")), text("again")], "billing": [text("b")]}
    async with world(place, given, script) as here:
        assert (await here.send("first")).answer == "b"
        assert (await here.send("second")).answer == "again"
        kinds = [e.fields.get("reason") for e in await here.log("handover", "run_finished")]
        seen = [one.text for one in here.model.requests[-1].messages]
    assert kinds == [None, "returned", "answered", "answered"]
    assert {"first", "b", "second"} <= set(seen)


@requirement("agents.transfer.7")
async def test_the_limit_of_handovers_is_that_of_the_first_agent(place: Place) -> None:
    script = {
        "support": [calls(to("billing")), calls(("look", {"n": 2}), to("billing")), text("s")],
        "billing": [calls(("look", {"n": 1}), to("support")), text("b")],
    }
    async with world(place, team(max=2), script, look) as here:
        assert (await here.send("x")).answer == "s"
        assert len(await here.log("handover")) == 2
        done = await here.result("transfer_to_agent")
    assert done["failure"]["message"] == "Transfer refused: limit of 2 handovers reached"


@requirement("agents.transfer.7")
async def test_a_push_back_needs_something_new(place: Place) -> None:
    script = {"support": [calls(to("billing"))], "billing": [calls(to("support")), text("b")]}
    async with world(place, team(), script) as here:
        assert (await here.send("x")).answer == "b"
        done = await here.result("transfer_to_agent")
    assert done["failure"]["message"] == "Transfer refused: support > billing > support without anything new"


@requirement("agents.transfer.8")
@pytest.mark.parametrize(
    ("history", "seen"),
    [
        ("none", ["two"]),
        ({"last": 3}, ["one", "two"]),
        ({"last": 4}, ["[1]", "one", "two"]),
        ("full", ["zero", "[1]", "one", "two"]),
    ],
)
async def test_a_target_sees_as_much_as_the_policy_says(place: Place, history: Any, seen: list[str]) -> None:
    script = {
        "support": [calls(("look", {"n": 1})), text("one"), calls(to("billing"))],
        "billing": [text("b")],
    }
    async with world(place, team(history=history), script, look) as here:
        await here.send("zero")
        await here.send("two")
        messages = here.model.requests[-1].messages[1:]
    found = ["[1]" if one.role == "tool" else one.text for one in messages if one.text]
    assert [one for one in found if "handed over" not in one] == seen
    assert not any(call.name == "transfer_to_agent" for one in messages for call in one.calls)


@requirement("agents.transfer.8")
async def test_a_summary_is_made_by_the_model_and_kept_in_the_event(place: Place) -> None:
    script = {"support": [calls(to("billing")), text("They want 7.")], "billing": [text("b")]}
    async with world(place, team(history="summary"), script) as here:
        await here.send("a long story about 7")
        (event,) = await here.log("handover")
        seen = [one.text for one in here.model.requests[-1].messages]
    assert event.fields["history"]["summary"] == "They want 7."
    assert "They want 7." in seen


@requirement("agents.transfer.9")
async def test_a_second_transfer_in_a_turn_is_skipped(place: Place) -> None:
    given = [Agent(name="a", sub_agents=["b", "c"]), Agent(name="b"), Agent(name="c")]
    script = {"a": [calls(to("b"), to("c"), ("look", {}))], "b": [text("b")]}
    async with world(place, given, script, look) as here:
        assert (await here.send("x")).answer == "b"
        done = await here.result("transfer_to_agent")
        order = [e.fields["tool"] for e in await here.log("accepted")]
    assert done["data"] == {"status": "skipped", "message": "Another transfer was made in this turn."}
    assert order[0] == "default.look"


@requirement("agents.transfer.10", "agents.def.5")
async def test_a_target_has_its_own_tools_within_the_session(place: Place) -> None:
    @tool(namespace="closed", read_only=True)
    async def secret() -> str:
        """Tell."""
        return "s"

    given = [Agent(name="a", sub_agents=["b"], tools=[]), Agent(name="b", tools=["look", "closed.*"])]
    script = {
        "a": [calls(("look", {})), calls(to("b"))],
        "b": [calls(("look", {"n": 5}), ("secret", {}), ("closed.secret", {})), text("b")],
    }
    async with world(place, given, script, look, secret) as here:
        await here.send("x")
        results = [one.text for one in here.model.requests[-1].messages if one.role == "tool"]
        offered = [[one.name for one in request.tools] for request in here.model.requests]
    assert results[0].startswith("[not_found] Unknown tool: look")
    assert results[1] == "5"
    assert all(one.startswith("[denied]") for one in results[2:])
    assert offered[0] == ["call_agent", "transfer_to_agent"]
    assert offered[2] == ["look"]


@requirement("agents.transfer.5")
async def test_a_transfer_inside_a_child_changes_only_who_runs_the_child(place: Place) -> None:
    given = [Agent(name="boss", sub_agents=["a"]), Agent(name="a", sub_agents=["b"]), Agent(name="b")]
    script = {
        "boss": [calls(("call_agent", {"agent": "a", "prompt": "p"})), text("boss")],
        "a": [calls(to("b"))],
        "b": [text("from b")],
    }
    async with world(place, given, script) as here:
        assert (await here.send("x")).answer == "boss"
        done = await here.result("call_agent")
        assert await here.agents.active(here.session) == "boss"
    assert done["data"]["answer"] == "from b"

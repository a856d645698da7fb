"""Handovers by whatever route go through one gate, and a log that holds a bad one can be gone on with."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agent.place import calls, text, world
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Crib, Refused, Result, tool
from toolcrib.agent import Agent, Agents
from toolcrib.agent.run_log import LeaseLost
from toolcrib.agent.scripted_model import ScriptedModel
from toolcrib.events import HandedOver, PassedHistory
from toolcrib.store import Write
from toolcrib.store.codec import Stored, encode
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
        assert [e.fields["to"] for e in await here.log("handover")] == ["friend"]


@requirement("reliability.handover.2")
async def test_a_log_that_was_handed_to_nobody_opens_and_works(place: Place) -> None:
    async with world(place, TEAM, {"main": [text("one"), text("two")]}) as here:
        assert (await here.send("go")).answer == "one"
        await here.session._log(HandedOver(source="main", to="nobody", history=PassedHistory("full")))
        assert (await here.send("more")).answer == "two"


def routes(to: str) -> Any:
    """A tool whose result hands over."""

    @tool(name=f"to_{to}", idempotent=True)
    async def route() -> Result:
        """Route."""
        return Result("routed", handover=Handover(to))

    return route


@requirement("reliability.handover.1")
async def test_a_result_cannot_hand_over_to_an_agent_that_may_only_be_called(place: Place) -> None:
    team = [Agent(name="main", sub_agents=[{"agent": "friend", "via": "call"}]), Agent(name="friend")]
    script = {"main": [calls(("to_friend", {})), text("mine")]}
    async with world(place, team, script, routes("friend")) as here:
        assert (await here.send("go")).answer == "mine"
        assert (await here.result("to_friend"))["failure"]["code"] == "denied"
        assert await here.log("handover") == []


@requirement("reliability.handover.1")
async def test_a_result_that_goes_in_a_circle_is_refused(place: Place) -> None:
    team = [Agent(name="main", sub_agents=["friend"]), Agent(name="friend", sub_agents=["main"])]
    script = {"main": [calls(("to_friend", {}))], "friend": [calls(("to_main", {})), text("here")]}
    async with world(place, team, script, routes("friend"), routes("main")) as here:
        assert (await here.send("go")).answer == "here"
        assert (await here.result("to_main"))["failure"]["code"] == "denied"
        assert [event.fields["to"] for event in await here.log("handover")] == ["friend"]


@requirement("reliability.handover.1")
async def test_a_result_beyond_the_limit_of_handovers_is_refused(place: Place) -> None:
    team = [
        Agent(name="main", sub_agents=["friend"], handover={"max": 1}),
        Agent(name="friend", sub_agents=["third"]),
        Agent(name="third"),
    ]
    script = {"main": [calls(("to_friend", {}))], "friend": [calls(("to_third", {})), text("here")]}
    async with world(place, team, script, routes("friend"), routes("third")) as here:
        assert (await here.send("go")).answer == "here"
        failure = (await here.result("to_third"))["failure"]
        assert failure["code"] == "denied"
        assert "limit of 1" in failure["message"]


@requirement("reliability.handover.2")
async def test_a_log_on_disk_that_was_handed_to_nobody_is_gone_on_with_after_a_restart(file_place: Place) -> None:
    async with world(file_place, TEAM, {"main": [text("one")]}) as here:
        assert (await here.send("go")).answer == "one"
        await here.session._log(HandedOver(source="main", to="nobody", history=PassedHistory("full")))
    async with world(file_place, TEAM, {"main": [text("one"), text("two")]}) as here:
        assert (await here.send("more")).answer == "two"


async def going(place: Place, *more: tuple[str | None, str, dict[str, Any]]) -> None:
    """Leaves a run of `main` behind that has asked its model and called one tool; and what else the log says."""
    reply = {
        "role": "assistant",
        "content": "",
        "run": "r1",
        "turn": 1,
        "agent": "main",
        "usage": {},
        "finish": "calls",
    }
    made = {"id": "c1", "tool": "to_friend", "args": "{}", "provider_id": "1"}
    events: list[tuple[str | None, str, dict[str, Any]]] = [
        (None, "run_started", {"run": "r1", "agent": "main", "origin": "user"}),
        (None, "message", {"role": "user", "content": "go", "run": "r1", "key": "k"}),
        (None, "turn_started", {"run": "r1", "turn": 1, "agent": "main"}),
        (None, "message", {**reply, "calls": [made]}),
        *more,
    ]
    async with world(place, TEAM, {"main": []}) as here:
        store = here.session.crib.store
        await store.commit(Write("s", [(1.0, call, kind, Stored(encode(data))) for call, kind, data in events]))


@requirement("reliability.handover.2")
@pytest.mark.parametrize(
    "handover", ["nobody", ["friend"], {"to": "nobody"}, {"to": "stranger", "odd": 1}, {"reason": "x"}, 7]
)
async def test_a_handover_in_an_old_log_that_may_not_be_is_refused_at_the_end_of_its_turn(
    file_place: Place, handover: Any
) -> None:
    await going(file_place, ("c1", "done", {"ok": True, "status": "completed", "data": 1, "handover": handover}))
    async with world(file_place, TEAM, {"main": [text("mine"), text("mine")]}) as here:
        assert (await here.send("go", key="k")).answer == "mine"
        assert await here.log("handover") == []
        assert [event.fields["role"] for event in await here.log("message")].count("note") == 1


@requirement("reliability.handover.2")
async def test_a_run_in_progress_that_the_log_handed_to_nobody_is_given_back(file_place: Place) -> None:
    history = {"policy": "full"}
    await going(
        file_place,
        ("c1", "done", {"ok": True, "status": "completed", "data": 1}),
        (None, "handover", {"run": "r1", "from": "main", "to": "nobody", "history": history}),
        (None, "turn_finished", {"run": "r1", "turn": 1, "agent": "main", "usage": {}, "finish": "calls"}),
    )
    async with world(file_place, TEAM, {"main": [text("mine"), text("mine")]}) as here:
        assert (await here.send("go", key="k")).answer == "mine"
        assert [(e.fields["from"], e.fields["to"]) for e in await here.log("handover")][-1] == ("nobody", "main")


async def plant(place: Place, *events: tuple[str, dict[str, Any]]) -> None:
    """A log that says so."""
    async with world(place, TEAM, {"main": []}) as here:
        await here.session.crib.store.commit(
            Write("s", [(1.0, None, kind, Stored(encode(data))) for kind, data in events])
        )


@requirement("reliability.handover.2")
async def test_a_queued_message_to_an_agent_that_is_gone_is_answered_by_another(file_place: Place) -> None:
    said = {"mode": "followup", "text": "go", "agent": "gone", "key": "k", "id": "m1"}
    await plant(file_place, ("message_queued", said))
    async with world(file_place, TEAM, {"main": [text("mine"), text("again")]}) as here:
        assert (await here.send("go", key="k")).answer == "mine"
        assert (await here.send("more")).answer == "again"


@requirement("reliability.handover.2")
async def test_a_run_that_was_to_return_to_an_agent_that_is_gone_stays_where_it_is(file_place: Place) -> None:
    handed = {"run": "r1", "from": "gone", "to": "friend", "history": {"policy": "full"}, "returns": True}
    await plant(
        file_place,
        ("run_started", {"run": "r1", "agent": "gone", "origin": "user"}),
        ("message", {"role": "user", "content": "go", "run": "r1", "key": "k"}),
        ("handover", handed),
    )
    async with world(file_place, TEAM, {"friend": [text("here"), text("still here")]}) as here:
        assert (await here.send("go", key="k")).answer == "here"
        assert (await here.send("more")).answer == "still here"
        assert [event.fields["to"] for event in await here.log("handover")] == ["friend"]


@requirement("reliability.handover.3")
async def test_a_person_may_talk_to_any_agent_and_is_bound_by_no_limit_of_handovers(place: Place) -> None:
    team = [Agent(name="main", handover={"max": 1}), Agent(name="stranger", handover={"max": 1})]
    script = {"main": [text("m1"), text("m2")], "stranger": [text("s1"), text("s2")]}
    async with world(place, team, script) as here:
        names = ("main", "stranger", "main", "stranger")
        assert [(await here.send("go", agent=name)).answer for name in names] == ["m1", "s1", "m2", "s2"]
        switches = [(e.fields["from"], e.fields["to"], e.fields["reason"]) for e in await here.log("handover")]
        assert switches == [("main", "stranger", "user"), ("stranger", "main", "user"), ("main", "stranger", "user")]


@requirement("reliability.handover.3")
@pytest.mark.parametrize("name", ["nobody", ""])
async def test_a_person_who_asks_for_nobody_is_refused_and_the_log_stays_as_it_was(place: Place, name: str) -> None:
    async with world(place, TEAM, {"main": [text("one"), text("two")]}) as here:
        assert (await here.send("go")).answer == "one"
        before = len([event async for event in here.session.events(follow=False)])
        with pytest.raises(Refused) as refused:
            await here.send("more", agent=name)
        assert refused.value.code == "not_found"
        assert len([event async for event in here.session.events(follow=False)]) == before
        assert (await here.send("more")).answer == "two"


@requirement("reliability.handover.3")
@pytest.mark.parametrize("mode", ["followup", "steer", "collect"])
async def test_a_run_that_goes_on_keeps_its_agent_when_a_person_asks_for_another(place: Place, mode: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(read_only=True)
    async def hold() -> str:
        """Wait."""
        begun.set()
        await go_on.wait()
        return "held"

    script = {"main": [calls(("hold", {})), text("mine")], "stranger": [text("hello")]}
    async with world(place, TEAM, script, hold) as here:
        first = asyncio.ensure_future(here.send("go"))
        await begun.wait()
        second = asyncio.ensure_future(here.send("you", agent="stranger", mode=mode))
        await here.seen("message_queued")
        go_on.set()
        assert [(await one).answer for one in (first, second)] == ["mine", "hello"]


@requirement("reliability.fence.8")
async def test_of_two_processes_that_find_a_run_without_its_call_one_ends_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        leases = []
        for _ in range(2):
            agents = Agents(TEAM, model=ScriptedModel({}))
            crib = await stack.enter_async_context(Crib(store=f"sqlite:///{tmp_path}/log.db", agents=agents))
            session = await crib.open("s", owner="ada")
            leases.append(agents.driver(session).log.lease)
        data = {"run": "r2", "agent": "friend", "reason": "cancelled", "turns": 1, "usage": {}}
        ends = [Write("s", [(1.0, None, "run_finished", Stored(encode(data)))]) for _ in range(2)]
        tries = [lease.end(write, "r2") for lease, write in zip(leases, ends, strict=True)]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        assert [type(one) for one in outcomes if one is not None] == [LeaseLost]
        assert [event.kind async for event in session.events(follow=False)].count("run_finished") == 1

"""Agents that call agents: in the foreground and behind it, stopped, asked, limited, and seen from above."""

import asyncio
from pathlib import Path
from typing import Any

from tests.agent.place import SOON, UNGUARDED, World, calls, text, world
from tests.requirements import requirement
from tests.session.place import Gate, Place
from toolcrib import Context, Crib, Tool, tool
from toolcrib.agent import Agent, Agents, AgentSource, Model, ScriptedModel
from toolcrib.agent.run_scope import scope_of


def call(agent: str, prompt: str = "p", **more: Any) -> tuple[str, dict[str, Any]]:
    return "call_agent", {"agent": agent, "prompt": prompt, **more}


def behind(agent: str, prompt: str = "p") -> tuple[str, dict[str, Any]]:
    return call(agent, prompt, mode="background")


TEAM = [
    Agent(name="boss", instructions="B.", sub_agents=["worker", "helper"]),
    Agent(name="worker", instructions="W.", sub_agents=["helper"]),
    Agent(name="helper", instructions="H."),
]
ran: list[str] = []


@tool(read_only=True)
async def look(n: int = 0) -> int:
    """Look."""
    ran.append(f"look {n}")
    return n


@tool(requires_confirmation=True)
async def pay(cents: int) -> str:
    """Pay."""
    ran.append(f"pay {cents}")
    return f"paid {cents}"


def gated(gate: Gate) -> Tool:
    @tool
    async def slow() -> str:
        """Take long."""
        await gate.passed()
        return "slow"

    return slow


@requirement("agents.call.1")
async def test_a_child_answers_with_its_own_history_and_what_it_used(place: Place) -> None:
    script = {
        "boss": [calls(call("worker", "count to 3"), usage={"input": 5, "output": 1}), text("ok")],
        "worker": [
            calls(("look", {"n": 3}), usage={"input": 2, "output": 2}),
            text("3", usage={"input": 1, "output": 1}),
        ],
    }
    async with world(place, TEAM, script, look) as here:
        outcome = await here.send("go")
        done = await here.result("call_agent")
        child = next(one for one in here.model.requests if one.agent == "worker")
        started = await here.log("run_started")
    assert [one.text for one in child.messages] == ["W.", "count to 3"]
    data = done["data"]
    assert (data["agent"], data["status"], data["answer"], data["turns"]) == ("worker", "answered", "3", 2)
    assert data["usage"]["total"] == 6
    assert outcome.usage["total"] == 12
    assert [e.fields["origin"] for e in started] == ["user", "call"]
    assert started[1].fields["parent"] == started[0].fields["run"]


@requirement("agents.call.1")
async def test_a_blank_prompt_a_stranger_and_a_failure_are_told(place: Place) -> None:
    script: dict[str, Any] = {
        "boss": [calls(call("worker", "  "), call("ghost"), call("boss"), call("worker")), text("ok")],
        "worker": [{"error": {"code": "denied", "message": "no"}}],
    }
    async with world(place, TEAM, script) as here:
        await here.send("go")
        results = [one.text for one in here.model.requests[-1].messages if one.role == "tool"]
    codes = [one.partition("]")[0][1:] for one in results]
    assert codes == ["invalid_arguments", "not_found", "denied", "denied"]
    assert "You can call: worker, helper" in results[1]


@requirement("agents.call.4")
async def test_depth_and_children_are_limited(place: Place) -> None:
    given = [
        Agent(name="boss", sub_agents=["worker"], delegate={"max_depth": 1, "max_children": 2}),
        Agent(name="worker", sub_agents=["helper"]),
        Agent(name="helper"),
    ]
    gate = Gate()
    script = {
        "boss": [calls(behind("worker"), behind("worker"), behind("worker")), text("started"), text("woken")],
        "worker": [calls(call("helper")), calls(("slow", {})), calls(("slow", {})), text("w"), text("w")],
    }
    async with world(place, given, script, gated(gate)) as here:
        await here.send("go")
        results = [e.fields for e in await here.log("done") if not e.fields["ok"]]
        gate.opened.set()
        await here.seen("run_finished", 2, agent="worker")
    messages = {one["failure"]["message"] for one in results}
    assert "An agent may have at most 2 children at a time" in messages
    assert "Agents may call agents at most 1 deep" in messages


@requirement("agents.call.2", "agents.run.11")
async def test_children_behind_tell_their_id_at_once_and_wake_the_boss_once(place: Place) -> None:
    gate = Gate()
    script = {
        "boss": [
            calls(behind("worker", "1"), behind("worker", "2"), behind("worker", "3")),
            text("on it"),
            text("all"),
        ],
        "worker": [*[calls(("slow", {}))] * 3, text("a"), text("b"), text("c")],
    }
    async with world(place, TEAM, script, gated(gate)) as here:
        assert (await here.send("go")).answer == "on it"
        gate.opened.set()
        await here.seen("run_finished", 5)
        last = [one.text for one in here.model.requests[-1].messages]
        runs = [(e.fields["agent"], e.fields["origin"]) for e in await here.log("run_started")]
    assert sum(one.startswith('{"status":"queued","id":') for one in last) == 3
    assert sum("do not call the tool again" in one for one in last) == 3
    assert sum(one.startswith("[[SYSTEM]] Tool result for builtin.call_agent") for one in last) == 3
    assert runs.count(("boss", "wake")) == 1


@requirement("agents.call.3", "agents.builtin.5")
async def test_calls_behind_can_be_listed_watched_told_and_cancelled(place: Place) -> None:
    gate = Gate()
    seen: dict[str, Any] = {}

    class WaitingModel(Model):
        """It knows the id of its child from what it reads."""

        async def respond(self, request: Any) -> Any:
            from toolcrib.agent.models import Finish, ModelCall, Text

            names = {one.name for one in request.tools}
            seen.setdefault(request.agent, []).append((names, request.messages[-1].text))
            turn = len(seen[request.agent])
            id = next(
                (one.text.split('"id":"')[1].split('"')[0] for one in request.messages if '"queued"' in one.text), ""
            )
            steps = {
                ("boss", 1): ("call_agent", '{"agent":"worker","prompt":"p","mode":"background"}'),
                ("boss", 2): ("list_calls", "{}"),
                ("boss", 3): ("call_status", f'{{"id":"{id}"}}'),
                ("boss", 4): ("message_agent", f'{{"id":"{id}","text":"hurry"}}'),
                ("boss", 5): ("wait_calls", f'{{"ids":["{id}"],"timeout_s":0.01}}'),
                ("boss", 6): ("cancel_call", f'{{"id":"{id}"}}'),
                ("boss", 7): ("call_status", '{"id":"c-of-somebody"}'),
                ("worker", 1): ("slow", "{}"),
            }
            step = steps.get((request.agent, turn))
            if step is None:
                yield Text("end")
            else:
                yield ModelCall(f"{request.agent}{turn}", *step)
            yield Finish("stop")

    async with world(place, TEAM, WaitingModel(), gated(gate)) as here:
        await here.send("go")
        await here.seen("run_finished", agent="worker")
        ended = [e.fields["reason"] for e in await here.log("run_finished") if e.fields["agent"] == "worker"]
        queued = [e.fields["text"] for e in await here.log("message_queued")]
        said = str(await here.log("done"))
    assert "list_calls" not in seen["boss"][0][0]
    assert {"list_calls", "call_status", "wait_calls", "cancel_call", "message_agent"} <= seen["boss"][1][0]
    assert '"status":"running"' in seen["boss"][3][1]
    assert '"running":["c' in seen["boss"][5][1]
    assert "{'cancelled': True}" in said
    assert seen["boss"][7][1].startswith("[not_found]")
    assert ended == ["cancelled"]
    assert queued == ["hurry"]


async def asked_below(here: World) -> Any:
    outcome = await here.send("go")
    assert outcome.status == "waiting"
    assert [one.path for one in outcome.questions] == [("boss", "worker", "helper")]
    return outcome.questions[0]


@requirement("agents.call.6", "agents.run.5", "agents.run.6")
async def test_a_question_of_a_grandchild_is_answered_after_a_restart_and_nothing_runs_twice(place: Place) -> None:
    ran.clear()
    script = {
        "boss": [calls(("look", {"n": 1}), call("worker")), text("boss")],
        "worker": [calls(("look", {"n": 2}), call("helper")), text("worker")],
        "helper": [calls(("look", {"n": 3}), ("pay", {"cents": 7})), text("helper")],
    }
    async with world(place, TEAM, script, look, pay) as here:
        await asked_below(here)
    for _ in range(4):
        async with world(place, TEAM, script, look, pay) as here:
            question = await here.question()
    async with world(place, TEAM, script, look, pay) as here:
        await here.session.answer(question.id, "accept")
        outcome = await here.settled()
        runs = [e.fields["run"] for e in await here.log("run_started")]
        waits = [(e.fields["run"], e.kind) for e in await here.log("run_waiting", "run_resumed", "run_finished")]
    assert outcome.answer == "boss"
    assert sorted(ran) == ["look 1", "look 2", "look 3", "pay 7"]
    assert len(runs) == 3
    for run in runs:
        assert [kind for id, kind in waits if id == run] == ["run_waiting", "run_resumed", "run_finished"]
    assert [run for run, kind in waits if kind == "run_finished"] == runs[::-1]


@requirement("agents.call.5", "agents.run.12")
async def test_an_interruption_reaches_what_a_child_waits_for(place: Place) -> None:
    script = {
        "boss": [calls(call("worker")), text("never")],
        "worker": [calls(("pay", {"cents": 7})), text("never")],
    }
    async with world(place, TEAM, script, pay) as here:
        assert (await here.send("go")).status == "waiting"
        await here.session.interrupt()
        ended = [e.fields["reason"] for e in await here.log("run_finished")]
        codes = [e.fields["failure"]["code"] for e in await here.log("done")]
        assert await here.session.questions() == []
    assert ended == ["cancelled", "cancelled"]
    assert codes == ["cancelled", "cancelled"]


@requirement("agents.call.5")
async def test_a_child_behind_outlives_an_interruption_unless_it_is_meant_too(place: Place) -> None:
    gate = Gate()
    script = {"boss": [calls(behind("worker")), text("started"), text("x")], "worker": [calls(("slow", {})), text("w")]}
    async with world(place, TEAM, script, gated(gate)) as here:
        await here.send("go")
        await gate.wait()
        await here.session.interrupt()
        assert [e.fields["agent"] for e in await here.log("run_finished")] == ["boss"]
        await here.session.interrupt(background=True)
        ended = [(e.fields["agent"], e.fields["reason"]) for e in await here.log("run_finished")]
    assert ended[:2] == [("boss", "answered"), ("worker", "cancelled")]


@requirement("agents.call.7")
async def test_what_a_child_does_stands_below_the_call_that_made_it(place: Place) -> None:
    @tool(read_only=True)
    async def step(ctx: Context) -> str:
        """Tell how far it is."""
        ctx.progress("half", 0.5)
        return "s"

    script = {"boss": [calls(call("worker")), text("b")], "worker": [calls(("step", {})), text("w")]}
    async with world(place, TEAM, script, step) as here:
        await here.send("go")
        nodes = await here.session.progress()
    assert [(one["tool_name"], one.get("progress")) for one in nodes] == [("call_agent", None), ("step", 0.5)]
    assert nodes[1]["parent_call_id"] == nodes[0]["call_id"]


@requirement("agents.call.3")
async def test_what_a_child_is_told_is_read_in_its_next_turn(place: Place) -> None:
    gate = Gate()

    @tool(namespace="default", read_only=True)
    async def tell(ctx: Context) -> str:
        """Tell the child."""
        scope = scope_of(ctx)
        (note,) = [one for one in scope.driver.conversation.visible_calls(scope.now) if one.background]
        await gate.wait()
        return str((await ctx.call("builtin.message_agent", {"id": note.id, "text": "be brief"})).data)

    script = {
        "boss": [calls(behind("worker")), calls(("tell", {})), text("told"), text("x")],
        "worker": [calls(("slow", {})), text("brief")],
    }
    async with world(place, TEAM, script, tell, gated(gate)) as here:
        await here.send("go")
        gate.opened.set()
        await here.seen("run_finished", agent="worker")
        last = [one for one in here.model.requests if one.agent == "worker"][-1]
    assert last.messages[-1].text == "be brief"


@requirement("agents.builtin.1")
async def test_a_tool_may_have_an_agent_work_for_it(place: Place) -> None:
    @tool(read_only=True)
    async def ask_worker(ctx: Context) -> str:
        """Ask."""
        assert ctx.run is not None
        result = await ctx.run.spawn("worker", "what?")
        return str(result.data["answer"])

    script = {"boss": [calls(("ask_worker", {})), text("b")], "worker": [text("that")]}
    async with world(place, TEAM, script, ask_worker) as here:
        await here.send("go")
        assert (await here.result("ask_worker"))["data"] == "that"


@requirement("agents.call.1")
async def test_an_agent_is_a_tool_that_anybody_may_call(place: Place) -> None:
    agents = Agents(TEAM, model=ScriptedModel({"worker": [calls(call("helper")), text("w")], "helper": [text("h")]}))
    async with place.crib(AgentSource(agents), agents=agents, policy=UNGUARDED) as crib:
        session = await crib.open("s", owner="ada", namespaces=["agents"])
        result = await session.call("agents.worker", {"prompt": "go"})
        assert (await session.call("agents.worker", {"prompt": ""})).failure is not None
        started = [e.fields async for e in session.events(follow=False) if e.kind == "run_started"]
    assert (result.data["status"], result.data["answer"]) == ("answered", "w")
    assert [(one["agent"], one["origin"]) for one in started] == [("worker", "api"), ("helper", "call")]


@requirement("agents.call.1")
async def test_the_run_of_an_agent_that_a_client_called_ends_with_a_call_that_nobody_can_go_on_with(
    tmp_path: Path,
) -> None:
    store, gate = f"sqlite:///{tmp_path}/log.db", Gate()
    script = {"worker": [calls(("slow", {})), text("w")]}
    agents = Agents(TEAM, model=ScriptedModel(script))
    async with Crib([AgentSource(agents), gated(gate)], agents=agents, store=store, policy=UNGUARDED) as crib:
        session = await crib.open("s", owner="ada", namespaces=["agents", "default"])
        call = await session.submit("agents.worker", {"prompt": "go"})
        await gate.wait()
        await crib.stop(grace=0)
    agents = Agents([Agent(name="boss")], model=ScriptedModel({}))  # the worker is gone
    async with Crib([gated(gate)], agents=agents, store=store, policy=UNGUARDED) as crib:
        session = await crib.open("s", owner="ada")
        assert (await asyncio.wait_for(session.result(call.id), SOON)).failure is not None
        async with asyncio.timeout(SOON):
            async for event in session.events():
                if event.kind == "run_finished":
                    break
        assert event.fields["agent"] == "worker"

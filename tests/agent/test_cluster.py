"""Agents on the nodes of a cluster: one goes on with a run, any may run its calls."""

import asyncio
import sys

from tests.agent import lost_node
from tests.agent.place import UNGUARDED, calls, text
from tests.requirements import requirement
from toolcrib import Crib, Event, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.engine.nats import Nats

TEAM = [Agent(name="boss", sub_agents=["worker"]), Agent(name="worker", tools=["pay"])]
SCRIPT = {
    "boss": [
        calls(("pay", {"n": 1}), ("pay", {"n": 2}), ("ship", {})),
        calls(("call_agent", {"agent": "worker", "prompt": "p"})),
        text("b"),
    ],
    "worker": [calls(("pay", {"n": 3}), ("ship", {})), text("w")],
}


@requirement("agents.run.6", "agents.run.3")
async def test_calls_of_a_run_are_run_by_any_node_and_its_loop_by_one(postgres_url: str, nats_url: str) -> None:
    ran: list[int] = []

    @tool
    async def pay(n: int) -> int:
        """Pay."""
        ran.append(n)
        return n

    @tool(requires_confirmation=True)
    async def ship() -> str:
        """Ship."""
        return "shipped"

    def node(*, work: bool) -> Crib:
        agents = Agents(TEAM, model=ScriptedModel(SCRIPT))
        engine = Nats(nats_url, work=work)
        return Crib([pay, ship], store=postgres_url, engine=engine, agents=agents, policy=UNGUARDED)

    async with node(work=False) as front, node(work=True) as back, asyncio.timeout(40):
        session = await front.open("s", owner="ada")
        outcome = await session.send("go")
        assert outcome.status == "waiting"
        there = await back.open("s", owner="ada")
        await there.answer(outcome.questions[0].id, "accept")
        async for event in session.events():
            if event.kind == "run_finished" and event.fields["agent"] == "boss":
                break
        log = [event async for event in session.events(follow=False)]
    assert event.fields["answer"] == "b"
    assert sorted(ran) == [1, 2, 3]
    codes = [e.fields["failure"]["code"] for e in log if e.kind == "done" and not e.fields["ok"]]
    assert codes == ["not_found"]
    assert sum(e.kind == "run_started" for e in log) == 2


async def taken_over(postgres_url: str, nats_url: str, agent: str) -> list[Event]:
    """The log of a session whose node is killed while a tool of the agent runs, when another has ended its work."""
    command = [sys.executable, "-m", "tests.agent.lost_node", postgres_url, nats_url, agent]
    lost = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert lost.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await lost.stdout.readline() == b"here\n"
    finally:
        lost.kill()
        await lost.communicate()

    @tool(read_only=True)
    async def stay() -> str:
        """Stay for a moment."""
        return "stayed"

    async with lost_node.node(postgres_url, nats_url, stay, lost_node.look) as crib, asyncio.timeout(300):
        session = await crib.open("s", owner="ada")
        async for event in session.events():
            if event.kind == "run_finished" and event.fields.get("answer") == "It is done.":
                break
        return [event async for event in session.events(follow=False)]


async def test_a_script_of_a_node_that_died_is_taken_over(postgres_url: str, nats_url: str) -> None:
    log = await taken_over(postgres_url, nats_url, "writer")
    ended = [event.fields for event in log if event.kind == "done"]
    assert [data["data"] for data in ended] == [1, "stayed", 2, {"result": [1, "stayed", 2]}]


@requirement("agents.run.6", "agents.call.2")
async def test_a_built_in_of_a_node_that_died_is_taken_over(postgres_url: str, nats_url: str) -> None:
    log = await taken_over(postgres_url, nats_url, "boss")
    assert [e.fields["agent"] for e in log if e.kind == "run_started"] == ["boss", "worker", "boss"]
    ended = [e.fields for e in log if e.kind == "done"]
    assert [data["ok"] for data in ended] == [True, True]
    assert ended[1]["data"]["answer"] == "stayed"


async def test_a_script_goes_on_where_its_call_was_answered(postgres_url: str, nats_url: str) -> None:
    did: list[str] = []

    @tool(idempotent=True)
    async def look(n: int) -> int:
        """Look."""
        did.append(f"look {n}")
        return n

    @tool(requires_confirmation=True, concurrency=1)
    async def pay(cents: int) -> str:
        """Pay."""
        did.append("pay")
        return "paid"

    code = "a = await look(1)\nb = await pay(a)\n[a, b, await look(2)]"
    script = {"main": [calls(("run_script", {"code": code})), text("so")]}
    writer = Agent(name="main", tools=["*", "run_script"])

    def node(*, work: bool) -> Crib:
        agents = Agents([writer], model=ScriptedModel(script))
        engine = Nats(nats_url, work=work)
        return Crib([look, pay], store=postgres_url, engine=engine, agents=agents, policy=UNGUARDED)

    async with node(work=False) as front, node(work=True) as back, asyncio.timeout(60):
        session = await front.open("s", owner="ada")
        outcome = await session.send("go")
        assert (outcome.status, len(outcome.questions)) == ("waiting", 1)
        assert session.live == {}
        there = await back.open("s", owner="ada")
        await there.answer(outcome.questions[0].id, "accept")
        async for event in session.events():
            if event.kind == "run_finished":
                break
        log = [event async for event in session.events(follow=False)]
    assert event.fields["answer"] == "so"
    assert did == ["look 1", "pay", "look 2"]
    assert [e.fields["data"]["result"] for e in log if e.kind == "done" and "result" in str(e.fields["data"])] == [
        [1, "paid", 2]
    ]

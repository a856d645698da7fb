"""Agents on the nodes of a cluster: one goes on with a run, any may run its calls."""

import asyncio

from tests.agent.place import calls, text
from tests.requirements import requirement
from toolcrib import Crib, tool
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
        return Crib([pay, ship], store=postgres_url, engine=Nats(nats_url, work=work), agents=agents)

    async with node(work=False) as front, node(work=True) as back, asyncio.timeout(40):
        session = await front.open("s", owner="ada")
        outcome = await session.send("go")
        assert outcome.status == "waiting"
        there = await back.open("s", owner="ada")
        await there.answer(outcome.questions[0].id, "accept")
        async for event in session.events():
            if event.kind == "run_finished" and event.data["agent"] == "boss":
                break
        log = [event async for event in session.events(follow=False)]
    assert event.data["answer"] == "b"
    assert sorted(ran) == [1, 2, 3]
    codes = [e.data["failure"]["code"] for e in log if e.kind == "done" and not e.data["ok"]]
    assert codes == ["not_found"]
    assert sum(e.kind == "run_started" for e in log) == 2

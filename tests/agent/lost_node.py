"""A node of a cluster with agents: `python -m tests.agent.lost_node POSTGRES NATS AGENT`. It says when its tool runs,
and is then to be killed.
"""

import asyncio
import sys
from typing import Any

from tests.agent.place import UNGUARDED, calls, text
from toolcrib import Crib, Tool, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.engine.nats import Nats

LEASE_S = 5.0
TEAM = [
    Agent(name="boss", sub_agents=["worker"]),
    Agent(name="worker", tools=["stay"]),
    Agent(name="writer", tools=["*", "run_script"]),
]
SCRIPT: dict[str, Any] = {
    "boss": [
        calls(("call_agent", {"agent": "worker", "prompt": "p", "mode": "background"})),
        text("It is under way."),
        text("It is done."),
    ],
    "worker": [calls(("stay", {})), text("stayed")],
    "writer": [calls(("run_script", {"code": "[await look(1), await stay(), await look(2)]"})), text("It is done.")],
}


def node(postgres: str, nats: str, *tools: Tool) -> Crib:
    store = f"{postgres}{'&' if '?' in postgres else '?'}lease={LEASE_S}"
    agents = Agents(TEAM, model=ScriptedModel(SCRIPT))
    return Crib(tools, store=store, engine=Nats(nats, lease=LEASE_S), agents=agents, policy=UNGUARDED)


@tool(idempotent=True)
async def look(n: int) -> int:
    """Look."""
    return n


async def main(postgres: str, nats: str, agent: str) -> None:
    @tool(read_only=True)
    async def stay() -> str:
        """Stay for ever."""
        print("here", flush=True)
        await asyncio.Event().wait()
        return "never"

    async with node(postgres, nats, stay, look) as crib:
        session = await crib.open("s", owner="ada")
        await session.send("go", agent=agent)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

import asyncio

from toolcrib import Context, Crib
from toolcrib.agent import Agent, Agents, ScriptedModel, builtin


@builtin(read_only=True)
async def wrap_up(ctx: Context, last: int) -> str:
    """End the work with the last messages."""
    assert ctx.run is not None  # only agents have this tool
    ctx.run.finish(" / ".join(message.text for message in ctx.run.messages[-last:]))
    return "over"


SCRIPT = {"main": [{"text": "So.", "calls": [{"tool": "wrap_up", "args": {"last": 2}}]}]}


async def main() -> None:
    agents = Agents([Agent(name="main", instructions="You end things.")], model=ScriptedModel(SCRIPT))
    async with Crib(agents=agents) as crib:
        session = await crib.open(owner="ada")
        print((await session.send("hello")).answer)


asyncio.run(main())

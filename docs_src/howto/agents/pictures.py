"""A picture of a tool and one of a user, as a model gets them."""

import asyncio
import base64
from typing import Any

from toolcrib import Block, Crib, block, tool
from toolcrib.agent import Agent, Agents, ScriptedModel

DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
SCRIPT: dict[str, Any] = {"main": [{"calls": [{"tool": "plot"}]}, {"text": "Both are red dots."}]}


@tool(read_only=True)
async def plot() -> list[Block]:
    """Plot the sales of today."""
    return [block("text", text="Sales:"), block("image", data=DOT, name="sales.png")]


async def main() -> None:
    model = ScriptedModel(SCRIPT)
    async with Crib([plot], agents=Agents([Agent(name="main")], model=model)) as crib:
        session = await crib.open(owner="ada")
        outcome = await session.send(["Does the plot look like this?", block("image", data=DOT)])
        print(outcome.answer)
        for message in model.requests[-1].messages:
            if message.parts:
                print(message.role, [part if isinstance(part, str) else part.mime_type for part in message.parts])
        async for event in session.events(follow=False):
            if event.kind == "message" and "parts" in event.fields:
                print(event.fields["content"])


asyncio.run(main())

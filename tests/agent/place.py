"""What the tests of agents share: a crib with agents and a script, and ways to look at what they did."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.session.place import Place
from toolcrib import Event, Session
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.types import Question

SOON = 60.0

UNGUARDED = {"preset": "developer"}
"""The policy of tests that are not about where the values of a call come from: their models make them up."""


def calls(*given: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A turn that calls tools."""
    return {"calls": [{"tool": tool, "args": args} for tool, args in given], **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    """A turn that answers."""
    return {"text": said, **more}


class World:
    """A session with agents in it."""

    def __init__(self, session: Session, agents: Agents, model: Any) -> None:
        self.session = session
        self.agents = agents
        self.model = model

    async def send(self, said: Any, **options: Any) -> Any:
        return await asyncio.wait_for(self.session.send(said, **options), SOON)

    async def log(self, *kinds: str) -> list[Event]:
        events = [event async for event in self.session.events(follow=False)]
        return [event for event in events if not kinds or event.kind in kinds]

    async def seen(self, kind: str, times: int = 1, **data: Any) -> Event:
        """The event of that kind, as soon as it was there so often."""
        async with asyncio.timeout(SOON):
            async for event in self.session.events():
                if event.kind == kind and all(event.fields.get(name) == value for name, value in data.items()):
                    times -= 1
                    if not times:
                        return event
        raise AssertionError(kind)

    async def settled(self) -> Any:
        return await asyncio.wait_for(self.agents.settled(self.session), SOON)

    async def question(self) -> Question:
        (one,) = await self.session.questions()
        return one

    async def result(self, tool: str) -> dict[str, Any]:
        """The `done` of the last call of a tool."""
        ids = [e.call for e in await self.log("accepted") if e.fields["tool"].partition(".")[2] == tool]
        return next(e.fields for e in await self.log("done") if e.call == ids[-1])


@asynccontextmanager
async def world(place: Place, given: list[Agent], script: Any, *tools: Any, **options: Any) -> AsyncIterator[World]:
    """A crib with a session `s`; `script` is that of a `ScriptedModel`, or a model."""
    model = ScriptedModel(script) if isinstance(script, dict) else script
    agents = Agents(given, model=model)
    async with place.crib(*tools, agents=agents, **{"policy": UNGUARDED, **options}) as crib:
        yield World(await crib.open("s", owner="ada"), agents, model)

"""What an agent sees: its tools after selection, and the agents that it may reach."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib.agent import Agent, Agents, offers
from toolcrib.agent.lines import Line
from toolcrib.agent.thread import Run
from toolcrib.session import Session


class Seen(NamedTuple):
    """A tool as the model of an agent sees it; one that is `listed` only by name and one line."""

    name: str
    id: str
    description: str
    listed: bool


class Sight(NamedTuple):
    """What an agent sees in a session."""

    tools: list[Seen]
    transfer: list[str]
    call: list[str]


def sight(agents: Agents, session: Session, agent: Agent) -> Sight:
    """What the model of an agent is offered when a run begins."""
    room = agents.room(session)
    offer = room.offer(Run("", agent.name, agent.name, "user", Line(), 0.0), agent)
    listed = set(offers.named_only(offer, agent, set()))
    tools = [
        Seen(name, tool.id, tool.description.partition("\n")[0], name in listed) for name, tool in offer.shown.items()
    ]
    book = agents.book
    return Sight(tools, list(book.reached(agent, "transfer")), list(book.reached(agent, "call")))

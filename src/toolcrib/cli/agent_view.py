"""What an agent sees: its tools after selection, and the agents that it may reach."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib.agent import Agent, Agents, toolset
from toolcrib.agent.conversation import AgentRun
from toolcrib.agent.transcript import Transcript
from toolcrib.session import Session


class ToolSummary(NamedTuple):
    """A tool as the model of an agent sees it; one that is `listed` only by name and one line."""

    name: str
    id: str
    description: str
    listed: bool


class AgentView(NamedTuple):
    """What an agent sees in a session."""

    tools: list[ToolSummary]
    transfer: list[str]
    call: list[str]


def sight(agents: Agents, session: Session, agent: Agent) -> AgentView:
    """What the model of an agent is offered when a run begins."""
    driver = agents.driver(session)
    tools = driver.toolset(AgentRun("", agent.name, agent.name, "user", Transcript(), 0.0), agent)
    listed = set(toolset.named_only(tools, agent, ())) if tools.many else set[str]()
    summaries = [
        ToolSummary(name, tool.id, tool.description.partition("\n")[0], name in listed)
        for name, tool in tools.shown.items()
    ]
    registry = agents.registry
    return AgentView(summaries, list(registry.reached(agent, "transfer")), list(registry.reached(agent, "call")))

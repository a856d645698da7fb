"""Agents as tools: each under its own name, so that whoever may call tools may ask an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from toolcrib._call.live_call import call_behind
from toolcrib.agent import standard_tools
from toolcrib.agent.definition import Agent
from toolcrib.agent.runtime import Agents
from toolcrib.session import Session
from toolcrib.sources import Source
from toolcrib.tool import Tool
from toolcrib.types import Limits

SCHEMA = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "minLength": 1, "description": "What the agent is asked."}},
    "required": ["prompt"],
}


class AgentSource(Source):
    """The agents of a crib as a source of tools, in namespace `agents` unless said."""

    def __init__(self, agents: Agents, namespace: str = "agents") -> None:
        self.name = namespace
        self._agents = agents

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """A tool for each agent."""
        return [self._tool(agent) for agent in self._agents.registry.values()]

    def _tool(self, agent: Agent) -> Tool:
        async def run(ctx: Any, values: Mapping[str, Any]) -> Any:
            live = call_behind(ctx)
            driver = self._agents.driver(cast(Session, live.session))
            return await standard_tools.worked(
                driver, live, self._agents.registry[agent.name], values["prompt"], live.run
            )

        made: Tool = Tool(
            name=agent.name,
            namespace=self.name,
            source=self.name,
            description=agent.description or f"Ask the agent {agent.name}.",
            input_schema=SCHEMA,
            effect="idempotent",
            resumes=True,
            limits=Limits(timeout_s=standard_tools.LONG, repeat=None),
            run=run,
        )
        return made

"""Agents: their definitions, the models they speak with, and the loop that runs them over a session.

agents = Agents([Agent(name="support", instructions="You help.", sub_agents=["billing"]), "agents/"], model=model)
async with Crib([search], agents=agents) as crib:
    session = await crib.open("s-1", owner="ada")
    outcome = await session.send("my invoice?")
    print(outcome.status, outcome.answer, outcome.questions)
"""

from toolcrib.agent import builtins
from toolcrib.agent.builtins import builtin
from toolcrib.agent.conversation import RunOutcome
from toolcrib.agent.definition import Agent
from toolcrib.agent.models import CompletionRequest, Message, Model, ModelError
from toolcrib.agent.problems import BadAgent
from toolcrib.agent.providers import ProviderModel, Providers
from toolcrib.agent.registry import AgentRegistry, load
from toolcrib.agent.runtime import Agents
from toolcrib.agent.scripted_model import ScriptedModel, ScriptExhausted, record
from toolcrib.agent.source import AgentSource

__all__ = [
    "Agent",
    "AgentRegistry",
    "AgentSource",
    "Agents",
    "BadAgent",
    "CompletionRequest",
    "Message",
    "Model",
    "ModelError",
    "ProviderModel",
    "Providers",
    "RunOutcome",
    "ScriptExhausted",
    "ScriptedModel",
    "builtin",
    "builtins",
    "load",
    "record",
]

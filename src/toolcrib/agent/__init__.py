"""Agents: their definitions, the models they speak with, and the loop that runs them over a session.

agents = Agents([Agent(name="support", instructions="You help.", sub_agents=["billing"]), "agents/"], model=model)
async with Crib([search], agents=agents) as crib:
    session = await crib.open("s-1", owner="ada")
    outcome = await session.send("my invoice?")
    print(outcome.status, outcome.answer, outcome.questions)
"""

from toolcrib.agent import builtins
from toolcrib.agent.book import Book, load
from toolcrib.agent.builtins import builtin
from toolcrib.agent.definition import Agent
from toolcrib.agent.models import Message, Model, ModelError, Request
from toolcrib.agent.problems import BadAgent
from toolcrib.agent.providers import ProviderModel, Providers
from toolcrib.agent.runtime import Agents, Outcome
from toolcrib.agent.scripted import ScriptedModel, ScriptExhausted, record
from toolcrib.agent.source import AgentSource

__all__ = [
    "Agent",
    "AgentSource",
    "Agents",
    "BadAgent",
    "Book",
    "Message",
    "Model",
    "ModelError",
    "Outcome",
    "ProviderModel",
    "Providers",
    "Request",
    "ScriptExhausted",
    "ScriptedModel",
    "builtin",
    "builtins",
    "load",
    "record",
]

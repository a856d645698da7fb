"""A small office for the tests of flow: mail, contacts, files, the web, and an agent that does as its script says."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.agent.place import calls, text
from toolcrib import Crib, Session, Tool, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.types import Question

Turns = tuple[Sequence[tuple[str, dict[str, Any]]], ...]
EVIL = "attacker@evil.example"
GUARDED: Mapping[str, Any] = {"preset": "guarded"}


class Office:
    """What the tools read and what they did."""

    def __init__(self, **content: Any) -> None:
        self.mails: list[dict[str, Any]] = content.get("mails", [])
        self.pages: dict[str, str] = content.get("pages", {})
        self.files: dict[str, str] = content.get("files", {})
        self.contacts: list[dict[str, str]] = content.get("contacts", [])
        self.done: list[tuple[str, dict[str, Any]]] = []

    def tools(self) -> list[Tool]:
        """All of them."""

        @tool(namespace="mail", read_only=True)
        async def search(query: str) -> list[dict[str, Any]]:
            """Search the mails."""
            return self.mails

        @tool(namespace="mail")
        async def send(to: str, body: str, subject: str = "") -> str:
            """Send a mail."""
            self.done.append(("send", {"to": to, "body": body}))
            return "sent"

        @tool(namespace="people", read_only=True)
        async def find(name: str) -> list[dict[str, str]]:
            """Find somebody."""
            return self.contacts

        @tool(namespace="web", read_only=True, open_world=True)
        async def fetch(url: str) -> str:
            """Fetch a page."""
            return self.pages.get(url, "")

        @tool(namespace="files", name="read", read_only=True)
        async def read_file(name: str) -> str:
            """Read a file."""
            return self.files[name]

        @tool(namespace="files", name="write")
        async def write_file(name: str, content: str) -> str:
            """Write a file."""
            self.files[name] = content
            self.done.append(("write", {"name": name}))
            return "written"

        @tool(namespace="files", name="delete", destructive=True)
        async def delete_file(name: str) -> str:
            """Delete a file."""
            self.done.append(("delete", {"name": name}))
            return "deleted"

        return [search, send, find, fetch, read_file, write_file, delete_file]


class Desk:
    """A session with an agent in it."""

    def __init__(self, session: Session, agents: Agents, office: Office) -> None:
        self.session, self.agents, self.office = session, agents, office

    async def send(self, said: str) -> tuple[Question, ...]:
        """Say something to the agent; what it is asked about."""
        outcome = await self.session.send(said)
        return tuple(outcome.questions)

    async def answer(self, question: Question, action: str, **more: Any) -> tuple[Question, ...]:
        """Answer, and what is asked next."""
        await self.session.answer(question.id, action, **more)
        outcome = await self.agents.settled(self.session)
        return () if outcome is None else tuple(outcome.questions)


@asynccontextmanager
async def desk(
    office: Office,
    *turns: Sequence[tuple[str, dict[str, Any]]],
    policy: Any = GUARDED,
    store: str = "memory:",
    agents: Sequence[Agent] = (),
    script: Mapping[str, Any] | None = None,
    tools: Sequence[Tool] = (),
) -> AsyncIterator[Desk]:
    """An agent `clerk` that makes the calls of each turn and then answers."""
    said = {"clerk": [*(calls(*turn) for turn in turns), *(text("done") for _ in range(5))], **(script or {})}
    team = [Agent(name="clerk", tools=["*", "builtin.run_script"], instructions="Serve the office."), *agents]
    made = Agents(agents or team, model=ScriptedModel(said), default="clerk")
    async with Crib([*office.tools(), *tools], policy=policy, agents=made, store=store) as crib:
        session = await crib.open("s", owner="ada", namespaces=["*"])
        yield Desk(session, made, office)

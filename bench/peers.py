"""Who runs beside us: the rows of the table, and what each one needs."""

import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORKERS = HERE / "workers"


@dataclass(frozen=True, slots=True)
class Peer:
    """A library of others, in a virtual environment of its own."""

    name: str
    requirement: str
    worker: str

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is installed: the peer, and the pydantic of this environment, so that the limit is the same for all."""
        return (self.requirement, f"pydantic=={version('pydantic')}")


@dataclass(frozen=True, slots=True)
class Command:
    """A row of the table: how its worker is started."""

    row: str
    argv: tuple[str, ...]


# fastmcp 4.1.3 and langchain-core 1.7.3 and newer want a certifi that was not published when these pins were made.
PEERS = (
    Peer("openai-agents", "openai-agents==0.24.0", "openai_agents_worker.py"),
    Peer("pydantic-ai", "pydantic-ai-slim==2.66.0", "pydantic_ai_worker.py"),
    Peer("mcp", "mcp==2.3.0", "mcp_worker.py"),
    Peer("google-adk", "google-adk==2.13.0", "google_adk_worker.py"),
    Peer("fastmcp", "fastmcp==4.1.2", "fastmcp_worker.py"),
    Peer("langchain", "langchain-core==1.7.2", "langchain_worker.py"),
)

# Who runs whole turns of an agent; those above have their environments already.
TURNS = (
    Peer("google-adk", "google-adk==2.13.0", "turns_google_adk.py"),
    Peer("langgraph", "langgraph==1.2.11", "turns_langgraph.py"),
    Peer("pydantic-ai", "pydantic-ai-slim==2.66.0", "turns_pydantic_ai.py"),
    Peer("openai-agents", "openai-agents==0.24.0", "turns_openai_agents.py"),
)

LIMIT = "limit"
MEMORY = "toolcrib (memory)"
SQLITE = "toolcrib (sqlite, read fast path)"


def _own(row: str, worker: str, *arguments: str) -> Command:
    return Command(row, (sys.executable, str(WORKERS / worker), *arguments))


OWN = (
    _own(LIMIT, "limit_worker.py"),
    _own(MEMORY, "toolcrib_worker.py", "memory"),
    _own(SQLITE, "toolcrib_worker.py", "sqlite"),
)

"""The agent frameworks that have an adapter, each with what its environment holds."""

from dataclasses import dataclass

from bench.peers import ROOT

TESTING = ("pytest>=8.4", "pytest-asyncio>=1.0", "pytest-timeout>=2.4")


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework in a virtual environment of its own, with Toolcrib beside it."""

    module: str
    title: str
    packages: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its environment."""
        return f"adapter-{self.module.replace('_', '-')}"

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is installed there."""
        return (*self.packages, *TESTING, "--editable", str(ROOT))


FRAMEWORKS = (
    Framework(
        "langchain",
        "LangChain / LangGraph",
        ("langchain==1.4.7", "langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2", "langchain-core==1.7.2"),
    ),
    Framework("pydantic_ai", "Pydantic AI", ("pydantic-ai-slim==2.66.0",)),
    Framework("openai_agents", "OpenAI Agents", ("openai-agents==0.24.0",)),
    Framework("google_adk", "Google ADK", ("google-adk==2.13.0",)),
    Framework("microsoft", "Microsoft Agent Framework", ("agent-framework-core==1.23.0",)),
    Framework("claude", "Claude Agent SDK", ("claude-agent-sdk==0.2.183",)),
)

MIGRATIONS = (Framework("fastmcp", "FastMCP", ("fastmcp==4.1.2",)),)
"""Those that have a page about coming from them, and no adapter."""

PAGES = (Framework("notebook", "Jupyter", ("ipykernel==7.4.0", "nbclient==0.11.0")),)
"""What pages are about that are no frameworks, and whose programs need an environment of their own."""

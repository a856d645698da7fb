"""The tests here need a framework each, in an environment of its own: `make adapters`."""

from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = {
    "langchain": "langgraph",
    "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents",
    "google_adk": "google.adk",
    "claude": "claude_agent_sdk",
    "microsoft": "agent_framework",
    "fastmcp": "fastmcp",
    "notebook": "nbclient",
}


def is_missing(package: str) -> bool:
    """True if this environment lacks a package."""
    try:
        return find_spec(package) is None
    except ModuleNotFoundError:
        return True


collect_ignore = [
    path.name
    for path in Path(__file__).parent.glob("test_*.py")
    if is_missing(PACKAGES.get(path.stem.removeprefix("test_"), "pytest"))
]


def pytest_configure(config: pytest.Config) -> None:
    """Know the marks of the whole suite, whose own set-up is not loaded in these environments."""
    config.addinivalue_line("markers", "requirement(*ids): the requirements that the test holds")
    config.addinivalue_line("markers", "process: starts processes")

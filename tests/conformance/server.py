"""The fixture server: an ordinary program that serves a crib and a library. Usage: server PORT [STORE]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.conformance.library import library
from tests.conformance.tools import TOOLS
from toolcrib import Crib, Tool, tool
from toolcrib.serve.http import Site, run
from toolcrib.serve.mcp import McpServerSettings
from toolcrib.sources.skills import Skills


def made(store: str = "memory:") -> tuple[Crib, Site]:
    """The crib and its site."""
    crib = Crib([*TOOLS, library, Skills(Path(__file__).parent / "skills")], store=store)

    @tool(read_only=True)
    async def test_trigger_tool_change() -> str:
        """Change the list of tools."""
        if crib.catalog.get("default.passing") is None:
            crib.add(Tool(name="passing", description="A tool that comes and goes.", run=_nothing))
        else:
            crib.remove("default.passing")
        return "The list of tools has changed"

    @tool(read_only=True)
    async def test_trigger_prompt_change() -> str:
        """Change the list of prompts."""
        if "passing" in library.prompts:
            library.remove("passing")
        else:
            library.prompt(_passing, name="passing")
        return "The list of prompts has changed"

    crib.add(test_trigger_tool_change, test_trigger_prompt_change)
    settings = McpServerSettings(
        name="toolcrib-conformance", namespaces=("*",), task_after_s=0.5, stream_s=1.5, instructions="Try everything."
    )
    return crib, Site(crib, library=library, mcp=settings)


async def _nothing(ctx: Any, values: Any) -> str:
    return "nothing"


async def _passing() -> str:
    """A prompt that comes and goes."""
    return "nothing"


if __name__ == "__main__":
    run(made(*sys.argv[2:])[1], port=int(sys.argv[1]))

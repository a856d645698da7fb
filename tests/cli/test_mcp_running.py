"""`toolcrib mcp refresh`, `restart` and `logs` against a server that runs."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.place import serving
from tests.sources.mcp.peers import offers
from tests.sources.mcp.place import PEERS
from toolcrib import Crib
from toolcrib.sources.mcp import Mcp

pytestmark = pytest.mark.process


async def run(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "toolcrib",
        "mcp",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@requirement("gateway.sources.3")
async def test_servers_of_a_running_crib_are_looked_after_from_the_command_line() -> None:
    source = Mcp(sys.executable, str(PEERS / "offers.py"), "one", name="one", required=True)
    async with Crib([source]) as crib, serving(crib) as place:
        assert await run("logs", "one", "--url", place.url) == (0, "one begins\n")
        code, out = await run("restart", "one", "--url", place.url)
        assert (code, out) == (0, f"one: ok, {len(offers.TOOLS)} tools\n")
        code, out = await run("refresh", "one", "--url", place.url, "--json")
        told: Any = json.loads(out)
        assert (code, told["connections"], told["tools"]) == (0, 1, len(offers.TOOLS))
        code, out = await run("refresh", "two", "--url", place.url)
        assert code == 1
        assert "There is no such MCP server" in out

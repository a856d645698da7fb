"""The official SDK as a client, and our own source of MCP tools: both can use a crib."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.place import Place
from toolcrib import Crib

mcp = pytest.importorskip("mcp")
ROOT = Path(__file__).parents[2]


@requirement("mcp.server.1", "mcp.server.10", "mcp.server.12")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_client_of_the_sdk_uses_a_crib(place: Place, mode: str) -> None:
    from mcp import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with Client(f"{place.url}/mcp", mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert "add" in [tool.name for tool in tools]
            called = await client.call_tool("total", {"a": 3})
            assert called.structured_content == {"sum": 3}
            read = await client.read_resource("note://today")
            assert getattr(read.contents[0], "text", None) == "# Today"
            prompt = await client.get_prompt("explain", {"topic": "tea"})
            assert len(prompt.messages) == 2


@requirement("mcp.server.3", "mcp.server.13")
async def test_our_own_source_uses_a_crib(place: Place) -> None:
    from toolcrib.sources.mcp import Mcp

    source: Any = Mcp(f"{place.url}/mcp", name="far")
    async with Crib([source], policy={"default": "allow"}) as crib:
        session = await crib.open(owner="ada", namespaces=["far"])
        assert (await session.call("far.total", {"a": 4})).data == {"sum": 4}


@requirement("mcp.server.14")
@pytest.mark.process
async def test_the_client_of_the_sdk_uses_a_crib_on_a_pipe() -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program = "from tests.serve.tools import add; from toolcrib import Crib; "
    program += "from toolcrib.serve.mcp.stdio import run; run(Crib([add]))"
    server = StdioServerParameters(command=sys.executable, args=["-c", program], cwd=str(ROOT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with Client(stdio_client(server)) as client:
            called = await client.call_tool("add", {"a": 3})
    assert getattr(called.content[0], "text", None) == "4"


@requirement("mcp.server.13")
async def test_a_client_of_the_oldest_transport_uses_a_crib(place: Place) -> None:
    from mcp import Client
    from mcp.client.sse import sse_client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with Client(sse_client(f"{place.url}/sse"), mode="legacy") as client:
            assert "add" in [tool.name for tool in (await client.list_tools()).tools]
            called = await client.call_tool("total", {"a": 3})
    assert called.structured_content == {"sum": 3}
    assert (await place.http.post("/messages?session=nobody", json={})).status_code == 404
    assert (await place.http.get("/messages")).status_code == 405

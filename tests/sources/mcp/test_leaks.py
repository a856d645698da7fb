"""Connections that come and go leave nothing: no task, no file, no process."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import psutil
import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import PEERS, served
from toolcrib.errors import ToolFailure
from toolcrib.sources.mcp import McpClient, McpClientSettings

pytestmark = pytest.mark.process


def held() -> tuple[int, int, int]:
    gc.collect()
    children = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir())), len(children)


async def many(count: int, settings: McpClientSettings, at_once: int = 10) -> None:
    async def one() -> None:
        async with places:
            server = McpClient(settings)
            assert await server.tools()
            await server.close()

    places = asyncio.Semaphore(at_once)
    await asyncio.gather(*(one() for _ in range(count)))


@requirement("mcp.client.5")
async def test_many_programs_leave_nothing() -> None:
    settings = McpClientSettings(name="raw", command=(sys.executable, "-S", str(PEERS / "raw.py"), "modern"))
    await many(1, settings)
    before = held()
    await many(140, settings)
    assert held() == before


@requirement("mcp.client.5")
async def test_many_connections_over_http_leave_nothing() -> None:
    async with served("http") as port:
        settings = McpClientSettings(name="web", url=f"http://127.0.0.1:{port}/mcp")
        await many(1, settings)
        before = held()
        await many(60, settings)
        assert held() == before


@requirement("mcp.client.5")
async def test_starts_that_fail_or_are_given_up_leave_nothing(tmp_path: Path) -> None:
    before = held()
    for era in ("broken", "mute"):
        server = McpClient(
            McpClientSettings(name="raw", command=(sys.executable, "-S", str(PEERS / "raw.py"), era), start_s=0.3)
        )
        for _ in range(2):
            try:
                await asyncio.wait_for(server.tools(), 0.1)
            except (TimeoutError, ToolFailure):
                pass
        await server.close()
    assert held() == before

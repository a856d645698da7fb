"""The catalog stays true to what servers offer, and clients find a tool under the same name every day."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import free_port, kit, opened, raw, served
from toolcrib import Crib, tool
from toolcrib.sources.mcp import Mcp, connection

pytestmark = pytest.mark.process


async def until(crib: Crib, holds: Callable[[set[str]], bool]) -> None:
    """Waits until the names of the tools are so."""
    changed = asyncio.Event()
    crib.catalog.listen(changed.set)
    async with asyncio.timeout(60):
        while not holds({one.id for one in crib.catalog.view(("*",)).tools}):
            changed.clear()
            await changed.wait()


@requirement("gateway.lists.1")
async def test_tools_of_a_server_that_was_restarted_are_seen_without_a_call() -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with served("http", port):
            crib, session = await stack.enter_async_context(opened(Mcp(f"http://127.0.0.1:{port}/mcp", name="web")))
            await session.call("web.grow", {})
            await until(crib, lambda names: "web.grown" in names)
        async with served("http", port):
            await until(crib, lambda names: "web.grown" not in names)
            await crib.stop(grace=0)


@requirement("gateway.lists.1")
async def test_whoever_lists_tools_after_a_while_has_them_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FRESH_S", 0.0)
    async with opened(raw("modern")) as (crib, session):  # it tells nobody of changes
        before = {one.id for one in crib.catalog.view(("*",)).tools}
        await session.call("raw.grow", {})
        await crib.registry.settle()
        await until(crib, lambda names: names > before)
        assert "raw.grown" not in before


@requirement("gateway.lists.1")
async def test_a_list_that_is_fresh_is_not_asked_for_again() -> None:
    async with opened(raw("modern")) as (crib, session):
        for _ in range(3):
            await crib.registry.settle()
        heard = (await session.call("raw.heard", {})).data["heard"]
        assert [said["method"] for said in heard].count("tools/list") == 1


@requirement("gateway.lists.2")
async def test_neither_another_server_nor_a_local_tool_nor_trust_renames_a_tool_of_a_server() -> None:
    @tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    for sources in ([kit()], [kit(trusted=True)], [kit(trusted=True), raw(trusted=True), echo], [kit(), echo]):
        async with Crib(sources) as crib:
            names = {one.id: name for name, one in crib.catalog.view(("*",)).model_names().items()}
            assert names["kit.echo"] == "kit__echo"
            assert names.get("default.echo", "echo") == "echo"

"""The reference servers of the protocol's makers, driven through a crib."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import asked, code, message, opened
from toolcrib.sources.mcp import Mcp

pytestmark = pytest.mark.process

VERSION = "2026.8.31"


def reference(name: str, *args: str, **more: object) -> Mcp:
    """A reference server, fetched by npm where that is possible."""
    package = f"@modelcontextprotocol/server-{name}@{VERSION}"
    if shutil.which("npx") is None:
        pytest.skip("the reference servers need Node: npx is not installed")
    if not fetched(package):
        pytest.skip(f"npm cannot fetch {package} here")
    settings: dict[str, Any] = {"name": name, "required": True, "start_s": 300, **more}  # a busy machine takes long
    return Mcp("npx", "-y", "--prefer-offline", package, *args, **settings)


@cache
def fetched(package: str) -> bool:
    command = ["npx", "-y", "--prefer-offline", "-p", package, "node", "--version"]
    return subprocess.run(command, check=False, input=b"", capture_output=True, timeout=120).returncode == 0


@requirement("mcp.client.1", "mcp.client.2")
async def test_the_reference_server_works_through_a_crib() -> None:
    async with opened(reference("everything")) as (_, session):
        assert (await session.call("everything.echo", {"message": "hi"})).data == "Echo: hi"
        assert "5" in (await session.call("everything.get-sum", {"a": 2, "b": 3})).text
        assert code(await session.call("everything.get-sum", {"a": "two", "b": 3})) == "invalid_arguments"
        weather = await session.call("everything.get-structured-content", {"location": "New York"})
        assert set(weather.data) == {"temperature", "conditions", "humidity"}
        image = await session.call("everything.get-tiny-image", {})
        assert "image" in [block["type"] for block in image.content]
        call = await session.submit("everything.trigger-long-running-operation", {"duration": 1, "steps": 4})
        events = [event async for event in session.events(call=call.id)]
        assert [event.fields["loaded"] for event in events if event.kind == "progress"][-1] == 4
        assert (await session.result(call.id)).ok


@requirement("mcp.client.2")
async def test_the_reference_server_asks_through_the_log() -> None:
    async with opened(reference("everything")) as (_, session):
        call = await session.submit("everything.trigger-elicitation-request", {})
        question = await asked(session, call.id)
        assert question["schema"]["properties"]
        await session.answer(question["id"], "accept", {"name": "Ada"})
        result = await session.result(call.id)
        assert "Ada" in result.text


@requirement("mcp.client.2")
async def test_files_and_a_memory_are_reached_through_their_servers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    files = reference("filesystem", str(tmp_path))
    memory = reference("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")})
    async with opened(files, memory) as (_, session):
        read = await session.call("filesystem.read_text_file", {"path": str(tmp_path / "a.txt")})
        assert read.data == {"content": "hello"}
        refused = await session.call("filesystem.read_text_file", {"path": "/etc/passwd"})
        assert (code(refused), "outside" in message(refused)) == ("failed", True)
        ada = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        await session.call("memory.create_entities", {"entities": [ada]})
        assert (await session.call("memory.read_graph", {})).data["entities"] == [ada]

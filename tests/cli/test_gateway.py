"""`toolcrib serve` in front of MCP servers, for several real clients at once."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.project import Project
from tests.cli.test_mcp_serve import serving
from tests.requirements import requirement
from tests.sources.mcp.place import PEERS

pytestmark = pytest.mark.process

KEYS = {name: name * 14 for name in ("ada", "bob")}


class Person:
    """A client of the SDK with a key, and what its person was asked and told."""

    def __init__(self) -> None:
        self.client: Client
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.told: list[Any] = []

    async def elicit(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        self.asked.put_nowait(params.message)
        return mcp_types.ElicitResult(action="accept", content={"color": await self.answer})

    async def log(self, params: Any) -> None:
        self.told.append(params.data)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        result = await self.client.call_tool(name, arguments or {})
        return result.structured_content or result.content[0].text  # type: ignore[union-attr]  # only texts


@asynccontextmanager
async def person(url: str, name: str, mode: str) -> AsyncIterator[Person]:
    made = Person()
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEYS[name]}"}, timeout=60) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=mode,
            elicitation_callback=made.elicit,
            logging_callback=made.log,
            log_level="info",
        ) as made.client,
    ):
        yield made


def upstream(project: Project, *entries: dict[str, Any]) -> tuple[str, ...]:
    """A crib of MCP servers in which all is allowed; the words that let in ada and bob."""
    project.write("crib.yaml", json.dumps({"sources": entries, "policy": {"default": "allow"}}))
    keys = project.write("keys.txt", "".join(f"{name} {key}\n" for name, key in KEYS.items()))
    return ("--key-file", str(keys))


def raw(**more: Any) -> dict[str, Any]:
    return {"mcp": [sys.executable, str(PEERS / "raw.py"), "legacy"], "name": "raw", **more}


@requirement("gateway.share.1", "gateway.share.2")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("share", [{}, {"share": "all"}], ids=["unsaid", "all"])
async def test_a_question_in_the_call_of_one_client_never_reaches_another(
    project: Project, mode: str, share: dict[str, str]
) -> None:
    words = upstream(project, raw(**share))
    with serving(project, *words) as (_, url):
        async with person(url, "ada", mode) as ada, person(url, "bob", mode) as bob:
            await ada.call("raw.remember", {"text": "the page of ada"})
            asking = asyncio.create_task(ada.call("raw.ask"))
            assert "Which color?" in await ada.asked.get()
            bob.answer.set_result("blue")
            assert await bob.call("raw.stir") == ("error" if share else "nobody waits")
            assert bob.asked.empty()
            assert bob.told == []
            ada.answer.set_result("red")
            assert await asking == "red"
            if not share:
                assert await bob.call("raw.recall") == "[]"

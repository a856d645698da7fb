"""`toolcrib serve` in front of MCP servers, for several real clients at once."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.project import Project
from tests.cli.test_mcp_serve import serving
from tests.requirements import requirement
from tests.serve.place import META, TASKS, VERSION, headers, last
from tests.sources.mcp.place import PEERS, opened
from tests.sources.mcp.place import raw as peer
from toolcrib import Crib

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


def upstream(project: Project, *entries: dict[str, Any] | str) -> tuple[str, ...]:
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


SILENT = {"mcp": [sys.executable, "-c", "import time; time.sleep(1000)"], "name": "silent"}


@requirement("gateway.start.1")
async def test_a_server_that_never_answers_holds_up_neither_the_start_nor_others(project: Project) -> None:
    words = upstream(project, SILENT, raw(), "shop_tools")
    with serving(project, *words) as (_, url):
        async with person(url, "ada", "auto") as ada:
            assert await ada.call("raw.echo", {"text": "hi"}) == "hi"
            assert any("echo" in tool.name for tool in (await ada.client.list_tools()).tools)
            assert (await ada.call("shop.find", {"order": "7"}))["order"] == "7"


@requirement("gateway.start.1")
def test_a_command_waits_for_the_source_of_its_tool_alone(project: Project) -> None:
    upstream(project, SILENT, raw(), "shop_tools")
    assert project.run("call", "shop.find", "-a", "order=7", "--json").json["data"]["order"] == "7"
    assert project.run("call", "raw.echo", "-a", "text=hi", "--json").json["data"] == "hi"


@requirement("gateway.start.1")
def test_a_required_server_that_never_answers_keeps_the_crib_from_starting(project: Project) -> None:
    upstream(project, {**SILENT, "required": True, "start_s": 0.5}, "shop_tools")
    assert "required MCP server" in project.run("call", "shop.find", "-a", "order=7", code=None).err


@requirement("gateway.start.1")
async def test_the_tools_of_a_slow_server_appear_when_it_is_ready(project: Project) -> None:
    gate = project.folder / "gate"
    code = "import pathlib, runpy, sys, time\n"
    code += "while not pathlib.Path('gate').exists(): time.sleep(0.05)\n"
    code += f"sys.argv = ['raw', 'legacy']; runpy.run_path({str(PEERS / 'raw.py')!r}, run_name='__main__')"
    slow = {"mcp": [sys.executable, "-c", code], "name": "raw", "cwd": "."}
    with serving(project, *upstream(project, slow, "shop_tools")) as (_, url):
        async with person(url, "ada", "auto") as ada:
            assert not any("echo" in tool.name for tool in (await ada.client.list_tools()).tools)
            async with ada.client.listen(tools_list_changed=True) as changes:
                gate.touch()
                await asyncio.wait_for(anext(aiter(changes)), 60)
            assert await ada.call("raw.echo", {"text": "hi"}) == "hi"


@requirement("gateway.start.2")
async def test_calls_whose_servers_must_be_asked_what_became_of_them_delay_no_start(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    crib = Crib([peer("modern")], store=store, policy={"default": "allow"})
    await crib.start()
    session = await crib.open("s", owner="ada", namespaces=["raw"])
    calls = [await session.submit("raw.task", {"id": "endless"}) for _ in range(4)]
    for call in calls:
        async for event in session.events(call=call.id):
            if event.kind == "step":
                break
    await crib.stop(grace=0)
    async with Crib([peer("modern")], store=store, policy={"default": "allow"}) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.call("raw.echo", {"text": "hi"})).data == "hi"
        assert [(await session.status(call.id)).status for call in calls] == ["running"] * 4
    async with Crib([peer("modern")], store=store, policy={"default": "allow"}) as crib:
        session = await crib.open("s", owner="ada")
        assert [(await session.status(call.id)).status for call in calls] == ["running"] * 4


@requirement("gateway.places.1")
async def test_slow_calls_of_one_server_take_no_place_of_another(tmp_path: Path) -> None:
    async with opened(peer("legacy", name="slow"), peer("legacy", name="raw")) as (_, session):
        slow = [await session.submit("slow.hang", {}) for _ in range(40)]
        assert (await session.call("raw.echo", {"text": "hi"})).data == "hi"
        for call in slow:
            await session.cancel(call.id)


@requirement("gateway.settings.1")
@pytest.mark.parametrize(("said", "words"), [({"task_after_s": 0.05}, ()), ({}, ("--task-after", "0.05"))])
async def test_when_a_call_becomes_a_task_is_said_in_the_file_or_on_the_command_line(
    project: Project, said: dict[str, Any], words: tuple[str, ...]
) -> None:
    crib = {"sources": ["shop_tools"], "policy": {"default": "allow"}, "serve": {"mcp": {"name": "shop", **said}}}
    project.write("crib.yaml", json.dumps(crib))
    with serving(project, *words) as (_, url):
        async with httpx2.AsyncClient(timeout=60) as http:
            meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": TASKS}
            params = {"name": "wait_for_ever", "arguments": {}, "_meta": meta}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = await http.post(url, json=message, headers=headers(message))
    result = last(answer)["result"]  # type: ignore[arg-type]  # of the other httpx
    assert result["resultType"] == "task"
    assert result["_meta"][f"{META}serverInfo"]["name"] == "shop"

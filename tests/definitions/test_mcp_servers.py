"""Servers of files: when they are started and stopped, what they offer, and what is given out of that."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import psutil
import pytest

from tests.definitions.place import Place, code, comes, hint, message, names
from tests.definitions.runners.made import definition
from tests.definitions.runners.served import says
from tests.definitions.runners.served import served as web
from tests.requirements import requirement
from tests.sources.mcp.place import served
from toolcrib import Context, ToolFailure
from toolcrib.definitions import mcp_servers, tool_builder
from toolcrib.definitions import source as source_module
from toolcrib.definitions.definition import Command
from toolcrib.definitions.detached_call import DetachedCall
from toolcrib.definitions.mcp_servers import Servers, address_of, command_of, mcp_tool
from toolcrib.sources.mcp import link

pytestmark = pytest.mark.process

TITLED = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
KNOWN = {"validators": [{"id": "v", "validates": "add", "checks": [{"required_fields": ["title"]}]}]}


async def gone(pid: int) -> None:
    """Waits until a process has ended."""
    await comes(lambda: not psutil.pid_exists(pid))


# When they run


@requirement("yaml.run.mcp.1")
async def test_a_server_starts_at_the_first_call_and_never_for_a_look(place: Place) -> None:
    place.write("store", "mcp", commands=["add"], mcp_specific=place.peer({"name": "add"}), executable_knowledge=KNOWN)
    async with place.opened() as (source, session):
        await source.list()
        await source.lint()
        await source.resolve("store")
        await source.validate("store", "add", {})
        await source.test("store")
        assert code(await session.call("store.add", {})) == "invalid_arguments"
        assert not place.log.exists()
        assert (await session.call("store.add", {"title": "a"})).data == {"title": "a"}
        assert (await session.call("store.add", {"title": "b"})).ok
        assert len(place.noted("start")) == 1
    await gone(place.noted("start")[0]["start"])


@requirement("yaml.run.mcp.1")
def test_a_command_is_split_into_words_and_arguments_follow() -> None:
    found = definition("mcp", 'mcp_specific: {server_command: "npx -y \'a b\'", server_args: ["--x=1 2", 3]}')
    assert command_of(found) == ("npx", "-y", "a b", "--x=1 2", "3")
    assert address_of(found) is None


@requirement("yaml.run.mcp.3")
async def test_a_server_that_nobody_uses_is_stopped_and_started_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (mcp_servers.IDLE_S, mcp_servers.START_S) == (300, 30)
    monkeypatch.setattr(mcp_servers, "IDLE_S", 0.05)
    place.write("store", "mcp", commands=["add"], mcp_specific=place.peer({"name": "add"}))
    async with place.opened() as (_, session):
        assert (await session.call("store.add", {})).ok
        await gone(place.noted("start")[0]["start"])
        assert (await session.call("store.add", {})).ok
        assert len(place.noted("start")) == 2


@requirement("yaml.find.8")
async def test_a_call_goes_on_with_the_server_that_it_began_with(place: Place) -> None:
    until, wait = place.folder / "go", {"name": "wait", "says": "old"}
    place.write("store", "mcp", commands=["wait"], mcp_specific=place.peer(wait))
    async with place.opened() as (_, session):
        running = asyncio.create_task(session.call("store.wait", {"until": str(until)}))
        await comes(lambda: place.noted("call"))
        place.write("store", "mcp", commands=["wait"], mcp_specific=place.peer({**wait, "says": "new"}))
        after = asyncio.create_task(session.call("store.wait", {"until": str(until)}))
        await comes(lambda: len(place.noted("call")) == 2)
        until.touch()
        assert [(await task).data for task in (running, after)] == ["old", "new"]
        first, second = (one["start"] for one in place.noted("start"))
        await gone(first)
        assert psutil.pid_exists(second)


async def test_the_server_of_a_file_that_goes_is_stopped(place: Place) -> None:
    path = place.write("store", "mcp", commands=["add"], mcp_specific=place.peer({"name": "add"}))
    async with place.opened() as (_, session):
        assert (await session.call("store.add", {})).ok
        path.unlink()
        assert code(await session.call("store.add", {})) == "not_found"
        await gone(place.noted("start")[0]["start"])


# What they are given


@requirement("yaml.run.1")
async def test_a_variable_that_is_not_set_is_named_and_a_new_value_starts_the_server_anew(place: Place) -> None:
    needs = {"environment_variables": [{"name": "PEER_KEY", "required": True, "description": "Ask Ada for it"}]}
    place.write("store", "mcp", commands=["add"], mcp_specific=place.peer({"name": "add"}, **needs))
    async with place.opened() as (_, session):
        result = await session.call("store.add", {})
        assert (code(result), message(result), hint(result)) == (
            "unavailable",
            "PEER_KEY is not set",
            "Ask Ada for it",
        )
        assert not place.log.exists()
        for value in ("one", "two"):
            place.environ["PEER_KEY"] = value
            assert (await session.call("store.add", {})).ok
        assert [one["key"] for one in place.noted("start")] == ["one", "two"]


@requirement("yaml.run.mcp.2")
async def test_a_remote_server_is_reached_with_the_parameters_that_have_a_value(place: Place) -> None:
    async with served("http") as port:
        url = f"http://127.0.0.1:{port}/mcp"
        there = {"server_command": "sse", "transport": "sse", "connection": {"type": "sse", "url": url}}
        place.write("kit", "mcp", commands=["echo"], mcp_specific=there)
        place.write("plain", "mcp", commands=["echo"], mcp_specific={"server_command": url, "transport": "http"})
        grants = {"allow": [f"net:egress:http://127.0.0.1:{port}"]}
        async with place.opened(policy={"default": "allow", "grants": grants}) as (_, session):
            assert (await session.call("kit.echo", {"text": "hi"})).data == "hi"
            assert (await session.call("plain.echo", {"text": "ho"})).data == "ho"


@requirement("yaml.run.mcp.2")
async def test_only_what_is_configured_or_declared_goes_into_an_address() -> None:
    async with web() as server:
        server.answer = says(404)
        block = f"""
mcp_specific:
  connection: {{url: "{server.url}/mcp?a=1"}}
  query_parameters: [tool, {{name: apiKey}}, KEY, SECRET]
  environment_variables: [KEY]
"""
        environ = {"KEY": "k", "SECRET": "never", "tool": "never"}
        several = Servers(environ, {"made": {"apiKey": "x y"}}, lambda id: asyncio.sleep(0))
        with pytest.raises(ToolFailure, match="could not be started"):
            await several.ask(definition("mcp", block))
        await several.close()
        assert {asked.target for asked in server.asked} == {"/mcp?a=1&apiKey=x+y&KEY=k"}


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"server_command": "sse", "transport": "sse"}, "does not say how its server is started"),
        ({"connection": {"url": "wss://x.example.com"}, "transport": "websocket"}, "'websocket' of 'x' is not supp"),
        ({"connection": {"url": "https://x.example.com"}, "auth": "oauth"}, "OAuth, which is not supported"),
        ({"connection": {"url": "https://x.example.com"}, "auth": {"type": "oauth"}}, "OAuth, which is not supp"),
        ({"connection": {"url": "gopher://x"}}, "is no http address"),
        ({"server_command": "nobody-has-this-program"}, "could not be started"),
    ],
)
@requirement("yaml.run.mcp.2", "yaml.run.mcp.3")
async def test_a_server_that_cannot_be_reached_is_unavailable_and_says_why(block: dict[str, Any], told: str) -> None:
    found = definition("mcp", json.dumps({"mcp_specific": block})[1:-1], id="x")
    several = Servers({}, {}, lambda id: asyncio.sleep(0))
    with pytest.raises(ToolFailure, match=told) as raised:
        await several.ask(found)
    assert raised.value.code == "unavailable"
    await several.close()


@requirement("yaml.run.mcp.3")
async def test_a_server_that_does_not_start_is_left_alone_after_five_times(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "BACKOFF_S", 0.001)
    place.programs.write("broken", f"open({str(place.log)!r}, 'a').write('{{\"start\": 1}}\\n'); raise SystemExit(1)")
    place.write("store", "mcp", commands=["add"], mcp_specific={"server_command": "broken"})
    async with place.opened() as (_, session):
        results = [await session.call("store.add", {"n": n}) for n in range(6)]
        assert {code(one) for one in results} == {"unavailable"}
        assert "could not be started 5 times" in message(results[-1])
        assert "It is tried again in" in hint(results[-1])
        assert len(place.noted("start")) == 5


@requirement("yaml.run.mcp.3")
async def test_a_server_that_hangs_at_its_start_is_unavailable_in_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "START_S", 0.3)
    hangs = place.peer()
    hangs["server_args"][-1] = "hang"
    place.write("store", "mcp", commands=["add"], mcp_specific=hangs)
    async with place.opened() as (source, session):
        result = await session.call("store.add", {})
        assert code(result) == "unavailable"
        assert "could not be started" in message(result)
        report = await source.health("store")
        assert (report.status, "could not be started" in report.reason) == ("unhealthy", True)


# What they offer


@requirement("yaml.cmd.3", "yaml.cmd.4")
async def test_a_file_without_commands_gives_out_what_is_known_and_then_all_of_its_server(place: Place) -> None:
    peer = place.peer({"name": "add", "inputSchema": TITLED}, {"name": "odd/näme"}, {"name": "drop"})
    place.write("store", "mcp", mcp_specific=peer, executable_knowledge=KNOWN)
    async with place.opened() as (_, session):
        assert names(session) == {"store.add"}
        assert (await session.call("store.add", {"title": "a"})).ok
        assert len(names(session)) == 3
        assert {"store.add", "store.drop"} < names(session)
        assert session._view.names["store.add"].input_schema == TITLED
        assert (await session.call("store.drop", {})).ok
        (odd,) = names(session) - {"store.add", "store.drop"}
        assert (await session.call(odd, {})).ok
        assert place.noted("call")[-1]["call"] == "odd/näme"


@requirement("security.bounds.2")
async def test_tools_of_a_server_are_made_beside_the_event_loop(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("store", "mcp", mcp_specific=place.peer({"name": "add", "inputSchema": TITLED}))
    threads, made = list[int](), tool_builder.tools

    def noted(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return made(*given)

    monkeypatch.setattr(tool_builder, "tools", noted)
    async with place.opened() as (source, session):
        assert [tool.name for tool in await source.live("store")] == ["add"]
        assert names(session) == {"store.add"}
    assert len(threads) >= 2
    assert threading.get_ident() not in threads


@requirement("yaml.cmd.3")
async def test_a_server_of_which_its_file_knows_nothing_is_asked_soon_after_the_start(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "LOOK_S", 0.02)
    place.write("store", "mcp", mcp_specific=place.peer({"name": "add"}))
    place.write("lost", "mcp", mcp_specific={"server_command": "nobody-has-this-program"})
    place.write("pack", "mcp", place.folder / "packs/p/tools", mcp_specific=place.peer({"name": "drop"}))
    source = place.source("p", project=place.folder)
    async with place.opened(source=source) as (_, session):
        assert (await session.crib.open("t", owner="ada", namespaces=["store", "lost"])).namespaces == ("store", "lost")
        await comes(lambda: "store.add" in session._view.names and caplog.records)
        assert names(session) == {"store.add"}
        assert source.namespaces == ("lost", "pack", "store")
        assert "lost could not be started" in caplog.text
        assert len(place.noted("start")) == 1


@requirement("yaml.cmd.3")
async def test_a_file_with_commands_gives_out_these_alone_unless_it_says_otherwise(place: Place) -> None:
    peer = place.peer({"name": "add"}, {"name": "drop"})
    blocks: dict[str, Any] = {"mcp_specific": peer, "executable_knowledge": KNOWN}
    place.write("few", "mcp", commands=["drop"], **blocks)
    place.write("more", "mcp", commands=["drop"], expose="all", **blocks)
    place.write("none", "mcp", expose="listed", **blocks)
    async with place.opened() as (source, session):
        assert names(session) == {"few.drop", "more.drop", "more.add"}
        for id in ("few", "more", "none"):
            await source.live(id)
        assert names(session) == {"few.drop", "more.drop", "more.add"}


@requirement("yaml.cmd.3")
async def test_what_a_server_lacks_is_reported(place: Place) -> None:
    place.write("store", "mcp", commands=["add", "delet"], mcp_specific=place.peer({"name": "add"}, {"name": "delete"}))
    async with place.opened() as (source, session):
        result = await session.call("store.delet", {})
        assert (code(result), hint(result)) == ("not_found", "similar: delete")
        assert message(result) == "The server of 'store' has no tool 'delet'"
        assert names(session) == {"store.add"}
        (problem,) = [one for one in (await source.resolve("store")).problems if one.code == "COMMAND_NOT_ON_SERVER"]
        assert (problem.severity, problem.fix) == ("warning", "Write 'delete'")
        assert "it has none of these commands: delet" in (await source.health("store")).reason


@requirement("yaml.cmd.1", "yaml.cmd.4")
async def test_what_a_server_says_of_a_tool_fills_what_its_file_leaves_open(place: Place) -> None:
    counted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    add = {"name": "add", "inputSchema": TITLED, "description": "Adds", "title": "Plus", "outputSchema": counted}
    both = {"annotations": {"readOnlyHint": True, "destructiveHint": True}}
    peer = place.peer({**add, "says": {"n": 1}}, {"name": "drop", "description": "Theirs", **both})
    own = {"type": "object", "properties": {"own": {}}}
    blocks: dict[str, Any] = {
        "commands": [{"name": "add", "input_schema": own}, {"name": "drop", "description": "Ours"}]
    }
    place.write("store", "mcp", **blocks, mcp_specific=peer)
    place.write("pack", "mcp", place.folder / "packs/p/tools", **blocks, mcp_specific=peer)
    async with place.opened(source=place.source("p", project=place.folder)) as (source, session):
        assert session._view.names["store.add"].input_schema == own
        await source.live("store")
        await source.live("pack")
        found = session._view.names
        assert (found["store.add"].input_schema, found["pack.add"].input_schema) == (TITLED, own)
        assert (found["store.add"].description, found["store.add"].title) == ("Adds", "Plus")
        assert found["store.add"].output_schema == counted
        assert (found["store.drop"].description, found["store.drop"].does) == ("Ours", "once")
        assert (await session.call("store.add", {"title": "a"})).data == {"n": 1}


@requirement("yaml.run.mcp.4")
async def test_a_command_may_have_another_name_than_the_servers_tool(place: Place) -> None:
    for said, name in (("mcp__store__add", "add"), ("add_it", "add_it"), ("mcp__odd", "mcp__odd"), ("", "go")):
        assert mcp_tool(Command("go", fields={"mcp_tool": said})) == name
    commands = [{"name": "plus", "mcp_tool": "mcp__store__add"}]
    place.write("store", "mcp", commands=commands, mcp_specific=place.peer({"name": "add"}))
    async with place.opened() as (_, session):
        assert (await session.call("store.plus", {"n": 1})).data == {"n": 1}
        assert names(session) == {"store.plus"}
        assert place.noted("call") == [{"call": "add", "args": {"n": 1}}]


async def test_other_settings_forget_what_the_server_before_them_offered(place: Place) -> None:
    async with place.looked_at() as source:
        place.write("store", "mcp", mcp_specific=place.peer({"name": "add"}))
        assert [one.name for one in await source.live("store")] == ["add"]
        place.write("store", "mcp", mcp_specific=place.peer({"name": "drop"}))
        assert (await source.resolve("store")).problems == ()
        assert [one.name for one in await source.live("store")] == ["drop"]


async def test_a_server_is_asked_outside_of_any_session(place: Place) -> None:
    place.write("store", "mcp", mcp_specific=place.peer({"name": "add"}))
    told: list[str] = []

    async def tell(id: str) -> None:
        told.append(id)

    several = Servers(place.environ, {}, tell)
    async with place.looked_at() as source:
        found = await source.resolve("store")
        assert several.offered(found) is None
        assert [one.name for one in await several.ask(found)] == ["add"]
        assert (await several.call(found, "add", {"n": 1}, Context(DetachedCall()))).data == {"n": 1}
        assert told == ["store"]
    await several.close()

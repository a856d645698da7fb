"""Tools of a server as tools of a crib: names, schemas, results, what is believed of them."""

from __future__ import annotations

import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import code, kit, message, opened, raw
from toolcrib import Crib, Limits
from toolcrib.errors import BadTool
from toolcrib.sources.mcp import Mcp, McpClientSettings, OfferedTool
from toolcrib.sources.mcp.results import to_result
from toolcrib.sources.mcp.settings import name_of

pytestmark = pytest.mark.process


@requirement("mcp.client.2", "aomi.path.2")
async def test_a_tool_of_a_server_is_called_checked_and_answered_like_any_other() -> None:
    async with opened(kit()) as (_, session):
        result = await session.call("kit.add", {"a": 2, "b": 3})
        assert result.data == {"total": 5}
        assert result.content[0]["type"] == "text"
        assert code(await session.call("kit.add", {"a": "two"})) == "invalid_arguments"
        assert code(await session.call("kit.nothing", {})) == "not_found"


@requirement("mcp.client.2", "aomi.path.2")
async def test_an_error_of_a_tool_is_a_failed_result_with_its_text() -> None:
    async with opened(kit(), raw()) as (_, session):
        result = await session.call("kit.refuse", {})
        assert code(result) == "failed"
        assert "refuse" in message(result)
        refused = await session.call("raw.error", {})
        assert (code(refused), message(refused)) == ("failed", "The disk is full")


async def test_pictures_links_and_resources_are_kept_as_blocks() -> None:
    result = to_result(
        {
            "content": [
                {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": {"audience": ["user"]}},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
                {"type": "resource", "resource": {"uri": "file:///b", "text": "b", "mimeType": "text/plain"}},
                {"type": "text", "text": "seen", "annotations": {"audience": ["assistant"]}},
            ],
        }
    )
    image, link, resource, text = result.content
    assert (image["mime_type"], image["audience"]) == ("image/png", ["user"])
    assert (link["type"], link["uri"]) == ("link", "file:///a")
    assert (resource["uri"], resource["text"], resource["mime_type"]) == ("file:///b", "b", "text/plain")
    assert text["audience"] == ["model"]
    assert result.data is None
    async with opened(kit()) as (_, session):
        drawn = await session.call("kit.picture", {})
        assert [block["type"] for block in drawn.content] == ["image"]


@requirement("mcp.client.2")
async def test_progress_and_messages_of_a_server_are_in_the_log_of_the_call() -> None:
    async with opened(kit()) as (_, session):
        call = await session.submit("kit.work", {})
        events = [event async for event in session.events(call=call.id)]
        steps = [event.fields for event in events if event.kind == "progress"]
        said = [event.fields["content"] for event in events if event.kind == "activity"]
        assert steps[-1]["message"] == "step 3"
        assert (steps[-1]["loaded"], steps[-1]["total"]) == (3, 3)
        assert said == [{"level": "info", "data": f"did {number}"} for number in (1, 2, 3)]
        assert (await session.result(call.id)).data == "worked"


@requirement("mcp.client.3")
async def test_every_name_is_legal_for_providers_and_leads_back_to_the_tool_of_the_server() -> None:
    async with opened(raw()) as (crib, session):
        view = crib.catalog.view(("raw",))
        odd = [tool for tool in view.tools if tool.metadata["mcp"]["tool"] in ("odd/näme", "odd:näme")]
        assert len({tool.id for tool in odd}) == 2
        names = view.model_names()
        assert len(names) == len(view.tools)
        assert all(len(name) <= 64 and name.replace("-", "_").isidentifier() and name.isascii() for name in names)
        for tool in odd:
            assert (await session.call(tool.id, {})).ok
        heard = (await session.call("raw.heard", {})).data["heard"]
        assert {"odd/näme", "odd:näme"} <= {said["params"].get("name") for said in heard}


@requirement("mcp.client.2", "policy.auto.1")
async def test_annotations_of_a_server_count_only_where_it_is_trusted() -> None:
    async with Crib([raw(), raw(name="friend", trusted=True)]) as crib:
        tools = {tool.id: tool for tool in crib.catalog.view(("*",)).tools}
        assert tools["raw.echo"].annotations is not None
        assert tools["raw.echo"].annotations.read_only
        assert (tools["raw.echo"].does, tools["raw.echo"].trusted) == ("once", False)
        assert (tools["friend.echo"].does, tools["friend.echo"].trusted) == ("read", True)
        session = await crib.open("s", owner="ada", namespaces=["raw", "friend"])
        assert (await session.call("friend.echo", {"text": "hi"})).data == "hi"
        call = await session.submit("raw.echo", {"text": "hi"})
        events = [event.kind async for event in session.events(call=call.id, follow=False)]
        assert "waiting" in events
        assert "started" not in events


@requirement("mcp.client.2", "policy.auto.1")
@pytest.mark.parametrize(("trusted", "allowed"), [(False, False), (True, True)])
async def test_what_a_stranger_calls_read_only_runs_as_if_it_happened_once(trusted: bool, allowed: bool) -> None:
    async with Crib([raw(trusted=trusted)], policy={"default": "auto"}) as crib:
        session = await crib.open("s", owner="ada", namespaces=["raw"])
        call = await session.submit("raw.echo", {"text": "hi"})
        row = await crib.store.call(call.id)
        assert row is not None
        assert row.effect == ("read" if trusted else "once")
        assert (await session.questions() == []) is allowed
        if not allowed:  # who is asked sees that the server is not trusted
            (question,) = await session.questions()
            assert "not trusted" in question.prompt
            await session.answer(question.id, "accept")
        assert (await session.result(call.id)).data == "hi"


async def test_one_tool_that_does_not_hold_does_not_hide_the_others() -> None:
    for era in ("legacy", "modern"):
        async with opened(raw(era)) as (crib, _):
            names = {tool.name for tool in crib.catalog.view(("raw",)).tools}
            assert "bad_schema" not in names
            assert {"echo", "lie"} <= names


async def test_a_trusted_tool_that_contradicts_itself_is_left_out() -> None:
    async with opened(raw(trusted=True)) as (crib, _):
        names = {tool.name for tool in crib.catalog.view(("raw",)).tools}
        assert "look" not in names
        assert "re-read" in names


async def test_the_digest_of_a_tool_is_that_of_its_words_and_schemas() -> None:
    async with opened(raw()) as (one, _), opened(raw()) as (two, _):
        first = {tool.id: tool.fingerprint for tool in one.catalog.view(("raw",)).tools}
        again = {tool.id: tool.fingerprint for tool in two.catalog.view(("raw",)).tools}
        assert first == again
        assert len(set(first.values())) == len(first)


@requirement("mcp.client.3")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("npx", "-y", "@modelcontextprotocol/server-everything"), "server-everything"),
        (("npx", "-y", "@scope/tool@1.2.3"), "tool"),
        (("uvx", "mcp-server-git"), "mcp-server-git"),
        (("python", "-m", "my_server"), "my_server"),
        (("node", "/srv/Weather Station.mjs"), "weather-station"),
        (("/usr/bin/files",), "files"),
        (("https://api.example.com/mcp",), "api-example-com"),
    ],
)
def test_a_server_is_named_after_its_command_and_never_by_itself(command: tuple[str, ...], name: str) -> None:
    assert name_of(command) == name
    assert Mcp(*command).name == name
    assert Mcp(*command, name="My Server!").name == "my-server"


def test_a_server_needs_a_command_or_an_address() -> None:
    with pytest.raises(BadTool, match="say the command"):
        Mcp()
    with pytest.raises(BadTool, match="not both"):
        McpClientSettings(name="x", command=("a",), url="http://h/")
    with pytest.raises(BadTool, match="no http address"):
        McpClientSettings(name="x", url="ftp://h/")
    assert "tok" not in repr(McpClientSettings(name="x", url="http://h/", tokens={"ada": "tok"}, headers={"a": "tok"}))


def test_names_that_are_not_legal_do_not_collide() -> None:
    names = ["a b", "a/b", "a_b", "", ".", "é", "x" * 200, "x" * 199 + "y"]
    assert len({OfferedTool(name).legal_name for name in names}) == len(names)
    assert all(len(OfferedTool(name).legal_name) <= 128 for name in names)


@requirement("gateway.breaker.2")
@pytest.mark.parametrize(("repeat", "last"), [(1, "unavailable"), (None, "failed")])
async def test_a_source_sets_the_breaker_of_its_tools_or_switches_it_off(repeat: int | None, last: str) -> None:
    async with opened(raw(limits=Limits(repeat=repeat))) as (_, session):
        ends = [code(await session.call("raw.error", {})) for _ in range(5)]
        assert (ends[0], ends[-1]) == ("failed", last)

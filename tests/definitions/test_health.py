"""Whether tools are well: how they are looked at, and what that means for their calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.definitions.place import ALLOW, ECHO, Place, code, done, hint, message, names, until
from tests.definitions.runners.served import says, served
from tests.requirements import requirement
from toolcrib.definitions import source as files

pytestmark = pytest.mark.process

SAY: dict[str, Any] = {"cli_specific": {"executable": "say"}, "commands": [{"name": "greet", "cli_args": ["hi"]}]}


def failing(**more: Any) -> dict[str, Any]:
    """A check that fails as long as there is no file `well` in the home folder."""
    return {"method": "command", "command": "ready", **more}


@pytest.fixture
def ready(place: Place) -> Place:
    place.programs.write("say", ECHO)
    place.programs.write("ready", "import os, sys; sys.exit(0 if os.path.exists(os.environ['HOME'] + '/well') else 3)")
    return place


# How they are looked at


@pytest.mark.parametrize(
    ("block", "status", "level", "reason"),
    [
        ({"method": "command", "command": "say hi"}, "healthy", "called", '{"args": ["hi"]}'),
        ({"method": "command", "command": "say", "args": ["a b"]}, "healthy", "called", '{"args": ["a b"]}'),
        ({"method": "command", "command": ["say", "a b"]}, "healthy", "called", '{"args": ["a b"]}'),
        ({"method": "command", "command": "which say"}, "healthy", "reachable", "bin/say"),
        ({"method": "command", "command": "which nothing-here"}, "unhealthy", None, "nothing-here is not installed"),
        ({"method": "command", "command": "ready"}, "unhealthy", None, "ready ended with 3"),
        ({"method": "command"}, "unknown", None, "The check names no command"),
        ({"method": "command", "command": "sleep 5", "timeout_ms": 50}, "unhealthy", None, "No answer within 0.05 s"),
        ({"unix": ["which say", "say x"], "windows": ["nothing-here"]}, "healthy", "called", '{"args": ["x"]}'),
        ({"unix": ["which say", "which nothing-here"]}, "unhealthy", None, "nothing-here is not installed"),
        ({"method": "telepathy"}, "unknown", None, "Nobody knows the method 'telepathy'"),
        ({"method": "command", "command": "ready", "enabled": False}, "unknown", None, "The check is switched off"),
        ({"method": "function", "function": "helpers.yes"}, "healthy", "called", "The helper 'yes' returned true"),
        ({"method": "function", "command": "one"}, "unhealthy", None, "The helper 'one' did not return true"),
        ({"method": "function", "command": "none"}, "unhealthy", None, "Helper 'none' not found"),
        ({"method": "tool_call", "command": "greet"}, "healthy", "called", ""),
        ({"method": "tool_call", "command": "nobody"}, "unknown", None, "'nobody' is nothing that runs"),
        (
            {"method": "command", "command": "ready", "fallback": {"method": "command", "command": "say"}},
            "healthy",
            "called",
            '{"args": []}',
        ),
        (
            {"method": "command", "command": "say x", "expected_response": {"args": ["x"]}},
            "healthy",
            "called",
            '{"args": ["x"]}',
        ),
        (
            {"method": "command", "command": "say x", "expected_response": {"args": ["y"]}},
            "unhealthy",
            None,
            "The answer does not hold what is expected",
        ),
        (
            {"method": "command", "command": "say x", "expected_response": "A friendly word"},
            "healthy",
            "called",
            "Expected: A friendly word",
        ),
    ],
)
@requirement("yaml.health.1", "yaml.health.2", "yaml.health.3")
async def test_checks_really_run(
    ready: Place, block: dict[str, Any], status: str, level: str | None, reason: str
) -> None:
    helpers = {"helpers": [{"id": "yes", "function": "true"}, {"id": "one", "function": "1"}]}
    ready.write("say", "cli", **SAY, health_check=block, executable_knowledge=helpers)
    async with ready.looked_at() as source:
        report = await source.health("say")
    assert (report.id, report.status, report.level) == ("say", status, level)
    assert reason in report.reason
    assert report.checked_at > 1_700_000_000


@requirement("yaml.health.1", "yaml.health.2")
async def test_a_service_is_well_where_it_answers_with_success(ready: Place) -> None:
    async with served() as server, ready.looked_at() as source:
        http = {"base_url": server.url, "auth": {"type": "bearer", "env": "TOKEN"}, "headers": {"x-own": "1"}}
        ready.environ["TOKEN"] = "secret-token"
        check = {"method": "http", "endpoint": "/up", "expected_response": {"ok": True}}
        ready.write("web", "http", http_specific=http, health_check=check)
        server.answer = says(200, '{"ok": true, "more": 1}', content_type="application/json")
        assert (await source.health("web")).level == "called"
        assert (server.asked[0].target, server.asked[0].headers["authorization"]) == ("/up", "Bearer secret-token")
        server.answer = says(500)
        assert (await source.health("web")).status == "unhealthy"
        server.asked.clear()
        server.answer = says(204)
        ready.write("web", "http", http_specific=http, health_check={"method": "http", "endpoint": f"{server.url}/e"})
        assert (await source.health("web")).status == "healthy"
        assert not {"authorization", "x-own"} & set(server.asked[0].headers)


@requirement("yaml.health.2", "yaml.health.3")
async def test_a_tool_of_a_server_is_called_where_that_does_no_harm(ready: Place) -> None:
    needs = {"type": "object", "properties": {"id": {}}, "required": ["id"]}
    tools: list[dict[str, Any]] = [
        {"name": "look", "says": {"spaces": [1]}},
        {"name": "find", "inputSchema": needs},
        {"name": "wipe", "annotations": {"destructiveHint": True}},
    ]
    levels = {}
    async with ready.looked_at() as source:
        for command, more in (
            ("look", {"expected_response": {"spaces": [1]}}),
            ("find", {}),
            ("find", {"args": {"id": 5}}),
            ("wipe", {}),
            ("mcp__x__look", {}),
            ("lost", {}),
        ):
            check = {"method": "tool_call", "command": command, **more}
            listed = [{"name": "mcp__x__look", "mcp_tool": "mcp__x__look"}]
            ready.write("store", "mcp", mcp_specific={**ready.peer(*tools), "health_check": check}, commands=listed)
            report = await source.health("store")
            levels[f"{command} {len(more)}"] = report.level
    assert levels == {
        "look 1": "called",
        "find 0": "listed",
        "find 1": "called",
        "wipe 0": "listed",
        "mcp__x__look 0": "called",
        "lost 0": None,
    }
    assert [one["call"] for one in ready.noted("call")] == ["look", "find", "look"]


@requirement("yaml.health.2")
async def test_a_check_goes_through_the_validators_of_its_command(ready: Place) -> None:
    known = {"validators": [{"id": "v", "validates": "look", "checks": [{"required_fields": ["id"]}]}]}
    check = {"method": "tool_call", "command": "look", "args": {}}
    peer = ready.peer({"name": "look"})
    ready.write("store", "mcp", mcp_specific=peer, health_check=check, executable_knowledge=known)
    async with ready.looked_at() as source:
        report = await source.health("store")
    assert (report.status, report.reason) == ("unhealthy", "id: Required field 'id' is missing")
    assert ready.noted("call") == []


@requirement("yaml.health.2")
async def test_without_a_block_the_type_says_how_to_look(ready: Place) -> None:
    ready.write("say", "cli", **SAY)
    ready.write("checked", "cli", cli_specific={"executable": "say", "install_check": "say --version"}, commands=["x"])
    ready.write("gone", "local", local_specific={"executables": [{"name": "say"}, {"name": "nothing-here"}]})
    ready.write("store", "mcp", mcp_specific=ready.peer({"name": "a"}, {"name": "b"}))
    ready.write("web", "http", commands=["x"])
    ready.write("both", "meta", meta_specific={"aggregates": ["say", "store.a"]})
    ready.write("one", "meta", meta_specific={"aggregates": ["say", "gone"]}, health_check={"ttl_s": 5})
    async with ready.looked_at() as source:
        ids = ("say", "checked", "gone", "store", "web", "both", "one")
        found = {id: await source.health(id) for id in ids}
    assert {id: (one.status, one.level) for id, one in found.items()} == {
        "say": ("healthy", "reachable"),
        "checked": ("healthy", "called"),
        "gone": ("unhealthy", None),
        "store": ("healthy", "listed"),
        "web": ("unknown", None),
        "both": ("healthy", "reachable"),
        "one": ("unhealthy", None),
    }
    assert found["store"].reason == "The server offers 2 tools"
    assert found["one"].reason.startswith("gone: nothing-here")


async def test_tools_that_aggregate_each_other_come_to_an_end(ready: Place) -> None:
    ready.write("a", "meta", meta_specific={"aggregates": ["b"]})
    ready.write("b", "meta", meta_specific={"aggregates": ["a"]})
    async with ready.looked_at() as source:
        assert (await source.health("a")).status == "unknown"


@requirement("yaml.health.3")
async def test_what_was_found_is_kept_for_a_while_and_not_for_another_file(ready: Place) -> None:
    ready.write("say", "cli", **SAY, health_check=failing())
    async with ready.looked_at() as source:
        first = await source.health("say")
        (ready.folder / "well").touch()
        assert await source.health("say", fresh=False) is first
        assert (await source.health("say")).status == "healthy"
        ready.write("say", "cli", **SAY, health_check=failing(ttl_s=0.001), version="1.0.1")
        again = await source.health("say", fresh=False)
        await asyncio.sleep(0.002)
        assert await source.health("say", fresh=False) is not again


async def test_what_a_check_says_does_not_hold_secrets(ready: Place) -> None:
    ready.environ["TOKEN"] = "very-secret"
    ready.programs.write("leak", "import os, sys; sys.exit('bad token ' + os.environ['TOKEN'])")
    check = {"method": "command", "command": "leak"}
    ready.write("say", "cli", **SAY, health_check=check, environment_variables=["TOKEN"])
    async with ready.looked_at() as source:
        reason = (await source.health("say")).reason
    assert "bad token" in reason
    assert "very-secret" not in reason


# What that means for calls


@requirement("yaml.health.4")
async def test_a_required_tool_that_is_not_well_is_unavailable(ready: Place) -> None:
    ready.write("say", "cli", **SAY, health_check=failing(required=True, ttl_s=0.001))
    async with ready.opened() as (_, session):
        result = await session.call("say.greet", {})
        assert (code(result), message(result)) == ("unavailable", "Required tool 'say' health check failed")
        assert hint(result) == "ready ended with 3"
        assert "definition" in (await done(session)).fields["metadata"]
        (ready.folder / "well").touch()
        assert (await session.call("say.greet", {})).data == {"args": ["hi"]}


@requirement("yaml.health.4")
@pytest.mark.parametrize("action", ["fail", "fail_fast"])
async def test_a_tool_that_is_to_fail_fails_with_its_message(ready: Place, action: str) -> None:
    ready.write("say", "cli", **SAY, health_check=failing(on_failure={"action": action, "message": "Try later"}))
    async with ready.opened() as (_, session):
        result = await session.call("say.greet", {})
        assert (code(result), message(result)) == ("unavailable", "Try later")


@requirement("yaml.health.4")
@pytest.mark.parametrize("action", ["warn", "log_warning"])
async def test_a_warning_stops_nobody(ready: Place, action: str, caplog: pytest.LogCaptureFixture) -> None:
    ready.write("say", "cli", **SAY, health_check=failing(on_failure={"action": action}))
    async with ready.opened() as (_, session):
        assert (await session.call("say.greet", {})).ok
    assert "say is not well: ready ended with 3" in caplog.text


@requirement("yaml.health.4")
async def test_another_tool_steps_in_with_its_own_permissions_and_the_model_is_told(ready: Place) -> None:
    ready.programs.write("other", ECHO)
    commands = [{"name": "greet", "cli_args": ["other"], "effect": "read"}]
    ready.write("other", "cli", cli_specific={"executable": "other"}, commands=commands)
    check = failing(on_failure={"action": "fallback", "fallback_tool": "other"})
    ready.write("say", "cli", **SAY, health_check=check)
    async with ready.opened() as (_, session):
        result = await session.call("say.greet", {})
        assert result.data == {"args": ["other"]}
        told, data = result.text.split("\n")
        assert told == "say is not well (ready ended with 3); other.greet was called instead"
        assert data == '{"args":["other"]}'
        assert result.metadata["fallback"]["tool"] == "other.greet"
    async with ready.opened(policy={"default": "allow", "grants": {"allow": ["exec:cmd:say"]}}) as (_, session):
        refused = await session.call("say.greet", {})
        assert code(refused) == "denied"
        assert message(refused).startswith("say is not well")


@requirement("yaml.health.4")
async def test_a_tool_is_kept_back_until_it_is_well(ready: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOOK_S", 0.02)
    ready.write("say", "cli", **SAY, health_check=failing(on_failure={"action": "skip_tool"}, ttl_s=0.05))
    async with ready.opened() as (source, session):
        assert names(session) == set()
        assert code(await session.call("say.greet", {})) == "not_found"
        (ready.folder / "well").touch()
        came = await until(session, "tools_changed")
        assert (await session.call("say.greet", {})).ok
        (ready.folder / "well").unlink()
        await until(session, "tools_changed", came.seq)
        assert names(session) == set()
        (ready.folder / "well").touch()
        assert (await source.health("say")).status == "healthy"
        assert names(session) == {"say.greet"}


@requirement("yaml.find.9")
async def test_a_file_of_a_pack_is_looked_at_only_when_a_person_asks(ready: Place) -> None:
    check = failing(required=True)
    ready.programs.write("ready", "import os, sys; open(os.environ['HOME'] + '/looked', 'w'); sys.exit(1)")
    ready.write("say", "cli", ready.folder / "packs/p/tools", **SAY, health_check=check)
    source = ready.source("p", project=ready.folder)
    async with ready.opened(source=source, policy=ALLOW) as (_, session):
        call = await session.submit("say.greet", {})
        await until(session, "waiting")
        assert not (ready.folder / "looked").exists()
        (asked,) = await session.questions()
        assert (await source.health("say")).status == "unhealthy"
        await session.answer(asked.id, "accept", actor="ada")
        assert message(await session.result(call.id)) == "Required tool 'say' health check failed"

"""Commands of files as tools of a crib: what is checked before them, shaped around them, and told of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import psutil
import pytest

from tests.definitions.place import ASK, ECHO, Place, code, done, events, hint, message, names, until
from tests.requirements import requirement
from toolcrib import Context, Crib, Refused, tool
from toolcrib.definitions.registry import read as registry
from toolcrib.definitions.roots import DefinitionRoot

pytestmark = pytest.mark.process

NEEDS_TITLE = {
    "id": "needs-title",
    "validates": "*",
    "function": "args.args.title ? {valid: true} : {valid: false, errors: ['title is required']}",
}
SAY: dict[str, Any] = {"cli_specific": {"executable": "say"}}
GREET: list[Any] = [
    {"name": "greet", "cli_args": ["{{title}}"], "parameters": {"type": "object", "properties": {"title": {}}}}
]


def checked(*validators: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"executable_knowledge": {"validators": list(validators or (NEEDS_TITLE,)), **more}}


@tool(effect="once")
async def parent(ctx: Context, args: dict[str, Any]) -> Any:
    """Has another tool called."""
    result = await ctx.call("say.greet", args)
    return message(result) or result.data


@requirement("yaml.cmd.7")
async def test_no_way_leads_around_a_validator(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", **SAY, commands=GREET, **checked())
    async with place.opened(parent) as (_, session):
        assert code(await session.call("say.greet", {})) == "invalid_arguments"
        submitted = await session.submit("say.greet", {})
        assert code(await session.result(submitted.id)) == "invalid_arguments"
        assert (await session.call("parent", {"args": {}})).data == "title: title is required"
        assert (await session.call("greet", {"title": "hi"})).data == {"args": ["hi"]}


@requirement("yaml.cmd.7")
async def test_arguments_that_an_approver_edited_are_validated_again(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", **SAY, commands=GREET, **checked())
    async with place.opened(policy=ASK) as (_, session):
        call = await session.submit("say.greet", {"title": "a"})
        (asked,) = await session.questions()
        with pytest.raises(Refused, match="title is required"):
            await session.answer(asked.id, "accept", actor="ada", arguments={"title": ""})
        await session.answer(asked.id, "accept", actor="ada", arguments={"title": "b"})
        assert (await session.result(call.id)).data == {"args": ["b"]}


@requirement("yaml.cmd.7", "yaml.data.1")
async def test_what_a_processor_makes_of_arguments_is_judged_approved_logged_and_run(place: Place) -> None:
    shout = {"id": "shout", "stage": "before", "applies_to": ["greet"], "function": "({title: args.title + '!'})"}
    place.programs.write("say", ECHO)
    place.write("say", "cli", **SAY, commands=GREET, **checked(processors=[shout]))
    async with place.opened(policy=ASK) as (_, session):
        call = await session.submit("say.greet", {"title": "hi"})
        (asked,) = await session.questions()
        assert asked.arguments == {"title": "hi!"}
        await session.answer(asked.id, "accept", actor="ada")
        assert (await session.result(call.id)).data == {"args": ["hi!"]}
        told = {event.kind: event.fields for event in await events(session, call.id)}
        assert told["accepted"]["args"] == told["started"]["args"] == {"title": "hi!"}
        assert told["accepted"]["digest"] == told["started"]["digest"] == asked.digest


@requirement("yaml.cmd.7")
async def test_a_body_that_runs_again_does_not_repeat_a_call_whose_arguments_were_shaped(place: Place) -> None:
    @tool(effect="once")
    async def twice(ctx: Context) -> Any:
        """Calls, asks, and goes on."""
        result = await ctx.call("store.add", {"title": "a"})
        await ctx.ask("Go on?", kind="confirm")
        return result.data

    shout = {"id": "shout", "stage": "before", "applies_to": ["add"], "function": "({title: args.title + '!'})"}
    place.write(
        "store", "mcp", mcp_specific=place.peer({"name": "add"}), **checked(processors=[shout]), commands=["add"]
    )
    async with place.opened(twice) as (_, session):
        call = await session.submit("twice", {})
        await until(session, "waiting")
        (asked,) = await session.questions()
        await session.answer(asked.id, "accept", actor="ada")
        assert (await session.result(call.id)).data == {"title": "a!"}
        assert [one["args"] for one in place.noted("call")] == [{"title": "a!"}]


@requirement("yaml.cmd.7", "yaml.data.1")
async def test_a_failing_processor_before_a_call_ends_it_and_one_after_it_keeps_the_raw_result(place: Place) -> None:
    broken = {"id": "broken", "function": "(() => { throw new Error('no') })()"}
    place.programs.write("say", ECHO)
    commands = [{**GREET[0], "name": "early"}, {**GREET[0], "name": "late"}]
    early, late = {**broken, "stage": "before", "applies_to": ["early"]}, {**broken, "id": "b", "applies_to": ["late"]}
    place.write("say", "cli", **SAY, commands=commands, **checked(processors=[early, late]))
    async with place.opened() as (source, session):
        sha256 = (await source.resolve("say")).sha256
        result = await session.call("say.early", {"title": "a"})
        assert "Processor 'broken' execution failed" in message(result)
        assert (await done(session)).fields["metadata"]["definition"] == sha256
        result = await session.call("say.late", {"title": "a"})
        assert result.data == {"args": ["a"]}
        assert "The result is raw" in result.metadata["warnings"][0]


@requirement("yaml.data.1")
async def test_a_processor_after_a_call_shapes_what_is_given_and_read(place: Place) -> None:
    count = {"id": "count", "applies_to": ["list"], "function": "({n: args.ids.length})"}
    peer = place.peer({"name": "list", "says": {"ids": [1, 2, 3]}})
    place.write("store", "mcp", mcp_specific=peer, **checked({**NEEDS_TITLE, "validates": "other"}, processors=[count]))
    async with place.opened() as (source, session):
        await source.live("store")
        result = await session.call("store.list", {})
        assert (result.data, result.text) == ({"n": 3}, '{"n":3}')


@requirement("yaml.find.8", "yaml.code.9")
async def test_the_end_of_a_call_says_which_file_it_was_and_all_that_was_found(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", **SAY, commands=[*GREET, "fail"], **checked())
    place.write("gone", "cli", cli_specific={"executable": "nothing-like-it"}, commands=["go"])
    async with place.opened() as (source, session):
        of = {id: (await source.resolve(id)).sha256 for id in ("say", "gone")}
        await session.call("say.greet", {})
        told = (await done(session)).fields
        assert told["metadata"]["definition"] == of["say"]
        assert told["metadata"]["findings"] == [
            {
                "path": "title",
                "code": "required",
                "message": "title is required",
                "severity": "error",
                "source": "needs-title",
            }
        ]
        assert (await session.call("say.greet", {"title": "x"})).metadata["definition"] == of["say"]
        await session.call("say.fail", {"args": 5})
        told = (await done(session)).fields
        assert (told["failure"]["code"], told["metadata"]["definition"]) == ("invalid_arguments", of["say"])
        assert told["metadata"]["findings"][0]["path"] == "args"
        assert code(await session.call("gone.go", {"args": []})) == "unavailable"
        assert (await done(session)).fields["metadata"]["definition"] == of["gone"]


@requirement("yaml.find.8")
async def test_a_call_that_never_ran_says_which_file_it_was_too(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", **SAY, commands=GREET)
    async with place.opened(policy={"default": "allow", "grants": {"allow": ["exec:cmd:other"]}}) as (source, session):
        assert code(await session.call("say.greet", {"title": "x"})) == "denied"
        assert (await done(session)).fields["metadata"]["definition"] == (await source.resolve("say")).sha256


@requirement("yaml.cmd.1", "yaml.cmd.8")
async def test_a_command_with_nothing_to_run_is_done_by_the_client(place: Place) -> None:
    place.write("notes", "http", commands=[{"name": "show", "description": "Shows a note"}], **checked())
    async with place.opened() as (_, session):
        assert code(await session.call("notes.show", {})) == "invalid_arguments"
        call = await session.submit("notes.show", {"title": "a"})
        (asked,) = await session.questions()
        assert asked.kind == "client"
        await session.answer(asked.id, "accept", {"shown": True}, actor="app")
        assert (await session.result(call.id)).data == {"shown": True}


@requirement("yaml.cmd.8")
async def test_helpers_are_tools_where_a_file_says_so(place: Place) -> None:
    helpers = [{"id": "double", "function": "args.n * 2", "description": "Doubles"}, {"id": "hidden", "function": "1"}]
    place.write("all", "meta", expose_helpers=True, **checked(helpers=helpers))
    place.write("some", "meta", expose_helpers=["double"], **checked(helpers=helpers))
    place.write("old", "meta", schema_version="1.0", expose_helpers=True, **checked(helpers=helpers))
    async with place.opened() as (source, session):
        assert names(session) == {"all.double", "all.hidden", "some.double"}
        result = await session.call("some.double", {"n": 4})
        assert result.data == 8
        assert result.metadata["definition"] == (await source.resolve("some")).sha256
        assert session._view.names["some.double"].does == "read"


@requirement("yaml.cmd.1")
async def test_an_unknown_command_is_answered_with_close_ones(place: Place) -> None:
    place.write("say", "cli", **SAY, commands=GREET)
    async with place.opened() as (_, session):
        result = await session.call("say.gret", {})
        assert (code(result), hint(result)) == ("not_found", "similar: say.greet, greet")


@requirement("yaml.cmd.5", "yaml.cmd.6")
async def test_effect_and_needs_of_a_servers_tool_are_the_files_then_the_servers(place: Place) -> None:
    reads = {"annotations": {"readOnlyHint": True}}
    peer = place.peer({"name": "read", **reads}, {"name": "said", **reads})
    listed = ["read", {"name": "said", "effect": "idempotent"}]
    variables = [{"name": "PEER_KEY"}]
    place.write("own", "mcp", commands=listed, mcp_specific={**peer, "environment_variables": variables})
    place.write("theirs", "mcp", place.folder / "packs/p/tools", commands=["read"], mcp_specific=peer)
    source = place.source("p", project=place.folder)
    async with place.opened(source=source) as (_, session):
        tools = session._view.names
        assert {tools[id].does for id in ("own.read", "theirs.read")} == {"once"}
        assert tools["own.read"].capabilities == (f"exec:cmd:{peer['server_command']}", "secrets:read:PEER_KEY")
        await source.live("own")
        await source.live("theirs")
        tools = session._view.names
        found = {id: tools[id].does for id in ("own.read", "own.said", "theirs.read")}
        assert found == {"own.read": "read", "own.said": "idempotent", "theirs.read": "once"}


@requirement("yaml.cmd.6")
async def test_a_remote_server_needs_its_host(place: Place) -> None:
    place.write("near", "mcp", commands=["go"], mcp_specific={"connection": {"url": "https://mcp.example.com/sse?a=1"}})
    place.write("far", "mcp", commands=["go"], mcp_specific={"server_command": "http://Example.com:8080/mcp"})
    async with place.opened() as (_, session):
        assert session._view.names["near.go"].capabilities == ("net:egress:mcp.example.com",)
        assert session._view.names["far.go"].capabilities == ("net:egress:http://example.com:8080",)


@requirement("yaml.filter.1", "yaml.filter.2")
async def test_a_filter_takes_from_what_the_model_reads_and_the_log_keeps_all(place: Place) -> None:
    rows = [{"id": n, "noise": "x" * 50} for n in range(5)]
    peer = place.peer({"name": "list", "says": {"rows": rows}}, {"name": "page", "says": "<p>Hi <b>you</b></p>"})
    commands = [{"name": "list", "filter": {"type": "schema", "fields": ["rows"], "max_tokens": 20}}, "page"]
    place.write("store", "mcp", commands=commands, mcp_specific=peer)
    entries = registry({"tools": {"store.page": {"filter": {"type": "content"}}}})
    async with place.opened(source=place.source(registry=entries)) as (_, session):
        result = await session.call("store.list", {})
        assert result.data == {"rows": rows}
        assert len(result.text) < 200 < len(json.dumps(rows))
        assert (await done(session)).fields["data"] == {"rows": rows}
        assert result.metadata["filter"]["filter_type"] == "schema"
        page = await session.call("store.page", {})
        assert (page.text, page.data) == ("Hi you", "<p>Hi <b>you</b></p>")


@requirement("yaml.load.3")
async def test_short_examples_stand_beside_a_tool(place: Place) -> None:
    shown = [{"scenario": "success", "description": f"no {n}", "input": {"n": n}, "output": 1} for n in range(5)]
    long = {"scenario": "success", "input": {"text": "word " * 300}, "output": 1}
    place.write("say", "cli", **SAY, commands=GREET, examples={"greet": [long, *shown, {"input": {}, "error": {}}]})
    async with place.opened() as (_, session):
        known = session._view.names["say.greet"].knowledge.examples
        assert [(one.title, one.arguments) for one in known] == [(f"no {n}", {"n": n}) for n in range(3)]


@requirement("yaml.know.1", "yaml.know.2")
async def test_a_failure_carries_one_hint_and_help_tells_the_rest(place: Place) -> None:
    place.programs.write("say", "import sys; sys.exit('the token expired')")
    place.write(
        "say",
        "cli",
        **SAY,
        commands=GREET,
        error_handling={"auth": {"error": "token expired", "solution": "Log in again"}},
        **checked(),
        anti_patterns=[
            {
                "pattern": "No title",
                "description": "A greeting has a title",
                "wrong": "greet({})",
                "correct": "greet({title: 'hi'})",
            }
        ],
    )
    async with place.opened() as (_, session):
        assert "A greeting has a title" in hint(await session.call("say.greet", {}))
        assert hint(await session.call("say.greet", {"title": "a"})) == "Log in again"
        told = await session.call("tool_help", {"tool": "say.greet"})
        assert "A greeting has a title" in told.text


@requirement("yaml.find.9")
async def test_a_program_of_a_pack_asks_before_its_first_start_and_shows_its_arguments(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", place.folder / "packs/p/tools", **SAY, commands=GREET)
    async with place.opened(source=place.source("p", project=place.folder)) as (_, session):
        assert not session._view.names["say.greet"].trusted
        call = await session.submit("say.greet", {"title": "a b"})
        await until(session, "waiting")
        (asked,) = await session.questions()
        assert (asked.kind, asked.data) == ("confirm", {"argv": ["say", "a b"]})
        await session.answer(asked.id, "accept", actor="ada")
        assert (await session.result(call.id)).data == {"args": ["a b"]}
        assert (await session.call("say.greet", {"title": "again"})).ok
        place.write("say", "cli", place.folder / "packs/p/tools", **SAY, commands=GREET, version="1.0.1")
        changed = await session.submit("say.greet", {"title": "c"})
        await until(session, "waiting", (await events(session))[-1].seq - 1)
        (asked,) = await session.questions()
        await session.answer(asked.id, "decline", actor="ada")
        assert code(await session.result(changed.id)) == "declined"


@requirement("yaml.find.9")
async def test_a_servers_program_of_a_pack_is_not_started_until_somebody_agrees(place: Place) -> None:
    peer = place.peer({"name": "go", "inputSchema": {"type": "object", "properties": {"n": {}}}})
    check = {"method": "command", "command": "touch looked", "required": True, "on_failure": {"action": "skip_tool"}}
    place.write("theirs", "mcp", commands=["go"], mcp_specific=peer, health_check=check)
    source = place.source()
    source.library.use([DefinitionRoot(place.root, trusted=False)])
    async with place.opened(source=source) as (_, session):
        before = session._view.names["theirs.go"]
        call = await session.submit("theirs.go", {})
        await until(session, "waiting")
        (asked,) = await session.questions()
        assert asked.data == {"argv": [peer["server_command"], *peer["server_args"]]}
        assert not place.log.exists()
        assert not (place.folder / "looked").exists()
        await session.answer(asked.id, "accept", actor="ada")
        assert (await session.result(call.id)).ok
        assert session._view.names["theirs.go"].fingerprint == before.fingerprint


@requirement("yaml.cmd.7")
async def test_a_meta_tool_calls_its_members_through_their_checks(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", **SAY, commands=[{**GREET[0], "effect": "idempotent"}], **checked())
    steps = [{"step": "hi", "tool": "say", "command": "greet", "input": {"title": "{{args.title}}"}}]
    place.write("a-meta", "meta", meta_specific={"aggregates": ["say"], "workflow": steps})
    async with place.opened() as (_, session):
        assert session._view.names["a-meta.run"].does == "idempotent"
        result = await session.call("a-meta.run", {"title": "x"})
        assert result.data["steps"]["hi"]["data"] == {"args": ["x"]}
        refused = await session.call("a-meta.run", {"title": ""})
        assert (code(refused), message(refused)) == (
            "invalid_arguments",
            "Step 'hi' failed: title: title is required",
        )


@requirement("yaml.cmd.7", "yaml.box.4")
async def test_validators_that_go_wrong_harm_no_other_call(place: Place) -> None:
    place.programs.write("say", ECHO)
    bad: dict[str, Any] = {
        "loops": {"function": "/^(a+)+$/.test('a'.repeat(40) + 'b'); ({valid: true})"},
        "eats": {"function": "let x = []; while (true) x.push('y'.repeat(100000) + x.length)", "timeout_ms": 5000},
        "dies": {"function": "while True: pass", "language": "python", "timeout_ms": 5000},
    }
    commands = [{**GREET[0], "name": name} for name in ("greet", *bad)]
    validators = [{**NEEDS_TITLE, "validates": "greet"}]
    validators += [{"id": name, "validates": name, **how} for name, how in bad.items()]
    place.write("say", "cli", **SAY, commands=commands, **checked(*validators))
    async with place.opened() as (source, session):
        await source.validate("say", "greet", {})
        good = [session.call("say.greet", {"title": str(n)}) for n in range(50)]
        wrong = [session.call(f"say.{name}", {"title": "x"}) for name in bad]
        killing = asyncio.create_task(_kill_worker())
        results = await asyncio.gather(*wrong, *good)
        await killing
    assert [(code(one), message(one)) for one in results[:3]] == [
        ("unavailable", "Validator 'loops' exceeded 500ms timeout. Validation failed for safety."),
        ("unavailable", "Validator 'eats' exceeded 8MB memory limit."),
        ("unavailable", "Validation error in 'dies': the sandbox died"),
    ]
    assert [one.data for one in results[3:]] == [{"args": [str(n)]} for n in range(50)]


async def _kill_worker() -> None:
    """Kills the process in which Python of files runs, once it has something to do."""
    while True:
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if any("monty" in word for word in child.cmdline()) and child.cpu_times().user > 0.1:
                    child.kill()
                    return
        await asyncio.sleep(0.01)  # nobody tells when a process computes


async def test_odd_blocks_of_a_file_do_not_take_its_tools_away(place: Place) -> None:
    odd: dict[str, Any] = {"tags": 5, "category": ["x"], "expose_helpers": 3, "health_check": [1], "requires": {"a": 1}}
    place.write("say", "cli", **SAY, commands=[*GREET, 5, {"name": "no/good"}, None], **odd)
    place.write("peer", "mcp", commands=["a"], mcp_specific={"server_command": "x", "server_args": 5, "connection": 7})
    place.write("quiet", "mcp", commands=["a"], mcp_specific={"connection": {"url": "https://"}})
    async with place.opened() as (_, session):
        assert names(session) == {"say.greet", "peer.a"}


async def test_files_in_a_crib_are_named_by_their_folder(place: Place) -> None:
    place.write("notes", "http", commands=["show"])
    async with Crib([str(place.root)]) as crib:
        assert names(await crib.open(owner="ada", namespaces=["notes"])) == {"notes.show"}

"""The stories of the policy that no other file tells from beginning to end."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import project
from tests.cli.project import Project
from tests.contract.observers import code, log, message, parked
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Context, Crib, Result, Session, Tool, ToolFailure, tool
from toolcrib.keywords import CallKeywords


@tool(namespace="box", capabilities=["fs:read:{path}"], read_only=True)
async def read(path: str) -> str:
    """Read a file."""
    return f"read {path}"


@tool(namespace="box", capabilities=["fs:write:{path}"])
async def write(path: str, text: str = "") -> str:
    """Write a file."""
    return f"wrote {path}"


@tool(namespace="box", capabilities=["exec:cmd:{command}"])
async def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool(namespace="box", capabilities=["net:egress:{url}"])
async def fetch(url: str) -> str:
    """Fetch a page."""
    return f"fetched {url}"


__all__ = ["project"]
TOOLS = [read, write, shell, fetch]


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db")


async def opened(crib: Crib, *namespaces: str) -> Session:
    return await crib.open("s", owner="ada", namespaces=list(namespaces) or ["box"])


@requirement("policy.preset.1", "policy.approve.4")
async def test_story_1_a_developer_is_allowed_one_asked_three_times_and_then_no_more(
    place: Place, tmp_path: Path
) -> None:
    async with place.crib(*TOOLS, policy={"preset": "developer"}, workspace=tmp_path) as crib:
        session = await opened(crib)
        assert (await session.call("read", {"path": "a.txt"})).ok
        wanted = {"write": {"path": "a.txt"}, "shell": {"command": "git status"}, "fetch": {"url": "https://x.example"}}
        asked = {name: await parked(session, name, args) for name, args in wanted.items()}
        assert len(await session.questions()) == 3
        await session.answer(asked["shell"].id, "accept", scope="session")
        assert (await session.result(asked["shell"].call)).data == "ran git status"
        assert (await session.call("shell", {"command": "git status"})).data == "ran git status"
        assert {question.id for question in await session.questions()} == {asked["write"].id, asked["fetch"].id}


@requirement("policy.why.1", "policy.shell.5")
@pytest.mark.process
def test_story_2_why_shows_each_part_of_a_command_and_what_decided_it(project: Project) -> None:
    source = "from toolcrib import tool\n@tool(capabilities=['exec:cmd:{command}'])\n"
    project.write(
        "shop_tools.py", f"{source}async def shell(command: str) -> str:\n    '''Run.'''\n    return command\n"
    )
    rules = [{"allow": "shell(git *)"}, {"id": "no-rm", "deny": "shell(rm -rf *)", "reason": "Use the trash."}]
    given = {"grants": {"allow": ["exec:cmd:*", "fs:*:/**"]}, "rules": rules}
    project.write("crib.yaml", json.dumps({"sources": ["shop_tools"], "policy": given}))
    shown = project.run("why", "shell", '{"command":"git status && rm -rf x"}', code=4).out
    assert "Use the trash." in shown.splitlines()[0]
    told = project.run("why", "shell", '{"command":"git status && rm -rf x"}', "--json", code=4).json
    assert [(part["segment"], part["effect"], part["by"]) for part in told["parts"]] == [
        ("git status", "allow", "rule"),
        ("rm -rf x", "deny", "rule"),
    ]
    assert told["verdict"]["rule"] == "no-rm"


@requirement("policy.match.path", "policy.why.2")
async def test_story_3_reading_through_a_link_out_of_the_workspace_is_denied_by_the_real_path(tmp_path: Path) -> None:
    outside, workspace = tmp_path / "outside", tmp_path / "ws"
    for folder in (outside, workspace):
        folder.mkdir()
    (workspace / "link").symlink_to(outside)
    policy = {"grants": {"allow": ["fs:read:${workspace}/**"]}}
    async with Crib(TOOLS, policy=policy, workspace=workspace) as crib:
        session = await opened(crib)
        assert (await session.call("read", {"path": "a.txt"})).ok
        result = await session.call("read", {"path": "link/passwd"})
        assert (code(result), os.path.realpath(outside / "passwd") in message(result)) == ("denied", True)


@requirement("policy.approve.2")
async def test_story_5_an_approval_does_not_reach_a_tool_that_changed_and_counts_once(place: Place) -> None:
    ran: list[str] = []

    def pay(description: str) -> Tool:
        async def pay(ctx: Context, order: str) -> str:
            ran.append(order)
            return order

        pay.__doc__ = description
        return tool(requires_confirmation=True)(pay)

    async with place.crib(pay("Pay.")) as crib:
        question = await parked(await opened(crib, "default"), "pay", {"order": "A"})
    async with place.crib(pay("Pay all.")) as crib:
        session = await opened(crib, "default")
        await session.answer(question.id, "accept", key="k")
        assert "changed after the approval" in message(await session.result(question.call))
        question = await parked(session, "pay", {"order": "B"})
        given = [await session.answer(question.id, "accept", key="k") for _ in range(2)]
        assert given[0] == given[1]
        assert (await session.result(question.call)).ok
    assert ran == ["B"]


@requirement("policy.loop.2", "policy.audit.1")
async def test_story_7_a_failing_call_is_warned_of_refused_and_audited_and_another_way_is_open(place: Place) -> None:
    from toolcrib._session.audit import audit

    @tool(namespace="box", effect="idempotent")
    async def poke(target: str) -> str:
        """Poke it."""
        if target == "wall":
            raise ToolFailure("failed", "it does not move")
        return "moved"

    async with place.crib(poke) as crib:
        session = await opened(crib)
        by = ("agent", "scout")
        results = [await session.call("poke", {"target": "wall"}, by=by, run="r") for _ in range(4)]
        assert [code(result) for result in results] == ["failed"] * 3 + ["denied"]
        assert results[2].failure is not None
        assert results[2].failure.hint == "This call has given the same result 3 times"
        assert message(results[3]).startswith("Loop: 'poke' was called 3 times with the same arguments")
        assert (await session.call("poke", {"target": "door"}, by=by, run="r")).data == "moved"
        entries = audit(session.id, "ada", await log(session))
        assert [entry["outcome"] for entry in entries] == ["failed"] * 3 + ["denied", "succeeded"]


@requirement("policy.approve.5", "policy.approve.6")
async def test_story_8_a_question_outlives_its_server_and_its_last_yes_is_given_elsewhere(tmp_path: Path) -> None:
    url, ran = f"sqlite:///{tmp_path}/log.db", []

    def pay(server: str) -> Tool:
        @tool
        async def pay(order: str) -> str:
            """Pay."""
            ran.append((server, order))
            return order

        return pay

    policy: dict[str, Any] = {"rules": [{"ask": "pay", "quorum": 2}]}
    here = Crib([pay("here")], store=url, policy=policy)
    await here.start()
    session = await opened(here, "default")
    question = await parked(session, "pay", {"order": "A"})
    await session.answer(question.id, "accept", actor="ann")
    await here.stop(grace=0)
    async with Crib([pay("there")], store=url, policy=policy) as there:
        session = await opened(there, "default")
        assert [one.approved_by for one in await session.questions()] == [("ann",)]
        await asyncio.gather(*(session.answer(question.id, "accept", actor="bob", key="k") for _ in range(3)))
        assert (await session.result(question.call)).ok
    assert ran == [("there", "A")]


# Namespaces


@tool(namespace="time", read_only=True)
async def now() -> int:
    """Tell the time."""
    return 12


@tool(namespace="forge", read_only=True)
async def build() -> str:
    """Build."""
    raise AssertionError("it is closed")


@tool(namespace="time", read_only=True)
async def detour(ctx: Context, name: str) -> str | None:
    """Call another tool."""
    result: Result = await ctx.call(name)
    return None if result.failure is None else result.failure.message


CLOSED = "Namespace 'forge' is not open in this session (open: default, time)"


@requirement("policy.ns.1")
async def test_a_closed_namespace_is_closed_however_its_tools_are_reached(place: Place) -> None:
    async with place.crib(now, build, detour) as crib:
        session = await opened(crib, "default", "time")
        assert [one.id for one in session.tools()] == ["time.detour", "time.now"]
        assert sorted(session.model_tools()) == ["detour", "now"]
        every: list[CallKeywords] = [{}, {"by": ("agent", "scout"), "agent": "scout"}, {"by": ("user", "ada")}]
        for options in every:
            for name in ("build", "forge.build"):
                result = await session.call(name, **options)
                assert (code(result), message(result)) == ("denied", CLOSED)
        call = await session.submit("forge.build")
        assert message(await session.result(call.id)) == CLOSED
        for options in every[:2]:
            told = await session.call("detour", {"name": "forge.build"}, **options)
            assert told.data == CLOSED
        (verdict, *_) = [event.fields["verdict"] for event in await log(session, "done") if "verdict" in event.fields]
        assert (verdict["effect"], verdict["by"]) == ("deny", "namespace")


@requirement("policy.ns.1")
async def test_namespaces_are_names_or_globs_and_default_unless_said(place: Place) -> None:
    async with place.crib(now, build) as crib:
        assert (await crib.open(owner="ada")).namespaces == ("default",)
        session = await crib.open(owner="ada", namespaces=["t*"])
        assert (await session.call("time.now")).data == 12
        assert code(await session.call("forge.build")) == "denied"

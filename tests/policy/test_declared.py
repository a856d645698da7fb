"""policy.cap.4: what the operator says of tools of others counts as if they had declared it."""

from pathlib import Path
from typing import Any

import pytest

from tests.policy.test_fingerprints import Stranger
from tests.requirements import requirement
from toolcrib import Annotations, BadTool, Crib, Session, Tool

TEXT = {"type": "string"}


async def answer(ctx: Any, values: Any) -> str:
    return "done"


def far(name: str, *arguments: str, **more: Any) -> Tool:
    schema = {"type": "object", "properties": dict.fromkeys(arguments, TEXT), "additionalProperties": False}
    given: dict[str, Any] = {
        "run": answer,
        "trusted": False,
        "source": "mcp",
        "input_schema": schema,
        "description": name,
    } | more
    made: Tool = Tool(name=name, namespace="far", **given)
    return made


def crib(*tools: Tool, declare: dict[str, Any], workspace: Path | None = None, **policy: Any) -> Crib:
    return Crib([Stranger(*tools)], declare=declare, policy=policy, workspace=workspace)


async def opened(crib: Crib) -> Session:
    return await crib.open(owner="ada", namespaces=["far"])


def effect(session: Session, tool: str, **args: Any) -> str:
    return str(session.why(tool, args).verdict.effect)


@requirement("policy.cap.4")
async def test_declared_capabilities_are_judged_by_the_grants(tmp_path: Path) -> None:
    declare = {"far.put": {"capabilities": ["fs:write:{path}"]}}
    grants = {"allow": ["fs:write:${workspace}/**"]}
    async with crib(far("put", "path"), declare=declare, workspace=tmp_path, grants=grants, default="allow") as made:
        session = await opened(made)
        assert (await session.call("far.put", {"path": "a/../b.txt"})).ok
        denied = await session.call("far.put", {"path": "../b.txt"})
        assert "is not granted (granted: " in str(denied.failure)


@requirement("policy.cap.4", "policy.cap.3")
async def test_declared_kinds_decide_how_a_rule_compares(tmp_path: Path) -> None:
    rules = [{"allow": 'far.put(path ~ "docs/**")'}]
    for kinds, inside, outside in (({}, "ask", "allow"), ({"path": "path"}, "allow", "ask")):
        made = crib(far("put", "path"), declare={"far.put": {"kinds": kinds}}, workspace=tmp_path, rules=rules)
        async with made:
            session = await opened(made)
            assert effect(session, "far.put", path="./docs/x/../a.md") == inside
            assert effect(session, "far.put", path="docs/../../a.md") == outside


@requirement("policy.cap.4")
async def test_declared_annotations_are_believed_where_those_of_a_stranger_are_not() -> None:
    honest = far("look", annotations=Annotations(read_only=True))
    for declare, expected in (
        ({}, "ask"),
        ({"far.look": {"annotations": {"read_only": True}}}, "allow"),
        ({"far.look": {"annotations": {"requires_confirmation": True}}}, "ask"),
        ({"far.look": {"annotations": {"destructive": True}}}, "ask"),
    ):
        async with crib(honest, declare=declare) as made:
            assert effect(await opened(made), "far.look") == expected


@requirement("policy.cap.4")
async def test_a_declared_effect_counts() -> None:
    async with crib(far("look"), declare={"far.look": {"effect": "read"}}) as made:
        (tool,) = (await opened(made)).tools()
        assert (tool.does, tool.vouched) == ("read", False)


@requirement("policy.cap.4")
async def test_a_glob_covers_many_tools_and_what_it_says_of_an_argument_those_that_have_it() -> None:
    declare = {
        "far.*": {"annotations": {"read_only": True}, "kinds": {"path": "path"}, "capabilities": ["fs:read:{path}"]},
        "far.put": {"capabilities": ["fs:write:{path}"], "annotations": {"open_world": True}},
    }
    async with crib(far("get", "path"), far("now"), far("put", "path"), declare=declare) as made:
        tools = {tool.name: tool for tool in (await opened(made)).tools()}
        assert {name: tool.capabilities for name, tool in tools.items()} == {
            "get": ("fs:read:{path}",),
            "now": (),
            "put": ("fs:read:{path}", "fs:write:{path}"),
        }
        assert tools["put"].annotations == Annotations(read_only=True, open_world=True)
        assert all(tool.vouched for tool in tools.values())


@requirement("policy.cap.4")
async def test_what_comes_later_is_declared_too_and_what_does_not_fit_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stranger = Stranger(far("put", "path"))
    declare: dict[str, Any] = {"far.put": {"kinds": {"path": "path"}}, "far.get": {"capabilities": ["fs:read:{path}"]}}
    async with Crib([stranger], declare=declare) as made:
        session = await opened(made)
        stranger.says(far("put", "target"), far("get", "path"))
        assert [(tool.id, tool.capabilities) for tool in session.tools()] == [("far.get", ("fs:read:{path}",))]
        assert "far.put" in caplog.text
        assert "kinds.path: there is no such argument" in caplog.text


def test_what_does_not_fit_a_tool_of_our_own_is_an_error() -> None:
    mine = far("put", "path", trusted=True)
    for said, named in (
        ({"kinds": {"pth": "path"}}, "declare.kinds.pth"),
        ({"capabilities": ["fs:write:{pth}"]}, "declare.capabilities"),
    ):
        with pytest.raises(BadTool, match=f"Tool 'far.put' .*: {named}: "):
            Crib([mine], declare={"far.put": said})


@pytest.mark.parametrize(
    ("said", "field", "problem"),
    [
        ([], "declare", "is no mapping"),
        ({"capabilites": []}, "declare.capabilites", "unknown key, did you mean 'capabilities'?"),
        ({"capabilities": "fs:read:{path}"}, "capabilities", "is no list such as"),
        ({"capabilities": [7]}, "capabilities", "is no list such as"),
        ({"capabilities": ["fs"]}, "capabilities", "fs"),
        ({"kinds": ["path"]}, "kinds", "is no mapping"),
        ({"kinds": {"path": "file"}}, "kinds.path", "'file' is none of path, glob, url"),
        ({"annotations": ["read_only"]}, "annotations", "is no mapping"),
        ({"annotations": {"readonly": True}}, "annotations.readonly", "did you mean 'read_only'?"),
        ({"annotations": {"read_only": "yes"}}, "annotations.read_only", "'yes' is neither true nor false"),
        ({"effect": "none"}, "effect", "'none' is none of read, idempotent, once"),
    ],
)
def test_a_bad_declaration_is_named_with_its_key(said: Any, field: str, problem: str) -> None:
    with pytest.raises(BadTool) as bad:
        Crib(declare={"far.*": said})
    assert (bad.value.tool, bad.value.field) == ("far.*", field)
    assert problem in bad.value.problem


async def test_what_is_declared_does_not_make_a_tool_look_changed() -> None:
    async with crib(far("look"), declare={"far.*": {"annotations": {"read_only": True}}}, pin="deny") as made:
        session = await opened(made)
        assert (await session.call("far.look")).ok

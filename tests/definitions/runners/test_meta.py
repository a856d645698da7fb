"""Tools made of other tools."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from tests.definitions.runners.made import definition, made, session_with, tool_of
from tests.durability.processes import lines
from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import Crib, Result, Tool, tool
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.runners import BadTemplate, RunnerSettings, runner
from toolcrib.errors import ToolFailure
from toolcrib.types import Effect

DONE: list[Any] = []


@tool(namespace="shop")
async def note(what: Any = None) -> Any:
    """Remember something."""
    DONE.append(what)
    return {"seen": what, "count": len(DONE)}


@tool(namespace="shop")
async def fail(code: str = "failed") -> None:
    """Fail on purpose."""
    raise ToolFailure(code, "No more apples", hint="Buy pears")


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


def flow(steps: str, more: str = "aggregates: [shop]") -> Tool:
    return tool_of(definition("meta", f"meta_specific:\n  {more}\n  workflow:\n{steps}"), "run")


async def ran(made_tool: Tool, args: Any = None) -> Result:
    async with session_with(made_tool, note, fail) as session:
        return await session.call(made_tool.id, args)


@requirement("yaml.run.meta.1")
async def test_steps_are_done_in_order_with_what_earlier_ones_gave() -> None:
    steps = """
    - {step: one, tool: shop, command: note, input: {what: "{{args.list}}"}}
    - {step: two, tool: SHOP, command: note, input: {what: ["{{steps.one.data.count}}", "n {{steps.one.data.count}}"]}}
    - {tool: shop.note, input: {what: "{{args.absent}}"}}
"""
    result = await ran(flow(steps), {"list": [1, {"a": None}]})
    assert DONE == [[1, {"a": None}], [1, "n 1"], None]
    assert list(result.data["steps"]) == ["one", "two", "3"]
    assert result.data["steps"]["two"] == {"ok": True, "data": {"seen": [1, "n 1"], "count": 2}}


@requirement("yaml.run.meta.1")
async def test_each_step_is_a_child_call_and_recorded() -> None:
    made_tool = flow("    - {step: one, tool: shop, command: note}")
    async with session_with(made_tool, note) as session:
        call = await session.submit(made_tool.id)
        await session.result(call.id)
        events = [event async for event in session.events(follow=False)]
    assert [event.fields["key"] for event in events if event.kind == "step"] == ["one"]
    (child,) = [event for event in events if event.fields.get("parent") == call.id]
    assert (child.fields["tool"], child.fields["by"]["kind"]) == ("shop.note", "tool")


@requirement("yaml.run.meta.1")
@pytest.mark.parametrize(
    ("when", "args", "done"),
    [
        ("args.yes", {"yes": True}, True),
        ("args.yes", {"yes": False}, False),
        ("args.yes", {}, False),
        ('"{{args.yes}}"', {"yes": 1}, True),
        ("false", {}, False),
        ("true", {}, True),
    ],
)
async def test_a_step_is_skipped_when_it_is_not_wanted(when: str, args: Any, done: bool) -> None:
    result = await ran(flow(f"    - {{step: one, tool: shop, command: note, when: {when}}}"), args)
    assert (DONE == [None]) is done
    assert result.data["steps"]["one"].get("skipped", False) is not done


@requirement("yaml.run.meta.1")
async def test_a_failed_step_stops_unless_it_may_fail() -> None:
    fails = "    - {step: bad, tool: shop, command: fail, input: {code: rate_limited}%s}\n"
    after = "    - {step: good, tool: shop, command: note, input: {what: '{{steps.bad.failure.code}}'}}"
    result = await ran(flow(fails % "" + after))
    assert result.failure is not None
    assert (result.failure.code, result.failure.hint) == ("rate_limited", "Buy pears")
    assert result.failure.message == "Step 'bad' failed: No more apples"
    assert result.metadata["step"] == "bad"
    assert DONE == []
    assert (await ran(flow(fails % ", on_error: continue" + after))).ok
    assert DONE == ["rate_limited"]


@requirement("yaml.run.meta.3")
async def test_only_members_may_be_called() -> None:
    step = "    - {tool: shop, command: note}"
    result = await ran(flow(step, "aggregates: [other, shop.fail]"))
    assert result.failure is not None
    assert result.failure.code == "denied"
    assert DONE == []
    assert (await ran(flow(step, "orchestrates: [Shop.note]"))).ok


@requirement("yaml.run.meta.3")
async def test_no_permission_is_conferred() -> None:
    locked = note.but(capabilities=("fs:write:/etc/x",))
    made_tool = flow("    - {tool: shop, command: note}")
    assert made_tool.capabilities == ()
    policy = {"default": "allow", "grants": {"allow": [], "ungranted": "deny"}}
    async with Crib([made_tool, locked], policy=policy) as crib:
        session = await crib.open(owner="ada", namespaces=["*"])
        result = await session.call(made_tool.id)
    assert result.failure is not None
    assert result.failure.code == "denied"


@requirement("yaml.run.meta.3", "yaml.cmd.5")
@pytest.mark.parametrize(
    ("effects", "said", "expected"),
    [
        (["read", "read"], "", "read"),
        (["read", "idempotent"], "", "idempotent"),
        (["read", "once"], "effect: read", "once"),
        (["read", None], "", "once"),
        (["read", "read"], "effect: once", "once"),
    ],
)
def test_the_effect_is_the_worst_of_the_members(effects: list[Effect | None], said: str, expected: str) -> None:
    known = {"shop.a": effects[0], "shop.b": effects[1]}
    steps = "[{tool: shop, command: a}, {tool: shop, command: b}]"
    found = definition("meta", f"{said}\nmeta_specific: {{aggregates: [shop], workflow: {steps}}}")
    how = made(found, "run", RunnerSettings(effect_of=known.__getitem__))
    assert (how.effect, how.resumes) == (expected, True)


def test_the_arguments_of_a_workflow_are_shown() -> None:
    made_tool = flow("    - {tool: shop, command: note, input: {what: '{{args.a.b}} {{args.c}}'}, when: args.d}")
    assert list(made_tool.input_schema["properties"]) == ["a", "c", "d"]


@pytest.mark.parametrize(
    "workflow",
    [
        "[]",
        "text",
        "[1]",
        "[{command: note}]",
        "[{tool: shop}]",
        "[{tool: shop, command: note, input: 7}]",
        "[{tool: shop, command: note, input: {a: '{{b}}'}}]",
        "[{tool: shop, command: note, input: {a: '{{steps.later.data}}'}}, {step: later, tool: shop, command: note}]",
        "[{tool: shop, command: note, on_error: explode}]",
        "[{step: a, tool: shop, command: note}, {step: a, tool: shop, command: note}]",
        "[{tool: shop, command: note, when: 'a b'}]",
    ],
)
def test_a_workflow_that_does_not_hold_is_found_when_it_is_read(workflow: str) -> None:
    with pytest.raises(BadTemplate):
        made(definition("meta", f"meta_specific: {{aggregates: [shop], workflow: {workflow}}}"), "run")


def test_members_alone_are_a_group_and_nothing_to_run() -> None:
    found = definition("meta", "meta_specific: {aggregates: [shop]}\ncommands: [run]")
    assert runner(found, found.commands[0], RunnerSettings()) is None


# A helper decides


def directed(decide: Any, turns: list[Any] | None = None) -> Tool:
    async def helper(found: ToolDefinition, id: str, given: Mapping[str, Any]) -> Any:
        assert id == "next"
        if turns is not None:
            turns.append(given)
        return decide(given["args"], given["steps"])

    found = definition("meta", "meta_specific: {aggregates: [shop], orchestration: helpers.next}")
    return tool_of(found, "run", RunnerSettings(helper=helper))


@requirement("yaml.run.meta.2")
async def test_a_helper_says_what_is_called_until_it_is_done() -> None:
    def decide(args: Any, steps: list[Any]) -> Any:
        if not steps:
            return {"call": {"tool": "shop", "command": "note", "args": {"what": args["x"]}}}
        if len(steps) == 1:
            return {"calls": [{"tool": "shop", "command": "note"}, {"tool": "shop", "command": "fail"}]}
        return {"done": [step["ok"] for step in steps]}

    result = await ran(directed(decide), {"x": 5})
    assert result.data == [True, True, False]
    assert DONE == [5, None]


@requirement("yaml.run.meta.2")
async def test_a_helper_is_asked_fifty_times_at_most() -> None:
    turns: list[Any] = []
    call = {"call": {"tool": "shop", "command": "note"}}
    result = await ran(directed(lambda args, steps: call, turns))
    assert result.failure is not None
    assert (result.failure.code, len(turns), len(DONE)) == ("failed", 50, 50)


@requirement("yaml.run.meta.2", "yaml.run.meta.3")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        (None, "failed"),
        ({}, "failed"),
        ({"calls": "x"}, "failed"),
        ({"call": {"command": "x"}}, "failed"),
        ({"call": {"tool": "bank", "command": "pay"}}, "denied"),
    ],
)
async def test_a_helper_that_says_nonsense_ends_the_call(said: Any, code: str) -> None:
    result = await ran(directed(lambda args, steps: said))
    assert result.failure is not None
    assert result.failure.code == code


async def test_two_steps_that_do_the_same_are_both_done() -> None:
    step = "    - {tool: shop, command: note, input: {what: 1}}\n"
    assert (await ran(flow(step * 3))).ok
    assert DONE == [1, 1, 1]


def killed_at(where: str, folder: Path) -> list[Any]:
    """What a workflow came to that was killed at some point and taken up again: its data, its failure, its steps."""
    arguments = ["-m", "tests.definitions.runners.flows", f"sqlite:///{folder}/log.db", str(folder / "effects")]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with Popen([sys.executable, *arguments, where], stdout=PIPE, text=True, env=env, cwd=ROOT) as killed:
        assert killed.stdout is not None
        assert json.loads(killed.stdout.readline()) == where
        killed.kill()
    with Popen([sys.executable, *arguments, "none"], stdout=PIPE, text=True, env=env, cwd=ROOT) as again:
        said: list[Any] = json.loads(again.communicate(timeout=60)[0])
    return said


@requirement("yaml.run.meta.1")
@pytest.mark.parametrize("where", ["first", "second"])
@pytest.mark.process
def test_a_killed_workflow_does_only_what_is_left(tmp_path: Path, where: str) -> None:
    data, failure, steps = killed_at(where, tmp_path)
    assert (failure, steps) == (None, ["first", "second", "third"])
    assert [step["data"] for step in data["steps"].values()] == ["x", "x!", "x"]
    assert lines(tmp_path / "effects") == ["True x", "True x!", "True x"]


@requirement("yaml.run.meta.1")
@pytest.mark.process
def test_a_step_that_was_killed_half_way_is_not_done_again(tmp_path: Path) -> None:
    _, failure, steps = killed_at("third", tmp_path)
    assert (failure, steps) == ("unknown", ["first", "second", "third"])
    assert lines(tmp_path / "effects") == ["True x", "True x!", "True x"]

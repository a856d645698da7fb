"""Distri: tools, results, task statuses and our log as its events."""

from typing import Any

import pytest

from tests.interop.observers import Log, known, question, tags
from tests.requirements import requirement
from toolcrib.interop import InteropError, distri
from toolcrib.types import Call, Failure, Result, block


@requirement("contract.interop.10")
def test_tools_of_both_forms_come_and_go_unchanged() -> None:
    plain = {"name": "n", "description": "d", "parameters": {"type": "object"}, "examples": [1], "prompt": "p"}
    external = {"name": "n", "description": "d", "parameters": {"type": "object"}, "is_final": True}
    for form in (plain, external):
        tool = distri.to_tool(form, "x")
        assert (tool.id, tool.run) == ("x.n", None)
        assert distri.from_tool(tool) == form
    assert distri.to_tool({"name": "n", "description": ""}).input_schema == {"type": "object", "properties": {}}


@requirement("contract.interop.10")
def test_a_call_refuses_unknown_fields_and_keeps_a_text() -> None:
    call = {"tool_call_id": "p", "tool_name": "t", "input": "raw"}
    assert distri.to_call(call) == ("t", "raw", "p", ())
    with pytest.raises(InteropError, match="x is not known"):
        distri.to_call({**call, "x": 1})
    assert distri.from_call(Call("c", "s", "default.t", {"a": 1})) == {
        "tool_call_id": "c",
        "tool_name": "t",
        "input": {"a": 1},
    }


@requirement("contract.interop.10")
@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (Result("hi"), [{"part_type": "text", "data": "hi"}]),
        (Result({"a": 1}), [{"part_type": "data", "data": {"a": 1}}]),
        (Result(None), [{"part_type": "data", "data": None}]),
        (
            Result(failure=Failure("denied", "no")),
            [{"part_type": "data", "data": {"error": {"code": "denied", "message": "no"}}}],
        ),
    ],
)
def test_a_result_is_one_part_and_a_failure_a_data_part(result: Result, parts: Any) -> None:
    written = distri.from_result("c", "t", result)
    assert written == {"tool_call_id": "c", "tool_name": "t", "parts": parts}
    assert distri.to_result(written) == result


@requirement("contract.interop.10")
def test_blocks_are_parts_and_what_is_for_the_model_is_marked() -> None:
    content = [
        block("text", ("model",), text="psst"),
        block("json", value=[1]),
        block("image", data="AA", mime_type="image/png"),
        block("audio", data="BB", mime_type="audio/ogg"),
        block("resource", uri="a.txt", mime_type="text/plain", data="CC"),
        block("link", uri="https://x", name="x"),
    ]
    written = distri.from_result("c", "t", Result(content=content))
    assert [part["part_type"] for part in written["parts"]] == [
        "text",
        "data",
        "image",
        "file",
        "file",
        "resource_link",
    ]
    assert written["parts_metadata"] == {"0": {"save": True, "developer": True}}
    assert distri.loads("ToolResponse", distri.dumps("ToolResponse", written)) == written
    assert list(distri.to_result(written).content) == content
    odd = distri.from_result("c", "t", Result(content=[block("smell", notes="oak")]))
    assert odd["parts"] == [{"part_type": "data", "data": {"type": "smell", "notes": "oak"}}]


@requirement("contract.interop.10")
def test_parts_that_we_have_no_block_for_keep_their_name() -> None:
    url = {"part_type": "file", "data": {"type": "url", "url": "https://x", "mime_type": "text/plain", "name": None}}
    parts = [url, {"part_type": "artifact", "data": {"id": 1}}, {"part_type": "hologram", "data": 5}]
    read = distri.to_result({"tool_call_id": "c", "tool_name": "t", "parts": parts})
    assert [given["type"] for given in read.content] == ["link", "artifact", "hologram"]
    assert read.content[0] == {"type": "link", "uri": "https://x", "mime_type": "text/plain"}
    assert distri.to_result({"tool_call_id": "c", "tool_name": "t", "parts": []}).data is None


def test_a_client_gets_a_question_and_answers_with_a_response() -> None:
    asked = distri.to_question({"tool_call_id": "c1", "tool_name": "t", "input": {"a": 1}})
    assert (asked.call, asked.kind, asked.resume, asked.arguments) == ("c1", "client", "use", {"a": 1})
    good = distri.to_answer(distri.from_result("c1", "t", Result({"ok": 1})), "c1-1", "bob")
    assert (good.action, good.value, good.question) == ("accept", {"ok": 1}, "c1-1")
    bad = distri.to_answer(distri.from_result("c1", "t", Result(failure=Failure("failed", "m"))), "c1-1", "bob")
    assert (bad.action, bad.reason) == ("fail", "m")


@requirement("contract.interop.11", "contract.interop.14")
def test_our_log_is_told_as_their_events() -> None:
    log = Log().add("run_started", run="r", agent="ada", origin="user")
    log.accepted("c1", args={"q": 1}, turn="t1").started("c1", {"q": 1}).accepted("c2", turn="t1").done("c1", "hit")
    log.failed("c2", "denied", "no").add("run_finished", run="r", reason="answered", turns=3, usage={"total": 1})
    log.add("run_finished", run="r2", reason="failed", code="model", detail="away", turns=1, usage=None)
    told = distri.replay(log.events)
    assert tags(told, "type") == [
        "run_started",
        "tool_calls",
        "tool_execution_start",
        "tool_execution_end",
        "tool_results",
        "tool_execution_end",
        "tool_results",
        "run_finished",
        "run_error",
    ]
    assert [call["tool_call_id"] for call in told[1]["tool_calls"]] == ["c1", "c2"]
    assert (told[1]["step_id"], told[2]["input"], told[3]["success"], told[5]["success"]) == (
        "t1",
        {"q": 1},
        True,
        False,
    )
    assert distri.to_result(told[6]["results"][0]) == Result(failure=Failure("denied", "no"))
    assert (told[7]["total_steps"], told[8]) == (3, {"type": "run_error", "message": "away", "code": "model"})
    assert known("distri", told) == told


@requirement("contract.interop.11")
def test_a_handover_is_told_once_and_goes_over_a2a_flattened() -> None:
    wish = {"to": "bob", "reason": None, "message": "hello"}
    log = Log().accepted("c1").started("c1").done("c1", handover=wish).handover("c1", **{"from": "ada", **wish})
    (handover,) = [event for event in distri.replay(log.events) if event["type"] == "agent_handover"]
    assert handover == {"type": "agent_handover", "from_agent": "ada", "to_agent": "bob", "reason": None}
    sent = distri.over_a2a(handover, "ada", "task-1")
    assert list(sent) == ["type", "from_agent", "to_agent", "reason", "agent_id", "parent_task_id"]
    assert distri.loads("AgentEvent", distri.dumps("AgentEvent", sent)) == sent
    assert list(distri.over_a2a({"type": "run_started"}, "ada")) == ["type", "agent_id"]


@requirement("contract.interop.10", "contract.interop.14")
def test_a_task_needs_input_while_a_question_is_open() -> None:
    first, second = question("c1"), question("c2")
    log = Log().accepted("c1").accepted("c2").waiting(first).waiting(second).answered(first, "accept")
    log.answered(second, "accept").started("c1").done("c1").done("c2")
    assert distri.task_statuses(log.events) == ["pending", "running", "input_required", "running", "completed"]
    run = Log().add("run_started", run="r", agent="a", origin="user").accepted("c1").done("c1")
    run.add("run_finished", run="r", reason="cancelled", turns=1, usage={})
    assert distri.task_statuses(run.events) == ["pending", "running", "canceled"]
    assert [distri.call_status(status) for status in ("queued", "streaming", "succeeded", "timed_out")] == [
        "pending",
        "running",
        "completed",
        "failed",
    ]

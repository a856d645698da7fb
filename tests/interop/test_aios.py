"""aios-protocol: tools, results, approvals, error texts and our log as its events."""

import json
from typing import Any

import pytest

from tests.interop.observers import Log, known, question, tags
from tests.requirements import requirement
from toolcrib.errors import BadTool
from toolcrib.interop import InteropError, LogReader, aios
from toolcrib.types import Annotations, Answer, Call, Failure, Limits, Result, block

DEFINITION: dict[str, Any] = {
    "name": "weigh",
    "description": "Weigh a parcel",
    "input_schema": {"type": "object", "properties": {"parcel": {"type": "string"}}, "required": ["parcel"]},
    "title": "Scales",
    "output_schema": {"type": "object"},
    "annotations": {"read_only": True},
    "category": "post",
    "tags": ["slow"],
    "timeout_secs": 9,
}


@requirement("contract.interop.3")
def test_a_definition_becomes_a_tool_and_again_the_same_definition() -> None:
    tool = aios.to_tool(DEFINITION, "post")
    assert (tool.id, tool.title, tool.category, tool.tags) == ("post.weigh", "Scales", "post", ("slow",))
    assert (tool.run, tool.does, tool.limits) == (None, "read", Limits(timeout_s=9.0))
    assert tool.annotations == Annotations(read_only=True)
    full = aios.loads("ToolDefinition", json.dumps(DEFINITION))
    assert aios.from_tool(tool) == full
    assert list(aios.from_tool(tool)) == list(full)


@requirement("contract.interop.3")
def test_a_definition_that_says_little_becomes_a_tool_and_nonsense_is_named() -> None:
    tool = aios.to_tool({"name": "n", "description": " ", "input_schema": None})
    assert (tool.description, tool.input_schema, tool.annotations) == ("n", {"type": "object", "properties": {}}, None)
    assert aios.to_tool({**DEFINITION, "input_schema": {}}).input_schema == {"type": "object"}
    both = {**DEFINITION, "annotations": {"read_only": True, "destructive": True}}
    assert aios.to_tool(both).does == "once"
    with pytest.raises(BadTool, match="input_schema"):
        aios.to_tool({"name": "n", "description": "d", "input_schema": [1]})
    with pytest.raises(InteropError, match="input_schema is missing"):
        aios.to_tool({"name": "n", "description": "d"})


@requirement("contract.interop.4")
@pytest.mark.parametrize(
    ("result", "output", "content"),
    [
        (Result("hi"), "hi", [{"type": "text", "text": "hi"}]),
        (Result({"n": 1}), {"n": 1}, [{"type": "json", "value": {"n": 1}}]),
        (
            Result(content=[block("text", ("user",), text="a"), block("audio", data="x", mime_type="audio/ogg")]),
            None,
            [
                {"type": "text", "text": "a"},
                {"type": "json", "value": {"type": "audio", "data": "x", "mime_type": "audio/ogg"}},
            ],
        ),
    ],
)
def test_a_result_is_written_with_its_output_and_blocks(result: Result, output: Any, content: Any) -> None:
    written = aios.from_result("c", "t", result)
    assert (written["output"], written["content"], written["is_error"]) == (output, content, False)
    assert aios.loads("ToolResult", aios.dumps("ToolResult", written)) == written
    if not result.content:
        assert aios.to_result(written) == result


@requirement("contract.interop.4")
def test_a_failure_is_written_as_its_message_and_read_by_it() -> None:
    written = aios.from_result("c", "t", Result(failure=Failure("failed", "no paper")))
    assert written["output"] == {"error": "no paper"}
    assert written["content"] == [{"type": "text", "text": "no paper"}]
    assert written["is_error"] is True
    assert aios.to_outcome(written) == {"status": "failure", "error": "no paper"}
    said = {**written, "output": "invalid input: no paper"}
    assert aios.to_result(said).failure == Failure("invalid_arguments", "no paper", retryable=True)


@requirement("contract.interop.4")
@pytest.mark.parametrize(
    ("output", "content", "error"),
    [
        ("plain", [], "plain"),
        ({"error": "alone"}, [{"type": "text", "text": "other"}], "alone"),
        ({"error": {"deep": 1}}, [], '{"error":{"deep":1}}'),
        (None, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (None, [], "null"),
        ([1, "ü"], [{"type": "text", "text": "x"}], '[1,"ü"]'),
    ],
)
def test_the_outcome_of_an_error_is_a_text(output: Any, content: Any, error: str) -> None:
    said = {"call_id": "c", "tool_name": "t", "output": output, "content": content, "is_error": True}
    assert aios.to_outcome(said) == {"status": "failure", "error": error}


@requirement("contract.interop.4")
def test_requested_capabilities_are_recorded_and_never_trusted() -> None:
    asked = aios.to_call(
        {"call_id": "p1", "tool_name": "t", "input": {"a": 1}, "requested_capabilities": ["exec:cmd:*"]}
    )
    assert asked == ("t", {"a": 1}, "p1", ("exec:cmd:*",))
    call = Call("c1", "s", "default.t", {"a": 1})
    assert aios.from_call(call)["requested_capabilities"] == []


@requirement("contract.interop.3")
def test_a_call_that_is_over_gives_a_report() -> None:
    call = Call("c1", "s", "default.t", {})
    good, bad = aios.report(call, Result(5), 12.6), aios.report(call, Result(failure=Failure("failed", "m")))
    assert (good["exit_status"], good["duration_ms"], good["outcome"]) == (0, 13, {"status": "success", "output": 5})
    assert (bad["exit_status"], bad["outcome"]) == (1, {"status": "failure", "error": "m"})
    assert aios.loads("ToolExecutionReport", aios.dumps("ToolExecutionReport", good)) == good


@requirement("contract.interop.13")
@pytest.mark.parametrize(
    ("code", "message", "text", "read"),
    [
        ("not_found", "Unknown tool: t", "tool not found: t", "not_found"),
        ("failed", "a\nb", "[t] execution failed: a\nb", "failed"),
        ("invalid_arguments", "q: missing", "invalid input: q: missing", "invalid_arguments"),
        ("timeout", "Timed out after 7.5 s", "[t] timed out after 7s", "timeout"),
        ("denied", "outside", "workspace policy violation: outside", "denied"),
        ("declined", "no", "workspace policy violation: no", "denied"),
        ("internal", "{odd}", "{odd}", "internal"),
        ("rate_limited", "slow down", "[t] execution failed: slow down", "failed"),
    ],
)
def test_error_texts_are_written_and_read(code: str, message: str, text: str, read: str) -> None:
    assert aios.error_text(Failure(code, message), "t") == text
    assert aios.read_error(text).code == read


def test_an_approval_is_a_question_and_its_resolution_an_answer() -> None:
    requested = aios.from_question(question(), "high")
    assert json.loads(aios.dumps("EventKind", requested)) == requested
    asked = aios.to_question(requested)
    assert (asked.id, asked.call, asked.kind, asked.resume, asked.arguments) == (
        "c1-1",
        "c1",
        "confirm",
        "run",
        {"q": "x"},
    )
    resolved = {"type": "ApprovalResolved", "approval_id": "c1-1", "decision": "denied", "reason": "late"}
    answer = aios.to_answer(resolved, "bob")
    assert (answer.question, answer.action, answer.actor, answer.reason) == ("c1-1", "decline", "bob", "late")
    assert aios.from_answer(answer) == resolved
    assert aios.to_answer({**resolved, "decision": "approved"}, "bob").accepted
    assert aios.to_answer({**resolved, "decision": "timeout"}, "bob").action == "cancel"
    assert aios.from_answer(Answer("q", "accept", "bob", "k")) == {
        "type": "ApprovalResolved",
        "approval_id": "q",
        "decision": "approved",
    }


@requirement("contract.interop.5", "contract.interop.14")
def test_our_log_is_told_as_their_events() -> None:
    asked = question("c2")
    log = Log().accepted("c1", args={"q": 1}).started("c1").done("c1", {"n": 1}).accepted("c2").waiting(asked)
    log.answered(asked, "decline", reason="no").failed("c2", "declined", "no")
    told = aios.replay(log.events)
    assert tags(told, "type") == [
        "ToolCallRequested",
        "ToolCallStarted",
        "ToolCallCompleted",
        "ToolCallRequested",
        "ApprovalRequested",
        "ApprovalResolved",
        "ToolCallFailed",
    ]
    assert told[0] == {"type": "ToolCallRequested", "call_id": "c1", "tool_name": "search", "arguments": {"q": 1}}
    assert (told[2]["result"], told[2]["status"]) == ({"status": "success", "output": {"n": 1}}, "ok")
    assert (told[2]["duration_ms"], told[4]["risk"], told[5]["reason"]) == (12, "high", "no")
    assert told[6]["error"] == "workspace policy violation: no"
    assert known("aios", told) == told


@requirement("contract.interop.5", "contract.interop.14")
def test_what_ran_too_long_is_completed_and_what_nobody_answered_failed() -> None:
    ran = Log().accepted("c1").started("c1").failed("c1", "timeout", "Timed out after 2 s").events
    assert [(event["type"], event.get("status")) for event in aios.replay(ran)][2] == ("ToolCallCompleted", "timeout")
    waited = Log().accepted("c1").waiting(question()).failed("c1", "timeout", "Nobody answered within 24 h").events
    assert [(event["type"], event.get("decision")) for event in aios.replay(waited)][2:] == [
        ("ApprovalResolved", "timeout"),
        ("ToolCallFailed", None),
    ]


@requirement("contract.interop.14")
def test_only_a_confirmation_is_an_approval() -> None:
    asked = question(kind="input", resume="pass")
    log = Log().accepted("c1").started("c1").waiting(asked).answered(asked, "accept", value=1).done("c1", 1)
    assert tags(aios.replay(log.events), "type") == ["ToolCallRequested", "ToolCallStarted", "ToolCallCompleted"]


@requirement("contract.interop.5", "contract.interop.14")
def test_runs_and_handovers_are_told() -> None:
    log = Log().add("run_started", run="r", agent="ada", origin="user").accepted("c1").started("c1")
    log.done("c1", handover={"to": "bob", "reason": "his field", "message": None})
    log.handover("c1", **{"from": "ada", "to": "bob", "reason": "his field"})
    log.add("run_finished", run="r", reason="answered", answer="done", turns=2, usage={})
    log.add("run_finished", run="r2", reason="failed", code="model", detail="away", turns=1, usage={})
    told = aios.replay(log.events)
    assert tags(told, "type") == [
        "RunStarted",
        "ToolCallRequested",
        "ToolCallStarted",
        "ToolCallCompleted",
        "Custom",
        "RunFinished",
        "RunErrored",
    ]
    assert (told[4]["event_type"], told[4]["data"]["from"], told[4]["data"]["to"]) == ("agent.handover", "ada", "bob")
    assert told[5] == {"type": "RunFinished", "reason": "completed", "total_iterations": 2, "final_answer": "done"}
    assert told[6]["error"] == "away"
    assert known("aios", told) == told


@requirement("contract.interop.5")
def test_an_envelope_is_read_by_the_magnitude_of_its_time() -> None:
    log = Log().accepted("c1", run="r").done("c1", handover={"to": "bob", "reason": None, "message": None})
    reading = LogReader("s1")
    made, *others = [envelope for event in log.events for envelope in aios.envelopes(event, reading)]
    assert aios.loads("EventEnvelope", aios.dumps("EventEnvelope", made)) == made
    assert (made["event_id"], made["seq"], made["run_id"], "agent_id" in made) == ("s1:1", 1, "r", False)
    assert [other["event_id"] for other in others] == ["s1:2", "s1:2.1"]
    at = log.events[0].at
    assert aios.moment(made) == at
    assert aios.moment({**made, "ts_ms": round(at * 1_000_000)}) == at

"""Awaken: tools, results, tickets, statuses, error texts and our log as its events."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.observers import Log, known, question, tags
from tests.requirements import requirement
from toolcrib.interop import InteropError, aios, awaken, distri
from toolcrib.types import CODES, Answer, Failure, Result, block

DESCRIPTOR: dict[str, Any] = {
    "id": "weigh",
    "name": "Scales",
    "description": "Weigh a parcel",
    "parameters": {"type": "object", "properties": {"parcel": {"type": "string"}}},
    "category": "post",
    "metadata": {"floor": 2},
}


@requirement("contract.interop.6")
def test_a_descriptor_becomes_a_tool_and_again_the_same_descriptor() -> None:
    tool = awaken.to_tool(DESCRIPTOR, "post")
    assert (tool.id, tool.title, tool.category, tool.run) == ("post.weigh", "Scales", "post", None)
    assert awaken.from_tool(tool) == DESCRIPTOR
    bare = awaken.to_tool({"id": "n", "name": "", "description": "", "parameters": None})
    assert (bare.description, bare.title) == ("n", None)
    assert awaken.from_tool(bare)["category"] is None


@requirement("contract.interop.6")
def test_an_identity_leaves_out_what_is_usual() -> None:
    usual = {"thread_id": "t", "run_id": "r", "agent_id": "a", "origin": "user"}
    said = {**usual, "run_mode": "foreground", "adapter": "internal"}
    assert awaken.loads("RunIdentity", json.dumps(said)) == usual
    odd = {**usual, "run_mode": "internal_wake", "adapter": "a2a"}
    assert awaken.loads("RunIdentity", awaken.dumps("RunIdentity", odd)) == odd


@requirement("contract.interop.6")
def test_progress_is_written_with_numbers_as_awaken_has_them() -> None:
    node = {"node_id": "n", "call_id": "c", "tool_name": "t", "status": "running", "progress": 1, "loaded": 2}
    assert awaken.dumps("ToolCallProgressState", node) == (
        '{"schema":"tool-call-progress.v1","node_id":"n","call_id":"c","tool_name":"t",'
        '"status":"running","progress":1.0,"loaded":2}'
    )


@requirement("contract.interop.7")
def test_a_failure_is_written_with_its_code_and_read_again() -> None:
    failure = Failure("rate_limited", "slow down", retryable=True, hint="wait")
    written = awaken.from_result("t", Result(failure=failure, metadata={"retry_after_s": 3}))
    assert written["data"] == {"error": {"code": "rate_limited", "message": "slow down"}}
    assert (written["status"], written["message"]) == ("error", "[rate_limited] slow down")
    assert awaken.to_result(written) == Result(failure=failure, metadata={"retry_after_s": 3})


@requirement("contract.interop.7")
def test_failures_of_theirs_are_read_by_code_or_text() -> None:
    own = {"tool_name": "t", "status": "error", "data": {"error": {"code": "DIV_ZERO", "message": "m"}}}
    read = awaken.to_result(own)
    assert (read.failure, dict(read.metadata)) == (Failure("failed", "m", reason="DIV_ZERO"), {"code": "DIV_ZERO"})
    told = awaken.to_result({"tool_name": "t", "status": "error", "data": None, "message": "Timeout: late"})
    assert told.failure == Failure("timeout", "late")
    with pytest.raises(InteropError, match="no result yet"):
        awaken.to_result({"tool_name": "t", "status": "pending", "data": None})


@requirement("contract.interop.6")
def test_blocks_and_metadata_of_a_result_are_not_lost() -> None:
    result = Result({"a": 1}, [block("text", text="hi")], metadata={"k": 1})
    written = awaken.from_result("t", result)
    assert awaken.loads("ToolResult", awaken.dumps("ToolResult", written)) == written
    assert awaken.to_result(written) == result


@requirement("contract.interop.7")
def test_a_client_tool_gets_its_ticket() -> None:
    asked = question("c7", "client", "use", tool="client.pick", schema={"type": "string"})
    result = awaken.suspended(asked)
    assert (result["status"], result["message"]) == ("pending", "Tool 'pick' suspended: awaiting decision")
    assert result["suspension"] == {
        "suspension": {
            "id": "suspend_c7",
            "action": "tool:pick",
            "message": "Frontend tool 'pick' requires client execution",
            "parameters": {"q": "x"},
            "response_schema": {"type": "string"},
        },
        "pending": {"id": "c7", "name": "pick", "arguments": {"q": "x"}},
        "resume_mode": "use_decision_as_tool_result",
    }
    read = awaken.to_question(result["suspension"])
    assert (read.call, read.tool, read.kind, read.resume) == ("c7", "pick", "client", "use")
    assert (read.arguments, read.schema) == ({"q": "x"}, {"type": "string"})


@requirement("contract.interop.7")
def test_a_confirmation_gets_its_ticket() -> None:
    ticket = awaken.from_question(question("c7"))
    assert ticket["suspension"]["id"] == ticket["pending"]["id"] == "perm_c7"
    assert ticket["suspension"]["action"] == "tool:PermissionConfirm"
    assert ticket["suspension"]["message"] == "Permission required for tool 'search'"
    assert (ticket["pending"]["name"], ticket["resume_mode"]) == ("permission_confirm", "replay_tool_call")
    read = awaken.to_question(ticket)
    assert (read.call, read.tool, read.kind, read.resume) == ("c7", "search", "confirm", "run")


@requirement("contract.interop.7")
def test_a_question_of_a_tool_gets_a_ticket_of_its_own() -> None:
    asked = question("c7", "input", "pass", prompt="Which one?", data={"of": [1, 2]})
    ticket = awaken.from_question(asked)
    assert (ticket["suspension"]["id"], ticket["resume_mode"]) == ("c7-1", "pass_decision_to_tool")
    read = awaken.to_question(ticket)
    assert (read.id, read.kind, read.prompt, read.data) == ("c7-1", "input", "Which one?", {"of": [1, 2]})
    assert [awaken.to_question({"resume_mode": mode}).kind for mode in awaken._RESUMES] == [
        "confirm",
        "client",
        "external",
    ]


@requirement("contract.interop.7")
def test_resume_is_our_accept_and_cancel_our_decline() -> None:
    resume = {"decision_id": "d", "action": "resume", "result": {"ok": 1}, "updated_at": 1500}
    answer = awaken.to_answer(resume, "c1-1", "bob")
    assert answer == Answer("c1-1", "accept", "bob", "d", value={"ok": 1}, at=1.5)
    assert awaken.from_answer(answer) == resume
    cancel = awaken.to_answer({"action": "cancel", "reason": "no"}, "c1-1", "bob")
    assert (cancel.action, cancel.reason, cancel.key) == ("decline", "no", "c1-1:bob")
    assert awaken.from_answer(cancel)["action"] == "cancel"


@requirement("contract.interop.8")
@pytest.mark.parametrize(
    ("code", "waits", "statuses"),
    [
        (None, False, ["new", "running", "succeeded"]),
        ("failed", False, ["new", "running", "failed"]),
        ("cancelled", False, ["new", "running", "cancelled"]),
        ("timeout", False, ["new", "running", "failed"]),
        ("timeout", True, ["new", "running", "suspended", "cancelled"]),
        ("not_found", True, ["new", "running", "suspended", "cancelled"]),
    ],
)
def test_a_call_goes_through_statuses_that_awaken_allows(code: str | None, waits: bool, statuses: list[str]) -> None:
    log = Log().accepted("c1").started("c1").started("c1")
    if waits:
        log.waiting(question())
    log = log.done("c1") if code is None else log.failed("c1", code, "m")
    assert awaken.call_statuses(log.events) == {"c1": statuses}
    assert all(awaken.follows("tool_call", a, b) for a, b in itertools.pairwise(statuses))


@requirement("contract.interop.8")
def test_answers_resume_and_a_void_question_does_too() -> None:
    asked = question()
    answered = Log().accepted("c1").waiting(asked).answered(asked, "accept").started("c1").done("c1")
    assert awaken.call_statuses(answered.events)["c1"] == ["new", "suspended", "resuming", "running", "succeeded"]
    declined = Log().accepted("c1").waiting(asked).answered(asked, "decline").failed("c1", "declined", "no")
    assert awaken.call_statuses(declined.events)["c1"] == ["new", "suspended", "resuming", "cancelled"]
    void = Log().accepted("c1").waiting(asked).started("c1").failed("c1", "unknown", "m").add("settled", "c1", ok=True)
    assert awaken.call_statuses(void.events)["c1"] == ["new", "suspended", "resuming", "running", "failed"]


@requirement("contract.interop.8", "contract.interop.14")
@given(
    st.lists(st.sampled_from(["started", "waiting", "answered", "output", "settled"]), max_size=8),
    st.sampled_from(CODES),
)
def test_whatever_happens_to_a_call_its_statuses_and_events_are_awakens(kinds: list[str], code: str) -> None:
    asked, log = question(), Log().accepted("c1")
    for kind in kinds:
        match kind:
            case "started":
                log.started("c1")
            case "waiting":
                log.waiting(asked)
            case "answered":
                log.answered(asked, "accept")
            case _:
                log.add(kind, "c1", delta="x")
    log.failed("c1", code, "m")
    (path,) = awaken.call_statuses(log.events).values()
    assert path[0] == "new"
    assert path[-1] in ("failed", "cancelled")
    assert all(awaken.follows("tool_call", a, b) for a, b in itertools.pairwise(path))
    assert known("awaken", awaken.replay(log.events))
    assert known("aios", aios.replay(log.events))
    assert known("distri", distri.replay(log.events))


@requirement("contract.interop.8")
def test_a_run_goes_through_statuses_that_awaken_allows() -> None:
    log = Log().add("run_started", run="r", agent="a", origin="user").add("run_waiting", run="r", questions=[])
    log.add("run_resumed", run="r").add("run_finished", run="r", reason="answered", turns=1, usage={})
    (found,) = awaken.run_statuses(log.events).values()
    assert found == ["created", "running", "waiting", "running", "done"]
    assert all(awaken.follows("run", a, b) for a, b in itertools.pairwise(found))


@requirement("contract.interop.8")
@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ({"type": "natural_end"}, "natural"),
        ({"type": "behavior_requested"}, "behavior_requested"),
        ({"type": "stopped", "value": {"code": "max_rounds"}}, "stopped:max_rounds"),
        ({"type": "cancelled"}, "cancelled"),
        ({"type": "blocked", "value": "a:b"}, "blocked:a:b"),
        ({"type": "error", "value": "boom: x"}, "error:boom: x"),
    ],
)
def test_the_end_of_a_run_has_a_short_text(reason: dict[str, Any], short: str) -> None:
    assert (awaken.done_reason(reason), awaken.run_status(reason)) == (short, "done")
    assert awaken.read_reason(short) == reason
    assert awaken.done_reason({"type": "plugin_requested"}) == "behavior_requested"
    assert awaken.read_reason("error") == {"type": "error", "value": "error"}
    assert (awaken.done_reason({"type": "suspended"}), awaken.run_status({"type": "suspended"})) == (None, "waiting")


@requirement("contract.interop.13")
@pytest.mark.parametrize(
    ("code", "text", "read"),
    [
        ("invalid_arguments", "Invalid arguments: a: b", "invalid_arguments"),
        ("failed", "Execution failed: a: b", "failed"),
        ("timeout", "Timeout: a: b", "timeout"),
        ("cancelled", "Cancelled: a: b", "cancelled"),
        ("denied", "Denied: a: b", "denied"),
        ("declined", "Denied: a: b", "denied"),
        ("not_found", "Not found: a: b", "not_found"),
        ("internal", "Internal error: a: b", "internal"),
        ("too_large", "Execution failed: a: b", "failed"),
    ],
)
def test_error_texts_are_written_and_read(code: str, text: str, read: str) -> None:
    assert awaken.error_text(Failure(code, "a: b")) == text
    assert (awaken.read_error(text).code, awaken.read_error(text).message) == (read, "a: b")
    assert awaken.read_error("something: else").code == "failed"


@requirement("contract.interop.9", "contract.interop.14")
def test_our_log_is_told_as_their_events() -> None:
    asked = question("c1", "input", "pass")
    log = Log().accepted("c1", args={"q": 1}, run="r").started("c1").add("output", "c1", delta="a")
    log.add("output", "c1", value={"n": 1}).add(
        "progress", "c1", status="running", progress=0.5, loaded=1.0, message="m"
    )
    log.add("activity", "c1", type="plan", content={"s": 1}).add("activity", "c1", type="plan", patch=[{"op": "test"}])
    log.waiting(asked).answered(asked, "accept", value="x").done("c1", {"n": 1})
    told = awaken.replay(log.events, "s1")
    assert tags(told, "event_type") == [
        "tool_call_start",
        "tool_call_ready",
        "tool_call_stream_delta",
        "tool_call_stream_delta",
        "activity_snapshot",
        "activity_snapshot",
        "activity_delta",
        "tool_call_done",
        "tool_call_resumed",
        "tool_call_done",
    ]
    assert (told[2]["delta"], told[3]["delta"]) == ("a", '{"n":1}')
    node = told[4]["content"]
    assert (told[4]["message_id"], told[4]["activity_type"]) == ("tool_call:c1", "tool-call-progress")
    assert (node["progress"], node["loaded"], node["parent_node_id"], node["thread_id"]) == (0.5, 1, "run:r", "s1")
    assert (told[7]["outcome"], told[7]["result"]["status"]) == ("suspended", "pending")
    assert (told[8]["result"], told[9]["outcome"]) == ("x", "succeeded")
    assert awaken.to_result(told[9]["result"]) == Result({"n": 1})
    assert known("awaken", told) == told


@requirement("contract.interop.9", "contract.interop.14")
def test_declines_handovers_and_runs_are_told() -> None:
    asked = question()
    log = Log().add("run_started", run="r", agent="ada", origin="wake", parent="r0").accepted("c1").waiting(asked)
    log.answered(asked, "decline", reason="no").failed("c1", "declined", "no").accepted("c2")
    log.done("c2", handover={"to": "bob", "reason": None, "message": None})
    log.add("run_finished", run="r", reason="stopped", code="max_turns", turns=16, usage={})
    told = awaken.replay(log.events, "s1")
    assert told[0] == {
        "event_type": "run_start",
        "thread_id": "s1",
        "run_id": "r",
        "parent_run_id": "r0",
        "identity": {
            "thread_id": "s1",
            "run_id": "r",
            "parent_run_id": "r0",
            "agent_id": "ada",
            "origin": "internal",
            "run_mode": "internal_wake",
        },
    }
    assert told[4] == {"event_type": "tool_call_cancel", "id": "c1", "name": "search", "reason": "no"}
    assert (told[5]["outcome"], told[8]["outcome"]) == ("failed", "succeeded")
    assert (told[9]["activity_type"], told[9]["content"]["to"]) == ("agent-handover", "bob")
    assert told[10]["termination"] == {"type": "stopped", "value": {"code": "max_turns"}}
    assert known("awaken", told) == told


@requirement("contract.interop.9")
def test_how_a_run_ended_is_told_in_awakens_words() -> None:
    log = Log()
    for reason in ("answered", "cancelled", "failed"):
        log.add("run_finished", run=reason, reason=reason, answer="42" if reason == "answered" else None, turns=1)
    told = awaken.replay(log.events, "s1")
    assert [event["termination"] for event in told] == [
        {"type": "natural_end"},
        {"type": "cancelled"},
        {"type": "error", "value": "failed"},
    ]
    assert (told[0]["result"], "result" in told[1]) == ({"response": "42", "status": "done"}, False)


def test_a_log_that_is_read_from_its_middle_tells_what_it_can() -> None:
    asked = question()
    log = (
        Log().accepted("c1").started("c1").waiting(asked).answered(asked, "accept").done("c1").accepted("c2").done("c2")
    )
    assert tags(awaken.replay(log.events[1:]), "event_type") == ["tool_call_start", "tool_call_ready", "tool_call_done"]

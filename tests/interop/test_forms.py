"""What holds for every form: order, defaults, what is left out, what is refused and where, what is kept whole."""

import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from toolcrib.errors import ToolcribError
from toolcrib.interop import InteropError, aios, aomi, awaken, distri

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.text(max_size=8)


def refused(module: ModuleType, type: str, value: Any) -> tuple[str, str]:
    with pytest.raises(InteropError) as found:
        module.loads(type, value if isinstance(value, str) else json.dumps(value))
    return found.value.problem, found.value.field


@requirement("contract.interop.1")
def test_fields_are_written_in_order_compact_and_in_letters_as_they_are() -> None:
    call = {"input": {"stadt": "Köln", "n": [1, 2.5, None]}, "call_id": "ü", "tool_name": "t"}
    written = aios.dumps("ToolCall", call)
    assert written == (
        '{"call_id":"ü","tool_name":"t","input":{"stadt":"Köln","n":[1,2.5,null]},"requested_capabilities":[]}'
    )
    assert aios.loads("ToolCall", written.encode()) == {**call, "requested_capabilities": []}


@requirement("contract.interop.1")
def test_what_is_none_or_empty_is_left_out_where_the_form_says_so() -> None:
    tool: dict[str, Any] = {
        "name": "n",
        "description": "d",
        "input_schema": {},
        "tags": [],
        "title": None,
        "timeout_secs": None,
    }
    assert aios.dumps("ToolDefinition", tool) == '{"name":"n","description":"d","input_schema":{}}'
    ended: dict[str, Any] = {"tool_name": "t", "status": "success", "data": None, "metadata": {}}
    assert awaken.dumps("ToolResult", ended) == '{"tool_name":"t","status":"success","data":null,"message":null}'
    assert awaken.dumps("Suspension", {"message": "", "parameters": None}) == '{"id":"","action":""}'
    kept = {"call_id": "c", "tool_name": "t", "content": []}
    assert aios.loads("ToolResult", json.dumps(kept))["content"] == []


@requirement("contract.interop.1")
@pytest.mark.parametrize(
    ("module", "type", "value", "problem", "field"),
    [
        (aios, "ToolCall", "{", "json", ""),
        (aios, "ToolCall", '{"call_id":NaN}', "json", ""),
        (aios, "ToolCall", '"\\ud800"', "json", ""),
        (aios, "ToolCall", "[" * 5000, "json", ""),
        (aios, "ToolCall", [], "wrong_type", ""),
        (aios, "ToolCall", {"call_id": 1}, "wrong_type", "call_id"),
        (aios, "ToolDefinition", {"annotations": {"read_only": 1}}, "wrong_type", "annotations.read_only"),
        (aios, "ToolDefinition", {"tags": ["a", 2]}, "wrong_type", "tags.1"),
        (aios, "ToolDefinition", {"timeout_secs": True}, "wrong_type", "timeout_secs"),
        (aios, "ToolDefinition", {"timeout_secs": 1.5}, "wrong_type", "timeout_secs"),
        (aios, "ToolDefinition", {"timeout_secs": -5}, "wrong_value", "timeout_secs"),
        (aios, "ToolOutcome", {"status": "maybe"}, "unknown_value", "status"),
        (aios, "ToolOutcome", {"status": 1}, "wrong_type", "status"),
        (aios, "ToolResult", {"content": [{"type": "text"}]}, "missing", "content.0.text"),
        (aios, "ToolResult", {"is_error": None}, "wrong_type", "is_error"),
        (aios, "PolicySet", {"allow_capabilities": "x"}, "wrong_type", "allow_capabilities"),
        (aios, "EventEnvelope", {"actor": {"component": "c"}}, "missing", "actor.type"),
        (awaken, "ToolResult", {"tool_name": "t", "status": "error"}, "missing", "data"),
        (awaken, "SuspendTicket", {"pending": {"id": "c"}}, "missing", "pending.name"),
        (awaken, "TerminationReason", {"type": "stopped", "value": {}}, "missing", "value.code"),
        (awaken, "TerminationReason", {"type": "bored"}, "unknown_value", "type"),
        (awaken, "RunStatus", '"gone"', "unknown_value", ""),
        (awaken, "RunStatus", "5", "wrong_type", ""),
        (awaken, "RunIdentity", {"run_mode": "nightly"}, "unknown_value", "run_mode"),
        (distri, "ToolCall", {"x": 1}, "unknown_field", "x"),
        (distri, "Part", {"part_type": "tool_call", "data": {"x": 1}}, "unknown_field", "data.x"),
        (distri, "Part", {"part_type": "text", "data": 5}, "wrong_type", "data"),
        (distri, "Part", {"data": 5}, "missing", "part_type"),
        (distri, "Part", {"part_type": "file", "data": {"type": "tape"}}, "unknown_value", "data.type"),
        (distri, "TaskMessage", {"Other": 1}, "unknown_value", ""),
        (distri, "ToolResponse", {"parts_metadata": {"0": {"save": 1}}}, "wrong_type", "parts_metadata.0.save"),
        (aomi, "ToolCompletion", {"tool_name": "t", "call_id": {}}, "missing", "call_id.id"),
        (aomi, "ToolCompletion", {"metadata": {}}, "missing", "metadata.name"),
    ],
)
def test_a_problem_is_named_with_its_place(module: ModuleType, type: str, value: Any, problem: str, field: str) -> None:
    assert refused(module, type, value) == (problem, field)


@requirement("contract.interop.1")
def test_what_comes_first_in_the_text_is_reported_before_what_is_missing() -> None:
    assert refused(awaken, "ToolResult", {"status": "odd", "message": 1}) == ("unknown_value", "status")
    assert refused(awaken, "ToolResult", {"message": 1, "status": "odd"}) == ("wrong_type", "message")
    assert refused(awaken, "ToolResult", {"message": None}) == ("missing", "tool_name")


@requirement("contract.interop.1")
def test_a_value_that_does_not_fit_is_not_written_either() -> None:
    with pytest.raises(InteropError, match="requested_capabilities has the wrong type"):
        aios.dumps("ToolCall", {"call_id": "c", "tool_name": "t", "input": 1, "requested_capabilities": "all"})
    with pytest.raises(ToolcribError, match="no JSON"):
        aios.dumps("ToolCall", {"call_id": "c", "tool_name": "t", "input": object()})
    with pytest.raises(InteropError, match="There is no form 'Toolcall'; there are ToolCall, "):
        aios.dumps("Toolcall", {})


UNKNOWN = [
    (aios, "EventKind", '{"type":"Nova","z":1,"a":{"b":[1e16,-0.0,1.0]}}'),
    (aios, "EventKind", '{"type":"ToolCallStarted","tool_name":7,"extra":true}'),
    (aios, "EventKind", '{"no":"type"}'),
    (aios, "ToolContent", '{"type":"audio","zz":1,"data":"x"}'),
    (awaken, "AgentEvent", '{"event_type":"nova","z":null}'),
    (awaken, "AgentEvent", '{"event_type":"tool_call_done","id":"c1","outcome":"odd"}'),
    (awaken, "AgentEvent", '{"event_type":"run_finish","termination":{"type":"bored"},"thread_id":"t","run_id":"r"}'),
    (distri, "AgentEventType", '{"type":"nova","z":1}'),
    (distri, "AgentEvent", '{"type":"nova","z":1,"agent_id":"a","parent_task_id":"p"}'),
    (distri, "AgentEvent", '{"type":"tool_calls","z":1,"agent_id":"a"}'),
    (distri, "TaskMessage", '{"Event":{"event":{"type":"tool_calls"},"created_at":-1,"is_final":false}}'),
    (distri, "Part", '{"part_type":"video","data":1,"more":2}'),
    (aomi, "SystemEvent", '{"Nova":{"z":1}}'),
    (aomi, "SystemEvent", '{"AsyncCallback":{"type":"odd","id":1}}'),
]


@requirement("contract.interop.2")
@pytest.mark.parametrize(("module", "type", "wire"), UNKNOWN)
def test_what_is_not_understood_is_kept_whole_and_written_back(module: ModuleType, type: str, wire: str) -> None:
    value = module.loads(type, wire)
    assert value == json.loads(wire)
    assert module.dumps(type, value) == wire


@requirement("contract.interop.2")
def test_unknown_blocks_and_events_are_kept_within_others() -> None:
    block = {"type": "smell", "notes": ["oak"]}
    result = aios.loads("ToolResult", json.dumps({"call_id": "c", "tool_name": "t", "content": [block]}))
    assert result["content"] == [block]
    kind = {"type": "Nova", "deep": {"er": 1}}
    about = {"event_id": "e", "session_id": "s", "branch_id": "b", "seq": 1, "timestamp": 2}
    envelope = aios.loads("EventEnvelope", json.dumps({**about, "kind": kind}))
    assert (envelope["kind"], envelope["ts_ms"], "timestamp" in envelope) == (kind, 2, False)


@requirement("contract.interop.2")
def test_keys_of_maps_are_strings() -> None:
    response = {"tool_call_id": "1", "tool_name": "t", "parts": [], "parts_metadata": {0: {}}}
    written = distri.dumps("ToolResponse", response)
    assert json.loads(written)["parts_metadata"] == {"0": {"save": True, "developer": False}}
    assert distri.dumps("ToolResponse", distri.loads("ToolResponse", written)) == written


@requirement("contract.interop.2")
@given(st.dictionaries(TEXT, JSON, max_size=4), st.sampled_from([(aios, "EventKind"), (awaken, "AgentEvent")]))
def test_any_object_survives_as_an_event(event: dict[str, Any], form: tuple[Any, str]) -> None:
    module, type = form
    value = module.loads(type, json.dumps(event))
    again = module.dumps(type, value)
    assert module.loads(type, again) == value
    assert module.dumps(type, module.loads(type, again)) == again


@requirement("contract.interop.1")
@given(
    TEXT, TEXT, JSON, st.none() | st.lists(st.fixed_dictionaries({"type": st.just("json"), "value": JSON}), max_size=2)
)
def test_a_result_that_was_written_is_read_as_the_same(call: str, name: str, output: Any, content: Any) -> None:
    value = {"call_id": call, "tool_name": name, "output": output, "content": content, "is_error": False}
    written = aios.dumps("ToolResult", value)
    read = aios.loads("ToolResult", written)
    assert aios.dumps("ToolResult", read) == written
    assert (read["output"], read.get("content")) == (output, content)

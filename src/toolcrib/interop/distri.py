"""Distri: its JSON, and its tools, results, task statuses and events as ours and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolcrib.events import Event
from toolcrib.interop import translation
from toolcrib.interop.translation import EventContext, LogReader, RequestedCall
from toolcrib.interop.wire.distri import FORMS
from toolcrib.tool import Tool
from toolcrib.types import Answer, Block, Call, Question, Result, Status

__all__ = [
    "call_status",
    "dumps",
    "from_call",
    "from_event",
    "from_result",
    "from_tool",
    "loads",
    "over_a2a",
    "replay",
    "task_statuses",
    "to_answer",
    "to_call",
    "to_question",
    "to_result",
    "to_tool",
]

loads, dumps = FORMS.loads, FORMS.dumps


def to_tool(definition: Mapping[str, Any], namespace: str = "default") -> Tool:
    """A ToolDefinition or an ExternalTool as a tool without a body: the client runs it.

    Raises:
        BadTool: the name or a schema is none of ours.
    """
    external = "is_final" in definition or "parameters" not in definition
    data = FORMS.read("ExternalTool" if external else "ToolDefinition", definition)
    return Tool(
        name=data["name"],
        namespace=namespace,
        description=translation.described(data["description"], data["name"]),
        input_schema=translation.schema(data["name"], data["parameters"]),
        output_schema=data.get("output_schema"),
        metadata={name: data[name] for name in ("examples", "prompt", "is_final") if name in data},
        source="distri",
        trusted=False,
    )


def from_tool(tool: Tool) -> dict[str, Any]:
    """A tool as a ToolDefinition, or as an ExternalTool where it came as one."""
    external = "is_final" in tool.metadata
    made: dict[str, Any] = FORMS.read(
        "ExternalTool" if external else "ToolDefinition",
        {
            **{name: tool.metadata[name] for name in ("examples", "prompt", "is_final") if name in tool.metadata},
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
            "output_schema": tool.output_schema,
        },
    )
    return made


def to_call(call: Mapping[str, Any]) -> RequestedCall:
    """A ToolCall as what `session.submit` takes; an input that is a text stays one."""
    data = FORMS.read("ToolCall", call)
    return RequestedCall(data["tool_name"], data["input"], data["tool_call_id"])


def from_call(call: Call) -> dict[str, Any]:
    """A call as a ToolCall."""
    return _call(call.id, translation.bare(call.tool), call.args)


def _call(id: str, name: str, input: Any) -> dict[str, Any]:
    return {"tool_call_id": id, "tool_name": name, "input": input}


def from_result(call_id: str, tool_name: str, result: Result) -> dict[str, Any]:
    """A result as a ToolResponse; a failure is a data part, since the form has no place for it."""
    if result.failure is not None:
        parts = [_data(translation.error_part(result.failure))]
    elif result.content:
        parts = [_part(content) for content in result.content]
    else:
        parts = [_text(result.data) if isinstance(result.data, str) else _data(result.data)]
    made = {"tool_call_id": call_id, "tool_name": tool_name, "parts": parts}
    shown = {} if result.failure is not None else _developer(result.content)
    return {**made, "parts_metadata": shown} if shown else made


def _developer(content: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is for the model alone is marked as such."""
    numbers = [number for number, block in enumerate(content) if list(block.get("audience") or ()) == ["model"]]
    return {str(number): {"save": True, "developer": True} for number in numbers}


def _text(text: str) -> dict[str, Any]:
    return {"part_type": "text", "data": text}


def _data(data: Any) -> dict[str, Any]:
    return {"part_type": "data", "data": data}


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block as a part; what Distri has no part for is written as its data."""
    fields = {name: value for name, value in block.items() if name not in ("type", "audience")}
    match block:
        case {"type": "text", "text": str(text)}:
            return _text(text)
        case {"type": "json", "value": value}:
            return _data(value)
        case {"type": "image" | "audio" as type, "data": str(data), "mime_type": str(mime_type)}:
            file = {"type": "bytes", "bytes": data, "mime_type": mime_type, "name": None}
            return {"part_type": "image" if type == "image" else "file", "data": file}
        case {"type": "resource", "data": str(data), "mime_type": str(mime_type), "uri": str(uri)}:
            file = {"type": "bytes", "bytes": data, "mime_type": mime_type, "name": uri or None}
            return {"part_type": "file", "data": file}
        case {"type": "link"}:
            return {"part_type": "resource_link", "data": fields}
    return _data({"type": block.get("type"), **fields})


def to_result(response: Mapping[str, Any]) -> Result:
    """A ToolResponse as a result: one text or data part is its data, several are its blocks."""
    data = FORMS.read("ToolResponse", response)
    parts, shown = data["parts"], data.get("parts_metadata", {})
    if len(parts) == 1 and parts[0]["part_type"] in ("text", "data") and not _for_model(shown, 0):
        failed = translation.read_error_part(parts[0]["data"])
        return Result(parts[0]["data"]) if failed is None else Result(failure=translation.failing(*failed))
    return Result(content=[_block(part, _for_model(shown, number)) for number, part in enumerate(parts)])


def _for_model(shown: Mapping[str, Any], number: int) -> bool:
    return bool(shown.get(str(number), {}).get("developer"))


def _block(part: Mapping[str, Any], for_model: bool) -> Block:
    """A part as a block; one that we have no kind for keeps its own name."""
    match part:
        case {"part_type": "text", "data": text}:
            return _made("text", for_model, {"text": text})
        case {"part_type": "data", "data": value}:
            return _made("json", for_model, {"value": value})
        case {"part_type": "image" | "file", "data": {"url": uri, "mime_type": mime_type, "name": name}}:
            return _made("link", for_model, {"uri": uri, "mime_type": mime_type, "name": name})
        case {"part_type": "image", "data": {"bytes": data, "mime_type": mime_type}}:
            return _made("image", for_model, {"data": data, "mime_type": mime_type})
        case {"part_type": "file", "data": {"bytes": data, "mime_type": mime_type, "name": name}}:
            if name is None and mime_type.startswith("audio/"):
                return _made("audio", for_model, {"data": data, "mime_type": mime_type})
            return _made("resource", for_model, {"uri": name or "", "mime_type": mime_type, "data": data})
        case {"part_type": "resource_link", "data": {"uri": str()} as fields}:
            return _made("link", for_model, fields)
    return _made(part["part_type"], for_model, {"data": part["data"]})


def _made(type: str, for_model: bool, fields: Mapping[str, Any]) -> Block:
    present = {name: value for name, value in fields.items() if value is not None or name == "value"}
    return Block({**present, "type": type, **({"audience": ["model"]} if for_model else {})})


def to_question(call: Mapping[str, Any]) -> Question:
    """A ToolCall that a client runs, as a question."""
    data = FORMS.read("ToolCall", call)
    return Question(
        id=data["tool_call_id"],
        call=data["tool_call_id"],
        tool=data["tool_name"],
        kind="client",
        prompt=f"Run {data['tool_name']} and send its result",
        key=data["tool_call_id"],
        arguments=data["input"] if isinstance(data["input"], Mapping) else {},
        schema=None,
        resume="use",
        digest="",
        asked_at=0.0,
        expires_at=math.inf,
    )


def to_answer(response: Mapping[str, Any], question: str, actor: str) -> Answer:
    """The ToolResponse of a client as the answer to that question."""
    result = to_result(response)
    key = f"{question}:{response['tool_call_id']}"
    if result.failure is not None:
        return Answer(question, "fail", actor, key, reason=result.failure.message)
    return Answer(question, "accept", actor, key, value=list(result.content) if result.content else result.data)


def over_a2a(event: Mapping[str, Any], agent_id: str, parent_task_id: str | None = None) -> dict[str, Any]:
    """An event as it goes over A2A: who sent it stands behind its fields."""
    made: dict[str, Any] = FORMS.read("AgentEvent", {**event, "agent_id": agent_id, "parent_task_id": parent_task_id})
    return made


_CALL_STATUSES: dict[Status, str] = {
    "queued": "pending",
    "waiting": "pending",
    "running": "running",
    "streaming": "running",
    "succeeded": "completed",
}


def call_status(status: Status) -> str:
    """The ToolCallStatus of a call's status."""
    return _CALL_STATUSES.get(status, "failed")


_ENDS = {"failed": "failed", "cancelled": "canceled"}


def task_statuses(events: Iterable[Event]) -> list[str]:
    """What the task of a session was, one status after the other: it needs input while a question is open."""
    reading, busy, waiting = LogReader(), set[str](), set[str]()
    statuses = ["pending"]
    for event in events:
        now = reading.advance(event)
        if now is None or (event.call is None and event.kind not in ("run_started", "run_finished")):
            continue
        (busy.discard if event.kind in ("done", "run_finished") else busy.add)(event.call or event.fields["run"])
        if event.call is not None:
            (waiting.discard if now.history.question is None else waiting.add)(event.call)
        end = _ENDS.get(event.fields.get("reason", ""), "completed") if event.call is None else "completed"
        status = "input_required" if waiting else "running" if busy else end
        if statuses[-1] != status:
            statuses.append(status)
    return statuses


def from_event(event: Event, reading: LogReader) -> list[dict[str, Any]]:
    """An event of our log as theirs."""
    return reading.written(event, _WRITERS)


def replay(events: Iterable[Event], session: str = "") -> list[dict[str, Any]]:
    """Our log as AgentEventTypes; the calls of one turn stand in one `tool_calls`."""
    made: list[dict[str, Any]] = []
    turns: dict[str, dict[str, Any]] = {}
    for one in translation.replay(events, _WRITERS, session):
        if one["type"] != "tool_calls":
            made.append(one)
        elif one["step_id"] in turns:
            turns[one["step_id"]]["tool_calls"] += one["tool_calls"]
        else:
            turns[one["step_id"]] = one
            made.append(one)
    return made


def _step(now: EventContext) -> str:
    return str(now.history.accepted.turn or now.call)


def _accepted(now: EventContext) -> list[dict[str, Any]]:
    calls = [_call(now.call, now.name, now.data.get("args"))]
    return [{"type": "tool_calls", "step_id": _step(now), "parent_message_id": None, "tool_calls": calls}]


def _execution(type: str, now: EventContext, **fields: Any) -> dict[str, Any]:
    return {"type": type, "step_id": _step(now), "tool_call_id": now.call, "tool_call_name": now.name, **fields}


def _started(now: EventContext) -> list[dict[str, Any]]:
    return [_execution("tool_execution_start", now, input=now.data.get("args"))]


def _done(now: EventContext) -> list[dict[str, Any]]:
    results = [from_result(now.call, now.name, now.result)]
    shown = {"type": "tool_results", "step_id": _step(now), "parent_message_id": None, "results": results}
    return [_execution("tool_execution_end", now, success=now.result.ok), shown]


def _handover(now: EventContext) -> list[dict[str, Any]]:
    data = now.data
    made = {"type": "agent_handover", "from_agent": data.get("from") or "", "to_agent": data["to"]}
    return [{**made, "reason": data.get("reason")}]


def _run_started(now: EventContext) -> list[dict[str, Any]]:
    return [{"type": "run_started"}]


def _run_finished(now: EventContext) -> list[dict[str, Any]]:
    data = now.data
    if data["reason"] == "failed":
        code = data.get("code")
        return [{"type": "run_error", "message": data.get("detail") or code or "failed", "code": code}]
    made = {"type": "run_finished", "success": data["reason"] == "answered", "total_steps": data.get("turns", 0)}
    return [{**made, "failed_steps": 0, "usage": data.get("usage")}]


_WRITERS: dict[str, translation.Writer] = {
    "accepted": _accepted,
    "started": _started,
    "done": _done,
    "handover": _handover,
    "run_started": _run_started,
    "run_finished": _run_finished,
}


def __getattr__(name: str) -> Any:
    """`from_builtin` makes what stands above this layer, and is loaded when it is asked for."""
    if name != "from_builtin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("toolcrib.agent.distri").from_builtin

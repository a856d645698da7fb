"""aios-protocol: its JSON, and its tools, results, approvals and events as ours and back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from toolcrib.events import Event
from toolcrib.interop import translation
from toolcrib.interop.forms import InteropError, compact
from toolcrib.interop.translation import EventContext, LogReader, RequestedCall
from toolcrib.interop.wire.aios import CONTENT, EVENT, FORMS
from toolcrib.tool import Tool
from toolcrib.types import Annotations, Answer, Call, Failure, Limits, Question, Result

__all__ = [
    "dumps",
    "envelopes",
    "error_text",
    "from_answer",
    "from_call",
    "from_event",
    "from_question",
    "from_result",
    "from_tool",
    "loads",
    "moment",
    "read_error",
    "replay",
    "report",
    "to_answer",
    "to_call",
    "to_outcome",
    "to_question",
    "to_result",
    "to_tool",
]

loads, dumps = FORMS.loads, FORMS.dumps


def to_tool(definition: Mapping[str, Any], namespace: str = "default") -> Tool:
    """A ToolDefinition as a tool without a body: the client runs it.

    Raises:
        BadTool: the name or a schema is none of ours.
    """
    data = FORMS.read("ToolDefinition", definition)
    return Tool(
        name=data["name"],
        namespace=namespace,
        description=translation.described(data["description"], data.get("title"), data["name"]),
        title=data.get("title"),
        category=data.get("category"),
        tags=tuple(data.get("tags", ())),
        input_schema=translation.schema(data["name"], data["input_schema"]),
        output_schema=data.get("output_schema"),
        annotations=Annotations(**data["annotations"]) if "annotations" in data else None,
        limits=Limits(timeout_s=float(data["timeout_secs"]) if data.get("timeout_secs") else None),
        source="aios",
        trusted=False,
    )


def from_tool(tool: Tool) -> dict[str, Any]:
    """A tool as a ToolDefinition; seconds are rounded up."""
    made: dict[str, Any] = FORMS.read(
        "ToolDefinition",
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "title": tool.title,
            "output_schema": tool.output_schema,
            "annotations": None if tool.annotations is None else asdict(tool.annotations),
            "category": tool.category,
            "tags": list(tool.tags),
            "timeout_secs": None if tool.limits.timeout_s is None else math.ceil(tool.limits.timeout_s),
        },
    )
    return made


def to_call(call: Mapping[str, Any]) -> RequestedCall:
    """A ToolCall as what `session.submit` takes; the capabilities that it requests give it no right."""
    data = FORMS.read("ToolCall", call)
    return RequestedCall(data["tool_name"], data["input"], data["call_id"], tuple(data["requested_capabilities"]))


def from_call(call: Call) -> dict[str, Any]:
    """A call as a ToolCall."""
    return {
        "call_id": call.id,
        "tool_name": translation.bare(call.tool),
        "input": call.args,
        "requested_capabilities": [],
    }


def from_result(call_id: str, tool_name: str, result: Result) -> dict[str, Any]:
    """A result as a ToolResult; blocks that it has no kind for become json blocks."""
    if result.failure is not None:
        output: Any = {"error": result.failure.message}
        content = [{"type": "text", "text": result.failure.message}]
    else:
        output = result.data
        content = [_content(block) for block in result.content] or [_only_block(output)]
    made = {"call_id": call_id, "tool_name": tool_name, "output": output, "content": content}
    return {**made, "is_error": result.failure is not None}


def _only_block(output: Any) -> dict[str, Any]:
    return {"type": "text", "text": output} if isinstance(output, str) else {"type": "json", "value": output}


def _content(block: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return CONTENT.kept("nothing")(block, "")
    except InteropError:
        return {"type": "json", "value": dict(block)}


def to_result(result: Mapping[str, Any]) -> Result:
    """A ToolResult as a result; the text of an error says which failure it is."""
    data = FORMS.read("ToolResult", result)
    if data["is_error"]:
        return Result(failure=read_error(to_outcome(data)["error"]))
    content = data.get("content", [])
    return Result(data["output"], () if content == [_only_block(data["output"])] else content)


def to_outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    """The ToolOutcome of a ToolResult."""
    data = FORMS.read("ToolResult", result)
    if not data["is_error"]:
        return {"status": "success", "output": data["output"]}
    return {"status": "failure", "error": _error_of(data["output"], data.get("content", ()))}


def _error_of(output: Any, content: Sequence[Mapping[str, Any]]) -> str:
    texts = [block["text"] for block in content if block.get("type") == "text"]
    if isinstance(output, str):
        return output
    if output is None and texts:
        return "\n".join(texts)
    if isinstance(output, dict) and output.keys() == {"error"} and isinstance(output["error"], str):
        return output["error"]
    return compact(output)


def report(call: Call, result: Result, duration_ms: float = 0) -> dict[str, Any]:
    """A call that is over as a ToolExecutionReport."""
    name = translation.bare(call.tool)
    return {
        "tool_run_id": call.id,
        "call_id": call.id,
        "tool_name": name,
        "exit_status": 0 if result.ok else 1,
        "duration_ms": round(duration_ms),
        "outcome": to_outcome(from_result(call.id, name, result)),
    }


_TEXTS = {
    "not_found": "tool not found: {tool}",
    "invalid_arguments": "invalid input: {message}",
    "timeout": "[{tool}] timed out after {seconds}s",
    "denied": "workspace policy violation: {message}",
    "declined": "workspace policy violation: {message}",
    "internal": "{message}",
}
FAILED = "[{tool}] execution failed: {message}"
UNKNOWN = "Unknown tool"
"""How the failure of a call begins whose tool does not exist; `not_found` of a tool is about something else."""

_READ = (
    (re.compile(r"tool not found: (?P<tool>.*)", re.DOTALL), "not_found", "Unknown tool: {tool}"),
    (re.compile(r"\[(?P<tool>[^\]]*)\] execution failed: (?P<message>.*)", re.DOTALL), "failed", "{message}"),
    (re.compile(r"invalid input: (?P<message>.*)", re.DOTALL), "invalid_arguments", "{message}"),
    (re.compile(r"\[(?P<tool>[^\]]*)\] timed out after (?P<seconds>\d+)s"), "timeout", "Timed out after {seconds} s"),
    (re.compile(r"workspace policy violation: (?P<message>.*)", re.DOTALL), "denied", "{message}"),
)


def error_text(failure: Failure, tool: str) -> str:
    """A failure of that tool as aios-protocol says it."""
    seconds = re.search(r"(\d+)(?:\.\d+)? ?s\b", failure.message)
    wording = _TEXTS.get(failure.code, FAILED)
    if failure.code == "not_found" and not failure.message.startswith(UNKNOWN):
        wording = FAILED  # the tool is there, and found nothing
    return wording.format(tool=tool, message=failure.message, seconds=seconds[1] if seconds else 0)


def read_error(text: str) -> Failure:
    """The failure that a text of aios-protocol stands for."""
    for pattern, code, wording in _READ:
        match = pattern.fullmatch(text)
        if match is not None:
            return translation.failing(code, wording.format(**match.groupdict()))
    return translation.failing("internal", text)


_RISKS = {"read": "low", "idempotent": "medium", "once": "high"}


def from_question(question: Question, risk: str = "medium") -> dict[str, Any]:
    """A confirmation as ApprovalRequested."""
    return {
        "type": "ApprovalRequested",
        "approval_id": question.id,
        "call_id": question.call,
        "tool_name": translation.bare(question.tool),
        "arguments": dict(question.arguments),
        "risk": risk,
    }


def to_question(event: Mapping[str, Any]) -> Question:
    """An ApprovalRequested as a confirmation; when it was asked and when it ends is not said there."""
    data = EVENT.variants["ApprovalRequested"](event, "")
    return Question(
        id=data["approval_id"],
        call=data["call_id"],
        tool=data["tool_name"],
        kind="confirm",
        prompt=f"Allow {data['tool_name']}?",
        key=data["approval_id"],
        arguments=data["arguments"] or {},
        schema=None,
        resume="run",
        digest="",
        asked_at=0.0,
        expires_at=math.inf,
        data={"risk": data["risk"]},
    )


def from_answer(answer: Answer) -> dict[str, Any]:
    """The answer to a confirmation as ApprovalResolved."""
    made = {"type": "ApprovalResolved", "approval_id": answer.question}
    made["decision"] = "approved" if answer.accepted else "denied"
    return made if answer.reason is None else {**made, "reason": answer.reason}


def to_answer(event: Mapping[str, Any], actor: str) -> Answer:
    """An ApprovalResolved as the answer to its question; one that ran out of time is a `cancel`."""
    data = EVENT.variants["ApprovalResolved"](event, "")
    question = data["approval_id"]
    if data["decision"] == "approved":
        return Answer(question, "accept", actor, question, reason=data.get("reason"))
    action = "decline" if data["decision"] == "denied" else "cancel"
    return Answer(question, action, actor, question, reason=data.get("reason"))  # type: ignore[arg-type]  # one of two


def from_event(event: Event, reading: LogReader) -> list[dict[str, Any]]:
    """An event of our log as theirs."""
    return reading.written(event, _WRITERS)


def replay(events: Iterable[Event], session: str = "") -> list[dict[str, Any]]:
    """Our log as EventKinds."""
    return translation.replay(events, _WRITERS, session)


def envelopes(event: Event, reading: LogReader, branch: str = "main") -> list[dict[str, Any]]:
    """An event of our log as theirs, in envelopes that are numbered and dated as it is."""
    about = {
        "session_id": reading.session,
        "branch_id": branch,
        "run_id": event.fields.get("run"),
        "seq": event.seq,
        "ts_ms": round(event.at * 1000),
        "actor": {"type": "system", "component": "toolcrib"},
    }
    id = f"{reading.session}:{event.seq}"
    return [
        FORMS.read("EventEnvelope", {**about, "event_id": f"{id}.{number}" if number else id, "kind": kind})
        for number, kind in enumerate(from_event(event, reading))
    ]


def moment(envelope: Mapping[str, Any]) -> float:
    """When it happened, in seconds since 1970: `ts_ms` holds microseconds where they are that many."""
    stamp: int = FORMS.read("EventEnvelope", envelope)["ts_ms"]
    return stamp / (1_000_000 if stamp >= 100_000_000_000_000 else 1000)


def _accepted(now: EventContext) -> list[dict[str, Any]]:
    made = {"type": "ToolCallRequested", "call_id": now.call, "tool_name": now.name}
    return [{**made, "arguments": now.data.get("args")}]


def _waiting(now: EventContext) -> list[dict[str, Any]]:
    question = now.history.question
    if question is None or question.kind != "confirm":
        return []
    return [from_question(question, _RISKS.get(now.history.accepted.effect, "medium"))]


def _answered(now: EventContext) -> list[dict[str, Any]]:
    if now.history.questions[now.data["question"]].kind != "confirm":
        return []
    answer = now.history.answer(now.data["question"])
    return [] if answer is None else [from_answer(answer)]


def _started(now: EventContext) -> list[dict[str, Any]]:
    return [{"type": "ToolCallStarted", "tool_run_id": now.call, "tool_name": now.name}]


_STOPPED = {"timeout": "timeout", "cancelled": "cancelled"}


def _done(now: EventContext) -> list[dict[str, Any]]:
    """A call that ran to its end, its limit or its cancel is completed; every other failed."""
    failure = now.result.failure
    before: list[dict[str, Any]] = []
    if now.question is not None and now.question.kind == "confirm" and failure is not None:
        decision = "timeout" if failure.code == "timeout" else "denied"
        before = [{"type": "ApprovalResolved", "approval_id": now.question.id, "decision": decision}]
    ran = now.history.started is not None
    status = "ok" if failure is None else _STOPPED.get(failure.code) if ran and now.question is None else None
    if failure is not None and status is None:
        error = error_text(failure, now.name)
        return [*before, {"type": "ToolCallFailed", "call_id": now.call, "tool_name": now.name, "error": error}]
    outcome = to_outcome(from_result(now.call, now.name, now.result))
    made = {"type": "ToolCallCompleted", "tool_run_id": now.call, "call_id": now.call, "tool_name": now.name}
    took = round(now.data.get("duration_ms", 0))
    return [{**made, "result": outcome, "duration_ms": took, "status": status}]


def _handover(now: EventContext) -> list[dict[str, Any]]:
    return [{"type": "Custom", "event_type": "agent.handover", "data": now.data}]


def _run_started(now: EventContext) -> list[dict[str, Any]]:
    return [
        {"type": "RunStarted", "provider": now.data.get("agent", ""), "max_iterations": now.data.get("max_turns", 0)}
    ]


def _run_finished(now: EventContext) -> list[dict[str, Any]]:
    data = now.data
    if data.get("reason") == "failed":
        return [{"type": "RunErrored", "error": data.get("detail") or data.get("code") or "failed"}]
    reason = {"answered": "completed", "stopped": data.get("code") or "stopped"}.get(data["reason"], data["reason"])
    made = {"type": "RunFinished", "reason": reason, "total_iterations": data.get("turns", 0)}
    return [made if data.get("answer") is None else {**made, "final_answer": data["answer"]}]


_WRITERS: dict[str, translation.Writer] = {
    "accepted": _accepted,
    "waiting": _waiting,
    "answered": _answered,
    "started": _started,
    "done": _done,
    "handover": _handover,
    "run_started": _run_started,
    "run_finished": _run_finished,
}

"""Awaken: its JSON, and its tools, results, tickets, statuses and events as ours and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib._session.progress_tree import progress
from toolcrib.events import Event
from toolcrib.interop import translation
from toolcrib.interop.forms import InteropError, compact
from toolcrib.interop.translation import EventContext, LogReader, RequestedCall
from toolcrib.interop.wire.awaken import FORMS
from toolcrib.reports import STATUSES
from toolcrib.tool import Tool
from toolcrib.types import Answer, Failure, Kind, Question, Result, Resume

__all__ = [
    "call_statuses",
    "done_reason",
    "dumps",
    "error_text",
    "follows",
    "from_answer",
    "from_event",
    "from_question",
    "from_result",
    "from_tool",
    "loads",
    "read_error",
    "read_reason",
    "replay",
    "run_status",
    "run_statuses",
    "suspended",
    "to_answer",
    "to_call",
    "to_question",
    "to_result",
    "to_tool",
]

loads, dumps = FORMS.loads, FORMS.dumps


def to_tool(descriptor: Mapping[str, Any], namespace: str = "default") -> Tool:
    """A ToolDescriptor as a tool without a body: the client runs it. Its id is our name, its name our title.

    Raises:
        BadTool: the id or the schema is none of ours.
    """
    data = FORMS.read("ToolDescriptor", descriptor)
    return Tool(
        name=data["id"],
        namespace=namespace,
        description=translation.described(data["description"], data["name"], data["id"]),
        title=data["name"] or None,
        category=data["category"],
        input_schema=translation.schema(data["id"], data["parameters"]),
        metadata=data.get("metadata", {}),
        source="awaken",
        trusted=False,
    )


def from_tool(tool: Tool) -> dict[str, Any]:
    """A tool as a ToolDescriptor."""
    made: dict[str, Any] = FORMS.read(
        "ToolDescriptor",
        {
            "id": tool.name,
            "name": tool.title or tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
            "category": tool.category,
            "metadata": tool.metadata,
        },
    )
    return made


def to_call(call: Mapping[str, Any]) -> RequestedCall:
    """A PendingToolCall as what `session.submit` takes."""
    data = FORMS.read("PendingToolCall", call)
    return RequestedCall(data["name"], data["arguments"], data["id"])


def from_result(tool_name: str, result: Result) -> dict[str, Any]:
    """A result as a ToolResult; what it has no field for goes to the metadata."""
    metadata = dict(result.metadata)
    if result.content:
        metadata["content"] = list(result.content)
    failure = result.failure
    if failure is None:
        made = {"tool_name": tool_name, "status": "success", "data": result.data, "message": result.message}
        return {**made, "metadata": metadata} if metadata else made
    metadata |= {"retryable": True} if failure.retryable else {}
    metadata |= {"hint": failure.hint} if failure.hint else {}
    message = failure.line
    made = {"tool_name": tool_name, "status": "error", "data": translation.error_part(failure), "message": message}
    return {**made, "metadata": metadata} if metadata else made


def to_result(result: Mapping[str, Any]) -> Result:
    """A ToolResult as a result.

    Raises:
        InteropError: it does not fit the form, or is pending and therefore none yet.
    """
    data = FORMS.read("ToolResult", result)
    if data["status"] == "pending":
        raise InteropError("wrong_value", "status", "status is pending: there is no result yet")
    metadata = dict(data.get("metadata", {}))
    content = metadata.pop("content", None) or ()
    if data["status"] == "success":
        return Result(data["data"], content, metadata=metadata, message=data.get("message"))
    more = {"hint": metadata.pop("hint", None), "retryable": metadata.pop("retryable", False)}
    part = translation.read_error_part(data["data"])
    if part is None:
        return Result(content=content, failure=read_error(data["message"] or ""), metadata=metadata)
    failure = translation.failing(*part, **more)
    if failure.code != part[0]:
        metadata["code"] = part[0]
    return Result(content=content, failure=failure, metadata=metadata)


_TEXTS = {
    "invalid_arguments": "Invalid arguments",
    "failed": "Execution failed",
    "timeout": "Timeout",
    "cancelled": "Cancelled",
    "denied": "Denied",
    "not_found": "Not found",
    "internal": "Internal error",
}
_CODES = {words: code for code, words in _TEXTS.items()}


def error_text(failure: Failure) -> str:
    """A failure as Awaken says it."""
    code = {"declined": "denied"}.get(failure.code, failure.code)
    return f"{_TEXTS.get(code, _TEXTS['failed'])}: {failure.message}"


def read_error(text: str) -> Failure:
    """The failure that a text of Awaken stands for."""
    words, colon, message = text.partition(": ")
    return (
        translation.failing(_CODES[words], message)
        if colon and words in _CODES
        else translation.failing("failed", text)
    )


_MODES: dict[Resume, str] = {
    "run": "replay_tool_call",
    "use": "use_decision_as_tool_result",
    "pass_any": "pass_decision_to_tool",
    "pass": "pass_decision_to_tool",  # after the other, since a mode is read as the last that it stands for
}
_RESUMES: dict[str, Resume] = {mode: resume for resume, mode in _MODES.items()}
_CONFIRM = "tool:PermissionConfirm"


def from_question(question: Question) -> dict[str, Any]:
    """A question as a SuspendTicket."""
    name, arguments = translation.bare(question.tool), dict(question.arguments)
    suspension: dict[str, Any] = {"id": f"suspend_{question.call}", "action": f"tool:{name}", "parameters": arguments}
    pending: dict[str, Any] = {"id": question.call, "name": name, "arguments": arguments}
    if question.kind == "confirm":
        suspension |= {"id": f"perm_{question.call}", "action": _CONFIRM}
        suspension["message"] = f"Permission required for tool '{name}'"
        pending |= {"id": suspension["id"], "name": "permission_confirm"}
    elif question.kind == "client":
        suspension["message"] = f"Frontend tool '{name}' requires client execution"
    else:
        suspension |= {"id": question.id, "action": question.kind, "message": question.prompt}
        suspension["parameters"] = question.data
    suspension["response_schema"] = question.schema
    ticket = {"suspension": suspension, "pending": pending, "resume_mode": _MODES[question.resume]}
    made: dict[str, Any] = FORMS.read("SuspendTicket", ticket)
    return made


def suspended(question: Question) -> dict[str, Any]:
    """The pending ToolResult of a call that waits."""
    name = translation.bare(question.tool)
    made: dict[str, Any] = {"tool_name": name, "status": "pending", "data": None}
    made["message"] = f"Tool '{name}' suspended: awaiting decision"
    return {**made, "suspension": from_question(question)}


def to_question(ticket: Mapping[str, Any]) -> Question:
    """A SuspendTicket as a question; when it was asked and when it ends is not said there."""
    data = FORMS.read("SuspendTicket", ticket)
    suspension, pending = data["suspension"], data["pending"]
    resume = _RESUMES[data["resume_mode"]]
    kind = _kind(suspension["action"], resume)
    call, tool = pending["id"], pending["name"]
    if suspension["action"] == _CONFIRM:
        call = call.removeprefix("perm_")
        tool = suspension.get("message", "").partition("'")[2].rpartition("'")[0] or tool
    return Question(
        id=suspension["id"],
        call=call,
        tool=tool,
        kind=kind,
        prompt=suspension.get("message", ""),
        key=suspension["id"],
        arguments=pending["arguments"] or {},
        schema=suspension.get("response_schema"),
        resume=resume,
        digest="",
        asked_at=0.0,
        expires_at=math.inf,
        data=suspension.get("parameters") if kind in ("input", "external") else None,
    )


def _kind(action: str, resume: Resume) -> Kind:
    """What an action asks for; one that says nothing is told by the way to go on."""
    if action in (_CONFIRM, "confirm"):
        return "confirm"
    if action in ("input", "external"):
        return "input" if action == "input" else "external"
    by_resume: dict[Resume, Kind] = {"run": "confirm", "use": "client"}
    return "client" if action.startswith("tool:") else by_resume.get(resume, "external")


def to_answer(resume: Mapping[str, Any], question: str, actor: str) -> Answer:
    """A ToolCallResume as the answer to that question; its decision id recognises it when it comes again."""
    data = FORMS.read("ToolCallResume", resume)
    return Answer(
        question=question,
        action="accept" if data["action"] == "resume" else "decline",
        actor=actor,
        key=data["decision_id"] or f"{question}:{actor}",
        value=data.get("result"),
        reason=data.get("reason"),
        at=data["updated_at"] / 1000,
    )


def from_answer(answer: Answer) -> dict[str, Any]:
    """An answer as a ToolCallResume."""
    made: dict[str, Any] = FORMS.read(
        "ToolCallResume",
        {
            "decision_id": answer.key,
            "action": "resume" if answer.accepted else "cancel",
            "result": answer.value,
            "reason": answer.reason,
            "updated_at": round(answer.at * 1000),
        },
    )
    return made


_ENDED = frozenset({"succeeded", "failed", "cancelled"})
_STEPS: dict[str, dict[str, frozenset[str]]] = {
    "tool_call": {
        "new": frozenset({"running", "suspended", "resuming"}) | _ENDED,
        "running": frozenset({"suspended"}) | _ENDED,
        "suspended": frozenset({"resuming", "cancelled"}),
        "resuming": frozenset({"running", "suspended"}) | _ENDED,
    },
    "run": {
        "created": frozenset({"running", "waiting", "done"}),
        "running": frozenset({"waiting", "done"}),
        "waiting": frozenset({"running", "done"}),
    },
}


def follows(machine: str, before: str, after: str) -> bool:
    """True if a status of a `tool_call` or a `run` may follow another; it may always stay."""
    return before == after or after in _STEPS[machine].get(before, ())


_STATUSES = {"accepted": "new", "started": "running", "waiting": "suspended", "answered": "resuming"}


def call_statuses(events: Iterable[Event]) -> dict[str, list[str]]:
    """What each call of our log was, one status after the other."""
    reading = LogReader()
    statuses: dict[str, list[str]] = {}
    for event in events:
        now = reading.advance(event)
        if now is not None and event.call is not None and (event.kind in _STATUSES or event.kind == "done"):
            _go(statuses.setdefault(event.call, []), _STATUSES.get(event.kind) or _end(now))
    return statuses


def _end(now: EventContext) -> str:
    failure = now.result.failure
    if failure is None:
        return "succeeded"
    return "cancelled" if failure.code in ("cancelled", "declined") else "failed"


def _go(path: list[str], after: str) -> None:
    """A call that fails while it waits is cancelled; between what may not follow each other stands what may."""
    before = path[-1] if path else "new"
    if before in _ENDED or (path and before == after):
        return
    if (before, after) == ("suspended", "failed"):
        after = "cancelled"
    if not follows("tool_call", before, after):
        path.append("suspended" if after == "resuming" else "resuming")
    path.append(after)


_RUNS = {
    "run_started": ("created", "running"),
    "run_waiting": ("waiting",),
    "run_resumed": ("running",),
    "run_finished": ("done",),
}


def run_statuses(events: Iterable[Event]) -> dict[str, list[str]]:
    """What each run of our log was, one status after the other."""
    statuses: dict[str, list[str]] = {}
    for event in events:
        if event.kind in _RUNS:
            path = statuses.setdefault(event.fields["run"], [])
            path += [status for status in _RUNS[event.kind] if not path or path[-1] not in (status, "done")]
    return statuses


_SHORT = {"natural_end": "natural"}


def run_status(termination: Mapping[str, Any]) -> str:
    """The status of a run that ended for that reason."""
    return "waiting" if FORMS.read("TerminationReason", termination)["type"] == "suspended" else "done"


def done_reason(termination: Mapping[str, Any]) -> str | None:
    """The reason as a short text; a suspended run is not done and has none."""
    data = FORMS.read("TerminationReason", termination)
    name, value = _SHORT.get(data["type"], data["type"]), data.get("value")
    if name == "suspended":
        return None
    return name if value is None else f"{name}:{value['code'] if name == 'stopped' else value}"


def read_reason(text: str) -> dict[str, Any]:
    """The reason that a short text stands for; a text of no such form is an error of that text."""
    name, colon, value = text.partition(":")
    if text in ("natural", "behavior_requested", "cancelled"):
        return {"type": "natural_end" if text == "natural" else text}
    if colon and name in ("stopped", "blocked", "error"):
        return {"type": name, "value": {"code": value} if name == "stopped" else value}
    return {"type": "error", "value": text}


def from_event(event: Event, reading: LogReader) -> list[dict[str, Any]]:
    """An event of our log as theirs."""
    return reading.written(event, _WRITERS)


def replay(events: Iterable[Event], session: str = "") -> list[dict[str, Any]]:
    """Our log as AgentEvents."""
    return translation.replay(events, _WRITERS, session)


def _event(event_type: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": event_type, **fields}


def _accepted(now: EventContext) -> list[dict[str, Any]]:
    ready = _event("tool_call_ready", id=now.call, name=now.name, arguments=now.data.get("args"))
    return [_event("tool_call_start", id=now.call, name=now.name), ready]


def _waiting(now: EventContext) -> list[dict[str, Any]]:
    question = now.history.question
    assert question is not None
    return [_event("tool_call_done", id=now.call, message_id="", result=suspended(question), outcome="suspended")]


def _answered(now: EventContext) -> list[dict[str, Any]]:
    if now.data["action"] == "accept":
        return [_event("tool_call_resumed", target_id=now.call, result=now.data.get("value"))]
    reason = now.data.get("reason") or now.data["action"]
    return [_event("tool_call_cancel", id=now.call, name=now.name, reason=reason)]


def _progress(now: EventContext) -> list[dict[str, Any]]:
    accepted = Event.of(0, now.history.accepted_at, now.call, now.history.accepted)
    (node,) = progress(now.history.session, [accepted, now.event])
    counts = {name: int(node[name]) for name in ("loaded", "total") if node.get(name) is not None}
    status = node["status"] if node["status"] in STATUSES else "running"
    content = FORMS.read("ToolCallProgressState", {**node, **counts, "status": status})
    made = _event("activity_snapshot", message_id=content["node_id"], activity_type="tool-call-progress")
    return [{**made, "content": content, "replace": True}]


def _activity(now: EventContext) -> list[dict[str, Any]]:
    type = now.data["type"]
    if "patch" in now.data:
        return [_event("activity_delta", message_id=now.call, activity_type=type, patch=now.data["patch"])]
    made = _event("activity_snapshot", message_id=now.call, activity_type=type, content=now.data.get("content"))
    return [{**made, "replace": True}]


def _output(now: EventContext) -> list[dict[str, Any]]:
    delta = now.data["delta"] if "delta" in now.data else compact(now.data.get("value"))
    return [_event("tool_call_stream_delta", id=now.call, name=now.name, delta=delta)]


def _done(now: EventContext) -> list[dict[str, Any]]:
    result = from_result(now.name, now.result)
    outcome = "succeeded" if now.result.ok else "failed"
    return [_event("tool_call_done", id=now.call, message_id="", result=result, outcome=outcome)]


def _handover(now: EventContext) -> list[dict[str, Any]]:
    message = now.data.get("call") or now.history.session
    return [_event("activity_snapshot", message_id=message, activity_type="agent-handover", content=now.data)]


_ORIGINS = {"user": "user", "api": "user", "wake": "internal", "call": "subagent"}


def _run_started(now: EventContext) -> list[dict[str, Any]]:
    data, thread = now.data, now.history.session
    made = {"thread_id": thread, "run_id": data["run"], "parent_run_id": data.get("parent")}
    origin = _ORIGINS.get(data.get("origin", ""), "internal")
    mode = "internal_wake" if data.get("origin") == "wake" else None
    identity = {**made, "agent_id": data.get("agent", ""), "origin": origin, "run_mode": mode}
    return [FORMS.read("AgentEvent", _event("run_start", **made, identity=identity))]


def _run_finished(now: EventContext) -> list[dict[str, Any]]:
    data, reason = now.data, now.data["reason"]
    termination: dict[str, Any] = {"type": "cancelled"}
    if reason == "answered":
        termination = {"type": "natural_end"}
    elif reason == "stopped":
        termination = {
            "type": "stopped",
            "value": {"code": data.get("code") or "stopped", "detail": data.get("detail")},
        }
    elif reason == "failed":
        termination = {"type": "error", "value": data.get("detail") or data.get("code") or "failed"}
    result = None if data.get("answer") is None else {"response": data["answer"], "status": "done"}
    made = _event("run_finish", thread_id=now.history.session, run_id=data["run"], result=result)
    return [FORMS.read("AgentEvent", {**made, "termination": termination})]


_WRITERS: dict[str, translation.Writer] = {
    "accepted": _accepted,
    "waiting": _waiting,
    "answered": _answered,
    "progress": _progress,
    "activity": _activity,
    "output": _output,
    "done": _done,
    "handover": _handover,
    "run_started": _run_started,
    "run_finished": _run_finished,
}


def __getattr__(name: str) -> Any:
    """`to_agent` makes what stands above this layer, and is loaded when it is asked for."""
    if name != "to_agent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("toolcrib.agent.awaken").to_agent

"""The forms of Awaken."""

from __future__ import annotations

from toolcrib.interop.forms import (
    Forms,
    Record,
    Tagged,
    anything,
    each,
    filled,
    flag,
    integer,
    maybe,
    natural,
    need,
    number,
    one_of,
    table,
    text,
)

_STATUS = one_of("success", "pending", "error")
_MODE = one_of("replay_tool_call", "use_decision_as_tool_result", "pass_decision_to_tool")
_ACTION = one_of("resume", "cancel")
_PROGRESS = one_of("pending", "running", "done", "failed", "cancelled")
_OUTCOME = one_of("suspended", "succeeded", "failed")
_ORIGIN = one_of("user", "mcp", "subagent", "internal")
_RUN_MODE = one_of("foreground", "scheduled", "resume", "internal_wake")
_ADAPTER = one_of("internal", "acp", "ai_sdk", "ag_ui", "a2a", "mcp")

_SUSPENSION = Record(
    filled("id", text, ""),
    filled("action", text, ""),
    maybe("message", empty=""),
    maybe("parameters", anything),
    maybe("response_schema", anything),
)
_PENDING = Record(need("id"), need("name"), need("arguments", anything))
_TICKET = Record(
    filled("suspension", _SUSPENSION, {}),
    filled("pending", _PENDING, {"id": "", "name": "", "arguments": None}),
    filled("resume_mode", _MODE, "replay_tool_call"),
)
_RESULT = Record(
    need("tool_name"),
    need("status", _STATUS),
    need("data", anything),
    filled("message", text, None),
    maybe("suspension", _TICKET),
    maybe("metadata", table(anything), {}),
)
_STOPPED = Record(need("code"), maybe("detail"))
TERMINATION = Tagged(
    "type",
    {
        "natural_end": Record(),
        "behavior_requested": Record(),
        "stopped": Record(need("value", _STOPPED)),
        "cancelled": Record(),
        "blocked": Record(need("value")),
        "suspended": Record(),
        "error": Record(need("value")),
    },
    aliases={"plugin_requested": "behavior_requested"},
)
_IDENTITY = Record(
    need("thread_id"),
    maybe("parent_thread_id"),
    need("run_id"),
    maybe("parent_run_id"),
    need("agent_id"),
    maybe("parent_tool_call_id"),
    maybe("dispatch_id"),
    maybe("session_id"),
    maybe("transport_request_id"),
    need("origin", _ORIGIN),
    maybe("run_mode", _RUN_MODE, "foreground"),
    maybe("adapter", _ADAPTER, "internal"),
)
_USAGE = Record(
    maybe("prompt_tokens", integer),
    maybe("completion_tokens", integer),
    maybe("total_tokens", integer),
    maybe("cache_read_tokens", integer),
    maybe("cache_creation_tokens", integer),
    maybe("thinking_tokens", integer),
)
EVENT = Tagged(
    "event_type",
    {
        "run_start": Record(need("thread_id"), need("run_id"), maybe("parent_run_id"), maybe("identity", _IDENTITY)),
        "run_finish": Record(
            need("thread_id"),
            need("run_id"),
            maybe("identity", _IDENTITY),
            maybe("result", anything),
            need("termination", TERMINATION),
        ),
        "text_delta": Record(need("delta")),
        "reasoning_delta": Record(need("delta")),
        "tool_call_start": Record(need("id"), need("name")),
        "tool_call_delta": Record(need("id"), need("args_delta")),
        "tool_call_ready": Record(need("id"), need("name"), need("arguments", anything)),
        "tool_call_done": Record(need("id"), need("message_id"), need("result", _RESULT), need("outcome", _OUTCOME)),
        "tool_call_stream_delta": Record(need("id"), need("name"), need("delta")),
        "reasoning_encrypted_value": Record(need("encrypted_value")),
        "messages_snapshot": Record(need("messages", each(anything))),
        "activity_snapshot": Record(
            need("message_id"), need("activity_type"), need("content", anything), maybe("replace", flag)
        ),
        "activity_delta": Record(need("message_id"), need("activity_type"), need("patch", each(anything))),
        "tool_call_resumed": Record(need("target_id"), need("result", anything)),
        "tool_call_cancel": Record(need("id"), need("name"), need("reason")),
        "stream_reset": Record(need("reason")),
        "step_start": Record(filled("message_id", text, "")),
        "step_end": Record(),
        "inference_complete": Record(need("model"), maybe("usage", _USAGE), need("duration_ms", natural)),
        "state_snapshot": Record(need("snapshot", anything)),
        "state_delta": Record(need("delta", each(anything))),
        "error": Record(need("message"), maybe("code")),
    },
    keep="all",
)

FORMS = Forms(
    {
        "ToolStatus": _STATUS,
        "ToolResult": _RESULT,
        "ToolDescriptor": Record(
            need("id"),
            need("name"),
            need("description"),
            need("parameters", anything),
            filled("category", text, None),
            maybe("metadata", table(anything), {}),
        ),
        "Suspension": _SUSPENSION,
        "PendingToolCall": _PENDING,
        "SuspendTicket": _TICKET,
        "ToolCallResumeMode": _MODE,
        "ResumeDecisionAction": _ACTION,
        "ToolCallResume": Record(
            filled("decision_id", text, ""),
            need("action", _ACTION),
            maybe("result", anything),
            maybe("reason"),
            filled("updated_at", natural, 0),
        ),
        "ToolCallStatus": one_of("new", "running", "suspended", "resuming", "succeeded", "failed", "cancelled"),
        "ToolCallOutcome": _OUTCOME,
        "TerminationReason": TERMINATION,
        "StoppedReason": _STOPPED,
        "RunStatus": one_of("created", "running", "waiting", "done"),
        "RunOrigin": _ORIGIN,
        "RunMode": _RUN_MODE,
        "AdapterKind": _ADAPTER,
        "RunIdentity": _IDENTITY,
        "ProgressStatus": _PROGRESS,
        "ToolCallProgressState": Record(
            filled("schema", text, "tool-call-progress.v1"),
            need("node_id"),
            need("call_id"),
            need("tool_name"),
            need("status", _PROGRESS),
            maybe("progress", number),
            maybe("loaded", natural),
            maybe("total", natural),
            maybe("message", empty=""),
            maybe("parent_node_id"),
            maybe("parent_call_id"),
            maybe("run_id"),
            maybe("parent_run_id"),
            maybe("thread_id"),
        ),
        "TokenUsage": _USAGE,
        "AgentEvent": EVENT,
    }
)

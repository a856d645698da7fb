"""The forms of aios-protocol."""

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
    one_of,
    table,
    text,
)

_CALL = (need("call_id"), need("tool_name"))
OUTCOME = Tagged("status", {"success": Record(need("output", anything)), "failure": Record(need("error"))})
ANNOTATIONS = Record(
    *(filled(n, flag, False) for n in ("read_only", "destructive", "idempotent", "open_world", "requires_confirmation"))
)
CONTENT = Tagged(
    "type",
    {
        "text": Record(need("text")),
        "image": Record(need("data"), need("mime_type")),
        "json": Record(need("value", anything)),
    },
    keep="unknown",
)
USAGE = Record(*(need(name, natural) for name in ("prompt_tokens", "completion_tokens", "total_tokens")))
EVENT = Tagged(
    "type",
    {
        "UserMessage": Record(need("content")),
        "RunStarted": Record(need("provider"), need("max_iterations", natural)),
        "RunFinished": Record(
            need("reason"), need("total_iterations", natural), maybe("final_answer"), maybe("usage", USAGE)
        ),
        "RunErrored": Record(need("error")),
        "StepStarted": Record(need("index", natural)),
        "StepFinished": Record(need("index", natural), need("stop_reason"), need("directive_count", natural)),
        "TextDelta": Record(need("delta"), maybe("index", natural)),
        "Message": Record(need("role"), need("content"), maybe("model"), maybe("token_usage", USAGE)),
        "ToolCallRequested": Record(*_CALL, need("arguments", anything), maybe("category")),
        "ToolCallStarted": Record(need("tool_run_id"), need("tool_name")),
        "ToolCallCompleted": Record(
            need("tool_run_id"),
            maybe("call_id"),
            need("tool_name"),
            need("result", anything),
            need("duration_ms", natural),
            need("status", one_of("ok", "error", "timeout", "cancelled")),
        ),
        "ToolCallFailed": Record(*_CALL, need("error")),
        "PolicyEvaluated": Record(
            need("tool_name"),
            need("decision", one_of("allow", "deny", "require_approval")),
            maybe("rule_id"),
            maybe("explanation"),
        ),
        "ApprovalRequested": Record(
            need("approval_id"),
            *_CALL,
            need("arguments", anything),
            need("risk", one_of("low", "medium", "high", "critical")),
        ),
        "ApprovalResolved": Record(
            need("approval_id"), need("decision", one_of("approved", "denied", "timeout")), maybe("reason")
        ),
        "ErrorRaised": Record(need("message")),
        "Custom": Record(need("event_type"), need("data", anything)),
    },
    keep="all",
)

FORMS = Forms(
    {
        "ToolCall": Record(*_CALL, need("input", anything), filled("requested_capabilities", each(text), [])),
        "ToolOutcome": OUTCOME,
        "ToolAnnotations": ANNOTATIONS,
        "ToolDefinition": Record(
            need("name"),
            need("description"),
            need("input_schema", anything),
            maybe("title"),
            maybe("output_schema", anything),
            maybe("annotations", ANNOTATIONS),
            maybe("category"),
            maybe("tags", each(text), []),
            maybe("timeout_secs", natural),
        ),
        "ToolContent": CONTENT,
        "ToolResult": Record(
            *_CALL, filled("output", anything, None), maybe("content", each(CONTENT)), filled("is_error", flag, False)
        ),
        "ToolExecutionReport": Record(
            need("tool_run_id"),
            *_CALL,
            need("exit_status", integer),
            need("duration_ms", natural),
            need("outcome", OUTCOME),
        ),
        "Capability": text,
        "PolicySet": Record(
            need("allow_capabilities", each(text)),
            need("gate_capabilities", each(text)),
            need("max_tool_runtime_secs", natural),
            need("max_events_per_turn", natural),
        ),
        "PolicyGateDecision": Record(*(need(n, each(text)) for n in ("allowed", "requires_approval", "denied"))),
        "SubscriptionTier": one_of("anonymous", "free", "pro", "enterprise"),
        "EventKind": EVENT,
        "EventEnvelope": Record(
            need("event_id"),
            need("session_id"),
            maybe("agent_id"),
            need("branch_id"),
            maybe("run_id"),
            need("seq", natural),
            need("ts_ms", natural, alias="timestamp"),
            filled("actor", Record(need("type"), maybe("component")), {"type": "system", "component": "arcan-daemon"}),
            filled("schema", Record(need("name"), need("version")), {"name": "aios-protocol", "version": "0.1.0"}),
            maybe("parent_event_id", alias="parent_id"),
            maybe("trace_id"),
            maybe("span_id"),
            maybe("digest"),
            need("kind", EVENT),
            filled("metadata", table(anything), {}),
            filled("schema_version", natural, 1),
        ),
    }
)

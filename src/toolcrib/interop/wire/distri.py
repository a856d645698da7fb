"""The forms of Distri."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.interop.forms import (
    Forms,
    Named,
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

_METADATA = Record(filled("save", flag, True), filled("developer", flag, False))
_CALL = Record(need("tool_call_id"), need("tool_name"), need("input", anything), strict=True)
_FILE = Tagged(
    "type",
    {
        "bytes": Record(need("bytes"), need("mime_type"), filled("name", text, None)),
        "url": Record(need("url"), need("mime_type"), filled("name", text, None)),
    },
)


def _part(value: Any, path: str) -> dict[str, Any]:
    """Parts hold results, which hold parts."""
    return PART(value, path)


_RESPONSE = Record(
    need("tool_call_id"),
    need("tool_name"),
    need("parts", each(_part)),
    maybe("parts_metadata", table(_METADATA)),
)
PART = Tagged(
    "part_type",
    {
        "text": Record(need("data")),
        "tool_call": Record(need("data", _CALL)),
        "tool_result": Record(need("data", _RESPONSE)),
        "image": Record(need("data", _FILE)),
        "file": Record(need("data", _FILE)),
        "data": Record(need("data", anything)),
        "artifact": Record(need("data", anything)),
        "resource_link": Record(need("data", anything)),
    },
    keep="unknown",
)
_ROLE = one_of("system", "assistant", "user", "tool", "developer")
_MESSAGE = Record(
    need("id"),
    filled("name", text, None),
    need("role", _ROLE),
    need("parts", each(PART)),
    need("created_at", integer),
    maybe("agent_id"),
    maybe("parts_metadata", table(_METADATA)),
)
_STEP = (need("step_id"), filled("parent_message_id", text, None))
_EXECUTION = (need("step_id"), need("tool_call_id"), need("tool_call_name"))
EVENT = Tagged(
    "type",
    {
        "agent_handover": Record(need("from_agent"), need("to_agent"), filled("reason", text, None)),
        "tool_execution_start": Record(*_EXECUTION, need("input", anything)),
        "tool_execution_end": Record(*_EXECUTION, need("success", flag)),
        "tool_calls": Record(*_STEP, need("tool_calls", each(_CALL))),
        "tool_results": Record(*_STEP, need("results", each(_RESPONSE))),
        "run_started": Record(),
        "run_finished": Record(
            need("success", flag),
            need("total_steps", natural),
            need("failed_steps", natural),
            filled("usage", anything, None),
            maybe("context_budget", anything),
        ),
        "run_error": Record(need("message"), filled("code", text, None), maybe("usage", anything)),
    },
    keep="unknown",
)
_BEHIND = Record(need("agent_id"), maybe("parent_task_id"))


def _flattened(value: Any, path: str) -> dict[str, Any]:
    """An event over A2A: who sent it stands behind the fields of the event."""
    behind = _BEHIND(value, path)
    assert isinstance(value, Mapping)
    event = {key: item for key, item in value.items() if key not in _BEHIND.keys}
    return {**EVENT.kept("all")(event, path), **behind}


FORMS = Forms(
    {
        "ToolCall": _CALL,
        "ToolResponse": _RESPONSE,
        "PartMetadata": _METADATA,
        "FileType": _FILE,
        "Part": PART,
        "ToolDefinition": Record(
            need("name"),
            need("description"),
            need("parameters", anything),
            maybe("examples", anything),
            maybe("output_schema", anything),
            maybe("prompt"),
        ),
        "ExternalTool": Record(
            need("name"),
            need("description"),
            filled("parameters", anything, None),
            filled("is_final", flag, False),
            maybe("prompt"),
        ),
        "MessageRole": _ROLE,
        "Message": _MESSAGE,
        "TaskMessage": Named(
            {
                "Message": _MESSAGE,
                "Event": Record(need("event", EVENT.kept("all")), need("created_at", integer), need("is_final", flag)),
            }
        ),
        "ToolCallStatus": one_of("pending", "running", "completed", "failed"),
        "TaskStatus": one_of("pending", "running", "input_required", "completed", "failed", "canceled"),
        "AgentEventType": EVENT,
        "AgentEvent": _flattened,
    }
)

"""What an answer of a server comes to: a result, something that it wants first, or a task that ends in its own time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.errors import ToolFailure
from toolcrib.sources.mcp.results import failure

POLL_S = 1.0
LONGEST_POLL_S = 60.0


def missing_from(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is to be done before there is a result: questions and a state, a state alone, a task; None for a result.

    Raises:
        ToolFailure: it is of a kind that nobody knows.
    """
    kind = raw.get("resultType", "complete")
    if kind == "complete":
        return None
    if kind == "task" and isinstance(raw.get("taskId"), str):
        return {"task": raw["taskId"]}
    if kind == "input_required" and raw.get("inputRequests"):
        return {"requests": raw["inputRequests"], "state": raw.get("requestState")}
    if kind == "input_required" and isinstance(raw.get("requestState"), str):
        return {"state": raw["requestState"]}
    raise ToolFailure("failed", f"The server answered with a result of the kind {kind!r}, which is invalid")


def until_next(data: Mapping[str, Any]) -> float:
    """For how long to wait before a task is looked at again."""
    wait = data.get("pollIntervalMs")
    return min(wait / 1000, LONGEST_POLL_S) if isinstance(wait, int) and wait > 0 else POLL_S


def _completed(data: Mapping[str, Any]) -> dict[str, Any]:
    result = data.get("result")
    if not isinstance(result, dict) or missing_from(result) is not None:
        raise ToolFailure("failed", "The task of the server ended without a result")
    return result


def _failed(data: Mapping[str, Any]) -> dict[str, Any]:
    error = data.get("error")
    error = error if isinstance(error, dict) else {}
    message = str(error.get("message") or data.get("statusMessage") or "The task of the server failed")
    code = error.get("code")
    raise failure(code if isinstance(code, int) else 0, message)


def _cancelled(data: Mapping[str, Any]) -> dict[str, Any]:
    raise ToolFailure("cancelled", str(data.get("statusMessage") or "The server cancelled its task"))


ENDS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "completed": _completed,
    "failed": _failed,
    "cancelled": _cancelled,
}

"""The progress of a session as a tree: who called whom, and how far each is. A fold of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolcrib.events import Accepted, Done, Event, Progress, Started

_ENDED = {"cancelled": "cancelled", "declined": "cancelled"}


def progress(session: str, events: Iterable[Event]) -> list[dict[str, Any]]:
    """Nodes `tool-call-progress.v1` in order of acceptance; a tool need not say that it is done."""
    nodes: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.call is None:
            continue
        match event.data:
            case Accepted() as data:
                nodes[event.call] = _node(session, event.call, data)
            case Started():
                nodes[event.call]["status"] = "running"
            case Progress():
                nodes[event.call].update(event.fields)
            case Done(failure=failure):
                nodes[event.call]["status"] = "done" if failure is None else _ENDED.get(failure.code, "failed")
    return list(nodes.values())


def _node(session: str, call: str, accepted: Accepted) -> dict[str, Any]:
    parent, run = accepted.parent, accepted.run
    node = {
        "schema": "tool-call-progress.v1",
        "node_id": f"tool_call:{call}",
        "call_id": call,
        "tool_name": accepted.tool.partition(".")[2] or accepted.tool,
        "status": "pending",
        "parent_node_id": f"tool_call:{parent}" if parent else f"run:{run}" if run else None,
        "parent_call_id": parent,
        "run_id": run,
        "thread_id": session,
    }
    return {name: value for name, value in node.items() if value is not None}

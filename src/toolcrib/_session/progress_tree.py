"""The progress of a session as a tree: who called whom, and how far each is. A fold of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolcrib.events import Accepted, Answered, Done, Event, Paused, Progress, Started, Waiting

_ENDED = {"cancelled": "cancelled", "declined": "cancelled"}


def progress(session: str, events: Iterable[Event]) -> list[dict[str, Any]]:
    """Nodes `tool-call-progress.v1` in order of acceptance; a tool need not say that it waits or is done."""
    tree = _Tree(session)
    for event in events:
        if event.call is not None:
            tree.take(event.call, event)
    return list(tree.nodes.values())


class _Tree:
    """The nodes of the calls of a session, as far as its log was read."""

    def __init__(self, session: str) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self._session = session
        self._started: set[str] = set()
        self._paused: set[str] = set()

    def take(self, call: str, event: Event) -> None:
        """Takes the next event of a call."""
        match event.data:
            case Accepted() as data:
                self.nodes[call] = _node(self._session, call, data)
            case Started():
                self._started.add(call)
                self.nodes[call]["status"] = "running"
            case Waiting():
                self.nodes[call]["status"] = "waiting"
            case Paused():
                self._paused.add(call)
                self.nodes[call]["status"] = "waiting"
            case Answered() if event.kind == Answered.kind:  # and not one of several answers that it needs
                self._go_on(call)
            case Progress():
                self.nodes[call].update(event.fields)
            case Done(failure=failure):
                self.nodes[call]["status"] = "done" if failure is None else _ENDED.get(failure.code, "failed")
                above = self.nodes[call].get("parent_call_id")
                if above in self._paused:
                    self._go_on(above)

    def _go_on(self, call: str) -> None:
        """A call that waited goes on, or begins."""
        self._paused.discard(call)
        self.nodes[call]["status"] = "running" if call in self._started else "pending"


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

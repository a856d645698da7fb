"""A list of things to do, replaced as a whole, and what changed in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

STATUSES = {"open": "open", "pending": "open", "in_progress": "in_progress", "done": "done", "completed": "done"}
ICONS = {"open": "□", "in_progress": "◐", "done": "■"}


def read(items: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """A list as it is kept, each status under its one name."""
    return [{"content": one["content"], "status": STATUSES[one.get("status", "open")]} for one in items]


def display(todos: Iterable[Mapping[str, str]]) -> str:
    """A line for each."""
    return "\n".join(f"{ICONS[one['status']]} {one['content']}" for one in todos)


def all_done(todos: Sequence[Mapping[str, str]]) -> bool:
    """True if there is something, and nothing left of it."""
    return bool(todos) and all(one["status"] == "done" for one in todos)


def changes(before: Iterable[Mapping[str, str]], after: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """What was added and what changed its status, in the new order; then what was removed, in the old."""
    left = [dict(one) for one in before]
    changed: list[dict[str, str]] = []
    for one in after:
        old = next((other for other in left if other["content"] == one["content"]), None)
        if old is None:
            changed.append({"kind": "added", **one})
            continue
        left.remove(old)
        if old["status"] != one["status"]:
            changed.append({"kind": "status_changed", **one, "prev_status": old["status"]})
    return changed + [{"kind": "removed", **one} for one in left]

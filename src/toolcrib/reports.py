"""What a tool may report of itself while it runs: parts from 0 to 1, known statuses, and JSON Patches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

STATUSES = ("pending", "running", "done", "failed", "cancelled")
"""The statuses of `tool-call-progress.v1` that a tool may give itself."""

_FIELDS = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from", "remove": "path"}
_POINTER = re.compile(r"(/([^~]|~[01])*)?", re.DOTALL)


class Misuse(ValueError):
    """What a tool cannot tell or ask: a mistake of its author. The text is shown to whoever made the call."""


def check_progress(progress: Any, status: Any) -> None:
    """Looks at a progress before it is told.

    Raises:
        Misuse: it is not from 0 to 1, or there is no such status.
    """
    number = isinstance(progress, int | float) and not isinstance(progress, bool)
    if progress is not None and not (number and 0 <= progress <= 1):
        shown = progress if number else type(progress).__name__
        raise Misuse(f"progress is a number from 0 to 1, not {shown}; give amounts as loaded and total")
    if not isinstance(status, str) or status not in STATUSES:
        shown = repr(status) if isinstance(status, str) else type(status).__name__
        raise Misuse(f"status is one of {', '.join(STATUSES)}, not {shown}")


def check_patch(operations: list[Any]) -> None:
    """Looks at the operations of a JSON Patch (RFC 6902).

    Raises:
        Misuse: they are none.
    """
    if not operations:
        raise Misuse("A delta is a JSON Patch: one operation, or a list of them")
    for number, one in enumerate(operations):
        problem = _problem(one)
        if problem is not None:
            raise Misuse(f"A delta is a JSON Patch: operation {number} {problem}")


def _problem(one: Any) -> str | None:
    """What is wrong with an operation; None where nothing is."""
    if not isinstance(one, Mapping):
        return "is no object"
    op = one.get("op")
    if not isinstance(op, str) or op not in _FIELDS:
        return f"has no `op` of {', '.join(_FIELDS)}"
    for name in dict.fromkeys(("path", _FIELDS[op])):
        if name not in one:
            return f"has no `{name}`"
        if name != "value" and not (isinstance(one[name], str) and _POINTER.fullmatch(one[name])):
            return f"has a `{name}` that is no JSON Pointer, such as /steps/0"
    return None

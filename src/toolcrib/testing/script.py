"""The replies of a test to the questions of a tool, by key, prompt or kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib._call.answers import ACTIONS


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer in full, for where an action or a value alone does not say it."""

    action: str = "accept"
    value: Any = None
    arguments: Mapping[str, Any] | None = None
    reason: str | None = None
    actor: str | None = None


class Script:
    """Replies by name. A list is used up one by one, anything else serves every time.

    A reply is a `Reply`, one of the four actions (`accept`, `decline`, `cancel`, `fail`), or a value to accept with.
    """

    def __init__(self, lines: Mapping[str, Any] | None = None) -> None:
        self._lines = {name: list(value) if isinstance(value, list) else value for name, value in (lines or {}).items()}

    def reply(self, *names: str | None) -> Reply | None:
        """The reply under the first of these names that still has one."""
        for name in names:
            replies = self._lines.get(name or "", [])
            if not isinstance(replies, list):
                return _reply(replies)
            if replies:
                return _reply(replies.pop(0))
        return None

    def __repr__(self) -> str:
        return ", ".join(repr(name) for name in self._lines) or "nothing"


def _reply(value: Any) -> Reply:
    if isinstance(value, Reply):
        return value
    if isinstance(value, str) and value in ACTIONS:
        return Reply(value)
    return Reply(value=value)

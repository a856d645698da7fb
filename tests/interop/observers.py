"""Logs of ours to be said in other forms, made by hand where a real session would only be slower."""

from collections.abc import Sequence
from typing import Any

from toolcrib.events import Event
from toolcrib.interop.wire import aios, awaken, distri
from toolcrib.store.codec import encode
from toolcrib.types import Question

KNOWN = {
    "aios": aios.EVENT.kept("nothing"),
    "awaken": awaken.EVENT.kept("nothing"),
    "distri": distri.EVENT.kept("nothing"),
}
"""The events of each system; what is not known or does not parse is an error here."""


class Log:
    """Writes events of one session, numbered and a second apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, kind: str, call: str | None = None, **data: Any) -> "Log":
        number = len(self.events) + 1
        self.events.append(Event(number, 1_700_000_000.0 + number, call, kind, encode(data)))
        return self

    def accepted(self, call: str, tool: str = "default.search", args: Any = None, **more: Any) -> "Log":
        by = {"kind": "agent", "name": "ada"}
        data = {"tool": tool, "label": "Search", "args": args or {}, "by": by, "digest": "d", "effect": "once"}
        return self.add("accepted", call, **data | more)

    def started(self, call: str, args: Any = None) -> "Log":
        return self.add("started", call, attempt=1, args=args or {}, digest="d", timeout_s=60.0)

    def waiting(self, asked: Question) -> "Log":
        names = (name for name in Question.__slots__ if name != "path")
        return self.add("waiting", asked.call, question={name: getattr(asked, name) for name in names})

    def answered(self, asked: Question, action: str, **more: Any) -> "Log":
        data = {"question": asked.id, "action": action, "actor": "ada", "key": "k", "scope": "once"}
        return self.add("answered", asked.call, **data | more)

    def done(self, call: str, data: Any = None, **more: Any) -> "Log":
        return self.add("done", call, ok=True, data=data, duration_ms=12.4, **more)

    def failed(self, call: str, code: str, message: str, **more: Any) -> "Log":
        failure = {"code": code, "message": message, "retryable": False, "hint": None}
        return self.add("done", call, ok=False, failure=failure, duration_ms=1.6, **more)

    def handover(self, call: str, **data: Any) -> "Log":
        """An event of the session; its data names the call, whose `done` has said the same."""
        self.add("handover", **data)
        self.events[-1].fields["call"] = call
        return self


def question(call: str = "c1", kind: Any = "confirm", resume: Any = "run", **more: Any) -> Question:
    data: dict[str, Any] = {
        "id": f"{call}-1",
        "call": call,
        "tool": "default.search",
        "kind": kind,
        "prompt": "Allow default.search?",
        "key": "k",
        "arguments": {"q": "x"},
        "schema": None,
        "resume": resume,
        "digest": "d",
        "asked_at": 1.0,
        "expires_at": 2.0,
    }
    return Question(**data | more)


def tags(events: Sequence[dict[str, Any]], tag: str) -> list[str]:
    return [event[tag] for event in events]


def known(system: str, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events, if each of them is one that the system has, with all its fields in their order."""
    read = [KNOWN[system](event, "") for event in events]
    assert [list(event) for event in read] == [list(event) for event in events]
    return read

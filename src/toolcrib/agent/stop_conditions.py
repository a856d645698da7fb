"""When a run ends though its agent would go on: conditions that are checked after the calls of each turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolcrib.agent.problems import Path, ProblemCollector, meant

_FIELDS: dict[str, dict[str, type]] = {
    "max_rounds": {"rounds": int},
    "timeout": {"seconds": float},
    "token_budget": {"max_total": int},
    "consecutive_errors": {"max": int},
    "stop_on_tool": {"tool_name": str},
    "content_match": {"pattern": str},
    "loop_detection": {"window": int},
}


@dataclass(frozen=True, slots=True)
class Stop:
    """One condition: its type, and the one value that it has."""

    type: str
    value: Any

    def data(self) -> dict[str, Any]:
        """As a file says it."""
        (name,) = _FIELDS[self.type]
        return {"type": self.type, name: self.value}


class Turn(NamedTuple):
    """What a condition needs to know of one turn: its text, and of each call the tool, its arguments and success."""

    text: str
    calls: Sequence[tuple[str, str, bool]]


class RunTotals(NamedTuple):
    """How far a run has come: turns of its agent, seconds without those that it waited for people, tokens, turns."""

    rounds: int
    seconds: float
    tokens: int
    turns: Sequence[Turn]


def read_stop(table: Any, path: Path, findings: ProblemCollector) -> Stop | None:
    """A condition as a file gives it; None, and a finding, where it is none."""
    if not isinstance(table, Mapping):
        findings.add("wrong_type", path, "is no mapping such as {type: timeout, seconds: 60}")
        return None
    type = table.get("type")
    if type is None:
        findings.add("missing", (*path, "type"), f"is missing; one of {', '.join(_FIELDS)}")
        return None
    if not isinstance(type, str):
        findings.add("wrong_type", (*path, "type"), f"{type!r} is no text")
        return None
    if type not in _FIELDS:
        text = f"unknown stop condition {type!r}{meant(str(type), _FIELDS)}"
        findings.add("unknown_value", (*path, "type"), text)
        return None
    findings.keys(table, ("type", *_FIELDS[type]), path)
    ((name, kind),) = _FIELDS[type].items()
    value = _value(table, name, kind, (*path, name), findings)
    return None if value is None else Stop(type, value)


def _value(table: Mapping[str, Any], name: str, kind: type, path: Path, findings: ProblemCollector) -> Any:
    if table.get(name) is None:
        findings.add("missing", path, "is missing")
        return None
    value = table[name]
    if kind is str:
        return _text(value, name, path, findings)
    numbers = (int, float) if kind is float else (int,)
    if isinstance(value, bool) or not isinstance(value, numbers):
        findings.add("wrong_type", path, f"{value!r} is no {'number' if kind is float else 'whole number'}")
        return None
    if not 0 < value < float("inf"):
        findings.add("wrong_value", path, f"{value!r} is not more than zero")
        return None
    return value


def _text(value: Any, name: str, path: Path, findings: ProblemCollector) -> str | None:
    if not isinstance(value, str):
        findings.add("wrong_type", path, f"{value!r} is no text")
        return None
    if not value:
        findings.add("wrong_value", path, "is empty")
        return None
    if name == "pattern":
        try:
            re.compile(value)
        except re.error as error:
            findings.add("wrong_value", path, f"{value!r} is no regular expression: {error}")
            return None
    return value


def stopped(conditions: Iterable[Stop], course: RunTotals, max_turns: int | None = None) -> tuple[str, str] | None:
    """The first condition that holds, as its type and a sentence for people; None where the run may go on.

    `max_turns` is looked at last.
    """
    for condition in conditions:
        reason = _HOLDS[condition.type](condition.value, course)
        if reason is not None:
            return condition.type, reason
    made = None if max_turns is None else _max_rounds(max_turns, course)
    return None if made is None else ("max_rounds", made)


def _max_rounds(rounds: int, course: RunTotals) -> str | None:
    return f"{course.rounds} turns were made" if course.rounds >= rounds else None


def _timeout(seconds: float, course: RunTotals) -> str | None:
    return f"it has run for more than {seconds:g} s" if course.seconds >= seconds else None


def _token_budget(most: int, course: RunTotals) -> str | None:
    return f"{course.tokens} tokens were used" if course.tokens >= most else None


def _consecutive_errors(most: int, course: RunTotals) -> str | None:
    last = course.turns[-most:]
    failed = [turn for turn in last if turn.calls and not any(ok for _, _, ok in turn.calls)]
    return f"in {most} turns in a row every call failed" if len(failed) == most else None


def _stop_on_tool(name: str, course: RunTotals) -> str | None:
    called = [tool for tool, _, _ in course.turns[-1].calls]
    return f"{name} was called" if any(name in (tool, tool.partition(".")[2]) for tool in called) else None


def _content_match(pattern: str, course: RunTotals) -> str | None:
    return f"the text matches {pattern}" if re.search(pattern, course.turns[-1].text) else None


def _loop_detection(window: int, course: RunTotals) -> str | None:
    last = [[(tool, args) for tool, args, _ in turn.calls] for turn in course.turns[-window:]]
    same = len(last) == window and last[0] and all(calls == last[0] for calls in last)
    return f"{window} turns in a row made the same calls" if same else None


_HOLDS: dict[str, Callable[[Any, RunTotals], str | None]] = {
    "max_rounds": _max_rounds,
    "timeout": _timeout,
    "token_budget": _token_budget,
    "consecutive_errors": _consecutive_errors,
    "stop_on_tool": _stop_on_tool,
    "content_match": _content_match,
    "loop_detection": _loop_detection,
}

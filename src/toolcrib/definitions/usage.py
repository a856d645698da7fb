"""How often tools are used, how their calls end and how long they take: a fold of the log.

It keeps names and numbers, never arguments or results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from toolcrib.definitions.filters import tokens
from toolcrib.definitions.registry import Registry
from toolcrib.events import Event
from toolcrib.types import Failure, Result

KEPT_S = 30 * 24 * 3600.0
"""How far back statistics go."""


@dataclass(slots=True)
class ToolStatistics:
    """The calls of one tool. Rejections are counted by validator, a call once for each that found an error."""

    calls: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    hints: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    last_used: float = 0.0
    sessions: set[str] = field(default_factory=set)
    times_ms: list[float] = field(default_factory=list)

    def numbers(self) -> dict[str, Any]:
        """All of it as JSON data; tokens are estimated."""
        times = sorted(self.times_ms)
        return {
            "calls": self.calls,
            "failures": dict(sorted(self.failures.items())),
            "rejections": dict(sorted(self.rejections.items())),
            "hints": self.hints,
            "median_ms": (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2 if times else None,
            "p95_ms": times[math.ceil(0.95 * len(times)) - 1] if times else None,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "sessions": len(self.sessions),
            "last_used": self.last_used,
        }


class ToolUsage:
    """The statistics of all tools, made as logs go by; what was accepted before `since` does not count."""

    def __init__(self, since: float = 0.0) -> None:
        self.since = since
        self.tools: dict[str, ToolStatistics] = {}
        self.sessions: set[str] = set()
        self._open: dict[tuple[str, str], _OpenCall] = {}

    def take(self, session: str, event: Event) -> None:
        """Takes the next event of a session's log."""
        if event.call is None or event.at < self.since:
            return
        key = (session, event.call)
        if event.kind == "accepted":
            self._open[key] = self._accepted(session, event)
        elif key in self._open and event.kind == "started":
            self._open[key].started = True
        elif key in self._open and event.kind in ("done", "settled"):
            self._open[key].end(event.fields)
            if event.kind == "settled" or not _unknown(event.fields):
                del self._open[key]

    def numbers(self) -> dict[str, dict[str, Any]]:
        """What is known of each tool, as JSON data."""
        return {tool: self.tools[tool].numbers() for tool in sorted(self.tools)}

    def _accepted(self, session: str, event: Event) -> _OpenCall:
        used = self.tools.setdefault(event.fields["tool"], ToolStatistics())
        used.calls += 1
        used.tokens_in += tokens(event.fields.get("args") or "")
        used.last_used = max(used.last_used, event.at)
        used.sessions.add(session)
        self.sessions.add(session)
        return _OpenCall(used)


class _OpenCall:
    """A call that has not ended, or ended `unknown` and may be settled."""

    __slots__ = ("_unknown", "started", "used")

    def __init__(self, used: ToolStatistics) -> None:
        self.used = used
        self.started = False
        self._unknown = False

    def end(self, done: Mapping[str, Any]) -> None:
        used = self.used
        if self._unknown:
            used.failures -= Counter(unknown=1)
        elif self.started:
            used.times_ms.append(done.get("duration_ms", 0))
        recorded = done.get("failure")
        failure = (
            None if recorded is None else Failure(recorded["code"], recorded["message"], hint=recorded.get("hint"))
        )
        used.tokens_out += tokens(Result(done.get("data"), done.get("content", ()), failure).text)
        if failure is not None:
            used.failures[failure.code] += 1
            used.hints += failure.hint is not None
            used.rejections.update(_rejecting(done.get("metadata")))
        self._unknown = _unknown(done)


def _unknown(done: Mapping[str, Any]) -> bool:
    return not done["ok"] and done["failure"]["code"] == "unknown"


def _rejecting(metadata: Any) -> set[str]:
    """The validators whose findings ended a call."""
    findings = metadata.get("findings") if isinstance(metadata, Mapping) else None
    errors = [one for one in findings or () if isinstance(one, Mapping) and one.get("severity") == "error"]
    return {one["source"] for one in errors if isinstance(one.get("source"), str)}


# Advice


class RegistryAdvice(NamedTuple):
    """What a person may want to change in the registry. Nothing acts on it."""

    tool: str
    action: Literal["promote", "demote"]
    reason: str


def advice(usage: ToolUsage, registry: Registry) -> list[RegistryAdvice]:
    """Return which tools to list up front because they are used often, and which not to."""
    counted = _by_entry(usage, registry)
    always = registry.always().union(*(profile.always_loaded for profile in registry.profiles.values()))
    names = sorted(counted.keys() | always)
    return [one for name in names for one in _advised(name, counted, len(usage.sessions), always, registry)]


def _by_entry(usage: ToolUsage, registry: Registry) -> dict[str, tuple[int, int]]:
    """Calls and sessions by the names of the registry; a tool that it does not know goes by its file."""
    calls: Counter[str] = Counter()
    sessions: dict[str, set[str]] = {}
    for tool, used in usage.tools.items():
        entry = registry.entry(tool)
        name = entry.name if entry is not None else tool.rpartition(".")[0] or tool
        calls[name] += used.calls
        sessions.setdefault(name, set()).update(used.sessions)
    return {name: (count, len(sessions[name])) for name, count in calls.items()}


def _advised(
    name: str, counted: Mapping[str, tuple[int, int]], total: int, always: Iterable[str], registry: Registry
) -> Iterator[RegistryAdvice]:
    limits, entry = registry.thresholds, registry.tools.get(name)
    calls, sessions = counted.get(name, (0, 0))
    if name not in always:
        if sessions >= limits.promote_sessions and calls >= limits.promote_uses * sessions:
            yield RegistryAdvice(name, "promote", f"{calls} uses in {sessions} sessions")
    elif entry is None or not entry.essential:
        seldom = calls * limits.demote_sessions < limits.demote_uses * total
        if total >= limits.demote_sessions and seldom:
            yield RegistryAdvice(name, "demote", f"{calls} uses in {total} sessions")

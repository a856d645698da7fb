"""A log in words: one line for an event, in the colour of its kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.cli.terminal import Cell, compact, short

if TYPE_CHECKING:
    from toolcrib.events import Event

COLUMNS = ("Seq", "Time", "Kind", "Call", "What")
STYLES = {
    "accepted": "cyan",
    "waiting": "bold yellow",
    "paused": "yellow",
    "endorsed": "magenta",
    "escalated": "bold yellow",
    "answered": "magenta",
    "started": "blue",
    "progress": "blue",
    "output": "default",
    "activity": "dim",
    "step": "cyan",
    "done": "bold green",
    "settled": "bold green",
    "notice": "yellow",
    "message": "default",
    "handover": "magenta",
    "run_waiting": "bold yellow",
}


def style(event: Event) -> str:
    """The colour of an event: a failed end is red, what concerns the session is dim."""
    if event.kind in ("done", "settled") and not event.fields["ok"]:
        return "bold red"
    return STYLES.get(event.kind, "dim")


def cells(event: Event, most: int = 90, more: str = "") -> tuple[Cell, ...]:
    """An event as a row of a table."""
    look = style(event)
    what = short(describe(event), most) + more
    return (str(event.seq), (clock(event.at), "dim"), (event.kind, look), (event.call or "", "dim"), (what, look))


def line(event: Event, most: int = 1000) -> str:
    """An event as a line."""
    what = short(describe(event), most)
    return f"{event.seq:>5}  {clock(event.at)}  {event.kind:<10} {event.call or '':<16} {what}".rstrip()


def describe(event: Event) -> str:
    """What an event says."""
    say = _WORDS.get(event.kind)
    return compact(event.fields) if say is None else say(event.fields)


def clock(at: float) -> str:
    """A time of day."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def moment(at: float) -> str:
    """A date and a time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def span(seconds: float) -> str:
    """A length of time, in the largest unit that fits."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    for unit, size, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 48 * 3600)):
        if seconds < most:
            return f"{seconds / size:.1f} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def progress(data: Mapping[str, Any]) -> str:
    """How far a call is."""
    share = data.get("progress")
    amount = "" if share is None else f"{share:.0%}"
    if data.get("total") is not None:
        amount = f"{amount} ({data.get('loaded', 0):g} of {data['total']:g})".strip()
    return " ".join(part for part in (amount, str(data.get("message") or "")) if part) or str(data.get("status", ""))


def _accepted(data: Mapping[str, Any]) -> str:
    by = data.get("by") or {}
    who = by.get("name") or by.get("kind", "")
    return f"{data['tool']} {compact(data.get('args'))} by {who}"


def _waiting(data: Mapping[str, Any]) -> str:
    question = data["question"]
    return f"{question['prompt']} [{question['kind']} {question['id']}]"


def _answered(data: Mapping[str, Any]) -> str:
    more = [f"{name} {compact(data[name])}" for name in ("value", "args", "reason") if data.get(name) is not None]
    return ", ".join((f"{data['action']} by {data['actor']}", *more))


def _pinned_by(data: Mapping[str, Any]) -> str:
    return f"accepted by {data['by']}" if data.get("by") else "seen for the first time"


def _step(data: Mapping[str, Any]) -> str:
    return f"{data['key']}: {compact(data.get('failure', data.get('value')))}"


def _done(data: Mapping[str, Any]) -> str:
    took = f" in {span(data.get('duration_ms', 0) / 1000)}" if data.get("duration_ms", 0) >= 1 else ""
    if not data["ok"]:
        failure = data["failure"]
        return f"[{failure['code']}] {failure['message']}{took}"
    value = data.get("content") or data.get("data")
    return f"ok{took}: {compact(value)}"


def _opened(data: Mapping[str, Any]) -> str:
    again = "again " if data.get("restored") else ""
    return f"{again}for {data['owner']}, namespaces {', '.join(data['namespaces'])}, {len(data.get('tools', ()))} tools"


def _message(data: Mapping[str, Any]) -> str:
    calls = ", ".join(f"{call['tool']} {call['args']}" for call in data.get("calls", ()))
    text = f"{data.get('agent') or data['role']}: {data['content']}"
    return f"{text} [calls {calls}]" if calls else text


def _handover(data: Mapping[str, Any]) -> str:
    reason = f": {data['reason']}" if data.get("reason") else ""
    return f"{data['from']} -> {data['to']}{reason}"


def _run_finished(data: Mapping[str, Any]) -> str:
    why = ": ".join(str(data[name]) for name in ("code", "detail") if data.get(name))
    return f"{data['agent']} {data['reason']}{f' ({why})' if why else ''}: {compact(data.get('answer'))}"


_WORDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "accepted": _accepted,
    "waiting": _waiting,
    "paused": lambda data: f"waits for {', '.join(data['children'])}",
    "endorsed": lambda data: f"{_answered(data)}, others have to agree too",
    "escalated": lambda data: f"{', '.join(data['to'])} may approve it too from now on",
    "answered": _answered,
    "started": lambda data: f"attempt {data['attempt']}",
    "progress": progress,
    "output": lambda data: data["delta"] if "delta" in data else compact(data.get("value")),
    "activity": lambda data: f"{data['type']}: {compact(data.get('content', data.get('patch')))}",
    "step": _step,
    "done": _done,
    "settled": _done,
    "opened": _opened,
    "namespaces": lambda data: ", ".join(data["namespaces"]),
    "tools_changed": lambda data: f"{len(data['tools'])} tools",
    "run_ended": lambda data: str(data["run"]),
    "pinned": lambda data: f"{data['tool']} as it looks now, {_pinned_by(data)}",
    "notice": lambda data: str(data["text"]),
    "run_started": lambda data: f"{data['agent']}, by {data['origin']}",
    "turn_started": lambda data: f"turn {data['turn']} of {data['agent']}",
    "turn_finished": lambda data: f"turn {data['turn']} of {data['agent']}, {data['finish']}",
    "text": lambda data: data["delta"],
    "reasoning": lambda data: data["delta"],
    "message": _message,
    "message_queued": lambda data: f"{data['mode']}: {data['text']}",
    "handover": _handover,
    "run_waiting": lambda data: f"for {', '.join(data['questions'])}",
    "run_resumed": lambda data: str(data["run"]),
    "run_finished": _run_finished,
}

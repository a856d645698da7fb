"""All kinds of events, in the order in which they are declared."""

from __future__ import annotations

from types import ModuleType

from toolcrib.events import calls, runs, sessions
from toolcrib.events.values import EventData

STATEFUL = (calls.Done, calls.Waiting)
"""The kinds of events that may tell changes of the session's state, as `state`."""


def _declared(module: ModuleType) -> tuple[type[EventData], ...]:
    types = (one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)
    return tuple(one for one in types if issubclass(one, EventData))


OF_CALLS = _declared(calls)
OF_SESSIONS = _declared(sessions)
OF_RUNS = _declared(runs)
KINDS: dict[str, type[EventData]] = {one.kind: one for one in (*OF_CALLS, *OF_SESSIONS, *OF_RUNS)}
"""The type of each kind of event."""

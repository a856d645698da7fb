"""All kinds of events."""

from __future__ import annotations

from toolcrib.events.calls import (
    Accepted,
    Activity,
    Answered,
    Done,
    EffectReported,
    Endorsed,
    Escalated,
    Fired,
    Output,
    Paused,
    Progress,
    Scheduled,
    Settled,
    Started,
    StepTaken,
    Waiting,
)
from toolcrib.events.runs import (
    Compacted,
    HandedOver,
    MessageAdded,
    MessageQueued,
    ReasoningStreamed,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    TextStreamed,
    TurnFinished,
    TurnStarted,
)
from toolcrib.events.sessions import (
    Approved,
    ErrorNotice,
    InputGiven,
    Interrupted,
    KeyAdded,
    KeyRevoked,
    KeyUsed,
    NamespacesChanged,
    Notice,
    Opened,
    RunEnded,
    SessionClosed,
    SessionClosing,
    SessionDeleted,
    StateKeysDeclared,
    StopWanted,
    ToolPinned,
    ToolsChanged,
    UserState,
)
from toolcrib.events.values import EventData

STATEFUL = (Done, Waiting)
"""The kinds of events that may tell changes of the session's state, as `state`."""

OF_CALLS: tuple[type[EventData], ...] = (
    Accepted,
    Scheduled,
    Fired,
    Waiting,
    Endorsed,
    Escalated,
    Answered,
    Started,
    Progress,
    Output,
    Activity,
    StepTaken,
    EffectReported,
    Paused,
    Done,
    Settled,
)
OF_SESSIONS: tuple[type[EventData], ...] = (
    Opened,
    NamespacesChanged,
    ToolsChanged,
    UserState,
    Notice,
    ErrorNotice,
    RunEnded,
    Approved,
    InputGiven,
    Interrupted,
    StopWanted,
    SessionClosing,
    SessionClosed,
    ToolPinned,
    StateKeysDeclared,
    SessionDeleted,
    KeyAdded,
    KeyUsed,
    KeyRevoked,
)
OF_RUNS: tuple[type[EventData], ...] = (
    MessageAdded,
    MessageQueued,
    RunStarted,
    TurnStarted,
    TextStreamed,
    ReasoningStreamed,
    TurnFinished,
    HandedOver,
    Compacted,
    RunWaiting,
    RunResumed,
    RunFinished,
)
KINDS: dict[str, type[EventData]] = {one.kind: one for one in (*OF_CALLS, *OF_SESSIONS, *OF_RUNS)}
"""The type of each kind of event."""

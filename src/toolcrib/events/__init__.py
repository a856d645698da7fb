"""What the log says: one type for every kind of event.

An `Event` is one line of a session's log. Its `data` is a value of the type that its `kind` names:

    async for event in session.events():
        match event.data:
            case events.Waiting(question=question):
                print(question.prompt)
            case events.Done(ok=False, failure=failure):
                print(failure)

This package is the one declaration of these types. The table in the reference, the schemas of the HTTP API and the
types of the console are generated from it (`make generate`). A type may get new optional fields; what a log says is
never rewritten, and an event of a kind or with fields that this version does not know is passed on as it is.
"""

from __future__ import annotations

from msgspec import UNSET

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
from toolcrib.events.event import Event
from toolcrib.events.forms import fields_of, read, with_values, written
from toolcrib.events.kinds import KINDS, OF_CALLS, OF_RUNS, OF_SESSIONS, STATEFUL
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
    AccountConnected,
    AccountDisconnected,
    AccountRegistered,
    AccountRenewed,
    AccountRequested,
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
from toolcrib.events.values import (
    CallerRecord,
    CallRequestRecord,
    DemandRecord,
    EventData,
    Number,
    Omitted,
    PassedHistory,
    QuestionRecord,
    StateRecord,
    StepFailure,
    Unknown,
    VerdictRecord,
)

__all__ = [
    "KINDS",
    "OF_CALLS",
    "OF_RUNS",
    "OF_SESSIONS",
    "STATEFUL",
    "UNSET",
    "Accepted",
    "AccountConnected",
    "AccountDisconnected",
    "AccountRegistered",
    "AccountRenewed",
    "AccountRequested",
    "Activity",
    "Answered",
    "Approved",
    "CallRequestRecord",
    "CallerRecord",
    "Compacted",
    "DemandRecord",
    "Done",
    "EffectReported",
    "Endorsed",
    "ErrorNotice",
    "Escalated",
    "Event",
    "EventData",
    "Fired",
    "HandedOver",
    "InputGiven",
    "Interrupted",
    "KeyAdded",
    "KeyRevoked",
    "KeyUsed",
    "MessageAdded",
    "MessageQueued",
    "NamespacesChanged",
    "Notice",
    "Number",
    "Omitted",
    "Opened",
    "Output",
    "PassedHistory",
    "Paused",
    "Progress",
    "QuestionRecord",
    "ReasoningStreamed",
    "RunEnded",
    "RunFinished",
    "RunResumed",
    "RunStarted",
    "RunWaiting",
    "Scheduled",
    "SessionClosed",
    "SessionClosing",
    "SessionDeleted",
    "Settled",
    "Started",
    "StateKeysDeclared",
    "StateRecord",
    "StepFailure",
    "StepTaken",
    "StopWanted",
    "TextStreamed",
    "ToolPinned",
    "ToolsChanged",
    "TurnFinished",
    "TurnStarted",
    "Unknown",
    "UserState",
    "VerdictRecord",
    "Waiting",
    "fields_of",
    "read",
    "with_values",
    "written",
]

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

from typing import Any

import msgspec
from msgspec import UNSET, Struct

from toolcrib.events.calls import (
    Accepted,
    Activity,
    Answered,
    Done,
    Endorsed,
    Escalated,
    Output,
    Paused,
    Progress,
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
from toolcrib.events.values import (
    CallerRecord,
    CallRequestRecord,
    DemandRecord,
    EventData,
    Number,
    PassedHistory,
    QuestionRecord,
    StateRecord,
    StepFailure,
    VerdictRecord,
)

__all__ = [
    "KINDS",
    "UNSET",
    "Accepted",
    "Activity",
    "Answered",
    "Approved",
    "CallRequestRecord",
    "CallerRecord",
    "Compacted",
    "DemandRecord",
    "Done",
    "Endorsed",
    "ErrorNotice",
    "Escalated",
    "EventData",
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
    "read",
    "written",
]

OF_CALLS: tuple[type[EventData], ...] = (
    Accepted,
    Waiting,
    Endorsed,
    Escalated,
    Answered,
    Started,
    Progress,
    Output,
    Activity,
    StepTaken,
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


class Unknown(EventData, frozen=True):
    """The data of an event that this version does not know, or whose fields it cannot make sense of.

    Attributes:
        fields: The data as JSON.
    """

    fields: Any


class Omitted(Struct, frozen=True):
    """Stands for a large value in the data of an event that was read without such values.

    Attributes:
        bytes: Size of the value as JSON.
    """

    bytes: int


_plain = msgspec.json.Decoder()
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def read(kind: str, json: bytes, omitted: dict[str, int] | None = None) -> EventData:
    """Return the data of an event of that kind.

    `omitted` has the sizes of values that were left out of the JSON text; an `Omitted` stands in their place. Where a
    log says something else than this version would write, a value that does not fit the type of its field stays as it
    is in JSON, and one that is missing is None.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        if kind not in KINDS or kind in _FLAT:
            return _open(kind, _plain.decode(json))
        decoder = _decoders[kind] = msgspec.json.Decoder(KINDS[kind])
    if not omitted:
        try:
            data: EventData = decoder.decode(json)
            return data
        except msgspec.ValidationError:
            pass
    return _loosely(KINDS[kind], _plain.decode(json), omitted or {})


def _loosely(type: type[EventData], values: Any, omitted: dict[str, int]) -> EventData:
    """Return the data whose values do not all have the types of their fields."""
    if not isinstance(values, dict):
        return Unknown(values)
    made: dict[str, Any] = {}
    for one in msgspec.structs.fields(type):
        name = one.encode_name
        if name in omitted:
            made[one.name] = Omitted(omitted[name])
        elif name in values:
            try:
                made[one.name] = msgspec.convert(values[name], one.type)
            except msgspec.ValidationError:
                made[one.name] = values[name]
        elif one.required:
            made[one.name] = None
    return type(**made)


_FLAT = frozenset({UserState.kind, Notice.kind, ErrorNotice.kind})
"""Kinds whose data has fields of any name."""


def _open(kind: str, values: Any) -> EventData:
    """Return the data of a kind with fields of any name, or of a kind that is not known."""
    if kind not in _FLAT or not isinstance(values, dict):
        return Unknown(values)
    if kind == UserState.kind:
        return UserState(values)
    text = values.pop("text", "")
    return Notice(text, values) if kind == Notice.kind else ErrorNotice(text, values)


def written(data: EventData) -> Any:
    """Return what the JSON text of the data is made of."""
    match data:
        case UserState():
            return data.values
        case Notice() | ErrorNotice():
            return {"text": data.text, **data.more}
        case Unknown():
            return data.fields
    return data


def fields_of(data: Struct) -> dict[str, Any]:
    """Return the fields that the JSON text of the data has, by their names there."""
    made = written(data) if isinstance(data, EventData) else data
    if not isinstance(made, Struct):
        return dict(made)
    omits = made.__struct_config__.omit_defaults
    return {
        one.encode_name: value
        for one in msgspec.structs.fields(made)
        if (value := getattr(made, one.name)) is not UNSET and not (omits and value is one.default)
    }

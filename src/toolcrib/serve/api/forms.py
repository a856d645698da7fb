"""The nouns as JSON: the same names as in `toolcrib.types`, and what is not there is left out.

The structs describe the answers in the OpenAPI document; most are also what is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from toolcrib import types
from toolcrib._call.history import History, by_of
from toolcrib.events import Event, with_values
from toolcrib.schema.visible_json import visible_json
from toolcrib.store import SessionRow
from toolcrib.store.codec import encode

Json = Any


class FailureForm(Struct, omit_defaults=True):
    """Why a call did not succeed."""

    code: str
    message: str
    retryable: bool
    hint: str | None = None
    reason: str | None = None


class ResultForm(Struct, omit_defaults=True):
    """What came out of a call. A call that failed is `ok: false`, and no error of HTTP."""

    call: str
    ok: bool
    data: Json | UnsetType = UNSET
    failure: FailureForm | None = None
    content: Sequence[Json] = ()
    changes: Sequence[Json] = ()
    handover: Mapping[str, Json] | None = None
    metadata: Mapping[str, Json] | None = None
    message: str | None = None


class EntryForm(Struct, omit_defaults=True):
    """A call as lists show it."""

    id: str
    tool: str
    label: str
    status: types.Status
    background: bool
    accepted_at: float
    seq: int
    provider_id: str | None = None
    started_at: float | None = None
    done_at: float | None = None
    session: str | None = None
    owner: str | None = None
    by: Mapping[str, str] | None = None
    parent: str | None = None
    result: ResultForm | Raw | None = None
    large: Mapping[str, int] | None = None


class CallForm(Struct, omit_defaults=True):
    """A call that was accepted."""

    id: str
    session: str
    tool: str
    args: Json
    by: Mapping[str, str]
    label: str
    digest: str
    status: types.Status | None = None
    provider_id: str | None = None
    run: str | None = None
    parent: str | None = None
    background: bool = False


class QuestionForm(Struct, omit_defaults=True):
    """What a call waits for.

    `shown` is the text to show to people: the arguments as JSON, with whole integers, and with escapes for all that
    cannot be seen, breaks lines or turns the direction of writing.
    """

    id: str
    call: str
    tool: str
    kind: types.Kind
    prompt: str
    key: str
    arguments: Mapping[str, Json]
    resume: types.Resume
    digest: str
    asked_at: float
    expires_at: float
    session: str
    schema: Mapping[str, Json] | None = None
    path: Sequence[str] = ()
    offer: str | None = None
    data: Json = None
    demands: Sequence[Mapping[str, Json]] = ()
    approved_by: Sequence[str] = ()
    escalated: bool = False
    owner: str | None = None
    shown: str = ""


class AnswerForm(Struct, omit_defaults=True):
    """What came back to a question."""

    question: str
    action: Literal["accept", "decline", "cancel", "fail"]
    actor: str
    key: str
    at: float
    scope: Literal["once", "session"]
    value: Json = None
    arguments: Mapping[str, Json] | None = None
    reason: str | None = None


class EventForm(Struct):
    """One line of a session's log.

    Where values of its data are large, `large` has their bytes by name, and what stands in their place says where the
    whole event is read: `{"$large": {"bytes": 912345, "href": "/v1/sessions/s/events/7"}}`.
    """

    session: str
    seq: int
    time: float
    call: str | None
    kind: str
    data: Mapping[str, Json]
    large: Mapping[str, int] | UnsetType = UNSET


class SessionForm(Struct, omit_defaults=True):
    """A session. `open` says that this server has it in memory; `waiting` and `running` count its calls.

    `findings` says which of its `grants` match nothing.
    """

    id: str
    owner: str
    created: float
    touched: float
    seq: int
    open: bool
    waiting: int
    running: int
    namespaces: Sequence[str] | None = None
    grants: Sequence[Json] | None = None
    findings: Sequence[str] | None = None
    agent: str | None = None


def result(call: str, outcome: types.Result) -> bytes:
    """A result as JSON; the common case is put together from ready pieces."""
    if outcome.failure is None and not (
        outcome.content or outcome.metadata or outcome.changes or outcome.handover is not None or outcome.message
    ):
        return b'{"call":"%b","ok":true,"data":%b}' % (call.encode(), outcome.json)
    return encode(result_form(call, outcome))


def result_form(call: str, outcome: types.Result) -> ResultForm:
    """A result."""
    failure = outcome.failure
    return ResultForm(
        call,
        failure is None,
        Raw(outcome.json),
        None if failure is None else FailureForm(**asdict(failure)),
        list(outcome.content),
        [asdict(change) for change in types.changes_of(outcome)],
        None if outcome.handover is None else _without_none(asdict(outcome.handover)),
        dict(outcome.metadata) or None,
        outcome.message,
    )


def entry(call: types.Entry, **more: Any) -> EntryForm:
    """A call of a list."""
    return EntryForm(
        id=call.id,
        tool=call.tool,
        label=call.label,
        status=call.status,
        background=call.background,
        accepted_at=call.accepted_at,
        seq=call.seq,
        provider_id=call.provider_id,
        started_at=call.started_at,
        done_at=call.done_at,
        result=None if call.result is None else result_form(call.id, call.result),
        **more,
    )


def listed(history: History, **more: Any) -> EntryForm:
    """A call of a list, with who made it: a caller, and perhaps another call."""
    accepted = history.accepted
    return entry(history.entry(), by=by_of(accepted)._asdict(), parent=accepted.parent, **more)


def call(call: types.Call, status: types.Status | None = None) -> CallForm:
    """A call that was accepted."""
    fields = {name: getattr(call, name) for name in CallForm.__struct_fields__ if name not in ("by", "status")}
    return CallForm(**fields, by=call.by._asdict(), status=status)


def question(question: types.Question, owner: str | None = None) -> QuestionForm:
    """A question."""
    fields = {
        name: getattr(question, name) for name in QuestionForm.__struct_fields__ if name not in ("owner", "shown")
    }
    return QuestionForm(**fields, owner=owner, shown=visible_json(dict(question.arguments), indent=2))


def answer(answer: types.Answer) -> AnswerForm:
    """An answer."""
    return AnswerForm(**{name: getattr(answer, name) for name in AnswerForm.__struct_fields__})


def event(session: str, event: Event) -> bytes:
    """A line of the log, with references in the place of what was left out."""
    json = msgspec.json.format(event.json, indent=-1)  # a stream has one line for each event
    if event.omitted:
        href = f"/v1/sessions/{quote(session, safe='')}/events/{event.seq}"
        references = {name: {"$large": {"bytes": size, "href": href}} for name, size in event.omitted.items()}
        json = with_values(json, {name: encode(reference) for name, reference in references.items()})
    data: Any = Raw(json)
    line = EventForm(session, event.seq, event.at, event.call, event.kind, data)
    if event.omitted:
        line.large = event.omitted
    return encode(line)


def session(row: SessionRow, waiting: int, running: int, **more: Any) -> SessionForm:
    """A session."""
    more.setdefault("open", False)
    return SessionForm(
        id=row.id,
        owner=row.owner,
        created=row.created_at,
        touched=row.updated_at,
        seq=row.seq,
        waiting=waiting,
        running=running,
        **more,
    )


def _without_none(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}


def page_of(kind: Any, name: str, *more: tuple[str, Any, Any]) -> type[Struct]:
    """A page of something: `next` is what `after` takes to page on; without it this is the last."""
    return msgspec.defstruct(name, [("items", list[kind]), ("next", str | None, None), *more], omit_defaults=True)


Entries = page_of(EntryForm, "Entries", ("hint", str | None, None))
Questions = page_of(QuestionForm, "Questions")
Events = page_of(EventForm, "Events")
Sessions = page_of(SessionForm, "Sessions")

"""The JSON of the API as the values of the contract: what was left out there is what the values say by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct

from toolcrib.events import Event
from toolcrib.policy import Verdict
from toolcrib.types import (
    Annotations,
    Answer,
    By,
    Call,
    Change,
    Effect,
    Entry,
    Failure,
    Handover,
    Question,
    Result,
    ScheduleEntry,
)


class _Result(Struct):
    data: Raw = Raw(b"null")
    failure: dict[str, Any] | None = None
    content: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    handover: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    message: str | None = None


class _Event(Struct):
    seq: int
    time: float
    kind: str
    data: Raw
    call: str | None = None
    large: dict[str, int] = {}


class _EntryJson(Struct):
    id: str
    tool: str
    label: str
    status: Any
    background: bool
    accepted_at: float
    seq: int
    provider_id: str | None = None
    started_at: float | None = None
    done_at: float | None = None
    result: _Result | None = None
    large: dict[str, int] = {}


class _Entries(Struct):
    items: list[_EntryJson]
    next: str | None = None


class _Events(Struct):
    items: list[_Event]
    next: str | None = None


class _Lists(Struct):
    unresolved: list[_EntryJson]
    ongoing: list[_EntryJson]
    completed: list[_EntryJson]


_read_result = msgspec.json.Decoder(_Result)
_read_entry = msgspec.json.Decoder(_EntryJson)
_read_entries = msgspec.json.Decoder(_Entries)
_read_lists = msgspec.json.Decoder(_Lists)
_read_event = msgspec.json.Decoder(_Event)
_read_events = msgspec.json.Decoder(_Events)
_raw_fields = msgspec.json.Decoder(dict[str, Raw])


def result(text: bytes) -> Result:
    """What came out of a call."""
    return _result(_read_result.decode(text))


def _result(data: _Result) -> Result:
    return Result(
        msgspec.json.decode(data.data),
        data.content,
        None if data.failure is None else Failure(**data.failure),
        [Change(**change) for change in data.changes],
        None if data.handover is None else Handover(**data.handover),
        data.metadata or {},
        encoded=bytes(data.data),
        message=data.message,
    )


def entry(text: bytes) -> Entry:
    """A call as lists show it."""
    return _entry(_read_entry.decode(text))


def _entry(data: _EntryJson) -> Entry:
    parts = {name: getattr(data, name) for name in data.__struct_fields__ if name not in ("result", "large")}
    return Entry(**parts, result=None if data.result is None else _result(data.result))


def entries(text: bytes) -> tuple[list[Entry], str | None]:
    """A page of calls, and where the next one begins."""
    page = _read_entries.decode(text)
    return [_entry(one) for one in page.items], page.next


def lists(text: bytes) -> tuple[dict[str, list[Entry]], set[str]]:
    """The three lists, and the calls whose results were left out of them."""
    decoded = _read_lists.decode(text)
    entries = {name: [_entry(one) for one in getattr(decoded, name)] for name in decoded.__struct_fields__}
    return entries, {one.id for name in entries for one in getattr(decoded, name) if one.large}


def event(text: bytes) -> Event:
    """A line of the log."""
    return _event(_read_event.decode(text))


def _event(data: _Event) -> Event:
    json = bytes(data.data)
    if data.large:
        known = _raw_fields.decode(json)
        json = msgspec.json.encode({name: value for name, value in known.items() if name not in data.large})
    return Event(data.seq, data.time, data.call, data.kind, json, data.large or None)


def whole(event: Event) -> bool:
    """True if all values of an event came with it."""
    return not event.omitted


def events(text: bytes) -> tuple[list[Event], str | None]:
    """A page of the log, and where the next one begins."""
    page = _read_events.decode(text)
    return [_event(one) for one in page.items], page.next


def call(data: Mapping[str, Any]) -> Call:
    """A call that was accepted."""
    return Call(**_known(Call, data) | {"by": By(**data["by"])})


def question(data: Mapping[str, Any]) -> Question:
    """What a call waits for."""
    fields = {"schema": None, **_known(Question, data)}
    for name in ("path", "demands", "approved_by"):
        fields[name] = tuple(fields.get(name, ()))
    return Question(**fields)


def schedule(data: Mapping[str, Any]) -> ScheduleEntry:
    """A call that waits for its time."""
    return ScheduleEntry(**{"due": None, **_known(ScheduleEntry, data)})


def answer(data: Mapping[str, Any]) -> Answer:
    """What came back."""
    return Answer(**_known(Answer, data))


def _known(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a value; a newer server may say more."""
    return {one.name: data[one.name] for one in fields(kind) if one.name in data}


# What a remote crib has values of its own for


class Listed(NamedTuple):
    """A session of a list. `open` says that the server has it in memory; `waiting` and `running` count its calls."""

    id: str
    owner: str
    seq: int
    created_at: float
    updated_at: float
    open: bool
    waiting: int
    running: int
    agent: str | None = None
    next: str | None = None
    """Where the list goes on, in the last session of a page."""


def listed(data: Mapping[str, Any]) -> Listed:
    """A session of a list."""
    shared = {name: data[name] for name in ("id", "owner", "seq", "open", "waiting", "running")}
    return Listed(**shared, created_at=data["created"], updated_at=data["touched"], agent=data.get("agent"))


class Inbox(NamedTuple):
    """That a question came up, or is gone."""

    kind: Literal["asked", "gone"]
    id: str
    question: Question | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """What a server tells of a tool, under the names of `Tool`; the schemas are there where one tool was asked for."""

    id: str
    name: str
    namespace: str
    description: str
    does: Effect
    source: str
    trusted: bool
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    annotations: Annotations | None = None
    capabilities: tuple[str, ...] = ()
    background: bool = False
    changed: tuple[str, ...] = ()
    model_name: str | None = None
    run_by: str | None = None
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None


def tool(data: Mapping[str, Any]) -> RemoteTool:
    """Decode a tool."""
    fields = _known(RemoteTool, data) | {"does": data["effect"]}
    for name in ("tags", "capabilities", "changed"):
        fields[name] = tuple(fields.get(name, ()))
    if fields.get("annotations") is not None:
        fields["annotations"] = Annotations(**fields["annotations"])
    return RemoteTool(**fields)


class Why:
    """A verdict, and what led to it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        from toolcrib.policy.approvers import demand

        verdict = dict(data["verdict"])
        verdict["detail"] = tuple(verdict.get("detail", ()))
        verdict["demands"] = tuple(demand(one) for one in verdict.get("demands", ()))
        self.verdict = Verdict(**verdict)
        self._lines = list(data["lines"])
        self._data = {name: value for name, value in data.items() if name != "lines"}

    def lines(self) -> list[str]:
        """What it says to people."""
        return self._lines

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        return self._data

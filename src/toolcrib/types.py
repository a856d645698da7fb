"""The contract: every noun of Toolcrib as a value. Nothing here runs anything."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from toolcrib.limits import CribLimits as CribLimits
from toolcrib.limits import Limits as Limits
from toolcrib.limits import pace as pace
from toolcrib.media import BLOCKS, Media, block_type, encoded, guessed_type, joined, media_of

Effect = Literal["read", "idempotent", "once"]
Wake = Literal["wake", "next_turn", "silent"]
Kind = Literal["confirm", "input", "client", "external"]
Resume = Literal["run", "use", "pass", "pass_any"]
Status = Literal[
    "queued", "waiting", "running", "streaming", "succeeded", "failed", "cancelled", "timed_out", "unknown"
]

CODES = (
    "not_found",
    "invalid_arguments",
    "denied",
    "declined",
    "timeout",
    "cancelled",
    "failed",
    "unavailable",
    "rate_limited",
    "too_large",
    "unknown",
    "internal",
)
RETRYABLE = frozenset({"invalid_arguments", "unavailable", "rate_limited", "too_large"})


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a tool says about itself; each is false unless said."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    requires_confirmation: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """One use of a tool that is known to work."""

    arguments: Mapping[str, Any]
    title: str = ""
    result: Any = None


@dataclass(frozen=True, slots=True)
class AntiPattern:
    """A usual mistake: when `match` is found in the message of a failure, `hint` is given to the model."""

    match: str
    hint: str


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What an expert knows about a tool.

    `hint` gives advice on a failure by its code, message and metadata; `help` what there is to know of a topic.
    """

    examples: tuple[Example, ...] = ()
    anti_patterns: tuple[AntiPattern, ...] = ()
    hint: Callable[[str, str, Mapping[str, Any]], str | None] | None = None
    help: Callable[[str | None], str] | None = None


class By(NamedTuple):
    """Who asked for a call."""

    kind: Literal["user", "agent", "tool", "client"] = "user"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One accepted use of a tool."""

    id: str
    session: str
    tool: str
    args: Any
    by: By = By()
    label: str = ""
    digest: str = ""
    provider_id: str | None = None
    run: str | None = None
    parent: str | None = None
    background: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call did not succeed: a stable code, a message for the model, whether to try again, and a hint.

    `reason` is the tool's own code, such as `INSUFFICIENT_FUNDS`, where it has one.
    """

    code: str
    message: str
    retryable: bool = False
    hint: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return f"{self.line}\nHint: {self.hint}" if self.hint else self.line

    @property
    def line(self) -> str:
        """What it says without the hint."""
        text = f"[{self.code}] {self.message}"
        return text if self.reason is None or self.reason in self.message else f"{text} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of session state."""

    op: Literal["set", "merge", "append", "add", "delete"]
    key: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Handover:
    """The wish of a tool that another agent goes on."""

    to: str
    reason: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SideEffect:
    """Something that a tool brought about, for whoever follows the log: written with the end of its call."""

    type: str
    data: Any = None


Missed = Literal["skip", "once", "all"]
ALL_MISSED = 100
"""How many missed runs are made at the most, unless said."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A call to be made later: `after` so many seconds, `at` a time, `when` a call ends, or again and again by `cron`.

    Without any of them it is made at once. Times are seconds since 1970 or a `datetime`; a cron expression goes by
    `timezone`. `missed` says what becomes of runs that nothing was there to make: `skip` leaves them out, `once` makes
    one call for all of them, `all` makes each, the last `limit` at the most.

    Raises:
        ValueError: more than one time is given, or one that is none.
    """

    tool: str
    args: Any = None
    after: float | timedelta | None = None
    at: float | datetime | None = None
    when: str | None = None
    cron: str | None = None
    timezone: str = "UTC"
    missed: Missed = "once"
    limit: int = ALL_MISSED
    label: str = ""

    def __post_init__(self) -> None:
        times = {name: getattr(self, name) for name in ("after", "at", "when", "cron")}
        if len(kinds := [name for name, value in times.items() if value is not None]) > 1:
            raise ValueError(f"a schedule has one time, not {' and '.join(kinds)}")
        if self.missed not in get_args(Missed):
            raise ValueError(f"missed: {self.missed!r} is none of {', '.join(get_args(Missed))}")
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"limit: {self.limit!r} is not within 1 to 1000")
        if self.limit != ALL_MISSED and self.missed != "all":
            raise ValueError(f"limit: only `missed: all` makes several calls, and it says '{self.missed}'")
        if self.timezone != "UTC" and self.cron is None:
            raise ValueError("timezone: only a cron expression goes by one")
        if self.after is not None and not 0 <= self.delay_s < LONGEST_S:
            raise ValueError(f"after: {self.after!r} is no number of seconds from 0 to {LONGEST_S:g}")
        if isinstance(self.at, datetime) and self.at.tzinfo is None:
            raise ValueError("at: a time of day says nothing without its time zone")

    @property
    def delay_s(self) -> float:
        """How many seconds it waits, where it waits for a number of them."""
        return self.after.total_seconds() if isinstance(self.after, timedelta) else self.after or 0.0


LONGEST_S = 100 * 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A call that waits for its time. `id` names the schedule, and `call` the call that comes next.

    Both are the same until a cron expression has made its first call.
    """

    id: str
    call: str
    session: str
    tool: str
    args: Any
    due: float | None
    when: str | None = None
    cron: str | None = None
    timezone: str = "UTC"
    missed: Missed = "once"
    limit: int = 100
    label: str = ""


class Block(dict[str, Any]):
    """One piece of content, tagged by `type`; a tool that returns blocks returns content."""

    __slots__ = ()


def block(type: str, audience: tuple[str, ...] | None = None, **fields: Any) -> Block:
    """A block: text{text}, image, audio, video, file{data, mime_type, name}, json{value}, resource and link{uri, ...}.

    The data of a file may be bytes. Its media type is guessed from them where none is given.
    """
    present = {name: value for name, value in fields.items() if value is not None}
    values = {name: encoded(value) if isinstance(value, bytes) else value for name, value in present.items()}
    if type in BLOCKS and isinstance(fields.get("data"), bytes):
        values.setdefault("mime_type", guessed_type(fields["data"]))
    return Block(type=type, **values) if audience is None else Block(type=type, audience=list(audience), **values)


def content_of(data: bytes) -> Block | str:
    """Bytes that a tool returned: their text where they are UTF-8, else a file of the type that they begin like."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return block(block_type(guessed_type(data)), data=data)


class ResultExtras(msgspec.Struct, kw_only=True, eq=False):
    """What few results have: a message on success, effects, and calls to be made later."""

    message: str | None = None
    effects: Sequence[SideEffect | Mapping[str, Any]] = ()
    schedules: Sequence[Schedule | Mapping[str, Any]] = ()
    planned: tuple[Any, ...] = ()
    """What the runtime writes for the schedules."""
    encoded: bytes | None = None
    """The JSON text of the data, where it is known."""


class Result(ResultExtras, eq=False):
    """What came out of a call: data or a failure, blocks, state changes, a handover, metadata.

    `message` says to model and people what was done. State changes, `effects` and `schedules`, calls to be made later,
    are written with the end of the call, in one commit, also where it failed. They may be plain mappings as well.
    """

    data: Any = None
    content: Sequence[Mapping[str, Any]] = ()
    failure: Failure | None = None
    changes: Sequence[Change | Mapping[str, Any]] = ()
    handover: Handover | None = None
    metadata: Mapping[str, Any] = {}

    def but(self, **parts: Any) -> Result:
        """Return a copy with other parts."""
        if "data" in parts:
            parts.setdefault("encoded", None)
        return msgspec.structs.replace(self, **parts)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.failure is None

    @property
    def json(self) -> bytes:
        """The JSON text of the data."""
        if self.encoded is None:
            self.encoded = _compact(self.data).encode()
        return self.encoded

    @property
    def text(self) -> str:
        """What the model reads, with placeholders for files."""
        if type(self.data) is dict and not (self.failure or self.content or self.message or self.metadata):
            return _compact(self.data)  # as most are
        return self._head() + self._body()

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """What the model reads where there are files in it, in order; nothing where `text` is all."""
        parts = tuple(map(_part, self._shown())) if self.failure is None and self.content else ()
        if not parts or not any(isinstance(part, Media) for part in parts):
            return ()
        return (*filter(None, (self._head().rstrip("\n"), self.message)), *parts)

    def _head(self) -> str:
        edited = self.metadata.get("edited")
        return f"Arguments were changed before running: {_compact(edited)}\n" if edited else ""

    def _shown(self) -> list[Mapping[str, Any]]:
        return [b for b in self.content if "model" in (b.get("audience") or ("model",))]

    def _body(self) -> str:
        if self.failure is not None:
            return str(self.failure)
        text, message = self._output(), self.message
        if message is None:
            return "(no output)" if text is None else text
        return f"{message}\n{text}" if text else message

    def _output(self) -> str | None:
        shown = self._shown()
        if shown:
            return joined(map(_part, shown))
        data = self.data
        if data is None:
            return None
        return data if isinstance(data, str) else _compact(data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return self._parts() == other._parts()

    def _parts(self) -> tuple[Any, ...]:
        extras = (self.message, effects_of(self), schedules_of(self), self.planned)
        rest = (changes_of(self), self.handover, dict(self.metadata))
        return (self.data, list(self.content), self.failure, *rest, *extras)

    __hash__ = None  # type: ignore[assignment]  # results hold JSON, which is not hashable

    def __repr__(self) -> str:
        return f"Result(ok, {self.data!r})" if self.failure is None else f"Result({self.failure})"


def changes_of(result: Result) -> list[Change]:
    """Return the state changes of a result, whichever way they are written."""
    return [Change(**change) if isinstance(change, Mapping) else change for change in result.changes]


def effects_of(result: Result) -> list[SideEffect]:
    """Return the effects of a result, whichever way they are written."""
    return [SideEffect(**effect) if isinstance(effect, Mapping) else effect for effect in result.effects]


def schedules_of(result: Result) -> list[Schedule]:
    """Return the calls that a result wants to be made later, whichever way they are written."""
    return [Schedule(**call) if isinstance(call, Mapping) else call for call in result.schedules]


def _part(block: Mapping[str, Any]) -> str | Media:
    """A block as the model reads it: text, JSON and files as they are, everything else as the JSON of the block."""
    media = media_of(block)
    if media is not None:
        return media
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    return _compact(block["value"] if block.get("type") == "json" and "value" in block else block)


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Question:
    """What a waiting call waits for.

    `demands` tell who has to agree, where rules say so; `approved_by` who did so far. Since it was `escalated`, more
    people may.
    """

    id: str
    call: str
    tool: str
    kind: Kind
    prompt: str
    key: str
    arguments: Mapping[str, Any]
    schema: Mapping[str, Any] | None
    resume: Resume
    digest: str
    asked_at: float
    expires_at: float
    path: tuple[str, ...] = ()
    offer: str | None = None
    data: Any = None
    session: str = ""
    demands: tuple[Mapping[str, Any], ...] = ()
    approved_by: tuple[str, ...] = ()
    escalated: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: bound to its question, given by `actor`, recognised again by `key`."""

    question: str
    action: Literal["accept", "decline", "cancel", "fail"]
    actor: str
    key: str
    value: Any = None
    arguments: Mapping[str, Any] | None = None
    reason: str | None = None
    scope: Literal["once", "session"] = "once"
    at: float = 0.0

    @property
    def accepted(self) -> bool:
        """Whether it says yes."""
        return self.action == "accept"


@dataclass(frozen=True, slots=True)
class Entry:
    """A call as the lists of a session show it."""

    id: str
    tool: str
    label: str
    status: Status
    background: bool
    provider_id: str | None
    accepted_at: float
    started_at: float | None
    done_at: float | None
    seq: int
    result: Result | None = None


class Closed(NamedTuple):
    """What `close` found."""

    finished: int
    timed_out: int
    waiting: int
    undelivered: int


Layer = Callable[[Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""A wrapper around execute: `(context, go_on)`; what it returns is the tool's value."""

Credentials = Callable[[str, str], Awaitable[str | None] | str | None]
"""What an owner brings to tools: `(owner, name)` to a key or token, or None."""

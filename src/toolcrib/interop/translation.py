"""Our nouns as every other system needs them: a call that is asked for, a failure, and the log event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolcrib._call.history import History, by_of, result
from toolcrib.errors import BadTool
from toolcrib.events import Event
from toolcrib.store.codec import encode
from toolcrib.tool import EMPTY_SCHEMA
from toolcrib.types import CODES, RETRYABLE, Failure, Question, Result


class RequestedCall(NamedTuple):
    """A call that another system asks for: what `session.submit` takes.

    `requested` is what the caller claims to need. It is for the record and gives no right.
    """

    tool: str
    args: Any
    provider_id: str
    requested: tuple[str, ...] = ()


def bare(id: str) -> str:
    """The name of a tool without its namespace, as the other systems have it."""
    return id.partition(".")[2] or id


def described(description: str, *others: str | None) -> str:
    """A description that is not blank: ours must say something."""
    return next((words for words in (description, *others) if words and words.strip()), "")


def schema(name: str, value: Any) -> dict[str, Any]:
    """The schema of a tool's arguments; null means that it takes none, and one without a type is of an object.

    Raises:
        BadTool: it is no schema of an object.
    """
    if value is None:
        return dict(EMPTY_SCHEMA)
    if not isinstance(value, Mapping):
        raise BadTool(name, "input_schema", "is no object")
    return dict(value) if "type" in value else {"type": "object", **value}


def failing(code: str, message: str, **more: Any) -> Failure:
    """A failure of ours; a code that we do not know is the reason of `failed`."""
    known = code if code in CODES else "failed"
    reason = {} if known == code else {"reason": code}
    return Failure(known, message, **{"retryable": known in RETRYABLE, **reason, **more})


def error_part(failure: Failure) -> dict[str, Any]:
    """A failure as data, for forms that have no place for it."""
    return {"error": {"code": own_code(failure), "message": failure.message}}


def own_code(failure: Failure) -> str:
    """The code of a failure for systems that have one: the tool's own where it is all that `failed` would say."""
    return failure.reason if failure.code == "failed" and failure.reason is not None else failure.code


def read_error_part(data: Any) -> tuple[str, str] | None:
    """Code and message of data that stands for a failure."""
    inner = data.get("error") if isinstance(data, Mapping) and len(data) == 1 else None
    if not isinstance(inner, Mapping) or set(inner) != {"code", "message"}:
        return None
    code, message = inner["code"], inner["message"]
    return (code, message) if isinstance(code, str) and isinstance(message, str) else None


@dataclass(frozen=True, slots=True)
class EventContext:
    """One event of the log with what the log had said before: its call, and the question that was open."""

    event: Event
    history: History
    question: Question | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The data of the event."""
        return self.event.fields

    @property
    def call(self) -> str:
        """The id of the call."""
        return self.event.call or ""

    @property
    def name(self) -> str:
        """The name of the tool."""
        return bare(self.history.accepted.tool)

    @property
    def agent(self) -> str:
        """The agent that asked for the call, or nobody."""
        accepted = self.history.accepted
        by = by_of(accepted)
        return accepted.agent or (by.name if by.kind == "agent" else "")

    @property
    def result(self) -> Result:
        """The result that a `done` holds."""
        return result(self.event.data)


Writer = Callable[[EventContext], list[dict[str, Any]]]


class LogReader:
    """A log as far as it was read. What it does not know the beginning of is passed over."""

    def __init__(self, session: str = "") -> None:
        self.session = session
        self._calls: dict[str, History] = {}

    def advance(self, event: Event) -> EventContext | None:
        """Takes the next event."""
        if event.call is None:
            return EventContext(event, self._calls.get(event.fields.get("call", ""), History(self.session)))
        if event.kind == "accepted":
            self._calls[event.call] = History(self.session)
        elif event.call not in self._calls or event.kind == "settled":
            return None  # the others' forms end a call once, and so did the `done` before
        history = self._calls[event.call]
        if event.kind == "answered" and event.fields["question"] not in history.questions:
            return None
        question = history.question
        history.advance(event)
        return EventContext(event, history, question)

    def written(self, event: Event, writers: Mapping[str, Writer]) -> list[dict[str, Any]]:
        """An event as the writer of its kind says it, and the handover that a `done` carries."""
        moment = self.advance(event)
        if moment is None or (event.kind == "handover" and _hands_over(moment.history)):
            return []  # a handover of its own repeats what the `done` of its call has said
        write = writers.get(event.kind)
        made = [] if write is None else write(moment)
        return made + _handover(moment, writers)


def _hands_over(history: History) -> bool:
    return history.done is not None and history.done.handover is not None


def _handover(moment: EventContext, writers: Mapping[str, Writer]) -> list[dict[str, Any]]:
    event = moment.event
    if event.kind != "done" or "handover" not in event.fields or "handover" not in writers:
        return []
    data = {"from": moment.agent, **event.fields["handover"], "call": event.call}
    return writers["handover"](EventContext(Event(event.seq, event.at, None, "handover", encode(data)), moment.history))


def replay(events: Iterable[Event], writers: Mapping[str, Writer], session: str = "") -> list[dict[str, Any]]:
    """A whole log in another form."""
    reading = LogReader(session)
    return [made for event in events for made in reading.written(event, writers)]

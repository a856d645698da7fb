"""What the log says of one call, so that it can go on in another process: a fold of its events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.events import Event
from toolcrib.store.codec import encode
from toolcrib.types import Answer, By, Call, Change, Entry, Failure, Handover, Question, Result, Status

_ENDED: dict[str, Status] = {"cancelled": "cancelled", "timeout": "timed_out", "unknown": "unknown"}


class History:
    """One call as its events tell it. `advance` takes them in order."""

    def __init__(self, session: str, events: Iterable[Event] = ()) -> None:
        self.session = session
        self.id = ""
        self.accepted: dict[str, Any] = {}
        self.accepted_at = 0.0
        self.started: dict[str, Any] | None = None
        self.started_at: float | None = None
        self.question: Question | None = None
        self.questions: dict[str, Question] = {}
        self.answers: dict[str, Answer] = {}
        self.endorsements: list[Answer] = []
        self.steps: dict[str, dict[str, Any]] = {}
        self.outputs = 0
        self.last_output: Any = None
        self.paused: list[str] | None = None
        self.done: dict[str, Any] | None = None
        self.done_at: float | None = None
        self.seq = 0
        for event in events:
            self.advance(event)

    def advance(self, event: Event) -> None:
        """Takes the next event of the call."""
        self.seq = event.seq
        take = getattr(self, f"_{event.kind}", None)
        if take is not None:
            take(event)

    def _accepted(self, event: Event) -> None:
        self.id = event.call or ""
        self.accepted, self.accepted_at = event.fields, event.at

    def _waiting(self, event: Event) -> None:
        self.question = question(event.fields["question"])
        self.questions[self.question.id] = self.question

    def _answered(self, event: Event) -> None:
        self.question = None
        self._anew()
        self.take(_answer(event))

    def _endorsed(self, event: Event) -> None:
        """One of several who have to agree said yes."""
        given = _answer(event)
        self.endorsements.append(given)
        before = self.questions[given.question].approved_by
        if given.actor not in before:
            self._asks(given.question, approved_by=(*before, given.actor))

    def _escalated(self, event: Event) -> None:
        """Others are asked as well, by each demand whose time has come."""
        asked = self.questions[event.fields["question"]]
        self._asks(asked.id, escalated=True, demands=escalated(asked, event.at))

    def _asks(self, question: str, **news: Any) -> None:
        """What is new about a question that is still open."""
        self.question = self.questions[question] = replace(self.questions[question], **news)

    def take(self, answer: Answer) -> None:
        """Takes an answer that was given just now."""
        self.answers[self.questions[answer.question].key] = answer

    def answer(self, question: str) -> Answer | None:
        """What was answered to that very question."""
        found = self.answers.get(self.questions[question].key)
        return found if found is not None and found.question == question else None

    @property
    def edit(self) -> Answer | None:
        """The last answer that changed the arguments."""
        return next((answer for answer in reversed(self.answers.values()) if answer.arguments is not None), None)

    def _started(self, event: Event) -> None:
        self.started = event.fields
        self.started_at = event.at if self.started_at is None else self.started_at
        self._anew()
        self.paused = None

    def _anew(self) -> None:
        """Its body runs from its start, and puts out all again."""
        self.outputs, self.last_output = 0, None

    def _paused(self, event: Event) -> None:
        """It waits for calls that it made and that wait for somebody."""
        self.paused = event.fields["children"]

    def _output(self, event: Event) -> None:
        self.outputs += 1
        self.last_output = event.fields.get("delta", event.fields.get("value"))

    def _step(self, event: Event) -> None:
        self.steps[event.fields["key"]] = event.fields

    def _done(self, event: Event) -> None:
        self.done, self.done_at = event.fields, event.at
        self.question = self.paused = None

    def _settled(self, event: Event) -> None:
        """It had ended `unknown`, and whoever ran it has brought its outcome after all."""
        self._done(event)

    @property
    def args(self) -> bytes:
        """The arguments to run with: as edited by the last approver, else as accepted."""
        return encode(self.accepted.get("args") if self.edit is None else self.edit.arguments)

    @property
    def edited(self) -> dict[str, Any] | None:
        """What an approver changed."""
        if self.edit is None:
            return None
        now, before = self.edit.arguments or {}, self.questions[self.edit.question].arguments
        changed = {name: value for name, value in now.items() if name not in before or before[name] != value}
        return changed | {name: None for name in before if name not in now}

    @property
    def status(self) -> Status:
        """Where it stands."""
        if self.done is not None:
            return "succeeded" if self.done["ok"] else _ENDED.get(self.done["failure"]["code"], "failed")
        if self.question is not None or self.paused is not None:
            return "waiting"
        if self.started is None:
            return "queued"
        return "streaming" if self.outputs else "running"

    @property
    def list(self) -> str:
        """Which of the three lists it is in."""
        if self.done is not None:
            return "completed"
        return "unresolved" if self.started is None else "ongoing"

    def entry(self) -> Entry:
        """As the lists show it."""
        return Entry(
            id=self.id,
            tool=self.accepted["tool"],
            label=self.accepted["label"],
            status=self.status,
            background=self.accepted.get("background", False),
            provider_id=self.accepted.get("provider_id"),
            accepted_at=self.accepted_at,
            started_at=self.started_at,
            done_at=self.done_at,
            seq=self.seq,
            result=None if self.done is None else result(self.done),
        )

    def call(self) -> Call:
        """As `submit` gave it."""
        said = self.accepted
        return Call(
            id=self.id,
            session=self.session,
            tool=said["tool"],
            args=said.get("args"),
            by=By(**said["by"]),
            label=said["label"],
            digest=said["digest"],
            provider_id=said.get("provider_id"),
            run=said.get("run"),
            parent=said.get("parent"),
            background=said.get("background", False),
        )


def fold(session: str, events: Iterable[Event]) -> dict[str, History]:
    """All calls of a log, in order of acceptance."""
    calls: dict[str, History] = {}
    for event in events:
        if event.call is not None:
            if event.call not in calls:
                calls[event.call] = History(session)
            calls[event.call].advance(event)
    return calls


def _handover(value: Any) -> Handover:
    """A handover as a log tells it; of one in a form that nobody writes only the name counts, which may be nobody's."""
    if not isinstance(value, dict):
        return Handover(str(value))
    return Handover(str(value.get("to", "")), value.get("reason"), value.get("message"))


def result(done: dict[str, Any]) -> Result:
    """The result that a `done` holds."""
    failure = done.get("failure")
    handover = done.get("handover")
    return Result(
        data=done.get("data"),
        content=done.get("content") or (),
        failure=None if failure is None else Failure(**failure),
        changes=[Change(**change) for change in done.get("state", {}).get("changes", ())],
        handover=None if handover is None else _handover(handover),
        metadata=done.get("metadata"),
    )


def question(data: dict[str, Any]) -> Question:
    """The question that a `waiting` holds."""
    return Question(**{**data, "path": tuple(data.get("path", ())), "demands": tuple(data.get("demands", ()))})


def escalated(asked: Question, at: float) -> tuple[Mapping[str, Any], ...]:
    """The demands of a question once that time has come: those that are due wait for nobody any more."""
    return tuple(
        {name: value for name, value in one.items() if name != "escalate_s"}
        if asked.asked_at + one.get("escalate_s", math.inf) <= at
        else one
        for one in asked.demands
    )


def _answer(event: Event) -> Answer:
    given = event.fields
    return Answer(
        question=given["question"],
        action=given["action"],
        actor=given["actor"],
        key=given["key"],
        value=given.get("value"),
        arguments=given.get("args"),
        reason=given.get("reason"),
        scope=given.get("scope", "once"),
        at=event.at,
    )

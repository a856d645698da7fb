"""What the log says of one call, so that it can go on in another process: a fold of its events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.events import (
    UNSET,
    Accepted,
    Answered,
    CallerRecord,
    Done,
    Endorsed,
    Escalated,
    Event,
    EventData,
    Fired,
    Output,
    Paused,
    QuestionRecord,
    Scheduled,
    Started,
    StepTaken,
    Waiting,
)
from toolcrib.store.codec import encode
from toolcrib.types import Answer, By, Call, Entry, Handover, Question, Result, Status

NO_BEGINNING = Accepted("", "", None, CallerRecord("user"), "", "once")
"""Stands for the beginning of a call whose `accepted` the log does not have."""

_ENDED: dict[str, Status] = {"cancelled": "cancelled", "timeout": "timed_out", "unknown": "unknown"}


class History:
    """One call as its events tell it. `advance` takes them in order."""

    def __init__(self, session: str, events: Iterable[Event] = ()) -> None:
        self.session = session
        self.id = ""
        self.accepted = NO_BEGINNING
        self.accepted_at = 0.0
        self.started: Started | None = None
        self.started_at: float | None = None
        self.question: Question | None = None
        self.questions: dict[str, Question] = {}
        self.answers: dict[str, Answer] = {}
        self.edit: Answer | None = None
        self.edit_resolved: list[str] = []
        self.endorsements: list[Answer] = []
        self.steps: dict[str, StepTaken] = {}
        self.outputs = 0
        self.last_output: Any = None
        self.paused: list[str] | None = None
        self.scheduled: Scheduled | None = None
        self.fired = False
        self.rule: str | None = None
        """The rule by which somebody was asked."""
        self.done: Done | None = None
        self.done_at: float | None = None
        self.seq = 0
        for event in events:
            self.advance(event)

    def advance(self, event: Event) -> None:
        """Takes the next event of the call."""
        self.seq = event.seq
        match event.data:
            case Accepted() as data:
                self.id = event.call or ""
                self.accepted, self.accepted_at = data, event.at
            case Waiting() as data:
                self.question = question(data.question)
                self.questions[self.question.id] = self.question
                self.rule = self.rule if data.verdict is None else data.verdict.rule or self.rule
            case Endorsed() as data:
                self._endorse(_answer(data, event.at))
            case Answered() as data:
                self.question = None
                self._anew()
                self.take(_answer(data, event.at), data.resolved)
            case Started() as data:
                self._start(data, event.at)
            case Done() as data:  # also `Settled`: it had ended `unknown`, and its outcome is known after all
                self.done, self.done_at = data, event.at
                self.question = self.paused = None
            case data:
                self._go_on(data, event.at)

    def _go_on(self, data: EventData, at: float) -> None:
        """Takes what happens between the beginning of a call and its end."""
        match data:
            case Escalated():
                self._escalate(data.question, at)
            case Paused():
                self.paused = data.children
            case Scheduled():
                self.scheduled = data
            case Fired():
                self.fired = True
            case Output():
                self.outputs += 1
                self.last_output = output_of(data)
            case StepTaken():
                self.steps[data.key] = data

    def _endorse(self, answer: Answer) -> None:
        """One of several who have to agree said yes."""
        self.endorsements.append(answer)
        before = self.questions[answer.question].approved_by
        if answer.actor not in before:
            self._asks(answer.question, approved_by=(*before, answer.actor))

    def _escalate(self, id: str, at: float) -> None:
        """Others are asked as well, by each demand whose time has come."""
        question = self.questions[id]
        self._asks(question.id, escalated=True, demands=escalated(question, at))

    def _asks(self, question: str, **news: Any) -> None:
        """What is new about a question that is still open."""
        self.question = self.questions[question] = replace(self.questions[question], **news)

    def take(self, answer: Answer, resolved: Iterable[str] | None = None) -> None:
        """Takes an answer that was given just now, with what the arguments come down to that it changed."""
        self.answers[self.questions[answer.question].key] = answer
        if answer.arguments is not None:
            self.edit, self.edit_resolved = answer, list(resolved or ())

    def answer(self, question: str) -> Answer | None:
        """What was answered to that very question."""
        answer = self.answers.get(self.questions[question].key)
        return answer if answer is not None and answer.question == question else None

    def _start(self, data: Started, at: float) -> None:
        self.started = data
        self.started_at = at if self.started_at is None else self.started_at
        self._anew()
        self.paused = None

    def _anew(self) -> None:
        """Its body runs from its start, and puts out all again."""
        self.outputs, self.last_output = 0, None

    @property
    def args(self) -> bytes:
        """The arguments to run with: as edited by the last approver, else as accepted."""
        return encode(self.accepted.args if self.edit is None else self.edit.arguments)

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
            failure = self.done.failure
            return "succeeded" if self.done.ok or failure is None else _ENDED.get(failure.code, "failed")
        if self.question is not None or self.paused is not None or self.awaits_time:
            return "waiting"
        if self.started is None:
            return "queued"
        return "streaming" if self.outputs else "running"

    @property
    def awaits_time(self) -> bool:
        """True if its time has not come yet."""
        return self.scheduled is not None and not self.fired and self.done is None

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
            tool=self.accepted.tool,
            label=self.accepted.label,
            status=self.status,
            background=bool(self.accepted.background),
            provider_id=self.accepted.provider_id,
            accepted_at=self.accepted_at,
            started_at=self.started_at,
            done_at=self.done_at,
            seq=self.seq,
            result=None if self.done is None else result(self.done),
        )

    def call(self) -> Call:
        """As `submit` gave it."""
        accepted = self.accepted
        return Call(
            id=self.id,
            session=self.session,
            tool=accepted.tool,
            args=accepted.args,
            by=by_of(accepted),
            label=accepted.label,
            digest=accepted.digest,
            provider_id=accepted.provider_id,
            run=accepted.run,
            parent=accepted.parent,
            background=bool(accepted.background),
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


def result(done: EventData) -> Result:
    """The result that a `done` or `settled` holds."""
    assert isinstance(done, Done)
    return Result(
        data=None if done.data is UNSET else done.data,
        content=done.content or (),
        failure=done.failure,
        changes=() if done.state is None else done.state.changes,
        handover=None if done.handover is None else _handover(done.handover),
        metadata=done.metadata or {},
        message=done.message,
    )


def question(record: QuestionRecord) -> Question:
    """The question that a `waiting` holds."""
    values = {name: getattr(record, name) for name in record.__struct_fields__ if name not in ("path", "demands")}
    return Question(**values, path=tuple(record.path or ()), demands=tuple(record.demands or ()))


def question_of(event: Event) -> Question:
    """The question of a `waiting` event."""
    assert isinstance(event.data, Waiting)
    return question(event.data.question)


def output_of(data: Output) -> Any:
    """The text or the value of an output."""
    return data.delta if data.delta is not None else None if data.value is UNSET else data.value


def by_of(accepted: Accepted) -> By:
    """Who asked for a call."""
    by: Any = accepted.by  # an odd log may say nothing of it
    return By() if by is None else By(by.kind, by.name)


def escalated(question: Question, at: float) -> tuple[Mapping[str, Any], ...]:
    """The demands of a question once that time has come: those that are due wait for nobody any more."""
    return tuple(
        {name: value for name, value in one.items() if name != "escalate_s"}
        if question.asked_at + one.get("escalate_s", math.inf) <= at
        else one
        for one in question.demands
    )


def _answer(data: Answered, at: float) -> Answer:
    return Answer(
        question=data.question,
        action=data.action,
        actor=data.actor,
        key=data.key,
        value=data.value,
        arguments=data.args,
        reason=data.reason,
        scope=data.scope,
        at=at,
    )

"""Events of calls."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET

from toolcrib.events.values import (
    CallerRecord,
    EventData,
    Number,
    QuestionRecord,
    StateRecord,
    StepFailure,
    VerdictRecord,
)
from toolcrib.types import Failure


class Accepted(EventData, frozen=True):
    """A call was accepted.

    Attributes:
        tool: Id of the tool, or the name that was asked for where there is no such tool.
        label: One line for people that says what the call does.
        args: Arguments as they came, with secrets masked; null where they were too large.
        by: Who asked for it.
        digest: Digest of what will run.
        effect: `read`, `idempotent` or `once`.
        provider_id: Id that a model's provider gave the call.
        key: Idempotency key.
        background: Whether it runs in the background; absent where nobody said so.
        wake: What its result does: `wake`, `next_turn` or `silent`.
        turn: Model turn that made it.
        run: Run that made it.
        agent: Agent that made it.
        timeout_s: Timeout that its caller wanted.
        parent: Call that made it.
        within: Tools of the calls that wait for it.
        given: Digest of the arguments that came, where they are secret.
        secret: Whether its arguments are kept apart from the log.
        version: Version of the tool that it was accepted for.
        trace: Span that it was made in, as the header `traceparent` writes it, where calls are traced.
    """

    kind: ClassVar[str] = "accepted"

    tool: str
    label: str
    args: Any
    by: CallerRecord
    digest: str
    effect: Literal["read", "idempotent", "once"]
    background: bool | None = None
    wake: Literal["wake", "next_turn", "silent"] | None = None
    run: str | None = None
    agent: str | None = None
    turn: str | None = None
    provider_id: str | None = None
    key: str | None = None
    timeout_s: Number | None = None
    parent: str | None = None
    within: list[str] | None = None
    given: str | None = None
    secret: bool = False
    version: str | None = None
    trace: str | None = None


class Scheduled(EventData, frozen=True, kw_only=True):
    """A call waits for its time.

    Attributes:
        schedule: Id of the schedule: that of its first call.
        due: When it is to be made; absent where it waits for another call.
        when: Call whose end it waits for.
        cron: Cron expression by which it is made again and again.
        timezone: Time zone of the cron expression.
        missed: What becomes of runs that nothing was there to make: `skip`, `once` or `all`.
        limit: How many missed runs are made at the most.
        parent: Call that scheduled it.
        skipped: When it was due before, where that run was missed and left out.
    """

    kind: ClassVar[str] = "scheduled"

    schedule: str
    due: Number | None = None
    when: str | None = None
    cron: str | None = None
    timezone: str | None = None
    missed: Literal["skip", "once", "all"] = "once"
    limit: int = 100
    parent: str | None = None
    skipped: Number | None = None


class Fired(EventData, frozen=True):
    """The time of a scheduled call has come.

    Attributes:
        schedule: Id of the schedule.
        due: When it was to be made; absent where it waited for another call.
        next: Call that the schedule makes next.
    """

    kind: ClassVar[str] = "fired"

    schedule: str
    due: Number | None = None
    next: str | None = None


class Waiting(EventData, frozen=True):
    """A call waits for an answer.

    Attributes:
        question: What it waits for.
        verdict: What the policy said of the call.
        state: Changes of the session's state that were committed with the question.
    """

    kind: ClassVar[str] = "waiting"

    question: QuestionRecord
    verdict: VerdictRecord | None = None
    state: StateRecord | None = None


class Answered(EventData, frozen=True, kw_only=True):
    """A question was answered.

    Attributes:
        question: Id of the question.
        action: `accept`, `decline`, `cancel` or `fail`.
        actor: Who answered.
        key: How the same answer is recognised when it comes again.
        value: The value that was asked for.
        reason: Why, in the words of whoever answered.
        scope: `once`, or `session` where more calls like this one are allowed.
        args: Arguments that take the place of those in the question.
        resolved: What these come down to: paths after links, hosts, programs.
    """

    kind: ClassVar[str] = "answered"

    question: str
    action: Literal["accept", "decline", "cancel", "fail"]
    actor: str
    key: str
    value: Any = None
    reason: str | None = None
    scope: Literal["once", "session"]
    args: dict[str, Any] | None = None
    resolved: list[str] | None = None


class Endorsed(Answered, frozen=True, kw_only=True):
    """One of several people who have to agree said yes.

    Attributes:
        question: Id of the question.
        action: `accept`.
        actor: Who said yes.
        key: How the same answer is recognised when it comes again.
        value: The value that was asked for.
        reason: Why, in the words of whoever answered.
        scope: `once` or `session`.
        args: Arguments that take the place of those in the question.
        resolved: Absent: no arguments are changed where several have to agree.
    """

    kind: ClassVar[str] = "endorsed"


class Escalated(EventData, frozen=True):
    """More people may approve a call from now on.

    Attributes:
        question: Id of the question.
        to: People and groups that may approve as well.
    """

    kind: ClassVar[str] = "escalated"

    question: str
    to: list[str]


class Started(EventData, frozen=True):
    """The body of a call started.

    Attributes:
        attempt: 1, and more after a crash or an answer.
        args: Arguments that it runs with, with secrets masked.
        digest: Digest of what runs.
        timeout_s: Seconds that it may take.
        verdict: Why it may run.
    """

    kind: ClassVar[str] = "started"

    attempt: int
    args: Any
    digest: str
    timeout_s: Number | None
    verdict: VerdictRecord | None = None


class Progress(EventData, frozen=True):
    """How far a call is.

    Attributes:
        status: `running`, or what the tool says.
        progress: Part that is done, from 0 to 1.
        loaded: How much is done.
        total: How much there is to do.
        message: One line for people.
    """

    kind: ClassVar[str] = "progress"

    status: str
    progress: Number | None = None
    loaded: Number | None = None
    total: Number | None = None
    message: str | None = None


class Output(EventData, frozen=True):
    """A piece of a call's output: a text or a value.

    Attributes:
        delta: Text that continues the output.
        value: A value that stands for itself.
    """

    kind: ClassVar[str] = "output"

    delta: str | None = None
    value: Any = UNSET


class Activity(EventData, frozen=True):
    """What a call shows of its work: a snapshot or a change of it.

    Attributes:
        type: What it is; a snapshot replaces the one before of its type.
        content: The snapshot.
        patch: JSON Patch operations on what is shown.
    """

    kind: ClassVar[str] = "activity"

    type: str
    content: Any = UNSET
    patch: list[dict[str, Any]] | None = None


class StepTaken(EventData, frozen=True):
    """A step of a call ran; later passes of the call take its outcome from here.

    Attributes:
        key: Name of the step within its call.
        value: What it returned.
        kept: Where the value is kept that tells a secret.
        failure: How it failed.
    """

    kind: ClassVar[str] = "step"

    key: str
    value: Any = UNSET
    kept: str | None = None
    failure: StepFailure | None = None


class EffectReported(EventData, frozen=True):
    """A call brought something about, as its tool says; written with its end.

    Attributes:
        type: What it is, in the words of the tool.
        data: What there is to know of it.
    """

    kind: ClassVar[str] = "effect"

    type: str
    data: Any = None


class Paused(EventData, frozen=True):
    """A call waits for calls that it made and that wait for somebody.

    Attributes:
        children: Ids of these calls; the call goes on when one of them ends.
    """

    kind: ClassVar[str] = "paused"

    children: list[str]


class Done(EventData, frozen=True, kw_only=True):
    """A call ended. Each call has one.

    Attributes:
        ok: Whether it succeeded.
        failure: Why it did not.
        verdict: What the policy said, where that is why.
        data: Its result as JSON.
        message: What the tool says of its success.
        content: Blocks of its result.
        handover: Wish that another agent goes on: `{to, reason, message}`.
        metadata: What else there is to know of the result.
        background: Whether it ran in the background.
        wake: What its result does: `wake`, `next_turn` or `silent`.
        duration_ms: Milliseconds that it ran.
        state: Changes of the session's state.
        rule: Rule of the policy that decided about the call, where one did.
    """

    kind: ClassVar[str] = "done"

    ok: bool
    failure: Failure | None = None
    verdict: VerdictRecord | None = None
    data: Any = UNSET
    message: str | None = None
    content: list[dict[str, Any]] | None = None
    handover: Any = None
    metadata: dict[str, Any] | None = None
    background: bool = False
    wake: Literal["wake", "next_turn", "silent"] | None = None
    duration_ms: Number
    state: StateRecord | None = None
    rule: str | None = None


class Settled(Done, frozen=True, kw_only=True):
    """A call that ended `unknown` got its outcome after all; takes the place of its `done`.

    Attributes:
        ok: Whether it succeeded.
        failure: Why it did not.
        verdict: What the policy said, where that is why.
        data: Its result as JSON.
        message: What the tool says of its success.
        content: Blocks of its result.
        handover: Wish that another agent goes on: `{to, reason, message}`.
        metadata: What else there is to know; `settled_by` and `reason` where a person settled it.
        background: Whether it ran in the background.
        wake: What its result does: `wake`, `next_turn` or `silent`.
        duration_ms: Milliseconds that it ran.
        state: Changes of the session's state.
        rule: Rule of the policy that decided about the call, where one did.
    """

    kind: ClassVar[str] = "settled"

"""Events of the runs of agents."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType, field

from toolcrib.events.values import CallRequestRecord, EventData, ModelRequestRecord, Number, PassedHistory


class MessageAdded(EventData, frozen=True, kw_only=True):
    """Somebody said something in a conversation.

    Attributes:
        role: `user`, `assistant`, or `note` for what the model is told by the program.
        content: The text.
        results: Calls in the background whose results the note tells.
        told: How far the output of calls has been told, by call.
        run: Run that it belongs to.
        turn: Turn of the run.
        agent: Agent that said it.
        usage: Tokens of the reply, and their cost where it is known.
        finish: Why the reply ended: `stop`, `calls`, `length`, or the provider's own word.
        asked: How often the model was asked for it, where not once.
        kept: What the provider wants back with it.
        calls: Calls that the model made in it.
        queued: Number of the `message_queued` that it was before.
        key: Idempotency key.
        parts: Texts and files of a message that has files; these are references, and `content` has placeholders.
        request: What the model was asked for it.
    """

    kind: ClassVar[str] = "message"

    role: Literal["user", "assistant", "note"]
    content: str
    results: list[str] | None = None
    told: dict[str, int] | None = None
    run: str | None
    turn: int | None = None
    agent: str | None = None
    usage: dict[str, Number] | None = None
    finish: str | None = None
    asked: int | None = None
    kept: Any = None
    calls: list[CallRequestRecord] | None = None
    queued: int | None = None
    key: str | None = None
    parts: list[dict[str, Any]] | None = None
    request: ModelRequestRecord | None = None


class MessageQueued(EventData, frozen=True):
    """A message came while a run was under way.

    Attributes:
        mode: `followup`, `steer`, `collect` or `interrupt`.
        text: The message.
        key: Idempotency key.
        agent: Agent that is to answer.
        run: Run that it is for.
        id: Id of the message.
        parts: Texts and files of a message that has files.
        model: Model that all agents of its run speak with.
        max_turns: Most turns of each agent in its run.
    """

    kind: ClassVar[str] = "message_queued"

    mode: str
    text: str
    key: str | None = None
    agent: str | None = None
    run: str | None = None
    id: str | None = None
    parts: list[dict[str, Any]] | None = None
    model: str | None = None
    max_turns: int | None = None


class RunStarted(EventData, frozen=True):
    """A run of an agent started.

    Attributes:
        run: Id of the run.
        agent: Agent that begins it.
        origin: Why: `user`, `wake`, `call` or `api`.
        call: Call that the run belongs to.
        definition: Digest of the agent's definition.
        parent: Run that made that call.
        model: Model that all its agents speak with, in place of those of their definitions.
        max_turns: Most turns of each of its agents, in place of those of their definitions.
        trace: Span that it was asked for in, as the header `traceparent` writes it, where runs are traced.
    """

    kind: ClassVar[str] = "run_started"

    run: str
    agent: str
    origin: str
    call: str | None = None
    definition: str | None = None
    parent: str | None = None
    model: str | None = None
    max_turns: int | None = None
    trace: str | None = None


class TurnStarted(EventData, frozen=True):
    """The model is asked.

    Attributes:
        run: Id of the run.
        turn: Number of the turn, from 1.
        agent: Agent that asks.
        model: Name of the model, where it has one.
        last: Whether it is to answer without calling tools.
    """

    kind: ClassVar[str] = "turn_started"

    run: str
    turn: int
    agent: str
    model: str | None
    last: bool = False


class TextStreamed(EventData, frozen=True):
    """A piece of the model's answer while it speaks.

    Attributes:
        run: Id of the run.
        turn: Number of the turn.
        delta: The piece.
    """

    kind: ClassVar[str] = "text"

    run: str
    turn: int
    delta: str


class ReasoningStreamed(EventData, frozen=True):
    """A piece of what the model thinks while it does.

    Attributes:
        run: Id of the run.
        turn: Number of the turn.
        delta: The piece.
    """

    kind: ClassVar[str] = "reasoning"

    run: str
    turn: int
    delta: str


class TurnFinished(EventData, frozen=True):
    """A turn is over, with all calls that it made.

    Attributes:
        run: Id of the run.
        turn: Number of the turn.
        agent: Agent that asked.
        model: Name of the model, where it has one.
        usage: Tokens of the turn, and their cost where it is known.
        finish: Why the reply ended.
        duration_ms: Milliseconds that it took.
    """

    kind: ClassVar[str] = "turn_finished"

    run: str
    turn: int
    agent: str
    model: str | None
    usage: dict[str, Number]
    finish: str
    duration_ms: Number


TRANSFER = "builtin.transfer_to_agent"
"""The tool by which a model hands over."""


class HandedOver(EventData, frozen=True, kw_only=True):
    """Another agent goes on.

    Attributes:
        run: Run that is handed over; absent between runs.
        source: Agent that hands over; `from` in the data of the event.
        to: Agent that goes on.
        reason: Why; `user` where a user chose the agent, `returned` for the way back.
        message: What the other agent is asked.
        call: Call that handed over.
        history: How much of the conversation is passed on.
        returns: Whether the agent comes back when the other has answered.
        asked: How often the model was asked for the summary, where that is not as usual.
        request: What the model was asked for the summary.
    """

    kind: ClassVar[str] = "handover"

    run: str | None = None
    source: str = field(name="from")
    to: str
    reason: str | UnsetType | None = UNSET
    message: str | UnsetType | None = UNSET
    call: str | None = None
    history: PassedHistory | None = None
    returns: bool = False
    asked: int | None = None
    request: ModelRequestRecord | None = None


class Compacted(EventData, frozen=True):
    """A summary took the place of the oldest part of a conversation, for the model alone.

    Attributes:
        run: Id of the run.
        agent: Agent whose view was compacted.
        from_seq: Number of the first event that is summarised.
        to_seq: Number of the last one.
        summary: The summary.
        asked: How often the model was asked for it, where not once.
        request: What the model was asked for it.
    """

    kind: ClassVar[str] = "compacted"

    run: str
    agent: str
    from_seq: int
    to_seq: int
    summary: str
    asked: int | None = None
    request: ModelRequestRecord | None = None


class RunWaiting(EventData, frozen=True):
    """A run waits for people.

    Attributes:
        run: Id of the run.
        questions: Ids of the questions that it waits for.
    """

    kind: ClassVar[str] = "run_waiting"

    run: str
    questions: list[str]


class RunResumed(EventData, frozen=True):
    """A run goes on.

    Attributes:
        run: Id of the run.
    """

    kind: ClassVar[str] = "run_resumed"

    run: str


class RunFinished(EventData, frozen=True, kw_only=True):
    """A run is over. Each `run_started` has one.

    Attributes:
        run: Id of the run.
        agent: Agent that ran it last.
        reason: `answered`, `stopped`, `failed` or `cancelled`.
        code: Code of the failure, or the limit that was reached.
        detail: More about it.
        answer: What it answered.
        asked: How often the model was asked without the log being told.
        turns: How many turns it took.
        usage: Tokens of the whole run, and their cost where it is known.
        request: What the model was asked last, where it did not reply.
    """

    kind: ClassVar[str] = "run_finished"

    run: str
    agent: str
    reason: str
    code: str | None = None
    detail: str | None = None
    answer: Any = None
    asked: int | None = None
    turns: int
    usage: dict[str, Number]
    request: ModelRequestRecord | None = None

"""What the data of events is made of."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from toolcrib.types import Change

Number = int | float
"""A JSON number; one that was written without a fraction stays so."""


class EventData(Struct, frozen=True, omit_defaults=True, gc=False):
    """The data of an event of one kind; `kind` is the name that stands beside it in the log."""

    # It holds JSON, in which nothing refers to what holds it; so the garbage collector has nothing to look for, and
    # passes over all that a store in memory keeps.

    kind: ClassVar[str] = ""


class CallerRecord(Struct, frozen=True):
    """Who asked for a call.

    Attributes:
        kind: `user`, `agent`, `tool` or `client`.
        name: Name of the agent, id of the tool, or whatever the program calls the user.
    """

    kind: str
    name: str = ""


class DemandRecord(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who has to agree before a call runs.

    Attributes:
        approvers: People and groups that may approve; without it everybody who may answer.
        quorum: How many of them have to say yes.
        escalate_s: Seconds after which `escalate_to` may approve as well.
        escalate_to: People and groups that may approve later.
    """

    approvers: tuple[str, ...] = ()
    quorum: int
    escalate_s: Number | None = None
    escalate_to: tuple[str, ...] = ()


class VerdictRecord(Struct, frozen=True, omit_defaults=True):
    """What the policy said of a call.

    Attributes:
        effect: `allow`, `ask` or `deny`.
        by: What decided: `namespace`, `capability`, `rule`, `default` or `limit`.
        message: Why, for people.
        rule: The rule that decided.
        capability: The capability that decided.
        detail: Every rule that was looked at.
        demands: Who has to agree.
    """

    effect: str
    by: str
    message: str = ""
    rule: str | None = None
    capability: str | None = None
    detail: tuple[str, ...] = ()
    demands: tuple[DemandRecord, ...] = ()


class QuestionRecord(Struct, frozen=True, omit_defaults=True):
    """What a waiting call waits for.

    Attributes:
        id: Id of the question; it begins with the id of its call.
        call: Id of the call.
        session: Id of the session.
        tool: Id of the tool.
        kind: `confirm`, `input`, `client` or `external`.
        prompt: What whoever answers reads.
        key: How the tool recognises the question when it runs again.
        arguments: The final arguments, with defaults filled in.
        schema: JSON Schema of the value that is wanted.
        resume: How the call goes on: `run`, `use`, `pass` or `pass_any`.
        digest: Digest of what is approved.
        path: Agents from the top down to the one that called.
        asked_at: When it was asked, in seconds since 1970.
        expires_at: When it expires, in seconds since 1970.
        offer: Rule that an approval for the whole session would add.
        demands: Who has to agree, where rules say so.
        data: More for whoever answers, as JSON.
    """

    id: str
    call: str
    session: str
    tool: str
    kind: Literal["confirm", "input", "client", "external"]
    prompt: str
    key: str
    arguments: dict[str, Any]
    schema: Any
    resume: Literal["run", "use", "pass", "pass_any"]
    digest: str
    path: list[str]
    asked_at: Number
    expires_at: Number
    offer: str | None = None
    demands: list[dict[str, Any]] | None = None
    data: Any = None


class StepFailure(Struct, frozen=True):
    """How a step failed.

    Attributes:
        code: Code of the failure.
        message: What the model reads.
        retryable: Whether to try again; null leaves that to the code.
        hint: Advice for the model.
        reason: The tool's own code.
    """

    code: str
    message: str
    retryable: bool | None = None
    hint: str | None = None
    reason: str | None = None


class StateRecord(Struct, frozen=True, omit_defaults=True):
    """Changes of the session's state that a call committed.

    Attributes:
        base: Revision that the call started from.
        revision: Revision that it made.
        changes: The changes, in order.
        keys: How each key may be changed.
        run: Run that its run-scoped keys belong to.
    """

    base: int
    revision: int
    changes: list[Change]
    keys: dict[str, Any] | None = None
    run: str | None = None


class CallRequestRecord(Struct, frozen=True, omit_defaults=True):
    """A call that a model made in its message.

    Attributes:
        id: Id that the call has in this log.
        tool: Name of the tool as the model said it.
        args: Arguments as JSON text.
        provider_id: Id that the provider gave the call.
        secret: Whether the arguments are kept apart from the log.
    """

    id: str
    tool: str
    args: str
    provider_id: str | None
    secret: bool = False


class ModelRequestRecord(Struct, frozen=True, omit_defaults=True):
    """What a model was asked: with the events before it, enough to show the request as the model saw it.

    Attributes:
        seq: Number of the last event that it was made of.
        instructions: Digest of the instructions, which are kept beside the log.
        tools: Digest of the tools, which are kept beside the log.
        messages: Digest of the messages that follow the instructions.
        at: When it was asked, in seconds since 1970, where that was not when its turn started.
        files: Which files the model takes, where there were any.
        bare: Whether it was asked again without files, since it refused them.
    """

    seq: int
    instructions: str
    tools: str
    messages: str
    at: Number | None = None
    files: dict[str, Any] | None = None
    bare: bool = False


class PassedHistory(Struct, frozen=True, omit_defaults=True):
    """How much of a conversation a handover passes on.

    Attributes:
        policy: `full`, `none`, `summary` or `{"last": n}`.
        from_seq: Number of the first event that is passed on.
        to_seq: Number of the last one.
        digest: Digest of the messages that are passed on.
        summary: The summary, where that is what is passed on.
    """

    policy: Any
    from_seq: int | None = None
    to_seq: int | None = None
    digest: str | None = None
    summary: str | None = None


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

"""Answers: checked, bound to their question, applied once; then the call goes on in one of three ways, or ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.errors import BadTool, Refused
from toolcrib.history import History
from toolcrib.live import LiveCall
from toolcrib.schema import BadArguments, output_check
from toolcrib.store import Draft, Row, Write
from toolcrib.store.codec import decode, encode
from toolcrib.tools import Tool, canonical
from toolcrib.types import Annotations, Answer, By, Failure, Question, Result

if TYPE_CHECKING:
    from toolcrib.session import Session

ACTIONS = ("accept", "decline", "cancel", "fail")
_USER_NAMES = {"chain_id": "chainId", "is_connected": "isConnected", "ens_name": "ensName"}
_USER_BYTES = 8 * 1024
_SHOWN = (
    "name",
    "description",
    "title",
    "category",
    "tags",
    "input_schema",
    "output_schema",
    "capabilities",
    "effect",
    "annotations",
)


async def answer(  # noqa: PLR0913 - the fields of an answer
    session: Session,
    question: str,
    action: str,
    value: Any = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    reason: str | None = None,
    actor: str | None = None,
    key: str | None = None,
    scope: str = "once",
) -> Answer:
    """Applies an answer, or refuses it and leaves the question open."""
    row, history = await _asked(session, question)
    asked = history.questions[question]
    given = _given(session, asked, action, value, arguments, reason, actor, key, scope)
    first = history.answers.get(asked.key)
    if first is not None and first.question == question:
        return _repeated(first, given)
    if row.state != "waiting" or row.question != question:
        raise Refused("expired", "The question is no longer open: the call has ended", "look at the result of the call")
    if session.pipeline.clock.now() >= asked.expires_at:
        raise Refused("expired", "The question has expired", "call the tool again")
    live = await revive(session, row, history)
    _check(live, asked, given)
    events: list[Draft] = [(given.at, row.id, "answered", _data(given))]
    ending = _ending(live, asked, given)
    if ending is not None:
        await _write_end(session, live, row, events, ending)
    else:
        await _write_on(session, live, row, events, given, asked)
    return given


async def _asked(session: Session, question: str) -> tuple[Row, History]:
    """A question's id begins with the id of its call; a foreign one is as unknown as one that never was."""
    row = await session.crib.store.call(question.rpartition("-")[0])
    if row is None or row.session != session.id:
        raise Refused("not_found", f"No such question: {question}")
    history = await session.history(row)
    if question not in history.questions:
        raise Refused("not_found", f"No such question: {question}")
    return row, history


def _given(  # noqa: PLR0913 - the fields of an answer
    session: Session,
    asked: Question,
    action: str,
    value: Any,
    arguments: Any,
    reason: Any,
    actor: Any,
    key: Any,
    scope: str,
) -> Answer:
    if action not in ACTIONS:
        raise Refused("invalid_arguments", f"'{action}' is no answer", f"use {', '.join(ACTIONS)}")
    if action == "fail" and asked.kind not in ("client", "external"):
        raise Refused("invalid_arguments", "Only client and external questions can fail", "decline it instead")
    if scope not in ("once", "session"):
        raise Refused("invalid_arguments", f"'{scope}' is no scope", "use once or session")
    try:
        value = decode(encode(value))
        arguments = None if arguments is None else decode(encode(arguments))
    except (TypeError, ValueError, RecursionError):
        raise Refused("invalid_arguments", "The answer can not be written as JSON") from None
    now = session.pipeline.clock.now()
    made = key or f"{asked.id}:{actor or session.owner}:{session.crib.new_id()}"
    return Answer(asked.id, action, actor or session.owner, made, value, arguments, reason, scope, now)  # type: ignore[arg-type]


def _repeated(first: Answer, given: Answer) -> Answer:
    same = dataclasses.replace(given, at=first.at)
    if same == first:
        return first
    raise Refused("already_answered", f"The question was answered by {first.actor}", f"the answer was {first.action}")


def _check(live: LiveCall, asked: Question, given: Answer) -> None:
    """What does not fit is refused to the answerer."""
    if given.action != "accept":
        return
    if given.arguments is not None:
        _check_edited(live, asked, given)
    if asked.schema is not None and asked.kind != "confirm":
        problem = output_check(dict(asked.schema))(given.value)
        if problem is not None:
            raise Refused("invalid_arguments", f"The answer does not fit: {problem}", "the question is still open")


def _check_edited(live: LiveCall, asked: Question, given: Answer) -> None:
    if asked.kind != "confirm":
        raise Refused("invalid_arguments", "Only a confirmation can change arguments")
    assert live.tool is not None
    try:
        live.parsed = live.tool.parse(encode(given.arguments))
    except BadArguments as error:
        raise Refused(
            "invalid_arguments", f"The changed arguments do not fit: {error}", "the question is still open"
        ) from None
    failure = live.pipeline.decide(live)
    if failure is not None:
        raise Refused(
            "denied", f"The changed arguments are not allowed: {failure.message}", "the question is still open"
        )


def _data(given: Answer) -> dict[str, Any]:
    data = {
        "question": given.question,
        "action": given.action,
        "value": given.value,
        "args": given.arguments,
        "actor": given.actor,
        "reason": given.reason,
        "key": given.key,
        "scope": given.scope,
    }
    return {name: value for name, value in data.items() if value is not None}


def _ending(live: LiveCall, asked: Question, given: Answer) -> Result | None:
    """The result of a call that ends with its answer; None for one that goes on."""
    if given.action == "decline":
        return Result(failure=live.failure("declined", given.reason or f"Declined by {given.actor}"))
    if given.action == "cancel":
        return Result(failure=live.failure("cancelled", given.reason or f"Cancelled by {given.actor}"))
    if given.action == "fail":
        return Result(failure=live.failure("failed", given.reason or "The client could not do it"))
    if asked.resume == "use":
        return Result(given.value)
    return None


async def _write_end(session: Session, live: LiveCall, row: Row, events: list[Draft], outcome: Result) -> None:
    if not await live.pipeline.end_parked(live, row, outcome, events):
        raise Refused("already_answered", "Somebody else was quicker", "look at the result of the call")


async def _write_on(
    session: Session, live: LiveCall, row: Row, events: list[Draft], given: Answer, asked: Question
) -> None:
    """The call is queued again, durably, and then runs here."""
    queued = row.but(state="queued", expires_at=None)
    conflict = await session.crib.store.commit(Write(session.id, events, queued, ("waiting", row.attempt)))
    if conflict is not None:
        raise Refused("already_answered", "Somebody else was quicker", "look at the result of the call")
    assert live.history is not None
    live.history.answers[asked.key] = given
    live.edited = live.history.edited
    live.row = queued
    await go_on(session, live)


async def revive(session: Session, row: Row, history: History) -> LiveCall:
    """A call of the log as a call in flight again, with the tool of now."""
    said = history.accepted
    store, pipeline = session.crib.store, session.pipeline
    kept = await store.kept(session.id, f"args:{row.id}") if said.get("secret") else None
    live = LiveCall(pipeline, session, said["tool"], kept or history.args, row.id, history.accepted_at)
    live.row, live.history, live.durable = row, history, True
    live.tool_id = said["tool"]
    live.by, live.label = By(**said["by"]), said["label"]
    live.key, live.turn, live.wake = said.get("key"), None, said.get("wake")
    live.background, live.parent_id = said.get("background", False), said.get("parent")
    live.agent, live.run = said.get("agent"), said.get("run")
    live.edited = history.edited
    live.announce = history.started is None
    live.started_at = history.started_at or 0.0
    if pipeline.find(live) is None:
        pipeline.validate(live)
    return live


async def go_on(session: Session, live: LiveCall) -> None:
    """Lets a revived call run: what it needs is looked at again, and an approval holds only for what was approved."""
    pipeline = session.pipeline
    failure = pipeline.find(live) or pipeline.authorize(live) or pipeline.validate(live)
    if failure is None:
        pipeline.decide(live)
        if live.verdict is not None and live.verdict.effect == "deny":
            failure = live.failure("denied", live.verdict.message or "Not allowed")
        failure = failure or _unapproved(live)
    if failure is not None:
        await pipeline.conclude(live, Result(failure=failure))
        return
    session.live[live.id] = live
    if pipeline.scheduler.enter(live):
        pipeline.start(live)


def _unapproved(live: LiveCall) -> Failure | None:
    """A tool that changed since somebody said yes to it."""
    assert live.history is not None
    for asked in live.history.questions.values():
        approved = live.history.answers.get(asked.key)
        bound = asked.kind == "confirm" and approved is not None and approved.arguments is None
        if bound and asked.digest != live.digest():
            return live.failure("denied", "The tool or its arguments changed after the approval")
    return None


async def end_waiting(session: Session, row: Row, failure: Failure) -> bool:
    """Ends a call that nobody answered; whether it still waited."""
    history = await session.history(row)
    live = await revive(session, row, history)
    return await session.pipeline.end_parked(live, row, Result(failure=failure), [])


def offered(given: Tool | Mapping[str, Any]) -> Tool:
    """A tool that the client runs: in the namespace `client`, whatever it says of itself.

    Raises:
        BadTool: it brings something to run, or does not hold.
    """
    if isinstance(given, Tool):
        if given.run is not None:
            raise BadTool(given.name, "run", "a client tool is run by the client", "client")
        given = {name: getattr(given, name) for name in _SHOWN}
    said = given.get("annotations")
    annotations = Annotations(**said) if isinstance(said, Mapping) else said
    fields = {**given, "annotations": annotations, "namespace": "client", "source": "client", "trusted": False}
    made: Tool = Tool(**fields)
    return made


def definition(tool: Tool) -> dict[str, Any]:
    """What the log keeps of a client's tool."""
    shown = {name: getattr(tool, name) for name in _SHOWN}
    if tool.annotations is not None:
        shown["annotations"] = dataclasses.asdict(tool.annotations)
    return {name: value for name, value in shown.items() if value not in (None, ())}


def user_state(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a client says of its user, under one spelling."""
    if len(canonical(dict(given))) > _USER_BYTES:
        raise Refused("too_large", "The user state has more than 8 KB", "send less")
    return {"isConnected": False, **{_USER_NAMES.get(name, name): value for name, value in given.items()}}

"""Answers: checked, bound to their question, applied once; then the call goes on in one of three ways, or ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic_core import to_json

from toolcrib._call import approvals, lifecycle, questions
from toolcrib._call.confirmation import confirm, resolution
from toolcrib._call.credentials import check_connected
from toolcrib._call.history import History, by_of
from toolcrib._call.lifecycle import waits_for_children
from toolcrib._call.live_call import LiveCall
from toolcrib._call.remote import patiently
from toolcrib._call.request import Admitted, CallOptions, CallRequest, Origin, Rejected
from toolcrib.errors import Refused
from toolcrib.events import Answered, Endorsed, Escalated
from toolcrib.schema import BadArguments, output_check
from toolcrib.schema.redaction import MASK, may_be, restored, without
from toolcrib.store import Draft, Row, Write, draft
from toolcrib.store.codec import decode, encode, same_json
from toolcrib.store.vault import SealedValue, secret_id
from toolcrib.tool import Tool, canonical, digest_of
from toolcrib.types import Answer, Failure, Question, Result

if TYPE_CHECKING:
    from toolcrib._call.host import CallHost
    from toolcrib._call.ports import SessionPort

ENDED = "The question is no longer open: the call has ended"
OPEN = "the question is still open"
GONE = "The secret arguments of this call are not in this store: make the call anew"
ACTIONS = ("accept", "decline", "cancel", "fail")
_USER_NAMES = {"chain_id": "chainId", "is_connected": "isConnected", "ens_name": "ensName"}
_USER_BYTES = 8 * 1024


async def answer(  # noqa: PLR0913 - the fields of an answer
    session: SessionPort,
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
    if session.closing:
        raise Refused("unavailable", "Session is closing", "open it again and answer then")
    row, history = await _asked(session, question)
    pending = history.questions[question]
    reply = _given(session, pending, action, value, arguments, reason, actor, key, scope)
    live = await revive(session, row, history)
    if (first := _first(history, reply)) is not None:
        return await _again(session, live, pending, first, reply)
    if row.state != "waiting" or row.question != question:
        raise Refused("expired", ENDED, "look at the result of the call")
    if session.pipeline.clock.now() >= pending.expires_at:
        raise Refused("expired", "The question has expired", "call the tool again")
    await approvals.check(live, pending, reply)
    if reply.action == "accept":
        await check_connected(session.pipeline.accounts, session.owner, pending.data)
    edited = None
    if reply.action == "accept":
        if live.request.problem is not None:
            raise Refused("unavailable", str(live.request.problem), OPEN)
        reply, edited = await _checked(live, pending, reply)
        if not approvals.enough(session, approvals.demands_of(pending), (*pending.approved_by, reply.actor)):
            return await _endorse(session, live, row, reply)
    return await _apply(session, live, row, pending, reply, edited)


async def _apply(
    session: SessionPort, live: LiveCall, row: Row, question: Question, answer: Answer, edited: Admitted | None = None
) -> Answer:
    """Write a checked answer and let the call go on, or end it."""
    if edited is not None:
        live.admit(edited)
    event = _told(Answered, _shown(live, answer))
    if edited is not None:
        event = msgspec.structs.replace(event, resolved=_resolved(live, edited))
    events: list[Draft] = [draft(answer.at, row.id, event)]
    ending = _ending(live, question, answer)
    if ending is not None:
        won = await live.pipeline.end_parked(live, row, ending, events)
    else:
        won = await _write_on(session, live, row, events, answer, edited)
    return answer if won else await _second(session, question.id, answer)


async def _endorse(session: SessionPort, live: LiveCall, row: Row, answer: Answer) -> Answer:
    """Record that one of several approvers has agreed; of two who agree at once, one sees that all have."""
    endorsed = draft(answer.at, row.id, _told(Endorsed, _shown(live, answer)))
    write = lifecycle.endorse(row, [endorsed])
    write.on_late = live.pipeline.later(lambda: _complete(session, live, answer))
    lost = await session.crib.store.commit(write)
    return await (_complete(session, live, answer) if lost is None else _second(session, answer.question, answer))


async def _complete(session: SessionPort, live: LiveCall, answer: Answer) -> Answer:
    """Let the call go on if all approvers have agreed by now."""
    row, history = await _asked(session, answer.question)
    question = history.questions[answer.question]
    waits = row.state == "waiting" and row.question == question.id
    if not waits or not approvals.enough(session, approvals.demands_of(question), question.approved_by):
        return answer
    live.recall(history, row)
    return await _apply(session, live, row, question, answer)


def _first(history: History, answer: Answer) -> Answer | None:
    """Return the earlier answer: of all together or, where several have to agree, of this approver.

    Who agreed may think better of it as long as others have to agree.
    """
    for one in history.endorsements:
        mine = (one.question, one.actor) == (answer.question, answer.actor)
        if mine and (answer.accepted or one.key == answer.key):
            return one
    return history.answer(answer.question)


async def _again(session: SessionPort, live: LiveCall, question: Question, first: Answer, answer: Answer) -> Answer:
    """Take a repeated answer; where a crash came between the last yes and what follows, go on from there."""
    first = _repeated(live, first, answer)
    return await _complete(session, live, first) if first.actor in question.approved_by else first


async def escalate(session: SessionPort, row: Row) -> bool:
    """Ask further approvers where too few agreed in time; return False if the question has expired."""
    history, now = await session._history(row), session.pipeline.clock.now()
    question = history.question
    if question is None or now >= question.expires_at:
        return False
    others, later = approvals.escalation(question, now)
    drafts: list[Draft] = [draft(now, row.id, Escalated(question.id, list(others)))] if others else []
    await session.crib.store.commit(lifecycle.postpone(row, later, drafts))
    if history.endorsements:  # of those who agreed before, some may count for more now
        await _complete(session, await revive(session, row, history), history.endorsements[-1])
    return True


async def _asked(session: SessionPort, question: str) -> tuple[Row, History]:
    """Return the row and history of a question's call, with whose id that of the question begins."""
    row = await session.crib.store.call(question.rpartition("-")[0])
    if row is None or row.session != session.id:
        raise Refused("not_found", f"No such question: {question}")
    history = await session._history(row)
    if question not in history.questions:
        raise Refused("not_found", f"No such question: {question}")
    return row, history


def _given(  # noqa: PLR0913 - the fields of an answer
    session: SessionPort,
    question: Question,
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
    if action == "fail" and question.kind not in ("client", "external"):
        raise Refused("invalid_arguments", "Only client and external questions can fail", "decline it instead")
    if action != "accept" and arguments is not None:
        raise Refused("invalid_arguments", "Only who accepts can change arguments")
    if scope not in ("once", "session"):
        raise Refused("invalid_arguments", f"'{scope}' is no scope", "use once or session")
    if actor is not None and not (isinstance(actor, str) and actor):
        raise Refused("invalid_arguments", f"{actor!r} is nobody's name", "name who answers, or leave it to the owner")
    try:
        value = decode(to_json(value))
        arguments = None if arguments is None else decode(to_json(arguments))
    except (TypeError, ValueError, RecursionError):
        raise Refused("invalid_arguments", "The answer cannot be written as JSON") from None
    now = session.pipeline.clock.now()
    made = key or f"{question.id}:{actor or session.owner}:{session.pipeline.new_id()}"
    return Answer(question.id, action, actor or session.owner, made, value, arguments, reason, scope, now)  # type: ignore[arg-type]


def _repeated(live: LiveCall, first: Answer, answer: Answer) -> Answer:
    """Return the first answer if this one repeats it, or refuse this one."""
    if answer.key == first.key and answer.arguments is not None and first.arguments is not None:
        admission = None if live.tool is None else live.pipeline.admission.explain(_edited(live, answer))
        if isinstance(admission, Admitted):
            answer = dataclasses.replace(answer, arguments=admission.visible())
    if dataclasses.replace(_shown(live, answer), at=first.at) == first or _may_be(live, first, answer):
        return first
    if live.history is not None and first in live.history.endorsements:
        raise Refused("already_answered", f"{first.actor} has agreed already", "others have to agree too")
    raise Refused("already_answered", f"The question was answered by {first.actor}", f"the answer was {first.action}")


def _may_be(live: LiveCall, first: Answer, answer: Answer) -> bool:
    """True if an answer with the key of the first one repeats it, as far as can be told once its secrets are gone."""
    history, row = live.history, live.row
    if row is None or row.state != "done" or history is None or not history.accepted.secret:
        return False
    rest = dataclasses.replace(answer, value=first.value, reason=first.reason, at=first.at)
    return rest == first and may_be([first.value, first.reason], [answer.value, answer.reason])


async def _second(session: SessionPort, question: str, answer: Answer) -> Answer:
    """Handle an answer that came second: it repeats the first one, or is refused."""
    row, history = await _asked(session, question)
    first = _first(history, answer)
    if first is None:
        raise Refused("expired", ENDED, "look at the result of the call")
    return _repeated(await revive(session, row, history), first, answer)


async def _checked(live: LiveCall, question: Question, answer: Answer) -> tuple[Answer, Admitted | None]:
    """Refuse an answer that does not fit; return the call as it may run now if its arguments were edited."""
    edited = None
    if answer.arguments is not None:
        if question.resume != "run":
            raise Refused("invalid_arguments", "Only a confirmation can change arguments", OPEN)
        pipeline = live.pipeline
        admission = await pipeline.admission.admit(_edited(live, answer), pipeline.check_context)
        if isinstance(admission, Rejected):
            raise _unfit(admission)
        edited = admission
        answer = dataclasses.replace(answer, arguments=admission.visible())
        approvals.check_edited(live.session, admission.verdict, answer)
    problem = None if question.schema is None else output_check(dict(question.schema))(answer.value)
    if problem is None and question.resume == "use" and live.tool is not None and live.tool.check_output is not None:
        problem = live.tool.check_output(answer.value)
    if problem is not None:
        raise Refused("invalid_arguments", f"The answer does not fit: {problem}", OPEN)
    return answer, edited


def _edited(live: LiveCall, answer: Answer) -> CallRequest:
    """Return the request with edited arguments; a mask in the place of a secret keeps the secret."""
    if live.tool is None:
        raise Refused("not_found", f"Unknown tool: {live.name}", "answer without changed arguments")
    arguments: Any = answer.arguments
    if live.shown is not None:
        arguments = restored(arguments, decode(live.args))
    return msgspec.structs.replace(live.request, arguments=encode(arguments))


def _unfit(rejected: Rejected) -> Refused:
    """Return the refusal of edited arguments, for whoever edited them."""
    if rejected.verdict is not None:
        return Refused("denied", f"The changed arguments are not allowed: {rejected.failure.message}", OPEN)
    return Refused("invalid_arguments", f"The changed arguments do not fit: {rejected.failure.message}", OPEN)


def _shown(live: LiveCall, answer: Answer) -> Answer:
    """Return an answer as the log may show it: without secrets, but for a value that the tool is to get."""
    if not live.secrets:
        return answer
    question = None if live.history is None else live.history.questions.get(answer.question)
    value = without(live.secrets, answer.value) if question is not None and question.resume == "use" else answer.value
    return dataclasses.replace(answer, value=value, reason=answer.reason and live.masked(answer.reason))


def _told(kind: type[Answered], answer: Answer) -> Answered:
    """Return the answer in the form of its event."""
    return kind(
        question=answer.question,
        action=answer.action,
        actor=answer.actor,
        key=answer.key,
        value=answer.value,
        reason=answer.reason,
        scope=answer.scope,
        args=None if answer.arguments is None else dict(answer.arguments),
    )


def _ending(live: LiveCall, question: Question, answer: Answer) -> Result | None:
    """Return the result of a call that ends with its answer; None for one that goes on."""
    if question.resume == "pass_any":
        return None
    if answer.action == "decline":
        return Result(failure=live.failure("declined", answer.reason or f"Declined by {answer.actor}"))
    if answer.action == "cancel":
        return Result(failure=live.failure("cancelled", answer.reason or f"Cancelled by {answer.actor}"))
    if answer.action == "fail":
        return Result(failure=live.failure("failed", answer.reason or "The client could not do it"))
    if question.resume == "use":
        gone = live.pipeline.admission.permit(live.request)
        return Result(answer.value) if gone is None else Result(failure=gone.failure)
    return None


async def _write_on(
    session: SessionPort, live: LiveCall, row: Row, events: list[Draft], answer: Answer, edited: Admitted | None
) -> bool:
    """Queue the call again, durably, and run it here; return False if it no longer waits."""
    pipeline = live.pipeline
    write = lifecycle.resume(row, pipeline.worker if pipeline.engine is None else None, events)
    if live.shown is not None and answer.arguments is not None:
        write.keeps = (pipeline.vault.sealed(session.id, _kept(row.id, answer), live.args),)
    # Who is told that nobody knows yet, and answers once more, finds this answer.
    write.on_late = pipeline.later(lambda: _answered(session, live, write, answer, edited))
    if await session.crib.store.commit(write) is not None:
        return False
    await _answered(session, live, write, answer, edited)
    return True


async def _answered(
    session: SessionPort, live: LiveCall, resumed: Write, answer: Answer, edited: Admitted | None
) -> None:
    """Let the call go on after its answer was written, here or wherever there is room."""
    assert live.history is not None
    answered = next((data for *_, data in resumed.events if isinstance(data, Answered)), None)
    live.history.take(answer, None if answered is None else answered.resolved)
    await take_on(session, live, resumed, edited)


async def take_on(session: SessionPort, live: LiveCall, resumed: Write, admission: Admitted | None = None) -> None:
    """Run a call that was queued again: here, or where the engine finds room for it."""
    row, engine = resumed.row, live.pipeline.engine
    assert row is not None
    live.stand(row)
    if row.worker is not None or engine is None:
        await go_on(session, live, admission)
    else:
        engine.dispatch(row)


def _kept(call: str, edit: Answer | None) -> str:
    """Return the key under which arguments with a secret are kept: the original ones, or those of the last approver."""
    return secret_id(call, "" if edit is None else edit.key)


async def _secrets(session: SessionPort, row: Row, history: History) -> tuple[bytes | None, SealedValue | None]:
    """Return the arguments of a call that were kept apart from the log, or why they cannot be read here."""
    if not history.accepted.secret and history.edit is None:  # an approver may have put in what was no secret before
        return None, None
    try:
        kept = await session.pipeline.vault.kept(session.id, _kept(row.id, history.edit))
    except SealedValue as error:
        return None, error
    gone = kept is None and row.state != "done" and MASK.encode() in history.args
    return kept, SealedValue(GONE) if gone else None


async def revive(
    session: SessionPort, row: Row, history: History, on_end: Callable[[LiveCall], None] | None = None
) -> LiveCall:
    """Make a call in flight of one of the log, with the current tool; `on_end` is for one that an engine brought."""
    accepted = history.accepted
    await session.crib.registry.prepare(session.owner)  # it may be a tool that only they have
    kept, problem = await _secrets(session, row, history)
    options = CallOptions(
        by=by_of(accepted),
        label=accepted.label,
        key=accepted.key,
        background=bool(accepted.background),
        wake=accepted.wake,
        run=accepted.run,
        agent=accepted.agent,
        timeout_s=accepted.timeout_s,
        trace=accepted.trace,
    )
    parent, within = session.live.get(accepted.parent or ""), tuple(accepted.within or ())
    origin = parent.origin() if parent is not None else Origin(accepted.parent, within, len(within))
    args = kept or history.args
    request = CallRequest(session, row.id, accepted.tool, args, history.accepted_at, options, origin, problem)
    live = LiveCall.revived(session.pipeline.admission.recall(request), row, history, on_end)
    if parent is not None:
        live.adopt(parent)
    return live


async def go_on(session: SessionPort, live: LiveCall, admission: Admitted | Rejected | None = None) -> None:
    """Let a revived call run. It is admitted again, and an approval holds only for what was approved."""
    pipeline = session.pipeline
    if admission is None:
        admission = await pipeline.admission.admit(live.request, pipeline.check_context, history=live.history)
        live.admit(admission)
    if isinstance(admission, Rejected):
        await pipeline.conclude(live, Result(failure=admission.failure, metadata=admission.metadata or {}))
        return
    asks = _still_asks(live, admission)
    if asks is not None:
        await pipeline.park(live, asks)
        return
    session.live[live.id] = live
    if pipeline.scheduler.enter(live):
        pipeline.start(live)


def _still_asks(live: LiveCall, call: Admitted) -> dict[str, Any] | None:
    """Return the question that the current policy and tool ask before the call runs and that nobody answered yet."""
    assert live.history is not None
    if call.verdict.effect == "ask":
        approval = live.history.answers.get(questions.CONFIRM)
        if approval is None:
            return confirm(call)
        if (changed := _changed(live, call, approval)) is not None:
            confirmation = confirm(call)
            return {**confirmation, "prompt": f"{confirmation['prompt']} {changed}"}
    return questions.client(live) if call.tool.run is None else None


def _changed(live: LiveCall, call: Admitted, approval: Answer) -> str | None:
    """Return how a call now resolves to something else than what was approved, asked or edited."""
    assert live.history is not None
    if approval.arguments is not None:
        were = live.history.edit_resolved
    else:
        were = list(dict(live.history.questions[approval.question].data or {}).get("resolved") or ())
    are = _resolved(live, call)
    if were == are:
        return None
    gone, new = [one for one in were if one not in are], [one for one in are if one not in were]
    change = f"{', '.join(gone) or 'nothing'} became {', '.join(new) or 'nothing'}"
    return f"It changed after it was approved: {change}."


def _resolved(live: LiveCall, call: Admitted) -> list[str]:
    """Return the capabilities, paths and addresses that a call resolves to now, without its secrets."""
    resolved: dict[str, Any] = without(live.secrets, resolution(call)) or {}
    return list(resolved.get("resolved") or ())


async def child_before(host: CallHost, name: str, arguments: bytes) -> str | None:
    """Return the id of the child that an earlier pass made here, so that a repeated pass makes none twice."""
    parent = host.live
    session = parent.session

    async def read() -> list[History]:
        rows = await session.crib.store.calls(session.id, parent=parent.id, limit=100_000)
        return [await session._history(row) for row in rows]

    earlier = await host.earlier_children(lambda: patiently(session.crib, read))
    tool = session.tool(name)
    for history in earlier:
        if history.accepted.tool == (name if tool is None else tool.id) and _same(history, tool, arguments):
            earlier.remove(history)
            return history.id
    return None


def _same(history: History, tool: Tool | None, arguments: bytes) -> bool:
    """True if a call had these arguments; secret ones are not compared, since the log does not have them."""
    if history.accepted.secret:
        return True
    if history.accepted.given is not None:  # the tool has shaped them since
        return bool(digest_of(decode(arguments)) == history.accepted.given)
    try:
        read = arguments if tool is None else tool.parse(arguments).json
    except BadArguments:
        read = arguments
    return same_json(read, encode(history.accepted.args))


async def end_waiting(session: SessionPort, row: Row, failure: Failure) -> bool:
    """End a call that nobody answered; return True if it still waited."""
    history = await session._history(row)
    live = await revive(session, row, history)
    if waits_for_children(row):
        # It is taken first, so that the end of a child does not let it go on; its own end comes last.
        write = lifecycle.hold(row, session.pipeline.worker)
        held = write.row or row
        write.on_late = session.pipeline.later(lambda: _end_held(session, live, held, failure))
        if await session.crib.store.commit(write) is not None:
            return False
        return await _end_held(session, live, held, failure)
    return await session.pipeline.end_parked(live, row, Result(failure=failure), [])


async def _end_held(session: SessionPort, live: LiveCall, held: Row, failure: Failure) -> bool:
    await _end_children(session, held)
    live.stand(held)
    return await session.pipeline.end_parked(live, held, Result(failure=failure), [])


async def _end_children(session: SessionPort, row: Row) -> None:
    """End the children that a call waited for."""
    failure = Failure("cancelled", "Cancelled with the call that made it")
    for child in [live for live in session.live.values() if live.parent_id == row.id]:
        child.stop(failure)
        await child.ended()
    for waiting in await session.crib.store.calls(session.id, ("waiting",), parent=row.id, limit=100_000):
        await end_waiting(session, waiting, failure)


def user_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a client says of its user, with the keys in one spelling."""
    if len(canonical(dict(state))) > _USER_BYTES:
        raise Refused("too_large", "The user state has more than 8 KB", "send less")
    return {"isConnected": False, **{_USER_NAMES.get(name, name): value for name, value in state.items()}}

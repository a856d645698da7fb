"""Who may answer a question, and whether enough of them have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from toolcrib._call.history import escalated
from toolcrib._call.live_call import LiveCall
from toolcrib.errors import Refused
from toolcrib.events import Accepted
from toolcrib.policy import Verdict, rules_of
from toolcrib.policy.approvers import ANYBODY, ApprovalRequirement, Approvers, demand
from toolcrib.types import Answer, Question

if TYPE_CHECKING:
    from toolcrib._call.ports import SessionPort


async def check(live: LiveCall, question: Question, answer: Answer) -> None:
    """Raises `Refused` where this actor may not answer: the question stays open."""
    actor, session, demands = answer.actor, live.session, demands_of(question)
    if actor in await _askers(live):
        raise Refused("denied", f"'{actor}' asked for this call and cannot answer for it", "have a person answer")
    counting = [one for one in demands if _counts(actor, one, session)]
    if not counting and not _known(actor, session) and not _people(session).among(actor, _named(demands)):
        raise Refused("denied", f"'{actor}' may not answer questions of this session", "have an approver answer")
    if not answer.accepted:
        return
    if demands and not counting:
        message = f"Only {' or '.join(_named(demands))} may approve this, not '{actor}'"
        raise Refused("denied", message, "the question is still open")
    if answer.arguments is not None and not enough(session, demands, [actor]):
        advice = "decline it, and have it called with other arguments"
        raise Refused("invalid_arguments", "Several people have to approve the same arguments", advice)


async def _askers(live: LiveCall) -> set[str | None]:
    """The agents and tools that made this call, one through the other."""
    assert live.history is not None
    store, call, names = live.session.crib.store, live.history.accepted, set[str | None]()
    while True:
        names |= {call.agent, call.by.name if call.by.kind in ("agent", "tool") else None}
        row = await store.call(call.parent) if call.parent is not None else None
        if row is None:
            return names
        (accepted,) = await store.read(row.session, row.accepted_seq - 1, limit=1)
        assert isinstance(accepted.data, Accepted)
        call = accepted.data


def check_edited(session: SessionPort, verdict: Verdict, answer: Answer) -> None:
    """Raises `Refused` where the new arguments need somebody else's yes than that of who changed them."""
    if not enough(session, verdict.demands, [answer.actor]):
        raise Refused("denied", "The changed arguments have to be approved by others", "the question is still open")


def enough(session: SessionPort, demands: Iterable[ApprovalRequirement], actors: Collection[str]) -> bool:
    """True if all have agreed who have to, as the groups are now."""
    return all(sum(_counts(actor, one, session) for actor in {*actors}) >= one.quorum for one in demands)


def demands_of(question: Question) -> list[ApprovalRequirement]:
    """What rules demand of whoever answers."""
    return [demand(data) for data in question.demands]


def escalates_at(question: Question) -> float | None:
    """When others are to be asked as well, if that is before its end."""
    return _next(question, demands_of(question))


def escalation(question: Question, now: float) -> tuple[list[str], float]:
    """Who is asked as well from now on, and when to look again."""
    before, after = demands_of(question), [demand(data) for data in escalated(question, now)]
    others = {name for was, one in zip(before, after, strict=True) if was != one for name in one.escalate_to}
    return sorted(others), _next(question, after) or question.expires_at


def _next(question: Question, demands: Iterable[ApprovalRequirement]) -> float | None:
    times = [question.asked_at + one.escalate_s for one in demands if one.escalate_s is not None]
    return min((when for when in times if when < question.expires_at), default=None)


def _people(session: SessionPort) -> Approvers:
    rules = rules_of(session.policy)
    return ANYBODY if rules is None else rules.people


def _known(actor: str, session: SessionPort) -> bool:
    """True if somebody may answer in this session, whatever is asked."""
    people = _people(session)
    return people.approvers is None or actor == session.owner or people.among(actor, people.approvers)


def _counts(actor: str, one: ApprovalRequirement, session: SessionPort) -> bool:
    """True if a yes of this actor is one that is demanded."""
    return _people(session).among(actor, one.asked) or (not one.approvers and _known(actor, session))


def _named(demands: Iterable[ApprovalRequirement]) -> list[str]:
    return list(dict.fromkeys(name for one in demands for name in one.asked))

"""The policy of a session: the crib's, narrowed by its grants, widened by what a person approved for it; and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib._call import answers, questions
from toolcrib._call.request import Admitted, Rejected
from toolcrib.errors import Refused
from toolcrib.events import Approved
from toolcrib.policy import Policy, rules_of
from toolcrib.types import Answer, Question

if TYPE_CHECKING:
    from toolcrib.policy.explanation import Explanation
    from toolcrib.policy.rule_policy import Layers, RulePolicy
    from toolcrib.session import Session


LONGEST = 4096
"""Characters of a grant."""


class SessionRights(NamedTuple):
    """What a caller wants to be open in a session, and whether they are `limited` to less than everything."""

    namespaces: tuple[str, ...] | None
    grants: tuple[Any, ...]
    limited: bool
    most_grants: int

    def of(self, session: Session) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """The namespaces and the grants that the session has then.

        Raises:
            Refused: `denied`, they were taken away and the caller may not give them back; `too_large`, too many grants.
        """
        wanted = session.namespaces if self.namespaces is None else self.namespaces
        if self.limited and session.ceiling is not None and (taken := sorted({*wanted} - {*session.ceiling})):
            left = ", ".join(session.ceiling)
            raise Refused("denied", f"Namespace '{taken[0]}' was taken away from this session. Left: [{left}]")
        if not self.grants:
            return wanted, session.grants
        kept = session.grants if self.limited else ()
        grants = (*kept, *(one for one in self.grants if one not in kept))
        check_number(grants, self.most_grants)
        return wanted, grants


def compose(session: Session) -> Policy:
    """The policy that judges the calls of a session now."""
    policy = session.pipeline.policy
    if not session.grants and not session.offers:
        return policy
    from toolcrib.policy.loader import load
    from toolcrib.policy.rule_policy import Layers

    rules = rules_of(policy)
    if rules is None:
        return policy
    layers = [load({"grants": given}, folders=session.folders, narrowing=True) for given in session.grants]
    below = rules.layers if isinstance(rules, Layers) else (rules,)
    made: RulePolicy | Layers = Layers((*below, *layers)) if layers else rules
    for offer in session.offers:
        made = made.with_offer(offer)
    return made


def grants_of(given: Any, most: int) -> tuple[Mapping[str, Any], ...]:
    """Grants as a caller gives them: a mapping of `allow`, `ask`, `deny`, or a list of what is allowed.

    Raises:
        Refused: `too_large`, there are more than `most`.
        BadRule: they do not load.
    """
    if not given:
        return ()
    from toolcrib.policy.loader import load

    grants = dict(given) if isinstance(given, Mapping) else {"allow": [str(one) for one in given]}
    check_number((grants,), most)  # before they are read, which takes a while for each
    load({"grants": grants}, narrowing=True)
    return (grants,)


def check_number(grants: Iterable[Mapping[str, Any]], most: int) -> None:
    """Raises `Refused` where there are more grants, in all layers of a session together, than it may have."""
    lists = [of for one in grants for of in one.values() if isinstance(of, list | tuple)]
    number = sum(map(len, lists))
    if number > most:
        hint = "name folders and hosts by patterns, such as fs:read:docs/**, or raise grants_per_session"
        raise Refused("too_large", f"A session has at most {most} grants, not {number}", hint)
    if any(len(text) > LONGEST for of in lists for text in of if isinstance(text, str)):
        raise Refused("too_large", f"A grant has at most {LONGEST} characters", "name what it is about by a pattern")


def why(session: Session, tool: str, args: Any) -> Explanation:
    """The verdict on a call that is not made, with all that leads to it.

    Raises:
        Refused: `not_found` or `invalid_arguments`, there is nothing to judge.
    """
    from toolcrib.policy.explanation import Explanation

    admission = session.pipeline.admission.explain(session._request(tool, args))
    verdict, rules = admission.verdict, rules_of(session.policy)
    if verdict is None:
        assert isinstance(admission, Rejected)
        raise Refused(admission.failure.code, admission.failure.message, admission.failure.hint)
    if rules is None or admission.tool is None or admission.parsed is None or verdict.by == "limit":
        return Explanation(verdict)
    return rules.explain(admission.request.asker(), admission.tool, admission.normalised)


async def answer(session: Session, question: str, action: str, value: Any = None, **more: Any) -> Answer:
    """Answers a question; an approval for the whole session settles what it covers."""
    most = session.pipeline.limits.grants_per_session
    if more.get("scope") == "session" and len(session.offers) >= most:
        raise Refused("too_large", f"{most} approvals hold for this session already", "approve this call alone")
    given = await answers.answer(session, question, action, value, **more)
    if given.accepted and given.scope == "session":
        row = await session._row(question.rpartition("-")[0])
        asked = (await session.history(row)).questions[question]
        if asked.offer is not None and asked.offer not in session.offers:
            await _approve(session, asked, given)
    return given


async def _approve(session: Session, asked: Question, given: Answer) -> None:
    """Adds what was offered to the session, and settles every waiting call that it covers."""
    assert asked.offer is not None
    async with session._lock:
        await session._log(Approved(asked.offer, given.actor, asked.id))
        session._approved(asked.offer)
    for other in await session.questions():
        if other.id != asked.id and other.key == questions.CONFIRM and await _covered(session, other):
            reason = f"Covered by the answer to {asked.id}"
            with contextlib.suppress(Refused):  # one that wants somebody else's yes still waits for it
                await answers.answer(session, other.id, "accept", actor=given.actor, reason=reason)


async def _covered(session: Session, asked: Question) -> bool:
    row = await session._row(asked.call)
    live = await answers.revive(session, row, await session.history(row))
    admission = session.pipeline.admission.explain(live.request)
    return isinstance(admission, Admitted) and admission.verdict.effect == "allow"


def within(namespaces: Iterable[str], opened: Iterable[str]) -> None:
    """Raises `Refused` where something would be opened that is not open."""
    more = sorted(set(namespaces) - set(opened))
    if more:
        raise Refused("denied", f"Narrowing opens nothing: {', '.join(more)}", "open the session with it instead")

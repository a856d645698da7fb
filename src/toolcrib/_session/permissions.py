"""The policy of a session: the crib's, narrowed by its grants, widened by what a person approved for it; and why."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib._call import answers, questions
from toolcrib._call.request import Admitted, Rejected, subject_of
from toolcrib.errors import Refused
from toolcrib.events import Approved
from toolcrib.findings import Finding
from toolcrib.policy import Policy, rules_of
from toolcrib.tool import Tool
from toolcrib.types import Answer, Question

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort, SessionPort
    from toolcrib.policy.explanation import Explanation
    from toolcrib.policy.rule_policy import Layers, RulePolicy


LONGEST = 4096
"""Characters of a grant."""

log = logging.getLogger("toolcrib.session")


class SessionRights(NamedTuple):
    """What a caller wants to be open in a session, and whether they are `limited` to less than everything."""

    namespaces: tuple[str, ...] | None
    grants: tuple[Any, ...]
    limited: bool
    most_grants: int

    def of(self, session: SessionPort) -> tuple[tuple[str, ...], tuple[Any, ...]]:
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


def authorize(namespaces: Iterable[str], allowed: Sequence[str]) -> None:
    """Raises `Refused` where one is not allowed.

    A glob is only within what is allowed if it is there itself: nobody knows what it will match tomorrow.
    """
    for name in namespaces:
        exact = not set(name) & set("*?[")
        if "*" not in allowed and name not in allowed and not (exact and any(fnmatchcase(name, a) for a in allowed)):
            raise Refused("denied", f"Namespace '{name}' not authorized. Allowed: [{', '.join(allowed)}]")


def compose(session: SessionPort) -> Policy:
    """The policy that judges the calls of a session now."""
    policy = session.pipeline.policy
    if not session.grants and not session.offers:
        return policy
    from toolcrib.policy.loader import load
    from toolcrib.policy.rule_policy import Layers

    rules = rules_of(policy)
    if rules is None:
        return policy
    layers = [load({"grants": grants}, folders=session.folders, narrowing=True) for grants in session.grants]
    below = rules.layers if isinstance(rules, Layers) else (rules,)
    made: RulePolicy | Layers = Layers((*below, *layers)) if layers else rules
    for offer in session.offers:
        made = made.with_offer(offer)
    return made


def grants_of(written: Any, crib: CribPort, client: Iterable[Tool] = ()) -> tuple[Mapping[str, Any], ...]:
    """Grants as a caller gives them: a mapping of `allow`, `ask`, `deny`, or a list of what is allowed.

    Raises:
        Refused: `too_large`, there are more than a session may have; `invalid_arguments`, one is of a family that is
            almost one that there is.
        BadRule: they do not load.
    """
    if not written:
        return ()
    from toolcrib.policy.loader import load

    grants = dict(written) if isinstance(written, Mapping) else {"allow": [str(one) for one in written]}
    check_number((grants,), crib.pipeline.limits.grants_per_session)  # before they are read, which takes a while
    load({"grants": grants}, narrowing=True)
    away = crib.registry.pending or bool(crib.registry.unwell())  # what it looks like may be a tool's after all
    for finding in findings_of((grants,), crib, client):
        if finding.nearest is not None and not away:
            raise Refused("invalid_arguments", finding.message, f"did you mean {finding.nearest}?")
        log.warning("%s [%s]", finding, finding.code)
    return (grants,)


def findings_of(grants: Iterable[Mapping[str, Any]], crib: CribPort, client: Iterable[Tool] = ()) -> list[Finding]:
    """Grants of a session of a family that no tool needs: none of the crib, of its agents or of the `client`."""
    from toolcrib.policy.grant_review import strangers

    built_in = () if crib.agents is None else crib.agents.built_in().values()
    tools = (*crib.catalog.view(("*",)).tools, *built_in, *client)
    return [one for texts in grants for one in strangers(texts, tools)]


def check_number(grants: Iterable[Mapping[str, Any]], most: int) -> None:
    """Raises `Refused` where there are more grants, in all layers of a session together, than it may have."""
    lists = [of for one in grants for of in one.values() if isinstance(of, list | tuple)]
    number = sum(map(len, lists))
    if number > most:
        hint = "name folders and hosts by patterns, such as fs:read:docs/**, or raise grants_per_session"
        raise Refused("too_large", f"A session has at most {most} grants, not {number}", hint)
    if any(len(text) > LONGEST for of in lists for text in of if isinstance(text, str)):
        raise Refused("too_large", f"A grant has at most {LONGEST} characters", "name what it is about by a pattern")


def why(session: SessionPort, tool: str, args: Any, agent: str | None = None) -> Explanation:
    """The verdict on a call that is not made, of a person or of an agent of the crib, with all that leads to it.

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
    if agent is None:
        return rules.explain(admission.request.subject(), admission.tool, admission.normalised)
    log = session.origin_log
    index = None if log is None else log.index
    subject = subject_of(session)._replace(agent=agent, origins=index, in_run=True)
    own = None if session.crib.agents is None else rules_of(session.crib.agents.policy_of(session, agent))
    return (own or rules).explain(subject, admission.tool, admission.normalised)


async def answer(session: SessionPort, question: str, action: str, value: Any = None, **more: Any) -> Answer:
    """Answers a question; an approval for the whole session settles what it covers."""
    most = session.pipeline.limits.grants_per_session
    if more.get("scope") == "session" and len(session.offers) >= most:
        raise Refused("too_large", f"{most} approvals hold for this session already", "approve this call alone")
    recorded = await answers.answer(session, question, action, value, **more)
    if recorded.accepted and recorded.scope == "session":
        row = await session._row(question.rpartition("-")[0])
        asked_question = (await session._history(row)).questions[question]
        if asked_question.offer is not None and asked_question.offer not in session.offers:
            await _approve(session, asked_question, recorded)
    return recorded


async def _approve(session: SessionPort, question: Question, answer: Answer) -> None:
    """Adds what was offered to the session, and settles every waiting call that it covers."""
    assert question.offer is not None
    async with session._lock:
        await session._log(Approved(question.offer, answer.actor, question.id))
        session._approved(question.offer)
    for other in await session.questions():
        if other.id != question.id and other.key == questions.CONFIRM and await _covered(session, other):
            reason = f"Covered by the answer to {question.id}"
            with contextlib.suppress(Refused):  # one that wants somebody else's yes still waits for it
                await answers.answer(session, other.id, "accept", actor=answer.actor, reason=reason)


async def _covered(session: SessionPort, question: Question) -> bool:
    row = await session._row(question.call)
    live = await answers.revive(session, row, await session._history(row))
    admission = session.pipeline.admission.explain(live.request)
    return isinstance(admission, Admitted) and admission.verdict.effect == "allow"


def within(namespaces: Iterable[str], opened: Iterable[str]) -> None:
    """Raises `Refused` where something would be opened that is not open."""
    more = sorted(set(namespaces) - set(opened))
    if more:
        raise Refused("denied", f"Narrowing opens nothing: {', '.join(more)}", "open the session with it instead")

"""What a person confirms: what is asked, and whether what runs is what was confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib._call import questions
from toolcrib._call.request import Admitted, CallRequest
from toolcrib.policy import Policy, rules_of
from toolcrib.store.codec import digest
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib.types import Question


def policy_of(request: CallRequest) -> Policy:
    """Return what judges a call: the policy of its session, narrowed by that of the agent that makes it."""
    scope = request.scope()
    return request.session.policy if scope is None else scope.policy


def confirm(call: Admitted) -> dict[str, Any]:
    """Return what the policy wants to be asked, with what "allow for this session" would add."""
    rules, request = rules_of(policy_of(call.request)), call.request
    offer = None if rules is None else rules.offer(request.subject(), call.tool, call.normalised)
    why = f" ({call.verdict.message})" if call.verdict.message else ""
    demands = [demand.data() for demand in call.verdict.demands]
    prompt = f"Allow {call.tool.id}?{why}"
    fields = {"kind": "confirm", "key": questions.CONFIRM, "prompt": prompt, "demands": demands, "offer": offer}
    doubts = [] if rules is None else rules.doubts(request.subject(), call.tool, call.normalised)
    data = {**(resolution(call) or {}), **({"origins": doubts} if doubts else {})}
    return {**fields, "data": data or None}


def resolution(call: Admitted) -> dict[str, Any] | None:
    """Return what a call comes down to now (paths after links, hosts, programs): an approval holds for that alone."""
    rules = rules_of(policy_of(call.request))
    capabilities = () if rules is None else rules.resolved(call.request.subject(), call.tool, call.normalised)
    return {"resolved": list(capabilities)} if capabilities else None


def changed_since_approved(request: CallRequest, tool: Tool, history: History) -> bool:
    """Return whether it is not what was approved. Who edits arguments settles all that was approved before."""
    bound: list[Question] = []
    for question in history.questions.values():
        approved = history.answer(question.id)
        if approved is not None and approved.arguments is not None:
            bound = []
        elif approved is not None and question.kind == "confirm":
            bound.append(question)
    if not bound:
        return False
    now = digest(request.session.id, request.id, tool.fingerprint, request.arguments)
    return any(question.digest != now for question in bound) and not _keyed(request, bound, now)


def _keyed(request: CallRequest, bound: list[Question], now: str) -> bool:
    """Return whether it is what was approved, by the digests of calls with secret arguments."""
    digests = {now, *request.session.pipeline.vault.digests(now)}
    return all(question.digest in digests for question in bound)

"""What a plain call of a tool established for those of its session that follow: they differ in their arguments alone.

A plain call is one without options that no other call made. Nothing is left out for those that follow: what the stages
found does not depend on the call, as long as the tools that the session may use and the policy that judges it are the
same objects. Whatever else a tool or a crib asks of each call, rates and checks for example, means that there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib._call.request import TOP, Admitted, CallRequest
from toolcrib.catalog import CatalogView
from toolcrib.policy import DefaultPolicy, Policy, Verdict
from toolcrib.schema import ParsedArguments
from toolcrib.schema.redaction import suspect
from toolcrib.tool import Tool


class Clearance(msgspec.Struct, frozen=True):
    """What holds for all plain calls of a tool in a session, while `view` and `policy` are the session's."""

    view: CatalogView
    policy: Policy
    tool: Tool
    exact: Callable[..., dict[str, Any]]
    verdict: Verdict
    timeout_s: float


def cleared(request: CallRequest, most_bytes: int) -> Admitted | None:
    """Admit a call without options by the clearance of its tool; None where all stages have to look at it."""
    session = request.session
    clearance = session.clearances.get(request.name)
    if clearance is None or request.origin is not TOP or session.loops is not None:
        return None
    if clearance.view is not session._view or clearance.policy is not session.judge:
        return None
    arguments, tool = request.arguments, clearance.tool
    if request.problem is not None or len(arguments) > most_bytes or (tool.keyed and suspect(arguments)):
        return None
    try:
        parsed = ParsedArguments(arguments, clearance.exact(arguments, strict=True))
    except BaseException:  # noqa: BLE001 - the stages raise it again, and say what is wrong
        return None
    return Admitted(
        request, tool, parsed, clearance.verdict, clearance.timeout_s, False, "", None, (), None, True, True
    )


def clear(call: Admitted) -> Admitted:
    """Let the plain calls of a tool that follow this one pass as it did, where nothing of that was of its own."""
    session, tool = call.request.session, call.tool
    own = tool.prepare or tool.validate or tool.renew or tool.capabilities or tool.hidden is not None
    if own or call.bound is not None or tool.limits.rate is not None or tool.exact is None:
        return call
    view, policy = session._view, session.policy
    constant = policy.settled if type(policy) is DefaultPolicy else policy.constant
    if view.names.get(tool.id) is tool and constant.get(tool) is call.verdict:
        made = Clearance(view, policy, tool, tool.exact, call.verdict, call.timeout_s)
        session.clearances[call.request.name] = made
    return call

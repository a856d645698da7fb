"""The policy of a crib that was given none: preset `guarded`, and what tools say about themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from toolcrib.policy.auto_policy import AutoPolicy
from toolcrib.policy.verdicts import Arguments, Policy, Subject, Verdict
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.policy.paths import Folders
    from toolcrib.policy.rule_policy import Layers, RulePolicy


class DefaultPolicy(AutoPolicy):
    """Tools without capabilities are judged by their annotations; for others and for agents, rules are loaded."""

    preset = "guarded"

    def __init__(self, folders: Callable[[], Folders]) -> None:
        super().__init__()
        self._folders = folders

    @cached_property
    def rules(self) -> RulePolicy:
        """The same as rules, which can be extended, explained and offered from."""
        from toolcrib.policy.loader import load

        return load({}, folders=self._folders())

    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The verdict on one call."""
        by_agent = session.agent is not None
        verdict = None if by_agent else self.settled.get(tool)
        if verdict is not None:
            return verdict
        if by_agent or tool.capabilities:
            return self.rules.decide(session, tool, arguments)
        return super().decide(session, tool, arguments)

    def needs_origins(self, tool: Tool, in_run: bool) -> bool:
        """True if what it says of an agent's calls of a tool depends on where their values come from."""
        return self.rules.needs_origins(tool, in_run)


def rules_of(policy: Policy) -> RulePolicy | Layers | None:
    """The rules behind a policy, which can be explained, offered from and extended; None for one of another making."""
    from toolcrib.policy.rule_policy import Layers, RulePolicy

    if isinstance(policy, DefaultPolicy):
        return policy.rules
    return policy if isinstance(policy, RulePolicy | Layers) else None


def never_asks(policy: Policy, tool: Tool) -> bool:
    """True if no call of a tool by an agent that is not the crib's own asks, whatever its arguments are."""
    rules = rules_of(policy)
    if rules is None or rules.needs_origins(tool, in_run=False):
        return False
    verdicts = [layer.known(tool).verdict for layer in rules.layers]
    return all(verdict is not None and verdict.effect != "ask" for verdict in verdicts)

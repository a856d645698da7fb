"""What the policy says of a call while it runs, for tools that find out on the way where the call leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.policy.default_policy import rules_of
from toolcrib.policy.verdicts import Policy, Subject, Verdict
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.policy.explanation import Explanation
    from toolcrib.policy.grants import Grants
    from toolcrib.policy.paths import Folders


@dataclass(frozen=True, slots=True)
class CallPermissions:
    """The policy that judges a call, with what it judges: who calls, which tool, and its arguments."""

    policy: Policy
    subject: Subject
    folders: Folders
    tool: Tool
    arguments: Mapping[str, Any]

    def decide(self, **changed: Any) -> Verdict:
        """Return the verdict on the same call with some of its arguments changed.

        Raises:
            UnfitArgument: an argument is none of its kind.
            BadRule: a pattern does not fit the kind of an argument.
        """
        return self.policy.decide(self.subject, self.tool, lambda: {**self.arguments, **changed})

    def explain(self, **changed: Any) -> Explanation | None:
        """Return the verdict with all that led to it; None for a policy that is not made of rules.

        Raises:
            UnfitArgument: an argument is none of its kind.
            BadRule: a pattern does not fit the kind of an argument.
        """
        rules = rules_of(self.policy)
        if rules is None:
            return None
        return rules.explain(self.subject, self.tool, lambda: {**self.arguments, **changed})

    def grants(self) -> list[Grants]:
        """Return the grants that hold for the call, those of the outermost policy first."""
        rules = rules_of(self.policy)
        layers = () if rules is None else rules.layers
        return [grants for layer in layers if (grants := layer.granted(self.folders)) is not None]

"""Verdicts: may this call run, must a person be asked, or is it refused, and why.

A policy is a pure function of (session, tool, arguments). It is asked once for each call, between validation and
execution; what it says is logged with the event that follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from toolcrib.policy.approvers import ApprovalRequirement
from toolcrib.tool import Tool


class Verdict(NamedTuple):
    """What a policy says, and why; `demands` is what rules ask of whoever answers."""

    effect: Literal["allow", "ask", "deny"]
    by: Literal["namespace", "capability", "rule", "default", "limit"] = "default"
    message: str = ""
    rule: str | None = None
    capability: str | None = None
    detail: tuple[str, ...] = ()
    demands: tuple[ApprovalRequirement, ...] = ()

    def data(self) -> dict[str, Any]:
        """Its form in the log."""
        said = self._asdict() | {"demands": [demand.data() for demand in self.demands]}
        return {name: value for name, value in said.items() if value not in (None, "", (), [])}


ALLOW = Verdict("allow")


class Subject(Protocol):
    """What a policy may know of a session."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def owner(self) -> str:
        """Who it belongs to."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """What is open in it."""


Arguments = Callable[[], Mapping[str, Any]]
"""The parsed arguments as plain JSON, worked out only if the policy looks at them."""


class Policy(Protocol):
    """The seam for rules: pure, quick, and called once a call."""

    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The verdict on one call."""

"""Verdicts: may this call run, must a person be asked, or is it refused, and why.

A policy is a pure function of (session, tool, arguments). It is asked once for each call, between validation and
execution; what it says is logged with the event that follows from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolcrib.policy.approvers import ApprovalRequirement
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.origins.index import OriginIndex
    from toolcrib.policy.paths import Folders


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
        fields = self._asdict() | {"demands": [demand.data() for demand in self.demands]}
        return {name: value for name, value in fields.items() if value not in (None, "", (), [])}


ALLOW = Verdict("allow")


class Subject(NamedTuple):
    """What a policy may know of who calls: a session, or an agent in it."""

    id: str
    """The id of the session."""
    owner: str
    """Who it belongs to."""
    namespaces: tuple[str, ...] = ()
    """What is open in it."""
    folders: Folders | None = None
    """Where the paths of its calls start; None for those that the policy was made with."""
    agent: str | None = None
    """The agent that calls, if one does."""
    origins: OriginIndex | None = None
    """The index of where values come from, once a rule needs it."""
    direct: bool = True
    """True if whoever calls chose the arguments, and not the code of a tool."""
    in_run: bool = False
    """True if it is a call of a run of the crib's own agents, so that the log has what its user says."""


Pin = Literal["report", "ask", "deny", "off"]
"""What is done where a tool of a stranger is not what it was when it was accepted."""

Arguments = Callable[[], Mapping[str, Any]]
"""The parsed arguments as plain JSON, worked out only if the policy looks at them."""


class Policy(ABC):
    """Rules over calls: pure, quick, and asked once a call. One of your own needs `decide` alone."""

    __slots__ = ()

    preset: str | None = None
    """The preset that it begins with, for the limits that it has."""
    pin: Pin | None = None
    """What happens where tools are not what they were when they were accepted."""
    constant: Mapping[Tool, Verdict] = MappingProxyType({})
    """Verdicts that hold for every call of a tool, whoever makes it: nothing more is asked about such a call."""

    @abstractmethod
    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The verdict on one call."""

    def authorize(self, session: Subject, tool: Tool) -> Verdict | None:
        """A refusal before the arguments are looked at, of a tool with capabilities; None, unless it has one."""
        return None

    def hides(self, tool: Tool, session: Subject | None = None) -> bool:
        """True if every call of the tool is denied, so that a model need not see it. Nothing is hidden by default."""
        return False

    def needs_origins(self, tool: Tool, in_run: bool) -> bool:
        """True if it looks where the values of an agent's calls of a tool come from. By default it does not.

        Calls that are not `in_run` are those of agents that are not the crib's own.
        """
        return False

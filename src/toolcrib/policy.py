"""Verdicts: may this call run, must a person be asked, or is it refused, and why.

A policy is a pure function of (session, tool, arguments). It is asked once for each call, between validation and
execution; what it says is logged with the event that follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from toolcrib.tools import Tool
from toolcrib.types import Annotations


class Verdict(NamedTuple):
    """What a policy says, and why."""

    effect: Literal["allow", "ask", "deny"]
    by: Literal["namespace", "capability", "rule", "default", "limit"] = "default"
    message: str = ""
    rule: str | None = None
    capability: str | None = None
    detail: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Its form in the log."""
        return {name: value for name, value in self._asdict().items() if value not in (None, "", ())}


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


class AutoPolicy:
    """The default: what a tool says about itself decides.

    In this order: one that requires confirmation asks; the client's own tool is allowed, since the client runs it; an
    untrusted source asks; destructive asks; read-only is allowed; open-world asks; everything else is allowed.
    """

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, bool, bool], Verdict] = {}

    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The same for every call of a tool, so it is worked out once."""
        what = (tool.fingerprint, tool.trusted, tool.run is None)
        verdict = self._verdicts.get(what)
        if verdict is None:
            verdict = self._verdicts[what] = self._judge(tool)
        return verdict

    def _judge(self, tool: Tool) -> Verdict:
        said = tool.annotations or Annotations()
        if said.requires_confirmation:
            return Verdict("ask", message="the tool requires confirmation")
        if tool.run is None:
            return Verdict("allow", message="the client runs its own tool")
        if not tool.trusted:
            return Verdict("ask", message=f"the source {tool.source} is not trusted")
        if said.destructive:
            return Verdict("ask", message="the tool is destructive")
        if said.open_world and not said.read_only:
            return Verdict("ask", message="the tool reaches the outside world")
        return ALLOW

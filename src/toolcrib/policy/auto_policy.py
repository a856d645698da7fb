"""The default of a policy: what is said of a call that no rule speaks of."""

from __future__ import annotations

from typing import Literal

from toolcrib.policy.verdicts import ALLOW, Arguments, Pin, Policy, Subject, Verdict
from toolcrib.tool import Tool
from toolcrib.types import Annotations

Default = Literal["auto", "allow", "ask", "deny"]
MOST = 10_000


class AutoPolicy(Policy):
    """What a tool says about itself decides, and nothing else."""

    def __init__(self) -> None:
        self.settled: dict[Tool, Verdict] = {}
        """The verdicts that were worked out: they hold for every call of a tool."""

    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The same for every call of a tool, so it is worked out once."""
        verdict = self.settled.get(tool)
        if verdict is None:
            if len(self.settled) >= MOST:  # of tools that came and went
                self.settled.clear()
            verdict = pinned(None, tool) or by_default("auto", tool, granted=False, believed=False)
            self.settled[tool] = verdict
        return verdict


def by_default(default: Default, tool: Tool, *, granted: bool, believed: bool) -> Verdict:
    """The default for a call.

    `granted` says that it needs something and all of it is granted, `believed` that what an untrusted source says of
    its tools is taken for true.
    """
    if default == "allow":
        return ALLOW
    if default == "ask":
        return Verdict("ask", message="no rule allows it")
    if default == "deny":
        return Verdict("deny", message=f"Denied: no rule allows {tool.name}")
    return _auto(tool, granted, believed)


def pinned(pin: Pin | None, tool: Tool) -> Verdict | None:
    """What is said of a tool of a stranger that is not what it was when it was accepted; without a word it asks."""
    if not tool.changed or pin in ("off", "report"):
        return None
    change = f"{tool.id} changed its {' and its '.join(tool.changed)} since it was accepted"
    return (
        Verdict("deny", "rule", f"Denied: {change}", "pin") if pin == "deny" else Verdict("ask", "rule", change, "pin")
    )


def asks_anyway(tool: Tool, believed: bool) -> bool:
    """True if a call of the tool asks by default whatever its arguments are."""
    confirms = tool.annotations is not None and tool.annotations.requires_confirmation
    return confirms or not (tool.run is None or tool.trusted or tool.vouched or believed)


def _auto(tool: Tool, granted: bool, believed: bool) -> Verdict:
    """A grant is consent, but neither to what asks for confirmation nor to a stranger."""
    annotations = tool.annotations or Annotations()
    if annotations.requires_confirmation:
        return Verdict("ask", message="the tool requires confirmation")
    if tool.run is None:
        return Verdict("allow", message="the client runs its own tool")
    if not (tool.trusted or tool.vouched or believed):
        return Verdict("ask", message=f"the source {tool.source} is not trusted")
    if granted:
        return Verdict("allow", message="all that it needs is granted")
    if annotations.destructive:
        return Verdict("ask", message="the tool is destructive")
    if annotations.open_world and not annotations.read_only:
        return Verdict("ask", message="the tool reaches the outside world")
    return ALLOW

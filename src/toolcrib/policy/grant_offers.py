"""Offers: what "allow this for the session" would add, an allow as narrow as the call and the capabilities it asks for.

An offer is a text of lines, `allow <pattern>` and `grant <capability>`, that a person reads before accepting it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from toolcrib.origins.flow import flow_of
from toolcrib.origins.roles import by_name
from toolcrib.policy import paths
from toolcrib.policy.conditions import CallArguments, plain
from toolcrib.policy.errors import BadRule
from toolcrib.policy.explanation import Explanation
from toolcrib.policy.grants import is_interpreter
from toolcrib.schema.redaction import parted
from toolcrib.tool import Tool
from toolcrib.types import Annotations


class GrantOffer(NamedTuple):
    """An offer that was read."""

    patterns: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Its lines."""
        return "\n".join([*(f"allow {p}" for p in self.patterns), *(f"grant {c}" for c in self.capabilities)])


def read(text: str) -> GrantOffer:
    """Read the text of an offer.

    Raises:
        BadRule: it is none.
    """
    offer: dict[str, list[str]] = {"allow": [], "grant": []}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word not in offer or not rest:
            raise BadRule(line, "an offer has lines 'allow <pattern>' and 'grant <capability>'")
        offer[word].append(rest)
    return GrantOffer(tuple(offer["allow"]), tuple(offer["grant"]))


def narrowest(why: Explanation, tool: Tool, call: CallArguments) -> GrantOffer | None:
    """The offer for a call that asks; None where no rule could say exactly this, or none should."""
    annotations = tool.annotations or Annotations()
    if why.verdict.effect != "ask" or annotations.requires_confirmation or call.evasive:
        return None
    if any(part.whole and part.verdict.effect == "ask" for part in why.parts):
        return None
    patterns = _patterns(tool, call)
    capabilities = tuple(dict.fromkeys(need.capability for need in why.needs if need.effect == "ask"))
    if patterns is None or any("\n" in text for text in (*patterns, *capabilities)):
        return None
    return GrantOffer(patterns, capabilities)


def _patterns(tool: Tool, call: CallArguments) -> tuple[str, ...] | None:
    pins = _pinned(tool, call)
    if pins is None:
        return None
    commands = {name: value for name, value in pins.items() if call.kinds.get(name) == "command"}
    others = {
        name: _as_meant(value, call.kinds.get(name), call) for name, value in pins.items() if name not in commands
    }
    if not commands:
        return (_pattern(tool, others),)
    if len(commands) > 1:
        return None
    name, line = commands.popitem()
    segments = call.command(line).segments
    if any(is_interpreter(segment.program) or not all(segment.fixed) for segment in segments):
        return None
    return tuple(dict.fromkeys(_pattern(tool, {name: segment.text, **others}) for segment in segments))


def _pinned(tool: Tool, call: CallArguments) -> dict[str, Any] | None:
    """The arguments that must be the same again: the primary one, those with a kind, and all that are no free text."""
    args: Mapping[str, Any] = call.args
    if any("[" in path or "." in path for path, kind in call.kinds.items() if kind not in ("text", "secret")):
        return None  # a list or an object cannot be said exactly
    kinds = {name for name, kind in call.kinds.items() if kind not in ("text", "secret")}
    free = tool.primary is not None
    pins = {
        name: value
        for name, value in args.items()
        if value is not None and (not free or name == tool.primary or name in kinds or _chooses(tool, name, value))
    }
    if any(isinstance(value, dict | list) for value in pins.values()):
        return None
    shown = parted(tool.hidden, dict(args))[0]
    if any(shown.get(name) != pins[name] for name in pins):
        return None
    return pins


def _chooses(tool: Tool, name: str, value: Any) -> bool:
    """Return True if an argument says whom, where, which or how, and is not only what is said."""
    traits = flow_of(tool).traits
    role = traits[name][0] if name in traits else by_name(name)
    return role != "content" or not isinstance(value, str)


def _as_meant(value: Any, kind: str | None, call: CallArguments) -> str:
    return paths.canonical(plain(value), call.folders) if kind == "path" else plain(value)


def _pattern(tool: Tool, pins: Mapping[str, str]) -> str:
    conditions = ", ".join(f"{name} = {_quoted(value)}" for name, value in pins.items())
    return f"{tool.id}({conditions})" if conditions else tool.id


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

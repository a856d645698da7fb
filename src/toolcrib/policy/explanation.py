"""Why a verdict is what it is: every need, segment and rule that was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from toolcrib.policy.rules import STRICTNESS, BoundRule, Effect, Rule
from toolcrib.policy.verdicts import Verdict


class Need(NamedTuple):
    """A capability that the call needs, and the grant that decided it (none: it is not granted)."""

    capability: str
    effect: Effect
    grant: str | None = None
    message: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.effect} {self.capability}: {self.grant or 'not granted'}"


class Match(NamedTuple):
    """A rule that matched, with what makes it specific."""

    id: str
    effect: Effect
    pattern: str
    specificity: tuple[int, int, int]
    literal: int
    won: bool

    @property
    def text(self) -> str:
        """One line for people."""
        conditions, tool, precision = self.specificity
        weight = f"{conditions}/{tool}/{precision}/{self.literal}"
        return f"{self.effect} {self.pattern} ({self.id}, {weight}){' *' if self.won else ''}"


class ExplanationPart(NamedTuple):
    """What the rules or the default say of a call, or of one segment of its command."""

    segment: str | None
    verdict: Verdict
    matches: tuple[Match, ...] = ()
    whole: bool = False  # the whole line and no segment of it

    @property
    def text(self) -> str:
        """One line for people."""
        by = self.verdict.rule or self.verdict.by
        return f"{self.verdict.effect} `{self.segment}`: {by}" if self.segment is not None else ""


class Explanation(NamedTuple):
    """A verdict with all that led to it."""

    verdict: Verdict
    needs: tuple[Need, ...] = ()
    parts: tuple[ExplanationPart, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What `why` prints."""
        first = f"{self.verdict.effect} by {self.verdict.by}"
        if about := self.verdict.rule or self.verdict.capability:
            first += f" {about}"
        if self.verdict.message:
            first += f": {self.verdict.message}"
        demands = [f"to be approved by {demand.words()}" for demand in self.verdict.demands]
        return [first, *demands, *detail(self.needs, self.parts), *self.notes]

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "verdict": self.verdict.data(),
            "capabilities": [{"capability": n.capability, "effect": n.effect, "grant": n.grant} for n in self.needs],
            "segments": [part.segment for part in self.parts if part.segment is not None],
            "parts": [
                {
                    "segment": part.segment,
                    "effect": part.verdict.effect,
                    "by": part.verdict.by,
                    "rules": [match._asdict() for match in part.matches],
                }
                for part in self.parts
            ],
            "notes": list(self.notes),
        }


def strictest(verdicts: list[Verdict]) -> Verdict:
    """The one that counts: the strictest, and of those the earliest; where it asks, all that is demanded of answers."""
    strict = max(verdicts, key=lambda verdict: STRICTNESS[verdict.effect])
    if strict.effect != "ask":
        return strict
    return strict._replace(demands=tuple(dict.fromkeys(demand for one in verdicts for demand in one.demands)))


def detail(needs: tuple[Need, ...], parts: tuple[ExplanationPart, ...]) -> tuple[str, ...]:
    """Every capability, segment and rule that was looked at, each in a line."""
    lines = [need.text for need in needs]
    for part in parts:
        lines += [part.text] if part.segment is not None else []
        lines += [match.text for match in part.matches]
    return tuple(lines)


def matches(matching: Sequence[BoundRule], won: BoundRule | None) -> tuple[Match, ...]:
    """The rules that matched, as they are told."""
    return tuple(
        Match(
            bound.rule.id,
            bound.rule.effect,
            bound.rule.pattern.text,
            bound.specificity,
            bound.literal,
            bound is won,
        )
        for bound in matching
    )


def verdict_of(rule: Rule, what: str) -> Verdict:
    """What a rule says of a call or segment."""
    message = rule.reason
    if rule.effect == "deny":
        others = ", ".join(pattern.text for pattern in rule.excepts)
        message = f"Denied: {message or f'{what} is forbidden by the rule {rule.shown}'}"
        message += f" (allowed: {others})" if others else ""
    elif rule.effect == "ask":
        message = message or f"the rule {rule.shown} asks"
    return Verdict(rule.effect, "rule", message, rule.shown, demands=() if rule.demand is None else (rule.demand,))


def verdict_of_need(need: Need) -> Verdict:
    """What a missing or asked capability makes of the call."""
    return Verdict(need.effect, "capability", need.message, capability=need.capability)

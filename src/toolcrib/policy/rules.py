"""Rules, and which of them decides a call: the index over them, and the choice among those that match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from toolcrib.policy import globs
from toolcrib.policy.approvers import ApprovalRequirement
from toolcrib.policy.conditions import CallArguments, holds, holds_operator, same_operators
from toolcrib.policy.origin_conditions import exposures
from toolcrib.policy.patterns import Pattern
from toolcrib.policy.verdicts import Subject
from toolcrib.tool import Tool

Effect = Literal["allow", "ask", "deny"]
STRICTNESS: dict[Effect, int] = {"allow": 0, "ask": 1, "deny": 2}

Fact = Literal["agent", "owner", "source", "namespace", "category", "tag", "effect", "session"]
OF_SESSION = ("agent", "owner", "session")


class FactMatch(NamedTuple):
    """One demand of `when`: some value of the fact fits one of the globs."""

    fact: Fact
    globs: tuple[str, ...]

    def any_of(self, values: Iterable[str | None]) -> bool:
        """True if one of the values fits."""
        return any(globs.text(glob)(value) for value in values if value is not None for glob in self.globs)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that was read; `named` says that a person gave the id, `approved` that a person allowed such a call.

    `demand` is what one that asks wants of whoever answers.
    """

    effect: Effect
    pattern: Pattern
    id: str
    reason: str = ""
    excepts: tuple[Pattern, ...] = ()
    when: tuple[FactMatch, ...] = ()
    named: bool = False
    approved: bool = False
    line: int | None = None
    demand: ApprovalRequirement | None = None

    @property
    def shown(self) -> str:
        """How a verdict names it: by the id that a person gave it, else by its pattern."""
        return self.id if self.named else self.pattern.text

    @property
    def loosens(self) -> bool:
        """True if it gives something; such a rule is read narrowly, every other one widely."""
        return self.effect == "allow"

    def covers(self, tool: Tool) -> bool:
        """True if it can speak of this tool at all."""
        return self.pattern.tool.covers(tool, strictly=self.loosens) and all(
            fits.any_of(facts_of(tool, fits.fact)) for fits in self.when if fits.fact not in OF_SESSION
        )


class BoundRule(NamedTuple):
    """A rule as it stands for one tool: what is left to be looked at in each call."""

    rule: Rule
    specificity: tuple[int, int, int]
    literal: int
    rank: tuple[int, ...]
    conditional: bool
    excepts: tuple[Pattern, ...]
    when: tuple[FactMatch, ...]
    whole_line: bool

    @property
    def needs_origins(self) -> bool:
        """True if it asks where values come from, or what the session has read."""
        return any(fits.fact == "session" for fits in self.when) or any(
            condition.op == "from" for pattern in (self.rule.pattern, *self.excepts) for condition in pattern.conditions
        )

    @property
    def constant(self) -> bool:
        """True if it matches every call of the tool."""
        return not (self.conditional or self.excepts or self.when)

    def fits(self, session: Subject) -> bool:
        """True if it speaks of this agent and owner."""
        return all(fits.any_of(_of_subject(session, fits.fact)) for fits in self.when)

    def matches(self, call: CallArguments) -> bool:
        """True if it speaks of this call, or of the segment of it that is looked at.

        Raises:
            Unfit: an argument is none of its kind.
        """
        if call.unit is not None and call.unit.whole and not self.whole_line:
            return False
        if not _holds(self.rule.pattern, call, loosens=self.rule.loosens):
            return False
        return not any(_holds(pattern, call, loosens=not self.rule.loosens) for pattern in self.excepts)


class ToolRules(NamedTuple):
    """The rules that can speak of one tool, in order."""

    rules: tuple[BoundRule, ...]
    constant: bool


@dataclass(slots=True)
class RuleSet:
    """Rules with an index by tool: a tool without a rule of its own costs one look."""

    rules: tuple[Rule, ...]
    _exact: dict[str, list[int]] = field(default_factory=dict)
    _wide: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for place, rule in enumerate(self.rules):
            part = rule.pattern.tool
            if part.form == "exact":
                self._exact.setdefault(part.text, []).append(place)
            else:
                self._wide.append(place)

    def plan(self, tool: Tool) -> ToolRules:
        """What is left of the rules for this tool."""
        places = {*self._exact.get(tool.name, ()), *self._exact.get(tool.id, ()), *self._wide}
        bounds = (_bound(self.rules[place], place, tool) for place in sorted(places))
        rules = tuple(bound for bound in bounds if bound is not None)
        return ToolRules(rules, all(bound.constant for bound in rules))


def winner(matching: Sequence[BoundRule]) -> BoundRule | None:
    """The one that decides: the first deny, else the most specific, and ask among equals.

    What a person allowed for a session comes before all others, except where others are to be asked.
    """
    for bound in matching:
        if bound.rule.effect == "deny":
            return bound
    written = max((bound for bound in matching if not bound.rule.approved), key=_rank, default=None)
    if written is not None and written.rule.demand is not None:
        return written
    return max(matching, key=_rank, default=None)


def _rank(bound: BoundRule) -> tuple[int, ...]:
    return bound.rank


def _bound(rule: Rule, place: int, tool: Tool) -> BoundRule | None:
    if not rule.covers(tool):
        return None
    excepts = tuple(pattern for pattern in rule.excepts if pattern.tool.covers(tool, strictly=not rule.loosens))
    if any(not pattern.conditions for pattern in excepts):
        return None
    pattern = rule.pattern
    specificity, literal = pattern.specificity, pattern.literal
    return BoundRule(
        rule,
        specificity,
        literal,
        (rule.approved, *specificity, literal, rule.effect == "ask", -place),
        bool(pattern.conditions),
        excepts,
        tuple(fits for fits in rule.when if fits.fact in OF_SESSION),
        not rule.loosens and any(map(holds_operator, pattern.conditions)),
    )


def _holds(pattern: Pattern, call: CallArguments, loosens: bool) -> bool:
    """All conditions of a pattern; one that loosens reaches no command whose meaning is open."""
    if loosens and pattern.conditions and call.evasive:
        return False
    if loosens and call.unit is not None and call.unit.whole and not same_operators(pattern.conditions, call.unit.text):
        return False
    return all(holds(condition, call, every=loosens) for condition in pattern.conditions)


def _of_subject(session: Subject, fact: Fact) -> tuple[str | None, ...]:
    if fact == "session":
        return exposures(session.origins, session.agent is not None)
    return (session.agent if fact == "agent" else session.owner,)


def facts_of(tool: Tool, fact: Fact) -> Iterator[str | None]:
    """The values that a fact of `when` has for a tool."""
    if fact == "tag":
        yield from tool.tags
    elif fact == "effect":
        yield tool.does
    else:
        yield getattr(tool, fact)

"""`RulePolicy`: grants, rules and a default as one pure decision; and `Layers` of them, each stricter than the last.

What a call needs is held against the grants, then the rules are asked, then the default; the strictest verdict counts.
A session may tell its `folders` (where paths start) and its `agent`; what it does not tell, no rule can rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolcrib.findings import Finding
from toolcrib.policy import capabilities, globs, grant_offers, review, shell
from toolcrib.policy.approvers import ANYBODY, Approvers
from toolcrib.policy.auto_policy import Default, asks_anyway, by_default, pinned
from toolcrib.policy.conditions import CallArguments, Unit, lines
from toolcrib.policy.data_origin import ANYWHERE, DataOrigin
from toolcrib.policy.errors import BadRule
from toolcrib.policy.explanation import (
    Explanation,
    ExplanationPart,
    Need,
    detail,
    matches,
    strictest,
    verdict_of,
    verdict_of_need,
)
from toolcrib.policy.grants import GrantDecision, Grants, GrantTexts, is_interpreter
from toolcrib.policy.paths import NOWHERE, Folders
from toolcrib.policy.patterns import parse
from toolcrib.policy.rules import BoundRule, Rule, RuleSet, winner
from toolcrib.policy.shell import TRUSTED
from toolcrib.policy.verdicts import Arguments, Pin, Policy, Subject, Verdict
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.policy.guard import ToolGuard

"""Where paths start in a session that says nothing: in a folder that no grant of a workspace gives away."""

Guard = Literal["off", "runs", "agents"]
"""Whose calls are guarded: nobody's, those of runs, whose conversations the log has, or those of every agent."""

MOST = 4096
NO_GRANTS = GrantTexts()


class _ToolFacts(NamedTuple):
    """What is worked out once for a tool."""

    rules: tuple[BoundRule, ...]
    kinds: Mapping[str, str]
    families: tuple[str, ...]
    believed: bool
    guard: ToolGuard | None
    origins: bool
    verdict: Verdict | None  # where it is the same for every call


@dataclass(frozen=True, slots=True, eq=False)
class RulePolicy(Policy):
    """Rules over tools and arguments, what is granted, and what happens to calls that no rule speaks of.

    Without `grants` nothing is said of capabilities: so are the policies of agents, which only narrow. `believed` are
    globs of sources or namespaces whose annotations count though they are not trusted. `approved` are capabilities
    that a person allowed where a grant asks; they count for the calls that were approved alone. `preset` names the one
    it began with, for the limits that it has. A program in `trusted_folders` is known by its name alone. `written` are
    the grants without those of the preset, and `origin` is where all of it stands, for whoever reviews it. `guard` says
    which calls ask by where their values come from.
    """

    default: Default = "auto"
    rules: tuple[Rule, ...] = ()
    grants: GrantTexts | None = None
    folders: Folders = NOWHERE
    believed: tuple[str, ...] = ()
    approved: frozenset[str] = frozenset()
    preset: str | None = None
    trusted_folders: frozenset[str] = TRUSTED
    people: Approvers = ANYBODY
    pin: Pin | None = None
    origin: DataOrigin = ANYWHERE
    written: GrantTexts = NO_GRANTS
    guard: Guard = "off"
    _set: RuleSet = field(init=False, repr=False)
    constant: dict[Tool, Verdict] = field(init=False, repr=False, default_factory=dict)
    _known: dict[Tool, _ToolFacts] = field(init=False, repr=False, default_factory=dict)
    _bound: dict[Folders, Grants] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_set", RuleSet(self.rules))
        self.granted(self.folders)

    @property
    def layers(self) -> tuple[RulePolicy, ...]:
        """The policies that it consists of: itself."""
        return (self,)

    # What is asked of it

    def authorize(self, session: Subject, tool: Tool) -> Verdict | None:
        """A refusal before the arguments are looked at: nothing of the kind that the tool needs is granted."""
        grants = self.granted(session.folders or self.folders) if tool.capabilities else None
        if grants is None or grants.ungranted == "ask":
            return None
        for family in self.known(tool).families:
            if not grants.covers_family(family):
                message = f"Denied: {family} is not granted; to allow it, grant {_example(family, tool)}"
                return Verdict(
                    "deny", "capability", message, capability=family, detail=(f"deny {family}: not granted",)
                )
        return None

    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The verdict on one call.

        Raises:
            Unfit: an argument is none of its kind.
            BadRule: a pattern does not fit the kind of an argument.
        """
        known = self._known.get(tool) or self.known(tool)
        if known.guard is not None and self._guards(session):
            return self._guarded(session, tool, known, arguments()).verdict
        return known.verdict or self._judge(session, tool, known, arguments()).verdict

    def explain(self, session: Subject, tool: Tool, arguments: Arguments) -> Explanation:
        """The verdict with all that led to it, without calling.

        Raises:
            Unfit: an argument is none of its kind.
            BadRule: a pattern does not fit the kind of an argument.
        """
        refusal = self.authorize(session, tool)
        if refusal is not None:
            return Explanation(refusal)
        known = self.known(tool)
        guard = known.guard if self._guards(session) else None
        explanation = (self._judge if guard is None else self._guarded)(session, tool, known, arguments())
        origins: tuple[str, ...] = ()
        if guard is not None and (explanation.verdict.effect, explanation.verdict.by) == ("allow", "default"):
            origins = tuple(guard.account(arguments(), session.origins))
        return explanation._replace(notes=(*explanation.notes, *origins, *_notes(explanation.needs)))

    def needs_origins(self, tool: Tool, in_run: bool) -> bool:
        """True if what it says of a tool's calls depends on where their values come from."""
        known = self._known.get(tool) or self.known(tool)
        return known.origins or (known.guard is not None and (in_run or self.guard == "agents"))

    def doubts(self, session: Subject, tool: Tool, arguments: Arguments) -> list[dict[str, Any]]:
        """What the guard asks about, value by value, for whoever shows the question."""
        guard = self.known(tool).guard
        if guard is None or not self._guards(session):
            return []
        return [doubt.data() for doubt in guard.doubts(arguments(), session.origins)]

    def hides(self, tool: Tool, session: Subject | None = None) -> bool:
        """True if every call of the tool is denied by a rule, so that a model need not see it."""
        known = self._known.get(tool)  # the rules alone are asked: to work out more, the schema would be made
        return any(
            bound.rule.effect == "deny"
            and not (bound.conditional or bound.excepts)
            and (not bound.when or (session is not None and bound.fits(session)))
            for bound in (self._set.plan(tool) if known is None else known).rules
        )

    def offer(self, session: Subject, tool: Tool, arguments: Arguments) -> str | None:
        """What "allow this for the session" would add for a call that asks, or None where it may not be offered."""
        return _offer(self, session, tool, arguments)

    def resolved(self, session: Subject, tool: Tool, arguments: Arguments) -> tuple[str, ...]:
        """What a call comes down to: its capabilities, and where its paths, addresses and commands lead."""
        call = self.call(session, tool, arguments())
        return capabilities.resolve(tool.capabilities, call.args, call.folders, call.kinds, call.trusted)

    def with_offer(self, offer: str) -> RulePolicy:
        """This policy with an offer that a person accepted.

        Raises:
            BadRule: the text is no offer.
        """
        return self.extended(*grant_offers.read(offer))

    def extended(self, patterns: Iterable[str] = (), granted: Iterable[str] = ()) -> RulePolicy:
        """This policy with calls and capabilities that a person approved; no deny gives way to them.

        Raises:
            BadRule: a pattern is none.
        """
        added = tuple(
            Rule("allow", parse(text), f"approved-{number}", named=False, approved=True)
            for number, text in enumerate(patterns, 1 + sum(rule.approved for rule in self.rules))
        )
        return replace(self, rules=self.rules + added, approved=self.approved | frozenset(granted))

    def check(self, tools: Iterable[Tool], agents: Iterable[str] | None = None) -> list[Finding]:
        """What a person should know: what never decides or is about nothing, risky grants, people never asked.

        `agents` are the names of all agents, where they are known.
        """
        names = None if agents is None else tuple(agents)
        return review.review(self, review.Surroundings(tuple(tools), names))

    # How it is worked out

    def call(self, session: Subject, tool: Tool, args: Mapping[str, Any]) -> CallArguments:
        """A call as rules see it."""
        return CallArguments(
            args,
            self.known(tool).kinds,
            tool.primary,
            session.folders or self.folders,
            self.trusted_folders,
            session.origins,
            session.agent is not None,
        )

    def granted(self, folders: Folders) -> Grants | None:
        """The grants as they stand for these folders."""
        if self.grants is None:
            return None
        grants = self._bound.get(folders)
        if grants is None:
            if len(self._bound) >= MOST:
                self._bound.clear()
            grants = self._bound[folders] = self.grants.bound(folders)
        return grants

    def known(self, tool: Tool) -> _ToolFacts:
        """What can be said of a tool before it is called."""
        facts = self._known.get(tool)
        if facts is None:
            if len(self._known) >= MOST:
                self._known.clear()
                self.constant.clear()
            facts = self._known[tool] = self._work_out(tool)
            if facts.verdict is not None and facts.guard is None and not facts.origins:
                self.constant[tool] = facts.verdict
        return facts

    def _work_out(self, tool: Tool) -> _ToolFacts:
        plan = self._set.plan(tool)
        names = (tool.source, tool.namespace)
        guard = None if self.guard == "off" else _guard_of(tool)
        known = _ToolFacts(
            plan.rules,
            capabilities.kinds_of(tool.capabilities, tool.input_schema),
            tuple(capabilities.families(tool.capabilities)),
            any(globs.text(glob)(name) for glob in self.believed for name in names),
            guard,
            any(bound.needs_origins for bound in plan.rules),
            None,
        )
        varies = not plan.constant or "command" in known.kinds.values()  # whose segments are told
        if varies or (tool.capabilities and self.grants is not None):
            return known
        default = by_default(self.default, tool, granted=False, believed=known.believed)
        part = _LookedAt(None, plan.rules, winner(plan.rules)).part(default, tool.name)
        verdict = strictest([part.verdict, *self._pinned(tool)])
        return known._replace(verdict=verdict._replace(detail=detail((), (part,))))

    def _guards(self, session: Subject) -> bool:
        """True if a model chose the arguments of the call, and it is one of those that are guarded."""
        if session.agent is None or not session.direct:
            return False
        return self.guard == "agents" or session.in_run

    def _guarded(self, session: Subject, tool: Tool, known: _ToolFacts, args: Mapping[str, Any]) -> Explanation:
        """The same for a call of an agent: where no rule speaks, it depends on where its values come from."""
        explanation = self._judge(session, tool, known, args) if known.verdict is None else Explanation(known.verdict)
        decided = explanation.verdict
        if decided.by != "default" or self.default not in ("auto", "allow") or asks_anyway(tool, known.believed):
            return explanation
        assert known.guard is not None
        guarded = known.guard.verdict(args, session.origins, decided.detail)
        notes = guarded.detail[len(decided.detail) :]
        return Explanation(guarded, explanation.needs, explanation.parts, (*explanation.notes, *notes))

    def _pinned(self, tool: Tool) -> tuple[Verdict, ...]:
        changed = pinned(self.pin, tool)
        return () if changed is None else (changed,)

    def _judge(self, session: Subject, tool: Tool, known: _ToolFacts, args: Mapping[str, Any]) -> Explanation:
        call = self.call(session, tool, args)
        looks = list(_looked_at([bound for bound in known.rules if bound.fits(session)], call))
        approved = all(one.won is not None and one.won.rule.approved for one in looks if not one.whole)
        needs = tuple(self._needs(tool, known, call, approved))
        granted = bool(needs) and all(need.effect == "allow" for need in needs)
        default = by_default(self.default, tool, granted=granted, believed=known.believed)
        parts = tuple(one.part(default, tool.name) for one in looks)
        verdicts = [verdict_of_need(need) for need in needs if need.effect != "allow"]
        verdicts += sorted((part.verdict for part in parts), key=lambda verdict: verdict.by != "rule")
        verdict = strictest([*verdicts, *self._pinned(tool)])._replace(detail=detail(needs, parts))
        return Explanation(verdict, needs, parts)

    def _needs(self, tool: Tool, known: _ToolFacts, call: CallArguments, approved: bool) -> Iterator[Need]:
        """What a person approved counts for the calls that were approved alone: else one `git log` would free git."""
        grants = self.granted(call.folders)
        if grants is None or not tool.capabilities:
            return
        for wanted in capabilities.derive(
            tool.capabilities, call.args, call.folders, known.kinds, call.trusted, known=True
        ):
            judged = grants.judge(wanted)
            if judged.effect == "ask" and approved and wanted.text in self.approved:
                yield Need(wanted.text, "allow", "approved by a person")
            else:
                yield Need(wanted.text, judged.effect, judged.pattern, _message(wanted, judged, grants))


def _guard_of(tool: Tool) -> ToolGuard | None:
    from toolcrib.policy.guard import tool_guard

    return tool_guard(tool)


class _LookedAt(NamedTuple):
    """A call or one segment of its command, the rules that match it, and the one that decides."""

    segment: str | None
    matching: Sequence[BoundRule]
    won: BoundRule | None
    whole: bool = False

    def part(self, default: Verdict, name: str) -> ExplanationPart:
        """What is said of it."""
        what = f"`{self.segment}`" if self.segment else name
        verdict = default if self.won is None else verdict_of(self.won.rule, what)
        return ExplanationPart(self.segment, verdict, matches(self.matching, self.won), self.whole)


def _once(arguments: Arguments) -> Arguments:
    """The same arguments for every layer, worked out for the first that looks."""
    held: list[Mapping[str, Any]] = []

    def once() -> Mapping[str, Any]:
        if not held:
            held.append(arguments())
        return held[0]

    return once


def _looked_at(rules: Sequence[BoundRule], call: CallArguments) -> Iterator[_LookedAt]:
    """The rules on each segment, and those that speak of several commands on the whole line."""
    commands = call.commands()
    if not commands:
        matching = [bound for bound in rules if bound.matches(call)]
        yield _LookedAt(None, matching, winner(matching))
    for command in commands:
        read = call.command(command)
        units = [Unit(command, text) for text in dict.fromkeys(segment.text for segment in read.segments)]
        if any(bound.whole_line for bound in rules):
            units += [Unit(command, line, whole=True) for line in lines(read, command)]
        for call.unit in units:
            matching = [bound for bound in rules if bound.matches(call)]
            if matching or not call.unit.whole:
                yield _LookedAt(call.unit.text, matching, winner(matching), call.unit.whole)


def _message(wanted: capabilities.Capability, judged: GrantDecision, grants: Grants) -> str:
    if judged.effect == "allow":
        return ""
    if judged.effect == "ask":
        return f"{wanted.text} has to be approved"
    if judged.pattern is not None:
        return f"Denied: {wanted.text} is forbidden by the grant {judged.pattern}"
    others = ", ".join(grants.granted(wanted.domain, wanted.action))
    there = f" (granted: {others})" if others else ""
    return f"Denied: {wanted.text} is not granted{there}; to allow it, grant {wanted.grant}"


_EXAMPLES = {"fs": "${workspace}/**", "net": "HOST", "exec": "PROGRAM"}


def _example(family: str, tool: Tool) -> str:
    """A grant that gives something of a family that a tool needs."""
    if not any(template.startswith(f"{family}:") for template in tool.capabilities):
        return family
    return f"{family}:{_EXAMPLES.get(family.partition(':')[0], '*')}"


def _notes(needs: Iterable[Need]) -> Iterator[str]:
    """What a person should know of what is allowed here."""
    for need in needs:
        program = need.capability.removeprefix("exec:cmd:")
        if program != need.capability and need.effect == "allow" and is_interpreter(program):
            yield f"{need.capability} grants arbitrary code: {program} runs whatever it is given"
        elif program != need.capability and need.effect == "allow" and program not in (*shell.KNOWN, "*"):
            yield f"{need.capability}: what {program} reads, writes or reaches is bounded by the shell's sandbox alone"


def _offer(policy: RulePolicy | Layers, session: Subject, tool: Tool, arguments: Arguments) -> str | None:
    """The narrowest offer, if with it the same call would run."""
    args = arguments()
    why = policy.explain(session, tool, lambda: args)
    try:
        offer = grant_offers.narrowest(why, tool, policy.call(session, tool, args))
        if offer is None or policy.extended(*offer).decide(session, tool, lambda: args).effect != "allow":
            return None
    except BadRule:  # the name of an argument that no pattern can say
        return None
    return offer.text


@dataclass(frozen=True, slots=True, eq=False)
class Layers(Policy):
    """Policies one within another (crib, session, agent): each can only be stricter than the one before."""

    layers: tuple[RulePolicy, ...]

    @property
    def people(self) -> Approvers:
        """Who may answer, as the outermost layer has it."""
        return self.layers[0].people

    def call(self, session: Subject, tool: Tool, args: Mapping[str, Any]) -> CallArguments:
        """A call as the outermost layer sees it."""
        return self.layers[0].call(session, tool, args)

    def authorize(self, session: Subject, tool: Tool) -> Verdict | None:
        """The first refusal before the arguments are looked at."""
        refusals = (layer.authorize(session, tool) for layer in self.layers)
        return next((verdict for verdict in refusals if verdict is not None), None)

    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The strictest verdict; of equally strict ones that of the outermost layer.

        Raises:
            Unfit: an argument is none of its kind.
            BadRule: a pattern does not fit the kind of an argument.
        """
        once = _once(arguments)
        return strictest([layer.decide(session, tool, once) for layer in self.layers])

    def explain(self, session: Subject, tool: Tool, arguments: Arguments) -> Explanation:
        """The verdict with all that led to it in every layer.

        Raises:
            Unfit: an argument is none of its kind.
            BadRule: a pattern does not fit the kind of an argument.
        """
        once = _once(arguments)
        explanations = [layer.explain(session, tool, once) for layer in self.layers]
        return Explanation(
            strictest([one.verdict for one in explanations]),
            tuple(need for one in explanations for need in one.needs),
            tuple(part for one in explanations for part in one.parts),
            tuple(dict.fromkeys(note for one in explanations for note in one.notes)),
        )

    def needs_origins(self, tool: Tool, in_run: bool) -> bool:
        """True if what a layer says of a tool's calls depends on where their values come from."""
        return any(layer.needs_origins(tool, in_run) for layer in self.layers)

    def doubts(self, session: Subject, tool: Tool, arguments: Arguments) -> list[dict[str, Any]]:
        """What the guard of a layer asks about, value by value."""
        return [doubt for layer in self.layers for doubt in layer.doubts(session, tool, arguments)]

    def hides(self, tool: Tool, session: Subject | None = None) -> bool:
        """True if a layer hides the tool."""
        return any(layer.hides(tool, session) for layer in self.layers)

    def offer(self, session: Subject, tool: Tool, arguments: Arguments) -> str | None:
        """What "allow this for the session" would add for a call that asks, or None where it may not be offered."""
        return _offer(self, session, tool, arguments)

    def resolved(self, session: Subject, tool: Tool, arguments: Arguments) -> tuple[str, ...]:
        """What a call comes down to, as the outermost layer sees it."""
        return self.layers[0].resolved(session, tool, arguments)

    def with_offer(self, offer: str) -> Layers:
        """These policies with an offer that a person accepted.

        Raises:
            BadRule: the text is no offer.
        """
        return self.extended(*grant_offers.read(offer))

    def extended(self, patterns: Iterable[str] = (), granted: Iterable[str] = ()) -> Layers:
        """These policies with what a person approved, which every layer takes.

        Raises:
            BadRule: a pattern is none.
        """
        patterns, granted = tuple(patterns), tuple(granted)
        return Layers(tuple(layer.extended(patterns, granted) for layer in self.layers))

"""Reading a policy from plain data, as a file of YAML gives it. Whatever is unknown or does not fit is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from toolcrib.policy import globs
from toolcrib.policy.approvers import ApprovalRequirement, Approvers
from toolcrib.policy.auto_policy import Default
from toolcrib.policy.data_origin import ANYWHERE, DataOrigin
from toolcrib.policy.errors import BadRule
from toolcrib.policy.grants import GrantTexts
from toolcrib.policy.origin_conditions import EXPOSURES
from toolcrib.policy.paths import NOWHERE, Folders
from toolcrib.policy.patterns import Pattern, parse
from toolcrib.policy.presets import DEVELOPER, GUARDED, PRESETS
from toolcrib.policy.rule_policy import Guard, RulePolicy
from toolcrib.policy.rules import Effect, Fact, FactMatch, Rule
from toolcrib.policy.shell import TRUSTED
from toolcrib.policy.verdicts import Pin
from toolcrib.schema import nearest

KEYS = ("preset", "default", "grants", "rules", "trust_annotations", "trusted_folders", "groups", "approvers", "pin")
RULE_KEYS = ("allow", "ask", "deny", "id", "reason", "except", "when", "approvers", "quorum", "escalate")
__all__ = ["ANYWHERE", "DataOrigin", "load", "rules_of"]
GRANT_KEYS = ("allow", "ask", "deny", "ungranted")


def load(
    data: Mapping[str, Any],
    *,
    folders: Folders = NOWHERE,
    place: DataOrigin = ANYWHERE,
    narrowing: bool = False,
) -> RulePolicy:
    """Make a policy of the `KEYS` that a file may have.

    Without a preset and a default, the calls of this crib's agents are guarded. A policy of a session or agent is
    `narrowing`: what it does not mention it leaves to the layers before.

    Raises:
        BadRule: something in it does not load; it names file, line and position.
    """
    _known_keys(data, KEYS, "policy", place)
    default = data.get("default", "allow" if narrowing else "auto")
    if default not in get_args(Default):
        raise place.bad("default", f"{default!r} is none of {', '.join(get_args(Default))}")
    people = _people(data, place)
    rules = rules_of(_list(data.get("rules"), "rules", place), place)
    name = data.get("preset") or (None if narrowing or "grants" in data else _preset(data))
    grants = _grants(data, name, place)
    believed = _texts(data.get("trust_annotations"), "trust_annotations", place)
    programs = frozenset(_texts(data.get("trusted_folders", tuple(TRUSTED)), "trusted_folders", place))
    pin: Any = "off" if data.get("pin") is False else data.get("pin")  # YAML reads a bare `off` as false
    if pin not in (None, *get_args(Pin)):
        raise place.bad("pin", f"{pin!r} is none of {', '.join(get_args(Pin))}")
    try:
        return RulePolicy(
            default,
            rules,
            grants,
            folders,
            believed,
            preset=name,
            trusted_folders=programs,
            people=people,
            pin=pin,
            origin=place,
            written=_written(data),
            guard=_guard(data, narrowing),
        )
    except BadRule as error:  # of a grant
        raise place.bad(error.what, error.problem, position=error.position) from None


def _preset(data: Mapping[str, Any]) -> str:
    """The preset of a policy that names none."""
    return DEVELOPER if "default" in data else GUARDED


def _guard(data: Mapping[str, Any], narrowing: bool) -> Guard:
    """Whose calls are guarded: those of every agent where a preset says so, else of those whose users the log hears."""
    if data.get("preset"):
        return "agents" if data["preset"] == GUARDED else "off"
    return "off" if narrowing or _preset(data) != GUARDED else "runs"


def rules_of(rules: Iterable[Mapping[str, Any]], place: DataOrigin = ANYWHERE) -> tuple[Rule, ...]:
    """Read rules alone.

    Raises:
        BadRule: one of them does not load.
    """
    by_id: dict[str, Rule] = {}
    for number, data in enumerate(rules, 1):
        rule = _rule(data, number, place)
        if rule.id in by_id:
            raise place.bad(f"rules[{number - 1}].id", f"{rule.id!r} is the id of another rule", number)
        by_id[rule.id] = rule
    return tuple(by_id.values())


def _rule(data: Any, number: int, place: DataOrigin) -> Rule:
    if not isinstance(data, Mapping):
        raise place.bad(f"rules[{number - 1}]", "is no mapping such as {allow: shell(git *)}", number)
    _known_keys(data, RULE_KEYS, f"rules[{number - 1}]", place, number)
    effects: list[Effect] = [effect for effect in get_args(Effect) if effect in data]
    if len(effects) != 1:
        raise place.bad(f"rules[{number - 1}]", "has exactly one of allow, ask and deny", number)
    excepts = data.get("except", ())
    for name in ("id", "reason"):
        if not isinstance(data.get(name, ""), str):
            raise place.bad(f"rules[{number - 1}].{name}", "is a text", number)
    return Rule(
        effects[0],
        _pattern(data[effects[0]], number, place),
        data.get("id") or f"rule-{number}",
        data.get("reason", ""),
        tuple(_pattern(one, number, place) for one in ([excepts] if isinstance(excepts, str) else excepts)),
        tuple(_when(data.get("when") or {}, number, place)),
        named=bool(data.get("id")),
        line=place.line_of(number),
        demand=_demand(data, effects[0], number, place),
    )


def _people(data: Mapping[str, Any], place: DataOrigin) -> Approvers:
    groups = data.get("groups") or {}
    if not isinstance(groups, Mapping):
        raise place.bad("groups", "is no mapping such as {finance: [ann, bob]}")
    known = {str(name): _texts(people, f"groups.{name}", place) for name, people in groups.items()}
    approvers = data.get("approvers")
    return Approvers(known, None if approvers is None else _texts(_names(approvers), "approvers", place))


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _demand(data: Mapping[str, Any], effect: Effect, number: int, place: DataOrigin) -> ApprovalRequirement | None:
    what = f"rules[{number - 1}]"
    keys = [key for key in ("approvers", "quorum", "escalate") if key in data]
    if not keys:
        return None
    if effect != "ask":
        raise place.bad(f"{what}.{keys[0]}", "only a rule that asks has somebody answer", number)
    quorum = data.get("quorum", 1)
    if not isinstance(quorum, int) or isinstance(quorum, bool) or quorum < 1:
        raise place.bad(f"{what}.quorum", f"{quorum!r} is no number of people", number)
    later = data.get("escalate") or {}
    if not isinstance(later, Mapping) or ("escalate" in data and set(later) != {"after_s", "to"}):
        raise place.bad(f"{what}.escalate", "is no mapping such as {after_s: 3600, to: [lead]}", number)
    after = later.get("after_s")
    if after is not None and (not isinstance(after, int | float) or isinstance(after, bool) or after <= 0):
        raise place.bad(f"{what}.escalate.after_s", f"{after!r} is no number of seconds", number)
    approvers = _somebody(data, "approvers", f"{what}.approvers", place, number)
    others = _somebody(later, "to", f"{what}.escalate.to", place, number)
    return ApprovalRequirement(approvers, quorum, None if after is None else float(after), others)


def _somebody(data: Mapping[str, Any], key: str, what: str, place: DataOrigin, number: int) -> tuple[str, ...]:
    """People and groups; a list of nobody would let anybody in."""
    people = _texts(_names(data.get(key)), what, place, number)
    if key in data and not people:
        raise place.bad(what, "names nobody", number)
    return people


def _pattern(text: Any, number: int, place: DataOrigin) -> Pattern:
    if not isinstance(text, str):
        raise place.bad(f"rules[{number - 1}]", f"{text!r} is no pattern", number)
    try:
        return parse(text)
    except BadRule as error:
        raise place.bad(error.what, error.problem, number, error.position) from None


def _when(data: Any, number: int, place: DataOrigin) -> Iterable[FactMatch]:
    if not isinstance(data, Mapping):
        raise place.bad(f"rules[{number - 1}].when", "is no mapping such as {agent: intern*}", number)
    _known_keys(data, get_args(Fact), f"rules[{number - 1}].when", place, number)
    for fact, value in data.items():
        texts = _texts([value] if isinstance(value, str) else value, f"rules[{number - 1}].when.{fact}", place, number)
        if not texts or not all(texts):
            raise place.bad(f"rules[{number - 1}].when.{fact}", "has no value and would never hold", number)
        for text in texts:
            globs.text(text)
            if fact == "session" and text not in EXPOSURES:
                problem = f"{text!r} is none of {', '.join(EXPOSURES)}"
                raise place.bad(f"rules[{number - 1}].when.session", problem, number)
        yield FactMatch(fact, texts)


def _grants(data: Mapping[str, Any], name: Any, place: DataOrigin) -> GrantTexts | None:
    base = None
    if name is not None:
        if name not in PRESETS:
            close = nearest(str(name), PRESETS, 1)
            raise place.bad("preset", f"{name!r} is unknown" + (f", did you mean '{close[0]}'?" if close else ""))
        base = PRESETS[name].grants
    if "grants" not in data:
        return base
    grants = {} if data["grants"] is None else data["grants"]
    if not isinstance(grants, Mapping):
        raise place.bad("grants", "is no mapping such as {allow: [...]}")
    _known_keys(grants, GRANT_KEYS, "grants", place)
    base = base or GrantTexts()
    ungranted = grants.get("ungranted", base.ungranted)
    if ungranted not in ("deny", "ask"):
        raise place.bad("grants.ungranted", f"{ungranted!r} is neither deny nor ask")
    allow, ask, deny = (_texts(grants.get(key), f"grants.{key}", place) for key in ("allow", "ask", "deny"))
    return GrantTexts(base.allow + allow, base.ask + ask, base.deny + deny, ungranted)


def _written(data: Mapping[str, Any]) -> GrantTexts:
    """The grants of the data alone, without those of the preset; they have been checked."""
    grants = data.get("grants") or {}
    allow, ask, deny = (tuple(grants.get(key) or ()) for key in ("allow", "ask", "deny"))
    return GrantTexts(allow, ask, deny)


def _list(value: Any, what: str, place: DataOrigin) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise place.bad(what, "is no list")
    return list(value)


def _texts(value: Any, what: str, place: DataOrigin, number: int | None = None) -> tuple[str, ...]:
    texts = [] if value is None else value
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise place.bad(what, "is no list of texts", number)
    return tuple(texts)


def _known_keys(
    data: Mapping[str, Any], known: Iterable[str], what: str, place: DataOrigin, number: int | None = None
) -> None:
    for key in data:
        if key not in known:
            close = nearest(str(key), known, 1)
            hint = f", did you mean '{close[0]}'?" if close else ""
            raise place.bad(f"{what}.{key}", f"unknown key{hint}", number)

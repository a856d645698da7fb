"""`Agent`: a name, instructions, a model, tools and sub-agents, checked when it is made. Nothing here runs anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from toolcrib.agent.models import Model
from toolcrib.agent.problems import BadAgent, Path, ProblemCollector, meant
from toolcrib.agent.selection import problem, selected
from toolcrib.agent.stop_conditions import Stop, read_stop
from toolcrib.agent.templates import unknown_names
from toolcrib.policy import BadRule, globs
from toolcrib.schema import SchemaError, output_check
from toolcrib.tool import NAME, canonical

Via = Literal["transfer", "call"]
HISTORIES = ("full", "summary", "none")


@dataclass(frozen=True, slots=True)
class SubAgent:
    """Whom an agent may reach: a name or a glob, by which way, and how a transfer to it goes."""

    agent: str
    via: Via | None = None
    returns: bool = False
    history: Any = None

    def fits(self, name: str, via: Via) -> bool:
        """True if it means that agent, by that way."""
        return self.via in (None, via) and globs.text(self.agent)(name)

    def data(self) -> Any:
        """As a file says it."""
        fields = {name: getattr(self, name) for name in ("agent", "via", "returns", "history")}
        written = {name: value for name, value in fields.items() if value not in (None, False)}
        return written if len(written) > 1 else self.agent


@dataclass(frozen=True, slots=True)
class HandoverRules:
    """How many handovers one run may make, and what a target gets to see of what was before."""

    max: int = 8
    history: Any = "full"


@dataclass(frozen=True, slots=True)
class DelegateRules:
    """How deep agents may call agents, and how many children one may have at a time."""

    max_depth: int = 4
    max_children: int = 8


class RunOverrides(NamedTuple):
    """What the agents of a run take in place of what their definitions say."""

    model: str | None = None
    max_turns: int | None = None


NO_OVERRIDES = RunOverrides()


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True, eq=False)
class Agent:
    """What an agent is, given as a definition file gives it.

    `tools` are globs over ids, or bare names; all tools of the session unless said. `model` is a name, or a `Model`.
    `policy` holds rules that narrow what its session allows. `topics` asks the model for a label with each call.

    Raises:
        BadAgent: something about it does not hold, with everything that is wrong.
    """

    name: str
    description: str = ""
    model: Any = None
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    instructions: str = ""
    tools: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    sub_agents: Sequence[Any] = ()
    max_turns: int = 16
    stop: Sequence[Any] = ()
    handover: Any = HandoverRules()
    delegate: Any = DelegateRules()
    output_schema: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None
    topics: bool = True
    vars: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    always: Sequence[str] = ()
    on_limit: Literal["stop", "answer"] = "stop"

    def __post_init__(self) -> None:
        findings = ProblemCollector()
        for name, value in read({key: getattr(self, key) for key in KEYS}, findings).items():
            object.__setattr__(self, name, value)
        if findings.problems:
            raise BadAgent(findings.problems, [f"Agent '{self.name}': {p.field}: {p.text}" for p in findings.problems])

    @property
    def stops(self) -> tuple[Stop, ...]:
        """Its stop conditions, that of `max_turns` last."""
        return (*self.stop, Stop("max_rounds", self.max_turns))

    def has(self, tool: str) -> bool:
        """True if it selects the tool of that id."""
        return selected(tuple(self.tools), tuple(self.exclude), tool)

    def sub_agent(self, name: str, via: Via) -> SubAgent | None:
        """How it may reach another agent by that way; None where it may not. It is never its own sub-agent."""
        if name == self.name:
            return None
        return next((one for one in self.sub_agents if one.fits(name, via)), None)

    def overridden(self, overrides: RunOverrides) -> Agent:
        """The same agent in a run that was given something else than its definition says."""
        changes = {name: value for name, value in overrides._asdict().items() if value is not None}
        return replace(self, **changes) if changes else self

    def data(self) -> dict[str, Any]:
        """As a file says it: what differs from the defaults, as plain JSON data. A model that is an object is left."""
        fields = {key: _plain(getattr(self, key)) for key in KEYS}
        fields["model"] = self.model if isinstance(self.model, str) else None
        return {key: value for key, value in fields.items() if key == "name" or value != _DEFAULTS.get(key)}

    def digest(self) -> str:
        """Tells two definitions apart."""
        return self.told()[0]

    def told(self) -> tuple[str, bytes]:
        """Its digest and the JSON text of its data; made once, since every session keeps both."""
        made = _told.get(self)
        if made is None:
            text = canonical(self.data())
            made = _told[self] = (hashlib.sha256(text).hexdigest()[:16], text)
        return made


_told: WeakKeyDictionary[Agent, tuple[str, bytes]] = WeakKeyDictionary()


def _plain(value: Any) -> Any:
    if isinstance(value, SubAgent | Stop):
        return value.data()
    if isinstance(value, HandoverRules | DelegateRules):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def read(data: Mapping[str, Any], findings: ProblemCollector) -> dict[str, Any]:
    """The fields of a definition as `Agent` holds them; what does not hold is found, and left out."""
    findings.keys(data, KEYS, ())
    made: dict[str, Any] = {}
    for key, value in data.items():
        if key in KEYS:
            before = len(findings.problems)
            held = KEYS[key](value, (key,), findings)
            if len(findings.problems) == before:
                made[key] = held
    _check_names(made, findings)
    return made


def _check_names(made: Mapping[str, Any], findings: ProblemCollector) -> None:
    for name in unknown_names(made.get("instructions", ""), made.get("vars", {})):
        known = ", ".join(("session", "owner", "agent", "now", *made.get("vars", {})))
        findings.add("unknown_value", ("instructions",), f"'{{{{{name}}}}}' is unknown; known: {known}")


def _name(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if not isinstance(value, str):
        findings.add("wrong_type", path, f"{value!r} is no text")
    elif not NAME.fullmatch(value):
        findings.add("wrong_value", path, f"{value!r} must match {NAME.pattern}")
    return value


def _text(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if value is not None and not isinstance(value, str):
        findings.add("wrong_type", path, f"{value!r} is no text")
    return value or ""


def _model(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if value is not None and not isinstance(value, str | Model):
        findings.add("wrong_type", path, f"{value!r} is neither the name of a model nor a `toolcrib.agent.Model`")
    return value or None


def _table(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        findings.add("wrong_type", path, f"{value!r} is no mapping")
        return {}
    return _plain(dict(value))


def _list(value: Any, path: Path, findings: ProblemCollector) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        findings.add("wrong_type", path, f"{value!r} is no list")
        return []
    return list(value)


def _selectors(value: Any, path: Path, findings: ProblemCollector) -> Any:
    entries = _list(value, path, findings)
    for number, one in enumerate(entries):
        if not isinstance(one, str):
            findings.add("wrong_type", (*path, number), f"{one!r} is no text")
        elif (wrong := problem(one)) is not None:
            findings.add("wrong_value", (*path, number), wrong)
    return tuple(entries)


def _sub_agents(value: Any, path: Path, findings: ProblemCollector) -> Any:
    entries = _list(value, path, findings)
    return tuple(_sub_agent(one, (*path, number), findings) for number, one in enumerate(entries))


def _sub_agent(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if isinstance(value, SubAgent):
        return value
    if isinstance(value, str) and value:
        return SubAgent(value)
    if not isinstance(value, Mapping) or not isinstance(value.get("agent"), str):
        findings.add("wrong_type", path, f"{value!r} is neither the name of an agent nor {{agent: name, via: ...}}")
        return None
    findings.keys(value, ("agent", "via", "returns", "history"), path)
    via, returns, history = value.get("via"), value.get("returns", False), value.get("history")
    if via not in (None, "transfer", "call"):
        findings.add("unknown_value", (*path, "via"), f"via is transfer or call, not {via!r}")
    if not isinstance(returns, bool):
        findings.add("wrong_type", (*path, "returns"), f"{returns!r} is neither true nor false")
    if history is not None:
        history = _history(history, (*path, "history"), findings)
    return SubAgent(value["agent"], via, returns is True, history)


def _history(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if isinstance(value, str) and value in HISTORIES:
        return value
    if isinstance(value, Mapping) and set(value) == {"last"}:
        return {"last": _count(value["last"], (*path, "last"), findings)}
    close = meant(value, HISTORIES) if isinstance(value, str) else ""
    findings.add("unknown_value", path, f"{value!r} is none of full, summary, none and {{last: n}}{close}")
    return "full"


def _count(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        findings.add("wrong_type", path, f"{value!r} is no whole number")
    elif value < 1:
        findings.add("wrong_value", path, f"{value!r} is not more than zero")
    return value


def _stops(value: Any, path: Path, findings: ProblemCollector) -> Any:
    entries = enumerate(_list(value, path, findings))
    read = [one if isinstance(one, Stop) else read_stop(one, (*path, number), findings) for number, one in entries]
    return tuple(one for one in read if one is not None)


def _handover(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if isinstance(value, HandoverRules):
        return value
    table = _table(value, path, findings)
    findings.keys(table, ("max", "history"), path)
    most = _count(table.get("max", 8), (*path, "max"), findings)
    return HandoverRules(most, _history(table.get("history", "full"), (*path, "history"), findings))


def _delegate(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if isinstance(value, DelegateRules):
        return value
    table = _table(value, path, findings)
    findings.keys(table, ("max_depth", "max_children"), path)
    return DelegateRules(*(_count(table.get(key, default), (*path, key), findings) for key, default in _DEEP.items()))


_DEEP = {"max_depth": 4, "max_children": 8}


def _schema(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if value is None:
        return None
    try:
        output_check(_plain(value))
    except SchemaError as error:
        findings.add("wrong_value", path, str(error))
    return _plain(value)


def _policy(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if not value:
        return None
    if not isinstance(value, Mapping):
        findings.add("wrong_type", path, f"{value!r} is no mapping such as {{rules: [...]}}")
        return None
    from toolcrib.policy.loader import load

    try:
        load(_plain(value), narrowing=True)
    except BadRule as error:
        findings.add("wrong_value", path, str(error))
    return _plain(value)


def _flag(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if not isinstance(value, bool):
        findings.add("wrong_type", path, f"{value!r} is neither true nor false")
    return value


def _vars(value: Any, path: Path, findings: ProblemCollector) -> Any:
    table = _table(value, path, findings)
    for key, one in table.items():
        if not isinstance(one, str | int | float):
            findings.add("wrong_type", (*path, key), f"{one!r} is no text")
    return {key: str(one) for key, one in table.items()}


def _on_limit(value: Any, path: Path, findings: ProblemCollector) -> Any:
    if value not in ("stop", "answer"):
        findings.add("unknown_value", path, f"{value!r} is neither stop nor answer")
    return value


KEYS = {
    "name": _name,
    "description": _text,
    "model": _model,
    "model_settings": _table,
    "instructions": _text,
    "tools": _selectors,
    "exclude": _selectors,
    "sub_agents": _sub_agents,
    "max_turns": _count,
    "stop": _stops,
    "handover": _handover,
    "delegate": _delegate,
    "output_schema": _schema,
    "policy": _policy,
    "topics": _flag,
    "vars": _vars,
    "metadata": _table,
    "always": _selectors,
    "on_limit": _on_limit,
}
"""The keys of a definition, and how each is read."""

_DEFAULTS = {key: _plain(getattr(Agent(name="default"), key)) for key in KEYS}

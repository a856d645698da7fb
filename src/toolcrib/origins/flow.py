"""What the flow of values through a tool is: which arguments choose, and what its results are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from toolcrib.origins.labels import named_untrusted
from toolcrib.origins.roles import KEY, Role, by_name, role_of
from toolcrib.types import Annotations


class LabelledTool(Protocol):
    """What the flow of values depends on; a `Tool` has all of it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def labels(self) -> Sequence[str]:
        """What its author or the operator says of its results."""

    @property
    def trusted(self) -> bool:
        """True if it comes from a trusted source."""

    @property
    def vouched(self) -> bool:
        """True if the operator vouches for its source."""

    @property
    def annotations(self) -> Annotations | None:
        """What its author says of it."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""

    @property
    def does(self) -> str:
        """Its effect."""


_NOTHING: Any = object()
_MUTE: frozenset[Role] = frozenset({"content", "option"})
_UNCHOSEN: frozenset[Role] = frozenset({"amount", "option"})


class ArgumentValue(NamedTuple):
    """One value of a call, with the argument that it is or is part of, its path and its role."""

    argument: str
    path: str
    role: Role
    value: Any


def trusted(tool: LabelledTool) -> bool:
    """Return True if no stranger writes into what a tool returns."""
    if "trusted" in tool.labels or "untrusted" in tool.labels:
        return "trusted" in tool.labels
    if not (tool.trusted or tool.vouched) or tool.namespace == "builtin":
        return False
    reaches = tool.annotations is not None and tool.annotations.open_world
    return not reaches and not named_untrusted(tool.name) and not named_untrusted(tool.namespace)


def private(tool: LabelledTool) -> bool:
    """Return True if what a tool returns is not for everybody."""
    return "public" not in tool.labels


def labels_of(tool: LabelledTool) -> list[tuple[str, bool]]:
    """Return what the results of a tool count as, each with whether it was declared."""
    labels = ("trusted" if trusted(tool) else "untrusted", "private" if private(tool) else "public")
    return [(label, label in tool.labels) for label in labels]


def roles_of(tool: LabelledTool) -> list[tuple[str, Role, bool]]:
    """Return the role of each argument, with whether it was declared."""
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    return [
        (name, role_of(name, schema), isinstance(schema, Mapping) and KEY in schema)
        for name, schema in properties.items()
    ]


class ToolFlow:
    """What is worked out once for a tool: the role and the default of each argument, and every name in its schema."""

    __slots__ = ("names", "roles", "traits")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties: Mapping[str, Any] = schema.get("properties", {})
        self.traits: dict[str, tuple[Role, Any]] = {
            name: (role_of(name, inner), inner.get("default", _NOTHING) if isinstance(inner, Mapping) else _NOTHING)
            for name, inner in properties.items()
        }
        self.roles: frozenset[Role] = frozenset(role for role, _ in self.traits.values())
        self.names: frozenset[str] = frozenset(_property_names(schema))
        """The names of all properties, at any depth."""

    def arguments(self, values: Any) -> list[ArgumentValue]:
        """Return every value of a call with its role; what is left at its default or says nothing is left out."""
        if not isinstance(values, dict):
            values = dict(values) if isinstance(values, Mapping) else {}
        traits, values_of = self.traits, list[ArgumentValue]()
        for name, value in values.items():
            role, default = traits[name] if name in traits else (role_of(name, {}), _NOTHING)
            if value != "" and (default is _NOTHING or default != value):
                whole = ArgumentValue(name, name, role, value)
                if type(value) is str:
                    values_of.append(whole)
                else:
                    values_of += self._leaves(whole)
        return values_of

    def chosen(self, values: Any, reads: bool) -> list[Any]:
        """Return the values of a call that chose what it is about: of one that only reads, all; else no content.

        Figures that say how many, or from where on, choose nothing.
        """
        chosen: list[Any] = []
        for one in self.arguments(values):
            role, value = one.role, one.value
            if (reads or role not in _MUTE) and (type(value) is str or role not in _UNCHOSEN):
                chosen.append(value)
        return chosen

    def _leaves(self, whole: ArgumentValue) -> Iterator[ArgumentValue]:
        """Yield the values within one; a key that neither a schema nor its own words explain is a value too."""
        argument, path, role, value = whole
        if isinstance(value, dict):
            for name, inner in value.items():
                telling = by_name(str(name))
                if telling is None and name not in self.names:
                    yield ArgumentValue(argument, path, role, name)
                yield from self._leaves(ArgumentValue(argument, f"{path}.{name}", telling or role, inner))
        elif isinstance(value, (list, tuple)):
            for number, inner in enumerate(value):
                yield from self._leaves(ArgumentValue(argument, f"{path}[{number}]", role, inner))
        elif value is not None and not isinstance(value, bool) and value != "":
            yield whole


_flows: WeakKeyDictionary[LabelledTool, ToolFlow] = WeakKeyDictionary()


def flow_of(tool: LabelledTool) -> ToolFlow:
    """Return the flow of values through a tool, worked out once."""
    known = _flows.get(tool)
    if known is None:
        known = _flows[tool] = ToolFlow(tool.input_schema)
    return known


def _property_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, inner in schema.items():
            if key == "properties" and isinstance(inner, Mapping):
                yield from inner
            yield from _property_names(inner)
    elif isinstance(schema, (list, tuple)):
        for inner in schema:
            yield from _property_names(inner)

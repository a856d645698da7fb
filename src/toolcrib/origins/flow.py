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
_traits: WeakKeyDictionary[LabelledTool, Mapping[str, tuple[Role, Any]]] = WeakKeyDictionary()
_roles: WeakKeyDictionary[LabelledTool, frozenset[Role]] = WeakKeyDictionary()
_names: WeakKeyDictionary[LabelledTool, frozenset[str]] = WeakKeyDictionary()


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


def arguments(tool: LabelledTool, values: Any) -> Iterator[ArgumentValue]:
    """Yield every value of a call with its role; what is left at its default or says nothing is left out."""
    if not isinstance(values, dict):
        values = dict(values) if isinstance(values, Mapping) else {}
    known = traits(tool)
    for name, value in values.items():
        role, default = known[name] if name in known else (role_of(name, {}), _NOTHING)
        if default is not _NOTHING and default == value:
            continue
        if type(value) is str:
            if value:
                yield ArgumentValue(name, name, role, value)
        else:
            yield from _leaves(tool, ArgumentValue(name, name, role, value))


def traits(tool: LabelledTool) -> Mapping[str, tuple[Role, Any]]:
    """Return the role and the default of each argument, worked out once for a tool."""
    known = _traits.get(tool)
    if known is None:
        properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
        known = _traits[tool] = {
            name: (role_of(name, schema), schema.get("default", _NOTHING) if isinstance(schema, Mapping) else _NOTHING)
            for name, schema in properties.items()
        }
    return known


def roles(tool: LabelledTool) -> frozenset[Role]:
    """Return the roles that the arguments of a tool have, worked out once."""
    known = _roles.get(tool)
    if known is None:
        known = _roles[tool] = frozenset(role for role, _ in traits(tool).values())
    return known


def chosen(tool: LabelledTool, values: Any, reads: bool) -> list[Any]:
    """Return the values of a call that chose what it is about: of one that only reads, all; else no content."""
    return [one.value for one in arguments(tool, values) if reads or one.role not in ("content", "option")]


def _leaves(tool: LabelledTool, whole: ArgumentValue) -> Iterator[ArgumentValue]:
    """Yield the values within one; a key that neither a schema nor its own words explain is a value too."""
    argument, path, role, value = whole
    if isinstance(value, dict):
        for name, inner in value.items():
            telling = by_name(str(name))
            if telling is None and name not in _declared_names(tool):
                yield ArgumentValue(argument, path, role, name)
            yield from _leaves(tool, ArgumentValue(argument, f"{path}.{name}", telling or role, inner))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _leaves(tool, ArgumentValue(argument, f"{path}[{number}]", role, inner))
    elif value is not None and not isinstance(value, bool) and value != "":
        yield whole


def _declared_names(tool: LabelledTool) -> frozenset[str]:
    """Return the names of all properties that the schema of a tool's arguments has, at any depth."""
    known = _names.get(tool)
    if known is None:
        known = _names[tool] = frozenset(_property_names(tool.input_schema))
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

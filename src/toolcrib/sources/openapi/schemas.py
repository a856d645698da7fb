"""Schemas of a document as JSON Schema: references resolved, and what OpenAPI 3.0 writes differently rewritten."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from toolcrib.schema.limits import MOST_NODES
from toolcrib.schema.nullability import nullable
from toolcrib.schema.positions import LISTS, MAPS, ONES, Schema, map_subschemas, subschemas
from toolcrib.sources.openapi.document import DocumentNode, OpenApiDocument

LARGEST_PLACED = 200
DEEPEST_PLACED = 30
"""A schema of more parts or levels than that is named in `$defs` instead of being put where it is referred to."""

MOST_RECEIVED = 25
"""What an answer looks like is told up to so many definitions; deeper inside, anything may come."""

_KEPT = frozenset(
    (
        *(*MAPS, *LISTS, *ONES, "type", "title", "description", "enum", "const", "examples", "format", "pattern"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "required", "deprecated"),
        *("contentEncoding", "contentMediaType", "dependentRequired", "minContains", "maxContains"),
    )
) - {"$defs", "definitions"}
_NOTES = frozenset({"title", "description", "deprecated", "examples"})
_BOUNDS = frozenset(
    (
        *("required", "enum", "const", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "not", "if"),
        *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "then"),
        *("minProperties", "maxProperties", "dependentRequired", "propertyNames", "else", "contains", "oneOf"),
        *("dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "minContains", "maxContains"),
    )
)


class SchemaConverter:
    """Turns schemas of a document into one JSON Schema. `way` says whether they describe what is sent or received."""

    def __init__(self, document: OpenApiDocument, way: Literal["in", "out"]) -> None:
        self._document = document
        self._old = document.version in ("2.0", "3.0")
        self._hidden = "readOnly" if way == "in" else "writeOnly"
        self._most = None if way == "in" else MOST_RECEIVED
        self._nodes, self._known = document.memo.setdefault(way, ({}, {}))
        self.defs: dict[str, Schema] = {}

    def schema(self, node: DocumentNode) -> Schema:
        """A schema that refers to `$defs`.

        Raises:
            BadDocument: it is none, or a reference leads nowhere.
        """
        if isinstance(node.value, bool):
            return node.value
        if not isinstance(node.value, Mapping):
            raise self._document.bad(node, "this is no schema")
        if isinstance(node.value.get("$ref"), str):
            return self._reference(node)
        return self._plain(node)

    def _reference(self, node: DocumentNode) -> Schema:
        beside = {key: value for key, value in node.value.items() if key != "$ref" and (not self._old or key in _NOTES)}
        made = self._plain(DocumentNode(beside, node.base, node.where)) if beside else {}
        target = self._document.target(node)
        name = self._name(target)
        self._nodes.setdefault(name, target)
        return {"$ref": f"#/$defs/{name}", **(made if isinstance(made, dict) else {})}

    def _name(self, node: DocumentNode) -> str:
        """What a definition is called, whoever refers to it first."""
        holder, _, last = node.where.rpartition("/")
        fit = re.sub(r"[^A-Za-z0-9_.-]", "_", last)
        if fit == last and node.base == self._document.address and holder in ("#/components/schemas", "#/definitions"):
            return fit
        return f"{fit}_{hashlib.sha256(f'{node.base}{node.where}'.encode()).hexdigest()[:8]}"

    def _plain(self, node: DocumentNode) -> Schema:
        made: dict[str, Any] = {}
        for key, value in node.value.items():
            if key in MAPS and key in _KEPT and isinstance(value, Mapping):
                inner = node[key]
                made[key] = {name: self.schema(inner[name]) for name in value if self._shown(key, inner[name])}
            elif key in LISTS and isinstance(value, list):
                made[key] = [self.schema(one) for one in node[key].items()]
            elif key in ONES and isinstance(value, Mapping | bool):
                made[key] = self.schema(node[key])
            elif key in _KEPT and key not in MAPS:
                made[key] = value
        _mend(made, node.value)
        wants_null = self._old and (node.value.get("nullable") is True or node.value.get("x-nullable") is True)
        return nullable(made, {}) if wants_null else made

    def _shown(self, key: str, node: DocumentNode) -> bool:
        """True if a property is sent, or received; one that only the other side writes is not."""
        if key != "properties":
            return True
        schema = self._document.follow(node).value
        return not (isinstance(schema, Mapping) and schema.get(self._hidden) is True)

    def finish(self, schema: Schema) -> Schema:
        """The whole schema: small definitions in place, large and recursive ones in `$defs`."""
        self.defs = {}
        waiting = deque(_references(schema))
        parts = 0
        while waiting:
            name = waiting.popleft()
            if name not in self.defs:
                enough = self._most is not None and len(self.defs) >= self._most
                self.defs[name] = True if enough else self._definition(name)
                parts += _parts(self.defs[name])
                if parts > MOST_NODES:
                    raise self._document.bad(self._nodes[name], f"the schema has more than {MOST_NODES} parts by then")
                waiting.extend(_references(self.defs[name]))
        return _Placing(self.defs).whole(schema)

    def _definition(self, name: str) -> Schema:
        """A definition, which is made once for all operations of the document."""
        made: Schema | None = self._known.get(name)
        if made is None:
            made = self._known[name] = self.schema(self._nodes[name])
        return made


def _mend(made: dict[str, Any], data: Mapping[str, Any]) -> None:
    """What other versions write in other ways, and what is often written wrongly."""
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(made.get(bound), bool):
            exclusive = made.pop(bound)
            if exclusive and limit in made:
                made[bound] = made.pop(limit)
    required = made.get("required")
    if "required" in made:
        names = [one for one in required if isinstance(one, str)] if isinstance(required, list) else []
        shown = made.get("properties", {})
        hidden = data.get("properties", {}).keys() - shown.keys() if "properties" in data else set()
        made["required"] = [name for name in dict.fromkeys(names) if name not in hidden]
    if "example" in data and "examples" not in made:
        made["examples"] = [data["example"]]
    if "examples" in made and not isinstance(made["examples"], list):
        del made["examples"]
    if data.get("type") == "file":
        made |= {"type": "string", "format": "binary"}
    if not isinstance(made.get("description", ""), str):
        del made["description"]
    if "default" in data and not isinstance(data["default"], Mapping | list):
        # The server fills it in. What is not sent cannot be sent wrongly.
        made["description"] = f"{made.get('description', '').strip()} (default: {data['default']})".strip()


class _Placing:
    """Puts definitions in place."""

    def __init__(self, defs: Mapping[str, Schema]) -> None:
        self._defs = defs
        self._sizes: dict[str, int] = {}
        self._placed: dict[str, Schema] = {}

    def whole(self, schema: Schema) -> Schema:
        made = self._place(schema)
        if isinstance(made, bool):
            return made
        kept: dict[str, Schema] = {}
        waiting: list[Schema] = [made]
        while waiting:
            for name in _references(waiting.pop()):
                if name not in kept:
                    kept[name] = self._place(self._defs[name])
                    waiting.append(kept[name])
        return {**made, "$defs": kept} if kept else made

    def _place(self, schema: Schema) -> Schema:
        if isinstance(schema, bool):
            return schema
        name = _name(schema)
        if name is None:
            return map_subschemas(schema, self._place)
        if self._size(name, frozenset()) > LARGEST_PLACED:
            return map_subschemas(schema, self._place)
        if name not in self._placed:
            self._placed[name] = self._place(self._defs[name])
        placed, beside = self._placed[name], {key: value for key, value in schema.items() if key != "$ref"}
        if isinstance(placed, bool) or not beside:
            return placed
        if beside.keys() <= _NOTES:
            return {**placed, **beside}
        return {"allOf": [placed, map_subschemas(beside, self._place)]}

    def _size(self, name: str, inside: frozenset[str]) -> int:
        """How many parts a definition has with everything in place; one that holds itself has no end."""
        if name in inside or len(inside) >= DEEPEST_PLACED:
            return 1_000_000
        if name not in self._sizes:
            total = 0
            waiting = [self._defs[name]]
            while waiting and total <= LARGEST_PLACED:
                one = waiting.pop()
                total += 1
                if isinstance(one, dict):
                    inner = _name(one)
                    total += 0 if inner is None else self._size(inner, inside | {name})
                    waiting += subschemas(one)
            self._sizes[name] = total
        return self._sizes[name]


def _name(schema: Mapping[str, Any]) -> str | None:
    reference = schema.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else None


def _references(schema: Schema) -> Iterator[str]:
    waiting: list[Schema] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            name = _name(one)
            if name is not None:
                yield name
            waiting += subschemas(one)


def _parts(schema: Schema) -> int:
    count, waiting = 0, [schema]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, dict):
            waiting += subschemas(one)
    return count


def members(schema: Schema, defs: Mapping[str, Schema]) -> tuple[dict[str, Schema], list[str]] | None:
    """The properties of an object and which of them are required; None where it is more than a list of properties."""
    if isinstance(schema, bool):
        return None
    name = _name(schema)
    if name is not None:
        return None if schema.keys() - _NOTES - {"$ref", "$defs"} else members(defs.get(name, False), defs)
    if schema.keys() - _NOTES - {"type", "properties", "required", "allOf", "additionalProperties", "$defs"}:
        return None
    if schema.get("type", "object") != "object" or schema.get("additionalProperties", False) is not False:
        return None
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for part in schema.get("allOf", ()):
        inner = members(part, defs)
        if inner is None or inner[0].keys() & properties.keys():
            return None
        properties |= inner[0]
        required += inner[1]
    properties |= schema.get("properties", {})
    required += schema.get("required", ())
    fits = properties and set(required) <= properties.keys()
    return (properties, list(dict.fromkeys(required))) if fits else None


def loosened(schema: Schema) -> Schema:
    """What an answer looks like, without a word on what has to be there: servers leave out, add and null at will."""
    if isinstance(schema, bool):
        return True
    made = {key: value for key, value in schema.items() if key not in _BOUNDS}
    if "oneOf" in schema:
        made["anyOf"] = [*made.get("anyOf", ()), *schema["oneOf"]]
    if made.get("additionalProperties") is False:
        del made["additionalProperties"]
    types = made.get("type")
    if types is not None:
        made["type"] = list(dict.fromkeys([*(types if isinstance(types, list) else [types]), "null"]))
    return map_subschemas(made, loosened)


def without_patterns(schema: dict[str, Any]) -> dict[str, Any]:
    """The same without its regular expressions, of which documents hold many that nobody can read."""
    made = {key: value for key, value in schema.items() if key not in ("pattern", "patternProperties")}
    return map_subschemas(made, lambda inner: without_patterns(inner) if isinstance(inner, dict) else inner)

"""The types of events as JSON Schema, with the meaning of their fields."""

from __future__ import annotations

from typing import Any

import docstring_parser
import msgspec

from toolcrib.events.kinds import KINDS
from toolcrib.events.sessions import ErrorNotice, Notice, UserState


def meanings(type: Any) -> tuple[str, dict[str, str]]:
    """Return what the docstring of a type says of it, and of its fields by their names."""
    parsed = docstring_parser.parse(type.__doc__ or "", docstring_parser.DocstringStyle.GOOGLE)
    description = " ".join(part for part in (parsed.short_description, parsed.long_description) if part)
    return description, {one.arg_name: " ".join((one.description or "").split()) for one in parsed.params}


def schemas(ref_template: str = "#/$defs/{name}") -> dict[str, dict[str, Any]]:
    """Return the schema of the data of each kind, and of what it is made of, by the names of the types."""
    _, components = msgspec.json.schema_components(KINDS.values(), ref_template=ref_template)
    for name, schema in components.items():
        described = _described(name)
        if described is not None:
            _describe(schema, described)
    components[UserState.__name__] = {"type": "object", "description": meanings(UserState)[0]}
    for type in (Notice, ErrorNotice):
        schema = components[type.__name__]
        del schema["properties"]["more"]
        schema["additionalProperties"] = True
    return {name: _plain(schema) for name, schema in components.items()}


def _described(name: str) -> Any:
    from toolcrib import events

    return getattr(events, name, None)


def _describe(schema: dict[str, Any], type: Any) -> None:
    schema["description"], fields = meanings(type)
    for one in msgspec.structs.fields(type):
        if one.name in fields and one.encode_name in schema["properties"]:
            schema["properties"][one.encode_name]["description"] = fields[one.name]


def _plain(schema: Any) -> Any:
    """Return the same, with `number` for what may have a fraction or not, and without null as a default."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _plain(value) for name, value in schema.items() if (name, value) != ("default", None)}
    kinds = made.get("anyOf")
    if isinstance(kinds, list) and {"type": "integer"} in kinds and {"type": "number"} in kinds:
        kinds = [one for one in kinds if one != {"type": "integer"}]
        made = {**made, "anyOf": kinds} if len(kinds) > 1 else {**made, **kinds[0]}
        if len(kinds) == 1:
            del made["anyOf"]
    return made

"""Python types put to work: one pydantic-core validator reads the arguments of a tool into real objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import typing_extensions
from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, NoDefault
from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, from_json
from pydantic_core import SchemaError as CoreSchemaError

from toolcrib.schema.coercion import decode
from toolcrib.schema.exact_types import exact
from toolcrib.schema.parser import ParsedArguments, Parser
from toolcrib.schema.positions import Schema, map_subschemas, subschemas
from toolcrib.schema.problems import BadArguments, LocatedProblem, Path, SchemaError, in_order
from toolcrib.schema.typed_dicts import adopt_typed_dicts
from toolcrib.schema.validator import JsonSchemaValidator

FAULTS = (PydanticUserError, PydanticUndefinedAnnotation, CoreSchemaError, TypeError, NameError, RecursionError)
WHOLE = "arguments"
LONGEST = 300  # of what a validator says

LETTER_N, LETTER_I = ord("N"), ord("I")  # looking for one byte is many times as fast as for a word

Validate = Callable[..., Any]


class TypedParser(Parser):
    """Parses by Python types; the body receives real objects."""

    __slots__ = ("_may_be_infinite", "_sure", "_validate")

    def __init__(self, schema: dict[str, Any], validate: Validate) -> None:
        super().__init__(JsonSchemaValidator(schema))
        self._validate = validate
        self._may_be_infinite = _is_open(schema)
        self.exact = None if self._may_be_infinite else validate
        self._sure = False

    def parse(self, raw: bytes) -> ParsedArguments:
        """Parse the JSON text of a call."""
        try:
            values = self._validate(raw, strict=True)
        except ValidationError:
            return self.mend(raw)
        if self._may_be_infinite and (LETTER_N in raw or LETTER_I in raw):
            _refuse_infinite(raw)
        return ParsedArguments(raw, values)

    def normalised(self, parsed: ParsedArguments) -> dict[str, Any]:
        """Read the JSON text again and fill in the defaults of the schema."""
        data: dict[str, Any] = _decoded(parsed.json)
        if self.rules.fills():
            self._make_sure()
            self.rules.fill_defaults(data)
        return data

    def mend(self, raw: bytes) -> ParsedArguments:
        """Read gently what is not valid as it stands, or say all that is wrong with it."""
        self._make_sure()
        text, data = self.read(raw, decode(raw))
        if text is not raw:
            try:
                return ParsedArguments(text, self._validate(text, strict=True))
            except ValidationError:
                pass
        problems = self.rules.findings(data)
        try:
            values = self._validate(text, strict=False)
        except ValidationError as error:
            problems += _objections(error, data, problems)
        if problems:
            raise BadArguments(in_order(problems, data))
        # What is valid by the schema may be more than pydantic takes when it is strict.
        return ParsedArguments(text, values)

    def _make_sure(self) -> None:
        """Leave to pydantic what jsonschema-rs sees otherwise: items of a set, and patterns of another dialect."""
        if self._sure:
            return
        alike = _without(self.schema, "uniqueItems")
        for schema in (alike, _without(alike, "pattern"), {"type": "object"}):
            try:
                self.rules = JsonSchemaValidator(schema)
                self.rules.compile()
                break
            except SchemaError:
                continue
        self._sure = True


def arguments_parser(fields: Mapping[str, Any], names: dict[str, Any]) -> Parser:
    """Make the parser of a function: `fields` are its parameters, `names` what its annotations may mention.

    Raises:
        SchemaError: the type of a parameter has no schema; the message names the parameter.
    """
    core, schema = _built(fields, names)
    return TypedParser(schema, _validator(core).validate_json)


def type_parser(kind: Any, name: str = WHOLE) -> Parser:
    """Make the parser of one model, dataclass or TypedDict that is the whole argument object.

    The body receives it as the one value `name`.

    Raises:
        SchemaError: the type has no schema, or not that of an object.
    """
    core, outer = _built({name: kind}, {})
    schema = _alone(outer, outer["properties"][name])
    if schema.get("type") != "object":
        raise SchemaError(f"{_called(kind)} does not describe an object with fields")
    validate = _validator(_field_core(core, name)).validate_json
    return TypedParser(schema, lambda raw, strict: {name: validate(raw, strict=strict)})


def schema_of(kind: Any, mode: Literal["validation", "serialization"] = "validation") -> dict[str, Any]:
    """Make the JSON Schema of a type; `serialization` is its form as output.

    Raises:
        SchemaError: the type has no schema.
    """
    try:
        adopt_typed_dicts(kind, {})
        schema = TypeAdapter(kind).json_schema(schema_generator=_CleanSchema, mode=mode)
    except FAULTS as error:
        raise SchemaError(f"{_called(kind)}: {_reason(error)}") from None
    schema = _without_class_titles(schema)
    if schema.get("title") == getattr(kind, "__name__", None):
        schema.pop("title", None)
    return _alone(schema, {key: value for key, value in schema.items() if key != "$defs"})


def _called(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


def _built(fields: Mapping[str, Any], names: dict[str, Any]) -> tuple[CoreSchema, dict[str, Any]]:
    """Make core schema and JSON Schema; where that fails, find the parameter that is to blame."""
    try:
        return _built_at_once(fields, names)
    except FAULTS as error:
        for name, hint in fields.items():
            try:
                _built_at_once({name: hint}, names)
            except FAULTS as fault:
                raise SchemaError(f"parameter '{name}': {_reason(fault)}{_advice(name, fault)}") from None
        raise SchemaError(_reason(error)) from None


def _built_at_once(fields: Mapping[str, Any], names: dict[str, Any]) -> tuple[CoreSchema, dict[str, Any]]:
    for hint in fields.values():
        adopt_typed_dicts(hint, names)
    adapter = _adapter(fields, names)
    schema = _without_class_titles(adapter.json_schema(schema_generator=_CleanSchema))
    schema.pop("title", None)
    return adapter.core_schema, schema


def _adapter(fields: Mapping[str, Any], names: dict[str, Any]) -> TypeAdapter[Any]:
    try:
        return _adapter_with(ConfigDict(), fields, names)
    except CoreSchemaError:
        # The engine without backtracking knows no lookaround; the author of a function may want it.
        return _adapter_with(ConfigDict(regex_engine="python-re"), fields, names)


def _adapter_with(config: ConfigDict, fields: Mapping[str, Any], names: dict[str, Any]) -> TypeAdapter[Any]:
    make: Any = typing_extensions.TypedDict
    arguments = make("Arguments", dict(fields))
    arguments.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True) | config
    adapter = TypeAdapter(arguments)
    adapter.rebuild(force=True, raise_errors=True, _types_namespace=names)
    if not adapter.pydantic_complete:
        raise TypeError("it refers to a type that is not defined")
    return adapter


def _validator(core: CoreSchema) -> SchemaValidator:
    made = exact(core)
    return SchemaValidator(core) if made is core else SchemaValidator(made, None, _use_prebuilt=False)


def _field_core(core: Any, name: str) -> CoreSchema:
    """Take the core schema of one field out of the core schema of all arguments."""
    if core["type"] == "definitions":
        return core_schema.definitions_schema(_field_core(core["schema"], name), core["definitions"])
    field: CoreSchema = core["fields"][name]["schema"]
    return field


def _reason(error: BaseException) -> str:
    line = str(error).strip().split("\n", maxsplit=1)[0]
    if isinstance(error, PydanticSchemaGenerationError):
        kind = line.removeprefix("Unable to generate pydantic-core schema for ").split(". ", maxsplit=1)[0]
        return f"its type has no schema: {kind}"
    return line


def _advice(name: str, error: BaseException) -> str:
    """What to do about a parameter that no caller can give."""
    if not isinstance(error, PydanticSchemaGenerationError):
        return ""
    return f" (if the crib is to give it, write @tool(deps=[{name!r}]) and Crib(..., deps={{{name!r}: ...}}))"


class _CleanSchema(GenerateJsonSchema):
    """JSON Schema without titles made of names, and with the empty defaults that pydantic leaves out."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        factory: Any = schema.get("default_factory")
        if factory in (list, dict, set, tuple, frozenset):
            return [] if factory is not dict else {}
        default = super().get_default_value(schema)
        return default if factory is None else NoDefault

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Keep quiet: a default that JSON cannot say is left out of the schema, and applies all the same."""


def _without_class_titles(schema: JsonSchemaValue) -> dict[str, Any]:
    for name, inner in schema.get("$defs", {}).items():
        if inner.get("title") and name.endswith(inner["title"]):
            del inner["title"]
    return schema


def _alone(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Make a schema of its own of one inside another: with its definitions, and itself not one of them."""
    definitions = dict(outer.get("$defs", {}))
    name = str(inner.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions:
        inner = {**definitions[name], **{key: value for key, value in inner.items() if key != "$ref"}}
        if not _refers({**inner, "$defs": {**definitions, name: True}}, f"#/$defs/{name}"):
            del definitions[name]
    return {**inner, "$defs": definitions} if definitions else inner


def _refers(schema: Schema, reference: str) -> bool:
    if isinstance(schema, bool):
        return False
    return schema.get("$ref") == reference or any(_refers(inner, reference) for inner in subschemas(schema))


def _without(schema: Any, keyword: str) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != keyword}
    return map_subschemas(kept, lambda inner: _without(inner, keyword))


def _is_open(schema: Schema) -> bool:
    """Say whether a number that is not an integer may stand anywhere, and so NaN might."""
    if isinstance(schema, bool):
        return schema
    types = schema.get("type")
    if types is None:
        here = not any(key in schema for key in ("enum", "const", "$ref", "anyOf", "oneOf", "allOf"))
    elif types == "object":
        here = schema.get("additionalProperties", True) is True
    elif types == "array":
        here = "items" not in schema and "prefixItems" not in schema
    else:
        here = "number" in (types if isinstance(types, list) else [types])
    return here or any(_is_open(inner) for inner in subschemas(schema))


def _refuse_infinite(raw: bytes) -> None:
    """Refuse NaN and Infinity, which pydantic reads though JSON does not know them; inside a text they are letters."""
    if raw.find(b"NaN") >= 0 or raw.find(b"Infinity") >= 0:
        decode(raw)


def _decoded(text: bytes) -> Any:
    try:
        return decode(text)
    except BadArguments:
        return from_json(text)  # 1e999 was taken by a float


def _objections(error: ValidationError, data: Any, known: Iterable[LocatedProblem]) -> list[LocatedProblem]:
    """Say what only pydantic objects to, at places of which nothing is said yet."""
    problems = [
        LocatedProblem(_place(line["loc"], data, line["type"] == "missing"), _kind(line["type"]), _text(line["msg"]))
        for line in error.errors(include_url=False, include_input=False)
    ]
    known_paths = {finding.path for finding in known}
    # The other branches of a union object to the whole value.
    deeper = {finding.path[:depth] for finding in problems for depth in range(len(finding.path))}
    return [
        finding
        for finding in problems
        if finding.path not in deeper and not any(_overlap(finding.path, other) for other in known_paths)
    ]


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _place(steps: tuple[int | str, ...], data: Any, is_missing: bool) -> Path:
    """Leave out the steps that name a branch of a union instead of a place in the data."""
    path: list[int | str] = []
    for index, step in enumerate(steps):
        try:
            data = data[step]
        except (TypeError, KeyError, IndexError):
            is_absent = is_missing and isinstance(data, dict) and index == len(steps) - 1
            path += [step] * is_absent
        else:
            path.append(step)
    return tuple(path)


def _kind(name: str) -> str:
    if name in ("missing", "missing_argument"):
        return "missing"
    return "unknown" if name in ("extra_forbidden", "unexpected_keyword_argument") else "value"


def _text(message: str) -> str:
    for opening, ours in (("Value error, ", ""), ("Assertion failed, ", ""), ("Input should ", "must ")):
        if message.startswith(opening):
            message = ours + message[len(opening) :]
    line = " ".join(message.split())
    return {"Field required": "missing"}.get(line, line if len(line) <= LONGEST else line[: LONGEST - 1] + "…")

"""`RequestPlan`: what an operation takes, where each argument of it goes, and what comes back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from toolcrib.schema.positions import Schema
from toolcrib.sources.openapi import swagger
from toolcrib.sources.openapi.document import DocumentNode, OpenApiDocument
from toolcrib.sources.openapi.lazy_tool import ToolSchemas
from toolcrib.sources.openapi.schemas import SchemaConverter, loosened, members
from toolcrib.sources.openapi.styles import DEFAULTS, STYLES, Parameter, Place

Kind = Literal["json", "form", "multipart", "text", "file"]
PLACES: tuple[Place, ...] = get_args(Place)
KEY = "idempotency-key"
_OWN = frozenset({"accept", "content-type", "authorization", "host", "content-length", "connection"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MEDIA = re.compile(r"[\w.+*-]+/[\w.+*-]+")


class FormField(NamedTuple):
    """A field of a form: how it is written, and of which type it is where it is a part of its own."""

    parameter: Parameter
    file: bool = False
    media: str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent: one argument as a whole, or fields."""

    kind: Kind
    media: str
    whole: str | None = None
    fields: tuple[FormField, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """How an operation is called. `key` is the header that keeps a repeated request from acting twice."""

    shapes: ToolSchemas
    parameters: tuple[Parameter, ...]
    body: Body | None
    key: str | None
    accept: str


def plan(document: OpenApiDocument, operation: DocumentNode, shared: DocumentNode, uploads: bool) -> RequestPlan:
    """The plan of an operation; `shared` is what stands beside it at its path.

    Raises:
        BadDocument: something about it does not hold.
    """
    return _PlanBuilder(document, operation, uploads).plan(_parameters(document, operation, shared))


def _parameters(document: OpenApiDocument, operation: DocumentNode, shared: DocumentNode) -> list[DocumentNode]:
    """The parameters of an operation; its own replace those of its path."""
    parameters: dict[tuple[str, str], DocumentNode] = {}
    for holder in (shared, operation):
        listed = holder.get("parameters")
        for one in () if listed is None else listed.items():
            node = document.follow(one)
            if not isinstance(node.value, Mapping) or not isinstance(node.value.get("name"), str):
                raise document.bad(node, "this is no parameter, which has `name` and `in`")
            if node.value.get("in") not in (*PLACES, *(("formData",) if document.version == "2.0" else ())):
                raise document.bad(node, f"a parameter stands in one of {', '.join(PLACES[:-1])}")
            parameters[node.value["name"], str(node.value.get("in"))] = node
    return list(parameters.values())


class _PlanBuilder:
    """One operation on its way to a plan."""

    def __init__(self, document: OpenApiDocument, operation: DocumentNode, uploads: bool) -> None:
        self.document = document
        self.operation = operation
        self.uploads = uploads
        self.shaping = SchemaConverter(document, "in")
        self.properties: dict[str, Schema] = {}
        self.required: list[str] = []
        self.parameters: list[Parameter] = []
        self.key: str | None = None

    def plan(self, parameters: Sequence[DocumentNode]) -> RequestPlan:
        old = self.document.version == "2.0"
        for place in PLACES[:-1]:
            for node in parameters:
                if node.value.get("in") == place:
                    self._parameter(swagger.parameter(node) if old else node, place)
        body = self._body(swagger.body(self.document, list(parameters), self.operation) if old else self._said_body())
        schema: dict[str, Any] = {"type": "object", "properties": self.properties, "additionalProperties": False}
        if self.required:
            schema["required"] = self.required
        takes = self.shaping.finish(schema)
        assert isinstance(takes, dict)
        gives, accept = _answers(self.document, self.operation)
        return RequestPlan(ToolSchemas(takes, gives), tuple(self.parameters), body, self.key, accept)

    # Parameters

    def _parameter(self, node: DocumentNode, place: Place) -> None:
        wire = node.value["name"]
        if place == "header" and wire.lower() in _OWN:
            return
        if place == "header" and not _TOKEN.fullmatch(wire):
            raise self.document.bad(node, f"{wire!r} cannot be the name of a header")
        if place == "header" and wire.lower() == KEY:
            self.key = wire
            return
        schema, json = self._schema_of(node)
        style = node.text("style") or DEFAULTS[place]
        if style not in STYLES[place]:
            raise self.document.bad(node, f"a parameter in {place} has one of the styles {', '.join(STYLES[place])}")
        explode = node.value.get("explode")
        name = self._argument(
            wire, place, _described(schema, node), place == "path" or node.value.get("required") is True
        )
        self.parameters.append(
            Parameter(
                name,
                wire,
                place,
                style,
                style in ("form", "deepObject") if explode is None else bool(explode),
                node.value.get("allowReserved") is True,
                json,
            )
        )

    def _schema_of(self, node: DocumentNode) -> tuple[Schema, bool]:
        """The schema of a parameter, and whether it is written as JSON."""
        content = node.get("content")
        if content is not None and content.keys():
            media = content[content.keys()[0]].get("schema")
            return (True if media is None else self.shaping.schema(media)), True
        schema = node.get("schema")
        return ({"type": "string"} if schema is None else self.shaping.schema(schema)), False

    def _argument(self, wire: str, place: Place, schema: Schema, required: bool) -> str:
        """Gives a parameter its name among the arguments: its own, or `<place>_<name>` where that is taken."""
        fit = wire if _ARGUMENT.fullmatch(wire) else re.sub(r"[^A-Za-z0-9_.-]+", "_", wire).strip("_")[:56] or place
        name = next(name for name in _names(fit, place) if name not in self.properties)
        self.properties[name] = schema
        if required:
            self.required.append(name)
        return name

    # Bodies

    def _said_body(self) -> DocumentNode | None:
        declared = self.operation.get("requestBody")
        return None if declared is None else self.document.follow(declared)

    def _body(self, node: DocumentNode | None) -> Body | None:
        content = None if node is None else node.get("content")
        if node is None or content is None or not content.keys():
            return None
        media = min(content.keys(), key=_preferred)
        kind = _kind(media)
        inner = content[media].get("schema")
        required = node.value.get("required") is True
        sent = media if _MEDIA.fullmatch(media.partition(";")[0].strip()) and "*" not in media else _SENT[kind]
        if kind in ("text", "file") or inner is None:
            schema: Schema = {"type": "string"} if kind == "text" else True if kind != "file" else self._file({})
            return Body(kind, sent, self._argument("body", "body", _described(schema, node), required))
        schema = self.shaping.schema(inner)
        flat = members(self.shaping.finish(schema), self.shaping.defs)
        # An optional body with required parts is there or not as a whole.
        if flat is None or (flat[1] and not required and kind == "json"):
            return Body(kind, sent, self._argument("body", "body", _described(schema, node), required))
        encoding = content[media].get("encoding")
        fields = [self._field(kind, name, inner, name in flat[1], encoding) for name, inner in flat[0].items()]
        return Body(kind, sent, None, tuple(fields))

    def _field(self, kind: Kind, wire: str, schema: Schema, required: bool, encoding: DocumentNode | None) -> FormField:
        settings = None if encoding is None else encoding.get(wire)
        data: Mapping[str, Any] = {} if settings is None else settings.value
        files = kind == "multipart" and _holds_file(schema)
        if files:
            schema = self._files(schema)
        name = self._argument(wire, "body", schema, required)
        style = str(data.get("style") or "form")
        styled = kind == "form" and bool(data.keys() & {"style", "explode", "allowReserved"})
        explode = bool(data.get("explode", style == "form"))
        # Without a word on its style, an object in a form is written as JSON.
        parts = Parameter(name, wire, "body", style, explode, data.get("allowReserved") is True, False)
        media = str(data.get("contentType") or "").partition(",")[0].strip()
        plain = None if styled else media if _MEDIA.fullmatch(media) and "*" not in media else ""
        return FormField(parts, files, plain)

    def _files(self, schema: Schema) -> Schema:
        if isinstance(schema, dict) and schema.get("type") == "array":
            return {**schema, "items": self._file(schema.get("items"))}
        return self._file(schema)

    def _file(self, schema: Any) -> Schema:
        """A file as an argument. A path is taken only where the configuration names a folder for that."""
        description = schema.get("description") if isinstance(schema, dict) else None
        ways = {
            "text": {"type": "string", "description": "the content, where it is text"},
            "base64": {"type": "string", "description": "the content in base 64"},
        }
        if self.uploads:
            ways["path"] = {"type": "string", "description": "a file in the folder for uploads"}
        properties = {**ways, "name": {"type": "string"}, "media_type": {"type": "string"}}
        advice = "A file: give one of " + ", ".join(ways)
        return {
            "type": "object",
            "description": f"{description}. {advice}" if description else advice,
            "properties": properties,
            "additionalProperties": False,
            "minProperties": 1,
        }


def _names(fit: str, place: Place) -> Iterator[str]:
    yield fit
    yield f"{place}_{fit}"
    yield from (f"{place}_{fit}_{number}" for number in range(2, 10_000))


def _described(schema: Schema, node: DocumentNode) -> Schema:
    """The schema with what is said of the parameter itself; the default that the schema told stays."""
    text = node.text("description").strip()
    if isinstance(schema, bool):
        return schema
    if node.value.get("deprecated") is True:
        schema = {**schema, "deprecated": True}
    if not text:
        return schema
    default = re.search(r"\(default: .*\)$", str(schema.get("description", "")))
    return {**schema, "description": f"{text} {default[0]}" if default else text}


_SENT: Mapping[Kind, str] = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "multipart": "multipart/form-data",
    "text": "text/plain",
    "file": "application/octet-stream",
}


def _kind(media: str) -> Kind:
    bare = media.partition(";")[0].strip().lower()
    if bare.endswith(("/json", "+json")) or bare == "*/*":
        return "json"
    if bare == _SENT["form"]:
        return "form"
    if bare.startswith("multipart/"):
        return "multipart"
    return "text" if bare.startswith("text/") or bare.endswith(("/xml", "+xml", "yaml")) else "file"


def _preferred(media: str) -> tuple[int, bool]:
    return get_args(Kind).index(_kind(media)), media != "application/json"


def _holds_file(schema: Schema) -> bool:
    if isinstance(schema, bool):
        return False
    if schema.get("type") == "array":
        return _holds_file(schema.get("items", False))
    if schema.get("format") == "binary" or not schema.keys() - {"description", "title"}:
        return True
    return "contentMediaType" in schema and "contentEncoding" not in schema


def _answers(document: OpenApiDocument, operation: DocumentNode) -> tuple[dict[str, Any] | None, str]:
    """The schema of what comes back where it goes well, and the types that are asked for.

    There is a schema only where every such answer is JSON.
    """
    shaping = SchemaConverter(document, "out")
    schemas: list[Schema | None] = []
    medias: list[str] = []
    for content in _contents(document, operation):
        named = [] if content is None else content.keys()
        json = [media for media in named if _kind(media) == "json"]
        schema = content[json[0]].get("schema") if content is not None and json and len(json) == len(named) else None
        schemas.append(None if schema is None else shaping.schema(schema))
        medias += [media for media in named if _MEDIA.fullmatch(media.partition(";")[0].strip())]
    accept = ", ".join([*sorted(dict.fromkeys(medias), key=_preferred), "*/*;q=0.1"]) if medias else "*/*"
    if not schemas or None in schemas:
        return None, accept
    whole = loosened(shaping.finish(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}))  # type: ignore[arg-type]
    return (whole if isinstance(whole, dict) else None), accept


def _contents(document: OpenApiDocument, operation: DocumentNode) -> Iterator[DocumentNode | None]:
    """What the answers hold that say that it went well."""
    responses = operation.get("responses")
    for status in () if responses is None else responses.keys():
        if responses is not None and re.fullmatch("2([0-9][0-9]|XX)", status.upper()):
            response = document.follow(responses[status])
            if document.version == "2.0":
                response = swagger.responses(document, operation, response)
            yield response.get("content")

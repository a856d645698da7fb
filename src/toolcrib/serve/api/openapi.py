"""The OpenAPI 3.1 document, made of the same table that requests are routed by."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from toolcrib import __version__
from toolcrib.events import KINDS
from toolcrib.events.schema import schemas as event_schemas
from toolcrib.serve.api.errors import ErrorForm
from toolcrib.serve.api.router import Route

_REF = "#/components/schemas/{name}"
_IDS = {"session": "A session's id.", "call": "A call's id.", "tool": "A tool's id.", "agent": "An agent's name."}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole description."""
    routes = list(routes)
    kinds = [ErrorForm, *_kinds(routes)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    for schema in components.values():
        schema["description"] = inspect.cleandoc(schema.get("description", ""))
    _declare_events(components)
    known = dict(zip(map(id, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Toolcrib",
            "version": __version__,
            "description": "Sessions, calls, events and questions of a crib. "
            "A call that fails is a result, and no error of HTTP.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key, or a token of your provider."},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "toolcrib",
                    "description": "For pages in a browser.",
                },
            },
        },
        "security": [{"key": []}, {"cookie": []}],
    }


def _declare_events(components: dict[str, Any]) -> None:
    """Say what the data of each kind of event is, where no large value was left out of it."""
    components |= event_schemas(_REF)
    components["EventForm"]["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "not": {"required": ["large"]}},
            "then": {"properties": {"data": {"$ref": _REF.format(name=type.__name__)}}},
        }
        for kind, type in KINDS.items()
    ]


def _kinds(routes: Iterable[Route]) -> list[Any]:
    kinds = [kind for route in routes for kind in (route.query, route.body, *route.gives.values()) if kind is not None]
    return list({id(kind): kind for kind in kinds}.values())


def _operation(route: Route, known: dict[int, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.does.partition(". ")[0].rstrip("."),
        "description": route.does,
        "tags": [route.path.split("/")[2]],
        "responses": _responses(route, known),
    }
    parameters = [*_path(route), *_query(route)]
    if parameters:
        made["parameters"] = parameters
    if route.body is not None:
        needed = not _is_struct(route.body) or any(one.required for one in msgspec.structs.fields(route.body))
        schema = known[id(route.body)]
        whole = schema if route.demands is None else {"allOf": [schema, dict(route.demands)]}
        made["requestBody"] = {"required": needed, "content": _json(whole)}
    if route.reads:
        lines = {"schema": {"type": "string", "minLength": 1}}
        made["requestBody"] = {"required": True, "content": {"application/x-ndjson": lines}}
    if route.right is None:
        made["security"] = []
    else:
        made["x-toolcrib-scope"] = route.right
    return made


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _name(route: Route) -> str:
    words = re.sub(r"[^a-zA-Z0-9]+", "_", route.path.removeprefix("/v1")).strip("_")
    return f"{route.method.lower()}_{words}"


def _path(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _IDS.get(name, "An id."),
            "schema": {"type": "string", "minLength": 1},
        }
        for name in route.names
    ]


def _query(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = msgspec.json.schema(route.query)
    parts = next(iter(schema["$defs"].values())) if "$ref" in schema else schema
    return [
        {"name": name, "in": "query", "required": name in parts.get("required", ()), "schema": _plain(property)}
        for name, property in parts["properties"].items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """What a query holds is a text: there is no null in it."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        schema = {**{key: value for key, value in schema.items() if key != "anyOf"}, **kinds[0]}
    if "enum" in schema:
        schema = {**schema, "enum": [value for value in schema["enum"] if value is not None]}
    return {key: value for key, value in schema.items() if not (key == "default" and value is None)}


def _responses(route: Route, known: dict[int, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {
        str(status): {"description": _words(status)}
        | ({} if kind is None else {"content": _content(route, status, known[id(kind)])})
        for status, kind in route.gives.items()
    }
    if "200" not in data and route.streams:
        data["200"] = {
            "description": "A stream of events.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    elif not data:
        data["204"] = {"description": "Done."}
    data["default"] = {"description": "It was not done.", "content": _json(known[id(ErrorForm)])}
    return data


def _content(route: Route, status: int, schema: Any) -> dict[str, Any]:
    made = _json(schema)
    if route.streams and status == 200:
        made["text/event-stream"] = {"schema": {"type": "string"}}
    if route.lines and status == 200:
        made["application/x-ndjson"] = {"schema": {"type": "string"}}
    return made


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _words(status: int) -> str:
    return {200: "Done.", 201: "Made.", 202: "Accepted; it is not done yet."}.get(status, "Done.")

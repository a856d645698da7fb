"""Parameters as they stand in an address, a header or a cookie: the styles of OpenAPI.

Every value is percent-encoded before it is joined with others, so that none can pass for a separator, leave its
segment of a path or add a parameter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from toolcrib.errors import ToolFailure

Place = Literal["path", "query", "header", "cookie", "body"]
DEFAULTS: Mapping[str, str] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
STYLES: Mapping[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_RESERVED = ":/?[]@!$'()*,;"
"""What `allowReserved` leaves as it is; what would end a parameter or the query is always encoded."""

_JOINED = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


class Parameter(NamedTuple):
    """An argument of a tool and how it is sent: `name` is the model's, `wire` the server's."""

    name: str
    wire: str
    place: Place
    style: str = "form"
    explode: bool = True
    reserved: bool = False
    json: bool = False


def as_text(value: Any) -> str:
    """A value as it is written outside of JSON; what has parts is written as JSON."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encoded(value: Any, safe: str = "") -> str:
    """A value as a piece of an address."""
    return quote(as_text(value), safe=safe)


def in_path(parameter: Parameter, value: Any) -> str:
    """What replaces the parameter in the path."""
    if parameter.json:
        return encoded(json.dumps(value))
    pieces = list(_pieces(value, encoded, parameter.explode))
    if not any(pieces):
        raise ToolFailure("invalid_arguments", f"{parameter.name}: cannot be empty, since it is part of an address")
    if parameter.style == "label":
        return "." + ("." if parameter.explode else ",").join(pieces)
    if parameter.style == "simple":
        return ",".join(pieces)
    name = encoded(parameter.wire)
    if isinstance(value, dict) and parameter.explode:
        return "".join(f";{piece}" for piece in pieces)
    return "".join(f";{name}={one}" for one in (pieces if parameter.explode else [",".join(pieces)]))


def in_query(parameter: Parameter, value: Any) -> Iterator[str]:
    """The `name=value` pieces of a query, or of a form."""
    safe = _RESERVED if parameter.reserved else ""
    name = encoded(parameter.wire, "[]")
    if parameter.json or not isinstance(value, list | dict):
        yield f"{name}={encoded(json.dumps(value) if parameter.json else value, safe)}"
    elif isinstance(value, dict) and parameter.style == "deepObject":
        yield from _deep(name, value, safe)
    elif isinstance(value, dict) and parameter.explode:
        yield from (f"{encoded(key, '[]')}={encoded(one, safe)}" for key, one in value.items())
    elif parameter.explode:
        yield from (f"{name}={encoded(one, safe)}" for one in value)
    elif value:
        pieces = _pieces(value, lambda one: encoded(one, safe.replace(",", "")), False)
        yield f"{name}={_JOINED.get(parameter.style, ',').join(pieces)}"


def _deep(name: str, value: Any, safe: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _deep(f"{name}[{encoded(key)}]", one, safe)
    elif isinstance(value, list):
        for one in value:
            yield from _deep(f"{name}[]" if isinstance(one, dict | list) else name, one, safe)
    else:
        yield f"{name}={encoded(value, safe)}"


def in_header(parameter: Parameter, value: Any) -> str:
    """The value of a header.

    Raises:
        ToolFailure: `invalid_arguments`, it holds a character that could begin another.
    """
    text = json.dumps(value) if parameter.json else ",".join(_pieces(value, as_text, parameter.explode))
    if not (text.isascii() and text.isprintable()):
        raise ToolFailure("invalid_arguments", f"{parameter.name}: holds a character that a header cannot")
    return text.strip()


def in_cookie(parameter: Parameter, value: Any) -> str:
    """A `name=value` of the header `Cookie`."""
    pieces = [encoded(json.dumps(value))] if parameter.json else _pieces(value, encoded, False)
    return f"{encoded(parameter.wire)}={','.join(pieces)}"


def _pieces(value: Any, write: Any, explode: bool) -> Iterator[str]:
    """The parts of a value; those of an object as `key=value` or, not exploded, as key and value in turn."""
    if isinstance(value, list):
        yield from map(write, value)
    elif isinstance(value, dict) and explode:
        yield from (f"{write(key)}={write(one)}" for key, one in value.items())
    elif isinstance(value, dict):
        for key, one in value.items():
            yield write(key)
            yield write(one)
    else:
        yield write(value)

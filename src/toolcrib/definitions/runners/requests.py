"""Requests of web services: their templates, and what becomes of the arguments that no template has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from toolcrib.definitions.definition import NOTHING, Command, ToolDefinition
from toolcrib.definitions.runners import templates
from toolcrib.definitions.runners.templates import ABSENT, Absent, BadTemplate, JsonTemplate, Placeholder, TextTemplate
from toolcrib.errors import ToolFailure

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
IN_QUERY = ("GET", "HEAD", "DELETE")
_OWN = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LITERAL = "/%:@!$&'()*+,;=~?[]"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that can be made. Queries and headers are still added to."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    content: bytes | None

    @property
    def path_and_query(self) -> str:
        """Path and query as they are sent."""
        more = urlencode(self.query, quote_via=quote)
        mark = "&" if "?" in self.path else "?"
        return f"{self.path}{mark}{more}" if more else self.path


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """The templates of a request."""

    method: str
    path: TextTemplate
    query: Mapping[str, JsonTemplate]
    headers: Mapping[str, TextTemplate]
    body: JsonTemplate | None

    @classmethod
    def read(cls, base: str, definition: ToolDefinition, command: Command) -> RequestTemplate:
        """Read a command.

        Raises:
            BadTemplate: a part of it is not what it has to be.
        """
        fields = command.fields
        method = str(fields.get("method") or "GET").upper()
        if method not in METHODS:
            raise BadTemplate("method", f"{method!r} is none of {', '.join(METHODS)}")
        path = fields.get("path") or ""
        if not isinstance(path, str):
            raise BadTemplate("path", "it is a text")
        query = {str(name): templates.json(value, f"query.{name}") for name, value in _mapping(fields, "query").items()}
        headers = {**_mapping(definition.specific, "headers"), **_mapping(fields, "headers")}
        body = None if fields.get("body") is None else templates.json(fields["body"], "body")
        return cls(method, _path(base, path), query, {n: _header(n, v) for n, v in headers.items()}, body)

    @property
    def places(self) -> tuple[Placeholder, ...]:
        """All place-holders."""
        return tuple(self._places())

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments without which there is no address."""
        return tuple(place.root for place in self.path.places)

    def _places(self) -> Iterator[Placeholder]:
        yield from self.path.places
        parts: list[JsonTemplate | TextTemplate] = [*self.query.values(), *self.headers.values()]
        for part in parts if self.body is None else [*parts, self.body]:
            yield from part.places

    def fill(self, values: Mapping[str, Any]) -> Prepared:
        """The request of one call.

        Raises:
            ToolFailure: `invalid_arguments`, a value cannot stand where it is wanted.
        """
        placed = {place.root for place in self.places}
        rest = {name: value for name, value in values.items() if name not in placed}
        query = [pair for name, part in self.query.items() for pair in _pairs(name, part.fill(values))]
        headers = dict(self._headers(values))
        body = ABSENT if self.body is None else self.body.fill(values)
        if self.method in IN_QUERY or not (body is ABSENT or isinstance(body, dict)):
            query += [pair for name, value in rest.items() for pair in _pairs(name, value)]
        elif rest:
            body = {**rest, **(body if isinstance(body, dict) else {})}
        return Prepared(self.method, self._address(values), query, headers, _content(body, headers))

    def _address(self, values: Mapping[str, Any]) -> str:
        """The path; a value is one piece of it, and neither empty nor a way up."""
        for place in self.path.places:
            value = place.value(values)
            if value in (None, ABSENT, ""):
                raise ToolFailure("invalid_arguments", f"{place.path} is required")
        filled = self.path.fill(values, _quoted)
        assert isinstance(filled, str)
        if self.path.places and any(piece in (".", "..") for piece in filled.partition("?")[0].split("/")):
            names = ", ".join(place.path for place in self.path.places)
            raise ToolFailure("invalid_arguments", f"{names}: '.' and '..' cannot be part of an address")
        return filled

    def _headers(self, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for name, part in self.headers.items():
            filled = part.fill(values)
            if isinstance(filled, Absent):
                continue
            if not (filled.isprintable() and filled.isascii()):
                raise ToolFailure("invalid_arguments", f"The header {name} holds a character that it cannot")
            yield name, filled


def _mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name) or NOTHING
    if not isinstance(value, Mapping):
        raise BadTemplate(name, "it is a mapping")
    return value


def _path(base: str, path: str) -> TextTemplate:
    """The path of the address and the command's own, one after the other."""
    before = urlsplit(base)
    whole = f"{before.path.rstrip('/')}/{path.lstrip('/')}" if path else before.path or "/"
    if before.query:
        whole += f"{'&' if '?' in whole else '?'}{before.query}"
    read = templates.text(whole.partition("#")[0], "path")
    return TextTemplate(
        tuple(part if isinstance(part, Placeholder) else quote(part, safe=_LITERAL) for part in read.parts)
    )


def _header(name: str, value: Any) -> TextTemplate:
    if not _NAME.fullmatch(name) or name.lower() in _OWN:
        raise BadTemplate(f"headers.{name}", "this header cannot be set")
    if isinstance(value, Mapping | tuple | list) or value is None:
        raise BadTemplate(f"headers.{name}", "it is a text")
    return templates.text(templates.as_text(value), f"headers.{name}")


def _quoted(value: Any) -> str:
    return quote(_encodable(templates.as_text(value)), safe="")


def _pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """A value in a query: a list is named as often as it has elements, and nothing is left out."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if one is not None and one is not ABSENT:
            yield name, _encodable(templates.as_text(one))


def _content(body: Any, headers: dict[str, str]) -> bytes | None:
    if body is ABSENT:
        return None
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    if isinstance(body, str) and kind is not None and "json" not in kind:
        return _encodable(body).encode()
    if kind is None:
        headers["Content-Type"] = "application/json"
    return msgspec.json.encode(body)


def _encodable(text: str) -> str:
    """A text that can be sent; a model may write half of a pair of characters."""
    return text.encode(errors="replace").decode()

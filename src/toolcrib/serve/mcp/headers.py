"""Headers that repeat what the body says, for those who route by them: they have to say the same."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import UNSET

from toolcrib.serve.mcp.wire import HEADER_MISMATCH, McpMessage, ProtocolError, decode
from toolcrib.serve.principal import Headers
from toolcrib.tool import Tool

log = logging.getLogger("toolcrib.serve")
VERSION = b"mcp-protocol-version"
METHOD = b"mcp-method"
NAME = b"mcp-name"
PARAM = b"mcp-param-"
_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "task_id",
    "tasks/update": "task_id",
    "tasks/cancel": "task_id",
}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SIMPLE = ("string", "integer", "boolean")


def check_once(headers: Headers, header_list: list[tuple[bytes, bytes]]) -> None:
    """Raises `ProtocolError` where a header that counts comes twice: two readers might believe different ones."""
    if len(headers) == len(header_list):
        return
    names = [name for name, _ in header_list if name.startswith(b"mcp-")]
    if len(set(names)) < len(names):
        raise ProtocolError(HEADER_MISMATCH, "Header mismatch: an Mcp header came twice")


def check_routing(headers: Headers, message: McpMessage) -> None:
    """Raises `ProtocolError` where method or name in the headers are not those of the body."""
    method = message.method
    assert isinstance(method, str)
    if _text(headers, METHOD) != method:
        raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: Mcp-Method must be {method}")
    field = _NAMED.get(method)
    if field is None or message.params is UNSET:
        return
    value = getattr(message.params, field)
    if NAME not in headers and field == "task_id":
        warn_of_missing(method)
    elif value is not UNSET and _text(headers, NAME) != value:
        raise ProtocolError(HEADER_MISMATCH, "Header mismatch: Mcp-Name must be the same as in the body")


@lru_cache
def warn_of_missing(method: str) -> None:
    """Warns, once for a method, of clients that leave the name of a task out of the headers.

    They are served: the id of a task cannot be guessed, it is looked up for its owner alone, and who routes by headers
    has routed already.
    """
    log.warning("a client sends %s without the header Mcp-Name, which the protocol demands; it is served", method)


def check_arguments(headers: Headers, tool: Tool, arguments: bytes) -> None:
    """Raises `ProtocolError` where a header that stands for an argument is missing or says something else."""
    marked = _marked(tool)
    if not marked:
        return
    try:
        values = decode(arguments)
    except ValueError:
        return  # told where the arguments are read
    for path, name in marked:
        value = _at(values, path)
        header = _text(headers, PARAM + name.lower().encode())
        if header != _written(value):
            raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: Mcp-Param-{name} must say what {'.'.join(path)} is")


def _text(headers: Headers, name: bytes) -> str | None:
    """A header as text; what is wrapped in base64 and cannot be read is no text at all."""
    raw = headers.get(name)
    if raw is None:
        return None
    text = raw.strip(b" \t").decode("latin-1")
    wrapped = _ENCODED.fullmatch(text)
    if wrapped is None:
        return text
    try:
        inside = base64.b64decode(wrapped[1], validate=True)
        if base64.b64encode(inside).decode() != wrapped[1]:
            raise ProtocolError(HEADER_MISMATCH, "Header mismatch: a value is no proper base64")
        return inside.decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ProtocolError(HEADER_MISMATCH, "Header mismatch: a value is no proper base64") from None


@lru_cache(10_000)
def _marked(tool: Tool) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The arguments that stand in headers, and under which names; none where the marks do not hold."""
    marked = tuple(_walk(tool.input_schema, ()))
    names = [name.lower() for _, name in marked]
    return marked if len(set(names)) == len(names) and all(map(_TOKEN.fullmatch, names)) else ()


def _walk(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(path) > 8:
        return
    for name, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue
        mark = inner.get("x-mcp-header")
        if isinstance(mark, str) and inner.get("type") in _SIMPLE:
            yield (*path, name), mark
        yield from _walk(inner, (*path, name))


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _written(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else None

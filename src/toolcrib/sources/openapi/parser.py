"""The text of a document as plain JSON data, whether it is JSON or YAML. Size, nesting and aliases are bounded.

Scalars of YAML follow its version 1.2, as OpenAPI asks for: `on`, `no` and dates are texts, and so is every key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from toolcrib import yaml
from toolcrib.errors import BadTool
from toolcrib.sources.json_parts import exceeds

MOST_BYTES = 32 * 1024 * 1024
MOST_PARTS = 2_000_000
"""Values of a document that is JSON: reading more would take seconds, in which nothing else runs."""

_LIMITS = yaml.YamlLimits(bytes=MOST_BYTES, levels=200, nodes=4_000_000)

_PAGE = re.compile(rb"\s*<(!doctype|html|\?xml|head|body|!--)", re.IGNORECASE)


class BadDocument(BadTool):
    """A document, or a part of one, that does not hold; `field` says where."""

    def __init__(self, document: str, field: str, problem: str) -> None:
        super().__init__(document, field, problem, document)
        self.args = (f"OpenAPI document {document}: {field}: {problem}" if field else f"{document}: {problem}",)


def shown(address: str) -> str:
    """An address as errors name it, which many may read: without a user, a query and what else may be secret in it.

    The place in a document that a reference names is none of that.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return "this"
    place = "" if parts.netloc else parts.fragment
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", place))


def read(text: bytes, name: str) -> dict[str, Any]:
    """The data of a document's text; `name` is what the document is called in errors.

    Raises:
        BadDocument: it is too large, no JSON or YAML, or no object.
    """
    if len(text) > MOST_BYTES:
        raise BadDocument(name, "", f"it has more than {MOST_BYTES // 1024 // 1024} MB, which is not read")
    text = text.removeprefix(b"\xef\xbb\xbf")
    if _PAGE.match(text):
        raise BadDocument(name, "", "this is a web page, no document; name the address of its openapi.json or .yaml")
    if text.lstrip()[:1] == b"{":
        if exceeds(text, MOST_PARTS):
            raise BadDocument(name, "", f"it has more than {MOST_PARTS:,} values, which is not read")
        data = _json(text, name)
    else:
        with yaml.collector_paused():
            data = _yaml(text, name)
    if not isinstance(data, dict):
        raise BadDocument(name, "", f"a document is an object with `openapi` and `paths`, not {type(data).__name__}")
    return data


def _json(text: bytes, name: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise BadDocument(name, "", "it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise BadDocument(name, *_where(text, problem)) from None


def _where(text: bytes, problem: Exception) -> tuple[str, str]:
    """The place of a mistake in JSON, which the fast reader does not tell."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}", f"this is no JSON: {error.msg}"
    except (ValueError, RecursionError):
        pass
    return "", f"this is no JSON: {problem}"


def _yaml(text: bytes, name: str) -> Any:
    try:
        document = yaml.parse(text.decode(), _LIMITS)
    except UnicodeDecodeError:
        raise BadDocument(name, "", "this is neither JSON nor YAML") from None
    bad = next((one for one in document.problems if one.code != "DUPLICATE_KEY"), None)
    if bad is not None:
        problem = bad.message.replace("Not readable as YAML", "this is neither JSON nor YAML")
        raise BadDocument(name, f"line {bad.line}, column {bad.column}", problem[0].lower() + problem[1:])
    return None if document.root is None else _data(document.root, name, {})


def _data(node: yaml.YamlNode, name: str, shared: dict[int, Any]) -> Any:
    """Return the data of a node; what aliases stand for is shared, as they may be many."""
    if node.written is not None:
        return node.value
    data = shared.get(id(node.children))
    if data is None:
        if "<<" in node.keys:
            mark = node.keys["<<"]
            problem = "a key is a text, and no merge (<<): write out what is merged"
            raise BadDocument(name, f"line {mark.line + 1}, column {mark.column + 1}", problem)
        children = {key: _data(child, name, shared) for key, child in node.children.items()}
        data = shared[id(node.children)] = children if isinstance(node.value, Mapping) else list(children.values())
    return data

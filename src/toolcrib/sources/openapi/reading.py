"""The text of a document as plain JSON data, whether it is JSON or YAML. Size, nesting and aliases are bounded.

Scalars of YAML follow its version 1.2, as OpenAPI asks for: `on`, `no` and dates are texts, and so is every key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from toolcrib.errors import BadTool
from toolcrib.sources.files.document import scalar

MOST_BYTES = 32 * 1024 * 1024
MOST_LEVELS = 200
MOST_NODES = 4_000_000

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
    data = _json(text, name) if text.lstrip()[:1] == b"{" else _yaml(text, name)
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
    import yaml

    try:
        return _Reader(name).read(text.decode())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        raise BadDocument(name, where, f"this is neither JSON nor YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadDocument(name, "", "this is neither JSON nor YAML") from None


class _Reader:
    """Builds data from the events of a YAML text. What an alias stands for is shared, and counted each time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes = 0
        self._open: list[tuple[Any, str | None, int]] = []
        self._keys: list[str | None] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._root: Any = None

    def read(self, text: str) -> Any:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        takes: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: lambda event: self._begin(event, {}),
            yaml.SequenceStartEvent: lambda event: self._begin(event, []),
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        for event in yaml.parse(text, Loader=loader):
            take = takes.get(type(event))
            if take is not None:
                take(event)
        return self._root

    def _document(self, event: Any) -> None:
        if self._nodes:
            raise self._bad(event, "the text holds more than one document")

    def _scalar(self, event: Any) -> None:
        quoted = not event.implicit[0] or (event.tag or "").endswith(":str")
        value = event.value if quoted or self._is_key() else scalar(event.value)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._put(event, value, 1)

    def _begin(self, event: Any, value: Any) -> None:
        if len(self._open) >= MOST_LEVELS:
            raise self._bad(event, f"it is nested deeper than {MOST_LEVELS} levels")
        self._put(event, value, 1)
        self._open.append((value, event.anchor, self._nodes))
        self._keys.append(None)

    def _end(self, event: Any) -> None:
        value, anchor, before = self._open.pop()
        self._keys.pop()
        if anchor:
            self._anchors[anchor] = (value, self._nodes - before + 1)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._bad(event, f"the alias *{event.anchor} stands for nothing, or for what it is part of")
        self._put(event, *self._anchors[event.anchor])

    def _is_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1][0], dict) and self._keys[-1] is None

    def _put(self, event: Any, value: Any, size: int) -> None:
        self._nodes += size
        if self._nodes > MOST_NODES:
            raise self._bad(event, f"it has more than {MOST_NODES:,} values, those behind aliases counted")
        if not self._open:
            self._root = value
        elif isinstance(holder := self._open[-1][0], list):
            holder.append(value)
        elif (key := self._keys[-1]) is None:
            if not isinstance(value, str) or value == "<<":
                raise self._bad(event, "a key is a text, and no merge (<<): write out what is merged")
            self._keys[-1] = value
        else:
            holder[key] = value
            self._keys[-1] = None

    def _bad(self, event: Any, problem: str) -> BadDocument:
        mark = event.start_mark
        return BadDocument(self._name, f"line {mark.line + 1}, column {mark.column + 1}", problem)

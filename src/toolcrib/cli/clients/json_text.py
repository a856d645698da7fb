"""JSON with comments, edited as text: what is not meant by a change stays as it is, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

_TRIVIA = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_LINE_REST = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\n\r]*)?(?=\r?\n|$)")
_SCALAR = re.compile(r"[^\s,\]}/]+")
_DECODER = json.JSONDecoder()
_CLOSING = {"{": "}", "[": "]"}


class JsonNode(NamedTuple):
    """A value and where it stands; `begin` is where its key begins, or the value itself in a list."""

    value: Any
    start: int
    end: int
    begin: int
    children: dict[str | int, JsonNode]


def parse(text: str) -> JsonNode:
    """Read a text, which may have comments and commas at the end of lists.

    Raises:
        ValueError: it is no JSON.
    """
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if start == len(text):
        return JsonNode({}, start, start, start, {})
    node = _value(text, start, start)
    if _skip(text, node.end) != len(text):
        raise ValueError(f"there is more after the end, at character {node.end}")
    return node


def insert(text: str, path: Path, value: Any) -> str:
    """Return the text with a value at a path; what is missing on the way is made.

    Raises:
        ValueError: something else stands on the way.
    """
    node, done = parse(text), 0
    while done < len(path) and path[done] in node.children:
        node, done = node.children[path[done]], done + 1
    if done == len(path):
        indent = _indent_at(text, node.begin)
        return text[: node.start] + _written(text, value, indent) + text[node.end :]
    for step in reversed(path[done + 1 :]):
        value = [value] if isinstance(step, int) else {step: value}
    return _added(text, node, path[done], value)


def remove(text: str, path: Path) -> str:
    """Return the text without what stands at a path."""
    *way, last = path
    parent = parse(text)
    for step in way:
        parent = parent.children[step]
    node = parent.children[last]
    before = [one for one in parent.children.values() if one.end <= node.begin]
    begin, end = node.begin, node.end
    after = _skip(text, end)
    if text[after : after + 1] == ",":
        end = after + 1
        begin, end = _whole_lines(text, begin, end)
        return text[:begin] + text[end:]
    begin, end = _whole_lines(text, begin, end)
    if before:
        comma = text.index(",", _skip(text, before[-1].end))
        return text[:comma] + text[comma + 1 : begin] + text[end:]
    inner = text[parent.start + 1 : begin] + text[end : parent.end - 1]
    return text[: parent.start + 1] + ("" if not inner.strip() else inner) + text[parent.end - 1 :]


def _whole_lines(text: str, begin: int, end: int) -> tuple[int, int]:
    """The place with the line break before it, where nothing else stands on its lines; else with the blanks after."""
    line = text.rfind("\n", 0, begin)
    rest = _LINE_REST.match(text, end)
    if line >= 0 and not text[line:begin].strip() and rest is not None and not rest[0].strip():
        return line - (text[line - 1 : line] == "\r"), rest.end()
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return begin, end


def _skip(text: str, at: int) -> int:
    match = _TRIVIA.match(text, at)
    return at if match is None else match.end()


def _value(text: str, at: int, begin: int) -> JsonNode:
    if text[at : at + 1] in _CLOSING:
        return _container(text, at, begin)
    if text[at : at + 1] == '"':
        value, end = _DECODER.raw_decode(text, at)
        return JsonNode(value, at, end, begin, {})
    match = _SCALAR.match(text, at)
    if match is None:
        raise ValueError(f"a value is missing at character {at}")
    return JsonNode(json.loads(match[0]), at, match.end(), begin, {})


def _container(text: str, at: int, begin: int) -> JsonNode:
    closing, children = _CLOSING[text[at]], dict[str | int, JsonNode]()
    here = _skip(text, at + 1)
    while text[here : here + 1] != closing:
        key: str | int = len(children)
        first = here
        if closing == "}":
            key, here = _key(text, here)
        node = _value(text, here, first)
        children[key] = node
        here = _skip(text, node.end)
        if text[here : here + 1] == ",":
            here = _skip(text, here + 1)
        elif text[here : here + 1] != closing:
            raise ValueError(f"a comma or {closing} is missing at character {here}")
    values = {key: one.value for key, one in children.items()}
    value: Any = values if closing == "}" else [*values.values()]
    return JsonNode(value, at, here + 1, begin, children)


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise ValueError(f"a name in quotes is missing at character {at}")
    key, end = _DECODER.raw_decode(text, at)
    colon = _skip(text, end)
    if text[colon : colon + 1] != ":":
        raise ValueError(f"a colon is missing at character {colon}")
    return key, _skip(text, colon + 1)


# Writing


def _added(text: str, node: JsonNode, key: str | int, value: Any) -> str:
    """The text with a new last entry of an object or a list."""
    if not isinstance(node.value, dict | list) or isinstance(node.value, list) != isinstance(key, int):
        raise ValueError(f"there is no place for {key!r}")
    name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
    if node.start == node.end:  # an empty file
        return f"{text}{{\n  {name}{_written(text, value, '  ')}\n}}\n"
    line = "\r\n" if "\r\n" in text else "\n"
    children = [*node.children.values()]
    if not children:
        outer = _indent_at(text, node.begin)
        indent = outer + _unit(text)
        blank = not text[node.start + 1 : node.end - 1].strip()
        entry = f"{line}{indent}{name}{_written(text, value, indent)}"
        rest = f"{line}{outer}{text[node.end - 1 :]}" if blank else text[node.start + 1 :]
        return text[: node.start + 1] + entry + rest
    last = children[-1]
    if "\n" not in text[node.start : last.begin]:
        return f"{text[: last.end]}, {name}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
    indent = _indent_at(text, last.begin)
    entry = f"{line}{indent}{name}{_written(text, value, indent)}"
    comma = _skip(text, last.end)
    if text[comma] == ",":
        place = _after_rest(text, comma + 1)
        return f"{text[:place]}{entry},{text[place:]}"
    place = _after_rest(text, last.end)
    return f"{text[: last.end]},{text[last.end : place]}{entry}{text[place:]}"


def _after_rest(text: str, at: int) -> int:
    """The end of a line after a place, where only blanks and comments stand between; else the place."""
    rest = _LINE_REST.match(text, at)
    return at if rest is None else rest.end()


def _written(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return ("\r\n" if "\r\n" in text else "\n").join([lines[0], *(indent + line for line in lines[1:])])


def _indent_at(text: str, at: int) -> str:
    """The blanks before what begins the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """The blanks of one level."""
    return min(_indents(text), key=len, default="  ")


def _indents(text: str) -> Iterator[str]:
    for match in re.finditer(r"^([ \t]+)\"", text, re.MULTILINE):
        yield match[1]

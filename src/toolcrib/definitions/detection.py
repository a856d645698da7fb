"""How the payload of a message is recognised: by a `detect` block, or by simple words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.definitions.argument_checks import ABSENT, TYPES, BadCheck, at, is_type, pattern, same
from toolcrib.definitions.values import text
from toolcrib.yaml import thaw

_NAME = r"[A-Za-z_$][\w$-]*(?:\.[\w$-]+|\[\d+\])*"
_PROSE = re.compile(rf"(?P<name>{_NAME})(\s+(?P<kind>field|array|object))?(\s+exists)?(\s+in\s+root)?")
_TERM = re.compile(rf"(?P<no>!?)\s*(?P<name>{_NAME})(\s*={{2,3}}\s*(?P<text>'[^']*'|\"[^\"]*\"))?")

Detects = Callable[[Any], bool]


def detection(schema: Mapping[str, Any]) -> Detects | None:
    """Return how a payload schema is recognised; None where its condition is not understood."""
    condition = schema.get("detect")
    try:
        return detector(condition) if condition else prose(text(schema.get("detection")))
    except BadCheck:
        return None


def prose(description: str) -> Detects | None:
    """Parse a detection in prose; None if it is not understood."""
    simple = _PROSE.fullmatch(description.strip())
    if simple is not None and simple[0] != simple["name"]:
        return _exists(simple["name"], simple["kind"])
    terms = [_TERM.fullmatch(term.strip()) for term in description.split("&&")]
    read = [_term(term) for term in terms if term is not None and not (term["no"] and term["text"])]
    return (lambda data: all(each(data) for each in read)) if len(read) == len(terms) else None


def _term(term: re.Match[str]) -> Detects:
    name, quoted = term["name"], term["text"]
    if quoted is not None:
        return lambda data: bool(at(data, name) == quoted[1:-1])
    wanted = not term["no"]
    return lambda data: (at(data, name) not in (ABSENT, None, False, 0, "")) is wanted


def _exists(path: str, kind: str | None = None) -> Detects:
    if kind in ("array", "object"):
        return lambda data: is_type(at(data, path), kind)
    return lambda data: at(data, path) not in (ABSENT, None)


def detector(condition: Any) -> Detects:
    """Parse a `detect` of a payload schema.

    Raises:
        BadCheck: it is invalid.
    """
    match condition:
        case {"exists": str(path)}:
            return _exists(path)
        case {"path": str(path), "equals": value}:
            wanted = thaw(value)
            return lambda data: same(at(data, path), wanted)
        case {"path": str(path), "matches": str(expression)}:
            matches = pattern(expression)
            return lambda data: isinstance(at(data, path), str) and matches(at(data, path))
        case {"path": str(path), "type": str(kind)} if kind in TYPES:
            return lambda data: at(data, path) is not ABSENT and is_type(at(data, path), kind)
        case {"not": inner}:
            refused = detector(inner)
            return lambda data: not refused(data)
        case {"all": [*inners]} | {"any": [*inners]}:
            every, each = "all" in condition, [detector(inner) for inner in inners]
            return lambda data: (all if every else any)(detects(data) for detects in each)
        case _:
            raise BadCheck("'detect' says nothing that can be found")

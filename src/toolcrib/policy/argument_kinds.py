"""What a schema says of the kinds of arguments: `"x-toolcrib-kind": "path"` and the like, never a name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from toolcrib.schema.positions import resolve

Kind = Literal["path", "glob", "url", "command", "argv", "cwd", "text", "secret"]
STRICT: dict[Kind, int] = {"text": 0, "glob": 1, "path": 2, "url": 3, "cwd": 4, "argv": 5, "command": 6, "secret": 7}
"""Where two places tell different kinds, the higher one counts."""

_KINDS: dict[str, Kind] = {kind: kind for kind in STRICT}
_SAME = ("allOf", "anyOf", "oneOf", "if", "then", "else")
_MOST = 10_000  # a schema may refer to itself, in many places
_DEEPEST = 12


def declared(schema: Mapping[str, Any]) -> dict[str, Kind]:
    """The kinds that a schema tells, by path (`a.b`, `paths[*]`)."""
    kinds: dict[str, Kind] = {}
    root = dict(schema)
    waiting: deque[tuple[Any, str, int]] = deque([(root, "", 0)])
    for _ in range(_MOST):
        if not waiting:
            break
        node, path, depth = waiting.popleft()
        if not isinstance(node, Mapping) or depth > _DEEPEST:
            continue
        if path:
            note(kinds, path, _kind(node))
        waiting += ((inner, place, depth + 1) for inner, place in _inside(node, root, path))
    return kinds


def note(kinds: dict[str, Kind], path: str, kind: Kind | None) -> None:
    """Add what is told of a place, unless something stricter is known."""
    if kind is not None and (path not in kinds or STRICT[kind] > STRICT[kinds[path]]):
        kinds[path] = kind


def _kind(node: Mapping[str, Any]) -> Kind | None:
    if node.get("format") == "password":
        return "secret"
    declared_kind = node.get("x-toolcrib-kind")
    return _KINDS.get(declared_kind) if isinstance(declared_kind, str) else None


def _inside(node: Mapping[str, Any], root: dict[str, Any], path: str) -> Iterator[tuple[Any, str]]:
    """The schemas that speak of the same place, and those of the places directly inside."""
    if isinstance(node.get("$ref"), str):
        yield resolve(root, node["$ref"]), path
    for key in _SAME:
        for branch in _list(node.get(key)):
            yield branch, path
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        for name, inner in properties.items():
            yield inner, f"{path}.{name}" if path else str(name)
    for key in ("items", "prefixItems"):
        for inner in _list(node.get(key)):
            yield inner, f"{path}[*]"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

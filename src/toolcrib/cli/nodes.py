"""The nodes of a YAML file as values that a person is told of: each mistake with the node that it stands at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from toolcrib.cli.terminal import short

_WORDS = {str: "a text", int: "a whole number", float: "a number", list: "a list", dict: "a mapping"}


class Wrong(Exception):
    """A value that can not be used, at a node; `part` is the piece of it that is meant."""

    def __init__(self, message: str, node: yaml.Node | None = None, part: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.part = part

    def place(self, otherwise: yaml.Node) -> tuple[int, int | None]:
        """Its line, and its column where one part of a node is meant; both counted from one."""
        node = self.node or otherwise
        text = node.start_mark.buffer or ""
        at = text.find(self.part, node.start_mark.pointer, node.end_mark.pointer) if self.part else -1
        if at < 0:
            return line(node), None
        return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def line(node: yaml.Node) -> int:
    """The line of a node, counted from one."""
    return int(node.start_mark.line) + 1


def scalars(node: yaml.Node) -> Iterator[yaml.Node]:
    """The single values in a node: itself, or all those below it."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    for below in node.value if isinstance(node, yaml.CollectionNode) else ():
        yield from scalars(below[1] if isinstance(below, tuple) else below)


def plain(node: yaml.Node) -> Any:
    """What a node holds."""
    return yaml.constructor.SafeConstructor().construct_document(node)


def _expected(node: yaml.Node, kind: type) -> Wrong:
    said = short(str(plain(node)), 40)
    return Wrong(f"expected {_WORDS[kind]}, got {said!r}", node)


def text(node: yaml.Node) -> str:
    """A text that is not empty.

    Raises:
        Wrong: it is none.
    """
    value = plain(node)
    if not isinstance(value, str) or not value.strip():
        raise _expected(node, str)
    return value


def number(node: yaml.Node, kind: type, name: str) -> int | float:
    """A number above zero; `name` says of what.

    Raises:
        Wrong: it is none.
    """
    value = plain(node)
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        raise Wrong(f"{name}: {_expected(node, kind)}", node)
    if not value > 0:
        raise Wrong(f"{name}: must be more than 0, not {value}", node)
    return kind(value)  # type: ignore[no-any-return]


def items(node: yaml.Node) -> list[yaml.Node]:
    """The entries of a list.

    Raises:
        Wrong: it is none.
    """
    if not isinstance(node, yaml.SequenceNode):
        raise _expected(node, list)
    return list(node.value)


def pairs(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """The keys and values of a mapping.

    Raises:
        Wrong: it is none.
    """
    if not isinstance(node, yaml.MappingNode):
        raise _expected(node, dict)
    yield from node.value


def unknown(key: str, known: list[str]) -> str:
    """That a key is not known, and which was meant."""
    from toolcrib.schema import nearest

    close = nearest(str(key), known, 1)
    guess = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"
    return f"unknown key '{key}'; {guess}"


def known(node: yaml.Node, *names: str) -> dict[str, yaml.Node]:
    """The values of a mapping by their keys, all of which are known.

    Raises:
        Wrong: it is no mapping, or one is not.
    """
    for key, _ in pairs(node):
        if key.value not in names:
            raise Wrong(unknown(key.value, [*names]), key)
    return {key.value: value for key, value in pairs(node)}


def texts(node: yaml.Node) -> tuple[str, ...]:
    """A text, or a list of texts, as several.

    Raises:
        Wrong: it is neither.
    """
    return tuple(map(text, items(node))) if isinstance(node, yaml.SequenceNode) else (text(node),)

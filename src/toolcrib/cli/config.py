"""`crib.yaml`: what a project's crib is made of. Every problem is found in one go, each with its line.

sources: [shop, shop:refund, tools/mail.py]     # a module, something in a module, a file
store: sqlite:///shop.db                        # a relative path starts at this file
retention: 7d                                   # null keeps everything
limits: {timeout_s: 30}
default_namespaces: [shop]
namespace_aliases: {store: shop}
precedence: [shop]
state_keys: {visits: add}
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

import yaml

from toolcrib.cli.importing import BadSource, from_file, from_module, importable
from toolcrib.cli.terminal import Trouble, short

if TYPE_CHECKING:
    from toolcrib.crib import Crib

log = logging.getLogger("toolcrib.cli")
NAME = "crib.yaml"
LATER = ("policy", "agents", "engine")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MODES = ("exclusive", "add", "append", "merge")
_WORDS = {str: "a text", int: "a whole number", float: "a number", list: "a list", dict: "a mapping"}


class Problem(NamedTuple):
    """One thing that is wrong with a file, and on which line."""

    line: int
    message: str


class BadConfig(Trouble):
    """A `crib.yaml` that does not hold, with everything that is wrong in it."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        lines = [f"{path}:{problem.line}: {problem.message}" for problem in sorted(problems)]
        super().__init__("\n".join(lines), f"mend {path.name} and try again", code="config")
        self.problems = problems


class _Wrong(Exception):
    """A value that can not be used, at a node."""

    def __init__(self, message: str, node: yaml.Node | None = None) -> None:
        super().__init__(message)
        self.node = node


def load(path: Path) -> Crib:
    """The crib that a file describes.

    Raises:
        BadConfig: something in it does not hold.
    """
    return _Reading(path).crib()


class _Reading:
    """One pass over a file, gathering problems."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path.resolve().parent
        self.problems: list[Problem] = []
        self.line_of: dict[str, int] = {}

    def crib(self) -> Crib:
        from toolcrib.crib import Crib
        from toolcrib.errors import ToolcribError

        given = self._values(self._root())
        if not self.problems:
            try:
                return Crib(given.pop("sources", ()), **given)
            except ToolcribError as error:  # two tools of one name, or a store that nobody knows
                key = "store" if "store" in str(error).lower() else "sources"
                self.problems.append(Problem(self.line_of.get(key, 1), str(error)))
        raise BadConfig(self.path, self.problems)

    def _root(self) -> yaml.Node | None:
        try:
            root: yaml.Node | None = yaml.compose(self.path.read_text("utf-8"), yaml.SafeLoader)
            return root
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = ", ".join(part for part in (error.context, error.problem) if part)
            raise BadConfig(self.path, [Problem(mark.line + 1 if mark else 1, f"this is no YAML: {said}")]) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise BadConfig(self.path, [Problem(1, f"this is no YAML: {short(str(error))}")]) from None
        except OSError as error:
            raise Trouble(f"Can not read {self.path}: {error.strerror}", "check the path and its permissions") from None

    def _values(self, root: yaml.Node | None) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if root is None:
            return given
        try:
            for key, node in _pairs(root):
                self._take(key.value, key, node, given)
        except _Wrong as wrong:
            self._wrong(wrong, root)
        return given

    def _take(self, key: str, at: yaml.Node, node: yaml.Node, given: dict[str, Any]) -> None:
        try:
            if key in self.line_of:
                raise _Wrong(f"'{key}' stands here a second time (first on line {self.line_of[key]})")
            self.line_of[key] = _line(at)
            if key in LATER:
                raise _Wrong(f"'{key}' is not supported yet; it comes with a later version: take it out for now")
            if key not in _READERS:
                raise _Wrong(_unknown(key, [*_READERS]))
            given[key] = _READERS[key](self, node)
        except _Wrong as wrong:
            self._wrong(wrong, at)

    def _wrong(self, wrong: _Wrong, node: yaml.Node) -> None:
        self.problems.append(Problem(_line(wrong.node or node), str(wrong)))

    # One function a key

    def sources(self, node: yaml.Node) -> list[Any]:
        from toolcrib.errors import BadTool
        from toolcrib.sources import as_source

        importable(self.folder)
        found: list[Any] = []
        for item in _items(node):
            try:
                found += [as_source(one) for one in self._source(_text(item))]
            except (_Wrong, BadSource, BadTool) as error:
                log.debug("a source does not load", exc_info=error)
                self._wrong(_Wrong(str(error), item), item)
        return found

    def _source(self, given: str) -> list[Any]:
        value = from_file(self.folder / given) if given.endswith(".py") else from_module(given)
        return list(value) if isinstance(value, list | tuple) else [value]

    def store(self, node: yaml.Node) -> str:
        return beside(self.folder, _text(node))

    def retention(self, node: yaml.Node) -> timedelta | None:
        value = _plain(node)
        if value is None:
            return None
        parts = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
        if parts is None:
            raise _Wrong(f"retention: expected a time such as 12h, 7d or null, got {value!r}", node)
        return timedelta(**{_UNITS[parts[2]]: float(parts[1])})

    def limits(self, node: yaml.Node) -> Any:
        from toolcrib.types import CribLimits

        known = {field.name: type(field.default) for field in dataclasses.fields(CribLimits)}
        given: dict[str, Any] = {}
        for key, value in _pairs(node):
            try:
                if key.value not in known:
                    raise _Wrong(f"limits: {_unknown(key.value, [*known])}")
                given[key.value] = _number(value, known[key.value], f"limits.{key.value}")
            except _Wrong as wrong:
                self._wrong(wrong, key)
        return CribLimits(**given)

    def names(self, node: yaml.Node) -> tuple[str, ...]:
        return tuple(_text(item) for item in _items(node))

    def aliases(self, node: yaml.Node) -> dict[str, str]:
        return {key.value: _text(value) for key, value in _pairs(node)}

    def state_keys(self, node: yaml.Node) -> dict[str, str]:
        given = self.aliases(node)
        for key, value in _pairs(node):
            if given[key.value] not in _MODES:
                raise _Wrong(f"state_keys.{key.value}: expected one of {', '.join(_MODES)}", value)
        return given


_READERS: dict[str, Callable[[_Reading, yaml.Node], Any]] = {
    "sources": _Reading.sources,
    "store": _Reading.store,
    "limits": _Reading.limits,
    "retention": _Reading.retention,
    "namespace_aliases": _Reading.aliases,
    "default_namespaces": _Reading.names,
    "precedence": _Reading.names,
    "state_keys": _Reading.state_keys,
}


def beside(folder: Path, url: str) -> str:
    """A store's URL whose relative file lies in that folder."""
    head, slashes, rest = url.partition("sqlite:///")
    path, mark, query = rest.partition("?")
    if head or not slashes or not path or path.startswith("/"):
        return url
    return f"sqlite:///{quote(str(folder / unquote(path)))}{mark}{query}"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _plain(node: yaml.Node) -> Any:
    return yaml.constructor.SafeConstructor().construct_document(node)


def _expected(node: yaml.Node, kind: type) -> _Wrong:
    said = short(str(_plain(node)), 40)
    return _Wrong(f"expected {_WORDS[kind]}, got {said!r}", node)


def _text(node: yaml.Node) -> str:
    value = _plain(node)
    if not isinstance(value, str) or not value.strip():
        raise _expected(node, str)
    return value


def _number(node: yaml.Node, kind: type, name: str) -> int | float:
    value = _plain(node)
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        raise _Wrong(f"{name}: {_expected(node, kind)}", node)
    if not value > 0:
        raise _Wrong(f"{name}: must be more than 0, not {value}", node)
    return kind(value)  # type: ignore[no-any-return]


def _items(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise _expected(node, list)
    return list(node.value)


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        raise _expected(node, dict)
    yield from node.value


def _unknown(key: str, known: list[str]) -> str:
    from toolcrib.schema import nearest

    close = nearest(str(key), known, 1)
    guess = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"
    return f"unknown key '{key}'; {guess}"

"""The one reader of YAML: frozen values with their positions. It is safe and total: whatever is wrong is a problem.

Scalars follow the core schema of YAML 1.2, so that `yes`, `on` and dates are text. The text is read as a stream of
events: nesting and size are bounded while it is read, and an alias counts as what it stands for without being copied.
"""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NoReturn, Protocol

Severity = Literal["error", "warning", "info"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """Something that is wrong with a file; `path` leads to it in the document (`tool.commands[0].name`)."""

    code: str
    severity: Severity
    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """How large a text may be, how deep its nesting, and how many values it may have, those behind aliases counted."""

    bytes: int = 1024 * 1024
    levels: int = 64
    nodes: int = 100_000


FILES = YamlLimits()
"""The limits of every file that people write by hand."""

_NULL = ("", "~", "null", "Null", "NULL")
_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = (".nan", ".NaN", ".NAN")
_STARTS = frozenset("+-.0123456789~nNtTfF")
_CORE = "tag:yaml.org,2002:"
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_PLAIN_KEY = re.compile(r"[^.\[\]]+")


class YamlMark(Protocol):
    """A place in the text, all counted from 0."""

    line: int
    column: int
    index: int


class YamlNode:
    """A value and where it stands. `written` is a scalar as the author wrote it; `size` counts it and all inside."""

    __slots__ = ("children", "end", "flow", "height", "keys", "size", "start", "value", "written")

    def __init__(self, value: Any, start: YamlMark, end: YamlMark, written: str | None = None) -> None:
        self.value = value
        self.start = start
        self.end = end
        self.written = written
        self.keys: dict[str, YamlMark] = _NO_KEYS
        self.children: dict[str | int, YamlNode] = _NO_CHILDREN
        self.flow = False
        self.size = 1
        self.height = 1

    def at(self, start: YamlMark, end: YamlMark) -> YamlNode:
        """The same, where an alias stands for it."""
        other = copy(self)
        other.start, other.end = start, end
        return other


_NO_KEYS: dict[str, YamlMark] = {}
_NO_CHILDREN: dict[str | int, YamlNode] = {}


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """What a text holds. `root` is None for one that is empty or cannot be read at all."""

    root: YamlNode | None
    problems: tuple[YamlProblem, ...] = ()

    @property
    def value(self) -> Any:
        """The value of the whole, frozen."""
        return None if self.root is None else self.root.value

    def node(self, path: Path) -> YamlNode | None:
        """What stands there."""
        node = self.root
        for step in path:
            node = None if node is None else node.children.get(step)
        return node

    def place(self, path: Path) -> tuple[int, int]:
        """The line and column of what stands there, counted from 1; of what it is missing from where it is absent."""
        node, key = self.root, None
        for step in path:
            inner = None if node is None else node.children.get(step)
            if node is None or inner is None:
                break
            key = node.keys.get(step) if isinstance(step, str) else None
            node = inner
        if node is None:
            return (1, 1)
        mark = node.start if key is None or node.written is not None else key
        return (mark.line + 1, mark.column + 1)


def parse(text: str, limits: YamlLimits = FILES) -> YamlDocument:
    """Read a text that holds one document."""
    document = _YamlReader(limits).read(text)
    if document.root is None and text.lstrip("\ufeff \t\r\n").startswith("{") and _PAIR.search(text):
        return _YamlReader(limits).read(_PAIR.sub(_joined, text))
    return document


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would look at all nodes of a large document again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _joined(pair: re.Match[str]) -> str:
    """A character that JSON writes as two halves, as YAML writes it."""
    whole = 0x10000 + ((int(pair[2], 16) & 0x3FF) << 10) + (int(pair[3], 16) & 0x3FF)
    return f"{pair[1]}\\U{whole:08x}"


def dump(data: Any, *, flow: bool = False) -> str:
    """Write JSON data as YAML; with `flow` in one line."""
    import yaml

    options: dict[str, Any] = {"default_flow_style": True} if flow else {}
    written: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=10_000, **options)
    return written


def decoded(data: bytes | str) -> tuple[str, str]:
    """The text of a file with the name of its encoding; a byte order mark stays its first character.

    Raises:
        UnicodeDecodeError: it is no text.
    """
    if isinstance(data, str):
        return data, "utf-8"
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(data[:2], "utf-8")
    return data.decode(encoding), encoding


def freeze(value: Any) -> Any:
    """A copy of JSON data that nobody can change."""
    if isinstance(value, Mapping):
        return MappingProxyType({str(key): freeze(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(inner) for inner in value)
    return value


def thaw(value: Any) -> Any:
    """A copy as plain JSON data; what JSON has no word for, as infinity, becomes null."""
    if isinstance(value, Mapping):
        return {key: thaw(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def spelled(path: Path) -> str:
    """A path as people write it: `tool.commands[0].name`."""
    text = ""
    for step in path:
        if isinstance(step, int) or not _PLAIN_KEY.fullmatch(step):
            text += f"[{step}]" if isinstance(step, int) else f"[{step!r}]"
        else:
            text += f".{step}" if text else step
    return text


def scalar(text: str) -> Any:
    """What a plain scalar means by the core schema."""
    if text and text[0] not in _STARTS:
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return _number(text)


def _number(text: str) -> Any:
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
            return int(text, 0)
        if _FLOAT.fullmatch(text):
            return float(text)
    except ValueError:  # more digits than Python is willing to read
        return text
    if _INFINITE.fullmatch(text):
        return -math.inf if text[0] == "-" else math.inf
    return math.nan if text in _NAN else text


class _Stop(Exception):
    """Nothing more of the text can be read."""


@dataclass(slots=True, eq=False)
class _OpenNode:
    """A list or mapping that is still being read; `key` is the one that waits for its value."""

    node: YamlNode
    anchor: str | None
    mapping: bool
    key: str | None = None
    values: Any = None

    def holds(self) -> Any:
        return MappingProxyType(self.values) if self.mapping else tuple(self.values)


class _YamlReader:
    """Builds the value of a text from its events."""

    def __init__(self, limits: YamlLimits) -> None:
        self.limits = limits
        self.problems: list[YamlProblem] = []
        self.open: list[_OpenNode] = []
        self.anchors: dict[str, YamlNode] = {}
        self.roots: list[YamlNode] = []
        self.nodes = 0

    def read(self, text: str) -> YamlDocument:
        import yaml

        try:
            if len(text.encode()) > self.limits.bytes:
                self.fail("TOO_LARGE", f"The file has more than {self.limits.bytes // (1024 * 1024)} MB", None)
            self.events(text.removeprefix("\ufeff"))
        except UnicodeEncodeError as error:
            line, column = _line_and_column(text, error.start)
            self.problem("YAML_SYNTAX", "The text holds half a character (a lone surrogate)", line, column)
        except yaml.YAMLError as error:
            self.problems.append(_syntax(error, text))
        except _Stop:
            pass
        return YamlDocument(self.roots[0] if self.roots else None, tuple(self.problems))

    def events(self, text: str) -> None:
        from yaml import events
        from yaml._yaml import CParser

        parser = CParser(text)
        take: dict[type, Callable[[Any], None]] = {
            events.ScalarEvent: self.scalar,
            events.AliasEvent: self.alias,
            events.SequenceStartEvent: partial(self.begin, mapping=False),
            events.MappingStartEvent: partial(self.begin, mapping=True),
            events.SequenceEndEvent: self.end,
            events.MappingEndEvent: self.end,
            events.DocumentStartEvent: self.document,
        }
        try:
            while (event := parser.get_event()) is not None:
                handler = take.get(type(event))
                if handler is not None:
                    handler(event)
        finally:
            parser.dispose()

    # Events

    def document(self, event: Any) -> None:
        if self.roots:
            self.fail("YAML_SYNTAX", "The file holds a second document; one tool stands in one file", event)

    def scalar(self, event: Any) -> None:
        text: str = event.value
        holder = self.open[-1] if self.open else None
        if holder is not None and holder.mapping and holder.key is None:
            self.count(1, event)
            if event.anchor is not None:
                self.remember(event.anchor, YamlNode(text, event.start_mark, event.end_mark, text))
            self.begin_entry(holder, text, event.start_mark, event)
            return
        node = YamlNode(text, event.start_mark, event.end_mark, text)
        if event.implicit[0] and event.tag is None:
            node.value = scalar(text)
        elif event.tag not in (None, "!"):
            node.value = self.tagged(event, text)
        self.count(1, event)
        self.remember(event.anchor, node)
        self.add(node)

    def alias(self, event: Any) -> None:
        node = self.anchors.get(event.anchor)
        if node is None:
            self.fail("YAML_SYNTAX", f"The alias *{event.anchor} stands for nothing, or for what it is part of", event)
        self.count(node.size, event)
        if len(self.open) + node.height > self.limits.levels:
            self.too_deep(event)
        holder = self.open[-1] if self.open else None
        if holder is not None and holder.mapping and holder.key is None:
            if node.written is None:
                self.fail("YAML_SYNTAX", "A key is one word or text, not a list or mapping", event)
            self.begin_entry(holder, node.written, event.start_mark, event)
            return
        self.add(node.at(event.start_mark, event.end_mark))

    def begin(self, event: Any, mapping: bool) -> None:
        if self.open and self.open[-1].mapping and self.open[-1].key is None:
            self.fail("YAML_SYNTAX", "A key is one word or text, not a list or mapping", event)
        if len(self.open) >= self.limits.levels:
            self.too_deep(event)
        if not event.implicit and event.tag not in ("!", _CORE + ("map" if mapping else "seq")):
            self.refuse_tag(event)
        self.count(1, event)
        node = YamlNode(None, event.start_mark, event.end_mark)
        node.keys, node.children, node.flow = {}, {}, bool(event.flow_style)
        self.anchors.pop(event.anchor, None)  # inside, the name means nothing yet
        self.open.append(_OpenNode(node, event.anchor, mapping, values={} if mapping else []))

    def end(self, event: Any) -> None:
        closed = self.open.pop()
        node = closed.node
        node.value, node.end = closed.holds(), event.end_mark
        self.remember(closed.anchor, node)
        self.add(node)

    # What is built

    def begin_entry(self, holder: _OpenNode, key: str, start: YamlMark, event: Any) -> None:
        if key in holder.values:
            first = holder.node.keys[key].line + 1
            message = f"The key '{key}' stands here again; it is already in line {first}"
            self.problem(
                "DUPLICATE_KEY", message, start.line + 1, start.column + 1, self.path(key), "Remove one of them"
            )
        holder.key = key
        holder.node.keys.setdefault(key, start)

    def add(self, node: YamlNode) -> None:
        if not self.open:
            self.roots.append(node)
            return
        holder = self.open[-1]
        above = holder.node
        above.size += node.size
        if node.height >= above.height:
            above.height = node.height + 1
        if not holder.mapping:
            above.children[len(holder.values)] = node
            holder.values.append(node.value)
        elif holder.key is not None:
            if holder.key not in holder.values:  # of two with one name the first stands
                above.children[holder.key] = node
                holder.values[holder.key] = node.value
            holder.key = None

    def remember(self, anchor: str | None, node: YamlNode) -> None:
        if anchor is not None:
            self.anchors[anchor] = node

    def count(self, nodes: int, event: Any) -> None:
        self.nodes += nodes
        if self.nodes > self.limits.nodes:
            self.fail(
                "TOO_LARGE", f"The file has more than {self.limits.nodes:,} values, those behind aliases counted", event
            )

    def tagged(self, event: Any, text: str) -> Any:
        kind = event.tag.removeprefix(_CORE) if event.tag.startswith(_CORE) else ""
        value = text if kind == "str" else scalar(text)
        fits = {"str": str, "int": int, "float": int | float, "bool": bool, "null": type(None)}.get(kind)
        if fits is None or not isinstance(value, fits) or (isinstance(value, bool) and kind != "bool"):
            self.refuse_tag(event)
        return float(value) if kind == "float" else value

    # What is wrong

    def path(self, *more: str) -> str:
        above = (len(holder.values) if holder.key is None else holder.key for holder in self.open[:-1])
        return spelled((*above, *more))

    def refuse_tag(self, event: Any) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        message = f"The tag '{event.tag}' is not read: a file holds texts, numbers, lists and mappings, no objects"
        self.problem("YAML_SYNTAX", message, line, column, fix="Remove the tag")

    def too_deep(self, event: Any) -> NoReturn:
        self.fail("TOO_LARGE", f"The file is nested deeper than {self.limits.levels} levels", event)

    def fail(self, code: str, message: str, event: Any) -> NoReturn:
        mark = None if event is None else event.start_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        fix = "Move what is only knowledge into files of its own" if code == "TOO_LARGE" else None
        self.problem(code, message, line, column, fix=fix)
        raise _Stop

    def problem(self, code: str, message: str, line: int, column: int, path: str = "", fix: str | None = None) -> None:
        self.problems.append(YamlProblem(code, "error", message, path, line, column, fix))


def _line_and_column(text: str, index: int) -> tuple[int, int]:
    before = text[:index]
    return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1


_FIXES: Iterable[tuple[str, str]] = (
    ("cannot start any token", "Indent with spaces instead of tabs, and put text that begins with @, ` or % in quotes"),
    ("mapping values are not allowed", "Put text that holds ': ' in quotes"),
    ("could not find expected ':'", "Put ': ' between the key and its value, or indent a text of several lines"),
    ("did not find expected key", "Give all keys of a mapping the same indentation"),
    ("did not find expected '-' indicator", "Give all items of a list the same indentation"),
    ("did not find expected ',' or", "Close the bracket, or put a comma between the items"),
    ("unexpected end of stream", "Close the quotes"),
    ("found undefined alias", "Define the anchor before the alias, or put text that begins with * in quotes"),
    ("unknown escape character", "Write a backslash in double quotes twice, or use single quotes"),
)


def _syntax(error: Any, text: str) -> YamlProblem:
    """Describe an error of the parser in one line, with its usual fix."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    context = getattr(error, "context", None)
    if mark is not None:
        line, column = mark.line + 1, mark.column + 1
    else:
        line, column = _line_and_column(text, getattr(error, "position", 0) or 0)
    message = " ".join(f"{context}: {problem}".split() if context else problem.split())
    fix = next((fix for part, fix in _FIXES if part in message), None)
    return YamlProblem("YAML_SYNTAX", "error", f"Not readable as YAML: {message}", "", line, column, fix)

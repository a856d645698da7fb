"""Patterns of rules: which tools, and which of their calls. What does not parse is an error with its position.

    name   search_*   github.create_issue   github.*   /regex/
    shell(git *)                                the primary argument, by its kind
    edit(path ~ "docs/**", mode != "append")    any argument: ~ glob, = equal, =~ regex, and !~ != !=~
    mail.send(to from untrusted)                where a value of an agent comes from

A pattern without a dot is about names, one with a dot about ids too. This module reads patterns; what a condition says
of a value is in `conditions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from toolcrib.policy import expressions, globs
from toolcrib.policy.errors import BadRule
from toolcrib.policy.origin_conditions import ORIGINS
from toolcrib.schema import nearest
from toolcrib.tool import Tool

Op = Literal["~", "=", "=~", "from"]
Step = str | int | None
"""A key, an index, or None for all elements; the key `*` stands for every key."""

PRECISION: dict[Op, int] = {"=": 3, "~": 2, "=~": 1, "from": 1}

_NAME = re.compile(r"(?:\\.|\[[!^]?\]?[^\]]*\]|[^\s()\"',/=~])+")
_EXPRESSION = re.compile(r"/((?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[])*)/")
_PATH = re.compile(r"(?:\*|[^\W\d][\w-]*)(?:\.(?:\*|[\w-]+)|\[(?:\*|\d+)\])*")
_STEP = re.compile(r"\[(\*|\d+)\]|\.?([\w*-]+)")
_OP = re.compile(r"\s*(!?)(=~|~|=)\s*")
_FROM = re.compile(r"\s+from\s+([\w-]+)\s*(?=,|\)$)")
_STRING = re.compile(r"\"((?:\\.|[^\"\\])*)\"|'((?:\\.|[^'\\])*)'", re.DOTALL)
_QUOTED = re.compile(r"[^\s\"'~=!]*\s*!?(?:=~|~|=)\s*[\"']")
_BLANK = re.compile(r"\s*")


class Condition(NamedTuple):
    """What one argument must be like; without a path it is about the primary one."""

    path: str | None
    steps: tuple[Step, ...]
    op: Op
    negated: bool
    value: str

    @property
    def literal(self) -> int:
        """How many characters of its value stand for themselves."""
        if self.op == "=":
            return len(self.value)
        if self.op == "from":
            return 0
        return globs.literal(self.value) if self.op == "~" else expressions.literal(self.value)


class ToolPart(NamedTuple):
    """The part of a pattern that is about the tool."""

    form: Literal["exact", "glob", "regex"]
    text: str

    @property
    def rank(self) -> int:
        """Exact 3, glob 2, regex 1."""
        return {"exact": 3, "glob": 2, "regex": 1}[self.form]

    @property
    def of_ids(self) -> bool:
        """True if it says of which namespace it speaks."""
        return expressions.names_a_dot(self.text) if self.form == "regex" else "." in self.text

    @property
    def literal(self) -> int:
        """How many characters of it stand for themselves."""
        if self.form == "exact":
            return len(self.text)
        return globs.literal(self.text) if self.form == "glob" else expressions.literal(self.text)

    def covers(self, tool: Tool, strictly: bool = False) -> bool:
        """True if the tool is meant.

        `strictly` is for what loosens: a tool of an untrusted source must then be meant by its id, since it chose its
        name itself.
        """
        test = _test(self)
        if strictly and not tool.trusted:
            return self.of_ids and test(tool.id)
        return test(tool.name) or ((self.of_ids or self.form == "regex") and test(tool.id))


@lru_cache(16384)
def _test(part: ToolPart) -> Callable[[str], bool]:
    if part.form == "exact":
        return part.text.__eq__
    return globs.text(part.text) if part.form == "glob" else expressions.whole(part.text)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that was read; `text` is as written."""

    text: str
    tool: ToolPart
    conditions: tuple[Condition, ...] = ()

    @property
    def specificity(self) -> tuple[int, int, int]:
        """Number of conditions, rank of the tool part, precision of the conditions."""
        precision = sum(PRECISION[condition.op] for condition in self.conditions)
        return len(self.conditions), self.tool.rank, precision

    @property
    def literal(self) -> int:
        """How many characters stand for themselves: what decides between equals."""
        return self.tool.literal + sum(condition.literal for condition in self.conditions)


@lru_cache(16384)
def parse(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        BadRule: it is none; with the position where reading it ended.
    """
    part, at = _tool_part(text)
    if at == len(text):
        return Pattern(text, part)
    if text[at] != "(":
        raise BadRule(text, f"{text[at]!r} cannot follow the name of a tool", position=at)
    if not text.endswith(")"):
        raise BadRule(text, "the last character must be ')'", position=len(text) - 1)
    return Pattern(text, part, _conditions(text, at + 1))


def steps(path: str) -> tuple[Step, ...]:
    """The steps of a path such as `a[*].b`."""
    return tuple(key or (None if index == "*" else int(index)) for index, key in _STEP.findall(path))


def _tool_part(text: str) -> tuple[ToolPart, int]:
    if text.startswith("/"):
        match = _EXPRESSION.match(text)
        if match is None:
            raise BadRule(text, "the regular expression has no final '/'", position=len(text) - 1)
        part = ToolPart("regex", match[1].replace("\\/", "/"))
        _checked(text, 1, part.text)
        return part, match.end()
    name = _NAME.match(text)
    if name is None:
        raise BadRule(text, "the name of a tool is missing", position=0)
    if globs.is_pattern(name[0]):
        return ToolPart("glob", name[0]), name.end()
    plain = globs.compiled(name[0]).prefix
    if "[" in plain:
        raise BadRule(text, "a '[' is not closed", position=name[0].index("["))
    return ToolPart("exact", plain), name.end()


def _conditions(text: str, at: int) -> tuple[Condition, ...]:
    inner = text[at:-1].strip()
    if not inner:
        raise BadRule(text, "nothing stands between the parentheses", position=at)
    if inner == "*":
        return ()
    start = _blanks(text, at)
    if _opens_condition(text, start):
        return _list(text, start)
    _balanced(text, at)
    return (Condition(None, (), "~", False, inner),)


def _opens_condition(text: str, at: int) -> bool:
    """True if a list of conditions begins here, and not the value of the primary argument."""
    if _QUOTED.match(text, at):
        return True
    path = _PATH.match(text, at)
    if path is not None and _FROM.match(text, path.end()):
        return True
    op = _OP.match(text, path.end()) if path else None
    if path is None or op is None:
        return False
    if op[0] == op[0].strip() and (path[0][0] == "*" or op.end() == len(text) - 1):
        return False  # `*~` and `notes~` are names of files
    raise BadRule(
        text, "the value of a condition stands in quotes (before a primary value put '\\')", position=op.end()
    )


def _list(text: str, at: int) -> tuple[Condition, ...]:
    conditions: list[Condition] = []
    end = len(text) - 1
    while True:
        condition, at = _condition(text, at)
        conditions.append(condition)
        if at == end:
            return tuple(conditions)
        if text[at] != ",":
            raise BadRule(text, f"{text[at]!r} cannot follow a condition", position=at)
        at = _blanks(text, at + 1)


def _condition(text: str, at: int) -> tuple[Condition, int]:
    path = _PATH.match(text, at)
    if path is None:
        raise BadRule(text, "the path of an argument is missing", position=at)
    source = _FROM.match(text, path.end())
    if source is not None:
        return Condition(path[0], steps(path[0]), "from", False, _origin(text, source)), _blanks(text, source.end())
    op = _OP.match(text, path.end())
    if op is None:
        raise BadRule(text, "one of ~ = =~ !~ != !=~ is missing", position=path.end())
    string = _STRING.match(text, op.end())
    if string is None:
        raise BadRule(text, "a value in quotes is missing, or its last quote", position=op.end())
    kind: Op = op[2]  # type: ignore[assignment]  # the expression has no other
    value = _value(string, kind)
    if kind == "=~":
        _checked(text, op.end() + 1, value)
    return Condition(path[0], steps(path[0]), kind, bool(op[1]), value), _blanks(text, string.end())


def _origin(text: str, source: re.Match[str]) -> str:
    if source[1] in ORIGINS:
        return source[1]
    close = nearest(source[1], ORIGINS, 1)
    hint = f"did you mean '{close[0]}'?" if close else f"one of {', '.join(ORIGINS)}"
    problem = f"{source[1]!r} is no origin, {hint} (before a primary value put '\\')"
    raise BadRule(text, problem, position=source.start(1))


def _value(string: re.Match[str], op: Op) -> str:
    """Only the quote is escaped for globs and expressions, which have backslashes of their own."""
    quote, raw = string[0][0], string[0][1:-1]
    return re.sub(rf"\\([\\{quote}])" if op == "=" else rf"\\({quote})", r"\1", raw)


def _blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()


def _balanced(text: str, at: int) -> None:
    depth = 0
    for match in re.finditer(r"\\.|[()]", text[at:-1], re.DOTALL):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth < 0:
            raise BadRule(text, "')' closes nothing (a literal one is '\\)')", position=at + match.start())
    if depth:
        raise BadRule(text, "a '(' is not closed (a literal one is '\\(')", position=len(text) - 1)


def _checked(text: str, at: int, expression: str) -> None:
    """Let an error in an expression name the whole pattern and the position in it."""
    try:
        expressions.whole(expression)
    except BadRule as error:
        raise BadRule(text, error.problem, position=at + (error.position or 0)) from None

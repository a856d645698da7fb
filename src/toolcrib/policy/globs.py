"""The one glob language: `*` any run, `?` one character, `[ab]`, `[a-z]`, `[!ab]`, and `\\` escapes.

A glob becomes an expression that never goes back behind a star that was satisfied, so matching takes time in proportion
to the text, whatever the glob. This module knows nothing of paths: see `paths` for globs whose stars stop at a slash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

MARKS = "*?["
"""What makes a text a glob, unless a backslash stands before it."""


class Token(NamedTuple):
    """One character, one wildcard for a character, or a star."""

    kind: str  # "char", "one", "class" or "star"
    text: str  # the character, or the expression of a class
    written: str


class Compiled(NamedTuple):
    """A glob that is ready: what every match begins with, whether that is all of it, and the test."""

    prefix: str
    exact: bool
    test: Callable[[str], bool]


def text(glob: str) -> Callable[[str], bool]:
    """The test whether a whole text is one of those that a glob means."""
    return compiled(glob).test


@lru_cache(16384)
def compiled(glob: str) -> Compiled:
    """A glob with the literal text that it begins with."""
    tokens = list(parse(glob))
    prefix = opening(tokens)
    if len(prefix) == len(tokens):
        return Compiled(prefix, True, prefix.__eq__)
    match = re.compile(f"(?s:{sequence(tokens, '.')})\\Z").match
    return Compiled(prefix, False, lambda value: match(value) is not None)


def opening(tokens: list[Token]) -> str:
    """The literal characters before the first wildcard."""
    end = next((index for index, token in enumerate(tokens) if token.kind != "char"), len(tokens))
    return "".join(token.text for token in tokens[:end])


def literal(glob: str) -> int:
    """How many characters stand for themselves."""
    if "[" not in glob and "\\" not in glob:
        return len(glob) - wildcards(glob)
    return sum(token.kind == "char" for token in parse(glob))


def wildcards(glob: str) -> int:
    """How many wildcards there are; `**` counts as two, so that it is wider than `*`."""
    if "[" not in glob and "\\" not in glob:
        return glob.count("*") + glob.count("?")
    return sum(token.kind != "char" for token in parse(glob))


def is_pattern(glob: str) -> bool:
    """True if anything in it is a wildcard."""
    return any(mark in glob for mark in MARKS) and any(token.kind != "char" for token in parse(glob))


def escaped(plain: str) -> str:
    """The glob that means this text alone."""
    return re.sub(r"([*?\[\\])", r"\\\1", plain)


def parse(glob: str) -> Iterator[Token]:
    """Read a glob; a bracket that nothing closes and a last backslash stand for themselves."""
    at = 0
    while at < len(glob):
        token = _class(glob, at) if glob[at] == "[" else _simple(glob, at)
        yield token
        at += len(token.written)


def _simple(glob: str, at: int) -> Token:
    char = glob[at]
    if char == "*":
        return Token("star", "", char)
    if char == "?":
        return Token("one", "", char)
    if char == "\\" and at + 1 < len(glob):
        return Token("char", glob[at + 1], glob[at : at + 2])
    return Token("char", char, char)


_MEMBER = re.compile(r"\\?(.)", re.DOTALL)


def _class(glob: str, at: int) -> Token:
    """A class begins with `[` or `[!`; a `]` that comes first is one of its members."""
    negated = glob.startswith("[!", at)
    begin = index = at + 1 + negated
    members: list[tuple[str, str]] = []
    while index < len(glob):
        if glob[index] == "]" and index > begin:
            return Token("class", _class_expression(members, negated), glob[at : index + 1])
        first, index = _member(glob, index)
        last = first
        if glob.startswith("-", index) and index + 1 < len(glob) and glob[index + 1] != "]":
            last, index = _member(glob, index + 1)
        members.append((first, last))
    return Token("char", "[", "[")


def _member(glob: str, at: int) -> tuple[str, int]:
    match = _MEMBER.match(glob, at)
    assert match is not None
    return match[1], match.end()


def _class_expression(members: list[tuple[str, str]], negated: bool) -> str:
    """A range that runs backwards holds nothing."""
    inner = "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in members if first <= last)
    if not inner:
        return r"[\s\S]" if negated else r"(?!)"
    return f"[{'^' if negated else ''}{inner}]"


def sequence(tokens: list[Token], one: str) -> str:
    """The expression of some tokens, where `one` is that of any single character.

    Between two stars the first place that fits is as good as any later one, since what stands there has a fixed
    length: so the search for it is closed behind it, and only the last star is tried at more than one place.
    """
    chunks: list[str] = [""]
    for token in tokens:
        if token.kind == "star":
            chunks.append("")
        else:
            chunks[-1] += _single(token, one)
    if len(chunks) == 1:
        return chunks[0]
    middle = "".join(f"(?>{one}*?{chunk})" for chunk in chunks[1:-1] if chunk)
    return f"{chunks[0]}{middle}{one}*{chunks[-1]}"


def _single(token: Token, one: str) -> str:
    if token.kind == "char":
        return re.escape(token.text)
    if token.kind == "one":
        return one
    return token.text if one == "." else f"(?={one}){token.text}"

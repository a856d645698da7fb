"""The values that reading a shell command gives: words, assignments, redirections and simple commands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import NamedTuple

# A character of a word's shape that was quoted, escaped or came from an expansion.
QUOTED = "\0"

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.DOTALL)
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}|\{.*(,|\.\.).*\}", re.DOTALL)
_GLOB = re.compile(r"[*?]|\[.*\]", re.DOTALL)
_HOME = re.compile(r"~(/|$)")
# Text that the shell expands when it takes it for the name of an array's element.
_SUBSCRIPT = re.compile(r"\w\[.*(\$\(|`)", re.DOTALL)


class ShellSyntaxError(ValueError):
    """Text that is no shell command, or one that is not read with certainty."""


class Word(NamedTuple):
    """One word: as written, after quote removal (None where it is expanded), and what else is known of it."""

    source: str
    literal: str | None
    splits: bool = False
    assigns: str | None = None
    stream: bool = False

    @property
    def text(self) -> str:
        """The word as `shlex.join` writes it, or as written where it is expanded."""
        return self.source if self.literal is None or self.source.startswith("~") else shlex.quote(self.literal)

    @property
    def shown(self) -> str:
        """The word as it stands in a line: with quotes only if it was written with some."""
        return self.source if self.literal == self.source else self.text

    @property
    def plain(self) -> str:
        """The word after quote removal, or as written where it is expanded."""
        return self.source if self.literal is None else self.literal

    @property
    def injects(self) -> bool:
        """True if the word names an element of an array by a command that the shell would run to find it."""
        return self.literal is not None and _SUBSCRIPT.search(self.literal) is not None


class Assignment(NamedTuple):
    """A variable that is set, and to what."""

    name: str
    value: Word


class Redirection(NamedTuple):
    """An operator with its target; a here-document has its body as target."""

    operator: str
    target: Word


@dataclass(slots=True)
class SimpleCommand:
    """A simple command as the grammar finds it; without words it holds what surrounds a compound command."""

    words: list[Word] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    # A keyword before a pipeline: what it runs is listed after it.
    prefix: bool = False


@dataclass(slots=True)
class WordDraft:
    """A word while it is read: its value, its unquoted shape, and whether it is expanded."""

    value: list[str] = field(default_factory=list)
    shape: list[str] = field(default_factory=list)
    expanded: bool = False
    splits: bool = False
    stream: bool = False

    def bare(self, text: str) -> None:
        """Add unquoted characters."""
        self.value.append(text)
        self.shape.append(text)

    def quoted(self, text: str) -> None:
        """Add characters that have lost their meaning."""
        self.value.append(text)
        self.shape.append(QUOTED)

    def expand(self, quoted: bool, many: bool = False) -> None:
        """Note an expansion, which gives several words where it is not quoted."""
        self.expanded = True
        self.splits = self.splits or many or not quoted
        self.shape.append(QUOTED)

    def word(self, source: str) -> Word:
        """Finish the word that was written so."""
        shape = "".join(self.shape)
        assignment = ASSIGNMENT.match(shape)
        name = assignment[1] if assignment else None
        several = _GLOB.search(shape) is not None or _BRACES.search(shape) is not None
        tilde = shape.startswith("~") and _HOME.match(shape) is None
        source = source.replace("\\\n", "") if "'" not in source else source
        if self.expanded or several or tilde:
            return Word(source, None, self.splits or several, name, self.stream)
        return Word(source, "".join(self.value), False, name)


_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)


def _escape(match: re.Match[str]) -> str:
    x, u, wide, octal, control, other = match.groups()
    if digits := x or u or wide:
        code = int(digits, 16)
    elif octal:
        code = int(octal, 8) & 0xFF
    elif control:
        code = ord(control) & 0x1F
    else:
        return _ESCAPES.get(other, other if other in "\\'\"?" else "\\" + other)
    # Bytes above ASCII make characters together with their neighbours, and a NUL ends the text: neither is followed.
    if code == 0 or code > 0x10FFFF or (code > 0x7F and not (u or wide)):
        raise ShellSyntaxError("a character that is not certain")
    return chr(code)


def ansi(text: str) -> str:
    """Decode the inside of `$'...'`."""
    return _ANSI.sub(_escape, text)

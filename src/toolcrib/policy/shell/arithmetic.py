"""What bash evaluates a second time: arithmetic, subscripts, indirect names and integer variables.

A value that stands there may hold a subscript, and bash expands subscripts, commands in them included. So such a text
is taken for literal only where that is proven: plain characters and names, and names only whose values are plain too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from toolcrib.policy.shell.words import Word

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Numbers, operators, names, `$name`, `${name}` and the parameters that are always numbers.
_PLAIN = re.compile(
    r"(?:[\s0-9A-Za-z_+*/%<>=!&|^~?:,;()#.'\"\[\]-]|\$[A-Za-z_]|\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$[#?$!](?![\w(\[{]))*\Z"
)
_LENGTH = re.compile(r"\$\{#[A-Za-z_][A-Za-z0-9_]*(?:\[[@*]\])?\}")
# With these a value could make a subscript, or something that is expanded inside one.
_ACTIVE = re.compile(r"[\[\]$`\\]")
_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[(?:[0-9]+|[@*])\])?\Z")
# Their values come from the input, from matches and from arguments.
_FILLED = frozenset(
    [
        "REPLY",
        "MAPFILE",
        "BASH_REMATCH",
        "OPTARG",
        "BASH_ARGV",
        "BASH_ARGV0",
        "BASH_COMMAND",
        "BASH_EXECUTION_STRING",
        "DIRSTACK",
        "PWD",
        "OLDPWD",
        "FUNCNAME",
        "BASH_SOURCE",
        "COPROC",
        "_",
    ]
)
# Operators of a condition between two numbers.
_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
# What is assigned to them is evaluated as arithmetic.
_INTEGERS = frozenset(
    ["SECONDS", "RANDOM", "SRANDOM", "LINENO", "HISTCMD", "OPTIND", "EPOCHSECONDS", "BASHPID", "PPID", "UID", "EUID"]
)


@dataclass(slots=True)
class Evaluations:
    """Names whose values are evaluated, and the values that the same text gives to names."""

    sets: set[str] = field(default_factory=set)
    unknown: bool = False
    _used: set[str] = field(default_factory=lambda: set(_INTEGERS))
    _computed: set[str] = field(default_factory=lambda: set(_FILLED))
    _words: dict[str, set[str]] = field(default_factory=dict)

    def expression(self, text: str) -> None:
        """Note a text that is evaluated as arithmetic."""
        text = _LENGTH.sub("0", text)
        if _PLAIN.match(text) is None:
            self.unknown = True
        else:
            self._used.update(NAME.findall(text))

    def word(self, word: Word) -> None:
        """Note a word that is evaluated as arithmetic once its quotes are gone."""
        self.expression(word.plain)

    def element(self, word: Word) -> None:
        """Note a word that names a variable or an element of an array, which is then set, unset or looked at."""
        name = word.literal if word.literal is not None else word.source
        if _ELEMENT.match(name) is None:
            self.unknown = True

    def condition(self, words: list[Word]) -> None:
        """Note the words of a condition that bash evaluates: numbers, and names of variables."""
        for at, word in enumerate(words):
            if word.plain in _NUMBERS:
                for number in words[max(at - 1, 0) : at + 2]:
                    self.word(number)
            elif word.plain in ("-v", "-R") and at + 1 < len(words):
                self.element(words[at + 1])

    def integer(self, name: str) -> None:
        """Note a variable of which every new value is evaluated."""
        self._used.add(name)

    def assign(self, name: str, value: Word | None) -> None:
        """Note the value of a name; None where it is not known."""
        self.sets.add(name)
        if value is None or value.literal is None or _ACTIVE.search(value.literal):
            self._computed.add(name)
        else:
            self._words.setdefault(name, set()).update(NAME.findall(value.literal))

    @property
    def literal(self) -> bool:
        """True if nothing is evaluated twice but plain text and names whose values are plain, however deep."""
        return not self.unknown and not self._reached() & self._computed

    @property
    def may_set(self) -> set[str]:
        """The names that may get a value: those that are set, and those in arithmetic, which may assign to them."""
        return self.sets | (self._reached() - _INTEGERS)

    def _reached(self) -> set[str]:
        """The names that are evaluated, and those in their values, however deep."""
        reached, todo = set[str](), set(self._used)
        while todo:
            name = todo.pop()
            reached.add(name)
            todo |= self._words.get(name, set()) - reached
        return reached

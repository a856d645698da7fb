"""Options of programs: before their operands as a wrapper reads them, or wherever they stand among the words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from toolcrib.policy.shell.words import Word


class Options(NamedTuple):
    """The options of a program as `getopt` writes them: `:` takes a value, `?` one in the same word only."""

    short: str = ""
    flags: str = ""
    values: str = ""

    def long(self, name: str) -> tuple[str, bool] | None:
        """The whole name of a long option and whether it takes a value; None if none, or more than one, begins so."""
        known = dict.fromkeys(self.flags.split(), False) | dict.fromkeys(self.values.split(), True)
        if name in known:
            return name, known[name]
        fitting = [option for option in known if option.startswith(name)]
        return (fitting[0], known[fitting[0]]) if len(fitting) == 1 else None


class GivenOptions(NamedTuple):
    """The options that were given, in order, and where the rest starts."""

    options: list[tuple[str, Word | None]]
    rest: int

    def has(self, *names: str) -> bool:
        """True if one of these is there."""
        return any(name in names for name, _ in self.options)

    def value(self, *names: str) -> Word | None:
        """The value of the last of these."""
        return next((value for name, value in reversed(self.options) if name in names), None)


class UnclearOption(Exception):
    """An option that is unknown or computed: what follows may mean anything."""


def _cluster(words: Sequence[Word], at: int, text: str, spec: Options) -> Iterator[tuple[str, Word | None, int]]:
    """Read the options in one word such as `-xvf`, each with its value and the next place."""
    for index, letter in enumerate(text):
        kind = spec.short.find(letter)
        if kind < 0 or letter in ":?":
            raise UnclearOption
        rest, takes = text[index + 1 :], spec.short[kind + 1 : kind + 2]
        if takes == ":" and not rest:
            yield letter, _value(words, at + 1), at + 2
            return
        if takes in (":", "?"):
            yield letter, Word(rest, rest) if rest else None, at + 1
            return
        yield letter, None, at + 1


def _value(words: Sequence[Word], at: int) -> Word:
    if at >= len(words) or words[at].splits:
        raise UnclearOption
    return words[at]


def _long(words: Sequence[Word], at: int, text: str, spec: Options) -> tuple[str, Word | None, int]:
    name, equals, value = text.partition("=")
    option = spec.long(name)
    if option is None:
        raise UnclearOption
    name, takes = option
    if equals:
        return f"--{name}", Word(value, value), at + 1
    return (f"--{name}", _value(words, at + 1), at + 2) if takes else (f"--{name}", None, at + 1)


def read_options(words: Sequence[Word], spec: Options, at: int = 1) -> GivenOptions:
    """Read the options of a program.

    Raises:
        UnclearOption: one is unknown or computed.
    """
    options: list[tuple[str, Word | None]] = []
    while at < len(words):
        text = words[at].literal
        if text is None:
            if words[at].splits or words[at].assigns is None:
                raise UnclearOption
            break
        if text == "--":
            return GivenOptions(options, at + 1)
        if len(text) < 2 or text[0] != "-":
            break
        if text.startswith("--"):
            name, value, at = _long(words, at, text[2:], spec)
            options.append((name, value))
            continue
        for name, value, after in _cluster(words, at, text[1:], spec):
            options.append((name, value))
            at = after
    return GivenOptions(options, at)


def computed(word: Word) -> bool:
    """True if a word that is expanded may begin with anything, a dash included."""
    return word.literal is None and word.source[:1] in ("$", "`", '"', "'", "-", "*", "?", "[", "{", "\\")


def harmless(words: Sequence[Word], spec: Options, *, bundled: bool = False) -> bool:
    """True if all options among these words are listed, wherever they stand."""
    known, values, kinds = _listed(spec)
    at = 0
    while at < len(words):
        text = words[at].literal
        if text is None:
            if computed(words[at]):
                return False
        elif text == "--":
            return True
        elif text.startswith("--"):
            name, equals, _ = text[2:].partition("=")
            if name.removeprefix("no-") not in known and name not in known:
                return False
            at += name in values and not equals
        elif (text.startswith("-") and len(text) > 1) or (bundled and at == 0):
            taken = _letters(text.removeprefix("-"), kinds)
            if taken is None:
                return False
            at += taken
        at += 1
    return True


@lru_cache(256)
def _listed(spec: Options) -> tuple[frozenset[str], frozenset[str], dict[str, str]]:
    """The long options, those of them that take a value, and the letters, each with the mark of its value."""
    letters = pairwise(f"{spec.short} ")
    kinds = {letter: mark if mark in ":?" else "" for letter, mark in letters if letter not in ":?"}
    values = frozenset(spec.values.split())
    return values.union(spec.flags.split()), values, kinds


def _letters(text: str, kinds: Mapping[str, str]) -> int | None:
    """How many words the options in one word such as `-xzf` take for their values; None where one is not listed."""
    for index, letter in enumerate(text):
        if letter not in kinds:
            return None
        if kinds[letter]:
            return 0 if text[index + 1 :] or kinds[letter] == "?" else 1
    return 0

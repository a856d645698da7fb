"""The words of a command as operands and values of options, and what it needs because of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

ANY_FILE = "/**"

Need = tuple[str, str, str]


class CommandWord(NamedTuple):
    """A word of a segment, and whether it is as written."""

    text: str
    fixed: bool


class SplitWords(NamedTuple):
    """Words sorted into operands and the values of options."""

    operands: list[CommandWord]
    values: list[tuple[str, CommandWord]]
    flags: set[str]

    def of(self, *names: str) -> list[CommandWord]:
        """The values of these options."""
        return [value for name, value in self.values if name in names]


def split_words(words: Sequence[CommandWord], valued: str) -> SplitWords:
    """Sort words; `valued` names the options that take a value, as `-o` or `--output`."""
    names, split = valued.split(), SplitWords([], [], set())
    rest = iter(words)
    for word in rest:
        text = word.text
        if text == "--" and word.fixed:
            split.operands.extend(rest)
        elif len(text) < 2 or text[0] != "-":
            split.operands.append(word)
        else:
            _option(word, names, rest, split)
    return split


def _option(word: CommandWord, names: Sequence[str], rest: Iterator[CommandWord], split: SplitWords) -> None:
    text = word.text
    name, equals, value = text.partition("=")
    if text.startswith("--"):
        # Most programs take the beginning of a name for the whole.
        name = name if name in names else _whole(name, names)
        split.flags.add(name)
        if equals:
            split.values.append((name, CommandWord(value, word.fixed)))
        elif name in names and (following := next(rest, None)):
            split.values.append((name, following))
        return
    for index, letter in enumerate(text[1:], 2):
        split.flags.add(f"-{letter}")
        if f"-{letter}" in names:
            argument = CommandWord(text[index:], word.fixed) if text[index:] else next(rest, None)
            split.values.extend([(f"-{letter}", argument)] if argument else [])
            return


def _whole(name: str, names: Sequence[str]) -> str:
    """The first of the options of which this name is the beginning, else the name itself."""
    return next((known for known in names if known.startswith(name) and len(name) > len("--")), name)


def path_needs(action: str, words: Sequence[CommandWord]) -> list[Need]:
    """The files that these words name; a dash alone is none."""
    return [("fs", action, _path(word)) for word in words if word.text != "-"]


def _path(word: CommandWord) -> str:
    return word.text if word.fixed else ANY_FILE


_PORTS = {"ssh://": 22, "git+ssh://": 22, "git://": 9418}


def host_needs(words: Sequence[CommandWord]) -> list[Need]:
    """The places that these words name."""
    return [("net", "egress", _host(word)) for word in words]


def _host(word: CommandWord) -> str:
    """The URL as written; what is computed may be anywhere, and `user@host:path` is a place to reach by SSH."""
    if not word.fixed:
        return "*"
    name, colon, _ = word.text.partition(":")
    if colon and "://" not in word.text and "/" not in name and "@" in name:
        return f"{name.rpartition('@')[2]}:22"
    for scheme, port in _PORTS.items():
        if word.text.startswith(scheme):
            place = word.text.removeprefix(scheme).partition("/")[0].rpartition("@")[2]
            return place if ":" in place else f"{place}:{port}"
    return word.text

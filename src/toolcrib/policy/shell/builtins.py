"""Builtins of the shell that set, look up or evaluate variables whose names they get as words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolcrib.policy.shell.arithmetic import Evaluations
from toolcrib.policy.shell.options import Options, UnclearOption, read_options
from toolcrib.policy.shell.words import Word
from toolcrib.policy.shell.wrappers import REWRITING

_READ = Options("a:d:i:n:N:p:t:u:ersE")
_MAPFILE = Options("d:n:O:s:tu:C:c:")
_UNSET = Options("fvn")
_WAIT = Options("fnp:")


def evaluate(name: str, words: Sequence[Word], evaluations: Evaluations) -> None:
    """Note what a builtin does with the names among its words."""
    try:
        _BUILTINS.get(name, _nothing)(words, evaluations)
    except UnclearOption:
        evaluations.unknown = True


def _nothing(words: Sequence[Word], evaluations: Evaluations) -> None:
    """Most builtins evaluate nothing."""


def _fill(word: Word, evaluations: Evaluations) -> None:
    """Note a variable that gets its value from outside."""
    evaluations.element(word)
    evaluations.assign(word.plain.partition("[")[0], None)


def _read(words: Sequence[Word], evaluations: Evaluations) -> None:
    options = read_options(words, _READ)
    if array := options.value("a"):
        _fill(array, evaluations)
    for word in words[options.rest :]:
        _fill(word, evaluations)


def _mapfile(words: Sequence[Word], evaluations: Evaluations) -> None:
    for word in words[read_options(words, _MAPFILE).rest :]:
        _fill(word, evaluations)


def _printf(words: Sequence[Word], evaluations: Evaluations) -> None:
    if len(words) < 2:
        return
    first = words[1]
    if first.literal is None:
        # It may be `-v`, unless the text before its first expansion says otherwise.
        evaluations.unknown = evaluations.unknown or first.source.lstrip("\"'")[:1] in (
            "$",
            "`",
            "-",
            "*",
            "?",
            "[",
            "{",
        )
    elif first.literal == "-v" and len(words) > 2:
        _fill(words[2], evaluations)
    elif first.literal.startswith("-v"):
        _fill(Word(first.literal[2:], first.literal[2:]), evaluations)


def _getopts(words: Sequence[Word], evaluations: Evaluations) -> None:
    for word in words[2:3]:
        _fill(word, evaluations)


def _unset(words: Sequence[Word], evaluations: Evaluations) -> None:
    for word in words[read_options(words, _UNSET).rest :]:
        evaluations.element(word)
        evaluations.sets.add(word.plain)


def _wait(words: Sequence[Word], evaluations: Evaluations) -> None:
    if name := read_options(words, _WAIT).value("p"):
        _fill(name, evaluations)


def _let(words: Sequence[Word], evaluations: Evaluations) -> None:
    for word in words[1:]:
        evaluations.word(word)
        evaluations.assign(word.plain.partition("=")[0].rstrip("+-*/%&|^<>"), Word("0", "0"))


def _test(words: Sequence[Word], evaluations: Evaluations) -> None:
    """`-v` evaluates the name behind it; a computed word may be that operator, or several words."""
    for word, operand in zip(words[1:], [*words[2:], Word("]", "]")], strict=False):
        if word.literal in ("-v", "-R"):
            evaluations.element(operand)
        elif word.literal is None:
            if operand.literal is None or "[" in operand.literal or (word.splits and "$" not in word.source):
                evaluations.unknown = True
            if word.splits:
                evaluations.expression(word.source)


def _set(words: Sequence[Word], evaluations: Evaluations) -> None:
    """With `-k`, words behind a command are assignments too; with `-H`, `!` stands for what earlier lines held."""
    for word in words[1:]:
        text = word.literal
        if text is None or text in REWRITING or (text[:1] in ("-", "+") and set("kH") & set(text)):
            evaluations.unknown = True
        elif text in ("--", "-") or text[:1] not in ("-", "+"):
            return


_BUILTINS: dict[str, Callable[[Sequence[Word], Evaluations], None]] = {
    "[": _test,
    "test": _test,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "printf": _printf,
    "getopts": _getopts,
    "unset": _unset,
    "wait": _wait,
    "let": _let,
    "set": _set,
}
NAMING = frozenset(_BUILTINS)

"""Options of known programs, wherever they stand among the words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from toolcrib.policy.shell.words import Word
from toolcrib.policy.shell.wrappers import Options


def computed(word: Word) -> bool:
    """True if a word that is expanded may begin with anything, a dash included."""
    return word.literal is None and word.source[:1] in ("$", "`", '"', "'", "-", "*", "?", "[", "{", "\\")


def harmless(words: Sequence[Word], spec: Options, *, bundled: bool = False) -> bool:
    """True if all options among these words are listed, wherever they stand."""
    flags, values = set(spec.flags.split()), set(spec.values.split())
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
            if name.removeprefix("no-") not in flags | values and name not in flags | values:
                return False
            at += name in values and not equals
        elif (text.startswith("-") and len(text) > 1) or (bundled and at == 0):
            taken = _letters(text.removeprefix("-"), spec.short)
            if taken is None:
                return False
            at += taken
        at += 1
    return True


def _letters(text: str, short: str) -> int | None:
    """How many words the options in one word such as `-xzf` take for their values; None where one is not listed."""
    kinds = {letter: False for letter in short if letter != ":"} | {a: True for a, b in pairwise(short) if b == ":"}
    for index, letter in enumerate(text):
        if letter not in kinds:
            return None
        if kinds[letter]:
            return 0 if text[index + 1 :] else 1
    return 0

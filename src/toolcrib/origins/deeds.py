"""Deeds: what a tool does, and whether the user's words ask for something of the kind.

A tool that deletes is asked for by words such as "remove" or "erase". The groups are small and general, in English;
where no word of a request is known, nothing is taken as asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_GROUPS: tuple[frozenset[str], ...] = tuple(
    frozenset(words.split())
    for words in (
        "send email mail message write reply respond answer forward tell notify inform text dm post publish submit "
        "announce comment contact",
        "pay payment transfer refund reimburse buy purchase order donate money transaction bill send repay",
        "create add make new schedule book put insert register generate save plan remind reminder open start draft",
        "delete remove erase cancel drop clear trash discard purge destroy kick ban uninstall",
        "update change edit modify adjust move reschedule rename set replace correct fix append add extend switch",
        "book reserve reservation booking rent",
        "invite add include participant attendee join member",
        "share access permission grant",
        "upload push deploy release merge publish",
        "run execute start launch trigger",
        "download install save",
        "subscribe register enrol enroll join",
        "approve accept confirm sign",
        "stop cancel end close disable block lock",
    )
)
_TELLING_WORDS = (
    "send post publish tweet toot share broadcast announce notify reply respond forward submit upload comment"
)
_TELLING = frozenset(_TELLING_WORDS.split())
_WORD = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(8192)
def stem(word: str) -> str:
    """Return a word without the common endings of English verbs and nouns."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "sle":
        word = word[:-1]
    return word.removesuffix("e")


_STEMMED = tuple(frozenset(map(stem, group)) for group in _GROUPS)


def stems(text: str) -> set[str]:
    """Return the stems of all words of a folded text."""
    return {stem(word) for word in _WORD.findall(text.replace("e-mail", "email"))}


@lru_cache(4096)
def tells(name: str) -> bool:
    """Return True if the name of a tool says that others get what it is given."""
    return not _TELLING.isdisjoint(_WORD.findall(_CAMEL.sub("_", name).casefold()))


@lru_cache(4096)
def asked_by(name: str, description: str) -> frozenset[str]:
    """Return the stems that ask for what a tool does, by its name, or where that says nothing, by its description."""
    own = [stem(word) for word in _WORD.findall(_CAMEL.sub("_", name).casefold())]
    deeds = _related(own)
    if not deeds:
        own = [stem(word) for word in _WORD.findall(description.casefold())[:3]]
        deeds = _related(own)
    return frozenset(deeds)


def _related(words: Iterable[str]) -> set[str]:
    return {word for own in words for group in _STEMMED if own in group for word in group}

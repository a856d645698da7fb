"""Normal forms: the ways of writing one value that count as the same value.

Two questions need different answers. Whether a value stands in words that are trusted is answered narrowly: case,
compatible characters, blanks, `mailto:`, the scheme of a URL and the spelling of numbers and dates do not matter, all
else does. Where else a value may have been seen is answered widely: invisible characters and encodings are undone too.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from html import unescape
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple
from urllib.parse import unquote

Day = tuple[int, int]
"""A month and a day."""

_BLANKS = re.compile(r"\s+")
_SCHEME = re.compile(r"^(?:https?://|mailto:|tel:)+(?:www\.)?|^www\.")
_NUMBER = re.compile(r"[-+]?\d[\d,_']*(?:\.\d+)?")
_UNSIGNED = re.compile(_NUMBER.pattern.removeprefix("[-+]?"))
"""The same where a text has no signs, which is found three times as fast."""

MARKS = ".:!?*_~"
"""What may stand around a word and is no part of it."""

_BETWEEN = "\"'`<>()[]{},;|"
_WORDS = str.maketrans(ascii_uppercase + _BETWEEN, ascii_lowercase + " " * len(_BETWEEN))
"""Parts a text of ASCII into words without case."""

_ADDRESS = re.compile(r"""^(?:"[^"<>@]*"|[^<>@,;:"]*)\s*<\s*([^<>\s,;]+@[^<>\s,;]+)\s*>$""")
"""A display name with its address; what has commas or colons outside of quotes is a list, or a header."""

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sep", "sept"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ),
        1,
    )
    for name in names
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_ISO = re.compile(r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\.? (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?\b")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})\b")
_RANGE = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)? (?:to|until|-) (?:the )?(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})\b"
)
_FIGURES = re.compile(r"\b(\d{1,2})[/.](\d{1,2})[/.](?:\d{4}|\d{2})(?!\d)")
_FIGURED = re.compile(r"\d[-/.]\d")
_CLOCK = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")
_DATED = re.compile(r"^\d{4}-\d{1,2}-\d{1,2}(?:[t ]\d{1,2}(?::\d{2}){0,2}(?:\.\d+)?(?:z|[+-]\d{2}:?\d{2})?)?$")
SHORTEST_ENCODED = 12
"""Characters of a word below which it is not looked into for another one in base64."""

_ENCODED = re.compile(rf"[A-Za-z0-9+/_-]{{{SHORTEST_ENCODED},}}={{0,2}}")
_GROUPED = str.maketrans(dict.fromkeys(",_'+"))
_DIGIT = re.compile(r"\d")
_ABBREVIATIONS = tuple(name[:3] for name in _MONTHS if len(name) == 3)
_SHORT = 200


def fold(text: str) -> str:
    """Return a text in the form by which it is compared: composed, without case, with single blanks."""
    if text.isascii():
        return " ".join(text.split()).lower()
    return _BLANKS.sub(" ", unicodedata.normalize("NFKC", text)).strip().lower()  # "ß" is not "ss" in a host


class ValueForm(NamedTuple):
    """A value as it is looked up: by its number, its day or its bare word; `hidden` if nobody sees all of it."""

    hidden: bool
    number: str | None
    day: Day | None
    word: str
    key: str
    """What fields are found by."""


def form(value: Any) -> ValueForm:
    """Return the form of a value."""
    text = value if type(value) is str else str(value)
    return _form(text) if len(text) <= _SHORT else _form.__wrapped__(text)


@lru_cache(4096)
def _form(text: str) -> ValueForm:
    if text.isascii() and text.isalnum():  # as most ids are: no day, and not to be reached by a scheme
        plain, word = (text.lstrip("0") or "0" if text.isdecimal() else None), text.lower()
        return ValueForm(False, plain, None, word, plain or word)
    plain, word = number(text), bare(text)
    return ValueForm(invisible(text), plain, day(text), word, plain or word)


def bare(text: str) -> str:
    """Return a folded value without what only says how to reach it: scheme, `www.`, display name, final slash."""
    lines, text = len(text.splitlines()), fold(text)
    named = _ADDRESS.match(text) if lines < 2 and text.endswith(">") else None
    word = named[1] if named else text
    if ":" in word or word.startswith("www."):
        word = _SCHEME.sub("", word)
    return word.rstrip("/") or text


def invisible(text: str) -> bool:
    """Return True if a text has characters that nobody sees."""
    return not text.isascii() and any(unicodedata.category(char) in ("Cf", "Cc", "Co") for char in text)


def visible(text: str) -> str:
    """Return a text without the characters that nobody sees."""
    if text.isascii():
        return text
    return "".join(char for char in text if char.isspace() or unicodedata.category(char) not in ("Cf", "Cc", "Co"))


def has_digits(text: str) -> bool:
    """Return True if a text has any, so that numbers and days may be in it."""
    return _DIGIT.search(text) is not None


def number(text: str) -> str | None:
    """Return the one spelling of a number, or None if the text is none: `1,100.00`, `$1100` and `1100` are the same."""
    text = text.strip(" $€£%")
    if not (text[:1].isdecimal() or text[:1] in ("+", "-")):
        return None
    match = _NUMBER.fullmatch(text)
    return None if match is None else _plain_number(match[0])


def numbers(text: str) -> Iterator[str]:
    """Yield every number of a text in its one spelling."""
    for written in figures(text):
        yield written.lstrip("0") or "0" if written.isdecimal() else _plain_number(written)


def figures(text: str) -> set[str]:
    """Return every number of a text as it is written there."""
    pattern = _NUMBER if "-" in text or "+" in text else _UNSIGNED
    return {written.rstrip(",") for written in pattern.findall(text)}


def _plain_number(text: str) -> str:
    digits = text.translate(_GROUPED)
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    sign = "-" if digits.startswith("-") else ""
    return sign + (digits.lstrip("-").lstrip("0") or "0")


def day(text: str) -> Day | None:
    """Return the day of a date or of a time on a date; None if the value is none."""
    if "-" not in text and text.isascii():
        return None
    folded = fold(text)
    if not _DATED.match(folded):
        return None
    match = _ISO.match(folded)
    return None if match is None else (int(match[2]), int(match[3]))


def days(folded: str) -> Iterator[Day]:
    """Yield every day that a folded text names, in figures or in English words."""
    if _FIGURED.search(folded):
        for match in _ISO.finditer(folded):
            yield int(match[2]), int(match[3])
        for date in _FIGURES.finditer(folded):  # some write the day first
            yield int(date[1]), int(date[2])
            yield int(date[2]), int(date[1])
    if not any(map(folded.__contains__, _ABBREVIATIONS)):
        return
    for match in _MONTH_FIRST.finditer(folded):
        yield _MONTHS[match[1]], int(match[2])
    for match in _DAY_FIRST.finditer(folded):
        yield _MONTHS[match[2]], int(match[1])
    for match in _RANGE.finditer(folded):
        yield _MONTHS[match[3]], int(match[1])


def without_dates(folded: str) -> str:
    """Return a folded text without its dates and times, whose figures are no numbers."""
    patterns = [_ISO, _FIGURES] if _FIGURED.search(folded) else []
    if any(map(folded.__contains__, _ABBREVIATIONS)):
        patterns += [_RANGE, _MONTH_FIRST, _DAY_FIRST]
    if ":" in folded:
        patterns.append(_CLOCK)
    for pattern in patterns:
        folded = pattern.sub(" ", folded)
    return folded


def tokens(text: str) -> set[str]:
    """Return the words of a text as they may stand alone, without final marks; addresses whole and bare.

    The text is a folded one, or of ASCII alone.
    """
    words = {word.strip(MARKS) for word in set(text.translate(_WORDS).split())}
    words.discard("")
    if "/" in text or ":" in text or "www." in text:
        words |= {bare(word) for word in words if "/" in word or ":" in word or word.startswith("www.")}
    return words


def decoded(text: str) -> Iterator[str]:
    """Yield what is hidden in a text by invisible characters, percent signs, entities of HTML or base64."""
    plain = visible(text)
    if plain != text:
        yield plain
    if "%" in text and (unquoted := unquote(text)) != text:
        yield unquoted
    if "&" in text and (unescaped := unescape(text)) != text:
        yield unescaped
    for match in _ENCODED.finditer(text):
        if not match[0].islower():
            yield from _from_base64(match[0])


def _from_base64(word: str) -> Iterator[str]:
    try:
        raw = base64.b64decode(word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4), validate=True)
        text = raw.decode()
    except (binascii.Error, ValueError):
        return
    if text.isprintable() and len(text) > 3:
        yield text

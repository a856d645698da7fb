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
from typing import Any, NamedTuple
from urllib.parse import unquote

Day = tuple[int, int]
"""A month and a day."""

_BLANKS = re.compile(r"\s+")
_SCHEME = re.compile(r"^(?:https?://|mailto:|tel:)+(?:www\.)?|^www\.")
_NUMBER = re.compile(r"[-+]?\d[\d,_']*(?:\.\d+)?")
_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|]+")
_ADDRESS = re.compile(r"^[^<>@]*<\s*([^<>\s]+@[^<>\s]+)\s*>$")
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
_CLOCK = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")
_DATED = re.compile(r"^\d{4}-\d{1,2}-\d{1,2}(?:[t ]\d{1,2}(?::\d{2}){0,2}(?:\.\d+)?(?:z|[+-]\d{2}:?\d{2})?)?$")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_DIGIT = re.compile(r"\d")
_REACHED = re.compile(r"[:/<]|^www\.")
_SHORT = 200


def fold(text: str) -> str:
    """Return a text in the form by which it is compared: composed, without case, with single blanks."""
    if text.isascii():
        return " ".join(text.split()).lower()
    return _BLANKS.sub(" ", unicodedata.normalize("NFKC", text)).strip().casefold()


class ValueForm(NamedTuple):
    """A value as it is looked up: by its number, its day or its bare word; `hidden` if nobody sees all of it."""

    hidden: bool
    number: str | None
    day: Day | None
    word: str

    @property
    def key(self) -> str:
        """What fields are found by."""
        return self.number or self.word


def form(value: Any) -> ValueForm:
    """Return the form of a value."""
    text = value if isinstance(value, str) else str(value)
    return _form(text) if len(text) <= _SHORT else _form.__wrapped__(text)


@lru_cache(4096)
def _form(text: str) -> ValueForm:
    return ValueForm(invisible(text), number(text), day(text), bare(text))


def bare(text: str) -> str:
    """Return a folded value without what only says how to reach it: scheme, `www.`, display name, final slash."""
    text = fold(text)
    named = _ADDRESS.match(text)
    return _SCHEME.sub("", named[1] if named else text).rstrip("/") or text


def invisible(text: str) -> bool:
    """Return True if a text has characters that nobody sees."""
    return not text.isascii() and any(unicodedata.category(char) in ("Cf", "Cc", "Co") for char in text)


def visible(text: str) -> str:
    """Return a text without the characters that nobody sees."""
    if text.isascii():
        return text
    return "".join(char for char in text if char.isspace() or unicodedata.category(char) not in ("Cf", "Cc", "Co"))


def number(text: str) -> str | None:
    """Return the one spelling of a number, or None if the text is none: `1,100.00`, `$1100` and `1100` are the same."""
    found = _NUMBER.fullmatch(text.strip(" $€£%"))
    return None if found is None else _plain_number(found[0])


def numbers(text: str) -> Iterator[str]:
    """Yield every number of a text in its one spelling."""
    for found in _NUMBER.finditer(text) if _DIGIT.search(text) else ():
        yield _plain_number(found[0].rstrip(","))


def _plain_number(text: str) -> str:
    digits = re.sub(r"[,_'+]", "", text)
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    sign = "-" if digits.startswith("-") else ""
    return sign + (digits.lstrip("-").lstrip("0") or "0")


def day(text: str) -> Day | None:
    """Return the day of a date or of a time on a date; None if the value is none."""
    folded = fold(text)
    if not _DATED.match(folded):
        return None
    found = _ISO.match(folded)
    return None if found is None else (int(found[2]), int(found[3]))


def days(folded: str) -> Iterator[Day]:
    """Yield every day that a folded text names, in figures or in English words."""
    if not _DIGIT.search(folded):
        return
    for found in _ISO.finditer(folded):
        yield int(found[2]), int(found[3])
    for found in _MONTH_FIRST.finditer(folded):
        yield _MONTHS[found[1]], int(found[2])
    for found in _DAY_FIRST.finditer(folded):
        yield _MONTHS[found[2]], int(found[1])
    for found in _RANGE.finditer(folded):
        yield _MONTHS[found[3]], int(found[1])


def without_dates(folded: str) -> str:
    """Return a folded text without its dates and times, whose figures are no numbers."""
    for pattern in (_ISO, _RANGE, _MONTH_FIRST, _DAY_FIRST, _CLOCK):
        folded = pattern.sub(" ", folded)
    return folded


def tokens(text: str) -> Iterator[str]:
    """Yield the words of a folded text as they may stand alone, without final marks; addresses whole and bare."""
    for found in _TOKEN.findall(text):
        word = found.strip(".:!?*_~")
        if word:
            yield word
            if _REACHED.search(word) and (short := bare(word)) != word:
                yield short


def decoded(text: str) -> Iterator[str]:
    """Yield what is hidden in a text by invisible characters, percent signs or base64."""
    plain = visible(text)
    if plain != text:
        yield plain
    if "%" in text and (unquoted := unquote(text)) != text:
        yield unquoted
    for found in _ENCODED.finditer(text):
        if not found[0].islower():
            yield from _from_base64(found[0])


def _from_base64(word: str) -> Iterator[str]:
    try:
        raw = base64.b64decode(word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4), validate=True)
        text = raw.decode()
    except (binascii.Error, ValueError):
        return
    if text.isprintable() and len(text) > 3:
        yield text

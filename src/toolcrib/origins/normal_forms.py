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
from urllib.parse import unquote

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
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")

Day = tuple[int, int]
"""A month and a day."""


def fold(text: str) -> str:
    """Return a text in the form by which it is compared: composed, without case, with single blanks."""
    return _BLANKS.sub(" ", unicodedata.normalize("NFKC", text)).strip().casefold()


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
    for found in _NUMBER.finditer(text):
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
    """Yield the words of a folded text as they may stand alone: addresses and URLs whole, without final marks."""
    for found in _TOKEN.finditer(text):
        word = found[0].strip(".:!?*_~")
        if word:
            yield word


def decoded(text: str) -> Iterator[str]:
    """Yield what is hidden in a text by invisible characters, percent signs or base64."""
    plain = visible(text)
    if plain != text:
        yield plain
    if "%" in text and (unquoted := unquote(text)) != text:
        yield unquoted
    for found in _ENCODED.finditer(text):
        yield from _from_base64(found[0])


def _from_base64(word: str) -> Iterator[str]:
    try:
        raw = base64.b64decode(word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4), validate=True)
        text = raw.decode()
    except (binascii.Error, ValueError):
        return
    if text.isprintable() and len(text) > 3:
        yield text

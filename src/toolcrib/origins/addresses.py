"""Addresses: what reaches somebody or something by being used, whoever wrote it and in whatever form.

A value is looked at as a program that fetches would read it: without a scheme, with a port, with backslashes, as a
number. In a text only what has a scheme, a path, a query or an `@` counts, since `main.py` could be a host as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SCHEMED = re.compile(r"\s*(?:(?:[a-z][a-z0-9+.-]*+:)?[/\\]{2}|(?:https?|wss?|ftps?):|www\.)", re.IGNORECASE)
_REACHED = re.compile(r"@|://|(?:\d[ -]?){8}")
_HEAD = re.compile(r"\s*([\w.-]{1,253}+)(:\d{1,5}(?!\d))?([/\\]|[?#](?=\S)|\s*$)?")
_FIGURES = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_SIX = re.compile(r"\s*\[[0-9a-f:.]+\]", re.IGNORECASE)
_TELLING = re.compile(r"[./:@\\\[]")
"""What an address has at least one of, but for a telephone number."""

_BARE = "https?|wss?|ftps?|sms|tel|callto|sips?|xmpp|magnet|javascript|file|bitcoin"
"""Schemes that are followed by no slashes, or need none."""

_END = r"[^\s<>\"')\]]"
_IN_TEXT = re.compile(
    rf"(?:\b[a-z][a-z0-9+.-]{{1,19}}+:[/\\]{{2}}|\b(?:{_BARE}):(?=[\w+?/])|(?<![\w\\])\\\\(?=\w)|www\.){_END}+"
    rf"|(?<![\w.])(?:{_FIGURES.pattern}):\d{{1,5}}{_END}*"
    r"|(?<![\w.+-])([\w.+-]++)(?:(@)[\w.-]++|(?::\d{1,5})?(?:[/\\]|[?#](?=\S)))",
    re.IGNORECASE,
)
_FULL_STOP = re.compile("(?<=[a-z0-9])\u3002(?=[a-z0-9])", re.IGNORECASE)
_TAIL = re.compile(rf"{_END}*")


def is_url(text: str) -> bool:
    """Return True if a program that is to fetch something would take a text as where from, whatever it is called."""
    if text.isalnum() or not _TELLING.search(text):
        return False
    if _SCHEMED.match(text) or _SIX.match(text):
        return True
    head = _HEAD.match(text)
    if head is None:
        return False
    return _is_figures(head[1]) or (_is_host(head[1]) and bool(head[2] or (head[3] or "").strip()))


def is_address(text: str) -> bool:
    """Return True if a text reaches somebody or something: e-mail, URL, host, telephone, account number."""
    if _REACHED.search(text) or is_url(text):
        return True
    head = _HEAD.match(text)
    if head is None or head[3] is None:
        return False
    return _is_host(head[1]) or (head[2] is not None and head[1][0].isalpha())


def links(text: str) -> list[str]:
    """Return each link and each e-mail address in a text, once."""
    if not text.isascii():  # as a program reads it
        text = _FULL_STOP.sub(".", unicodedata.normalize("NFKC", text))
    return [*dict.fromkeys(link.rstrip(".,;:!?") for link in _links(text))]


def _links(text: str) -> Iterator[str]:
    after = 0
    for match in _IN_TEXT.finditer(text):
        if match.start() < after:
            continue
        if match[1] is None:
            yield match[0]
        elif match[2] is not None:
            if "." in match[0].partition("@")[2].strip("."):
                yield match[0]
        elif _is_host(match[1]) or _is_figures(match[1]):
            after = _TAIL.match(text, match.end()).end()  # type: ignore[union-attr]  # it always matches
            yield text[match.start() : after]


def _is_host(text: str) -> bool:
    """Return True for names of which the last is one of letters, as the top of a host's is."""
    labels = text.removesuffix(".").split(".")
    top = labels[-1].lower()
    is_top = (len(top) > 1 and top.isalpha()) or top.startswith("xn--")
    return len(labels) > 1 and is_top and all(label.strip("-") == label != "" for label in labels)


def _is_figures(text: str) -> bool:
    return _FIGURES.fullmatch(text) is not None

"""Labels of tools: whether strangers can write into what a tool returns, and whether that is anybody's business.

A tool may declare them. Where it does not, a tool that reaches the open world, one of a source that is not trusted, and
one whose name says that it reads mail, the web, shared files or chats is untrusted; the others are trusted. What is not
declared public is private.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Literal, get_args

Label = Literal["trusted", "untrusted", "public", "private"]
LABELS: tuple[str, ...] = get_args(Label)

_WORDS = (
    "mail email emails inbox web webpage webpages website page pages site url http https fetch browse browser crawl "
    "scrape download slack chat chats message messages channel channels thread threads file files drive document "
    "documents doc docs attachment attachments issue issues comment comments review reviews feed rss tweet tweets post "
    "posts forum ticket tickets calendar event events invite invites note notes "
    "memory memories recall wiki"
)
_UNTRUSTED = frozenset(_WORDS.split())
_PART = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def problem_of(labels: Collection[str]) -> str | None:
    """Return what is wrong with the labels of a tool, or None."""
    for label in labels:
        if label not in LABELS:
            return f"{label!r} is none of {', '.join(LABELS)}"
    for one, other in (("trusted", "untrusted"), ("public", "private")):
        if one in labels and other in labels:
            return f"{one} and {other} exclude each other"
    return None


@lru_cache(4096)
def named_untrusted(name: str) -> bool:
    """Return True if a name says that strangers may have written what the tool returns."""
    return not _UNTRUSTED.isdisjoint(_PART.findall(_CAMEL.sub("_", name).casefold()))

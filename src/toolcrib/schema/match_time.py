"""How long all texts of a value may be held against the patterns of a schema.

One text is bounded by the length that its pattern can bear. Very many short ones are not, and the engine holds the
interpreter's lock until it is through with all of them. So where they might take long, they are first held against the
patterns a few at a time, with a look at the clock in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.schema.limits import LONGEST_MATCH

MATCH_S = 0.25
"""Seconds of the processor in which all texts of one value have to be held against all patterns of a schema."""

AT_ONCE = 2 * LONGEST_MATCH
"""States times characters between two looks at the clock; a value that has fewer needs none."""


class MatchTimer:
    """Tells which values would take too long; `match` holds a list of texts against all patterns.

    `states` is what one character may cost: the states of all patterns together.
    """

    def __init__(self, states: int, match: Callable[[list[str]], object]) -> None:
        self._longest = AT_ONCE // max(states, 1)
        self._match = match

    def is_short(self, characters: int) -> bool:
        """True if so many characters cannot take long."""
        return characters <= self._longest

    def exceeds(self, value: Any) -> bool:
        """True if the texts of a value, and the names in it, take too long."""
        texts = list(_texts(value))
        if self.is_short(sum(map(len, texts)) + len(texts)):
            return False
        begun = time.thread_time()
        for some in self._slices(texts):
            self._match(some)
            if time.thread_time() - begun > MATCH_S:
                return True
        return False

    def _slices(self, texts: list[str]) -> Iterator[list[str]]:
        some, size = list[str](), 0
        for text in texts:
            some.append(text)
            size += len(text) + 1
            if size > self._longest:
                yield some
                some, size = [], 0
        if some:
            yield some


def _texts(value: Any) -> Iterator[str]:
    """All texts and all names in a value."""
    open_values = [value]
    while open_values:
        one = open_values.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from one
            open_values += one.values()
        elif isinstance(one, list):
            open_values += one

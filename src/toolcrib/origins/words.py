"""Words of somebody who is trusted, and whether a value stands in them."""

from __future__ import annotations

import re
from typing import Any

from toolcrib.origins import deeds
from toolcrib.origins.normal_forms import Day, days, fold, form, numbers, tokens, without_dates

_RUN_ON = re.compile(r"\.(?=[A-Z][a-z])")
MOST = 1_000_000


class TrustedWords:
    """What somebody trusted has said, with all that it names."""

    def __init__(self) -> None:
        self.stems: set[str] = set()
        self.count = 0
        self._text = " "
        self._tokens: set[str] = set()
        self._numbers: set[str] = set()
        self._days: set[Day] = set()

    def add(self, text: str) -> None:
        """Take more of them; of endless words those that came first count."""
        if len(self._text) > MOST:
            return
        self.count += 1
        folded = fold(_RUN_ON.sub(". ", text))
        self._text += folded + " "
        for token in tokens(folded):
            self._tokens |= {token, token.removesuffix("'s")}
        self._numbers.update(numbers(without_dates(folded)))
        self._days.update(days(folded))
        self.stems |= deeds.stems(folded)

    def contain(self, value: Any) -> bool:
        """Return True if a value stands in them, as a whole and at the bounds of words."""
        if isinstance(value, bool) or value is None:
            return False
        hidden, plain, date, word = form(value)
        if hidden:
            return False
        if plain is not None:
            return plain in self._numbers
        if date is not None:
            return date in self._days
        return bool(word) and (word in self._tokens or (" " in word and self._hold(word)))

    def _hold(self, phrase: str) -> bool:
        at = self._text.find(phrase)
        while at >= 0:
            before, after = self._text[at - 1], self._text[at + len(phrase)]
            if not before.isalnum() and not after.isalnum():
                return True
            at = self._text.find(phrase, at + 1)
        return False

"""Words of somebody, and whether a value stands in them."""

from __future__ import annotations

import re
from typing import Any

from toolcrib.origins import deeds
from toolcrib.origins.normal_forms import (
    MARKS,
    SHORTEST_ENCODED,
    Day,
    ValueForm,
    days,
    decoded,
    figures,
    fold,
    form,
    has_digits,
    numbers,
    tokens,
    without_dates,
)

_RUN_ON = re.compile(r"\.(?=[A-Z][a-z])")
MOST = 1_000_000
SHORTEST_PIECE = 2
"""Letters of a word that an agent wrote, of which a longer one may be put together."""

MOST_PENDING = 64_000
"""Characters of texts whose words are not read yet."""


class WordIndex:
    """Texts, with the words, numbers and days in them."""

    def __init__(self) -> None:
        self._text = " "
        self._added: list[str] = []
        self._length = 0
        self._tokens: set[str] = set()
        self._numbers: set[str] = set()
        self._days: set[Day] = set()

    @property
    def full(self) -> bool:
        """True if no more is taken."""
        return self._length > MOST

    def _append(self, folded: str) -> None:
        self._added.append(folded)
        self._length += len(folded) + 1

    def contain(self, value: Any) -> bool:
        """Return True if a value stands in them, as a whole and at the bounds of words."""
        return value is not None and value is not True and value is not False and self.hold(form(value))

    def hold(self, value: ValueForm, as_written: bool = False) -> bool:
        """Return True if a value of that form stands in them; `as_written`, `007` is another number than `7`."""
        hidden, plain, date, word, _ = value
        if hidden:
            return False
        if plain is not None:
            return plain in self._numbers and (not as_written or word in self._tokens)
        if date is not None:
            return date in self._days
        return bool(word) and (word in self._tokens or (" " in word and self._hold_phrase(word)))

    def _hold_phrase(self, phrase: str) -> bool:
        if self._added:
            self._text += " ".join(self._added) + " "
            self._added.clear()
        at = self._text.find(phrase)
        while at >= 0:
            before, after = self._text[at - 1], self._text[at + len(phrase)]
            if not before.isalnum() and not after.isalnum():
                return True
            at = self._text.find(phrase, at + 1)
        return False


class TrustedWords(WordIndex):
    """What somebody trusted has said, with all that it names and asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.stems: set[str] = set()
        self.addresses = False
        self.count = 0

    def add(self, text: str) -> None:
        """Take more of them; of endless words those that came first count."""
        if self.full:
            return
        self.count += 1
        folded = fold(_RUN_ON.sub(". ", text))
        self._append(folded)
        for token in tokens(folded):
            self._tokens |= {token, token.removesuffix("'s")}
            self.addresses |= "@" in token[1:-1]
        undated = without_dates(folded)
        self._numbers.update(numbers(undated))
        self._tokens.update(figures(undated))
        self._days.update(days(folded))
        self.stems |= deeds.stems(folded)


class WrittenWords(WordIndex):
    """What agents wrote somewhere, from where it may come back; their words are read once somebody asks for one."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: list[str] = []
        self._mixed: list[str] = []
        """Single words with figures in them, whose numbers are not read yet."""
        self._size = 0

    def add(self, text: str) -> None:
        """Take what an agent wrote."""
        if len(text) < SHORTEST_ENCODED and text.isascii() and text.isalnum():  # one word, and nothing hidden in it
            if not self.full:
                self._add_word(text.lower())
            return
        self._pending.append(text)
        self._size += len(text)
        if self._size > MOST_PENDING:
            self._read_pending()

    def hold(self, value: ValueForm, as_written: bool = False) -> bool:
        """Return True if an agent may have written a value; once they are full, everything may have been."""
        if self._pending:
            self._read_pending()
        if self._mixed and value.number is not None:
            self._numbers.update(numbers(" ".join(self._mixed)))
            self._mixed.clear()
        return self.full or (bool(self._length) and super().hold(value))

    def make_up(self, value: str) -> bool:
        """Return True if a value consists of several words that an agent wrote, of two letters or more."""
        if self._pending:
            self._read_pending()
        word, ends = fold(value), {0}
        for end in range(1, len(word) + 1):
            pieces = (word[start:end] for start in ends if end - start >= SHORTEST_PIECE)
            mark = word[end - 1] in MARKS and end - 1 in ends  # no word has it at its end
            if mark or any(piece != word and piece in self._tokens for piece in pieces):
                ends.add(end)
        return len(word) in ends

    def _read_pending(self) -> None:
        for text in self._pending:
            if not self.full:
                self._read(text[: MOST + 1])
        self._pending.clear()
        self._size = 0

    def _add_word(self, word: str) -> None:
        if word not in self._tokens:
            self._tokens.add(word)
            if not word.isalpha():
                self._mixed.append(word)
        self._append(word)

    def _read(self, text: str) -> None:
        for folded in map(fold, (text, *decoded(text))):
            self._append(folded)
            self._tokens |= tokens(folded)
            if has_digits(folded):
                self._numbers.update(numbers(folded))
                self._days.update(days(folded))

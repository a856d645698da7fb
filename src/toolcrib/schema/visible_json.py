"""JSON as people are shown it before they agree: exactly what will run, with nothing in it that cannot be seen."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and signs that are drawn as nothing."""


def visible_json(value: Any, indent: int | None = None) -> str:
    """Return the JSON text of a value; characters that are invisible, break lines or turn the writing are escaped.

    The text reads as the same value again: integers are whole, however large.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, default=str)
    return text if text.isascii() and "\x7f" not in text else "".join(map(_escaped, text))


def visible_text(text: str) -> str:
    """Return a text in which such characters are escaped; its lines stay."""
    return text if text.isascii() and text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character == "\n" or (character.isascii() and character.isprintable()):
        return character
    category = unicodedata.category(character)
    selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    hidden = category in _HIDDEN or category == "Zs" or selector or character in _BLANK
    return json.dumps(character)[1:-1] if hidden else character

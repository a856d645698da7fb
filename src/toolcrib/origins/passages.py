"""Where the values that a question is about were seen, for whoever answers it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.origins.normal_forms import MARKS as EDGES
from toolcrib.origins.normal_forms import ValueForm, days, decoded, fold, form, has_digits, numbers, tokens, visible
from toolcrib.schema.visible_json import visible_text

MARKS = ("»", "«")
_AROUND = 60
LONGEST_DAY = 4
"""Words of a day, as in `the 5th of June`."""

_WORD = re.compile(r"\S+")


def passages(data: Any) -> Iterator[str]:
    """Yield a line for each value of a question that was seen inside a text, with the value marked in its passage."""
    for seen in origins_of(data):
        if isinstance(seen, Mapping) and isinstance(seen.get("passage"), str):
            place = ", ".join(str(seen[name]) for name in ("call", "tool", "path") if seen.get(name))
            value = seen.get("written", seen.get("value", ""))
            yield f"{place}: {_marked(_line(seen['passage']), _line(str(value)))}"


def origins_of(data: Any) -> list[Any]:
    """Return where the values were seen that a question asks about, as its data have it."""
    origins = data.get("origins") if isinstance(data, Mapping) else None
    return list(origins) if isinstance(origins, list | tuple) else []


def without_passages(data: Any) -> Any:
    """Return the rest of a question's data, None where there is none."""
    if not isinstance(data, Mapping) or "origins" not in data:
        return data
    return {name: value for name, value in data.items() if name != "origins"} or None


def excerpt(text: str, value: str) -> tuple[str, str]:
    """Return the part of a text around the place of a value, and how the value is written there."""
    at = text.casefold().find(value.casefold())
    written = value if at >= 0 else _written(text, value)
    at = max(text.find(written), 0) if at < 0 else at
    start, end = max(0, at - _AROUND), at + len(written) + _AROUND
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else ""), written


def _written(text: str, value: str) -> str:
    """Return the words of a text that are, or hide, a value in another form; nothing where none are."""
    shape, words = form(value), list(_WORD.finditer(text))
    for size in range(1, max(len(value.split()), LONGEST_DAY if shape.day else 1) + 1):
        for first, last in zip(words, words[size - 1 :], strict=False):
            part = text[first.start() : last.end()]
            if _may_be(part, shape) and any(_is(one, shape) for one in (visible(part), *decoded(part))):
                return part.strip(EDGES + ",;()<>[]{}")
    return ""


def _may_be(part: str, shape: ValueForm) -> bool:
    """Return False if a part cannot be a value, without a closer look: what hides one is no shorter than it."""
    return has_digits(part) if shape.number or shape.day else len(part) >= len(shape.word)


def _is(part: str, shape: ValueForm) -> bool:
    folded = fold(part)
    if shape.number is not None:
        return shape.number in numbers(folded)
    if shape.day is not None:
        return shape.day in days(folded)
    return shape.word in folded if " " in shape.word else shape.word in tokens(folded)


def _line(text: str) -> str:
    return visible_text(" ".join(text.split()))


def _marked(passage: str, value: str) -> str:
    at = passage.casefold().find(value.casefold()) if value else -1
    if at < 0:
        return passage
    end = at + len(value)
    return f"{passage[:at]}{MARKS[0]}{passage[at:end]}{MARKS[1]}{passage[end:]}"

"""Where the values that a question is about were seen, for whoever answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.schema.visible_json import visible_text

MARKS = ("»", "«")


def passages(data: Any) -> Iterator[str]:
    """Yield a line for each value of a question that was seen inside a text, with the value marked in its passage."""
    for seen in origins_of(data):
        if isinstance(seen, Mapping) and isinstance(seen.get("passage"), str):
            place = ", ".join(str(seen[name]) for name in ("call", "tool", "path") if seen.get(name))
            yield f"{place}: {_marked(_line(seen['passage']), _line(str(seen.get('value', ''))))}"


def origins_of(data: Any) -> list[Any]:
    """Return where the values were seen that a question asks about, as its data have it."""
    origins = data.get("origins") if isinstance(data, Mapping) else None
    return list(origins) if isinstance(origins, list | tuple) else []


def without_passages(data: Any) -> Any:
    """Return the rest of a question's data, None where there is none."""
    if not isinstance(data, Mapping) or "origins" not in data:
        return data
    return {name: value for name, value in data.items() if name != "origins"} or None


def _line(text: str) -> str:
    return visible_text(" ".join(text.split()))


def _marked(passage: str, value: str) -> str:
    at = passage.casefold().find(value.casefold()) if value else -1
    if at < 0:
        return passage
    end = at + len(value)
    return f"{passage[:at]}{MARKS[0]}{passage[at:end]}{MARKS[1]}{passage[end:]}"

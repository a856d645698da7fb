"""`{{name}}` in instructions: put in place from what is known, without logic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

KNOWN = ("session", "owner", "agent", "now")
_NAME = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")


def unknown_names(text: str, vars: Iterable[str]) -> list[str]:
    """The names in a text that nobody would fill in."""
    known = {*KNOWN, *vars}
    return [name for name in dict.fromkeys(_NAME.findall(text)) if name not in known]


def filled(text: str, known: Callable[[], Mapping[str, str]]) -> str:
    """The text with its names put in place; what is not known stays as it is."""
    if "{{" not in text:
        return text
    values = known()
    return _NAME.sub(lambda found: values.get(found[1], found[0]), text)

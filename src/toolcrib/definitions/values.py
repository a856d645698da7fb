"""Values of a document as what they should be; anything else is as good as absent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.definitions.definition import NOTHING

SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def texts(value: Any) -> tuple[str, ...]:
    """A text, or the texts of a list."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(inner for inner in value if isinstance(inner, str) and inner) if isinstance(value, tuple) else ()


def text(value: Any) -> str:
    """A text; empty for anything else."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping; empty for anything else."""
    return value if isinstance(value, Mapping) else NOTHING

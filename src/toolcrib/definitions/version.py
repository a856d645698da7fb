"""Which version of the format a document is written in: what it says itself, else what it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from toolcrib.definitions.definition import NOTHING, Reason

BLOCKS = ("executable_knowledge", "api_complexity", "anti_patterns")
"""The blocks that only version 2 has; `examples` with scenarios is the fourth sign of it."""

Version = Literal[1, 2]
_TEXTS: Mapping[str, Version] = {"1": 1, "1.0": 1, "2": 2, "2.0": 2}


class DetectedVersion(NamedTuple):
    """A version, and how it is known."""

    version: Version
    reason: Reason


def detect(document: Any) -> DetectedVersion:
    """The version of any value whatever; one that is no tool has version 1."""
    tool = document
    if isinstance(document, Mapping) and "tool" in document:
        tool = document["tool"]
    if not isinstance(tool, Mapping):
        tool = NOTHING
    declared = explicit(tool.get("schema_version"))
    if declared is not None:
        return DetectedVersion(declared, "explicit")
    return DetectedVersion(2, "features") if features(tool) else DetectedVersion(1, "default")


def explicit(value: Any) -> Version | None:
    """The version that a legal `schema_version` names."""
    if isinstance(value, str):
        return _TEXTS.get(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 1 if value == 1 else 2 if value == 2 else None
    return None


def absent(value: Any) -> bool:
    """True if a `schema_version` says nothing."""
    return value is None or (value in (0, "") and not isinstance(value, bool))


def features(tool: Mapping[str, Any]) -> bool:
    """True if a tool uses what only version 2 has. An empty block counts."""
    return any(present(tool.get(name)) for name in BLOCKS) or _has_scenario(tool.get("examples"))


def present(block: Any) -> bool:
    """True if a block is there at all: null, false, 0 and the empty text are not."""
    return block is not None and not (isinstance(block, bool | int | float | str) and not block)


def _has_scenario(examples: Any) -> bool:
    """True if any entry, however deep, has a text `scenario`. A value that holds itself is looked at once."""
    waiting, seen = [examples], set()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Mapping | list | tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping) and isinstance(value.get("scenario"), str):
            return True
        waiting.extend(value.values() if isinstance(value, Mapping) else value)
    return False

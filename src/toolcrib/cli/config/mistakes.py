"""What is wrong in a `crib.yaml`, in the words of this program and at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from toolcrib.cli.config.model import (
    AccountSection,
    AddedSourcesSection,
    AgentsSection,
    AuthSection,
    CribFile,
    CribLimitsSection,
    FilesEntry,
    JwtSection,
    McpEntry,
    McpServeSection,
    OpenApiEntry,
    SamplingSection,
    ServeLimitsSection,
    ServeSection,
    SkillsEntry,
    ToolLimitsSection,
    unknown,
)
from toolcrib.cli.terminal import short
from toolcrib.yaml import Path as Place
from toolcrib.yaml import spelled

_EXPECTED = {
    "string_type": "a text",
    "string_too_short": "a text",
    "string_pattern_mismatch": "a text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
_WITHOUT_PLACE = ("a text", "a list", "a mapping")


class Mistake(Exception):
    """A value of `crib.yaml` that does not hold, at its place; `part` is the piece of the text that is meant."""

    def __init__(self, message: str, place: Place = (), part: str = "") -> None:
        super().__init__(message)
        self.place, self.part = place, part


class UnknownKey(Mistake):
    """A key of `crib.yaml` that is not known; its place is that of the key."""

    def __init__(self, place: Place, known: list[str]) -> None:
        prefix = "limits: " if "limits" in (place[0], *place[-2:-1]) else ""
        super().__init__(prefix + unknown(place[-1], known), place)


def mistakes(error: ValidationError, data: Any) -> Iterator[Mistake]:
    """Yield what is wrong with data, in the words of this program."""
    for one in error.errors(include_url=False):
        place = _place(one["loc"], data)
        if one["type"] == "extra_forbidden":
            yield UnknownKey(place, list(_model_of(one["loc"][:-1]).model_fields))
        elif one["type"] == "missing":
            yield Mistake(f"{_spelled(place[:-1])}{place[-1]} is missing", place[:-1])
        else:
            yield Mistake(_message(one, place), place)


def _message(error: Any, place: Place) -> str:
    if error["type"] == "value_error":
        return f"{_spelled(place)}{error['ctx']['error']}"
    if error["type"] == "greater_than":
        return f"{_spelled(place)}must be more than 0, not {error['input']}"
    expected = _EXPECTED.get(error["type"])
    if expected is None:
        return f"{_spelled(place)}{error['msg']}"
    message = f"expected {expected}, got {short(str(error['input']), 40)!r}"
    return message if expected in _WITHOUT_PLACE else f"{_spelled(place)}{message}"


def _spelled(place: Place) -> str:
    """Return the place before a message; of an entry of `sources` it is that inside of the entry."""
    inner = place[2:] if place[:1] == ("sources",) else place
    return f"{spelled(inner)}: " if inner else ""


def _place(loc: tuple[int | str, ...], data: Any) -> Place:
    """Return where an error stands in the data, without the tags of unions."""
    place: list[str | int] = []
    for index, step in enumerate(loc):
        inner = _child(data, step)
        named = isinstance(data, Mapping) and isinstance(step, str) and not step.startswith("#")
        if inner is not None:
            data = inner[0]
        elif index < len(loc) - 1 or not named:
            continue
        place.append(step)
    return tuple(place)


def _child(data: Any, step: int | str) -> tuple[Any] | None:
    if isinstance(data, Mapping) and step in data:
        return (data[step],)
    return (data[step],) if isinstance(data, list) and isinstance(step, int) and step < len(data) else None


_TAGS: dict[str, type[BaseModel]] = {
    "#files": FilesEntry,
    "#openapi": OpenApiEntry,
    "#skills": SkillsEntry,
    "#mcp": McpEntry,
}


def _model_of(loc: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model of the mapping at the place of an error."""
    if not loc:
        return CribFile
    if loc[0] == "sources":
        inner: dict[str, type[BaseModel]] = {"sampling": SamplingSection, "limits": ToolLimitsSection}
        return inner.get(str(loc[-1])) or _TAGS[str(loc[2])]
    if loc[0] == "accounts":
        return AccountSection
    sections: dict[tuple[int | str, ...], type[BaseModel]] = {
        ("limits",): CribLimitsSection,
        ("agents", "#mapping"): AgentsSection,
        ("serve",): ServeSection,
        ("serve", "auth"): AuthSection,
        ("serve", "auth", "jwt"): JwtSection,
        ("serve", "limits"): ServeLimitsSection,
        ("serve", "mcp"): McpServeSection,
        ("serve", "sources"): AddedSourcesSection,
    }
    return sections[loc]

"""Slips of the pen in a schema: a word that is almost a keyword, and a required property that is not described."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from toolcrib.schema.names import nearest
from toolcrib.schema.positions import LISTS, MAPS, ONES

KEYWORDS = frozenset(
    (
        *("$id", "$schema", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment", "id"),
        *MAPS,
        *LISTS,
        *ONES,
        *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains"),
        *("maxProperties", "minProperties", "required", "dependentRequired", "format", "contentEncoding"),
        *("contentMediaType", "title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples"),
        *("example", "nullable", "discriminator", "xml", "externalDocs"),
    )
)
"""The keywords of JSON Schema, of its drafts before, and of OpenAPI."""
OF_OTHERS = {"min": "minimum", "max": "maximum", "regex": "pattern", "regexp": "pattern", "choices": "enum"}
"""Words by which other systems say what a keyword says."""
NOTES = ("comment", "comments", "notes", "formats", "schema", "descriptions", "cost", "ids")
"""Words that are close to a keyword, and are notes that people keep in a schema."""
TRANSLATION = re.compile("(title|description|examples?)(_[a-z]{2}|-[a-z]{2}|[A-Z][a-z])")
DESCRIBED_ELSEWHERE = (
    *("patternProperties", "allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "then", "else"),
    *("dependentSchemas", "dependencies"),
)
IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Schemas inside these are about the same object as the one around them, which may describe its properties."""
ALIKE = 0.8
DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Slip:
    """What does nothing in a schema: where it stands, what is wrong, and what was probably meant."""

    path: tuple[str | int, ...]
    message: str
    nearest: str | None


def slips(schema: Any, path: tuple[str | int, ...] = (), *, whole: bool = True) -> Iterator[Slip]:
    """Yield the slips of a schema and of the schemas inside it; one that is not `whole` adds to another."""
    if not isinstance(schema, Mapping) or len(path) > DEEPEST:
        return
    for key in schema:
        meant = _meant(key) if isinstance(key, str) else None
        if meant is not None:
            yield Slip((*path, key), f"'{key}' is no keyword of JSON Schema and does nothing", meant)
    if whole:
        yield from _required(schema, path)
    for step, inner, is_whole in _inside(schema):
        yield from slips(inner, (*path, *step), whole=is_whole)


def _inside(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any, bool]]:
    """The schemas directly inside one, and whether each says itself which properties there are."""
    for key, value in schema.items():
        is_whole = key not in IN_PLACE
        if key in MAPS and isinstance(value, Mapping):
            yield from (((key, name), inner, is_whole) for name, inner in value.items())
        elif key in LISTS and _is_list(value):
            yield from (((key, number), inner, is_whole) for number, inner in enumerate(value))
        elif key in ONES:
            yield (key,), value, is_whole


@lru_cache(maxsize=4096)
def _meant(key: str) -> str | None:
    """The keyword that a word was probably meant to be."""
    if key in KEYWORDS or key in NOTES or key.startswith(("x-", "x_", "$")) or TRANSLATION.fullmatch(key):
        return None
    if key in OF_OTHERS:
        return OF_OTHERS[key]
    matcher = SequenceMatcher(None, "", key[:64].lower())
    best, meant = ALIKE, None
    for name in sorted(KEYWORDS):
        matcher.set_seq1(name.lower())
        if matcher.real_quick_ratio() >= best and (ratio := matcher.ratio()) >= best:
            best, meant = ratio, name
    return meant


def _required(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> Iterator[Slip]:
    """Names that must be there and that no property has, in a schema that says itself which there are."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not properties or not _is_list(required):
        return
    if isinstance(schema.get("additionalProperties"), Mapping) or any(key in schema for key in DESCRIBED_ELSEWHERE):
        return
    for number, name in enumerate(required or ()):
        if isinstance(name, str) and name not in properties:
            close = nearest(name, map(str, properties), 1)
            message = f"'{name}' is required, and no property has that name"
            yield Slip((*path, "required", number), message, close[0] if close else None)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)

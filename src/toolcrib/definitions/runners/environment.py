"""The environment of programs and services: what every program gets, and the variables that a file declares.

Values of declared variables are secrets: they are handed to what runs, and masked in all that it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

from toolcrib.definitions.definition import NOTHING, ToolDefinition
from toolcrib.errors import ToolFailure
from toolcrib.schema.redaction import texts_of

ALWAYS = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
MASKED_FROM = 4
"""Shorter values are not masked: `1` or `eu` would tear every text to pieces, and hide nothing."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that a file declares."""

    name: str
    required: bool = False
    description: str = ""


def declared(definition: ToolDefinition) -> tuple[Variable, ...]:
    """The variables of a file, each once: of its type's block, of the tool, and what it depends on."""
    depends = definition.tool.get("dependencies")
    variables = [
        *_variables(definition.specific.get("environment_variables"), False),
        *_variables(definition.tool.get("environment_variables"), False),
        *_variables(depends.get("env_vars") if isinstance(depends, Mapping) else None, True),
        *_of_auth(definition),
    ]
    merged: dict[str, Variable] = {}
    for one in variables:
        first = merged.get(one.name, one)
        merged[one.name] = Variable(one.name, first.required or one.required, first.description or one.description)
    return tuple(merged.values())


def _variables(block: Any, required: bool) -> Iterator[Variable]:
    if isinstance(block, Mapping):
        block = [
            {"name": name, **(fields if isinstance(fields, Mapping) else {"description": fields})}
            for name, fields in block.items()
        ]
    for entry in block if isinstance(block, list | tuple) else ():
        fields = entry if isinstance(entry, Mapping) else {"name": entry}
        name = fields.get("name")
        if isinstance(name, str) and _NAME.fullmatch(name):
            yield Variable(name, bool(fields.get("required", required)), str(fields.get("description") or ""))


def _of_auth(definition: ToolDefinition) -> Iterator[Variable]:
    auth = definition.specific.get("auth") if definition.type == "http" else None
    if isinstance(auth, Mapping) and auth.get("env"):
        yield from _variables([{"name": auth["env"], "description": auth.get("description")}], True)


def capabilities(variables: Iterable[Variable]) -> tuple[str, ...]:
    """What may be read, as capabilities."""
    return tuple(f"secrets:read:{one.name}" for one in variables)


def values(variables: Iterable[Variable], environ: Mapping[str, str]) -> dict[str, str]:
    """The declared variables that are set.

    Raises:
        ToolFailure: `unavailable`, a required one is not.
    """
    known = {}
    for one in variables:
        value = environ.get(one.name)
        if value:
            known[one.name] = value
        elif one.required:
            raise ToolFailure("unavailable", f"{one.name} is not set", hint=one.description or None, retryable=False)
    return known


def for_program(secrets: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a program."""
    return {**{name: environ[name] for name in ALWAYS if name in environ}, **secrets}


def masks(secrets: Mapping[str, str] = NOTHING, *more: str) -> tuple[str, ...]:
    """The texts that nobody may see, in every form that they may have, also in an address."""
    shown = [value for value in (*secrets.values(), *more) if len(value) >= MASKED_FROM]
    return texts_of(form for value in shown for form in (value, quote(value, safe=""), quote(value), quote_plus(value)))

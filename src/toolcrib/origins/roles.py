"""Roles of arguments: whom, where, which, how much, and what is merely said.

A schema may declare one (`"x-toolcrib-role": "recipient"`). Where it does not, the format and the name of the field are
a documented guess: `toolcrib tools show` prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

KEY = "x-toolcrib-role"

Role = Literal["recipient", "destination", "identifier", "amount", "content", "option"]
ROLES: tuple[Role, ...] = get_args(Role)

_WORDS: dict[Role, str] = {
    "content": (
        "body content contents text message subject title description summary comment comments note notes caption "
        "html markdown review reviews feedback reason explanation prompt instructions headline abstract memo remark "
        "remarks question answer reply snippet details location place venue"
    ),
    "recipient": (
        "to cc bcc recipient recipients email emails mail participants participant attendees attendee user users "
        "username member members assignee assignees reviewer reviewers invitee invitees phone iban payee beneficiary "
        "account contact contacts person people sender owner team group audience"
    ),
    "destination": (
        "url urls uri link href endpoint webhook callback host hostname domain server channel channels room "
        "destination target remote bucket repository repo topic queue"
    ),
    "option": ("type kind mode format status priority sort order language locale currency unit permission level"),
    "amount": (
        "amount price cost total quantity count number limit size cents value sum rate percentage date day time start "
        "end deadline due when until since duration hours minutes days year month"
    ),
}
_NAMES = {role: frozenset(words.split()) for role, words in _WORDS.items()}
_FORMATS: dict[str, Role] = {
    "email": "recipient",
    "idn-email": "recipient",
    "uri": "destination",
    "url": "destination",
    "hostname": "destination",
    "uuid": "identifier",
    "date": "amount",
    "date-time": "amount",
    "time": "amount",
    "duration": "amount",
}
_HOSTS = "url urls uri link href endpoint webhook callback host hostname domain"
_LOCATIONS = _NAMES["destination"] & frozenset(_HOSTS.split())
_PART = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(16384)
def by_name(name: str) -> Role | None:
    """Return the role that a name suggests: that of its last telling word, as in `user_email`; an id is always one."""
    parts = _PART.findall(_CAMEL.sub("_", name).casefold())
    if not parts:
        return None
    if parts[-1] in ("id", "ids", "key", "uuid"):
        return "identifier"
    for part in reversed(parts):
        for role, names in _NAMES.items():
            if part in names:
                return role
    return None


def names_location(path: str) -> bool:
    """Return True if a value of that name is where a request goes, in whatever form it is written."""
    return not _LOCATIONS.isdisjoint(_PART.findall(_CAMEL.sub("_", path.rpartition(".")[2]).casefold()))


@lru_cache(16384)
def is_content(name: str) -> bool:
    """Return True if a field of that name holds what somebody wrote."""
    return by_name(name) == "content"


def role_of(name: str, schema: Any) -> Role:
    """Return the role of an argument: the declared one, else the guess."""
    if not isinstance(schema, Mapping):
        return by_name(name) or "identifier"
    declared = schema.get(KEY)
    return declared if declared in ROLES else guess(name, schema)


def guess(name: str, schema: Mapping[str, Any]) -> Role:
    """Return the role of an argument where none is declared."""
    kinds, named = _kinds(schema), by_name(name)
    if "enum" in schema and named in ("recipient", "destination"):
        return named  # a list of whom it may reach does not say who was meant
    if "enum" in schema or "const" in schema or kinds == {"boolean"}:
        return "option"
    if (role := _FORMATS.get(str(schema.get("format")))) is not None:
        return role
    if named is not None:
        return named
    return "amount" if kinds and kinds <= {"number", "integer"} else "identifier"


def unknown(schema: Any, depth: int = 6) -> Iterator[str]:
    """Yield every declared role that there is none of, by its text."""
    if isinstance(schema, Mapping) and depth:
        if KEY in schema and schema[KEY] not in ROLES:
            yield str(schema[KEY])
        for inner in (*_mapping(schema.get("properties")), schema.get("items"), *_list(schema.get("anyOf"))):
            yield from unknown(inner, depth - 1)


def _mapping(value: Any) -> tuple[Any, ...]:
    return tuple(value.values()) if isinstance(value, Mapping) else ()


def _list(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    kinds = {declared} if isinstance(declared, str) else set(declared) if isinstance(declared, list) else set()
    for branch in _list(schema.get("anyOf")):
        if isinstance(branch, Mapping):
            kinds |= _kinds(branch)
    return kinds - {"null"}

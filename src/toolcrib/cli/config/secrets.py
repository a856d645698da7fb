"""References to secrets in a `crib.yaml`: which of them lead nowhere, as far as that can be seen without a look-up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolcrib.schema import nearest
from toolcrib.secret_references import SCHEMES
from toolcrib.yaml import Path as Place

KEYS = ("env", "headers", "auth", "client_secret", "private_key", "subject_token", "secret")
"""The keys of sources and accounts whose values may be references."""

_SCHEME = re.compile(r"([a-z]{2,8})(://|:)\S+")


def references_in(entry: Any, place: Place, folder: Path) -> Iterator[tuple[Place, str, str | None]]:
    """Yield each reference of an entry that leads nowhere: its place, why, and what was meant."""
    if not isinstance(entry, Mapping):
        return
    for key, value in entry.items():
        where = (*place, key)
        if key in KEYS:
            yield from _within(value, where, folder)
        else:
            yield from references_in(value, where, folder)


def _within(value: Any, place: Place, folder: Path) -> Iterator[tuple[Place, str, str | None]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _within(inner, (*place, key), folder)
    elif isinstance(value, str):
        problem = _problem(value, folder)
        if problem is not None:
            yield place, *problem


def _problem(value: str, folder: Path) -> tuple[str, str | None] | None:
    if value.startswith("env:"):
        name = value.removeprefix("env:")
        return None if name in os.environ else (f"the variable {name} is not set", None)
    if value.startswith("file:"):
        path = Path(value.removeprefix("file:")).expanduser()
        return None if path.is_file() else (f"there is no file {path}", None)
    scheme = _SCHEME.fullmatch(value)
    if scheme is None or value.startswith(SCHEMES):
        return None
    close = nearest(scheme[1], [one.rstrip(":/") for one in SCHEMES], 1)
    return (f"'{scheme[1]}:' is no place of secrets, so this very text is taken", f"{close[0]}:") if close else None

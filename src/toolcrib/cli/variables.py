"""The `.env` beside a `crib.yaml`: variables of a project that its person does not want in the shell or in the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from toolcrib.cli.known_variables import meant
from toolcrib.cli.trust import TRUST
from toolcrib.findings import Finding

NAME = ".env"
OWN = {TRUST, "TOOLCRIB_ALLOW_ROOT"}
"""What a folder may not say of itself."""


def variable_findings(folder: Path) -> Iterator[Finding]:
    """Yield the lines of the `.env` of a folder that set nothing, or not what they look like."""
    path, first = folder / NAME, dict[str, int]()
    if not path.is_file():
        return
    from dotenv.parser import parse_stream

    for one in parse_stream(StringIO(path.read_text("utf-8", "replace"))):
        text, name = one.original.string, one.key
        line = one.original.line + text[: len(text) - len(text.lstrip())].count("\n")
        if one.error or (name is not None and one.value is None):
            yield Finding("BAD_VARIABLE", "warning", "this is no line NAME=VALUE", "config", NAME, line)
        elif name is not None and name in first:
            message = f"{name} was set in line {first[name]} already, and this is what counts"
            yield Finding("BAD_VARIABLE", "warning", message, "config", NAME, line)
        elif name in OWN:
            message = f"{name} does nothing here: a folder does not say that it is trusted"
            yield Finding("BAD_VARIABLE", "warning", message, "config", NAME, line)
        elif name is not None and (close := meant(name)) is not None:
            message = f"Toolcrib reads no variable {name}"
            yield Finding("BAD_VARIABLE", "warning", message, "config", NAME, line, close)
        if name is not None:
            first.setdefault(name, line)


def set_variables(folder: Path) -> None:
    """Set what the `.env` of a folder that is trusted says; a variable that is set already stays as it is."""
    path = folder / NAME
    if not path.is_file():
        return
    from dotenv import dotenv_values

    for name, value in dotenv_values(path, interpolate=False, encoding="utf-8").items():
        if value and name not in OWN:
            os.environ.setdefault(name, value)

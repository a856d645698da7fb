"""`--set KEY=VALUE`: settings of a source that have no option of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from toolcrib.cli.terminal import CommandError

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting of it, such as limits.output_bytes=9000."),
]


def assigned(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Parse `KEY=VALUE`, whose value is YAML; a dot leads into a section, as in `limits.output_bytes=9000`."""
    from toolcrib import yaml

    made: dict[str, Any] = {}
    for pair in pairs or ():
        key, separator, text = pair.partition("=")
        document = yaml.parse(text)
        if not key.strip() or not separator or document.problems:
            raise CommandError(f"--set {pair}: expected KEY=VALUE", "write --set KEY=VALUE, the value as in crib.yaml")
        section, _, field = key.strip().partition(".")
        value = "" if text == "" else yaml.thaw(document.value)
        made[section] = {**made.get(section, {}), field: value} if field else value
    return made

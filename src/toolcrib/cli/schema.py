"""`toolcrib schema`: what editors need to complete and check a `crib.yaml`."""

from __future__ import annotations

import json

from toolcrib.cli.terminal import Terminal


def text() -> str:
    """Return the JSON Schema of `crib.yaml` as it is printed."""
    from toolcrib.cli.config.model import json_schema

    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


async def schema(terminal: Terminal) -> None:
    """Print the JSON Schema of crib.yaml, for editors."""
    terminal.text(text().removesuffix("\n"))

"""`toolcrib demo`: the order desk with its console; `--tour` shows it in the terminal instead."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from toolcrib.cli.terminal import Terminal


async def demo(
    terminal: Terminal,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where its files are kept. Without it: a temporary folder of yours.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; where it is taken, another.")] = 8000,
    tour: Annotated[bool, typer.Option("--tour", help="Walk through it in this terminal instead.")] = False,
) -> None:
    """Try Toolcrib at an order desk, with its console. Nothing of it needs a key."""
    from toolcrib.demo import home

    place = _made(folder or home())
    if tour:
        from toolcrib.demo.tour import Tour

        await Tour(place).run()
        return
    from toolcrib.cli.serve import needs

    with needs("demo"):
        import_module("uvicorn")  # a missing library is reported first
        from toolcrib.demo.server import run
    await run(terminal, place, port)


def _made(folder: Path) -> Path:
    """Return the whole path of a folder that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()

"""Arguments in a person's editor."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.cli.prompts import LeftOpen, pick
from toolcrib.cli.terminal import CommandError, Terminal, exact

OPEN = "the question is still open"


async def edited(terminal: Terminal, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the person leaves them; what is no JSON is opened again, if they like.

    Raises:
        CommandError: nothing was changed, or the person gave up.
    """
    before = exact(dict(arguments), 2) + "\n"
    text = before
    while True:
        text = await _in_editor(text)
        if text.strip() in ("", before.strip()):
            raise CommandError("Nothing was changed", OPEN, exit_code=1, code="unchanged")
        try:
            value = json.loads(text)
            if isinstance(value, dict):
                return value
            terminal.say("That is no JSON object.", "red")
        except (ValueError, RecursionError) as error:
            terminal.say(f"That is no JSON: {error}", "red")
        if not await again(terminal):
            raise CommandError("Nothing was changed", OPEN, exit_code=1, code="unchanged")


async def again(terminal: Terminal) -> bool:
    """True if the editor shall open once more."""
    try:
        return await pick(terminal, "Edit again?", {"y": "yes", "n": "no"}) == "y"
    except LeftOpen:
        return False


async def _in_editor(text: str) -> str:
    """A text after `$VISUAL`, `$EDITOR` or vi had it, in a folder that nobody else may read."""
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        path = Path(folder, "arguments.json")
        _write(path, text)
        code = await _run([*words, str(path)])
        if code != 0:
            raise CommandError(f"The editor {words[0]} ended with {code}", OPEN, exit_code=1, code="editor")
        return _left(path)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def _left(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"The editor left nothing to read: {error}", OPEN, exit_code=1, code="editor") from None


async def _run(words: list[str]) -> int:
    try:
        process = await asyncio.create_subprocess_exec(*words)
    except OSError as error:
        advice = "name another one in the variable EDITOR, or use --args"
        raise CommandError(
            f"The editor {words[0]} cannot be started: {error}", advice, exit_code=1, code="editor"
        ) from None
    try:
        return await process.wait()
    except asyncio.CancelledError:  # somebody else answered
        process.terminate()
        await process.wait()
        raise

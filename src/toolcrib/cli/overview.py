"""`toolcrib` alone: what is in this folder, and what to do next. Nothing of a crib is imported or started for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.cli.terminal import CommandError, Terminal

FIRST = (
    ("demo", "see it at an order desk, with its console; no key is needed"),
    ("init", "write a project here: tools, a policy, tests, an agent"),
    ("--help", "all commands"),
)
NEXT = (
    ("tools list", "the tools, with what they do"),
    ("call NAME -a KEY=VALUE", "call one"),
    ("policy check", "look for rules that do nothing"),
    ("--help", "all commands"),
)


async def overview(terminal: Terminal) -> None:
    """Tell what there is, and what to do next."""
    from toolcrib import __version__
    from toolcrib.cli.config.document import NAME, read
    from toolcrib.yaml import thaw

    path = Path(terminal.crib.crib or NAME)
    terminal.text(f"Toolcrib {__version__}: tools for agents, checked, approved and remembered.", "bold")
    if not _is_file(path):
        terminal.text(f"There is no {NAME} in this folder.\n\nBegin with:")
        _commands(terminal, FIRST)
        return
    data = thaw(read(path)[1].value)
    settings: Mapping[str, Any] = data if isinstance(data, dict) else {}
    terminal.text(f"{path}: {_parts(settings)}")
    waiting = await _store(terminal)
    steps = [("approvals list", f"answer what waits: {waiting}")] if waiting else []
    if settings.get("agents"):
        steps.append(("chat", "talk to the agent"))
    if settings.get("serve"):
        steps.append(("serve", "API, console and MCP for others"))
    terminal.text("\nNext:")
    _commands(terminal, [*steps, *NEXT])


def _is_file(path: Path) -> bool:
    return path.is_file()


def _parts(settings: Mapping[str, Any]) -> str:
    """Return in a line what a file names."""
    listed = settings.get("sources")
    sources = len(listed) if isinstance(listed, list) else 0
    parts = ["1 source" if sources == 1 else f"{sources} sources"]
    parts += [f"with {name}" for name in ("policy", "agents", "serve") if settings.get(name)]
    return ", ".join(parts)


async def _store(terminal: Terminal) -> int:
    """Tell what the store holds; return how many questions are open."""
    from toolcrib._session.call_lists import open_questions
    from toolcrib.cli.store_choice import chosen_store, missing, opened
    from toolcrib.errors import ToolcribError

    try:
        store = chosen_store(terminal.crib)
        if missing(store) is not None or store.url.startswith("memory:"):
            terminal.text("Nothing was called yet.")
            return 0
        async with opened(store):
            questions = len(await open_questions(store))
    except (CommandError, ToolcribError) as error:
        terminal.text(f"Its store cannot be read: {error}", "yellow")
        return 0
    if not questions:
        terminal.text("Nothing waits for an answer.")
    return questions


def _commands(terminal: Terminal, lines: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> None:
    width = max(len(words) for words, _ in lines)
    for words, what in lines:
        terminal.text(f"  toolcrib {words:{width}}  {what}", "cyan")

"""`toolcrib init`: a project to begin with, which runs, tests and lints as it is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from toolcrib.cli import trust
from toolcrib.cli.terminal import CommandError, Terminal

STARTER = Path(__file__).with_name("starter")
RENAMED = {"env": ".env", "gitignore": ".gitignore", "pyproject": "pyproject.toml"}
"""Files that tools would take for those of this package if they had their names here."""

KEPT = {"README.md", "pyproject.toml", ".env", ".gitignore"}
"""What a folder may have already; then its own stays."""


class Kind(NamedTuple):
    """A kind of project: the folders of files that it is made of, later ones adding to earlier ones."""

    what: str
    parts: tuple[str, ...]
    extras: str
    first: str
    next: tuple[str, ...]


KINDS = {
    "minimal": Kind("tools, a policy and tests", ("tools",), "", "toolcrib call list_tasks", ()),
    "agent": Kind(
        "tools, a policy, tests and an agent",
        ("tools", "agent"),
        "[models]",
        "toolcrib chat",
        ("toolcrib agents lint",),
    ),
    "server": Kind(
        "tools, a policy, tests, an agent and a server with its console",
        ("tools", "agent", "server"),
        "[models,serve]",
        "toolcrib serve",
        ("toolcrib mcp config",),
    ),
}
LETTERS = {"m": "minimal", "a": "agent", "s": "server"}


async def init(
    terminal: Terminal,
    folder: Annotated[Path | None, typer.Argument(help="Where; a new folder, or one with no crib yet.")] = None,
    minimal: Annotated[bool, typer.Option("--minimal", help="Tools, a policy and tests.")] = False,
    agent: Annotated[bool, typer.Option("--agent", help="The same, and an agent.")] = False,
    server: Annotated[bool, typer.Option("--server", help="The same, and a server with its console.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Write a project: tools, a policy, tests, an agent."""
    named = [name for name, wanted in (("minimal", minimal), ("agent", agent), ("server", server)) if wanted]
    asks = terminal.interactive and not yes
    place = (folder or (await _folder(terminal) if asks else Path())).absolute()
    kind = named[-1] if named else await _kind(terminal) if asks else "minimal"
    written, kept = write(place, kind)
    completes = asks and await _completion(terminal)
    if terminal.json:
        terminal.data({"folder": str(place), "kind": kind, "written": written, "kept": kept})
        return
    _tell(terminal, place, kind, written, kept)
    if completes:
        terminal.say("Completion is installed; it works in the next shell.", "dim")


def write(folder: Path, kind: str) -> tuple[list[str], list[str]]:
    """Write a project; return the names of the files that are new, and of those that were there and stayed.

    Raises:
        CommandError: a file that it is made of is there already; then nothing is written.
    """
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "crib"
    files = dict(_files(KINDS[kind], {"name": name, "extras": KINDS[kind].extras, "first": KINDS[kind].first}))
    taken = [one for one in files if one not in KEPT and os.path.lexists(folder / one)]
    if taken:
        advice = "go to an empty folder, or name one: `toolcrib init NAME`"
        raise CommandError(f"{folder} has {', '.join(taken)} already, and nothing is overwritten", advice, exit_code=1)
    kept = [one for one in files if os.path.lexists(folder / one)]
    for one, text in files.items():
        if one not in kept:
            _create(folder / one, text)
    trust.remember(folder / "crib.yaml")
    return [one for one in files if one not in kept], kept


def _create(path: Path, text: str) -> None:
    """Make a file that is not there; one with secrets is for its owner alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600 if path.name == ".env" else 0o666
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"Cannot write {path}: {error.strerror}", "name another folder", exit_code=1) from None


def _files(kind: Kind, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each file of a kind of project, with its text."""
    texts: dict[str, str] = {}
    for part in kind.parts:
        for path in sorted((STARTER / part).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = str(path.relative_to(STARTER / part))
                name = RENAMED.get(name, name)
                texts[name] = texts.get(name, "") + path.read_text("utf-8")
    for name, text in texts.items():
        yield name, re.sub(r"<(name|extras|first)>", lambda word: words[word[1]], text)


async def _folder(terminal: Terminal) -> Path:
    from toolcrib.cli.prompts import line

    return Path((await line(terminal, "Where? (this folder) ")).strip() or ".")


async def _kind(terminal: Terminal) -> str:
    from toolcrib.cli.prompts import pick

    for kind, one in KINDS.items():
        terminal.say(f"  {kind:8} {one.what}")
    return LETTERS[await pick(terminal, "What shall it have?", LETTERS)]


async def _completion(terminal: Terminal) -> bool:
    """Offer completion for the shell; True if it was installed."""
    from toolcrib.cli.prompts import line

    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in ("bash", "zsh", "fish"):
        return False
    if (await line(terminal, f"Complete commands and names in {shell}? [y/N] ")).strip().lower() not in ("y", "yes"):
        return False
    from asyncio.subprocess import DEVNULL, create_subprocess_exec

    words = (sys.executable, "-m", "toolcrib", "--install-completion", shell)
    process = await create_subprocess_exec(*words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    return await process.wait() == 0


def _tell(terminal: Terminal, folder: Path, kind: str, written: list[str], kept: list[str]) -> None:
    """Show what was written, and what to do next."""
    terminal.text(f"{folder} has {KINDS[kind].what} now:", "bold")
    terminal.text(f"  {', '.join(written)}")
    if kept:
        terminal.text(f"  {', '.join(kept)} stayed as {'they were' if len(kept) > 1 else 'it was'}", "yellow")
    terminal.text("\nNext:")
    if folder != Path.cwd():
        terminal.text(f"  cd {os.path.relpath(folder)}", "cyan")
    tests = ["pytest"] if find_spec("pytest") else ["pip install pytest", "pytest"]
    for line in (KINDS[kind].first, *tests, "toolcrib call delete_task -a task=2", *KINDS[kind].next):
        terminal.text(f"  {line}", "cyan")

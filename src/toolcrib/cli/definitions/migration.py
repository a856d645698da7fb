"""`toolcrib tools migrate`, `rollback` and `diff`: definition files from one version of the format to the other."""

from __future__ import annotations

import asyncio
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.definitions import selection
from toolcrib.cli.definitions.selection import PackOption, RootOption, Target, near
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.definitions.migration import Rewrite
    from toolcrib.definitions.source import FileSource

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


async def migrate(
    terminal: Terminal,
    target: Target,
    scaffold: Annotated[
        bool, typer.Option("--scaffold", help="Add skeletons of the blocks of version 2, as comments.")
    ] = False,
    dry_run: DryRun = False,
    root: RootOption = None,
    pack: PackOption = None,
) -> int:
    """Make a definition file one of version 2. All else stays, and its bytes are kept in a backup."""
    from toolcrib.definitions import migration

    async with selection.opened(selection.wanted(terminal, root, pack)) as source:
        path = await selection.path_of(source, target)
        _may_change(target, path, dry_run)
        languages = source.sandboxes.languages
        done = await migration.migrate(path, scaffold=scaffold, sandboxes=languages, dry_run=dry_run)
    return _tell(terminal, done, dry_run=dry_run)


async def rollback(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    target: Target,
    backup: Annotated[
        str | None, typer.Argument(metavar="BACKUP", help="With --restore: which; else the newest of version 1.")
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="Take the bytes of a backup.")] = False,
    dry_run: DryRun = False,
    root: RootOption = None,
    pack: PackOption = None,
) -> int:
    """Make a definition file one of version 1, or restore a backup.

    What only version 2 has is taken out. The bytes that it had are kept in a backup.
    """
    from toolcrib.definitions import migration

    if backup is not None and not restore:
        raise CommandError(f"Nothing is done with {backup} here", "say --restore to take back a backup")
    async with selection.opened(selection.wanted(terminal, root, pack)) as source:
        path = await selection.path_of(source, target)
        _may_change(target, path, dry_run)
        if restore:
            chosen = None if backup is None else _named(path, backup)
            done = await migration.restore(path, chosen, dry_run=dry_run)
        else:
            done = await migration.rollback(path, sandboxes=source.sandboxes.languages, dry_run=dry_run)
    return _tell(terminal, done, dry_run=dry_run)


def _may_change(target: str, path: Path, dry_run: bool) -> None:
    """A file that comes with the package is nobody's to change, unless its path is named.

    Raises:
        CommandError: it is one of those.
    """
    if not dry_run and not selection.is_path(target) and path.is_relative_to(selection.SHIPPED):
        advice = f"copy {path} to .toolcrib/tools of your project, where it replaces this one"
        raise CommandError(f"'{target}' comes with toolcrib and stays as it is", advice, exit_code=1, code="denied")


def _named(path: Path, backup: str) -> Path:
    """A backup by its path, or by its name among those of the file.

    Raises:
        CommandError: there is none.
    """
    from toolcrib.definitions.migration import backups_of

    match = next((one for one in (Path(backup).absolute(), backups_of(path) / backup) if one.is_file()), None)
    if match is None:
        there = sorted(one.name for one in backups_of(path).glob("*.yaml"))
        advice = f"there are {', '.join(there)}" if there else f"there is none in {backups_of(path)}"
        raise CommandError(f"There is no backup {backup}", advice, exit_code=1, code="not_found")
    return match


async def diff(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    target: Target,
    other: Annotated[
        str | None,
        typer.Argument(metavar="ID|FILE", help="What to compare it with; else its newest backup."),
    ] = None,
    migrated: Annotated[
        bool, typer.Option("--migrated", help="Compare it with what migrate would make of it.")
    ] = False,
    rolled_back: Annotated[
        bool, typer.Option("--rolled-back", help="Compare it with what rollback would make of it.")
    ] = False,
    root: RootOption = None,
    pack: PackOption = None,
) -> int:
    """Show how a definition file differs from another.

    That is its newest backup, a file that you name, or what it could become.
    """
    if sum((other is not None, migrated, rolled_back)) > 1:
        raise CommandError(
            "There is more than one thing to compare with", "say one of FILE, --migrated and --rolled-back"
        )
    async with selection.opened(selection.wanted(terminal, root, pack)) as source:
        path = await selection.path_of(source, target)
        difference, with_ = await _compared(source, path, other, migrated, rolled_back)
    if terminal.json:
        terminal.data({"path": str(path), "with": with_, "changed": bool(difference), "diff": difference})
    elif difference:
        _draw(terminal, difference)
    else:
        terminal.say(f"{path} is the same as {with_}")
    return 0


async def _compared(
    source: FileSource, path: Path, other: str | None, migrated: bool, rolled_back: bool
) -> tuple[str, str]:
    """The difference line by line, and what it was compared with."""
    from toolcrib.definitions import migration

    if migrated:
        return (await migration.migrate(path, dry_run=True)).diff, "what migrate makes of it"
    if rolled_back:
        return (await migration.rollback(path, dry_run=True)).diff, "what rollback makes of it"
    if other is None:
        newest = await asyncio.to_thread(_backup, path)
        return await asyncio.to_thread(_lines, newest, path), str(newest)
    second = await selection.path_of(source, other)
    return await asyncio.to_thread(_lines, path, second), str(second)


def _backup(path: Path) -> Path:
    """The newest backup of a file.

    Raises:
        CommandError: there is none.
    """
    from toolcrib.definitions.migration import backups_of
    from toolcrib.definitions.reader import read

    id = read(path.read_bytes(), path=path).id
    backups = sorted(one for one in backups_of(path).glob("*.yaml") if one.name.startswith(f"{id}."))
    if not backups:
        advice = "name another file, or say --migrated or --rolled-back"
        raise CommandError(f"There is no backup of '{id}' in {backups_of(path)}", advice, exit_code=1, code="not_found")
    return backups[-1]


def _lines(first: Path, second: Path) -> str:
    from toolcrib.yaml import decoded

    try:
        old, new = (decoded(path.read_bytes())[0].splitlines(keepends=True) for path in (first, second))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"They cannot be compared: {error}", "name two definition files") from None
    difference = difflib.unified_diff(old, new, str(first), str(second))
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in difference)


def _tell(terminal: Terminal, done: Rewrite, *, dry_run: bool) -> int:
    """Says what became of a file."""
    from toolcrib.definitions.reader import read

    changed = done.before != done.after
    version = read(done.after).schema_version
    if terminal.json:
        backup = None if done.backup is None else str(done.backup)
        report = {"path": str(done.path), "changed": changed, "dry_run": dry_run, "schema_version": version}
        terminal.data({**report, "backup": backup, "diff": done.diff})
    elif not changed:
        terminal.say(f"{near(done.path)} is so already: nothing is changed.")
    elif dry_run:
        _draw(terminal, done.diff)
    else:
        terminal.text(f"{near(done.path)} is now of version {version}", "green")
        if done.backup is not None:
            terminal.say(f"What it was is kept in {near(done.backup)}", "dim")
    return 0


def _draw(terminal: Terminal, text: str) -> None:
    for line in text.splitlines():
        terminal.text(line, _STYLES.get(line[:1], ""))

"""`toolcrib store` and `toolcrib sweep`: the log's keeper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.display.event_lines import span
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.cli.verify import Difference
    from toolcrib.store import Store

app = group("store", "Look after the store.")
EVERY = 10_000_000


async def sweep(
    terminal: Terminal,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Delete or archive sessions past their retention time."""
    from toolcrib.cli.crib_choice import reading, with_store

    # What waited too long is ended first, which may let a call go on that needs its tool.
    async with (reading if dry_run else with_store)(terminal.crib) as crib:
        count = await crib.sweep(dry_run=dry_run)
    kept = None if crib.retention is None else crib.retention.total_seconds()
    if terminal.json:
        terminal.data({"swept": count, "dry_run": dry_run, "retention_s": kept, "archived": crib.archiver is not None})
    elif kept is None:
        terminal.text("Retention is off (retention: null): nothing is swept.")
    else:
        done = "deleted" if crib.archiver is None else "put into the archive"
        verb = f"would be {done}" if dry_run else done
        terminal.text(f"{_count(count, 'session')} {verb}, unused for {span(kept)}.")


@command(app, "check")
async def check(terminal: Terminal) -> None:
    """Open the store, and tell what it is and what it holds."""
    from toolcrib.cli.store_choice import reading_store

    async with reading_store(terminal.crib) as store:
        facts = await _facts(store)
    if terminal.json:
        terminal.data(facts)
        return
    terminal.text(f"Store     {facts['url']}")
    terminal.text(f"Schema    {facts['schema'] or 'none'}")
    terminal.text(f"Sessions  {facts['sessions']}")
    terminal.text(f"Events    {facts['events']}")
    states = ", ".join(f"{count} {state}" for state, count in facts["calls"].items() if count)
    terminal.text(f"Calls     {states or 'none'}")


async def _facts(store: Store) -> dict[str, Any]:
    from toolcrib.cli.verify import every_session

    events = [row.seq async for row in every_session(store)]
    states = Counter(row.state for row in await store.calls(limit=EVERY))
    return {
        "url": without_password(store.url),
        "schema": _schemas(store)[1],
        "sessions": len(events),
        "events": sum(events),
        "calls": {state: states[state] for state in ("queued", "waiting", "running", "done")},
    }


def without_password(url: str) -> str:
    """A store's URL as it may be seen."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1@", url)


def _schemas(store: Store) -> tuple[int | None, int | None]:
    """The number of the schema before the store was opened and now; a store without migrations has none."""
    return store.migrated


@command(app, "migrate")
async def migrate(
    terminal: Terminal,
    partitions: Annotated[int, typer.Option(min=0, max=999, help="Divide a PostgreSQL store that nobody uses.")] = 0,
) -> None:
    """Bring the store's schema up to date. A store that is not there is made."""
    from toolcrib.cli.store_choice import chosen_store, opened

    store = chosen_store(terminal.crib)
    if partitions:
        await _divide(store, partitions)
    async with opened(store, make=True):
        pass
    before, now = _schemas(store)
    if terminal.json:
        terminal.data({"url": without_password(store.url), "from": before, "to": now})
    elif now is None:
        terminal.text("This store has no schema: nothing to migrate.")
    elif before == now:
        terminal.text(f"Schema {now} is up to date.")
    else:
        terminal.text(f"Migrated from schema {before} to {now}.")


async def _divide(store: Store, partitions: int) -> None:
    if not store.url.startswith(("postgresql:", "postgres:")):
        raise CommandError("Only a store in PostgreSQL can be divided into partitions", "Leave out --partitions")
    from toolcrib.store.postgres.connection import DatabaseAddress
    from toolcrib.store.postgres.migrations import divide

    await divide(DatabaseAddress(store.url), partitions)


@command(app, "verify")
async def verify(
    terminal: Terminal,
    archive: Annotated[
        bool, typer.Option("--archive", help="Read every file of the archive instead, and compare its checksum.")
    ] = False,
) -> int:
    """Check the database, and compare all logs with index and roll-ups."""
    if archive:
        return await _verify_archive(terminal)
    from toolcrib.cli.store_choice import chosen_store, opened
    from toolcrib.cli.verify import damaged, damaged_file, differences, differing_rollups, every_session

    store = chosen_store(terminal.crib)
    differing = damaged_file(store)
    if differing:  # what is damaged is not opened: that would write to it
        return _damaged(terminal, differing)
    async with opened(store):
        differing = await damaged(store)
        sessions = [row.id async for row in every_session(store)]
        with _bar(terminal, "Comparing", len(sessions)) as advance:
            for session in sessions:
                differing += await differences(store, session)
                advance()
        differing += await differing_rollups(store)
    if terminal.json:
        terminal.data({"sessions": len(sessions), "differences": [one._asdict() for one in differing]})
    elif differing:
        _table(terminal, differing)
        terminal.say(f"The log is what counts. Next: {terminal.command('store', 'rebuild')}", "red")
    else:
        terminal.text(f"{_count(len(sessions), 'session')} folded: log, index and roll-ups agree.")
    return 1 if differing else 0


async def _verify_archive(terminal: Terminal) -> int:
    from toolcrib.cli.crib_choice import reading
    from toolcrib.cli.verify import Difference

    differing, count = list[Difference](), 0
    async with reading(terminal.crib) as crib:
        if crib.archiver is None:
            raise CommandError("This crib has no archive", "name one: `archive:` in its crib.yaml", exit_code=1)
        async for entry in crib.archiver.every():
            count += 1
            if (problem := await crib.archiver.problem(entry)) is not None:
                differing.append(Difference(entry.session.id, "", problem))
        unused = await crib.archiver.unused()
    facts = {"unused": len(unused.names), "unused_bytes": unused.size}
    if terminal.json:
        terminal.data({"sessions": count, "differences": [one._asdict() for one in differing], **facts})
        return 1 if differing else 0
    if differing:
        _table(terminal, differing)
    else:
        terminal.text(f"{_count(count, 'archived session')} read: every file is what was written.")
    if unused.names:
        files = _count(len(unused.names), "file")
        terminal.text(f"{files} with {unused.size:,} bytes are of no archived session; a backup may need them.")
    return 1 if differing else 0


def _damaged(terminal: Terminal, differing: list[Difference]) -> int:
    if terminal.json:
        terminal.data({"sessions": 0, "differences": [one._asdict() for one in differing]})
    else:
        _table(terminal, differing)
        terminal.say(f"The store is damaged. Next: {terminal.command('store', 'restore')} FILE", "red")
    return 1


@command(app, "vacuum")
async def vacuum(terminal: Terminal) -> None:
    """Give the space of deleted sessions back to the disk.

    An SQLite file must not be in use.
    """
    from toolcrib.cli.store_choice import chosen_store, file_of, missing, opened

    store = chosen_store(terminal.crib)
    if (file := file_of(store)) is None or missing(store) is not None:
        async with opened(store):
            await store.vacuum()
        terminal.data({}) if terminal.json else terminal.text("The tables were vacuumed.")
        return
    from toolcrib.store.sqlite.vacuum import vacuum as written_anew

    before, after = written_anew(file)
    terminal.result(
        {"before": before, "after": after}, f"{file} has {after:,} bytes now, {before - after:,} less than before."
    )


@command(app, "backup")
async def backup(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to, such as shop.backup.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write all that the store holds into one file, while it is in use."""
    from toolcrib.cli.store_choice import chosen_store
    from toolcrib.store.backup import back_up

    url = chosen_store(terminal.crib).url
    with _rows_bar(terminal, "Backing up") as advance:
        about = await back_up(url, file, force=force, advance=advance)
    facts = {"file": str(file), "bytes": file.stat().st_size, "store": about.store, "made_at": about.made_at}
    _copied(terminal, facts | about.counts, f"written to {file}")


@command(app, "restore")
async def restore(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `toolcrib store backup` wrote.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a store that is not empty.")] = False,
) -> None:
    """Put a backup into an empty store.

    `--store` names another than the crib's.
    """
    from toolcrib.cli.store_choice import chosen_store
    from toolcrib.store.backup import restore as restored

    url = chosen_store(terminal.crib).url
    with _rows_bar(terminal, "Restoring") as advance:
        about = await restored(file, url, force=force, advance=advance)
    facts = {"file": str(file), "url": without_password(url), "store": about.store, "made_at": about.made_at}
    _copied(terminal, facts | about.counts, f"restored to {without_password(url)}")


def _copied(terminal: Terminal, facts: dict[str, Any], done: str) -> None:
    if terminal.json:
        terminal.data(facts)
    else:
        terminal.text(f"{_count(facts['sessions'], 'session')} with {_count(facts['events'], 'event')} {done}.")
        if facts.get("archived"):
            kept = "its files are not in the backup: keep the archive with it"
            terminal.text(f"{_count(facts['archived'], 'session')} more in the archive; {kept}.")


@command(app, "rebuild")
async def rebuild(
    terminal: Terminal,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be mended.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also while calls are running.")] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Use a copy that lost its -wal file as it is.")
    ] = False,
) -> int:
    """Make index and roll-ups anew from the log, where they differ."""
    from toolcrib.cli.store_choice import chosen_store, file_of, opened
    from toolcrib.cli.verify import (
        RebuiltIndex,
        differences,
        differing_rollups,
        every_session,
        mend,
        mend_rollups,
    )

    store = chosen_store(terminal.crib)
    if accept_loss and (file := file_of(store)) is not None:
        from toolcrib.store.sqlite.integrity import accept_loss as accepted

        accepted(file)

    differing: list[Difference] = []
    left: list[Difference] = []
    async with opened(store):
        if not dry_run and not force:
            await _refuse_at_work(store)
        sessions = [row.id async for row in every_session(store)]
        with _bar(terminal, "Rebuilding", len(sessions)) as advance:
            for session in sessions:
                one = RebuiltIndex(await differences(store, session), []) if dry_run else await mend(store, session)
                differing += one.differing
                left += one.left
                advance()
        rolled = RebuiltIndex(await differing_rollups(store), []) if dry_run else await mend_rollups(store)
        differing += rolled.differing
        left += rolled.left
    _report(terminal, len(sessions), differing, left, dry_run)
    return 1 if left else 0


def _report(
    terminal: Terminal, sessions: int, differing: list[Difference], left: list[Difference], dry_run: bool
) -> None:
    wrong = len({one.session for one in differing if one.session})
    if terminal.json:
        lists = {name: [one._asdict() for one in some] for name, some in (("differences", differing), ("left", left))}
        terminal.data({"sessions": sessions, "rebuilt": 0 if dry_run else wrong, "dry_run": dry_run, **lists})
    elif not differing:
        terminal.text(f"{_count(sessions, 'session')} folded: log, index and roll-ups agree, nothing to rebuild.")
    else:
        _table(terminal, differing)
        verb = "would be rebuilt" if dry_run else "rebuilt"
        too = ", and the roll-ups" if any(not one.session for one in differing) else ""
        terminal.text(f"{wrong} of {_count(sessions, 'session')}{too} {verb} from the log.")
    if left and not terminal.json:
        terminal.say("Not everything could be mended: the log itself is damaged. Restore it from a backup.", "red")
        _table(terminal, left)


async def _refuse_at_work(store: Store) -> None:
    """What a living process runs would lose its row.

    Raises:
        CommandError: there is such a process.
    """
    rows = await store.calls(None, ("queued", "running"), limit=EVERY)
    counts = Counter(row.worker for row in rows if row.worker is not None)
    running = sum([count for worker, count in counts.items() if await store.alive(worker)])
    if running:
        calls = "1 call is" if running == 1 else f"{running} calls are"
        advice = "stop the processes that use the store first, or rebuild with --force"
        raise CommandError(f"{calls} at work in a process that lives", advice, exit_code=1, code="busy")


def _table(terminal: Terminal, differing: list[Difference]) -> None:
    terminal.table(("Session", "Call", "Problem"), [(one.session, one.call, one.problem) for one in differing])


@contextmanager
def _bar(terminal: Terminal, what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar where there is somebody to see it."""
    if terminal.json or not terminal.err.is_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal.err, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def _rows_bar(terminal: Terminal, what: str) -> Iterator[Callable[[int], None]]:
    """Rows that were copied, where there is somebody to see it."""
    if terminal.json or not terminal.err.is_terminal:
        yield lambda rows: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed} rows"), TimeElapsedColumn())
    with Progress(*columns, console=terminal.err, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda rows: progress.advance(task, rows)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

"""`toolcrib sessions`: what happened, and what is open. Looking changes nothing."""

from __future__ import annotations

import dataclasses
import getpass
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.completion import complete_session
from toolcrib.cli.display.event_lines import clock, line, moment, span, style
from toolcrib.cli.terminal import Cell, CommandError, Terminal, exact, short

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.session import Session
    from toolcrib.store import SessionRow, Store
    from toolcrib.store.archive_index import ArchivedSession
    from toolcrib.types import Entry, Question

app = group("sessions", "Look at sessions: what ran, what runs, what waits.")
STATUS = {"succeeded": "green", "waiting": "yellow", "running": "blue", "streaming": "blue", "queued": "cyan"}
SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="The session's id.", autocompletion=complete_session)
]


@command(app, "list")
async def list_sessions(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Only those of this owner.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 50,
    archived: Annotated[bool, typer.Option("--archived", help="Those in the archive instead, by their ids.")] = False,
) -> None:
    """List sessions, the last used first."""
    from toolcrib._session.session_list import sessions_of
    from toolcrib.cli.store_choice import chosen_store, missing, opened

    if archived:
        await _list_archived(terminal, owner, limit)
        return

    store = chosen_store(terminal.crib)
    rows: list[SessionRow] = []
    still: Counter[str] = Counter()
    if missing(store) is None:
        async with opened(store):
            rows = await sessions_of(store, owner, limit=limit)
            still = Counter(row.session for row in await store.calls(None, ("waiting",), limit=100_000))
    if terminal.json:
        terminal.data([{**row._asdict(), "waiting": still[row.id]} for row in rows])
    elif rows:
        terminal.table(
            ("Session", "Owner", "Events", "Waiting", "Last used"), [_row(row, still[row.id]) for row in rows]
        )
    else:
        terminal.say("No sessions yet. `toolcrib call TOOL` makes one.")


async def _list_archived(terminal: Terminal, owner: str | None, limit: int) -> None:
    from toolcrib.cli.store_choice import chosen_store, missing, opened

    store = chosen_store(terminal.crib)
    entries: list[ArchivedSession] = []
    if missing(store) is None:
        async with opened(store):
            if store.archive_index is not None:
                entries = await store.archive_index.page(owner, limit=limit)
    if terminal.json:
        facts = [{name: getattr(one, name) for name in ("archived_at", "sha256", "size")} for one in entries]
        terminal.data([{**one.session._asdict(), **more} for one, more in zip(entries, facts, strict=True)])
    elif entries:
        rows = [(*_row(one.session, 0)[:3], f"{one.size:,}", _row(one.session, 0)[4]) for one in entries]
        terminal.table(("Session", "Owner", "Events", "Bytes", "Last used"), rows)
    else:
        terminal.say("No session is in the archive.")


def _row(row: SessionRow, waiting: int) -> Sequence[Cell]:
    ago = f"{span(time.time() - row.updated_at)} ago"
    return (row.id, row.owner, str(row.seq), (str(waiting), "bold yellow") if waiting else "", ago)


@command(app, "show")
async def show_session(
    terminal: Terminal,
    session: SessionArgument,
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the completed calls.")] = 20,
) -> None:
    """Show a session: its calls in three lists, and open questions."""
    from toolcrib.cli.crib_choice import reading

    async with reading(terminal.crib) as crib:
        row = await session_row(crib.store, session)
        loaded = await crib._session_table.load(row)
        lists = {"unresolved": await loaded.unresolved(), "ongoing": await loaded.ongoing()}
        total, lists["completed"] = await _completed(crib, loaded, last)
        questions = await loaded.questions()
    if terminal.json:
        calls = {name: [shown(entry) for entry in entries] for name, entries in lists.items()}
        open_questions = [dataclasses.asdict(question) for question in questions]
        more = {"namespaces": loaded.namespaces, "completed_total": total}
        terminal.data({**row._asdict(), **more, **calls, "questions": open_questions})
    else:
        _head(terminal, row, loaded)
        for name, entries in lists.items():
            _list(terminal, name, entries, total)
        _questions(terminal, questions)


async def session_row(store: Store, id: str) -> SessionRow:
    """The session of that id.

    Raises:
        CommandError: there is none.
    """
    from toolcrib._session.session_list import sessions_of
    from toolcrib.schema import nearest

    row = await store.session(id)
    if row is None:
        close = nearest(id, [known.id for known in await sessions_of(store, limit=1000)], 1)
        advice = f"did you mean {close[0]}?" if close else "`toolcrib sessions list` shows what there is"
        raise CommandError(f"No such session: {id}", advice, exit_code=1, code="not_found")
    return row


async def _completed(crib: Crib, session: Session, last: int) -> tuple[int, list[Entry]]:
    """The calls that ended last; only those are read in full."""
    rows = await crib.store.calls(session.id, done_after=0, limit=1_000_000)
    return len(rows), [(await session._history(row)).entry() for row in rows[-last:]]


def shown(entry: Entry) -> dict[str, Any]:
    """A call of a list as JSON."""
    from toolcrib.cli.call_follower import outcome

    fields = {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)}
    return {**fields, "result": None if entry.result is None else outcome(entry.result)}


def _head(terminal: Terminal, row: SessionRow, session: Session) -> None:
    terminal.text(row.id, "bold")
    terminal.text(f"Owner {row.owner}, namespaces {', '.join(session.namespaces)}, {row.seq} events")
    terminal.text(f"Opened {moment(row.created_at)}, last used {span(time.time() - row.updated_at)} ago")


def _list(terminal: Terminal, name: str, entries: list[Entry], total: int) -> None:
    count = total if name == "completed" else len(entries)
    note = f", the last {len(entries)} shown" if count > len(entries) else ""
    terminal.text(f"\n{name.title()} ({count}{note})", "bold")
    if entries:
        rows = [(entry.id, clock(entry.accepted_at), entry.tool, _status(entry), _outcome(entry)) for entry in entries]
        terminal.table(("Call", "Accepted", "Tool", "Status", "Outcome"), rows, indent=2)


def _status(entry: Entry) -> Cell:
    return (entry.status, STATUS.get(entry.status, "red"))


def _outcome(entry: Entry) -> str:
    if entry.result is None:
        return ""
    return short(entry.result.text, 100)


def _questions(terminal: Terminal, questions: list[Question]) -> None:
    if not questions:
        return
    terminal.text(f"\nQuestions ({len(questions)})", "bold")
    for question in questions:
        left = span(question.expires_at - time.time())
        terminal.text(f"  {question.prompt} ({question.kind}, {left} left)", "yellow")
        terminal.text(f"    {question.tool} {short(exact(dict(question.arguments)), 200)}")
        terminal.text(f"    {terminal.command('answer', question.id, 'accept')}   (or decline, or cancel)")


@command(app, "watch")
async def watch_session(
    terminal: Terminal,
    session: SessionArgument,
    after: Annotated[int, typer.Option("--after", min=0, help="Start past this event.")] = 0,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Go on, or end with the log.")] = True,
) -> None:
    """Show a session's log as it grows; Ctrl-C leaves."""
    from toolcrib.cli.crib_choice import reading
    from toolcrib.cli.serve import configured
    from toolcrib.telemetry import trace_link

    template = configured(terminal).trace_url
    async with reading(terminal.crib) as crib:
        loaded = await crib._session_table.load(await session_row(crib.store, session))
        async for event in loaded.events(after, follow=follow):
            if terminal.json:
                terminal.data(event.plain())
            else:
                terminal.text(line(event), style(event))
                if template and (trace := event.fields.get("trace")):
                    terminal.text(f"{'':7}{trace_link(template, trace, session, event.call or '')}", "dim")


@command(app, "prompt")
async def show_prompt(
    terminal: Terminal,
    session: SessionArgument,
    event: Annotated[
        int | None,
        typer.Argument(metavar="EVENT", min=1, help="Number of a turn or of a reply; the last, unless said."),
    ] = None,
    whole: Annotated[bool, typer.Option("--all", help="Also what was in the request before.")] = False,
) -> None:
    """Show what a model was sent, and what of it was new."""
    from toolcrib.agent.prompt_view import last_request, prompt_at
    from toolcrib.cli.crib_choice import reading
    from toolcrib.cli.display.prompt import show
    from toolcrib.errors import Refused

    async with reading(terminal.crib) as crib:
        row = await session_row(crib.store, session)
        try:
            prompt = await prompt_at(crib.store, row.id, event or await last_request(crib.store, row.id))
        except Refused as error:
            advice = f"`{terminal.command('sessions', 'watch', row.id, '--no-follow')}` shows the log"
            raise CommandError(error.message, advice, exit_code=1, code=error.code) from None
    if terminal.json:
        import msgspec

        from toolcrib.serve.api.prompts import prompt_form

        terminal.data(msgspec.to_builtins(prompt_form(prompt, room=2**40)))
    else:
        show(terminal, prompt, whole=whole)


# Whole sessions


@command(app, "export")
async def export_session(
    terminal: Terminal,
    session: SessionArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to, such as s-1.jsonl.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a session into a file.

    It holds the log, large values and cursors, with a checksum and without secrets.
    """
    from toolcrib.cli.crib_choice import reading
    from toolcrib.store.private_files import create_private

    if file.exists() and not force:
        raise CommandError(f"{file} exists", "choose another name, or write over it with --force", exit_code=1)
    part = file.with_name(f"{file.name}.part")
    async with reading(terminal.crib) as crib:
        row = await session_row(crib.store, session)
        try:
            with create_private(part) as out:
                async for text in crib.export_session(row.id):
                    out.write(text)
            part.replace(file)
        except OSError as error:
            raise CommandError(
                f"{file} cannot be written: {error.strerror}", "choose another place", exit_code=1
            ) from None
        finally:
            part.unlink(missing_ok=True)
    terminal.result(
        {"session": row.id, "file": str(file), "events": row.seq}, f"{row.seq} events of {row.id} written to {file}."
    )


@command(app, "import")
async def import_session(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `toolcrib sessions export` wrote.")],
    id: Annotated[str | None, typer.Option("--id", help="Another id than it had.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Another owner than it had.")] = None,
) -> None:
    """Make a session of an exported one. What ran in it ends as unknown."""
    from toolcrib.cli.crib_choice import without_sources
    from toolcrib.cli.store_choice import opened

    crib = without_sources(terminal.crib)
    try:
        lines = file.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read: {error.strerror}", "name an exported session", exit_code=1
        ) from None
    async with opened(crib.store, make=True):
        row = await crib.import_session(lines, id=id, owner=owner)
    terminal.result(row._asdict(), f"{row.seq} events taken in as {row.id} of {row.owner}.")


@command(app, "delete")
async def delete_session(
    terminal: Terminal,
    session: SessionArgument,
    force: Annotated[bool, typer.Option("--force", help="Stop what runs or waits in it first.")] = False,
) -> None:
    """Delete a session for good; the audit keeps a tombstone."""
    from toolcrib.cli.crib_choice import reading, with_store

    # What runs is stopped by whom it belongs to: agents and the engine are needed for that.
    async with (with_store if force else reading)(terminal.crib) as crib:
        row = await session_row(crib.store, session)
        stone = await crib.delete_session(row.id, actor=getpass.getuser(), force=force)
    terminal.result(
        {name: getattr(stone, name) for name in stone.__struct_fields__},
        f"{stone.session} with {stone.events} events was deleted. Its digest is {stone.sha256[:16]}.",
    )

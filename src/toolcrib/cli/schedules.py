"""`toolcrib schedules`: calls that wait for their time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.completion import complete_session
from toolcrib.cli.display.event_lines import moment, span
from toolcrib.cli.durations import seconds_of
from toolcrib.cli.terminal import Cell, CommandError, Terminal, compact, short

if TYPE_CHECKING:
    from toolcrib.types import ScheduleEntry

app = group("schedules", "Make calls later: list, add and cancel them.")
COLUMNS = ("Schedule", "Session", "Tool", "Arguments", "When", "Repeats", "Missed runs")


@command(app, "list")
async def list_schedules(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Only those of this owner.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Only those of this session.", autocompletion=complete_session)
    ] = None,
) -> None:
    """List the calls that wait for their time, the first due first."""
    from toolcrib._call.schedules import pending
    from toolcrib.cli.sessions import session_row
    from toolcrib.cli.store_choice import chosen_store, missing, opened

    store, entries = chosen_store(terminal.crib), list["ScheduleEntry"]()
    if missing(store) is None:
        async with opened(store):
            if session is not None:
                await session_row(store, session)
            entries = await pending(store, session, owner)
    if terminal.json:
        terminal.data([dataclasses.asdict(one) for one in entries])
    elif entries:
        terminal.table(COLUMNS, [_row(one) for one in entries])
    else:
        terminal.say("Nothing waits for its time. `toolcrib schedules add SESSION TOOL --after 1h` makes a call later.")


def _row(one: ScheduleEntry) -> Sequence[Cell]:
    when = f"when {one.when} ends" if one.due is None else moment(one.due)
    left = "" if one.due is None else f" (in {span(one.due - time.time())})" if one.due > time.time() else " (due)"
    repeats = "" if one.cron is None else f"{one.cron} {one.timezone}"
    return (one.id, one.session, one.tool, short(compact(one.args)), f"{when}{left}", repeats, one.missed)


@command(app, "add")
async def add_schedule(  # noqa: PLR0913 - the options of the command
    terminal: Terminal,
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="Where it is made.", autocompletion=complete_session)
    ],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="What is called.")],
    args: Annotated[str, typer.Argument(metavar="ARGS", help="Its arguments as JSON.")] = "{}",
    after: Annotated[
        str | None, typer.Option("--after", metavar="TIME", help="So long from now: 90s, 12h, 30d.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="MOMENT", help="At that time, such as 2027-01-31T09:00+01:00.")
    ] = None,
    when: Annotated[str | None, typer.Option("--when", metavar="CALL", help="When that call has ended.")] = None,
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="EXPRESSION", help="Again and again: '0 9 * * 1-5'.")
    ] = None,
    timezone: Annotated[str, typer.Option("--timezone", help="The time zone of the cron expression.")] = "UTC",
    missed: Annotated[str, typer.Option("--missed", help="What becomes of missed runs: skip, once or all.")] = "once",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Of all missed runs, the last so many.")] = 100,
    key: Annotated[str | None, typer.Option("--key", help="A second schedule with this key finds the first.")] = None,
) -> None:
    """Make a call later. A server, a worker or any program over the same store makes it when it is due."""
    from toolcrib.cli.crib_choice import at_work

    times: dict[str, Any] = {"when": when, "cron": cron, "timezone": timezone, "missed": missed, "limit": limit}
    times |= {"after": None if after is None else _seconds(after), "at": None if at is None else _moment(at)}
    async with at_work(terminal.crib) as crib:
        made = await crib.schedule(session, tool, args, key=key, **times)
    if terminal.json:
        terminal.data(dataclasses.asdict(made))
        return
    due = f"when {made.when} ends" if made.due is None else f"at {moment(made.due)}"
    due = "at once, since its time is past" if made.due is not None and made.due <= time.time() else due
    terminal.text(made.id)
    terminal.say(f"{made.tool} is called {due}. `toolcrib schedules cancel {made.id}` cancels it.", "dim")


def _seconds(text: str) -> float:
    seconds = seconds_of(text)
    if seconds is None:
        raise CommandError(f"--after {text!r} is no time", "write it as 90s, 12h or 30d")
    return seconds


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--at {text!r} is no time", "write it as 2027-01-31T09:00+01:00") from None
    return moment if moment.tzinfo is not None else moment.astimezone()


@command(app, "cancel")
async def cancel_schedule(
    terminal: Terminal,
    schedule: Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its id, as `schedules list` shows it.")],
) -> None:
    """Cancel a schedule. What it has made goes on."""
    from toolcrib.cli.crib_choice import reading

    async with reading(terminal.crib) as crib:
        cancelled = await crib.cancel_schedule(schedule)
    terminal.result(
        {"id": schedule, "cancelled": cancelled}, f"Cancelled {schedule}." if cancelled else f"{schedule} was over."
    )

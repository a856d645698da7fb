"""`toolcrib store` and `toolcrib sweep`: the log's keeper."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.lines import span
from toolcrib.cli.terminal import Terminal

if TYPE_CHECKING:
    from toolcrib.crib import Crib

app = group("store", "Look after the store.")
EVERY = 10_000_000


async def sweep(
    terminal: Terminal,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Delete the sessions that were not used for the retention time."""
    from toolcrib.cli.choose import reading

    async with reading(terminal.crib) as crib:
        count = await crib.sweep(dry_run=dry_run)
    kept = None if crib.retention is None else crib.retention.total_seconds()
    if terminal.json:
        terminal.data({"swept": count, "dry_run": dry_run, "retention_s": kept})
    elif kept is None:
        terminal.text("Retention is off (retention: null): nothing is swept.")
    else:
        verb = "would be deleted" if dry_run else "deleted"
        terminal.text(f"{_count(count, 'session')} {verb}, unused for {span(kept)}.")


@command(app, "check")
async def check(terminal: Terminal) -> None:
    """Open the store, and tell what it is and what it holds."""
    from toolcrib.cli.choose import reading

    async with reading(terminal.crib) as crib:
        found = await _facts(crib)
    if terminal.json:
        terminal.data(found)
        return
    terminal.text(f"Store     {found['url']}")
    terminal.text(f"Schema    {found['schema'] or 'none'}")
    terminal.text(f"Sessions  {found['sessions']}")
    terminal.text(f"Events    {found['events']}")
    states = ", ".join(f"{count} {state}" for state, count in found["calls"].items() if count)
    terminal.text(f"Calls     {states or 'none'}")


async def _facts(crib: Crib) -> dict[str, Any]:
    from toolcrib.store.schema import migrations

    sessions = await crib.store.sessions(limit=EVERY)
    states = Counter(row.state for row in await crib.store.calls(limit=EVERY))
    return {
        "url": crib.store.url,
        # A store that started has been brought to the newest schema.
        "schema": migrations()[-1][0] if crib.store.url.startswith("sqlite:") else None,
        "sessions": len(sessions),
        "events": sum(row.seq for row in sessions),
        "calls": {state: states[state] for state in ("queued", "waiting", "running", "done")},
    }


@command(app, "verify")
async def verify(terminal: Terminal) -> int:
    """Fold the log of every session and compare it with the index of calls."""
    from toolcrib.cli.choose import reading
    from toolcrib.cli.verify import differences

    async with reading(terminal.crib) as crib:
        sessions = await crib.store.sessions(limit=EVERY)
        found = [one for row in sessions for one in await differences(crib.store, row.id)]
    if terminal.json:
        terminal.data({"sessions": len(sessions), "differences": [one._asdict() for one in found]})
    elif found:
        rows = [(one.session, one.call, one.problem) for one in found]
        terminal.table(("Session", "Call", "Problem"), rows)
        terminal.say("The log is what counts. Keep a copy of the file and report this.", "red")
    else:
        terminal.text(f"{_count(len(sessions), 'session')} folded: log and index agree.")
    return 1 if found else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

"""`toolcrib store` and `toolcrib sweep`: the log's keeper."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.terminal import Terminal

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.history import History
    from toolcrib.store import Row, SessionRow
    from toolcrib.types import Event

app = group("store", "Look after the store.")
PAGE = 1000


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
        terminal.text(f"{_count(count, 'session')} {verb}, unused for {crib.retention}.")


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
    from toolcrib.store.sqlite import migrations

    sessions = [row async for row in every_session(crib)]
    states = Counter(row.state for row in await crib.store.calls(limit=10_000_000))
    return {
        "url": crib.store.url,
        # A store that started has been brought to the newest schema.
        "schema": migrations()[-1][0] if crib.store.url.startswith("sqlite:") else None,
        "sessions": len(sessions),
        "events": sum(row.seq for row in sessions),
        "calls": {state: states[state] for state in ("queued", "waiting", "running", "done")},
    }


async def every_session(crib: Crib) -> Any:
    """All sessions, page by page."""
    before: float | None = None
    seen: set[str] = set()
    while page := await crib.store.sessions(limit=PAGE, before=before):
        for row in page:
            if row.id not in seen:
                seen.add(row.id)
                yield row
        before = page[-1].updated_at

"""`toolcrib audit`: who asked for what, what was decided, by whom, and what came of it. A view of the log."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from toolcrib.cli.command import command
from toolcrib.cli.completion import complete_session, complete_tool
from toolcrib.cli.display.event_lines import moment, span
from toolcrib.cli.durations import seconds_of
from toolcrib.cli.terminal import Cell, CommandError, Terminal, compact, short

if TYPE_CHECKING:
    from toolcrib._session.audit import Audit, AuditFlaw
    from toolcrib.store import SessionRow, Store

LOOK_S = 1.0
PAGE = 1000
SLACK_S = 5.0  # the time of a session's last use may be a little behind
COLUMNS = ("Time", "Session", "Owner", "Asked by", "Tool", "Digest", "Arguments", "Verdict", "Approver", "Outcome")


class _DefaultCommandGroup(TyperGroup):
    """A group whose first command need not be named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts `list` before options that stand alone."""
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="audit",
    cls=_DefaultCommandGroup,
    help="See what was called, by whom, and what came of it.",
    rich_markup_mode=None,
)


class _AuditQuery(NamedTuple):
    """Which entries to show."""

    owner: str | None
    tool: str | None
    since: float
    after: Mapping[str, int]

    def fits(self, entry: Mapping[str, Any]) -> bool:
        """True if it is one of them."""
        if entry["ended_at"] < self.since or entry["seq"] <= self.after.get(entry["session"], 0):
            return False
        name = entry["tool"]
        return self.tool is None or self.tool == name.rpartition(".")[2] or fnmatchcase(name, self.tool)


@command(app, "list")
async def list_audit(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Only this session.", autocompletion=complete_session)
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Only sessions of this owner.")] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", "-t", help="Only this tool; a glob is fine.", autocompletion=complete_tool)
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only what ended since: 2h, 7d, or 2026-01-31T12:00.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="CURSOR", help="Only what is past this in its session, again for more."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as calls end; Ctrl-C leaves.")] = False,
) -> None:
    """List what was called; `list` may be left out.

    Every call that has ended is there, also what was denied, declined, refused, or ended unknown.
    """
    from toolcrib.cli.sessions import session_row
    from toolcrib.cli.store_choice import reading_store

    cursors = dict(_cursor(text) for text in after or ())
    wanted = _AuditQuery(owner, tool, 0.0 if since is None else _time(since), cursors)
    async with reading_store(terminal.crib) as store:
        only = None if session is None else (await session_row(store, session)).id
        entries = _AuditReader(store, wanted, only).entries(follow)
        if terminal.json:
            async for entry in entries:
                terminal.data(entry)
        elif follow:
            async for entry in entries:
                terminal.text("  ".join(_text(cell) for cell in _row(entry)), _style(entry))
        else:
            listed = sorted([entry async for entry in entries], key=lambda entry: entry["ended_at"])
            _table(terminal, listed, tool)


class _AuditReader:
    """Reads logs up to their ends, and on."""

    def __init__(self, store: Store, wanted: _AuditQuery, only: str | None) -> None:
        self.store = store
        self.wanted = wanted
        self.only = only
        self._audits: dict[str, Audit] = {}

    async def entries(self, follow: bool) -> AsyncIterator[dict[str, Any]]:
        """The entries that are wanted, session by session; then, if so wished, those to come."""
        while True:
            for row in await self._grown():
                async for entry in self._read(row):
                    if self.wanted.fits(entry):
                        yield entry
                if not follow:
                    del self._audits[row.id]
            if not follow:
                return
            if self.only is None:  # no store tells of the next event of any session
                await asyncio.sleep(LOOK_S)
            else:
                await self.store.wait(self.only, self._seen(self.only))

    def _seen(self, session: str) -> int:
        return self._audits[session].seq if session in self._audits else 0

    async def _grown(self) -> list[SessionRow]:
        """The sessions with something new, the first made first."""
        from toolcrib._session.archive import GRAVES
        from toolcrib._session.session_list import sessions_of

        if self.only is not None:
            row = await self.store.session(self.only)
            return [row] if row is not None and self.wanted.owner in (None, row.owner) else []
        graves = None if self.wanted.owner is not None else await self.store.session(GRAVES)
        rows = [] if graves is None or graves.seq == self._seen(GRAVES) else [graves]
        last: SessionRow | None = None
        while page := await sessions_of(self.store, self.wanted.owner, limit=PAGE, before=last):
            rows += [row for row in page if row.seq != self._seen(row.id)]
            last = page[-1]
            if len(page) < PAGE or last.updated_at < self.wanted.since - SLACK_S:
                break
        return sorted(rows, key=lambda row: (row.created_at, row.id))

    async def _read(self, row: SessionRow) -> AsyncIterator[dict[str, Any]]:
        from toolcrib._session.audit import Audit

        audit = self._audits.get(row.id)
        if audit is None or row.seq < audit.seq:  # one that was deleted may have been made again
            audit = self._audits[row.id] = Audit(row.id, row.owner)
        while page := await self.store.read(row.id, audit.seq, limit=PAGE):
            for event in page:
                entry = audit.take(event)
                if entry is not None:
                    yield entry


def _cursor(text: str) -> tuple[str, int]:
    session, sign, seq = text.rpartition(":")
    if not sign or not session or not seq.isdecimal():
        raise CommandError(f"--after {text!r} is no cursor", "take one from the field `cursor`: SESSION:SEQ")
    return session, int(seq)


def _time(text: str) -> float:
    seconds = seconds_of(text)
    if seconds is not None:
        return time.time() - seconds
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        advice = "write it as 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00+01:00"
        raise CommandError(f"--since {text!r} is no time", advice) from None


# How it looks


def _table(terminal: Terminal, entries: Sequence[Mapping[str, Any]], tool: str | None) -> None:
    if entries:
        terminal.table(COLUMNS, [_row(entry) for entry in entries])
    else:
        terminal.say("No calls." if tool is None else f"No calls of a tool '{tool}': `toolcrib tools list` shows them.")


def _row(entry: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        moment(entry["ended_at"]),
        entry["session"],
        entry["owner"],
        " > ".join(entry["chain"]),
        entry["tool"],
        entry["digest"][:12],
        short(compact(entry["arguments"]), 80),
        _verdict(entry["verdict"]),
        _approver(entry),
        (_outcome(entry), _style(entry)),
    )


def _text(cell: Cell) -> str:
    return short((cell if isinstance(cell, str) else cell[0]) or "-", 200)


def _style(entry: Mapping[str, Any]) -> str:
    return {"succeeded": "green", "unknown": "bold red"}.get(entry["outcome"], "red")


def _verdict(verdict: Mapping[str, Any] | None) -> str:
    if verdict is None:
        return "-"
    why = verdict.get("message") or verdict.get("rule") or verdict.get("capability")
    return short(f"{verdict['effect']} by {verdict.get('by', 'default')}{f': {why}' if why else ''}", 120)


def _approver(entry: Mapping[str, Any]) -> str:
    answer = next((one for one in reversed(entry["answers"]) if one["kind"] == "confirm"), None)
    if answer is None:
        return ""
    others = [one["actor"] for one in entry["answers"] if one is not answer and one["question"] == answer["question"]]
    action = (
        "edited" if answer["edited"] else {"accept": "approved", "decline": "declined"}.get(answer["action"], "ended")
    )
    why = f": {answer['reason']}" if answer.get("reason") else ""
    if answer["action"] == "accept":
        who = ", ".join((*others, answer["actor"]))
    else:
        who = "".join(f"{other} approved, " for other in others) + answer["actor"]
    return short(f"{who} {action}{' for the session' if answer.get('scope') == 'session' else ''}{why}", 80)


def _outcome(entry: Mapping[str, Any]) -> str:
    word = f"settled: {entry['outcome']}" if entry["settled"] else entry["outcome"]
    took = f" in {span(entry['duration_ms'] / 1000)}" if entry["started"] else ""
    why = f" ({entry['message']})" if entry["message"] else ""
    return short(f"{word}{took}{why}", 120)


# The chain of what was kept


@command(app, "verify")
async def verify_audit(
    terminal: Terminal,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of `toolcrib audit --json`; - is standard input.")
    ],
    partial: Annotated[
        bool, typer.Option("--partial", help="It was made with --since or --after, and begins in the middle.")
    ] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Compare it with the log too: of all sessions, unless said.")
    ] = False,
    session: Annotated[
        list[str] | None, typer.Option("--session", help="With --log: it was made of this session; again for more.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="With --log: it was made of this owner's.")] = None,
) -> int:
    """Check what `toolcrib audit --json` gave. A changed or missing line is found; exit code 1 then."""
    from toolcrib._session.audit import flaws, sessions_in

    if not log and (session or owner is not None):
        raise CommandError("--session and --owner say what of the log it was made of", "say --log too")
    if partial and session:
        raise CommandError("With --partial it is compared with the sessions that are in it", "leave --session out")
    lines = _lines(file)
    problems = list(flaws(lines, partial=partial))
    if log:
        problems += await _compared(terminal, lines, sessions_in(lines) if partial else session, owner)
    if terminal.json:
        terminal.data({"lines": len(lines), "flaws": [flaw._asdict() for flaw in problems]})
    else:
        for flaw in problems:
            terminal.text(f"Line {flaw.line}: {flaw.message}" if flaw.line else f"Missing: {flaw.message}", "red")
        if not problems:
            terminal.text(f"{len(lines)} lines, nothing changed, nothing missing", "green")
    return 1 if problems else 0


async def _compared(
    terminal: Terminal, lines: list[str], sessions: Sequence[str] | None, owner: str | None
) -> list[AuditFlaw]:
    """What differs from the log: of these sessions, or of all that there are, so that none is missing as a whole."""
    from toolcrib._session.audit import against
    from toolcrib.cli.store_choice import reading_store

    whole = _AuditQuery(owner, None, 0.0, {})
    async with reading_store(terminal.crib) as store:
        wanted: list[str | None] = [*sessions] if sessions else [None]
        readers = [_AuditReader(store, whole, session) for session in wanted]
        return list(against(lines, [entry for reader in readers async for entry in reader.entries(follow=False)]))


def _lines(file: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}", "name a file that `toolcrib audit --json` made") from None
    return text.removesuffix("\n").split("\n") if text else []

"""Whole sessions of a Postgres database: taken in from elsewhere, and deleted. Each is one transaction."""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import asdict

from toolcrib.store import Archive, Write
from toolcrib.store.backup import TABLES
from toolcrib.store.codec import Stored, encode, split_large
from toolcrib.store.postgres import rollups
from toolcrib.store.postgres.connection import Connection


async def adopt(db: Connection, sql: dict[str, str], archive: Archive) -> bool:
    """Makes a session; False where its id or a call's is taken."""
    async with db.transaction():
        if await db.fetchval(sql["any_call"], [call.id for call in archive.rows]):
            return False
        n = await db.fetchval(sql["adopt_session"], *values_of(archive))
        if n is None:
            return False
        await fill(db, n, archive)
    return True


def values_of(archive: Archive) -> tuple[Any, ...]:
    """What the row of a session says."""
    row, own = archive.session, max((event.seq for event in archive.events if event.call is None), default=0)
    return (row.id, row.owner, row.seq, own, row.revision, row.created_at, row.updated_at, archive.closed)


async def fill(db: Connection, n: int, archive: Archive) -> None:
    """Writes all that is a session's but its row."""
    kept = dict(archive.kept)
    events = [
        _event(n, event.seq, (event.at, event.call, event.kind, Stored(event.json)), kept) for event in archive.events
    ]
    queued = {"queued": time.time()}
    calls = [
        (
            *({**asdict(call), "session": n, "worker": None}[name] for name in TABLES["calls"]),
            archive.session.owner,
            queued.get(call.state),
        )
        for call in archive.rows
    ]
    columns = [*TABLES["calls"], "owner", "queued_at"]
    await db.copy_records_to_table("events", records=events, columns=TABLES["events"])
    await db.copy_records_to_table("calls", records=calls, columns=columns)
    large = [(n, id, content) for id, content in kept.items()]
    await db.copy_records_to_table("kept", records=large, columns=TABLES["kept"])
    cursors = [(n, name, seq) for name, seq in archive.cursors.items()]
    await db.copy_records_to_table("cursors", records=cursors, columns=TABLES["cursors"])


def _event(n: int, seq: int, draft: Any, kept: dict[str, bytes]) -> tuple[Any, ...]:
    """A line of the log; its large values join what is kept."""
    at, call, kind, data = draft
    text, large = split_large(kind, data)
    kept |= {part.id: part.json for part in large.values()}
    names = encode({name: part.id for name, part in large.items()}).decode() if large else None
    return (n, seq, at, call, kind, text.decode(), names)


async def delete(
    db: Connection, sql: dict[str, str], session: str, tombstone: Write, writer: str
) -> tuple[int, int] | None:
    """Takes a session out and writes its tombstone.

    Returns its number and that of the transaction, or None where it is not there or has calls to run.
    """
    async with db.transaction():
        n = await db.fetchval(sql["lock_for_delete"], session)
        if n is None or await db.fetchval(sql["busy"], n):
            return None
        await rollups.outlive(db, (await rollups.counted(db, [n])).values())
        await db.execute(sql["delete_session"], n)
        await db.execute(sql["bury"], n)
        for draft in tombstone.events:
            grave = await db.fetchrow(sql["next_own_event"], tombstone.session)
            record = _event(grave[0], grave[1], draft, {})
            await db.copy_records_to_table("events", records=[record], columns=TABLES["events"])
        return int(n), int(await db.fetchval(sql["count_batch"], writer))

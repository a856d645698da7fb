"""Stores that are divided by hash of their sessions, and what of a statement's values is a session there.

In a whole store a statement takes the id of a session, in a divided one its number, which the tables are divided by: so
it looks into one partition. `ONE_SESSION` and `OF_CALLS` are the statements of which that is true, `SEVERAL` those that
look into several partitions; everything else uses no divided table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.store import Row
from toolcrib.store.postgres.connection import Connection, ConnectionPool, DatabaseAddress
from toolcrib.store.postgres.listener import Numbers
from toolcrib.store.schema import divided_queries, queries


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ONE_SESSION = _names(
    "use_session session looks events events_of_call events_of_session calls_busy calls_waiting calls_open calls_held"
    " calls calls_of_parent calls_done stories cursor move_cursor keep kept kept_sizes cursors_of kept_of"
    " write add_call free_key forget_secrets lock_session set_revision insert_rows busy delete_session bury"
    " open_session adopt_session lock_for_delete next_own_event log_accepted log_ended"
    " readopt_session delete_remains forget_unrolled"
)
"""Statements of one session: they look into one partition."""

OF_CALLS = _names("call take standing")
"""Statements of calls that are known by their ids alone: they look into the partitions of these."""

SEVERAL = {
    "lists": "sessions sessions_all span numbered own_events calls_all calls_busy_all calls_waiting_all calls_open_all"
    " calls_held_all calls_of_parent_all calls_of_owner open_calls open_calls_of counts",
    "walks": "walk walk_edge over_accepted over_ended over_failed over_unknown over_waiting over_busy over_waiting_of"
    " over_busy_of own_accepted own_ended",
    "what is due": "expiring next_expiry stale lost",
    "roll-ups": "unrolled counted last_waits rolled unrolled_count clear_unrolled unroll",
    "sweeps": "idle idle_count lock_idle take_out swept delete_events delete_calls delete_rest delete_index",
    "the archive": "archivable lock_archivable put_away",
    "checks and backups": "checked_events checked_kept strays backup_sessions backup_events backup_calls"
    " backup_cursors backup_kept lock_for_restore any_session empty restore_ends",
}
"""Statements that look into several partitions, or into all of them, by what they are for."""


class SessionKeys:
    """Asks for what is of one session by what names it in this store."""

    def __init__(self, pool: ConnectionPool, numbers: Numbers, *, divided: bool) -> None:
        self.divided = divided
        self.sql = divided_queries() if divided else queries("postgres")
        self._pool = pool
        self._numbers = numbers

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """The rows of a statement; the first value of one in `ONE_SESSION` is the id of a session."""
        if not self.divided or query not in ONE_SESSION:
            return await self._pool.fetch(self.sql[query], *values)
        session, *others = values
        known = self._numbers.number(session)
        number = known or await self.look_up(session)
        rows = await self._pool.fetch(self.sql[query], number, *others)
        # It may have been deleted and made anew meanwhile: then it has another number.
        if not rows and known is not None and (number := await self.look_up(session)) != known:
            rows = await self._pool.fetch(self.sql[query], number, *others)
        return rows

    async def number(self, session: str) -> int:
        """The number of a session, 0 where there is none."""
        return self._numbers.number(session) or await self.look_up(session)

    async def look_up(self, session: str) -> int:
        """The same as the database says now."""
        rows = await self._pool.fetch(self.sql["number"], session)
        if not rows:
            return 0
        self._numbers.met(session, rows[0][0])
        return int(rows[0][0])

    async def of_calls(self, query: str, ids: list[str]) -> list[Any]:
        """The rows of calls that are known by their ids alone."""
        if not self.divided:
            return await self._pool.fetch(self.sql[query], ids)
        calls: dict[int, list[str]] = {}
        for id, number in await self._pool.fetch(self.sql["call_sessions"], ids):
            calls.setdefault(number, []).append(id)
        parts = await asyncio.gather(*(self._pool.fetch(self.sql[query], n, some) for n, some in calls.items()))
        return [row for part in parts for row in part]

    async def stories(self, rows: Sequence[Row]) -> list[Any]:
        """The lines of calls, each behind the place of its call, counted from 1."""
        if not self.divided:
            ids, sessions = [row.id for row in rows], [row.session for row in rows]
            return await self._pool.fetch(self.sql["stories"], ids, sessions)
        places: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(row.session, []).append(place)
        parts = await asyncio.gather(
            *(self.fetch("stories", session, [rows[place].id for place in some]) for session, some in places.items())
        )
        return [
            (some[place - 1] + 1, *line)
            for some, part in zip(places.values(), parts, strict=True)
            for place, *line in part
        ]


async def partitions(db: Connection) -> int:
    """Into how many partitions a store is divided, 0 where it is whole."""
    return int(await db.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass"))


async def divide_new(db: Connection, address: DatabaseAddress) -> None:
    """Divides a store as its address says, where it is empty and nobody uses it.

    Raises:
        StoreError: it is divided otherwise, or has sessions.
    """
    wanted = address.partitions
    if wanted is None or await partitions(db) == wanted:
        return
    async with db.transaction():
        if await _locked(db, address) == wanted:  # by somebody who came at the same time
            return
        if await db.fetchval(queries("postgres")["any_session"]):
            raise StoreError(
                f"{address.shown}: this store has sessions and is not divided into {wanted} partitions."
                f" Stop what uses it and run `toolcrib store migrate --partitions {wanted}`"
            )
        await _divide(db, address, wanted)


async def divide_old(db: Connection, address: DatabaseAddress, wanted: int) -> None:
    """Divides a whole store that nobody uses, with all that is in it.

    Raises:
        StoreError: it is divided otherwise, or in use.
    """
    async with db.transaction():
        if await _locked(db, address) != wanted:
            await _divide(db, address, wanted)


async def _locked(db: Connection, address: DatabaseAddress) -> int:
    """Keeps others out until the transaction ends; how many partitions there are."""
    await db.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"toolcrib {address.schema}")
    await db.execute(queries("postgres")["lock_for_restore"])
    return await partitions(db)


async def _divide(db: Connection, address: DatabaseAddress, wanted: int) -> None:
    current = await partitions(db)
    if current:
        raise StoreError(f"{address.shown} has {current} partitions already: restore a backup of it into a new store")
    if await db.fetchval(queries("postgres")["in_use"], address.lease):
        raise StoreError(f"{address.shown} is in use: stop what uses it first")
    await db.execute("SELECT toolcrib_divide($1)", wanted)

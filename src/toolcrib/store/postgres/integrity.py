"""Whether a Postgres database is as it was written: what amcheck says, if it is installed, and a read of every row."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from typing import Any

from toolcrib.store import Damage
from toolcrib.store.codec import decode
from toolcrib.store.postgres.connection import BROKEN, Connection
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.integrity import MOST

PIECE = 1000
DIGEST = re.compile(r"[0-9a-f]{64}")


async def damages(db: Connection) -> list[Damage]:
    """Return the problems of a database, at most `MOST`."""
    problems: list[Damage] = []
    for look in (_checked, _events, _kept, _strays):
        try:
            async for one in look(db):
                problems.append(one)
                if len(problems) >= MOST:
                    return problems
        except BROKEN as error:
            problems.append(Damage("", f"a row cannot be read: {error}"))
    return problems


async def _checked(db: Connection) -> AsyncIterator[Damage]:
    """What amcheck finds in tables and indexes; it is an extension that only an administrator can install."""
    sql = queries("postgres")
    if not await db.fetchval(sql["has_amcheck"]):
        return
    for kind, query in (("index", "check_index"), ("table", "check_table")):
        for name, oid in await db.fetch(sql[f"checked_{kind}"]):
            try:
                problems = await db.fetch(sql[query], oid)
            except BROKEN as error:
                yield Damage("", f"{kind} {name}: {error}")
                continue
            for (problem,) in problems:
                if problem:
                    yield Damage("", f"{kind} {name}: {problem}")


async def _events(db: Connection) -> AsyncIterator[Damage]:
    async for session, seq, data in _rows(db, "checked_events"):
        try:
            good = isinstance(decode(data), dict)
        except ValueError:
            good = False
        if not good:
            yield Damage(session, f"event {seq} is not what was written")


async def _kept(db: Connection) -> AsyncIterator[Damage]:
    """A large value of the log is named by its digest."""
    async for session, id, data in _rows(db, "checked_kept"):
        if DIGEST.fullmatch(id) and hashlib.sha256(data).hexdigest() != id:
            yield Damage(session, f"the large value {id} is not what was written")


async def _strays(db: Connection) -> AsyncIterator[Damage]:
    for table, count in await db.fetch(queries("postgres")["strays"]):
        if count:
            yield Damage("", f"{count} rows of {table} belong to no session")


async def _rows(db: Connection, name: str) -> AsyncIterator[Any]:
    async with db.transaction(readonly=True):
        async for row in db.cursor(queries("postgres")[name], prefetch=PIECE):
            yield row

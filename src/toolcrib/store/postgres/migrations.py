"""Bringing the schema of a Postgres database up to date."""

from __future__ import annotations

from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.store.postgres.connection import BROKEN, IN_THE_WAY, MIGRATE_S, Connection, DatabaseAddress, hang_up
from toolcrib.store.postgres.partitions import divide_new, divide_old
from toolcrib.store.schema import steps_from


async def migrate(db: Connection, address: DatabaseAddress) -> tuple[int, int]:
    """Does the steps that are missing, and divides a new store as its address says; the versions before and after.

    Raises:
        StoreError: it is divided otherwise, and whatever `_migrate` raises.
    """
    versions = await _migrate(db, address)
    await divide_new(db, address)
    return versions


async def divide(address: DatabaseAddress, wanted: int) -> None:
    """Migrates a store that nobody uses and divides it, with all that is in it.

    Raises:
        StoreError: it is divided otherwise, or in use.
    """
    db = await address.connect(MIGRATE_S)
    try:
        await _migrate(db, address)
        await divide_old(db, address, wanted)
    except BROKEN as error:
        raise StoreUnavailable(f"Cannot divide {address.shown}: {error}") from None
    finally:
        await hang_up(db)


async def _migrate(db: Connection, address: DatabaseAddress) -> tuple[int, int]:
    """Does the steps that are missing, each in a transaction; the versions before and after.

    Raises:
        StoreTooNew: the database was written by a newer program.
        StoreError: tables of somebody else are in the way.
        StoreUnavailable: it may not be changed.
    """
    before = version = await _version(db)
    for number, text in steps_from(version, address.shown, "postgres"):
        try:
            async with db.transaction():
                version = max(version, await _step(db, address, number, text))
        except IN_THE_WAY as error:
            raise StoreError(
                f"{address.shown} holds something else: {error}. Use a schema of its own: ?schema=toolcrib"
            ) from None
        except BROKEN as error:
            raise StoreUnavailable(f"Cannot open {address.shown}: {error}") from None
    return before, version


async def _version(db: Connection) -> int:
    if await db.fetchval("SELECT to_regclass('schema_version')") is None:
        return 0
    return int(await db.fetchval("SELECT version FROM schema_version"))


async def _step(db: Connection, address: DatabaseAddress, number: int, text: str) -> int:
    """One step, unless another process did it while we waited for the lock; the version that stands then."""
    await db.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"toolcrib {address.schema}")
    if address.schema != "public":
        await db.execute(f'CREATE SCHEMA IF NOT EXISTS "{address.schema}"')
    await db.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL, cluster text NOT NULL);"
        "INSERT INTO schema_version SELECT 0, substr(md5(gen_random_uuid()::text), 1, 12)"
        " WHERE NOT EXISTS (SELECT 1 FROM schema_version)"
    )
    version = await _version(db)
    if steps_from(version, address.shown, "postgres") and number > version:
        await db.execute(text)
        await db.execute("UPDATE schema_version SET version = $1", number)
        return number
    return version

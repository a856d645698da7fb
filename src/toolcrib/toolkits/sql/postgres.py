"""PostgreSQL: what only reads runs in a READ ONLY transaction, as the inner part of a query of ours.

Functions run SQL from strings, so no list of names holds back a role that may do everything: such a role is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import ToolFailure
from toolcrib.toolkits.sql.rows import MOST_BYTES, TIME_S, Parameters, Rows, exact

_SPARE_S = 5.0
_EFFECTS = re.compile(
    r"\b(?:set_config|pg_notify|pg_sleep_until|nextval|setval|lo_\w+|loread|lowrite|dblink\w*|pg_(?:read|ls|stat_file"
    r"|terminate|cancel|reload|rotate|switch|create|drop|advisory|try_advisory|logical|replication|file|promote|backup"
    r"|start|stop|import|export|wal|log)\w*|(?:query|cursor|table|schema|database)_to_xml\w*|currtid\w*)"
    r'"?(?:\s|/\*.*?\*/|--[^\n]*\n)*\(',
    re.IGNORECASE | re.DOTALL,
)
_SPELLED = re.compile(r"\bU&\s*[\"']", re.IGNORECASE)
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CREATE", "ALTER", "DROP", "TRUNCATE", "COMMENT"})
_ALMIGHTY = "A superuser, or a role that reaches the server's files and programs, cannot be used for the database"
# A role can become each of which it is a member.
_PRIVILEGED = """
SELECT EXISTS (
    SELECT FROM pg_roles
    WHERE (rolsuper OR rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'))
      AND pg_has_role(session_user, oid, 'MEMBER')
)
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, is_nullable = 'YES' AS nullable
FROM information_schema.columns
WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
  AND ($1::text IS NULL OR table_name = $1 OR table_schema || '.' || table_name = $1)
ORDER BY table_schema, table_name, ordinal_position LIMIT 5000
"""


@dataclass(frozen=True, slots=True)
class PostgresDriver:
    """One database."""

    name: str
    url: str = field(repr=False)

    async def schema(self, table: str | None) -> list[dict[str, Any]]:
        """The tables, or one of them."""
        async with self._opened(reading=True) as database:
            rows = await database.fetch(_COLUMNS, table)
        tables: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for schema, name, column, kind, nullable in rows:
            tables.setdefault((schema, name), []).append({"name": column, "type": kind, "nullable": nullable})
        return [
            {"table": name if schema == "public" else f"{schema}.{name}", "columns": columns}
            for (schema, name), columns in tables.items()
        ]

    async def query(self, sql: str, params: Parameters, limit: int) -> Rows:
        """What a statement that only reads gives."""
        _refuse_effects(sql)
        async with self._opened(reading=True) as database:
            statement = await database.prepare(sql)  # says what is wrong with it; nothing runs
            columns = [column.name for column in statement.get_attributes()]
            if not columns:
                raise ToolFailure("denied", "This statement gives no rows; only queries can be run here")
            rows = Rows(columns, limit)
            inner = await _as_inner(database, sql, len(columns))
            async for fits, *row in inner.cursor(*map(exact, params), prefetch=min(limit + 1, 100)):
                if not fits or not rows.add(row):
                    rows.truncated = True
                    break
            return rows

    async def execute(self, sql: str, params: Parameters) -> int:
        """How many rows a statement changed."""
        _refuse_effects(sql)
        first = re.match(r"(?:\s|/\*.*?\*/|--[^\n]*\n)*(\w*)", sql, re.DOTALL)
        if first is None or first[1].upper() not in _CHANGES:
            raise ToolFailure("denied", f"A statement here begins with one of {', '.join(sorted(_CHANGES))}")
        async with self._opened(reading=False) as database:
            statement = await database.prepare(sql)
            await statement.fetch(*map(exact, params))
            words = (statement.get_statusmsg() or "").split()
        return int(words[-1]) if words and words[-1].isdecimal() else 0

    @asynccontextmanager
    async def _opened(self, *, reading: bool) -> AsyncIterator[Any]:
        """Open a transaction with limits; errors of the server are passed on, without the URL."""
        import asyncpg

        limits = {"statement_timeout": f"{int(TIME_S * 1000)}", "lock_timeout": "2000", "application_name": "toolcrib"}
        try:
            async with asyncio.timeout(TIME_S + _SPARE_S):
                database = await asyncpg.connect(
                    self.url, timeout=TIME_S, server_settings=limits, statement_cache_size=0
                )
        except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError):
            raise ToolFailure("unavailable", f"The database {self.name} cannot be reached") from None
        try:
            async with asyncio.timeout(TIME_S + _SPARE_S), database.transaction(readonly=reading):
                if await database.fetchval(_PRIVILEGED):
                    raise ToolFailure("unavailable", f"{_ALMIGHTY} {self.name}", retryable=False)
                yield database
        except TimeoutError:
            raise ToolFailure("timeout", f"The statement took longer than {TIME_S:g} s") from None
        except asyncpg.PostgresError as error:
            raise _failure(error) from None
        except (asyncpg.InterfaceError, ConnectionError, ValueError) as error:
            raise _misused(self.name, error, reading) from None
        finally:
            database.terminate()


async def _as_inner(database: Any, sql: str, columns: int) -> Any:
    """The statement inside one that gives back no row that is too large; what changes something cannot stand there."""
    import asyncpg

    names = [f"c{number}" for number in range(columns)]
    shown = ", ".join(f"CASE WHEN f.fits THEN q.{name} END" for name in names)
    try:
        return await database.prepare(
            f"SELECT f.fits, {shown} FROM ({sql.rstrip().rstrip(';')}\n) AS q ({', '.join(names)}) "
            f"CROSS JOIN LATERAL (SELECT octet_length(q::text) <= {MOST_BYTES} AS fits OFFSET 0) AS f"
        )
    except asyncpg.PostgresError:
        raise ToolFailure("denied", "Only queries can be run here: SELECT, WITH ... SELECT, VALUES, TABLE") from None


def _refuse_effects(sql: str) -> None:
    match = _EFFECTS.search(sql)
    if match or _SPELLED.search(sql):
        name = match[0].rstrip("( \n\t") if match else "U&"
        raise ToolFailure("denied", f"{name[:60]} may do more than read, and cannot be used here")


def _failure(error: Any) -> ToolFailure:
    state, message = str(error.sqlstate or ""), str(error).splitlines()[0][:300] if str(error) else ""
    if "multiple commands" in message:
        return ToolFailure("denied", "Only one statement can be run at a time")
    if state in ("25006", "42501", "25001", "0A000"):
        return ToolFailure("denied", f"The database refuses it: {message}")
    if state == "57014":
        return ToolFailure("timeout", f"The statement took longer than {TIME_S:g} s")
    if state == "55P03":
        return ToolFailure("unavailable", "What the statement needs is locked by another")
    if state.startswith("22"):
        return ToolFailure("invalid_arguments", f"The database says: {message}")
    return ToolFailure("failed", f"The database says: {message}")


def _misused(name: str, error: Exception, reading: bool) -> ToolFailure:
    """A parameter that does not fit, or a connection that was lost."""
    if isinstance(error, ConnectionError) or "closed" in str(error):
        if reading:
            return ToolFailure("unavailable", f"The connection to {name} was lost")
        message = f"The connection to {name} was lost; the statement may have been carried out"
        return ToolFailure("unknown", message, retryable=False)
    return ToolFailure("invalid_arguments", f"A parameter does not fit: {str(error).splitlines()[0][:200]}")

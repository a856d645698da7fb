"""Databases by name: their tables, queries that cannot write, and, where it is switched on, statements that do.

That nothing is written is held by the database itself: see `sqlite` and `postgres`. Values of a statement are given as
parameters, and never become part of its text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from toolcrib.errors import BadTool, ToolFailure
from toolcrib.extras import install
from toolcrib.toolkits.collection import FunctionEntry, Toolkit, kit
from toolcrib.toolkits.sql.postgres import PostgresDriver
from toolcrib.toolkits.sql.rows import SqlDriver
from toolcrib.toolkits.sql.sqlite import SqliteDriver
from toolcrib.types import AntiPattern, Example

__all__ = ["Database", "tools"]

_TIMEOUT_S = 30.0
_OUTPUT = 4 * 1024 * 1024
_MISTAKES = [
    AntiPattern("no such table", "Look with sql_schema which tables there are."),
    AntiPattern("does not exist", "Look with sql_schema how tables and columns are called."),
    AntiPattern("no such column", "Look with sql_schema how the columns are called."),
    AntiPattern("one statement", "Send each statement in a call of its own."),
    AntiPattern("can only be read", "sql_query reads. Say what you would change, and let a person do it."),
    AntiPattern("more than it may", "sql_query reads. Say what you would change, and let a person do it."),
    AntiPattern("took longer", "Ask for less: use WHERE and LIMIT, and count before you list."),
]

Value = str | int | float | bool | None
Sql = Annotated[str, Field(min_length=1, max_length=100_000)]
Params = Annotated[list[Value] | None, Field(max_length=1000)]


@dataclass(frozen=True, slots=True)
class Database:
    """A database: the path of a SQLite file, `sqlite:///path` or `postgresql://...`; of SQLite, which tables."""

    url: str | os.PathLike[str] = field(repr=False)
    tables: Iterable[str] | None = None

    def engine(self, name: str) -> SqlDriver:
        """How it is asked.

        Raises:
            BadTool: it cannot be.
        """
        url = os.fspath(self.url)
        if url.startswith(("postgresql://", "postgres://")):
            return self._postgres(name, url)
        if "://" in url and not url.startswith("sqlite:///"):
            raise BadTool("sql", name, "a database is a path, sqlite:///path or postgresql://...")
        tables = None if self.tables is None else frozenset(table.lower() for table in self.tables)
        return SqliteDriver(name, Path(url.removeprefix("sqlite:///")).absolute(), tables)

    def _postgres(self, name: str, url: str) -> PostgresDriver:
        try:
            import asyncpg  # noqa: F401 - fails here, and not in the first call
        except ImportError:
            raise BadTool("sql", name, f"needs asyncpg: {install('postgres')}") from None
        if self.tables is not None:
            raise BadTool("sql", name, "the tables of PostgreSQL are chosen by the rights of its role")
        return PostgresDriver(name, url)


def tools(
    databases: Mapping[str, str | os.PathLike[str] | Mapping[str, Any] | Database], *, write: bool = False
) -> Toolkit:
    """`sql_schema` and `sql_query`; with `write` also `sql_execute`, which the policy asks for.

    Raises:
        BadTool: there are no databases, or one does not hold.
    """
    if not databases:
        raise BadTool("sql", "databases", "is empty; name at least one: {'shop': 'shop.db'}")
    bases = _Bases({name: _database(name, settings).engine(name) for name, settings in databases.items()})
    first = next(iter(databases))
    shared: dict[str, Any] = {"timeout": _TIMEOUT_S, "output_bytes": _OUTPUT, "anti_patterns": _MISTAKES}
    reading = {**shared, "read_only": True}
    query = {"database": first, "sql": "SELECT count(*) FROM orders WHERE status = ?", "params": ["open"]}
    functions: list[FunctionEntry] = [
        (bases.sql_schema, {**reading, "examples": [Example({"database": first}, "All tables")]}),
        (bases.sql_query, {**reading, "examples": [Example(query, "PostgreSQL writes $1 where SQLite writes ?")]}),
    ]
    if write:
        change = {"database": first, "sql": "DELETE FROM orders WHERE id = ?", "params": [7]}
        functions.append(
            (bases.sql_execute, {**shared, "effect": "once", "destructive": True, "examples": [Example(change)]})
        )
    return kit("sql", functions)


def _database(name: str, value: Any) -> Database:
    if isinstance(value, Database):
        return value
    if not isinstance(value, Mapping):
        return Database(value)
    if "url" not in value or not value.keys() <= {"url", "tables"}:
        raise BadTool("sql", name, "a database has a url and, if wanted, tables")
    return Database(**value)


class _Bases:
    """The tools, with the databases that they know."""

    def __init__(self, engines: Mapping[str, SqlDriver]) -> None:
        self._engines = engines

    def _engine(self, name: str) -> SqlDriver:
        driver = self._engines.get(name)
        if driver is None:
            message = f"There is no database {name[:60]!r}"
            raise ToolFailure("not_found", message, hint=f"Known: {', '.join(self._engines)}")
        return driver

    async def sql_schema(self, database: str, table: str | None = None) -> dict[str, Any]:
        """Tell which tables a database has, and their columns.

        Args:
            database: The name of the database.
            table: Only this table.
        """
        tables = await self._engine(database).schema(table)
        if table is not None and not tables:
            raise ToolFailure("not_found", f"There is no table {table[:60]!r} in {database}")
        return {"database": database, "tables": tables}

    async def sql_query(
        self,
        database: str,
        sql: Sql,
        params: Params = None,
        limit: Annotated[int, Field(ge=1, le=1000)] = 200,
    ) -> dict[str, Any]:
        """Run one query that only reads, and give its rows.

        Args:
            database: The name of the database.
            sql: One statement, with ? (SQLite) or $1 (PostgreSQL) where values go.
            params: The values, in order.
            limit: How many rows at the most.
        """
        return (await self._engine(database).query(sql, params or [], limit)).data

    async def sql_execute(self, database: str, sql: Sql, params: Params = None) -> dict[str, Any]:
        """Run one statement that changes a database. A person is asked before, and sees the statement.

        Args:
            database: The name of the database.
            sql: One statement, with ? (SQLite) or $1 (PostgreSQL) where values go.
            params: The values, in order.
        """
        return {"database": database, "changed": await self._engine(database).execute(sql, params or [])}

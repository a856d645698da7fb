"""SQLite files: what only reads cannot write, since the file is opened so, and each part of a statement is looked at
by the database before it runs.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from toolcrib.errors import ToolFailure
from toolcrib.toolkits.sql.rows import TIME_S, Parameters, Rows

_STEPS = 1000
_LARGEST = 4 * 1024 * 1024
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN = frozenset(
    {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA}
    | {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}
)
_FUNCTIONS = frozenset(
    {"load_extension", "readfile", "writefile", "fts3_tokenizer", "edit", "lsmode", "sqlite_log"}
    | {"printf", "format"}  # `%.*c` makes them run for half a minute, and nothing can stop a function
)
_TABLES = (
    "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
_VIRTUAL = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%' LIMIT 100"


_VIEWS = "SELECT lower(name) FROM sqlite_master WHERE type = 'view'"
# A parameter may hold whatever is not blank: `$a(')` is one.
_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"]|"")*"|'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^\]]*\]"""
    r"""|[$@:\#](?:[\w$]|::)*(?:\([^\s)]*\))?|[^\W\d][\w$]*|\S""",
    re.DOTALL,
)
_AS = re.compile(r"(?<![\w$])as(?![\w$])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SqliteDriver:
    """One file; with `tables` only those are read."""

    name: str
    path: Path
    tables: frozenset[str] | None = None

    async def schema(self, table: str | None) -> list[dict[str, Any]]:
        """The tables, or one of them."""
        return await asyncio.to_thread(self._schema, table)

    async def query(self, sql: str, params: Parameters, limit: int) -> Rows:
        """What a statement that only reads gives."""
        return await asyncio.to_thread(self._query, sql, params, limit)

    async def execute(self, sql: str, params: Parameters) -> int:
        """How many rows a statement changed."""
        return await asyncio.to_thread(self._execute, sql, params)

    def _schema(self, table: str | None) -> list[dict[str, Any]]:
        with self._opened("ro") as database:
            names = [(name, kind) for name, kind in database.execute(_TABLES + " ORDER BY name") if self._shows(name)]
            return [
                {"table": name, "type": kind, "columns": _columns(database, name)}
                for name, kind in names
                if table is None or name.lower() == table.lower()
            ]

    def _query(self, sql: str, params: Parameters, limit: int) -> Rows:
        with self._opened("ro") as database:
            _connect_virtual(database)
            database.set_authorizer(self._reader(database, sql))
            cursor = database.execute(sql, tuple(params))
            if cursor.description is None:
                raise ToolFailure("denied", "This statement gives no rows; only queries can be run here")
            rows = Rows([column[0] for column in cursor.description], limit)
            for row in cursor:
                if not rows.add(row):
                    break
            return rows

    def _execute(self, sql: str, params: Parameters) -> int:
        with self._opened("rw") as database:
            database.set_authorizer(self._writes)
            before = database.total_changes
            cursor = database.execute(sql, tuple(params))
            cursor.fetchall()
            return database.total_changes - before

    def _shows(self, table: str) -> bool:
        return self.tables is None or table.lower() in self.tables

    def _reader(self, database: sqlite3.Connection, sql: str) -> Callable[..., int]:
        """What judges a statement that only reads.

        A table is read by its name, or within a view that is shown. SQLite names the parts of a `WITH` in the same way
        as views, so a view whose name the statement gives to something else counts for nothing. Neither does any view
        where a text, a comment or a parameter holds what may be read as giving a name.
        """
        shown = {name for (name,) in database.execute(_VIEWS) if self._shows(name)}
        views = set[str]() if _may_hide(sql) else shown - set(_defined(sql))

        def judge(action: int, first: str | None, second: str | None, base: str | None, view: str | None) -> int:
            allowed = action in _READS
            if action == sqlite3.SQLITE_FUNCTION:
                allowed = (second or "").lower() not in _FUNCTIONS
            elif action == sqlite3.SQLITE_READ:
                allowed = self._shows(first or "") or (view or "").lower() in views
            elif action == sqlite3.SQLITE_PRAGMA:
                allowed = first == "data_version" and second is None  # full-text indexes ask for it themselves
            return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

        return judge

    def _writes(self, action: int, first: str | None, second: str | None, base: str | None, view: str | None) -> int:
        """What a statement may do that a person agreed to: not leave its database, nor its transaction."""
        dangerous = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS
        return sqlite3.SQLITE_DENY if dangerous or action in _FORBIDDEN else sqlite3.SQLITE_OK

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Open a connection with limits; errors of the database are passed on, without its path."""
        until = time.monotonic() + TIME_S
        try:
            address = f"file:{quote(str(self.path))}?mode={mode}"
            with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=TIME_S)) as database:
                if mode == "ro":
                    database.execute("PRAGMA query_only = ON")
                database.execute("PRAGMA trusted_schema = OFF")
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
                database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
                database.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 500)
                database.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
                yield database
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise _failure(self.name, error) from None


def _defined(sql: str) -> Iterator[str]:
    """The names that a statement gives to parts of itself: whatever stands, with or without columns, before `AS (`."""
    tokens = [token for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*"))]
    for at, token in enumerate(tokens):
        rest = [word.lower() for word in tokens[at + 1 : at + 4] if word.lower() not in ("not", "materialized")]
        if token.lower() != "as" or rest[:1] != ["("] or at == 0:
            continue
        name = at - 1
        while tokens[name] == ")" and "(" in tokens[:name]:
            name -= 1 + tokens[:name][::-1].index("(") + 1
        yield _unquoted(tokens[name]).lower()


def _may_hide(sql: str) -> bool:
    """True if an `AS` stands where it is not taken for one: should that be wrong, it would give a name unseen."""
    tokens: list[str] = _TOKEN.findall(sql)
    return len(_AS.findall(sql)) != [token.lower() for token in tokens].count("as")


def _unquoted(token: str) -> str:
    quote = token[0] if token[0] in "\"'`" else ""
    return token[1:-1].replace(quote * 2, quote) if quote else token.removeprefix("[").removesuffix("]")


def _connect_virtual(database: sqlite3.Connection) -> None:
    """Lets virtual tables (full-text indexes) say what they are, by statements of their own, before any is judged."""
    for (name,) in database.execute(_VIRTUAL).fetchall():
        try:
            database.execute(f'SELECT 1 FROM "{name.replace(chr(34), chr(34) * 2)}" LIMIT 0')
        except sqlite3.Error:
            continue  # of a kind that is not known here


def _columns(database: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    rows = database.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,))
    return [{"name": n, "type": t, "nullable": not required, "primary_key": bool(key)} for n, t, required, key in rows]


def _failure(name: str, error: Exception) -> ToolFailure:
    text = str(error)
    for mark, code, message in (
        ("one statement", "denied", "Only one statement can be run at a time"),
        ("not authorized", "denied", "This statement does more than it may here"),
        ("authorization denied", "denied", "This statement does more than it may here"),
        ("prohibited", "denied", f"This statement reads what is closed: {text}"),
        ("readonly", "denied", "This database can only be read"),
        ("interrupted", "timeout", f"The statement took longer than {TIME_S:g} s"),
        ("too big", "too_large", "A value is larger than can be shown"),
        ("unable to open", "unavailable", f"The database {name} cannot be opened"),
        ("not a database", "unavailable", f"The database {name} cannot be read"),
        ("locked", "unavailable", f"The database {name} is busy"),
    ):
        if mark in text:
            return ToolFailure(code, message)
    return ToolFailure("failed", f"The database says: {text[:300]}")

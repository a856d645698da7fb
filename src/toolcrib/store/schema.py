"""The schema of a store: numbered steps and named statements, both in `.sql` files, a folder for each database."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib.resources import files

from toolcrib.errors import StoreTooNew

_NUMBER = "(SELECT n FROM sessions WHERE id = $1)"
"""What stands in the statements of a whole store where those of a divided one are given the number."""


@cache
def queries(database: str = "sqlite") -> dict[str, str]:
    """The statements by name."""
    return _named(database, "queries", "archive")


@cache
def divided_queries() -> dict[str, str]:
    """Those of a Postgres database whose tables are divided by sessions."""
    whole = {name: text.replace(_NUMBER, "$1::bigint") for name, text in queries("postgres").items()}
    return whole | _named("postgres", "divided")


def _named(database: str, *names: str) -> dict[str, str]:
    folder = files("toolcrib.store") / f"sql/{database}"
    text = "".join((folder / f"{name}.sql").read_text() + "\n" for name in names)
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: re.sub(r"^--.*\n", "", body, flags=re.MULTILINE).strip()
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def migrations(database: str = "sqlite") -> list[tuple[int, str]]:
    """The numbered steps of the schema."""
    scripts = [f for f in (files("toolcrib.store") / f"sql/{database}").iterdir() if re.match(r"\d{3}_", f.name)]
    return sorted((int(f.name[:3]), f.read_text()) for f in scripts)


def steps_from(version: int, shown: str, database: str = "sqlite") -> list[tuple[int, str]]:
    """The steps that the schema of a store still needs, which is of this version.

    Raises:
        StoreTooNew: it was made by a newer program.
    """
    steps = migrations(database)
    if version > steps[-1][0]:
        raise StoreTooNew(f"{shown} has schema {version}, this program knows {steps[-1][0]}. Update toolcrib.")
    return [step for step in steps if step[0] > version]


def migrate(db: sqlite3.Connection, shown: str) -> int:
    """Brings the schema of an SQLite file up to date; the version that it has now.

    Raises:
        StoreTooNew: the file was written by a newer program.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        for number, text in steps_from(int(db.execute("PRAGMA user_version").fetchone()[0]), shown):
            for statement in _statements(text):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has ended it already, and is what is to be told
            db.execute("ROLLBACK")
        raise
    return migrations()[-1][0]


def _statements(text: str) -> list[str]:
    """One statement each: a script would commit by itself in between."""
    statements, statement = [], ""
    for line in re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return statements

"""What is remembered between calls: contracts, histories, and what was spent. An SQLite file, or memory."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from importlib.resources import files
from os import PathLike
from typing import Any

DAY_S = 24 * 3600.0


class Cache:
    """Answers are small and local, so they are read where they are needed, without a thread."""

    def __init__(self, path: str | PathLike[str] = ":memory:") -> None:
        self._path = str(path)
        self._db: sqlite3.Connection | None = None

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.executescript((files("toolcrib.chain") / "cache.sql").read_text("utf-8"))
        return self._db

    def get(self, kind: str, key: str, fresh_s: float | None = None) -> tuple[Any, float] | None:
        """What is known and since when; None where that is nothing, or too old."""
        row = self._open().execute("SELECT value, at FROM found WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        if row is None or (fresh_s is not None and not 0 <= time.time() - row[1] <= fresh_s):
            return None
        return json.loads(row[0]), row[1]

    def put(self, kind: str, key: str, value: Any) -> None:
        """Remembers it."""
        row = (kind, key, json.dumps(value), time.time())
        self._open().execute("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?)", row)

    def all(self, kind: str, start: str) -> Iterator[tuple[str, Any]]:
        """Everything of a kind whose key begins so, with its key."""
        rows = self._open().execute(
            "SELECT key, value FROM found WHERE kind = ? AND substr(key, 1, ?) = ? ORDER BY key",
            (kind, len(start), start),
        )
        return ((key, json.loads(value)) for key, value in rows.fetchall())

    def spent(self, owner: str, session: str | None = None) -> int:
        """What an owner spends within a day, or in one session; also what still waits for the wallet."""
        if session is None:
            rows = self._open().execute(
                "SELECT wei FROM spent WHERE owner = ? AND at > ?", (owner, time.time() - DAY_S)
            )
        else:
            rows = self._open().execute("SELECT wei FROM spent WHERE owner = ? AND session = ?", (owner, session))
        return sum(int(row[0]) for row in rows)

    def waiting(self, owner: str) -> list[str]:
        """The calls of an owner whose proposals no wallet has sent yet."""
        rows = self._open().execute("SELECT DISTINCT call FROM spent WHERE owner = ? AND NOT sent", (owner,))
        return [row[0] for row in rows]

    def propose(self, key: str, call: str, owner: str, session: str, wei: int) -> None:
        """Counts a proposal, once."""
        row = (key, call, owner, session, time.time(), str(wei))
        self._open().execute("INSERT OR IGNORE INTO spent VALUES (?, ?, ?, ?, ?, ?, 0)", row)

    def sent(self, key: str) -> None:
        """The wallet has sent what was proposed."""
        self._open().execute("UPDATE spent SET sent = 1 WHERE key = ?", (key,))

    def withdraw(self, *, key: str = "", call: str = "") -> None:
        """Takes back what no wallet has sent."""
        self._open().execute("DELETE FROM spent WHERE NOT sent AND (key = ? OR call = ?)", (key, call))

    def __del__(self) -> None:
        if self._db is not None:
            self._db.close()

    def pause(self) -> None:
        """Closes the file until it is needed again; what memory holds stays."""
        if self._db is not None and self._path != ":memory:":
            self._db.close()
            self._db = None

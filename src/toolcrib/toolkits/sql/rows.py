"""Rows as they are shown: a bounded number of them, of a bounded size, as plain JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Protocol

MOST_BYTES = 1024 * 1024
TIME_S = 5.0

Parameters = Sequence[Any]


class SqlDriver(Protocol):
    """Access to one database; each use opens and closes a connection, so that no setting outlives a call."""

    async def schema(self, table: str | None) -> list[dict[str, Any]]:
        """The tables, or one of them."""

    async def query(self, sql: str, params: Parameters, limit: int) -> Rows:
        """What a statement that only reads gives."""

    async def execute(self, sql: str, params: Parameters) -> int:
        """How many rows a statement changed."""


@dataclass
class Rows:
    """What a query gave, up to what may be shown."""

    columns: list[str]
    limit: int
    rows: list[list[Any]] = field(default_factory=list)
    truncated: bool = False
    _bytes: int = 0

    def add(self, values: Iterable[Any]) -> bool:
        """Takes a row; False where no more are wanted."""
        row = [plain(value) for value in values]
        self._bytes += sum(len(value) if isinstance(value, str) else 8 for value in row)
        if len(self.rows) >= self.limit or self._bytes > MOST_BYTES:
            self.truncated = True
            return False
        self.rows.append(row)
        return True

    @property
    def data(self) -> dict[str, Any]:
        """As a result."""
        return {"columns": self.columns, "rows": self.rows, "truncated": self.truncated}


def plain(value: Any) -> Any:
    """A value of a database as JSON; numbers that JSON would round are texts."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return str(value.total_seconds() if isinstance(value, timedelta) else value)


def exact(value: Any) -> Any:
    """A parameter as the databases take it."""
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63 else value

"""The breaker for identical failing calls: three failures in a row, and the fourth is refused for a while."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib.calls.live import LiveCall
from toolcrib.policy import Verdict
from toolcrib.store.codec import canonical

ROW = 3
REST_S = 60.0
MOST = 100


class _Row(NamedTuple):
    failures: int
    at: float


class Loops:
    """Failures in a row, by tool and canonical arguments. Empty when the last one was followed by a success."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], _Row] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def note(self, live: LiveCall, failed: bool) -> None:
        """Takes the outcome of a call."""
        key = self._key(live)
        if not failed:
            self._rows.pop(key, None)
            return
        row = self._rows.pop(key, _Row(0, 0.0))
        self._rows[key] = _Row(row.failures + 1, live.pipeline.clock.now())
        if len(self._rows) > MOST:
            del self._rows[next(iter(self._rows))]

    def verdict(self, live: LiveCall) -> Verdict | None:
        """A refusal, while the row of failures is fresh."""
        assert live.tool is not None
        if live.tool.limits.repeat is None:
            return None
        row = self._rows.get(self._key(live))
        if row is None or row.failures < ROW or live.pipeline.clock.now() - row.at > REST_S:
            return None
        text = f"Loop: '{live.tool.name}' was called {row.failures} times with the same arguments and the same result"
        return Verdict("deny", "limit", text)

    def _key(self, live: LiveCall) -> tuple[str, str]:
        arguments = canonical(live.args)
        return live.tool_id or live.name, arguments if isinstance(arguments, str) else bytes(arguments).decode()

"""Which namespaces were ever open in a session. A key that opens fewer sees nothing of such a session: its log tells
what the tools of the others did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcrib._session.permissions import authorize
from toolcrib.crib import Crib
from toolcrib.errors import Refused
from toolcrib.events import Event
from toolcrib.store import SessionRow

KEPT = 20_000
_OPENING = frozenset({"opened", "namespaces"})


def opened_by(event: Event) -> tuple[str, ...]:
    """The namespaces that an event opens."""
    return tuple(event.fields["namespaces"]) if event.kind in _OPENING else ()


def within(namespaces: Iterable[str], bounds: Sequence[str] | None) -> bool:
    """True if a key that opens `bounds` opens all of these; None opens everything."""
    if bounds is None:
        return True
    try:
        authorize(namespaces, bounds)
    except Refused:
        return False
    return True


class Reaches:
    """The reach of each session, folded from its log; the next look goes on where the last one ended."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self._known: dict[tuple[str, float], tuple[int, frozenset[str]]] = {}

    async def of(self, row: SessionRow, until: int = 0) -> frozenset[str]:
        """All namespaces that were open in a session, up to its last event and at least up to `until`."""
        key = row.id, row.created_at  # a session that was swept may be made again
        seen, reach = self._known.pop(key, (0, frozenset[str]()))
        until = max(row.seq, until)
        while seen < until and (page := await self._crib.store.read(row.id, seen, call="", limit=1000)):
            reach = reach.union(*map(opened_by, page))
            seen = page[-1].seq
        self._known[key] = max(seen, until), reach
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return reach

    def forget(self) -> None:
        """Knows nothing any more: what could not be read may be old."""
        self._known.clear()

    def known(self, row: SessionRow) -> frozenset[str] | None:
        """The same without a look at the log, as far as it was read."""
        known = self._known.get((row.id, row.created_at))
        return None if known is None else known[1]

"""The sessions of people, without those that a crib keeps for itself."""

from __future__ import annotations

from toolcrib.store import OWNER, SessionRow, Store


async def sessions_of(
    store: Store, owner: str | None = None, *, limit: int = 100, before: SessionRow | None = None
) -> list[SessionRow]:
    """Return a page of sessions, the last used first; `before`, the last of a page, pages on."""
    while rows := await store.sessions(owner, limit=limit, before=before):
        if people := [row for row in rows if row.owner != OWNER]:
            return people
        before = rows[-1]
    return []

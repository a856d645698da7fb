"""What a store knows of sessions that were put into the archive, whose logs are in files elsewhere.

A session is in the store or in its archive index, never in both and never in neither: what moves it is one transaction.
Files are not known here; see `toolcrib._session.archiver`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from toolcrib.store import Archive, SessionRow


class ArchivedSession(NamedTuple):
    """A session in the archive: its row, when it was put there, and the digest and size of its file."""

    session: SessionRow
    archived_at: float
    sha256: str
    size: int


class ArchiveIndex(ABC):
    """The sessions of a store that are in the archive, and how they get there and back."""

    @abstractmethod
    async def idle(self, before: float, limit: int, past: SessionRow | None = None) -> list[SessionRow]:
        """Sessions without an event since `before` and with nothing open, the one unused for longest first.

        `past`, the last of a page, pages on.
        """

    @abstractmethod
    async def put_away(self, entries: Sequence[ArchivedSession]) -> list[str]:
        """Takes sessions out of the store and into this index, each whole; the ids of those that it took.

        One that was used since its row was read stays, as one does in which a call is open.
        """

    @abstractmethod
    async def find(self, session: str) -> ArchivedSession | None:
        """An archived session."""

    @abstractmethod
    async def page(self, owner: str | None = None, after: str = "", limit: int = 1000) -> list[ArchivedSession]:
        """Archived sessions by their ids, of one owner or of all; `after`, the last id of a page, pages on."""

    @abstractmethod
    async def bring_back(self, entry: ArchivedSession, archive: Archive) -> bool:
        """Makes a session of an archived one again; False, and nothing is done, where another did so before.

        Where somebody opened its id anew meanwhile and nothing was written there, it takes that place.
        """

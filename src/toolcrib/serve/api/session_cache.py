"""Whose session is whose, and the sessions that are in use: those that nobody used for a while are let go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolcrib._session.session_ids import SESSION_ID
from toolcrib.crib import Crib
from toolcrib.errors import Refused
from toolcrib.serve.api.errors import ApiError, missing
from toolcrib.serve.api.reach import Reaches, within
from toolcrib.serve.keys import HINT
from toolcrib.serve.principal import Principal
from toolcrib.store import OWNER, SessionRow, WalkedCall

if TYPE_CHECKING:
    from toolcrib.session import Session

IDLE_S = 300.0
TAKEN = "choose another id, such as one that begins with your name, or leave it out: the server makes one"
"""What to do about an id that cannot be had. Why not is not told: it may be that somebody else has it."""


class SessionCache:
    """Finds sessions for principals. What belongs to somebody else does not exist, but for who looks after all."""

    def __init__(self, crib: Crib, namespaces: tuple[str, ...] | None, idle_s: float = IDLE_S) -> None:
        self._crib = crib
        self.namespaces = namespaces
        self.reaches = Reaches(crib)
        self._idle_s = idle_s
        self._used: dict[str, tuple[Session, float]] = {}
        self._opened: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def known(self, id: str, principal: Principal) -> Session | None:
        """A session in memory that this principal may use, without a look into the store."""
        session = self._crib._session_table.at_hand(id)
        if session is None or session.owner != principal.name:
            return None
        if (allowed := bounds(principal)) is not None and not within(session.reach, allowed):
            raise _too_wide()
        self._use(session)
        return session

    async def of(self, id: str, principal: Principal) -> Session:
        """A session that this principal may use.

        Raises:
            ApiError: there is none, or more was open in it than they may use.
        """
        session = self.known(id, principal)
        if session is None:
            session = await self._crib._session_table.attach(await self.row(id, principal))
            self._use(session)
        return session

    async def row(self, id: str, principal: Principal) -> SessionRow:
        """What the store knows of a session that this principal may see.

        Raises:
            ApiError: there is none, or more was open in it than they may use.
        """
        row = await self._crib.store.session(id) if SESSION_ID.fullmatch(id) else None
        if row is None or not self.owns(row, principal):
            raise missing()
        if not await self.sees(row, principal):
            raise _too_wide()
        return row

    def owns(self, row: SessionRow, principal: Principal) -> bool:
        """True if a session is there for somebody. What the crib keeps for itself is there for nobody."""
        return row.owner != OWNER and (row.owner == principal.name or principal.admin)

    async def sees(self, row: SessionRow, principal: Principal, until: int = 0) -> bool:
        """True if somebody may read a session: it is there for them, and no more was open in it than they may use."""
        allowed = bounds(principal)
        return self.owns(row, principal) and (allowed is None or within(await self.reaches.of(row, until), allowed))

    def knows(self, row: SessionRow, principal: Principal) -> bool:
        """The same, by what is known of the session without a look at its log."""
        allowed = bounds(principal)
        if allowed is None:
            return self.owns(row, principal)
        reach = self.reaches.known(row)
        return self.owns(row, principal) and reach is not None and within(reach, allowed)

    async def visible(self, spots: list[WalkedCall], principal: Principal) -> list[WalkedCall]:
        """The calls that are in sessions which somebody may read."""
        if bounds(principal) is None:
            return spots
        seen = dict[str, bool]()
        for id in {spot.row.session for spot in spots}:
            row = await self._crib.store.session(id)
            seen[id] = row is not None and await self.sees(row, principal)
        return [spot for spot in spots if seen[spot.row.session]]

    def allowed(self, principal: Principal) -> tuple[str, ...]:
        """The namespaces that somebody may open."""
        if principal.namespaces is not None:
            return principal.namespaces
        if principal.admin and principal.auth != "off":
            return ("*",)
        return self.namespaces or self._crib.default_namespaces

    async def open(
        self, id: str | None, principal: Principal, namespaces: list[str] | None, grants: object
    ) -> tuple[Session, bool]:
        """Opens a session for its owner; whether it is new.

        Raises:
            ApiError: 401 or 403, more was asked for than is open to them.
            Refused: it cannot be opened.
        """
        row = None if id is None or not SESSION_ID.fullmatch(id) else await self._crib.store.session(id)
        if row is not None and row.owner == principal.name and not await self.sees(row, principal):
            raise _too_wide()
        wanted = namespaces
        if wanted is None and row is None:
            wanted = self._first(principal)
        allowed = self.allowed(principal)
        try:
            session = await self._crib.open(
                id,
                owner=principal.name,
                namespaces=wanted,
                grants=grants,  # type: ignore[arg-type]  # what does not load is refused
                allowed=allowed,
            )
        except Refused as refused:
            if refused.code == "denied" and principal.auth == "off" and refused.message.startswith("Namespace"):
                raise ApiError("unauthorized", refused.message, f"use a key that opens it: {HINT}") from None
            if refused.code == "denied" and not refused.message.startswith("Namespace"):
                raise ApiError("denied", f"Session '{id}' cannot be opened", TAKEN) from None
            raise
        self._opened.add(session.id)
        self._use(session)
        return session, row is None

    def _first(self, principal: Principal) -> list[str] | None:
        """What is open in a session that somebody makes without a word about namespaces."""
        if principal.namespaces is not None:
            return list(principal.namespaces)
        return list(self.namespaces or ()) or None

    def _use(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        self._used[session.id] = (session, loop.time())
        if self._timer is None:
            self._timer = loop.call_later(self._idle_s, self._tidy)

    def _tidy(self) -> None:
        """Lets go of what is idle: it is only its rows then. What runs stays, and what a program opened itself."""
        loop = asyncio.get_running_loop()
        for id, (session, used) in list(self._used.items()):
            busy = session.live or (session.driver is not None and session.driver.task is not None)
            if used <= loop.time() - self._idle_s and not busy:
                del self._used[id]
                if id in self._opened:
                    self._opened.discard(id)
                    self._crib._session_table.forget(session)
        self._timer = loop.call_later(self._idle_s, self._tidy) if self._used else None

    def close(self) -> None:
        """Lets go of all."""
        if self._timer is not None:
            self._timer.cancel()
        self._used.clear()


def bounds(principal: Principal) -> tuple[str, ...] | None:
    """The namespaces past which nothing is there for somebody; None where nothing bounds them."""
    return None if principal.admin else principal.namespaces


def _too_wide() -> ApiError:
    return ApiError("denied", "More was open in this session than your key opens", "use a key that opens it")

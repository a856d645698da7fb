"""The sessions that a process holds: those that were opened in it, and those that were made from their logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from toolcrib._call.ports import SessionPort
from toolcrib._session.permissions import SessionRights
from toolcrib.errors import Refused, StoreError
from toolcrib.events import Done, Event, NamespacesChanged, Opened, RunEnded, StateRecord, ToolsChanged, Waiting

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.ports import CribPort
    from toolcrib.store import SessionRow

log = logging.getLogger("toolcrib")


class HeldSession(SessionPort, Protocol):
    """A session as the table sees it."""

    seen: int
    news: int
    known: int
    state_seen: int
    restored: bool

    def _tool_ids(self) -> list[str]:
        """The ids of its tools."""

    def _refresh(self) -> None:
        """Its tools are looked up anew."""

    def _renewed(self) -> bool:
        """Look the tools up again; return True if they changed."""

    def _recall(self, event: Event) -> None:
        """Takes an event of its own past, once."""

    async def _left(self) -> None:
        """Returns when the logout that is under way is over."""


HeldT = TypeVar("HeldT", bound=HeldSession)


class SessionTable(Generic[HeldT]):
    """Opens sessions, finds them by id, and keeps them up to what other processes do to them.

    `make` makes one of an id, an owner and namespaces; `default` is what is open in one of which nobody said that.
    """

    def __init__(
        self, crib: CribPort, make: Callable[[str, str, tuple[str, ...]], HeldT], default: tuple[str, ...]
    ) -> None:
        self._crib = crib
        self._make = make
        self._default = default
        self._opened: dict[str, HeldT] = {}
        self._attached: WeakValueDictionary[str, HeldT] = WeakValueDictionary()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._opened) + len(self._attached)

    def all(self) -> list[HeldT]:
        """Those in memory."""
        return [*self._opened.values(), *self._attached.values()]

    def calls(self) -> list[LiveCall]:
        """The calls that this process works on."""
        return [live for session in self.all() for live in session.live.values()]

    def clear(self) -> None:
        """Lets go of all of them."""
        self._opened.clear()
        self._attached.clear()

    def forget(self, session: HeldT) -> None:
        """A session that was closed leaves nothing behind."""
        for known in (self._opened, self._attached):
            if known.get(session.id) is session:
                del known[session.id]

    # Finding

    def at_hand(self, id: str) -> HeldT | None:
        """The session of that id, if it is in memory."""
        return self._opened.get(id) or self._attached.get(id)

    async def attached(self, id: str) -> HeldT | None:
        """The session of that id: the open one, else one made from its log."""
        session = self.at_hand(id)
        if session is None:
            row = await self._crib.store.session(id)
            session = None if row is None else await self.attach(row)
        return session

    async def attach(self, row: SessionRow) -> HeldT:
        """The session of that row, from memory or else made from its log."""
        session = self.at_hand(row.id)
        if session is None:
            loaded = await self.load(row)
            session = self._opened.get(row.id) or self._attached.setdefault(row.id, loaded)
        return session

    async def load(self, row: SessionRow) -> HeldT:
        """A session as its log tells it; nothing is written."""
        session = self._make(row.id, row.owner, ())
        await self.refresh(session, row.revision)
        if not session.seen:  # nobody wrote yet what is open in it
            session.namespaces = self._default
        return session

    async def recorded(self, id: str, owner: str) -> tuple[str, ...]:
        """What is open in a session opened without a word about namespaces; nothing is said of a foreign one."""
        row = await self._crib.store.session(id)
        if row is None or row.owner != owner:
            return self._default
        return (self._opened.get(id) or await self.load(row)).namespaces

    # Opening

    async def open(self, id: str, owner: str, rights: SessionRights) -> tuple[HeldT, bool]:
        """The session, and whether it is new. A logout that is under way is waited for: there is one of each.

        Raises:
            Refused: `denied`, it is somebody else's.
        """
        async with self._opening.setdefault(id, asyncio.Lock()):
            row, made = await self._crib.store.open(id, owner, self._crib.pipeline.clock.now())
            if row.seq == 0 and await self._crib.store.recalled(id):  # nobody wrote to it, since it is in the archive
                row, made = await self._crib.store.open(id, owner, self._crib.pipeline.clock.now())
            if row.owner != owner:
                raise Refused("denied", f"Session '{id}' cannot be opened")
            session = None if made else self.at_hand(id)
            if session is not None and session.closing:
                await session._left()
            session = None if made else self._opened.get(id)
            if session is not None:
                await self.refresh(session, row.revision)  # another process may have closed it
            if session is None or session.shut:
                session = await self._enter(row, made, rights)
            wanted, grants = rights.of(session)
            if (wanted, grants) != (session.namespaces, session.grants):
                widened = not rights.limited and session.ceiling is not None
                await self.set_rights(session, wanted, grants, widened=widened)
            return session, made

    async def _enter(self, row: SessionRow, made: bool, rights: SessionRights) -> HeldT:
        await self._crib.registry.prepare(row.owner)
        if made:
            session = self._make(row.id, row.owner, self._default if rights.namespaces is None else rights.namespaces)
        else:
            session = await self.attach(row)  # one of each: what drives its runs and calls may have it by now
        _, session.grants = rights.of(session)
        session.judge = None
        session.shut = False
        self._opened[row.id] = session
        self._attached.pop(row.id, session)
        grants = list(session.grants) if rights.grants else None
        await session._log(Opened(row.owner, session.namespaces, session._tool_ids(), not made, grants))
        session.restored = not made
        log.info("session %s of %s was %s", row.id, row.owner, "opened" if made else "restored")
        return session

    async def set_rights(
        self,
        session: HeldT,
        namespaces: tuple[str, ...],
        grants: tuple[Any, ...],
        *,
        narrowed: bool = False,
        widened: bool = False,
    ) -> None:
        """Replaces what is open in a session and its grants, from now on; what has started goes on.

        What `narrowed` took away, only a caller who may open everything gives back; then it was `widened`.
        """
        async with session._lock:  # else what is read of others meanwhile would bring the old rights back
            session.namespaces, session.grants, session.judge = namespaces, grants, None
            session._refresh()
            self._end_unseen(session)
            session.ceiling = namespaces if narrowed else None if widened else session.ceiling
            await session._log(
                NamespacesChanged(namespaces, session._tool_ids(), narrowed, widened, list(grants) or None)
            )

    # Keeping up

    def tools_changed(self) -> None:
        """The catalog has other tools: those who hold a session are told, and calls of what is gone end."""
        for session in self.all():
            if session._renewed() and session.id in self._opened:
                self._crib.pipeline.aside(session._log(ToolsChanged(session._tool_ids())))
            self._end_unseen(session)

    def _end_unseen(self, session: HeldT) -> None:
        """Calls in the queue of tools that the session no longer has end; those that have started go on."""
        pipeline = self._crib.pipeline
        for live in list(session.live.values()):
            if pipeline.scheduler.seats(live) or live.scope is not None or live.tool is None:
                continue
            if live.tool.id not in session._view.names:
                live.stop(pipeline.admission.missing(live.request))

    def changed_elsewhere(self, id: str) -> None:
        """Another node changed what belongs to a session itself, its namespaces say; with "" any may have changed."""
        for session in [self.at_hand(id)] if id else self.all():
            if session is not None and not self._crib.ending:
                session.news += 1  # until it has caught up, nothing is accepted by what may be revoked
                if id or session.live or self._crib.moved is None:  # the others are looked at when they are used next
                    self._crib.pipeline.aside(self._catch_up(session))

    async def _catch_up(self, session: HeldT) -> None:
        """Takes in what others changed; where the store is away, the next call tries again."""
        try:
            await self.renew(session)
        except StoreError as error:
            log.info("session %s catches up later: %s", session.id, error)

    async def renew(self, session: HeldT) -> None:
        """Takes in what others did to a session, and to its state, up to now."""
        moved, news = session.moved if self._crib.moved is None else self._crib.moved(), session.news
        look = self._crib.store.look
        if look is None:
            row = await self._crib.store.session(session.id)
            if row is not None:
                await self.refresh(session, row.revision)
        else:
            newest = await look(session.id)
            if newest.own > session.seen or newest.revision > session.state.revision:
                await self.refresh(session, newest.revision)
            session.known = max(session.known, news)
        session.moved = moved

    async def refresh(self, session: HeldT, revision: int) -> None:
        """Takes in what others did to a session since it was last looked at."""
        async with session._lock:
            news = session.news
            while page := await self._crib.store.read(session.id, session.seen, call="", limit=1000):
                for event in page:
                    session._recall(event)
                session._refresh()
            session.known = news
        if revision > session.state.revision:
            await self.fold_state(session)
        if self._crib.agents is not None:
            await self._crib.agents.load(session)

    async def fold_state(self, session: HeldT) -> None:
        """Brings the state of a session up to its log."""
        while page := await self._crib.store.read(session.id, session.state_seen, limit=1000):
            for event in page:
                session.state_seen = max(event.seq, session.state_seen)
                if event.kind not in (RunEnded.kind, Done.kind, Waiting.kind):
                    continue
                match event.data:
                    case RunEnded(run=run):
                        session.state.end(run)
                    case Done(state=StateRecord() as state) | Waiting(state=StateRecord() as state):
                        session.state.replay(state, event.call or "")

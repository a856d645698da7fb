"""What a worker does with hints: look the calls up, take those that are to be run, and let the store decide.

A call that is queued is claimed and runs. One that a dead worker was running is taken over, as after any crash. One
whose tool, or whose version of it, only others have is left for them. Everything else needs nobody.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from toolcrib._call.answers import go_on, revive
from toolcrib._call.history import History
from toolcrib._call.live_call import LiveCall
from toolcrib._session.recovery import take_over
from toolcrib.errors import StoreUnavailable
from toolcrib.session import Session
from toolcrib.store.shared import SharedStore, TakenCall
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort

log = logging.getLogger("toolcrib.engine")

SESSIONS = 2000
"""Sessions kept at hand, so that the next call of one does not read its past again."""

LATER_S = 2.0
LEFT_S = 0.1
"""What a node that leaves did not come to end is for others, as soon as it is gone."""

RETRY_S = 1.0

Again = Callable[[float | str | None], None]
"""What to do with a hint: done with it (None), bring it again after so many seconds, or to the node of that name."""


class Worker:
    """The calls that this node has taken."""

    def __init__(self, crib: CribPort, store: SharedStore) -> None:
        self.done = 0
        self.quiet = False
        self.missing: set[str] = set()
        self._crib = crib
        self._store = store
        self._hints: dict[str, Again] = {}
        self._unreadable: dict[str, float] = {}
        self._looking = False
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._versions: tuple[float, dict[tuple[str, str], list[str]]] = (-1e9, {})
        self._refreshing: dict[str, asyncio.Lock] = {}

    def hint(self, call: str, again: Again) -> None:
        """There may be something to do for a call. All hints of one round of the loop are looked up together."""
        if call in self._hints or self._is_set_aside(call):
            again(None)
            return
        self._hints[call] = again
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _is_set_aside(self, call: str) -> bool:
        """True if a call could not be read a moment ago. Its hint comes again, however often others repeat it."""
        if call not in self._unreadable:
            return False
        if asyncio.get_running_loop().time() < self._unreadable[call]:
            return True
        del self._unreadable[call]
        return False

    def _look(self) -> None:
        self._looking = False
        hints, self._hints = self._hints, {}
        self._crib.pipeline.aside(self._take(hints))

    async def _take(self, hints: dict[str, Again]) -> None:
        try:
            calls = await self._store.take(list(hints))
        except Exception as error:  # noqa: BLE001 - whatever it is, every hint is given back
            await self._give_back(hints, error)
            return
        for call, again in hints.items():
            taken = calls.get(call)
            if taken is None or taken.row.state in ("done", "waiting"):
                again(None)
            elif taken.own > self._known(taken) or taken.session.revision > 0 or taken.row.state == "running":
                self._crib.pipeline.aside(self._go(taken, again))
            else:
                await self._go(taken, again)

    async def _give_back(self, hints: dict[str, Again], error: Exception) -> None:
        """The store is away, or one of the calls cannot be read: then the others can."""
        if len(hints) > 1 and not isinstance(error, StoreUnavailable):
            for call, again in hints.items():
                await self._take({call: again})
            return
        log.log(logging.INFO if isinstance(error, StoreUnavailable) else logging.ERROR, "not taken: %s", error)
        if isinstance(error, StoreUnavailable):
            for again in hints.values():
                again(RETRY_S)
            return
        for call, again in hints.items():
            self._unreadable[call] = asyncio.get_running_loop().time() + LATER_S / 2
            again(LATER_S)

    def _known(self, taken: TakenCall) -> int:
        session = self._crib._session_table.at_hand(taken.session.id)
        return -1 if session is None else session.seen

    async def _go(self, taken: TakenCall, again: Again) -> None:
        """Nothing that goes wrong with one call disturbs another; its hint then comes again."""
        try:
            await self._start(taken, again)
        except StoreUnavailable:
            again(RETRY_S)
        except Exception:
            log.exception("call %s could not be taken", taken.row.id)
            again(LATER_S)

    async def _start(self, taken: TakenCall, again: Again) -> None:
        crib, row = self._crib, taken.row
        session = await self._session(taken)
        if row.id in session.live or row.id in crib.recovering:
            again(None)
            return
        if row.state == "running" and row.worker and await self._store.alive(row.worker):
            again(LATER_S)  # whoever runs it was slow to say so, or this hint is an old one
            return
        history = History(row.session, taken.events)
        mine, others = await self._for_others(row.tool, history)
        if not mine:
            again(random.choice(others) if others else None)
            return
        if self.quiet:
            again(0.0)
            return
        crib.recovering.add(row.id)
        try:
            live = await revive(session, row, history, lambda ended: self._ended(ended, again))
            left = row.state == "running" and await self._store.left(row.worker or "")
            free = row.state == "queued" and row.parent is None
            await (go_on(session, live) if free else take_over(crib, session, live, left=left))
        finally:
            crib.recovering.discard(row.id)

    def _ended(self, live: LiveCall, again: Again) -> None:
        """A call is over here. One of which the store did not take the start or the end still needs somebody."""
        state = None if live.row is None else live.row.state
        self.done += state == "done"
        if state not in ("queued", "running"):
            again(None)
        elif self._crib.ending:
            again(LEFT_S)
        else:
            again(None if live.result is None else RETRY_S)

    async def _session(self, taken: TakenCall) -> Session:
        """The session as of now: what others did to it since it was last used here is read first."""
        id = taken.session.id
        session: Session | None = self._crib._session_table.at_hand(id)
        if session is None or taken.own > session.seen or taken.session.revision > session.state.revision:
            lock = self._refreshing.setdefault(id, asyncio.Lock())
            async with lock:
                session = cast(Session, await self._crib._session_table.attach(taken.session))
                if taken.own > session.seen or taken.session.revision > session.state.revision:
                    await self._crib._session_table.refresh(session, taken.session.revision)
            if not lock.locked():
                self._refreshing.pop(id, None)
        self._sessions[id] = session
        self._sessions.move_to_end(id)
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        return session

    async def _for_others(self, tool: str, history: History) -> tuple[bool, list[str]]:
        """Whether this node may run a call; if not, which living ones have its tool in the version it was accepted for.

        Where no node has it, nobody needs to be told: one that joins asks for what waits. A version that is gone from
        everywhere is run as it is now.
        """
        mine, version = self._crib.catalog.get(tool) or self._built_in().get(tool), history.accepted.version
        if mine is not None:
            self.missing.discard(tool)
            if version is None or mine.fingerprint.startswith(version):
                return True, []
            others = (await self._known_versions()).get((tool, version), [])
            return not others, others
        self.missing.add(tool)
        known = await self._known_versions()
        return False, [name for (id, _), names in known.items() if id == tool for name in names]

    def tools(self) -> list[Tool]:
        """What this node can run: its catalog and, where it has agents, what is built into them."""
        return [*self._built_in().values(), *self._crib.catalog.view(("*",)).all]

    def _built_in(self) -> Mapping[str, Tool]:
        return {} if self._crib.agents is None else self._crib.agents.built_in()

    async def _known_versions(self) -> dict[tuple[str, str], list[str]]:
        """Which living workers have which versions, not older than a while."""
        now = asyncio.get_running_loop().time()
        if now - self._versions[0] > LATER_S:
            known: dict[tuple[str, str], list[str]] = {}
            for node in await self._store.nodes():
                for pair in (node.facts.get("tools") or {}).items() if node.alive else ():
                    known.setdefault(pair, []).append(node.name)
            self._versions = (now, known)
        return self._versions[1]

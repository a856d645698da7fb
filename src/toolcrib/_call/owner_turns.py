"""Turns of owners at what all of them share and nobody may fill: the writer of a store, the rounds of the loop.

While only one owner has something to do, nothing is held back. Another who comes finds at most what was under way then.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping

LATELY_S = 1.0
"""Whoever did nothing for so long has nothing to do."""

SOON_S = 0.001
"""How long busy owners are held back for the next thing of one who has a single thing to do."""


class ActiveOwners:
    """The owners who did something lately."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[str, float] = OrderedDict()

    def note(self, owner: str, now: float) -> bool:
        """Takes in that an owner does something; True if others did lately."""
        seen = self._seen
        if len(seen) == 1 and owner in seen:
            seen[owner] = now
            return False
        seen[owner] = now
        seen.move_to_end(owner)
        while next(iter(seen.values())) < now - LATELY_S:
            seen.popitem(last=False)
        return len(seen) > 1

    def has(self, owner: str, now: float) -> bool:
        """True if an owner did something lately."""
        return self._seen.get(owner, -LATELY_S) > now - LATELY_S


EACH = 1
"""Steps of one owner in one round of the loop, while others have something to do too."""

ANSWERED = 3
"""Rounds of the loop from the last commit of a call to its answer."""

HELD_S = 0.02
"""How long steps of busy owners wait for a quick call at the most, should its commits take longer."""


class LoopTurns:
    """Lets each owner take so many steps in a round of the loop, times their weight: begin a request, end a call.

    Between two rounds the loop takes in what others sent, so that nobody waits for more than one round of each of the
    others. While there is only one owner, nothing is held back. Whoever `commits` hold back for a quick call takes no
    step either: each would come in between the commits of that call.
    """

    def __init__(self, weights: Mapping[str, int], commits: OwnerTurns | None = None) -> None:
        self._weights = weights
        self._commits = commits
        if commits is not None:
            commits.when_let_go(self._go_on)
        self._active = ActiveOwners()
        self._begun: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._in_round = False
        self._later: asyncio.TimerHandle | None = None

    def take(self, owner: str) -> asyncio.Future[None] | None:
        """None where a step may be taken at once, else what is done when its turn has come."""
        loop = asyncio.get_running_loop()
        if not self._active.note(owner, loop.time()) and not self._queues:
            return None
        held = self._is_held(owner)
        if not held:
            self._go_on()
        begun = self._begun.get(owner, 0)
        if owner not in self._queues and begun < EACH * self._weights.get(owner, 1) and not held:
            self._begun[owner] = begun + 1
            return None
        turn = loop.create_future()
        self._queues.setdefault(owner, deque()).append(turn)
        return turn

    def _is_held(self, owner: str) -> bool:
        """True if an owner waits for a quick call of another; they go on later, whatever comes of it."""
        if self._commits is None or not self._commits.holds_back(owner):
            return False
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(self._commits.held_s, self._look_again)
        return True

    def _look_again(self) -> None:
        self._later = None
        self._go_on()

    def _go_on(self) -> None:
        """Has a next round, if there is none to come."""
        if not self._in_round:
            self._in_round = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._begun.clear()
        for owner, queue in list(self._queues.items()):
            if self._is_held(owner):
                continue
            free = EACH * self._weights.get(owner, 1)
            while queue and free:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    free -= 1
            if not queue:
                del self._queues[owner]
            self._begun[owner] = EACH * self._weights.get(owner, 1) - free
        self._in_round = bool(self._begun)
        if self._in_round:
            asyncio.get_running_loop().call_soon(self._next_round)


class OwnerTurns:
    """An owner has as much under way as all others have to do, times their weight; the rest waits its turn, in order.

    So a busy owner beside a quiet one has one thing under way, and busy owners beside each other up to `most` each. An
    owner who lately did one thing at a time, and has one that another follows soon, such as the start and the end of a
    quick call, has both without one of a busy owner in between; then it is the turn of those who were held back.
    """

    def __init__(self, most: int, weights: Mapping[str, int], soon_s: float = SOON_S, held_s: float = HELD_S) -> None:
        self.held_s = held_s
        self._most = most
        self._soon_s = soon_s
        self._weights = weights
        self._active = ActiveOwners()
        self._under_way: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._total = 0
        self._busy = ActiveOwners()
        self._ahead: str | None = None
        self._lapses: asyncio.TimerHandle | None = None
        self._advanced = True
        self._since = 0.0
        self._let_go: Callable[[], None] | None = None

    def when_let_go(self, tell: Callable[[], None]) -> None:
        """Has this called whenever those who were held back go on."""
        self._let_go = tell

    def holds_back(self, owner: str) -> bool:
        """True if a busy owner waits for a quick call of somebody else that began just now."""
        if self._ahead in (None, owner):
            return False
        now = asyncio.get_running_loop().time()
        return now < self._since + self.held_s and self._busy.has(owner, now)

    def contended(self, owner: str) -> bool:
        """True if others than this owner, who does something now, did something lately."""
        return self._active.note(owner, asyncio.get_running_loop().time())

    async def enter(self, owner: str, *, more: bool = False) -> None:
        """Returns when it is the owner's turn; `leave` has to follow. `more` says that another thing follows soon."""
        contended = self.contended(owner)
        at_once = not contended or (owner not in self._queues and self._has_room(owner))
        if contended:
            self._go_ahead(owner, more)
        self._total += 1
        if at_once:
            self._under_way[owner] += 1
            self._make_room(owner)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(turn)
        self._make_room(owner)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(owner)
            else:
                self._total -= 1
            raise

    def _go_ahead(self, owner: str, more: bool) -> None:
        """Holds busy owners back for one who does one thing at a time, if they went on since the last time."""
        now = asyncio.get_running_loop().time()
        if self._wanted(owner):
            self._busy.note(owner, now)
        elif self._ahead == owner:
            self._keep_ahead()
        elif more and self._ahead is None and self._advanced and not self._busy.has(owner, now):
            self._ahead, self._advanced, self._since = owner, False, now

    def _keep_ahead(self) -> None:
        if self._lapses is not None:
            self._lapses.cancel()
            self._lapses = None

    def _answer_first(self, rounds: int) -> None:
        """Has whoever went ahead answered before those who are held back go on."""
        if rounds and self._ahead is not None:
            asyncio.get_running_loop().call_soon(self._answer_first, rounds - 1)
        else:
            self._let_go_on()

    def _let_go_on(self) -> None:
        """Nobody is held back any more."""
        self._keep_ahead()
        self._ahead = None
        for other in list(self._queues):
            self._advance(other)
        if self._let_go is not None:
            self._let_go()

    def _has_room(self, owner: str) -> bool:
        if self._ahead is not None and self._ahead != owner and (owner in self._queues or self._under_way[owner]):
            return False
        others = self._total - self._wanted(owner)
        return self._under_way[owner] < min(max(others, 1), self._most) * self._weights.get(owner, 1)

    def _make_room(self, owner: str) -> None:
        """Gives turns to others, who may have more under way now that this owner has more to do."""
        if not self._queues or self._wanted(owner) > self._most or len(self._queues) > self._most:
            return  # nobody waits, or everybody who does has all that they may
        for other in [other for other in self._queues if other != owner]:
            self._advance(other)

    def _wanted(self, owner: str) -> int:
        """How much of an owner is under way or waits."""
        return self._under_way[owner] + len(self._queues.get(owner, ()))

    def leave(self, owner: str, *, more: bool = False) -> None:
        """Gives the turn to what waits for it. Where `more` follows soon, that comes before what others wait with."""
        self._total -= 1
        self._under_way[owner] -= 1
        if self._ahead == owner:
            self._keep_ahead()
            if more:
                self._lapses = asyncio.get_running_loop().call_later(self._soon_s, self._let_go_on)
            else:
                self._answer_first(ANSWERED)
        self._advance(owner)
        if not self._under_way[owner]:
            del self._under_way[owner]

    def _advance(self, owner: str) -> None:
        queue = self._queues.get(owner)
        while queue and self._has_room(owner):
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                self._under_way[owner] += 1
                self._advanced = True
        if queue is not None and not queue:
            del self._queues[owner]

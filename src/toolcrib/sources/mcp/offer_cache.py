"""What a server offered when it was asked last: to all, and to each person who has a process of their own."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable

from toolcrib.sources.mcp.offers import Offers


class OfferCache:
    """Prompts, resources and skills of a server, by person; None stands for all who have no process of their own.

    `ask` asks the server for one of them, `person` tells which one an owner is. Those for all stand in for a person's
    that are not known yet, unless each has credentials of their own: `nobodys` says whether a connection is nobody's.
    """

    def __init__(
        self,
        ask: Callable[[str | None], Awaitable[Offers]],
        person: Callable[[str | None], str | None],
        nobodys: bool,
    ) -> None:
        self._ask = ask
        self._person = person
        self._nobodys = nobodys
        self._known: dict[str | None, Offers] = {}
        self._editions: Counter[str | None] = Counter()
        self._asking: defaultdict[str | None, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, owner: str | None) -> Offers:
        """What an owner is offered, asked for where it is not known or too old.

        Raises:
            ToolFailure: `unavailable`, the server cannot be asked.
        """
        person = self._person(owner)
        async with self._asking[person]:
            known = self._known.get(person)
            if known is None or asyncio.get_running_loop().time() >= known.until:
                shown = known or self._for_all
                self._known[person] = offers = await self._ask(person)
                if shown is None or shown[:4] != offers[:4]:
                    self._editions[person] += 1
            return self._known[person]

    def known(self, owner: str | None) -> Offers:
        """What an owner was offered when the server was asked last."""
        return self._known.get(self._person(owner)) or self._for_all or Offers()

    @property
    def _for_all(self) -> Offers | None:
        return self._known.get(None) if self._nobodys else None

    def edition(self, owner: str | None) -> tuple[object, ...]:
        """What is another when that is."""
        person = self._person(owner)
        return person, self._editions[person]

    def outdate(self, person: str | None) -> None:
        """Has a person's asked for again; those who look at it see another edition."""
        self._editions[person] += 1
        self.renew(person)

    def renew(self, person: str | None) -> None:
        """Has a person's asked for again, and the edition be another only if it is."""
        if person in self._known:
            self._known[person] = self._known[person]._replace(until=0.0)

    def forget(self, person: str | None) -> None:
        """Forget what a person was offered by a process that is gone."""
        self._known.pop(person, None)
        self._asking.pop(person, None)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._asking.clear()

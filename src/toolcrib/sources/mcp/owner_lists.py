"""The lists that a server has for each owner of credentials: asked for when somebody wants to see one."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable

from toolcrib.errors import ToolFailure

RETRY_S = 60.0

log = logging.getLogger("toolcrib.mcp")


class OwnerLists:
    """Which owners' lists are known, and until when. `list_for` asks the server for one; it gives until when that is
    true, or None for an owner without credentials.
    """

    def __init__(self, list_for: Callable[[str], Awaitable[float | None]]) -> None:
        self._list_for = list_for
        self._until: dict[str, float] = {}  # of everybody who ever wanted theirs
        self._known: set[str] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}

    def want(self, owner: str) -> asyncio.Task[None] | None:
        """Ask for a list that is not known or too old; what to wait for where the owner has none yet."""
        if asyncio.get_running_loop().time() >= self._until.get(owner, 0.0) and owner not in self._asking:
            self._ask(owner)
        return None if owner in self._known else self._asking.get(owner)

    def renew(self, owner: str) -> None:
        """Ask again for the list of somebody who wanted it before and has other credentials now."""
        if owner in self._until or owner in self._asking:
            self._known.discard(owner)
            self._ask(owner)

    def outdate(self) -> None:
        """Have each list asked for again when it is wanted."""
        self._until = dict.fromkeys(self._until, 0.0)

    def _ask(self, owner: str) -> None:
        asking = self._asked(owner, self._asking.get(owner))
        task = asyncio.get_running_loop().create_task(asking, context=contextvars.Context())
        self._asking[owner] = task
        task.add_done_callback(lambda task: self._end(owner, task))

    def _end(self, owner: str, task: asyncio.Task[None]) -> None:
        if self._asking.get(owner) is task:
            del self._asking[owner]

    async def _asked(self, owner: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            until = await self._list_for(owner)
        except ToolFailure as error:
            log.info("the tools of %s could not be listed: %s", owner, error.message)
            self._until[owner] = asyncio.get_running_loop().time() + RETRY_S
            return
        self._until[owner] = until or 0.0
        if until is not None:
            self._known.add(owner)

    async def stop(self) -> None:
        """Ask for nothing more, and forget what is known."""
        tasks, self._asking = list(self._asking.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._until.clear()
        self._known.clear()

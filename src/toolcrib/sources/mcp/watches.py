"""Resources whose changes somebody wants to hear of, over one connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourceUpdated

PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0

Heard = Callable[[], None]


class ResourceWatches:
    """Who wants to hear of which resource. The server is told of the first who does, and when nobody does any more."""

    def __init__(self) -> None:
        self._heard: dict[str, set[Heard]] = {}

    def updated(self, uri: str) -> None:
        """Tells all who want to know that a resource changed."""
        for heard in list(self._heard.get(uri, ())):
            heard()

    @contextlib.asynccontextmanager
    async def subscribed(self, client: Client, uri: str, heard: Heard) -> AsyncIterator[None]:
        """Has a server of an older revision tell of a resource for a while.

        Raises:
            MCPError: it refuses.
        """
        others = self._heard.setdefault(uri, set())
        if not others:
            await client.session.send_request(
                types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)), types.EmptyResult
            )
        others.add(heard)
        try:
            yield
        finally:
            others.discard(heard)
            if not others and self._heard.get(uri) is others:
                del self._heard[uri]
                request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
                with contextlib.suppress(MCPError, RuntimeError):
                    await client.session.send_request(request, types.EmptyResult)


async def follow(client: Client, uri: str, heard: Heard) -> None:
    """Hears of a resource of a server of the newest revision, until it is cancelled."""
    pause = PAUSE_S
    while True:
        with contextlib.suppress(Exception):  # a stream that was lost is opened again
            async with client.listen(resource_subscriptions=[uri]) as changes:
                if pause > PAUSE_S:
                    heard()  # what happened meanwhile was missed
                pause = PAUSE_S
                async for event in changes:
                    if isinstance(event, ResourceUpdated):
                        heard()
        pause = min(pause * 2, LONGEST_PAUSE_S)
        await asyncio.sleep(pause)

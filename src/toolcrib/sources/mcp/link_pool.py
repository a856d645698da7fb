"""The connections to one server: which calls share one, how many there may be, and when one ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NamedTuple

from toolcrib.errors import ToolFailure
from toolcrib.sources import OK, Health
from toolcrib.sources.mcp.link import KnownServer, LinkEvents, ServerLink
from toolcrib.sources.mcp.settings import McpClientSettings, Share
from toolcrib.sources.mcp.tool_list import ToolListing

if TYPE_CHECKING:
    from toolcrib.sources.mcp.connection import McpConnection


class LinkKey(NamedTuple):
    """Whose calls use a connection. Both are empty for the one that all share, and that lists the tools."""

    owner: str = ""
    session: str = ""


SHARED = LinkKey()


class LinkPool:
    """Links of one server, by who shares them. `relisted` is called with the tools of all of them together,
    `offers_changed` when one says that it has other prompts or resources.
    """

    def __init__(
        self,
        settings: McpClientSettings,
        relisted: Callable[[ToolListing], None],
        offers_changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._relisted = relisted
        self._known = KnownServer()
        self._heard = LinkEvents(self._listed, self._rested, offers_changed)
        self._links: dict[LinkKey, ServerLink] = {}  # the one that was used last stands last
        self._listings: dict[ServerLink, ToolListing] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._listed_until = 0.0
        self._last_log = ""

    def __len__(self) -> int:
        return len(self._links)

    @contextlib.asynccontextmanager
    async def connected(self, owner: str, session: str) -> AsyncIterator[tuple[ServerLink, McpConnection]]:
        """The connection that a call of a session uses.

        Raises:
            ToolFailure: `unavailable`, there is none; `denied`, the owner has no credentials.
        """
        share = await self._share()
        key = LinkKey("" if share == "all" else owner, session if share == "session" else "")
        link = self._link(key)
        async with link.connected() as connection:
            yield link, connection

    @contextlib.asynccontextmanager
    async def listing(self) -> AsyncIterator[McpConnection]:
        """A connection that is nobody's, to ask what the server offers.

        Raises:
            ToolFailure: `unavailable`, there is none.
        """
        async with self._any().connected() as connection:
            yield connection

    def _any(self) -> ServerLink:
        """The link that was used last, unless it has somebody's credentials: no process is started to ask once more."""
        if SHARED in self._links or self._settings.personal or not self._links:
            return self._link(SHARED)
        return next(reversed(self._links.values()))

    async def _share(self) -> Share:
        """What the settings say, else what the revision of the server demands."""
        if self._settings.share is not None:
            return self._settings.share
        if self._settings.personal:
            return "owner"
        if self._known.modern is None:
            async with self.listing():
                pass
        return "all" if self._known.modern else "session"

    def _link(self, key: LinkKey) -> ServerLink:
        link = self._links.pop(key, None) or self._adopted(key)
        if link is None:
            credentials = self._settings.credentials(key.owner if self._settings.personal else "")
            self._make_room()
            link = ServerLink(self._settings, credentials, self._known, self._heard)
        self._links[key] = link
        return link

    def _adopted(self, key: LinkKey) -> ServerLink | None:
        """The connection that listed the tools serves whoever calls first, unless it has nobody's credentials."""
        link = self._links.get(SHARED)
        if link is None or link.in_use or self._settings.personal:
            return None
        return self._links.pop(SHARED)

    def _make_room(self) -> None:
        most = self._settings.connections
        if len(self._links) < most:
            return
        idle = next((key for key, link in self._links.items() if not link.in_use), None)
        if idle is None:
            reason = f"{self._settings.name} has {len(self._links)} of {most} connections in use"
            raise ToolFailure("unavailable", reason, hint="Try again when another call has ended.")
        self._end(idle)

    def _rested(self, link: ServerLink) -> None:
        for key in [key for key, known in self._links.items() if known is link]:
            self._end(key)

    def _end(self, key: LinkKey) -> None:
        link = self._links.pop(key)
        self._last_log = link.log_text or self._last_log
        self._listed_until = link.fresh_until
        if len(self._listings) > 1 and self._listings.pop(link, None) is not None:
            self._tell()
        task = asyncio.get_running_loop().create_task(link.close(), context=contextvars.Context())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _listed(self, link: ServerLink, listing: ToolListing) -> None:
        """What one owner is shown by their credentials is not the catalog of all."""
        if self._settings.personal and link is not self._links.get(SHARED):
            return
        running = {*self._links.values(), link}
        self._listings = {one: tools for one, tools in self._listings.items() if one in running and one is not link}
        self._listings[link] = listing
        self._tell()

    def _tell(self) -> None:
        """The tools of all connections; where they differ, the newest listing is right."""
        listings = self._listings.values()
        tools = {tool.name: tool for listing in listings for tool in listing.tools}
        left_out = dict.fromkeys(line for listing in listings for line in listing.left_out)
        features = frozenset[str]().union(*(listing.features for listing in listings))
        self._relisted(ToolListing([*tools.values()], tuple(left_out), features))

    async def refresh(self) -> None:
        """Lists the tools anew, by every connection that there is, or by one that is made for it.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked.
        """
        links = list(self._links.values()) or [self._link(SHARED)]
        for link in links:
            async with link.connected() as connection:
                await connection.refresh()

    def log_texts(self) -> list[str]:
        """The end of what the processes wrote to their standard error; the last of one that is gone too."""
        return [text for text in (self._last_log, *(link.log_text for link in self._links.values())) if text]

    @property
    def fresh_until(self) -> float:
        """Until when what was listed last may be taken for true, by the clock of the loop."""
        return max((link.fresh_until for link in self._links.values()), default=self._listed_until)

    def health(self) -> Health:
        """How the server is: well as long as one connection is; nothing is started for that."""
        health = [link.health() for link in self._links.values()]
        return OK if OK in health or not health else health[-1]

    async def close(self) -> None:
        """Ends all of them; the next call starts one again."""
        links, self._links = list(self._links.values()), {}
        self._last_log = next((link.log_text for link in reversed(links) if link.log_text), self._last_log)
        self._listings, self._known = {}, KnownServer()
        await asyncio.gather(*(link.close() for link in links), *self._ending)

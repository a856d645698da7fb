"""The connections to one server: which calls share one, how many there may be, and when one ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from toolcrib.errors import ToolFailure
from toolcrib.sources import OK, Health
from toolcrib.sources.mcp.link import KnownServer, LinkEvents, ServerLink
from toolcrib.sources.mcp.listings import CredentialListings, ToolListings
from toolcrib.sources.mcp.settings import McpClientSettings, Share
from toolcrib.sources.mcp.tool_list import ToolListing

if TYPE_CHECKING:
    from toolcrib.sources.mcp.connection import McpConnection


class LinkKey(NamedTuple):
    """Whose calls use a connection. Both are empty for the one that all share, and that lists the tools."""

    owner: str = ""
    session: str = ""


SHARED = LinkKey()

log = logging.getLogger("toolcrib.mcp")


class PoolEvents(NamedTuple):
    """Who hears of a pool: the tools of all links together, and whose prompts or resources may be others.

    Those of None are offered to all who have no process of their own; they are looked at again when one person's may
    be others. A person's are `gone` with their process.
    """

    relisted: Callable[[ToolListing], None]
    offers_changed: Callable[[str | None], None]
    offers_gone: Callable[[str], None]
    look_again: Callable[[], Awaitable[None]]


class LinkPool:
    """Links of one server, by who shares them.

    What a process lists after a person used it may be theirs. It is shown to them alone, and a connection that nobody
    has used yet is asked what is for all.
    """

    def __init__(self, settings: McpClientSettings, heard: PoolEvents) -> None:
        self._settings = settings
        self._events = heard
        self._known = KnownServer()
        self._heard = LinkEvents(self._listed, self._rested, self._offers_changed)
        self._links: dict[LinkKey, ServerLink] = {}  # the one that was used last stands last
        self._listings = self._empty()
        self._ending: set[asyncio.Task[None]] = set()
        self._checking: asyncio.Task[None] | None = None
        self._unchecked = False
        self._listed_until = 0.0
        self._last_log = ""

    def _empty(self) -> ToolListings | CredentialListings:
        return CredentialListings() if self._settings.personal else ToolListings()

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
    async def listing(self, person: str | None = None) -> AsyncIterator[McpConnection]:
        """A connection to ask what the server offers: that of a person, or one that is nobody's.

        Raises:
            ToolFailure: `unavailable`, there is none.
        """
        link = None if person is None else self._own(person)
        async with (link or self._nobodys()).connected() as connection:
            yield connection

    @property
    def owners(self) -> list[str]:
        """Whose connections there are."""
        return [*dict.fromkeys(key.owner for key in self._links if key.owner)]

    async def list_for(self, owner: str) -> float:
        """Lists the tools with the credentials of an owner, unless that was just done; until when the list holds.

        Raises:
            ToolFailure: `unavailable`, there is no connection; `denied`, the owner has no credentials.
        """
        async with self.listing(owner) as connection:
            if asyncio.get_running_loop().time() >= connection.fresh_until:
                await connection.refresh()
            return connection.fresh_until

    def end_of(self, owner: str) -> None:
        """Ends the connections of an owner that nobody uses now."""
        for key in [key for key, link in self._links.items() if key.owner == owner and not link.in_use]:
            self._end(key)

    def _nobodys(self) -> ServerLink:
        """A link whose process keeps nothing of anybody; one that is there already where there is."""
        if SHARED not in self._links and not self._settings.personal:
            for key, link in reversed(self._links.items()):
                if self._owner(key, link) is None:
                    return link
        return self._link(SHARED)

    def _owner(self, key: LinkKey, link: ServerLink) -> str | None:
        """Whose things a process may keep, or whose credentials a connection has."""
        return key.owner if key.owner and (self._settings.personal or link.touched) else None

    def _own(self, owner: str) -> ServerLink | None:
        """The link that a person used last; with credentials of their own it is made where there is none."""
        for key, link in reversed(self._links.items()):
            if self._owner(key, link) == owner:
                return link
        return self._link(LinkKey(owner)) if self._settings.personal else None

    def person(self, owner: str | None) -> str | None:
        """The owner, if they have a process or credentials of their own."""
        if not owner or self._settings.personal:
            return owner or None
        return None if self._own(owner) is None else owner

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
        self._events.offers_gone(key.owner)
        if self._listings.drop(link):
            self._tell()
        task = asyncio.get_running_loop().create_task(link.close(), context=contextvars.Context())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _listed(self, link: ServerLink, listing: ToolListing) -> None:
        """What one owner is shown by their credentials, or lists after they used it, is not the catalog of all."""
        key = self._key(link)
        if not link.touched:  # what its process of before offered is gone
            self._events.offers_gone(key.owner)
        self._listings.keep({*self._links.values(), link})
        if self._listings.take(link, listing, self._owner(key, link)) and not self._settings.personal:
            self._check()
        self._tell()

    def _key(self, link: ServerLink) -> LinkKey:
        return next((key for key, known in self._links.items() if known is link), SHARED)

    def _tell(self) -> None:
        self._events.relisted(self._listings.merged())

    def _offers_changed(self, link: ServerLink) -> None:
        owner = self._owner(self._key(link), link)
        self._events.offers_changed(owner)
        if owner is not None and not self._settings.personal:
            self._check()

    def _check(self) -> None:
        """Has a connection that is nobody's asked whether what one person's process lists is there for all."""
        self._unchecked = True
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._checked(), context=contextvars.Context())

    async def _checked(self) -> None:
        while self._unchecked:
            self._unchecked = False
            if len(self._links) >= self._settings.connections:  # nobody's process is ended for this
                return
            try:
                async with self._nobodys().connected() as connection:
                    await connection.refresh()
                await self._events.look_again()
            except ToolFailure as error:
                log.info("%s cannot be asked what it has for all: %s", self._settings.name, error.message)

    async def refresh(self, *, nobodys: bool = True) -> None:
        """Lists the tools anew, by every connection that there is, or by one that is made for it unless there can be no
        connection of nobody's.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked.
        """
        links = list(self._links.values()) or ([self._link(SHARED)] if nobodys else [])
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

    async def restart(self) -> None:
        """Ends all of them, and keeps in mind what was listed for owners with credentials."""
        listings = self._listings
        await self.close()
        if self._settings.personal:
            self._listings = listings

    async def close(self) -> None:
        """Ends all of them; the next call starts one again."""
        links, self._links = list(self._links.values()), {}
        self._last_log = next((link.log_text for link in reversed(links) if link.log_text), self._last_log)
        self._listings, self._known = self._empty(), KnownServer()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        await asyncio.gather(*(link.close() for link in links), *self._ending)

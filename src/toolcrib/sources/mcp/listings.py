"""What the connections of one server list: what is for all, and what only the person sees whose process has it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from toolcrib.sources.mcp.results import OfferedTool
from toolcrib.sources.mcp.tool_list import ToolListing

if TYPE_CHECKING:
    from toolcrib.sources.mcp.link import ServerLink


class _Listed(NamedTuple):
    owner: str | None
    listing: ToolListing


class ToolListings:
    """The newest listing of each connection, the newest of all last.

    A process that a person has used may list what is theirs. So its listing adds tools for that person alone; what a
    tool of all looks like is said by connections that nobody has used yet.
    """

    def __init__(self) -> None:
        self._of: dict[ServerLink, _Listed] = {}
        self._for_all = ToolListing([])

    def take(self, link: ServerLink, listing: ToolListing, owner: str | None) -> bool:
        """Take what a connection lists, of which `owner` made use; True if nobody's connection should be asked too."""
        before = self._of.pop(link, None)
        self._of[link] = _Listed(owner, listing)
        if owner is None:
            self._for_all = listing
            return False
        known = self._for_all if before is None else before.listing
        return known.tools != listing.tools

    def keep(self, links: Collection[ServerLink]) -> None:
        """Forget all other connections."""
        self._of = {link: listed for link, listed in self._of.items() if link in links}

    def drop(self, link: ServerLink) -> bool:
        """Forget a connection, but for the last that lists what is for all; True if the tools may be others now."""
        listed = self._of.get(link)
        if listed is None or (listed.owner is None and len(self._of) == 1):
            return False
        del self._of[link]
        return True

    def merged(self) -> ToolListing:
        """The tools of all connections; where listings for all differ, the newest is right."""
        listings = [listed.listing for listed in self._of.values() if listed.owner is None] or [self._for_all]
        tools = {tool.name: tool for listing in listings for tool in listing.tools}
        all_listings = [*listings, *(listed.listing for listed in self._of.values() if listed.owner is not None)]
        left_out = dict.fromkeys(line for listing in listings for line in listing.left_out)
        features = frozenset[str]().union(*(listing.features for listing in all_listings))
        return ToolListing([*tools.values(), *self._personal(tools)], tuple(left_out), features)

    def _personal(self, tools: Collection[str]) -> list[OfferedTool]:
        """The tools that not all have. Where two people have different ones of a name, each has their own."""
        own: dict[str, list[OfferedTool]] = {}
        for owner, listing in self._of.values():
            for tool in listing.tools if owner is not None else ():
                if tool.name not in tools:
                    _add(own.setdefault(tool.name, []), tool, str(owner))
        return [tool for namesakes in own.values() for tool in namesakes]


class CredentialListings:
    """The newest listing for the credentials of each owner; the owner "" stands for whoever has none of their own.

    It is kept when the connection ends, since the next one has the same credentials.
    """

    def __init__(self) -> None:
        self._of: dict[str, ToolListing] = {}

    def take(self, link: ServerLink, listing: ToolListing, owner: str | None) -> bool:
        """Take what a connection with the credentials of an owner lists; nobody else's is to be asked for it."""
        self._of[owner or ""] = listing
        return False

    def keep(self, links: Collection[ServerLink]) -> None:
        """Forget nothing."""

    def drop(self, link: ServerLink) -> bool:
        """Forget nothing."""
        return False

    def merged(self) -> ToolListing:
        """The tools of all owners, each with those who have it."""
        own: dict[str, list[OfferedTool]] = {}
        for owner, listing in self._of.items():
            for tool in {tool.name: tool for tool in listing.tools}.values():
                _add(own.setdefault(tool.name, []), tool, owner)
        tools = [tool for namesakes in own.values() for tool in namesakes]
        left_out = dict.fromkeys(line for listing in self._of.values() for line in listing.left_out)
        features = frozenset[str]().union(*(listing.features for listing in self._of.values()))
        return ToolListing(tools, tuple(left_out), features)


def _add(namesakes: list[OfferedTool], tool: OfferedTool, owner: str) -> None:
    if any(owner in (other.owners or ()) for other in namesakes):
        return  # another connection of the same person has one already
    for number, other in enumerate(namesakes):
        if replace(other, owners=None) == tool:
            namesakes[number] = replace(other, owners=frozenset({owner, *(other.owners or ())}))
            return
    namesakes.append(replace(tool, owners=frozenset({owner})))

"""What a client finds: tools, prompts, resources and their templates, in fixed order, in pages."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import UNSET

from toolcrib.serve.mcp.content import description
from toolcrib.serve.mcp.request import Reply, Request
from toolcrib.serve.mcp.rooms import Room
from toolcrib.serve.mcp.settings import Settings
from toolcrib.serve.mcp.shelf import Resource, Shelf
from toolcrib.serve.mcp.wire import INVALID_PARAMS, Wrong, encode

Listed = Mapping[str, Any]


class Lists:
    """The lists of one server. A page is made once for all who see the same, and kept until something changes."""

    def __init__(self, settings: Settings, shelf: Shelf | None) -> None:
        self._settings = settings
        self._shelf = shelf

    def cache(self, asked: Request, body: bytes) -> bytes:
        """A result with how long it may be kept, and for whom: a list is that of whoever asked."""
        if not asked.modern:
            return body
        return b'%b,"ttlMs":%d,"cacheScope":"private"}' % (body[:-1], self._settings.ttl_ms)

    def tools(self, asked: Request, room: Room) -> Reply:
        """The tools that the principal may use."""

        def all_of_them() -> Iterable[Listed]:
            return (description(name, tool, modern=asked.modern) for name, tool in room.sight.named.items())

        return self._page(asked, room, "tools", all_of_them)

    def prompts(self, asked: Request, room: Room) -> Reply:
        """The prompts on the shelf."""

        def all_of_them() -> Iterable[Listed]:
            found = () if self._shelf is None else sorted(self._shelf.prompts.values(), key=lambda one: one.name)
            return (one.listed for one in found if room.session.sees(one.tool))

        return self._page(asked, room, "prompts", all_of_them)

    def resources(self, asked: Request, room: Room) -> Reply:
        """The resources on the shelf."""
        return self._page(asked, room, "resources", lambda: self._resources(room, template=False))

    def templates(self, asked: Request, room: Room) -> Reply:
        """The templates on the shelf."""
        return self._page(asked, room, "resourceTemplates", lambda: self._resources(room, template=True))

    def _resources(self, room: Room, *, template: bool) -> Iterable[Listed]:
        found: list[Resource] = [] if self._shelf is None else [*self._shelf.resources.values()]
        found.sort(key=lambda one: one.uri)
        return (one.listed for one in found if (one.pattern is not None) == template and room.session.sees(one.tool))

    def _page(self, asked: Request, room: Room, name: str, items: Callable[[], Iterable[Listed]]) -> Reply:
        pages = room.sight.pages
        begin = _place(asked, self._settings.page)
        key = (name, asked.modern, begin)
        page = pages.get(key)
        if page is None:
            all_items = list(items())
            if begin and begin >= len(all_items):
                raise Wrong(INVALID_PARAMS, "Invalid params: there is no such page")
            end = begin + self._settings.page
            made: dict[str, Any] = {name: all_items[begin:end]}
            if end < len(all_items):
                made["nextCursor"] = urlsafe_b64encode(b"%d" % end).decode()
            page = pages[key] = self.cache(asked, encode(made))
        return Reply(page)


def _place(asked: Request, page: int) -> int:
    cursor = asked.params.cursor
    if cursor is UNSET or cursor is None:
        return 0
    try:
        begin = int(urlsafe_b64decode(cursor.encode()))
    except ValueError:
        begin = 0
    if begin <= 0 or begin % page:  # others would only fill the memory with pages
        raise Wrong(INVALID_PARAMS, "Invalid params: the cursor is none of this server's")
    return begin

"""What a client finds: tools, prompts, resources and their templates, in fixed order, in pages."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import UNSET

from toolcrib.serve.mcp.content import description
from toolcrib.serve.mcp.library import McpLibrary, Resource
from toolcrib.serve.mcp.request import McpReply, McpRequest
from toolcrib.serve.mcp.sessions import McpSession
from toolcrib.serve.mcp.settings import McpServerSettings
from toolcrib.serve.mcp.wire import INVALID_PARAMS, ProtocolError, encode

Listed = Mapping[str, Any]


class McpLists:
    """The lists of one server. A page is made once for all who see the same, and kept until something changes."""

    def __init__(self, settings: McpServerSettings, library: McpLibrary | None) -> None:
        self._settings = settings
        self._shelf = library

    def cache(self, request: McpRequest, body: bytes) -> bytes:
        """A result with how long it may be kept, and for whom: a list is that of whoever asked."""
        if not request.modern:
            return body
        return b'%b,"ttlMs":%d,"cacheScope":"private"}' % (body[:-1], self._settings.ttl_ms)

    def tools(self, request: McpRequest, room: McpSession) -> McpReply:
        """The tools that the principal may use."""

        def all_of_them() -> Iterable[Listed]:
            return (description(name, tool, modern=request.modern) for name, tool in room.sight.named.items())

        return self._page(request, room, "tools", all_of_them)

    def prompts(self, request: McpRequest, room: McpSession) -> McpReply:
        """The prompts on the library."""

        def all_of_them() -> Iterable[Listed]:
            found = () if self._shelf is None else sorted(self._shelf.prompts.values(), key=lambda one: one.name)
            return (one.listed for one in found if room.session.sees(one.tool))

        return self._page(request, room, "prompts", all_of_them)

    def resources(self, request: McpRequest, room: McpSession) -> McpReply:
        """The resources on the library."""
        return self._page(request, room, "resources", lambda: self._resources(room, template=False))

    def templates(self, request: McpRequest, room: McpSession) -> McpReply:
        """The templates on the library."""
        return self._page(request, room, "resourceTemplates", lambda: self._resources(room, template=True))

    def _resources(self, room: McpSession, *, template: bool) -> Iterable[Listed]:
        found: list[Resource] = [] if self._shelf is None else [*self._shelf.resources.values()]
        found.sort(key=lambda one: one.uri)
        return (one.listed for one in found if (one.pattern is not None) == template and room.session.sees(one.tool))

    def _page(
        self, request: McpRequest, room: McpSession, name: str, items: Callable[[], Iterable[Listed]]
    ) -> McpReply:
        pages = room.sight.pages
        begin = _place(request, self._settings.page)
        key = (name, request.modern, begin)
        page = pages.get(key)
        if page is None:
            all_items = list(items())
            if begin and begin >= len(all_items):
                raise ProtocolError(INVALID_PARAMS, "Invalid params: there is no such page")
            end = begin + self._settings.page
            made: dict[str, Any] = {name: all_items[begin:end]}
            if end < len(all_items):
                made["nextCursor"] = urlsafe_b64encode(b"%d" % end).decode()
            page = pages[key] = self.cache(request, encode(made))
        return McpReply(page)


def _place(request: McpRequest, page: int) -> int:
    cursor = request.params.cursor
    if cursor is UNSET or cursor is None:
        return 0
    try:
        begin = int(urlsafe_b64decode(cursor.encode()))
    except ValueError:
        begin = 0
    if begin <= 0 or begin % page:  # others would only fill the memory with pages
        raise ProtocolError(INVALID_PARAMS, "Invalid params: the cursor is none of this server's")
    return begin

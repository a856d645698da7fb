"""What a client finds: tools, prompts, resources and their templates, in fixed order, in pages."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from toolcrib.serve.mcp.content import description
from toolcrib.serve.mcp.library import McpLibrary
from toolcrib.serve.mcp.request import McpReply, McpRequest
from toolcrib.serve.mcp.sessions import McpSession
from toolcrib.serve.mcp.settings import McpServerSettings
from toolcrib.serve.mcp.upstreams import Upstreams
from toolcrib.serve.mcp.wire import INVALID_PARAMS, ProtocolError, encode

Listed = Mapping[str, Any]


class McpLists:
    """The lists of one server. A page is made once for all who see the same, and kept until something changes."""

    def __init__(self, settings: McpServerSettings, library: McpLibrary | None, upstreams: Upstreams) -> None:
        self._settings = settings
        self._shelf = library
        self._upstreams = upstreams

    def cache(self, request: McpRequest, body: bytes) -> bytes:
        """A result with how long it may be kept, and for whom: a list is that of whoever asked."""
        if not request.modern:
            return body
        return b'%b,"ttlMs":%d,"cacheScope":"private"}' % (body[:-1], self._settings.ttl_ms)

    def tools(self, request: McpRequest, mcp_session: McpSession) -> McpReply:
        """The tools that the principal may use."""

        def all_of_them() -> Iterable[Listed]:
            return (description(name, tool, modern=request.modern) for name, tool in mcp_session.sight.named.items())

        return self._page(request, mcp_session, "tools", all_of_them)

    def prompts(self, request: McpRequest, mcp_session: McpSession) -> McpReply:
        """The prompts of the library and of servers."""

        def all_of_them() -> Iterable[Listed]:
            own = () if self._shelf is None else self._shelf.prompts.values()
            prompts = self._upstreams.prompts(mcp_session) | {
                one.name: one.listed for one in own if mcp_session.session._sees(one.tool)
            }
            return (prompts[name] for name in sorted(prompts))

        return self._page(request, mcp_session, "prompts", all_of_them)

    def resources(self, request: McpRequest, mcp_session: McpSession) -> McpReply:
        """The resources of the library and of servers."""
        return self._page(request, mcp_session, "resources", lambda: self._resources(mcp_session, template=False))

    def templates(self, request: McpRequest, mcp_session: McpSession) -> McpReply:
        """The templates of the library and of servers."""
        return self._page(
            request, mcp_session, "resourceTemplates", lambda: self._resources(mcp_session, template=True)
        )

    def skills(self, request: McpRequest, mcp_session: McpSession, entries: Sequence[Listed]) -> McpReply:
        """The skills, which were looked at just now."""
        begin = _place(request, self._settings.page)
        if begin and begin >= len(entries):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: there is no such page")
        return McpReply(self._encoded(request, "skills", entries, begin))

    def _resources(self, mcp_session: McpSession, *, template: bool) -> Iterable[Listed]:
        resources = dict(self._upstreams.templates(mcp_session) if template else self._upstreams.resources(mcp_session))
        for one in () if self._shelf is None else self._shelf.resources.values():
            if (one.pattern is not None) == template and mcp_session.session._sees(one.tool):
                resources[one.uri] = one.listed
        return (resources[uri] for uri in sorted(resources))

    def _page(
        self, request: McpRequest, mcp_session: McpSession, name: str, items: Callable[[], Iterable[Listed]]
    ) -> McpReply:
        pages = mcp_session.sight.pages
        begin = _place(request, self._settings.page)
        edition = () if name == "tools" else self._upstreams.edition(mcp_session)
        key = (name, request.modern, begin)
        known, page = pages.get(key, (edition, None))
        if page is None or known != edition:
            all_items = list(items())
            if begin and begin >= len(all_items):
                raise ProtocolError(INVALID_PARAMS, "Invalid params: there is no such page")
            page = self._encoded(request, name, all_items, begin)
            pages[key] = edition, page
        return McpReply(page)

    def _encoded(self, request: McpRequest, name: str, items: Sequence[Listed], begin: int) -> bytes:
        end = begin + self._settings.page
        made: dict[str, Any] = {name: items[begin:end]}
        if end < len(items):
            made["nextCursor"] = urlsafe_b64encode(b"%d" % end).decode()
        return self.cache(request, encode(made))


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

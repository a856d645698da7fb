"""What the MCP servers behind a crib offer beside tools: whose prompt or resource a client means, and who may see it.

A prompt is called `server__prompt`, like a tool. Addresses of resources stay as their servers have them, since results
and pages of applications refer to them; where two servers have the same, the source that comes first in the crib is
meant, and `toolcrib://server/` before the quoted address means one of them alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from toolcrib.crib import Crib
from toolcrib.errors import ToolFailure
from toolcrib.serve.mcp.sessions import McpSession
from toolcrib.serve.mcp.wire import INVALID_PARAMS, ProtocolError
from toolcrib.session import Session
from toolcrib.sources.mcp import Mcp
from toolcrib.sources.mcp.offers import Offers
from toolcrib.sources.mcp.request_tools import COMPLETE, GET, READ, tool_name
from toolcrib.tool import Tool

OWN_SCHEME = "toolcrib://"
WAIT_S = 5.0

log = logging.getLogger("toolcrib.serve")
Listed = Mapping[str, Any]


class Upstream(NamedTuple):
    """A prompt or resource of a server: the tool that gets it, and what the server calls it."""

    source: Mcp
    tool: Tool
    name: str


class Upstreams:
    """The MCP servers among the sources of a crib, of which more may come."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self._asking: dict[tuple[Mcp, str], asyncio.Task[Offers]] = {}
        self._heard: set[Mcp] = set()

    def __bool__(self) -> bool:
        return any(True for _ in self.sources)

    @property
    def sources(self) -> Iterator[Mcp]:
        """All of them, in the order of the crib."""
        return (source for source in self._crib.registry.sources if isinstance(source, Mcp))

    def edition(self, mcp_session: McpSession) -> tuple[object, ...]:
        """What is another when the prompts or resources are, as far as they can be seen."""
        owner = mcp_session.session.owner
        return tuple((source.name, source.server.edition(owner)) for source in self._visible(mcp_session))

    def listen(self, changed: Callable[[], None]) -> None:
        """Has `changed` called when prompts or resources of a server are others."""
        for source in self.sources:
            if source not in self._heard:
                self._heard.add(source)
                source.server.offers_changed = changed

    def _visible(self, mcp_session: McpSession) -> Iterator[Mcp]:
        return (source for source in self.sources if any(self._tool(mcp_session, source, one) for one in (READ, GET)))

    def _tool(self, mcp_session: McpSession, source: Mcp, method: str) -> Tool | None:
        """The tool of a method of a server, if it is open here and not hidden by the policy."""
        tool = mcp_session.session.tool(f"{source.name}.{tool_name(method)}")
        return tool if tool is not None and mcp_session.shows(tool) else None

    # Lists

    async def refresh(self, mcp_session: McpSession) -> None:
        """Asks the servers that can be seen what they have, where that is not known; nobody waits long for one."""
        tasks, owner = [], mcp_session.session.owner
        for source in self._visible(mcp_session):
            task = self._asking.get((source, owner))
            if task is None:
                task = self._asking[source, owner] = asyncio.create_task(source.server.offers(owner))
                task.add_done_callback(partial(self._asked, source, owner))
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_S)

    def _asked(self, source: Mcp, owner: str, task: asyncio.Task[Offers]) -> None:
        self._asking.pop((source, owner), None)
        if not task.cancelled() and isinstance(error := task.exception(), ToolFailure):
            log.info("%s does not say what prompts and resources it has: %s", source.name, error.message)

    def prompts(self, mcp_session: McpSession) -> dict[str, Listed]:
        """The prompts that can be seen, under the names that clients use."""
        prompts: dict[str, Listed] = {}
        for source in self.sources:
            if self._tool(mcp_session, source, GET) is not None:
                for one in _offers(mcp_session, source).prompts:
                    name = source.shown_name(one["name"])
                    prompts.setdefault(name, {**one, "name": name})
        return prompts

    def resources(self, mcp_session: McpSession) -> dict[str, Listed]:
        """The resources that can be seen, by address."""
        return self._listed(mcp_session, "uri", lambda offers: offers.resources)

    def templates(self, mcp_session: McpSession) -> dict[str, Listed]:
        """The templates that can be seen, by address."""
        return self._listed(mcp_session, "uriTemplate", lambda offers: offers.templates)

    @property
    def have_skills(self) -> bool:
        """True if a server has skills."""
        return any("skills" in source.server.features for source in self.sources)

    def skills(self, mcp_session: McpSession) -> Iterator[Listed]:
        """The skills that can be seen."""
        for source in self.sources:
            if self._tool(mcp_session, source, READ) is not None:
                yield from _offers(mcp_session, source).skills

    def _listed(
        self, mcp_session: McpSession, key: str, entries: Callable[[Offers], Iterable[Listed]]
    ) -> dict[str, Listed]:
        listed: dict[str, Listed] = {}
        for source in self.sources:
            if self._tool(mcp_session, source, READ) is not None:
                for one in entries(_offers(mcp_session, source)):
                    uri = one[key] if one[key] not in listed else own_address(source.name, one[key])
                    listed.setdefault(uri, {**one, key: uri})
        return listed

    # Single ones

    def prompt(self, mcp_session: McpSession, name: str) -> Upstream | None:
        """The prompt of a name; of a server whose prompts are not known every name is taken for one."""
        for source in self.sources:
            tool = self._tool(mcp_session, source, GET)
            if tool is None:
                continue
            for one in _offers(mcp_session, source).prompts:
                if source.shown_name(one["name"]) == name:
                    return Upstream(source, tool, one["name"])
        return None

    def resource(self, mcp_session: McpSession, uri: str, method: str = READ) -> Upstream | None:
        """The resource of an address: one that is listed, one of a template, or of the only server that has such."""
        readable = [source for source in self.sources if self._tool(mcp_session, source, READ) is not None]
        if uri.startswith(OWN_SCHEME):
            name, _, inner = uri.removeprefix(OWN_SCHEME).partition("/")
            readable, uri = [source for source in readable if source.name == name], unquote(inner)
        for fits in (Offers.lists, Offers.describes):
            for source in readable:
                if fits(_offers(mcp_session, source), uri):
                    return self._at(mcp_session, source, method, uri)
        near = [source for source in readable if _offers(mcp_session, source).speaks(uri.partition(":")[0])]
        only = near if len(near) == 1 else readable
        return self._at(mcp_session, only[0], method, uri) if len(only) == 1 else None

    @contextlib.asynccontextmanager
    async def watching(
        self, mcp_session: McpSession, session: Session, uri: str, heard: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Hears for a while whenever a resource of a server changes; nothing where it is no server's.

        Raises:
            ProtocolError: it may not be read here.
            ToolFailure: the server cannot be asked, or refuses.
        """
        upstream = self.resource(mcp_session, uri)
        if upstream is None:
            yield
            return
        if mcp_session.session.why(upstream.tool.id, {"uri": upstream.name}).verdict.effect == "deny":
            raise ProtocolError(INVALID_PARAMS, f"This resource may not be read here: {uri}", {"uri": uri})
        async with upstream.source.server.watching(upstream.name, session, heard):
            yield

    def completes(self, mcp_session: McpSession, ref: Mapping[str, Any]) -> tuple[Upstream, dict[str, Any]] | None:
        """Who completes an argument of a prompt or template, and what it calls that."""
        kind = "name" if ref.get("type") == "ref/prompt" else "uri"
        name = ref.get(kind)
        if not isinstance(name, str):
            return None
        upstream = self.prompt(mcp_session, name) if kind == "name" else self._template(mcp_session, name)
        tool = None if upstream is None else self._tool(mcp_session, upstream.source, COMPLETE)
        if upstream is None or tool is None:
            return None
        return Upstream(upstream.source, tool, upstream.name), {**ref, kind: upstream.name}

    def _template(self, mcp_session: McpSession, uri: str) -> Upstream | None:
        for source in self.sources:
            if any(one["uriTemplate"] == uri for one in _offers(mcp_session, source).templates):
                return self._at(mcp_session, source, READ, uri)
        return self.resource(mcp_session, uri)

    def _at(self, mcp_session: McpSession, source: Mcp, method: str, uri: str) -> Upstream | None:
        tool = self._tool(mcp_session, source, method)
        return None if tool is None else Upstream(source, tool, uri)


def _offers(mcp_session: McpSession, source: Mcp) -> Offers:
    """What a server offers to whose session that is."""
    return source.server.known_offers(mcp_session.session.owner)


def own_address(server: str, uri: str) -> str:
    """The address that means a resource of one server, whoever else has the same."""
    return f"{OWN_SCHEME}{server}/{quote(uri, safe='')}"

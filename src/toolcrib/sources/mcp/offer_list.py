"""Asks a server for its prompts and resources, page by page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from pydantic import ValidationError

from toolcrib.errors import ToolFailure
from toolcrib.sources.mcp.offers import SKILLS, Offers, valid
from toolcrib.sources.mcp.settings import McpClientSettings

PAGES = 100
LIST_S = 10.0
FRESH_S = 300.0
LEAST_FRESH_S = 1.0

log = logging.getLogger("toolcrib.mcp")


class _Kind(NamedTuple):
    """A list of the protocol: its request, its field in a page, what an entry is known by, who may have one."""

    request: Any
    field: str
    key: str
    capability: str


class _ListSkillsRequest(types.Request[types.PaginatedRequestParams, str]):
    """A request of the skills extension."""

    method: str = "skills/list"


_KINDS = {
    "prompts": _Kind(types.ListPromptsRequest, "prompts", "name", "prompts"),
    "resources": _Kind(types.ListResourcesRequest, "resources", "uri", "resources"),
    "templates": _Kind(types.ListResourceTemplatesRequest, "resourceTemplates", "uriTemplate", "resources"),
    "skills": _Kind(_ListSkillsRequest, "skills", "uri", "skills"),
}


def has_feature(capabilities: types.ServerCapabilities, name: str) -> bool:
    """True if a server declared one of the things that it may have beside tools."""
    if name == "skills":
        return SKILLS in (capabilities.extensions or {})
    return getattr(capabilities, name) is not None


class OfferList:
    """The lists of one server; `ask` sends it a request."""

    def __init__(
        self,
        ask: Callable[[Any], Awaitable[dict[str, Any]]],
        capabilities: types.ServerCapabilities,
        settings: McpClientSettings,
    ) -> None:
        self._ask = ask
        self._capabilities = capabilities
        self._settings = settings
        self._until = asyncio.get_running_loop().time() + FRESH_S

    async def all(self) -> Offers:
        """All of them, each empty where the server does not answer."""
        lists = await asyncio.gather(*map(self._entries, _KINDS.values()))
        entries = (valid(some or (), kind.key) for some, kind in zip(lists, _KINDS.values(), strict=True))
        prompts, resources, templates, skills = entries
        return Offers(prompts, resources, templates, skills, self._until)

    async def count(self, name: str) -> int | None:
        """How many one of them has; None where the server does not answer."""
        entries = await self._entries(_KINDS[name])
        return None if entries is None else len(entries)

    async def _entries(self, kind: _Kind) -> list[Any] | None:
        if not has_feature(self._capabilities, kind.capability):
            return []
        entries: list[Any] = []
        try:
            async with asyncio.timeout(LIST_S):
                await self._pages(kind, entries)
        except (TimeoutError, ToolFailure, ValidationError, LookupError, TypeError) as error:
            log.info("%s does not list its %s: %s", self._settings.name, kind.field, error)
            return None
        return entries[: self._settings.most_offers]

    async def _pages(self, kind: _Kind, entries: list[Any]) -> None:
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._ask(kind.request(params=types.PaginatedRequestParams(cursor=cursor)))
            entries += page[kind.field]
            self._note_ttl(page)
            cursor = page.get("nextCursor")
            if cursor is None or len(entries) >= self._settings.most_offers:
                return

    def _note_ttl(self, page: Mapping[str, Any]) -> None:
        ttl_ms = page.get("ttlMs")
        if isinstance(ttl_ms, int) and ttl_ms:
            now = asyncio.get_running_loop().time()
            self._until = min(self._until, now + max(ttl_ms / 1000, LEAST_FRESH_S))

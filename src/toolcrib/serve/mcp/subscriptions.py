"""Streams of what changes: lists, resources and tasks, for those who asked, and nothing that they did not ask for.

Lists are compared by what the subscriber can see of them, so that nobody hears of tools that are not theirs. What was
not sent yet is kept as what is to be said, not how often: a slow reader costs no more than a quick one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NoReturn

from toolcrib.serve.mcp.library import PROMPTS, RESOURCES, SOURCE, McpLibrary
from toolcrib.serve.mcp.request import MessageSink
from toolcrib.serve.mcp.sessions import McpSession
from toolcrib.serve.mcp.upstreams import Upstreams
from toolcrib.serve.mcp.wire import Id, encode, notification
from toolcrib.session import Session

LISTS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
MOST_URIS = 1000
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Subscriber:
    """One who listens. `id` is said with everything that is sent, where the revision has such a thing."""

    __slots__ = ("_id", "_line", "_mcp_session", "_news", "_seen", "_upstreams", "_wake", "lists", "uris")

    def __init__(self, mcp_session: McpSession, line: MessageSink, upstreams: Upstreams, id: Id | None = None) -> None:
        self._mcp_session = mcp_session
        self._upstreams = upstreams
        self._line = line
        self._id = id
        self.lists: frozenset[str] = frozenset()
        self.uris: set[str] = set()
        self._seen: dict[str, int] = {}
        self._news: dict[str, dict[str, Any]] = {}
        self._wake = asyncio.Event()

    def wants(self, lists: frozenset[str]) -> None:
        """From now on these lists are looked at."""
        self.lists = lists
        self._seen = {name: self._look(name) for name in lists}

    def changed(self) -> None:
        """Tools, prompts or resources are not what they were."""
        if self.lists:
            self._wake.set()

    def updated(self, uri: str) -> None:
        """A resource is not what it was."""
        if uri in self.uris:
            self._news[uri] = {"uri": uri}
            self._wake.set()

    def said(self, method: str, params: Mapping[str, Any]) -> bytes:
        """A notification with the mark of the subscription."""
        meta = {} if self._id is None else {"_meta": {SUBSCRIPTION: self._id}}
        return notification(method, {**params, **meta})

    async def send(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification."""
        await self._line.send(self.said(method, params))

    async def run(self) -> NoReturn:
        """Sends what is new until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for name in sorted(self.lists):
                if (now := self._look(name)) != self._seen[name]:
                    self._seen[name] = now
                    await self.send(f"notifications/{name}/list_changed", {})
            news, self._news = self._news, {}
            for params in news.values():
                await self.send("notifications/resources/updated", params)

    def _look(self, name: str) -> int:
        """A number that is another when the list is another; much smaller than the list."""
        tools = self._mcp_session.session._view.tools
        if name == "tools":
            return hash(tuple(tool.fingerprint for tool in tools if tool.source != SOURCE))
        space = PROMPTS if name == "prompts" else RESOURCES
        own = tuple(tool.fingerprint for tool in tools if tool.source == SOURCE and tool.namespace == space)
        return hash((own, self._upstreams.edition(self._mcp_session)))


class Hub:
    """All who listen."""

    def __init__(self, library: McpLibrary | None, upstreams: Upstreams) -> None:
        self._subscribers: set[Subscriber] = set()
        self._upstreams = upstreams
        if library is not None:
            library.listeners.append(self.updated)

    def __len__(self) -> int:
        return len(self._subscribers)

    def changed(self) -> None:
        """Told to everybody."""
        for one in list(self._subscribers):
            one.changed()

    def updated(self, uri: str) -> None:
        """Told to those who subscribed to that resource."""
        for one in list(self._subscribers):
            one.updated(uri)

    @contextlib.contextmanager
    def listening(self, subscriber: Subscriber) -> Iterator[None]:
        """Has somebody listen for a while."""
        self._subscribers.add(subscriber)
        self._upstreams.listen(self.changed)
        try:
            yield
        finally:
            self._subscribers.discard(subscriber)


async def states(session: Session, call: str) -> AsyncIterator[None]:
    """Comes round whenever a call may stand elsewhere than before, until it has ended."""
    async for event in session.events(call=call):
        if event.kind in ("accepted", "waiting", "answered", "started", "done", "settled"):
            yield


def digest(task: Mapping[str, Any]) -> bytes:
    """What tells one state of a task from another."""
    return encode([task["status"], task.get("inputRequests")])

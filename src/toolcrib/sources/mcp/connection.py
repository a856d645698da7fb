"""One connection to a server, from its first message to its last, in a task of its own.

The SDK's scopes have to be left by the task that entered them. So nobody but this task opens or closes anything; the
others send requests through it and are told when it is over. It begins with an empty context, since what a call has in
its own must not be seen by those that come after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import mcp_types as types
from mcp import Client, MCPError
from mcp.client import advertise
from mcp.client.subscriptions import ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from toolcrib.errors import StreamClosed, ToolFailure
from toolcrib.sources.mcp.callers import callers
from toolcrib.sources.mcp.durations import measured
from toolcrib.sources.mcp.endpoint import Endpoint, root_cause, words
from toolcrib.sources.mcp.http import HttpEndpoint
from toolcrib.sources.mcp.incoming_messages import IncomingMessages
from toolcrib.sources.mcp.offer_list import OfferList, has_feature
from toolcrib.sources.mcp.offers import FEATURES, Offers
from toolcrib.sources.mcp.outgoing_messages import TASKS, OutgoingMessages
from toolcrib.sources.mcp.questions import exchange_of_this_context
from toolcrib.sources.mcp.results import (
    FORGOTTEN,
    UNREACHABLE,
    ConnectionForgotten,
    OfferedTool,
    ServerDescription,
    failure,
    offered,
)
from toolcrib.sources.mcp.server_requests import ServerRequests
from toolcrib.sources.mcp.settings import Credentials, McpClientSettings
from toolcrib.sources.mcp.stdio import SHOWN, StdioEndpoint
from toolcrib.sources.mcp.tool_list import ToolListing, vet
from toolcrib.sources.mcp.watches import ResourceWatches, follow

PROBE_S = 10.0
CLOSE_S = 20.0
PAGES = 100
FRESH_S = 300.0
LEAST_FRESH_S = 1.0
PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
HEADER_MISMATCH = -32020

log = logging.getLogger("toolcrib.mcp")
_Raw: TypeAdapter[Any] = TypeAdapter(dict[str, Any])


class ConnectionEvents(NamedTuple):
    """Who hears of a connection: what it lists, and that it has other prompts or resources."""

    relisted: Callable[[ToolListing], None]
    offers_changed: Callable[[], None]


class NotStarted(Exception):
    """Why there is no connection; the message is for people."""


class _Task(types.Request[dict[str, Any], str]):
    """A request of the tasks extension."""

    name_param = "taskId"


_REQUESTS: dict[str, Any] = {
    "tools/call": types.CallToolRequest,
    "prompts/get": types.GetPromptRequest,
    "resources/read": types.ReadResourceRequest,
    "completion/complete": types.CompleteRequest,
}


class McpConnection:
    """A server that answers. `listing` is what it listed last; `heard` is told when that may be another."""

    def __init__(self, place: Endpoint, mode: str, settings: McpClientSettings, heard: ConnectionEvents) -> None:
        self._place = place
        self._mode = mode
        self._settings = settings
        self._heard = heard
        self.requests = ServerRequests(settings)
        self._watches = ResourceWatches()
        self._over = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._incoming: IncomingMessages | None = None
        self._aside: set[asyncio.Task[None]] = set()
        self.client: Client
        self.listing = ToolListing([])
        self._one_listing = asyncio.Lock()
        self._stale = self._refreshing = False
        self.fresh_until = 0.0
        self._level: str | None = None
        self.closing = self.doubted = self.used = False
        self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    @property
    def alive(self) -> bool:
        """True if it can be asked something."""
        return not self._over.is_set()

    @property
    def log_text(self) -> str:
        """The end of what the server wrote besides its messages."""
        return self._place.log_text

    @property
    def modern(self) -> bool:
        """True if every request stands alone."""
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def opened(self, seconds: float) -> None:
        """Waits until it can be used.

        Raises:
            NotStarted: it cannot, or not in time.
        """
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise NotStarted(self._why(f"it did not answer within {seconds:g} s")) from None

    async def close(self) -> None:
        """Ends it; whoever waits for an answer is told."""
        self.closing = True
        self._over.set()
        if self._ready.done():
            await asyncio.wait({self._task}, timeout=CLOSE_S)
        self._task.cancel()
        await asyncio.wait({self._task})

    async def over(self) -> None:
        """Returns when it has ended, and nothing of it is left."""
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            async with self._client() as self.client:
                await self._list()
                self._ready.set_result(None)
                self._listen()
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 - a connection that breaks is no fault of ours
            self._broke(error)
        finally:
            self._over.set()
            self._refuse(NotStarted("it was stopped"))
            await self._drop()

    def _broke(self, error: Exception) -> None:
        cause = root_cause(error)
        log.debug("a connection broke: %r", cause)
        failure = NotStarted(self._why(words(cause)))
        failure.__cause__ = cause
        self._refuse(failure)

    def _refuse(self, why: NotStarted) -> None:
        if not self._ready.done():
            self._ready.set_exception(why)
            self._ready.exception()  # nobody may be waiting for it any more

    def _why(self, reason: str) -> str:
        log_text = self._place.log_text[-SHOWN:]
        return f"{reason}; it said: {log_text}" if log_text else reason

    async def _drop(self) -> None:
        for task in self._aside:
            task.cancel()
        if self._aside:
            await asyncio.wait(self._aside)

    def _client(self) -> Client:
        return Client(
            self._transport(),
            mode=self._mode,
            client_info=types.Implementation(name="toolcrib", version=version("toolcrib")),
            elicitation_callback=self.requests.elicit,
            sampling_callback=self.requests.sample,
            list_roots_callback=self.requests.roots,
            logging_callback=self.requests.log_line,
            log_level="info",
            message_handler=self._noticed,
            extensions=[advertise(TASKS)] if self._settings.tasks else [],
            cache=None,
        )

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        async with self._place.connect(self._over.set) as (read, write):
            self._incoming = IncomingMessages(read, self._over.set)
            yield self._incoming, OutgoingMessages(write, self._settings)

    # What the server says by itself

    def _listen(self) -> None:
        """A server of the newest revision tells of changes only who asks for that."""
        has = self.client.server_capabilities
        if self.modern and any(one is not None and one.list_changed for one in (has.tools, has.prompts, has.resources)):
            self._start(self._subscribe())

    async def _subscribe(self) -> None:
        """Hears of changes as long as the connection lasts; a server that was away may have others than before."""
        pause = PAUSE_S
        while True:
            with contextlib.suppress(Exception):  # it is only a convenience: the next connection lists again
                async with self.client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as changes:
                    if pause > PAUSE_S:
                        self._note_change()
                        self._heard.offers_changed()
                    pause = PAUSE_S
                    async for event in changes:
                        if isinstance(event, ToolsListChanged):
                            self._note_change()
                        else:
                            self._heard.offers_changed()
            pause = min(pause * 2, LONGEST_PAUSE_S)
            await asyncio.sleep(pause)

    async def _noticed(self, message: Any) -> None:
        if self.modern:
            return
        match message:
            case types.ToolListChangedNotification():
                self._note_change()
            case types.PromptListChangedNotification() | types.ResourceListChangedNotification():
                self._heard.offers_changed()
            case types.ResourceUpdatedNotification(params=params):
                self._watches.updated(params.uri)

    def _note_change(self) -> None:
        """However often a server says that its tools are others, they are listed one time after the other."""
        self._stale = True
        if not self._refreshing:
            self._refreshing = True
            self._start(self._refresh())

    async def _refresh(self) -> None:
        try:
            while self._stale:
                self._stale = False
                await self._relist()
                await asyncio.sleep(PAUSE_S)
        finally:
            self._refreshing = False

    async def refresh(self) -> None:
        """Lists its tools again.

        Raises:
            ToolFailure: it cannot be asked.
        """
        try:
            async with asyncio.timeout(self._settings.start_s):
                await self._list()
        except MCPError as error:
            raise self._failure(error) from None
        except (ValidationError, TimeoutError) as error:
            raise ToolFailure("unavailable", f"{self._settings.name} does not list its tools: {error}") from None

    async def _relist(self) -> None:
        try:
            async with asyncio.timeout(self._settings.start_s):
                await self._list()
        except (MCPError, ToolFailure, ValidationError, TimeoutError) as error:
            log.warning("the tools of a server could not be listed again: %s", error)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    # What it is asked

    async def _list(self) -> None:
        async with self._one_listing:
            has = self.client.server_capabilities
            listing = ToolListing([]) if has.tools is None else await self._listed()
            features = frozenset(name for name in (*FEATURES, "skills") if has_feature(has, name))
            self.listing = listing._replace(features=features)
        self._heard.relisted(self.listing)

    async def _listed(self) -> ToolListing:
        """All its pages, as far as they are taken; what is inside is looked at in a thread."""
        incoming, most = self._incoming, self._settings.most_tools
        assert incoming is not None
        offers: dict[str, OfferedTool] = {}
        cursor: str | None = None
        self.fresh_until = asyncio.get_running_loop().time() + FRESH_S
        incoming.truncated = False
        for _ in range(PAGES):
            with self._sifting(incoming, most - len(offers)):
                page = await self.client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                offer = offered(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
                offers.setdefault(offer.name, offer)
            cursor = page.next_cursor
            if page.ttl_ms:
                until = asyncio.get_running_loop().time() + max(page.ttl_ms / 1000, LEAST_FRESH_S)
                self.fresh_until = min(self.fresh_until, until)
            if cursor is None or incoming.truncated:
                return await asyncio.to_thread(vet, list(offers.values()), most, incoming.truncated)
        raise ToolFailure("failed", f"the list of its tools has more than {PAGES} pages")

    @contextlib.contextmanager
    def _sifting(self, incoming: IncomingMessages, room: int) -> Iterator[None]:
        incoming.version, incoming.room = self.client.protocol_version, room
        try:
            yield
        finally:
            incoming.version = None

    async def call(self, method: str, params: Mapping[str, Any], progress: Any) -> dict[str, Any]:
        """One request for a call, as the server answers it.

        Raises:
            ToolFailure: it does not, or with an error.
        """
        request = _REQUESTS[method].model_validate({"method": method, "params": params})
        self.used = True
        await self._set_level()
        try:
            return await self._send(request, progress)
        except MCPError as error:
            if error.code != HEADER_MISMATCH or not self.modern:
                raise self._failure(error) from None
        await self._relist()  # the headers of a call follow the schema of its tool, which is another now
        return await self.ask(request, progress)

    async def _set_level(self) -> None:
        """Tells a server of an older revision from which level on the client of a call wants log lines."""
        exchange = exchange_of_this_context.get()
        caller = None if exchange is None else callers.get(exchange.ctx.id)
        level = None if caller is None else caller.level
        if level in (None, self._level) or self.modern or self.client.server_capabilities.logging is None:
            return
        self._level = level
        params = types.SetLevelRequestParams.model_validate({"level": level})
        with contextlib.suppress(ToolFailure):
            await self.ask(types.SetLevelRequest(params=params))

    async def ask(self, request: types.Request[Any, Any], progress: Any = None) -> dict[str, Any]:
        """One request, as the server answers it.

        Raises:
            ToolFailure: it does not, or with an error.
        """
        try:
            return await self._send(request, progress)
        except MCPError as error:
            raise self._failure(error) from None

    async def task(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request about a task.

        Raises:
            ToolFailure: it is not answered, or with an error.
        """
        return await self.ask(_Task(method=method, params=params))

    async def _send(self, request: types.Request[Any, Any], progress: Any) -> dict[str, Any]:
        try:
            with measured(request, self._settings):
                raw: dict[str, Any] = await self.client.session.send_request(request, _Raw, progress_callback=progress)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ToolFailure("failed", f"The answer of the server does not hold: {where}: {first['msg']}") from None
        except RuntimeError:  # the client was left while this waited for its turn
            raise StreamClosed from None
        return raw

    def _failure(self, error: MCPError) -> ToolFailure:
        if error.code == FORGOTTEN:
            self._over.set()
            return ConnectionForgotten()
        return failure(error.code, error.message, lost=not self.alive, data=error.data)

    async def about(self) -> ServerDescription:
        """What it says of itself."""
        info = self.client.server_info or types.Implementation(name="", version="")
        return ServerDescription(
            name=info.name,
            version=info.version,
            revision=self.client.protocol_version,
            title=info.title,
            instructions=self.client.instructions,
            tools=tuple(self.listing.tools),
            prompts=await self._offer_list().count("prompts"),
            resources=await self._offer_list().count("resources"),
        )

    async def offers(self) -> Offers:
        """Its prompts, resources and templates, each list empty where it does not answer."""
        return await self._offer_list().all()

    def _offer_list(self) -> OfferList:
        return OfferList(self.ask, self.client.server_capabilities, self._settings)

    @contextlib.asynccontextmanager
    async def watching(self, uri: str, heard: Callable[[], None]) -> AsyncIterator[None]:
        """Hears for a while whenever a resource changes.

        Raises:
            ToolFailure: the server refuses.
        """
        if self.modern:
            task = asyncio.create_task(follow(self.client, uri, heard))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
            return
        try:
            async with self._watches.subscribed(self.client, uri, heard):
                yield
        except MCPError as error:
            raise self._failure(error) from None

    async def answers(self) -> bool:
        """True if it still says anything at all."""
        assert self._incoming is not None
        heard = self._incoming.heard
        session = self.client.session
        try:
            async with asyncio.timeout(PROBE_S):
                if self.modern:
                    await session.send_discover(self.client.protocol_version)
                else:
                    await session.send_request(types.PingRequest(), types.EmptyResult)
        except (TimeoutError, MCPError, ValidationError, RuntimeError):
            return self._incoming.heard > heard
        return True


async def connect(
    place: Endpoint,
    mode: str,
    seconds: float,
    settings: McpClientSettings,
    heard: ConnectionEvents,
) -> McpConnection:
    """A connection that can be used.

    Raises:
        NotStarted: there is none.
    """
    connection = McpConnection(place, mode, settings, heard)
    try:
        await connection.opened(seconds)
    except BaseException:
        await connection.close()
        raise
    return connection


def ways(settings: McpClientSettings, credentials: Credentials) -> list[tuple[Endpoint, str]]:
    """How to try: a program may quit over a question that it does not know, an address may know only the old way."""
    if settings.url is None:
        tried = ("legacy",) if settings.revision == "older" else ("auto", "legacy")
        return [(StdioEndpoint(settings), mode) for mode in tried]
    newest = "legacy" if settings.revision == "older" else "auto"
    return [(HttpEndpoint(settings, credentials), newest), (HttpEndpoint(settings, credentials, old=True), "legacy")]


def worth_another(error: NotStarted) -> bool:
    """True if something is there that answers, only not to this."""
    cause = error.__cause__
    return isinstance(cause, MCPError) and cause.code != UNREACHABLE

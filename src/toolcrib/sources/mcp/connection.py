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
from typing import Any, Protocol

import mcp_types as types
from mcp import Client, MCPError
from mcp.client import advertise
from mcp.client.session import ClientRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from toolcrib.errors import StreamClosed, ToolFailure
from toolcrib.sources.mcp.http import HttpEndpoint
from toolcrib.sources.mcp.incoming_messages import IncomingMessages
from toolcrib.sources.mcp.questions import PendingRequest, ServerQuestion, exchange_of_this_context
from toolcrib.sources.mcp.results import (
    FORGOTTEN,
    UNREACHABLE,
    ConnectionForgotten,
    OfferedTool,
    ServerDescription,
    failure,
    offered,
)
from toolcrib.sources.mcp.settings import Credentials, McpClientSettings
from toolcrib.sources.mcp.stdio import StdioEndpoint
from toolcrib.sources.mcp.tool_list import ToolListing, vet

TASKS = "io.modelcontextprotocol/tasks"
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


class Endpoint(Protocol):
    """Where a server is."""

    @property
    def said(self) -> str:
        """What it said besides its messages."""

    def connect(self, broke: Callable[[], None]) -> contextlib.AbstractAsyncContextManager[tuple[Any, Any]]:
        """The streams of its messages; `broke` is called where they cannot say that the server is gone."""


class NotStarted(Exception):
    """Why there is no connection; the message is for people."""


class _Task(types.Request[dict[str, Any], str]):
    """A request of the tasks extension."""

    name_param = "taskId"


class McpConnection:
    """A server that answers. `listing` is what it listed last; `relisted` is called when that may be another."""

    def __init__(
        self, place: Endpoint, mode: str, settings: McpClientSettings, relisted: Callable[[ToolListing], None]
    ) -> None:
        self._place = place
        self._mode = mode
        self._settings = settings
        self._relisted = relisted
        self._over = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._incoming: IncomingMessages | None = None
        self._aside: set[asyncio.Task[None]] = set()
        self.client: Client
        self.listing = ToolListing([])
        self._one_listing = asyncio.Lock()
        self._stale = self._refreshing = False
        self.fresh_until = 0.0
        self.exchanges: set[PendingRequest] = set()
        self.abandoned: set[str] = set()  # sessions of calls that the server may still work on
        self.closing = self.doubted = False
        self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    @property
    def alive(self) -> bool:
        """True if it can be asked something."""
        return not self._over.is_set()

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
        cause = _cause(error)
        log.debug("a connection broke: %r", cause)
        told = NotStarted(self._why(_words(cause)))
        told.__cause__ = cause
        self._refuse(told)

    def _refuse(self, why: NotStarted) -> None:
        if not self._ready.done():
            self._ready.set_exception(why)
            self._ready.exception()  # nobody may be waiting for it any more

    def _why(self, reason: str) -> str:
        said = self._place.said
        return f"{reason}; it said: {said}" if said else reason

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
            elicitation_callback=self._elicit,
            logging_callback=self._logged,
            log_level="info",
            message_handler=self._noticed,
            extensions=[advertise(TASKS)] if self._settings.tasks else [],
            cache=None,
        )

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        async with self._place.connect(self._over.set) as (read, write):
            self._incoming = IncomingMessages(read, self._over.set)
            yield self._incoming, write

    # What the server says by itself

    def _listen(self) -> None:
        """A server of the newest revision tells of changes only who asks for that."""
        tools = self.client.server_capabilities.tools
        if self.modern and tools is not None and tools.list_changed:
            self._start(self._subscribe())

    async def _subscribe(self) -> None:
        """Hears of changes as long as the connection lasts; a server that was away may have others than before."""
        pause = PAUSE_S
        while True:
            with contextlib.suppress(Exception):  # it is only a convenience: the next connection lists again
                async with self.client.listen(tools_list_changed=True) as changes:
                    if pause > PAUSE_S:
                        self._note_change()
                    pause = PAUSE_S
                    async for _ in changes:
                        self._note_change()
            pause = min(pause * 2, LONGEST_PAUSE_S)
            await asyncio.sleep(pause)

    async def _noticed(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification) and not self.modern:
            self._note_change()

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

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        exchange = self._whose()
        if exchange is None:
            log.info("%s said something, and it cannot be told to which call", self._settings.name)
            return
        line = {"level": params.level, "data": params.data, "logger": params.logger}
        exchange.ctx.activity("log", {name: value for name, value in line.items() if value is not None})

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """A question in the middle of a call, of a server that waits for the answer."""
        exchange = self._whose()
        if exchange is None:
            log.warning("%s asked something, and it cannot be told which call asks: nobody was", self._settings.name)
            return types.ErrorData(code=types.INVALID_REQUEST, message="It cannot be told which call asks")
        try:
            question = ServerQuestion.of(params.model_dump(by_alias=True, mode="json", exclude_none=True))
            return types.ElicitResult.model_validate(await exchange.asked(question))
        except ToolFailure as error:
            return types.ErrorData(code=types.INVALID_PARAMS, message=error.message)

    def _whose(self) -> PendingRequest | None:
        """The call that a message belongs to.

        Over HTTP it came with the answer of one call. On a pipe nothing says so. If all calls that the server may be
        working on are of one session it is the last of them that waits for no answer; otherwise nobody's, since one
        owner must not be asked what another was meant to be.
        """
        exchange = exchange_of_this_context.get()
        if exchange is not None:
            return exchange
        sessions = {exchange.ctx.session for exchange in self.exchanges} | self.abandoned
        if len(sessions) != 1:
            return None
        return max(self.exchanges, key=lambda exchange: (not exchange.asking, exchange.number), default=None)

    # What it is asked

    async def _list(self) -> None:
        async with self._one_listing:
            has_tools = self.client.server_capabilities.tools is not None
            self.listing = await self._listed() if has_tools else ToolListing([])
        self._relisted(self.listing)

    async def _listed(self) -> ToolListing:
        """All its pages, as far as they are taken; what is inside is looked at in a thread."""
        incoming, most = self._incoming, self._settings.most_tools
        assert incoming is not None
        found: dict[str, OfferedTool] = {}
        cursor: str | None = None
        self.fresh_until = asyncio.get_running_loop().time() + FRESH_S
        incoming.truncated = False
        for _ in range(PAGES):
            with self._sifting(incoming, most - len(found)):
                page = await self.client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                said = offered(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
                found.setdefault(said.name, said)
            cursor = page.next_cursor
            if page.ttl_ms:
                until = asyncio.get_running_loop().time() + max(page.ttl_ms / 1000, LEAST_FRESH_S)
                self.fresh_until = min(self.fresh_until, until)
            if cursor is None or incoming.truncated:
                return await asyncio.to_thread(vet, list(found.values()), most, incoming.truncated)
        raise ToolFailure("failed", f"the list of its tools has more than {PAGES} pages")

    @contextlib.contextmanager
    def _sifting(self, incoming: IncomingMessages, room: int) -> Iterator[None]:
        incoming.version, incoming.room = self.client.protocol_version, room
        try:
            yield
        finally:
            incoming.version = None

    async def call(self, params: Mapping[str, Any], progress: Any) -> dict[str, Any]:
        """One `tools/call`, as the server answers it.

        Raises:
            ToolFailure: it does not, or with an error.
        """
        request = types.CallToolRequest(params=types.CallToolRequestParams.model_validate(params))
        try:
            return await self._send(request, progress)
        except MCPError as error:
            if error.code != HEADER_MISMATCH or not self.modern:
                raise self._failure(error) from None
        await self._relist()  # the headers of a call follow the schema of its tool, which is another now
        return await self.ask(request, progress)

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
        has = self.client.server_capabilities
        return ServerDescription(
            name=info.name,
            version=info.version,
            revision=self.client.protocol_version,
            title=info.title,
            instructions=self.client.instructions,
            tools=tuple(self.listing.tools),
            prompts=0 if has.prompts is None else await self._count(types.ListPromptsRequest, "prompts"),
            resources=0 if has.resources is None else await self._count(types.ListResourcesRequest, "resources"),
        )

    async def _count(self, kind: Any, name: str) -> int | None:
        """How many it lists; None where it does not answer."""
        found, cursor = 0, None
        try:
            async with asyncio.timeout(PROBE_S):
                for _ in range(PAGES):
                    page = await self.ask(kind(params=types.PaginatedRequestParams(cursor=cursor)))
                    found += len(page[name])
                    cursor = page.get("nextCursor")
                    if cursor is None:
                        break
        except (TimeoutError, ToolFailure, ValidationError, LookupError, TypeError):
            return None
        return found

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
    relisted: Callable[[ToolListing], None],
) -> McpConnection:
    """A connection that can be used.

    Raises:
        NotStarted: there is none.
    """
    connection = McpConnection(place, mode, settings, relisted)
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


def _cause(error: BaseException) -> BaseException:
    """The first of those that a task group found."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _words(cause: BaseException) -> str:
    if isinstance(cause, FileNotFoundError):
        return f"{cause.filename} is not installed"
    if isinstance(cause, ValidationError):
        return "its answer does not hold"
    return str(cause) or type(cause).__name__

"""One connection to a server: started when it is needed, ended when it is not, started again when it died."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.extras import install
from toolcrib.secret_references import resolve_secret
from toolcrib.sources import OK, Health
from toolcrib.sources.mcp.settings import Credentials, McpClientSettings
from toolcrib.sources.mcp.tool_list import ToolListing

if TYPE_CHECKING:
    from toolcrib.sources.mcp.connection import McpConnection

STARTS = 5
REST_S = 60.0
BACKOFF_S = 0.25
LONGEST_S = 4.0

log = logging.getLogger("toolcrib.mcp")


@dataclass(slots=True)
class KnownServer:
    """What the first connection found out, so that the next need not: how to begin, and which era it is of."""

    way: int | None = None
    modern: bool | None = None


class LinkEvents(NamedTuple):
    """Who hears of a link: what it lists, that nobody used it for a while, that its prompts or resources changed."""

    relisted: Callable[[ServerLink, ToolListing], None]
    rested: Callable[[ServerLink], None]
    offers_changed: Callable[[ServerLink], None]


class ServerLink:
    """At most one connection at a time. Who failed to start or died has a pause, longer each time; the fifth start in a
    row that fails is followed by a long one, in which calls are refused at once.
    """

    def __init__(
        self,
        settings: McpClientSettings,
        credentials: Credentials,
        known: KnownServer,
        heard: LinkEvents,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._known = known
        self._heard = heard
        self._connection: McpConnection | None = None
        self._starting: asyncio.Task[McpConnection] | None = None
        self._failures = self._deaths = 0
        self._not_before = 0.0
        self._reason = self._log_text = ""
        self._users = 0
        self._idle: asyncio.TimerHandle | None = None
        self._aside: set[asyncio.Task[None]] = set()

    @property
    def in_use(self) -> bool:
        """True if somebody uses it now."""
        return self._users > 0

    @property
    def touched(self) -> bool:
        """True if a call was made by the connection that it has now: what it keeps may be whose call that was."""
        return self._connection is not None and self._connection.alive and self._connection.used

    @property
    def log_text(self) -> str:
        """What its process wrote to its standard error: now, or before it ended."""
        return self._log_text if self._connection is None else self._connection.log_text

    @property
    def fresh_until(self) -> float:
        """Until when what it listed may be taken for true, by the clock of the loop."""
        return 0.0 if self._connection is None else self._connection.fresh_until

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[McpConnection]:
        """The connection, for as long as it is used; one that nobody uses rests after a while.

        Raises:
            ToolFailure: `unavailable`, there is none.
        """
        self._users += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            yield await self._ready()
        finally:
            self._users -= 1
            if self._users == 0:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(self._settings.idle_s, self._rest)

    def _rest(self) -> None:
        self._idle = None
        self._heard.rested(self)

    async def _ready(self) -> McpConnection:
        """A start goes on when the call that wanted it ends: the next one will want it too."""
        if self._connection is not None and self._connection.alive:
            return self._connection
        if self._starting is None:
            self._refuse()
            loop = asyncio.get_running_loop()
            self._starting = loop.create_task(self._open(), context=contextvars.Context())
            self._starting.add_done_callback(self._started)
        starting = self._starting
        await asyncio.wait({starting})
        if starting.cancelled():
            raise ToolFailure("unavailable", f"{self._settings.name} was stopped")
        return starting.result()

    def _refuse(self) -> None:
        rest = self._not_before - asyncio.get_running_loop().time()
        if self._failures < STARTS:
            return
        if rest > 0:
            message = f"{self._settings.name} could not be started {STARTS} times: {self._reason}"
            raise ToolFailure("unavailable", message, hint=f"It is tried again in {rest:.0f} s.")
        self._failures = 0

    def _started(self, task: asyncio.Task[McpConnection]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # those who wait for it are told; perhaps nobody does

    async def _open(self) -> McpConnection:
        sdk = await asyncio.to_thread(_sdk)
        loop = asyncio.get_running_loop()
        if self._connection is not None:
            await self._connection.over()
            self._log_text, self._connection = self._connection.log_text, None
        await asyncio.sleep(max(0.0, self._not_before - loop.time()))
        deadline = loop.time() + self._settings.start_s
        first_error: Exception | None = None
        tries = sdk.ways(*await self._resolved())
        for number, (place, mode) in enumerate(tries):
            if self._known.way not in (None, number) or self._failures >= STARTS:
                continue
            try:
                left = deadline - loop.time()
                heard = self._heard
                events = sdk.ConnectionEvents(partial(heard.relisted, self), partial(heard.offers_changed, self))
                connection: McpConnection = await sdk.connect(place, mode, left, self._settings, events)
            except sdk.NotStarted as error:
                first_error, self._log_text = first_error or error, place.log_text
                self._failed(str(first_error))
                if not sdk.worth_another(error):
                    break
            else:
                self._known.modern = connection.modern
                self._known.way = number if connection.modern or self._settings.url else len(tries) - 1
                self._connection, self._failures = connection, 0
                self._start(self._mind(connection))
                return connection
        self._known.way = None
        raise ToolFailure("unavailable", f"{self._settings.name} could not be started: {first_error}")

    async def _resolved(self) -> tuple[McpClientSettings, Credentials]:
        """Settings and credentials with the secrets that they refer to, as those are now.

        Raises:
            ToolFailure: one of them is not there.
        """
        env = {name: await resolve_secret(value) for name, value in self._settings.env.items()}
        headers = {name: await resolve_secret(value) for name, value in self._credentials.headers.items()}
        return replace(self._settings, env=env), self._credentials._replace(headers=headers)

    def _failed(self, reason: str) -> None:
        self._failures += 1
        self._reason = reason
        self._pause(REST_S if self._failures >= STARTS else _backoff(self._failures))
        log.info("%s could not be started: %s", self._settings.name, reason)

    def _pause(self, seconds: float) -> None:
        self._not_before = asyncio.get_running_loop().time() + seconds

    def health(self) -> Health:
        """How it is, as far as it was used. One that rests is well: the next call wakes it."""
        connection = self._connection
        if connection is not None and connection.alive:
            return Health("degraded", "It does not answer") if connection.doubted else OK
        if self._failures:
            return Health("unavailable", f"It could not be started: {self._reason}")
        return Health("degraded", "It ended by itself; the next call starts it again") if self._deaths else OK

    def worked(self) -> None:
        """It has done something: that it died before does not count any more."""
        self._deaths = 0

    async def _mind(self, connection: McpConnection) -> None:
        await connection.over()
        if not connection.closing:
            self._deaths += 1
            self._pause(_backoff(self._deaths))
            log.info("%s ended by itself", self._settings.name)

    def doubt(self, connection: McpConnection) -> None:
        """A call was given up: a program that says nothing any more is stopped, and started again when it is needed."""
        if self._settings.command and connection.alive and not connection.doubted:
            connection.doubted = True
            self._start(self._probe(connection))

    async def _probe(self, connection: McpConnection) -> None:
        if await connection.answers():
            connection.doubted = False
        elif connection.alive:
            log.warning("%s does not answer any more; it is stopped", self._settings.name)
            await connection.close()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def close(self) -> None:
        """Stops the server; the next call starts it again."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        starting, connection = self._starting, self._connection
        if starting is not None:
            starting.cancel()
            await asyncio.wait({starting})
            connection = self._connection
        if connection is not None:
            await connection.close()
        for task in self._aside:
            task.cancel()
        await asyncio.gather(*self._aside, return_exceptions=True)


def _backoff(times: int) -> float:
    return min(BACKOFF_S * 2.0 ** min(times - 1, 10), LONGEST_S)


def _sdk() -> Any:
    """What talks to servers. It takes half a second to import, so that is done when the first one is started."""
    try:
        from toolcrib.sources.mcp import connection
    except ModuleNotFoundError as missing:
        raise ToolcribError(f"MCP servers need {missing.name}: {install('mcp')}") from None
    return connection

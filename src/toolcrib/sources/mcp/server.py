"""`McpClient`: an MCP server that can be asked for its tools and told to run one. It starts when it is needed first."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.context import Context, Parked
from toolcrib.errors import StreamClosed, ToolcribError, ToolFailure
from toolcrib.sources import Health
from toolcrib.sources.mcp.account import AccountBinding
from toolcrib.sources.mcp.callers import McpCaller, callers
from toolcrib.sources.mcp.link_pool import LinkPool, PoolEvents
from toolcrib.sources.mcp.offer_cache import OfferCache
from toolcrib.sources.mcp.offers import Offers
from toolcrib.sources.mcp.outcomes import ENDS, missing_from, until_next
from toolcrib.sources.mcp.questions import (
    CLIENT_METHODS,
    SAMPLING,
    ClientRequest,
    PendingRequest,
    ServerQuestion,
    ask_client,
    requested,
)
from toolcrib.sources.mcp.results import ConnectionForgotten, OfferedTool, ServerDescription, to_result
from toolcrib.sources.mcp.settings import McpClientSettings
from toolcrib.sources.mcp.tool_list import ToolListing
from toolcrib.types import Result

if TYPE_CHECKING:
    from toolcrib.sources.mcp.connection import McpConnection
    from toolcrib.sources.mcp.link import ServerLink

ROUNDS = 50
AGAIN_S = 0.05
LATEST_S = 1.0
LOOKS_S = (0.5, 1.0, 2.0, 4.0)
FAREWELL_S = 5.0
HELD = "mcp.held"
ROUND = "mcp.round."
"""The steps of a call that hold what a server wants before there is a result end with the number of the round."""

Sent = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A request: its method, its parameters, and what answers to questions add to them."""

log = logging.getLogger("toolcrib.mcp")


class Watcher(Protocol):
    """A session for which a resource is watched."""

    id: str
    owner: str


class McpClient:
    """An MCP server, by as many connections as it takes so that nobody meets what is another's.

    `changed` is called with all tools whenever a listing brings others than the last; `left_out` says which of them are
    not taken, and why. `features` are what it has beside tools; `offers_changed` is called when somebody's are others,
    and `skills_changed` when those for all are.
    """

    def __init__(
        self,
        settings: McpClientSettings,
        *,
        changed: Callable[[list[OfferedTool]], None] | None = None,
        account: AccountBinding | None = None,
    ) -> None:
        self.settings = settings
        self._account = account
        self.changed = changed
        self.offers_changed: Callable[[], None] | None = None
        self.skills_changed: Callable[[], None] | None = None
        self._offers = OfferCache(self._ask_offers, self._person, not settings.personal)
        events = PoolEvents(self._relisted, self._offers_changed, self._offers.forget, self._look_again)
        self._pool = LinkPool(settings, events)
        self._tools: list[OfferedTool] | None = None
        self.features: frozenset[str] = frozenset()
        self.left_out: tuple[str, ...] = ()
        self._held: dict[str, PendingRequest] = {}
        self._minding: dict[str, asyncio.Task[None]] = {}

    async def tools(self) -> list[OfferedTool]:
        """What it offers; it is asked once, and says by itself when that changes. With the accounts of owners it is
        what it lists for them, and for whom it does not know.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked.
        """
        if self._tools is None and self.each_owner:
            await self._ask_as_nobody()
        if self._tools is None:
            async with self._pool.listing() as connection:
                return connection.listing.tools
        return self._tools

    async def _ask_as_nobody(self) -> None:
        """Has the server say what it wants of those whom it does not know, and what it lists for them."""
        with contextlib.suppress(ToolFailure):
            async with self._pool.listing():
                pass
        self._pool.end_of("")
        if self._tools is None:
            self._tools = []

    @property
    def each_owner(self) -> bool:
        """True if nobody but the owners of accounts can ask it for anything."""
        return self._account is not None and self._account.personal

    async def list_for(self, owner: str) -> float:
        """Asks what it offers an owner with credentials; until when that holds, by the clock of the loop.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked; `denied`, the owner has no credentials.
        """
        return await self._pool.list_for(owner)

    def forget_connections(self, owner: str) -> None:
        """Ends the connections of an owner whose credentials are others now, but for those in use."""
        self._pool.end_of(owner)

    async def about(self, owner: str | None = None) -> ServerDescription:
        """What it says of itself, to an owner where each has credentials; it is started for that.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked; `denied`, the owner has no credentials.
        """
        person = owner if self.each_owner else None
        if self._account is not None and person is not None:
            await self._account.demand(person)
        async with self._pool.listing(person) as connection:
            return await connection.about()

    async def refresh(self) -> None:
        """Asks anew what it offers; `changed` is called where that is something else.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked.
        """
        await self._pool.refresh(nobodys=not self.each_owner)
        self._offers.clear()

    async def restart(self) -> None:
        """Ends all connections, as if the server had died, and lists what it offers by a new one.

        Raises:
            ToolFailure: `unavailable`, it cannot be started.
        """
        owners = self._pool.owners if self.each_owner else []
        await self._pool.restart()
        self._offers_changed(None)
        for owner in owners:
            await self._pool.list_for(owner)
        if not self.each_owner:
            await self._pool.refresh()

    def log_texts(self) -> list[str]:
        """What its processes wrote to their standard error, as far as it is kept."""
        return self._pool.log_texts()

    async def offers(self, owner: str | None = None) -> Offers:
        """Its prompts and resources: those of an owner's own process, or of one that nobody has used where they have
        none. It is asked when somebody wants to know, and again when it says that they changed.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked.
        """
        return await self._offers.get(owner)

    def known_offers(self, owner: str) -> Offers:
        """What it offered an owner when it was asked last."""
        return self._offers.known(owner)

    def edition(self, owner: str) -> tuple[object, ...]:
        """What is another when what it offers an owner is."""
        return self._offers.edition(owner)

    def _person(self, owner: str | None) -> str | None:
        return self._pool.person(owner)

    async def _ask_offers(self, person: str | None) -> Offers:
        if self._account is not None and person is not None:
            await self._account.demand(person)
        async with self._pool.listing(person) as connection:
            return await connection.offers()

    def _offers_changed(self, person: str | None) -> None:
        self._offers.outdate(person)
        self._tell_of_offers(person)

    def _tell_of_offers(self, person: str | None) -> None:
        for listener in (self.offers_changed, self.skills_changed if person is None else None):
            if listener is not None:
                listener()

    async def _look_again(self) -> None:
        """Ask what is there for all once more, if somebody knew; those who see it hear of it only if it is another."""
        before = self._offers.edition(None)
        self._offers.renew(None)
        if before != (None, 0):
            await self._offers.get(None)
        if self._offers.edition(None) != before:
            self._tell_of_offers(None)

    @property
    def stale(self) -> bool:
        """True if what it offers was asked so long ago that it should be asked again; no program is started for it."""
        asleep = bool(self.settings.command) and not self.connections
        return self._tools is not None and not asleep and asyncio.get_running_loop().time() >= self._pool.fresh_until

    def health(self) -> Health:
        """How the server is, as far as it was used; nothing is started for that."""
        return self._pool.health()

    @property
    def connections(self) -> int:
        """How many processes or connections of the server there are now."""
        return len(self._pool)

    async def call(self, name: str, args: Mapping[str, Any], ctx: Context, *, repeatable: bool = False) -> Result:
        """Runs one of its tools for a call. `repeatable` says that to do so twice does no harm.

        Progress and messages go to the log of the call, questions are put to whoever answers its questions.

        Raises:
            ToolFailure: it failed, or could not run; `StreamClosed` where nobody knows.
        """
        return to_result(await self.request("tools/call", {"name": name, "arguments": dict(args)}, ctx, repeatable))

    async def request(
        self, method: str, params: Mapping[str, Any], ctx: Context, repeatable: bool = True
    ) -> dict[str, Any]:
        """Sends a request for a call, and gives the result that the server comes to in the end.

        Raises:
            ToolFailure: it failed, or could not be sent; `StreamClosed` where nobody knows.
        """
        more: Mapping[str, Any] = {}
        if self._account is not None:
            await ctx.credential(self._account.name)
        for number in range(1, ROUNDS + 1):
            key = f"{ROUND}{number}"
            wanted: dict[str, Any] | None = {}
            if not ctx.has_step(key):
                raw, wanted = await self._patiently((method, params, more), ctx, repeatable)
                if wanted is None:
                    return raw
            record = await ctx.step(key, partial(dict, wanted))
            if "task" in record:
                return await self._follow(record["task"], ctx)
            answers = await self._answers(record["requests"], ctx, key)
            more = {"inputResponses": answers, "requestState": record["state"]}
        raise ToolFailure("failed", f"The server asked {ROUNDS} times and is not done")

    async def _patiently(
        self, request: Sent, ctx: Context, repeatable: bool
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What the server answers, and what it wants first; one that only wants to be asked later is."""
        pause = AGAIN_S
        method, params, _ = request
        while True:
            try:
                raw = await self._round(request, ctx, repeatable)
            except ToolFailure as error:
                if self._account is not None:
                    await self._account.look_again(ctx, error)
                raise
            wanted = missing_from(raw)
            if wanted is None or wanted.keys() != {"state"}:
                return raw, wanted
            await asyncio.sleep(pause)
            pause = min(pause * 2, LATEST_S)
            request = (method, params, {"requestState": wanted["state"]})

    async def reconcile(self, ctx: Context) -> Result | None:
        """What became of a call that a crash cut off; known where the server made a task of it.

        Raises:
            ToolFailure: the task failed.
        """
        for number in range(1, ROUNDS + 1):
            if not ctx.has_step(f"{ROUND}{number}"):
                return None
            record = await ctx.step(f"{ROUND}{number}", dict)
            if "task" in record:
                return to_result(await self._follow(record["task"], ctx))
        return None

    async def close(self) -> None:
        """Stops it and forgets its tools; it can be used again, also in another loop."""
        exchanges, self._held = list(self._held.values()), {}
        minding, self._minding = list(self._minding.values()), {}
        for task in minding:
            task.cancel()
        await asyncio.gather(*minding, return_exceptions=True)
        for exchange in exchanges:
            await exchange.drop(0)
        self._tools = None
        self._offers.clear()
        await self._pool.close()

    def _relisted(self, listing: ToolListing) -> None:
        tools, left_out, features = listing
        for problem in left_out if left_out != self.left_out else ():
            log.warning("%s: %s", self.settings.name, problem)
        before, self._tools, self.left_out = self._tools, tools, left_out
        same = before == tools and self.features == features
        self.features = features
        if self.changed is not None and before is not None and not same:
            try:
                self.changed(tools)
            except Exception as error:  # noqa: BLE001 - what others make of the news must not end the connection
                log.warning("the tools of %s changed and could not be taken: %s", self.settings.name, error)

    @contextlib.asynccontextmanager
    async def watching(self, uri: str, session: Watcher, heard: Callable[[], None]) -> AsyncIterator[None]:
        """Hears for a while, by the connection of a session, whenever a resource changes.

        Raises:
            ToolFailure: the server cannot be asked, or refuses.
        """
        async with self._pool.connected(session.owner, session.id) as (_, connection), connection.watching(uri, heard):
            yield

    # One request

    async def _round(self, request: Sent, ctx: Context, repeatable: bool) -> dict[str, Any]:
        """Sends the call, or takes up the request that an earlier pass left open; what the server answers."""
        exchange = self._take_up(ctx)
        if exchange is None:
            if ctx.has_step(HELD) and not repeatable:
                raise StreamClosed
            exchange = PendingRequest(ctx, lambda exchange: self._send(exchange, request))

        async def before() -> None:
            if not ctx.has_step(HELD):
                await ctx.step(HELD, lambda: True)

        try:
            return await exchange.answer(self.settings.name, before)
        except Parked:
            self._hold(exchange, ctx)
            raise
        except BaseException:
            await exchange.drop(0)
            raise

    async def _send(self, exchange: PendingRequest, request: Sent) -> dict[str, Any]:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            exchange.ctx.progress(message, loaded=done, total=total)

        try:
            return await self._sent(exchange, request, progress)
        except ConnectionForgotten:  # it was not even looked at
            return await self._sent(exchange, request, progress)

    async def _sent(self, exchange: PendingRequest, request: Sent, progress: Any) -> dict[str, Any]:
        method, params, more = request
        async with self._connected(exchange.ctx) as (link, connection):
            connection.requests.exchanges.add(exchange)
            try:
                raw: dict[str, Any] = await connection.call(method, {**params, **more}, progress)
            except asyncio.CancelledError:
                connection.requests.abandoned.add(exchange.ctx.session)
                link.doubt(connection)
                raise
            finally:
                connection.requests.exchanges.discard(exchange)
        link.worked()
        return raw

    @contextlib.asynccontextmanager
    async def _connected(self, ctx: Context) -> AsyncIterator[tuple[ServerLink, McpConnection]]:
        async with self._pool.connected(ctx.owner, ctx.session) as (link, connection):
            yield link, connection

    # A request that waits for an answer

    def _hold(self, exchange: PendingRequest, ctx: Context) -> None:
        """Keeps the request open while the call waits; its end is heard from the log."""
        id = ctx.id
        self._held[id] = exchange
        self._minding[id] = asyncio.get_running_loop().create_task(self._mind(id, exchange, ctx.this_session))

    def _take_up(self, ctx: Context) -> PendingRequest | None:
        id = ctx.id
        exchange = self._held.pop(id, None)
        if exchange is None:
            return None
        self._minding.pop(id).cancel()
        if exchange.lost:
            return None
        exchange.ctx = ctx
        return exchange

    async def _mind(self, id: str, exchange: PendingRequest, session: Any) -> None:
        """A call that ends without having run again was declined, cancelled or forgotten: its server is told so."""
        action = "cancel"
        try:
            async for event in session.events(call=id):
                if event.kind == "answered":
                    action = "decline" if event.fields["action"] == "decline" else "cancel"
        except ToolcribError as error:
            log.warning("call %s is no longer waited for: %s", id, error)
        del self._held[id], self._minding[id]  # who takes it up ends this task first
        exchange.reply({"action": action})
        await exchange.drop(FAREWELL_S)

    # Questions in results, and tasks

    async def _answers(self, requests: Any, ctx: Context, key: str) -> dict[str, Any]:
        """The answers to what a result asks for, one question after the other."""
        if not isinstance(requests, Mapping):
            raise ToolFailure("failed", "What the server asks for is no question")
        server, caller = self.settings.name, callers.get(ctx.id)
        questions = {str(name): requested(request) for name, request in requests.items()}
        mine = [name for name in questions if caller is not None and self._is_for(caller, questions[name])]
        together = {name: requests[name] for name in mine if len(mine) > 1}
        answers = await ask_client(ctx, server, together, key) if together else {}
        for name in sorted(questions, key=lambda name: name not in mine):  # others may take days to answer
            if name not in answers:
                answers[name] = await self._put(questions[name], ctx, f"{key}.{name}", name)
        return answers

    def _is_for(self, caller: McpCaller, question: ServerQuestion | ClientRequest) -> bool:
        """True if the client of a call can answer a question by itself."""
        if isinstance(question, ServerQuestion):
            return caller.can("elicitation") and question.url is None
        return caller.can(CLIENT_METHODS[question.method]) and not self._has_model(question)

    def _has_model(self, question: ServerQuestion | ClientRequest) -> bool:
        return self.settings.sampler is not None and getattr(question, "method", None) == SAMPLING

    async def _put(self, question: ServerQuestion | ClientRequest, ctx: Context, key: str, name: str) -> dict[str, Any]:
        if isinstance(question, ClientRequest) and self._has_model(question):
            assert self.settings.sampler is not None
            sampled: dict[str, Any] = await ctx.step(key, partial(self.settings.sampler, ctx, question.params))
            return sampled
        return await question.put(ctx, self.settings.name, key, name)

    async def _follow(self, task: str, ctx: Context) -> dict[str, Any]:
        """What a task of the server comes to. It goes on there while nobody looks, so a restart finds it again."""
        try:
            while (state := await self._look(task, ctx)).get("status") not in ENDS:
                if state.get("statusMessage"):
                    ctx.progress(str(state["statusMessage"]))
                if state.get("status") == "input_required":
                    answers = await self._answers(state.get("inputRequests"), ctx, "mcp.task")
                    async with self._connected(ctx) as (_, connection):
                        await connection.task("tasks/update", {"taskId": task, "inputResponses": answers})
                await asyncio.sleep(until_next(state))
        except asyncio.CancelledError:
            if ctx.cancelled:
                await self._abandon(task, ctx)
            raise
        return ENDS[state["status"]](state)

    async def _look(self, task: str, ctx: Context) -> dict[str, Any]:
        """Where the task stands. To ask that does no harm, so a server that went away is asked again."""
        for pause in (*LOOKS_S, None):
            try:
                async with self._connected(ctx) as (link, connection):
                    data: dict[str, Any] = await connection.task("tasks/get", {"taskId": task})
            except ToolFailure as error:
                if error.code != "unavailable":
                    raise ToolFailure("unknown", f"The server does not know its task: {error.message}") from None
                if pause is None:
                    raise StreamClosed from None
                await asyncio.sleep(pause)
            else:
                link.worked()
                return data
        raise AssertionError("the last look ends it")

    async def _abandon(self, task: str, ctx: Context) -> None:
        with contextlib.suppress(ToolFailure, TimeoutError):
            async with asyncio.timeout(2.0), self._connected(ctx) as (_, connection):
                await connection.task("tasks/cancel", {"taskId": task})

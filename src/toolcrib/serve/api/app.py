"""`/v1` as an ASGI application: finds the route, asks who it is, reads what was sent, and answers in one form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolcrib._call.request import CallOptions
from toolcrib.crib import Crib
from toolcrib.serve.api.active_agents import ActiveAgents
from toolcrib.serve.api.errors import ApiError, problem_of
from toolcrib.serve.api.limits import RequestLimiter, ServeLimits
from toolcrib.serve.api.readers import Readers
from toolcrib.serve.api.request import ApiRequest
from toolcrib.serve.api.router import ApiReply, Route, Table
from toolcrib.serve.api.session_cache import SessionCache
from toolcrib.serve.api.state_history import StateHistories
from toolcrib.serve.api.streams import Streams
from toolcrib.serve.api.watcher import SessionWatcher
from toolcrib.serve.asgi import ClientDisconnected, Receive, Scope, Send, reply
from toolcrib.serve.keys import KEY
from toolcrib.serve.principal import UNKNOWN, Guard, Headers, NotAdmitted, Principal, bearer

if TYPE_CHECKING:
    from toolcrib._call.owner_turns import LoopTurns
    from toolcrib.serve.cookies import Cookies
    from toolcrib.serve.keyring import Keyring
    from toolcrib.serve.managed_sources import ManagedSources
    from toolcrib.serve.mcp.signed_state import Signer
    from toolcrib.serve.metrics import Metrics

NOBODY = Principal("")
"""Who asks for what everybody may have."""


class Api:
    """The API for programs and the console."""

    def __init__(
        self,
        crib: Crib,
        guard: Guard | None = None,
        *,
        limits: ServeLimits | None = None,
        namespaces: tuple[str, ...] | None = None,
        protections: Mapping[str, bool] | None = None,
    ) -> None:
        from toolcrib.serve.api.routes import ROUTES

        self.crib = crib
        self.guard = guard
        self.keys: Keyring | None = None
        self.sources: ManagedSources | None = None
        self.cookies: Cookies | None = None
        self.seal: Signer | None = None
        self.metrics: Metrics | None = None
        self.limits = limits or ServeLimits()
        self.gate = RequestLimiter(self.limits)
        self.turns: LoopTurns | None = None
        self.readers = Readers(self)
        self.sessions = SessionCache(crib, namespaces, self.limits.idle_s)
        self.streams = Streams(crib, self.limits)
        self.watch = SessionWatcher(crib, self.streams, self.sessions.reaches)
        self.speakers = ActiveAgents()
        self.pasts = StateHistories()
        self.table = Table(ROUTES)
        self.features: dict[str, bool] = {}
        self.protections = dict(protections or {})
        self.trace_url: str | None = None
        self.description: ApiReply | None = None
        self.options: dict[str, CallOptions] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        route: Route | None = None
        try:
            raw = scope.get("raw_path", b"")
            path = scope["path"] if b"%" not in raw else raw.decode("ascii", "replace")
            route, values = self.table.find(scope["method"], path)
            status = await self._answer(route, values, scope, receive, send)
        except (ClientDisconnected, OSError):
            return
        except Exception as error:  # noqa: BLE001 - what went wrong here is not the client's to know
            status, body, headers = problem_of(error).reply()
            await reply(send, status, body, headers)
        if self.metrics is not None:
            self.metrics.requested("" if route is None else route.path, scope["method"], status)

    async def _answer(self, route: Route, values: list[str], scope: Scope, receive: Receive, send: Send) -> int:
        headers: Headers = dict(scope["headers"])
        if route.right is None:  # it is nobody's, and nobody can use it up for the others
            return await self._carry_out(ApiRequest(self, route, values, NOBODY, headers, receive, send), scope)
        principal = await self.admit(headers, route)
        self.gate.enter(principal)
        try:
            await self.turn(principal)
            return await self._carry_out(ApiRequest(self, route, values, principal, headers, receive, send), scope)
        finally:
            self.gate.leave(principal)

    async def turn(self, principal: Principal) -> None:
        """Returns when a request may begin: at once, unless others send requests too and there are many of theirs."""
        if self.turns is not None and (turn := self.turns.take(principal.name)) is not None:
            await turn

    async def _carry_out(self, request: ApiRequest, scope: Scope) -> int:
        request.secure = scope.get("scheme") == "https"
        await request.load(scope["query_string"])
        answer = await request.route.handler(request)
        if answer is None:
            return 200
        await reply(request.send, answer.status, answer.body, answer.headers)
        return answer.status

    async def admit(self, headers: Headers, route: Route) -> Principal:
        """Who asks, if they may.

        Raises:
            NotAdmitted: nobody knows them.
            ApiError: they may not, or not so often.
        """
        if self.guard is None:
            if b"authorization" in headers:  # a key that is not looked at may be a wrong one
                raise ApiError("denied", "This server takes no keys", "leave the header Authorization out")
            principal = UNKNOWN
        else:
            principal = await _known(self.guard, headers)
        assert route.right is not None
        if not principal.may(route.right):
            raise ApiError("denied", f"This needs the scope '{route.right}'", "use a key that has it")
        return principal

    async def quiet(self) -> None:
        """Ends all streams, for their readers to come back elsewhere."""
        await self.watch.stop()
        await self.streams.stop()
        await self.readers.stop()

    async def close(self) -> None:
        """Lets go of everything."""
        await self.quiet()
        self.sessions.close()


async def _known(guard: Guard, headers: Headers) -> Principal:
    """Who the guard says it is. A key that nobody knows is not the same as none: to try another may help."""
    try:
        return await guard.admit(headers)
    except NotAdmitted as error:
        if error.status == 401 and (bearer(headers) or "").startswith(KEY):
            raise NotAdmitted(403, error.message, error.challenge, error.hint) from None
        raise

"""Questions of a server: what it asks in the middle of a call, and how the answer gets back to it.

A server of the newest revision keeps nothing: it ends the request with what it wants to know and a state to be sent
back, both are recorded as a step, and the call waits in the log like any other. An older server asks over the open
connection and waits. It has begun its work, so to send the call a second time might do it twice. Therefore the call is
parked in the log, and its request is left open, held by an `PendingRequest` beside the call: the answer is handed to
the server that still waits. Where that is gone meanwhile (it died, or another process took the call up), a call that
may be repeated is sent again, and finds its answers recorded; one with effect `once` ends `unknown`.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.context import Context
from toolcrib.errors import StreamClosed, ToolFailure
from toolcrib.schema import SchemaError, output_check
from toolcrib.sources.mcp.callers import callers
from toolcrib.tool import canonical

QUESTIONS = 16
SAMPLING, ROOTS = "sampling/createMessage", "roots/list"
CLIENT_METHODS = {SAMPLING: "sampling", ROOTS: "roots"}
"""What may be asked of the client alone, and the capability that it has to declare for that."""

NO_MODEL = "Call it from an MCP client that offers sampling, or name a model in `sampling` of its source."

exchange_of_this_context: contextvars.ContextVar[PendingRequest | None] = contextvars.ContextVar(
    "exchange", default=None
)
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """What a server wants to know of a person: a form, or a visit to an address."""

    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> ServerQuestion:
        """From the parameters of `elicitation/create`.

        Raises:
            ToolFailure: they are none.
        """
        message, url, schema = params.get("message"), params.get("url"), params.get("requestedSchema")
        if not isinstance(message, str):
            raise ToolFailure("failed", "The server asks something without words")
        if params.get("mode") == "url":
            return cls(message, None, str(url))
        try:
            output_check(schema)  # type: ignore[arg-type]  # what is no schema is told below
        except (SchemaError, TypeError, AttributeError) as error:
            raise ToolFailure("failed", f"The server asks for something that is no form: {error}") from None
        return cls(message, schema)

    @property
    def digest(self) -> str:
        """What tells it from another."""
        return hashlib.sha256(canonical([self.message, self.schema, self.url])).hexdigest()[:16]

    async def put(self, ctx: Context, server: str, key: str, name: str | None = None) -> dict[str, Any]:
        """Asks, and gives the answer in the words of the protocol; a call that has to wait ends its pass here.

        A refusal is an answer too: what the tool comes to then is for its server to say. `name` is what the server
        calls the question, where it has a name.
        """
        prompt = f"{server} asks: {self.message}" + ("" if self.url is None else f" ({self.url})")
        known = {"server": server, "url": self.url, "name": name}
        data = {field: value for field, value in known.items() if value is not None}
        answer = await ctx.ask(prompt, kind="input", schema=self.schema, resume="pass_any", data=data, key=key)
        if not answer.accepted:
            return {"action": "cancel" if answer.action == "cancel" else "decline"}
        return {"action": "accept"} if self.url else {"action": "accept", "content": answer.value or {}}


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What a server wants that only a client has: a turn of its model, or the folders that it works in."""

    method: str
    params: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """What tells it from another."""
        return hashlib.sha256(canonical([self.method, self.params])).hexdigest()[:16]

    async def put(self, ctx: Context, server: str, key: str, name: str | None = None) -> dict[str, Any]:
        """What the client answers, in the words of the protocol; a call that has to wait ends its pass here.

        Raises:
            ToolFailure: the client will not, or there is none that can.
        """
        caller = callers.get(ctx.id)
        if caller is None or not caller.can(CLIENT_METHODS[self.method]):
            if self.method == ROOTS:
                return {"roots": []}
            raise ToolFailure("failed", f"{server} asks for a turn of a model, and nobody offers one", hint=NO_MODEL)
        name = name or "request"
        wish = {name: {"method": self.method, "params": dict(self.params)}}
        return (await ask_client(ctx, server, wish, key))[name]


async def ask_client(
    ctx: Context, server: str, wishes: Mapping[str, Mapping[str, Any]], key: str
) -> dict[str, dict[str, Any]]:
    """Puts requests to the client that made the call, all at once; its answers under the same names.

    Raises:
        ToolFailure: `declined`, it does not answer one of them.
    """
    prompt = f"{server} asks the client: {', '.join(str(one['method']) for one in wishes.values())}"
    data = {"mcp": {name: dict(wish) for name, wish in wishes.items()}, "server": server}
    answer = await ctx.ask(prompt, kind="external", resume="pass_any", data=data, key=key)
    answers = answer.value if answer.accepted and isinstance(answer.value, dict) else {}
    missing = [name for name in wishes if not isinstance(answers.get(name), dict)]
    if missing:
        raise ToolFailure("declined", f"The client does not answer what {server} asks: {', '.join(missing)}")
    return {name: answers[name] for name in wishes}


def requested(request: Any) -> ServerQuestion | ClientRequest:
    """A request that stands in a result.

    Raises:
        ToolFailure: it is of a kind that nobody here answers.
    """
    data = request if isinstance(request, Mapping) else {}
    method, params = data.get("method"), data.get("params", {})
    if method in CLIENT_METHODS and isinstance(params, Mapping):
        return ClientRequest(str(method), params)
    if method != "elicitation/create" or not isinstance(params, Mapping):
        raise ToolFailure("failed", f"The server asks for {method}, which is not offered to it")
    return ServerQuestion.of(params)


@dataclass(slots=True)
class _Asked:
    question: ServerQuestion | ClientRequest
    reply: asyncio.Future[dict[str, Any]]


class PendingRequest:
    """One request that a server works on, with the questions that it asks meanwhile. It outlives a call that waits."""

    def __init__(self, ctx: Context, send: Callable[[PendingRequest], Awaitable[dict[str, Any]]]) -> None:
        self.ctx = ctx
        self.number = next(_numbers)
        self._send = send
        self._news: asyncio.Queue[_Asked | None] = asyncio.Queue()
        self._open: _Asked | None = None
        self._count = 0
        self._pending = 0
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def _run(self) -> dict[str, Any]:
        exchange_of_this_context.set(self)
        return await self._send(self)

    def _ended(self, task: asyncio.Task[dict[str, Any]]) -> None:
        if not task.cancelled():
            task.exception()  # of one that waits nobody may ever look at it
        self._news.put_nowait(None)

    @property
    def lost(self) -> bool:
        """True if it ended without a word of the server."""
        return self._task.done() and (self._task.cancelled() or isinstance(self._task.exception(), StreamClosed))

    @property
    def asking(self) -> bool:
        """True if the server waits for an answer."""
        return self._pending > 0

    async def asked(self, question: ServerQuestion | ClientRequest) -> dict[str, Any]:
        """A question of the server; returns when it is answered.

        Raises:
            ToolFailure: it asks without waiting for answers.
        """
        if self._pending >= QUESTIONS:
            raise ToolFailure("failed", f"More than {QUESTIONS} questions are open")
        self._pending += 1
        try:
            pending = _Asked(question, asyncio.get_running_loop().create_future())
            self._news.put_nowait(pending)
            return await pending.reply
        finally:
            self._pending -= 1

    async def answer(self, server: str, before: Callable[[], Awaitable[None]]) -> dict[str, Any]:
        """What the server answers in the end; `before` is done before the first question is put.

        Raises:
            ToolFailure: it answers with an error, or not at all.
        """
        while not self._task.done():
            pending = self._open or await self._news.get()
            if pending is None:
                break
            if self._open is None:
                self._open, self._count = pending, self._count + 1
                if self._count == 1:
                    await before()
            try:
                reply = await pending.question.put(self.ctx, server, f"mcp.ask.{self._count}.{pending.question.digest}")
            except ToolFailure as error:  # the server is told, and goes on without
                self._refuse(error)
            else:
                self.reply(reply)
        return self._task.result()

    def reply(self, data: dict[str, Any]) -> None:
        """Answers the question that is open, if its server still wants to know."""
        if self._open is not None and not self._open.reply.done():
            self._open.reply.set_result(data)
        self._open = None

    def _refuse(self, error: ToolFailure) -> None:
        if self._open is not None and not self._open.reply.done():
            self._open.reply.set_exception(error)
        self._open = None

    async def drop(self, seconds: float) -> None:
        """Gives it a while to end, and then tells the server that nobody waits any more."""
        if not self._task.done():
            if seconds:
                await asyncio.wait({self._task}, timeout=seconds)
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=2.0)

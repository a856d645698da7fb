"""One MCP request over HTTP and its answer: when it becomes a stream, who may hear it, and how it is turned away."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.errors import StoreError
from toolcrib.serve.api import Api, ServeLimits
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.asgi import ClientDisconnected
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.mcp.http import RETRY_MS, HttpExchange, IncomingRequest, StreamExchange, refuse, turn_away
from toolcrib.serve.mcp.legacy import StreamPosition
from toolcrib.serve.mcp.request import McpReply, McpRequest
from toolcrib.serve.mcp.wire import INTERNAL, INVALID_REQUEST, LIMITED, Params, event
from toolcrib.serve.principal import Guard, NotAdmitted, Principal

STILL = b": still here\n\n"


class Client:
    """The other side of a request: what it was sent, and when it hangs up."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.left = asyncio.Event()

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def bodies(self) -> list[tuple[bytes, bool]]:
        return [(one["body"], one.get("more_body", False)) for one in self.sent if one["type"] == "http.response.body"]

    @property
    def status(self) -> int:
        (start,) = [one for one in self.sent if one["type"] == "http.response.start"]
        return int(start["status"])


class Revocable(Guard):
    """A guard that stops to know somebody."""

    def __init__(self) -> None:
        self.known = True

    async def admit(self, headers: Any) -> Principal:
        if not self.known:
            raise NotAdmitted(401, "Nobody knows you")
        return Principal("ada")


def visit(client: Client, guard: Guard | None = None, **limits: Any) -> IncomingRequest:
    api = Api(Crib(TOOLS), guard, limits=ServeLimits(**limits))
    scope = {"headers": [(b"host", b"localhost")], "path": "/mcp", "method": "POST"}
    return IncomingRequest(api, scope, client.receive, client.send)


@pytest.mark.parametrize(
    ("error", "status", "code", "data"),
    [
        (ApiError("internal", "x"), 500, INTERNAL, {"code": "internal"}),
        (StoreError("away"), 503, INTERNAL, {"code": "unavailable", "hint": "try again", "retry_after": 1.0}),
        (ApiError("too_many", "x", retry_after=2), 429, LIMITED, {"code": "too_many", "retry_after": 2}),
        (ApiError("denied", "x", "y"), 403, INVALID_REQUEST, {"code": "denied", "hint": "y"}),
        (ApiError("too_large", "x"), 413, INVALID_REQUEST, {"code": "too_large"}),
        (NotAdmitted(401, "x"), 401, INVALID_REQUEST, {"code": "unauthorized"}),
    ],
)
async def test_a_request_that_is_not_taken_is_told_why_in_the_words_of_the_protocol(
    error: Exception, status: int, code: int, data: dict[str, Any]
) -> None:
    client = Client()
    await turn_away(client.send, error, 7)
    told = json.loads(client.bodies[0][0])
    assert (client.status, told["id"], told["error"]["code"], told["error"]["data"]) == (status, 7, code, data)


async def test_what_is_no_request_is_refused_with_its_id_and_code() -> None:
    client = Client()
    await refuse(client.send, 404, "no", [(b"allow", b"POST")], id=3, code=5)
    assert json.loads(client.bodies[0][0]) == {"jsonrpc": "2.0", "id": 3, "error": {"code": 5, "message": "no"}}
    assert (client.status, (b"allow", b"POST") in client.sent[0]["headers"]) == (404, True)


async def test_an_answer_is_json_unless_a_message_came_before_it() -> None:
    plain, streamed = Client(), Client()
    await HttpExchange(visit(plain)).finish(202, b"{}")
    assert (plain.status, plain.bodies) == (202, [(b"{}", False)])
    exchange = HttpExchange(visit(streamed))
    await exchange.send(b"1")
    await exchange.send(b"2", seq=4)
    await exchange.finish(202, b"{}")
    assert (streamed.status, exchange.streams) == (200, True)
    assert streamed.bodies == [(event(b"1"), True), (event(b"2"), True), (event(b"{}"), False)]


async def test_an_answer_that_takes_longer_is_waited_for_with_a_sign_of_life() -> None:
    client, go = Client(), asyncio.Event()

    async def work() -> McpReply:
        await go.wait()
        return McpReply(b"done")

    exchange = HttpExchange(visit(client, ping_s=0.01))
    waiting = asyncio.ensure_future(exchange.attend(work()))
    async with asyncio.timeout(60):
        while len(client.bodies) < 2:  # noqa: ASYNC110 - nobody tells when something was sent
            await asyncio.sleep(0.005)
    assert set(client.bodies) == {(STILL, True)}
    go.set()
    reply = await asyncio.wait_for(waiting, 60)
    assert reply is not None
    assert reply.body == b"done"


async def test_an_answer_that_comes_at_once_is_no_stream() -> None:
    client = Client()

    async def work() -> McpReply:
        return McpReply(b"done")

    exchange = HttpExchange(visit(client, ping_s=60))
    assert await asyncio.wait_for(exchange.attend(work(), most_s=60), 60) is not None
    assert client.sent == []


@pytest.mark.parametrize("ping_s", [0.01, 60.0])
async def test_an_answer_is_waited_for_no_longer_than_was_said(ping_s: float) -> None:
    client, cancelled = Client(), asyncio.Event()

    async def work() -> McpReply:
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]  # it never comes
        finally:
            cancelled.set()

    exchange = HttpExchange(visit(client, ping_s=ping_s))
    assert await asyncio.wait_for(exchange.attend(work(), most_s=0.05), 60) is None
    assert cancelled.is_set()
    assert bool(client.sent) is (ping_s < 1)


async def test_who_hangs_up_is_not_worked_for_any_more() -> None:
    client, begun, cancelled = Client(), asyncio.Event(), asyncio.Event()

    async def work() -> McpReply:
        begun.set()
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]  # it never comes
        finally:
            cancelled.set()

    exchange = HttpExchange(visit(client, ping_s=60))
    waiting = asyncio.ensure_future(exchange.attend(work()))
    await begun.wait()
    client.left.set()
    with pytest.raises(ClientDisconnected):
        await asyncio.wait_for(waiting, 60)
    assert (cancelled.is_set(), exchange.refused) == (True, False)


@pytest.mark.parametrize("begun", [False, True])
async def test_who_may_not_listen_any_more_hears_no_more(begun: bool) -> None:
    client, guard = Client(), Revocable()
    exchange = HttpExchange(visit(client, guard, ping_s=0.01))
    if begun:
        await exchange.send(b"1")
    guard.known = False

    async def work() -> McpReply:
        return await asyncio.Event().wait()  # type: ignore[return-value]  # it never comes

    with pytest.raises(ClientDisconnected if begun else NotAdmitted):
        await asyncio.wait_for(exchange.attend(work()), 60)
    assert exchange.refused
    assert client.bodies == ([(event(b"1"), True), (b"", False)] if begun else [])


def streaming(client: Client, begins_s: float | None, **limits: Any) -> StreamExchange:
    exchange = StreamExchange(visit(client, **limits))
    exchange.request = McpRequest(5, "tools/call", Params(), Principal("ada"))
    exchange.begins_s = begins_s
    return exchange


async def test_a_client_that_can_come_back_is_told_first_where_to() -> None:
    client = Client()
    exchange = streaming(client, 1.0)
    await exchange.send(b"1", seq=3)
    await exchange.send(b"2")
    await exchange.event(b"", more=False)
    first, second, third = client.bodies
    start = StreamPosition(5, "tools/call", None, None, "", 0).text()
    reached = StreamPosition(5, "tools/call", None, None, "", 3).text()
    assert first == (b"id: %b\nretry: %d\ndata: \n\n" % (start, RETRY_MS) + event(b"1", reached), True)
    assert (second, third) == ((event(b"2"), True), (b"", False))
    plain = Client()
    await streaming(plain, None).send(b"1")
    assert plain.bodies == [(event(b"1"), True)]


@pytest.mark.parametrize(
    ("ping_s", "begins_s", "streams", "pause"),
    [(15, None, False, 15), (15, 1, False, 1), (15, 1, True, 15), (0.5, 1, False, 0.5), (15, None, True, 15)],
)
def test_a_stream_begins_soon_and_then_pings(ping_s: float, begins_s: Any, streams: bool, pause: float) -> None:
    exchange = HttpExchange(visit(Client(), ping_s=ping_s))
    exchange.begins_s, exchange.streams = begins_s, streams
    assert exchange._pause() == pause


async def test_a_request_is_under_way_until_it_was_answered() -> None:
    key, kept = new_key()
    client, wrong = Client(), Client()
    request = visit(client, ApiKeys({kept: Principal("ada")}), requests_each=1)
    request.headers = {b"authorization": f"Bearer {key}".encode()}
    seen: list[tuple[str, int]] = []

    async def take(taken: IncomingRequest) -> None:
        seen.append((taken.principal.name, taken.api.gate.under_way))
        refused = IncomingRequest(taken.api, taken.scope, wrong.receive, wrong.send)
        refused.headers = taken.headers
        await refused.answer(take)
        raise OSError("gone")

    await request.answer(take)
    assert (seen, request.api.gate.under_way) == ([("ada", 1)], 0)
    assert (wrong.status, client.sent) == (429, [])

"""Servers at an address: the newest transport, the oldest, credentials of owners, networks that fail."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import ALLOW, asked, code, free_port, message, opened, served
from toolcrib import Crib
from toolcrib.errors import ToolFailure
from toolcrib.sources.mcp import Mcp, McpClient, McpClientSettings

pytestmark = pytest.mark.process


def web(port: int, **more: object) -> Mcp:
    return Mcp(f"http://127.0.0.1:{port}/mcp", **{"name": "web", **more})  # type: ignore[arg-type]


@requirement("mcp.client.1", "mcp.client.2")
async def test_a_server_over_http_is_used_like_one_on_a_pipe() -> None:
    async with served("http") as port, opened(web(port)) as (_, session):
        assert (await session.call("web.add", {"a": 1})).data == {"total": 2}
        call = await session.submit("web.work", {})
        events = [event async for event in session.events(call=call.id)]
        assert [event.fields["message"] for event in events if event.kind == "progress"][-1] == "step 3"
        paint = await session.submit("web.paint", {})
        await session.answer((await asked(session, paint.id))["id"], "accept", {"color": "red"})
        assert (await session.result(paint.id)).data == "red"
        slow = await session.submit("web.sleep", {"seconds": 60})
        assert (await session.call("web.echo", {"text": "x"})).data == "x"
        await session.cancel(slow.id)
        assert code(await session.result(slow.id)) == "cancelled"


@requirement("mcp.client.1", "yaml.run.mcp.3")
async def test_a_server_that_knows_only_the_old_transport_is_found_by_it() -> None:
    async with served("sse") as port, opened(Mcp(f"http://127.0.0.1:{port}/sse", name="old")) as (_, session):
        assert (await session.call("old.add", {"a": 1})).data == {"total": 2}
        paint = await session.submit("old.paint", {})
        await session.answer((await asked(session, paint.id))["id"], "accept", {"color": "red"})
        assert (await session.result(paint.id)).data == "red"


@requirement("mcp.client.1", "mcp.client.2")
async def test_over_http_an_older_server_asks_the_owner_of_the_call_it_works_on() -> None:
    async with served("http2025") as port, opened(web(port)) as (crib, ada):
        bob = await crib.open("b", owner="bob", namespaces=["web"])
        first, second = await ada.submit("web.paint", {}), await bob.submit("web.paint", {})
        for session, call, color in ((bob, second, "blue"), (ada, first, "red")):
            await session.answer((await asked(session, call.id))["id"], "accept", {"color": color})
            assert (await session.result(call.id)).data == color


@requirement("mcp.client.5")
async def test_a_server_that_has_forgotten_the_connection_is_asked_on_a_new_one() -> None:
    port = free_port()
    source = web(port)
    async with AsyncExitStack() as stack:
        async with served("http2025", port):
            _, session = await stack.enter_async_context(opened(source))
            assert (await session.call("web.echo", {"text": "x"})).data == "x"
        async with served("http2025", port):
            assert (await session.call("web.echo", {"text": "back"})).data == "back"
            await source.server.close()


@requirement("mcp.client.5")
async def test_an_answer_over_http_has_a_greatest_size_too() -> None:
    async with served("http") as port, opened(web(port, message_bytes=100_000)) as (_, session):
        assert code(await session.call("web.large", {"size": 200_000})) == "too_large"
        assert (await session.call("web.echo", {"text": "x"})).data == "x"


@requirement("security.bounds.3")
@pytest.mark.parametrize(("kind", "path"), [("http", "mcp"), ("http2025", "mcp"), ("sse", "sse")])
async def test_over_http_the_values_of_one_message_are_counted(kind: str, path: str) -> None:
    async with served(kind) as port:
        address = f"http://127.0.0.1:{port}/{path}"
        async with opened(Mcp(address, name="few", message_parts=20, start_s=10)) as (crib, _):
            assert not crib.catalog.view(("few",)).tools
        async with opened(Mcp(address, name="web", message_parts=1500)) as (_, session):
            for number in range(200):
                assert (await session.call("web.echo", {"text": f"{number}"})).data == f"{number}"


@requirement("mcp.client.5")
async def test_a_server_that_goes_away_ends_its_calls_and_is_found_again() -> None:
    port = free_port()
    async with Crib([web(port)], policy=ALLOW) as crib:
        assert not crib.catalog.view(("web",)).tools
    async with served("http", port), opened(web(port)) as (_, session):
        pass
    source = web(port)
    async with served("http", port):
        crib = Crib([source], policy=ALLOW)
        await crib.start()
        session = await crib.open("s", owner="ada", namespaces=["web"])
        slow = await session.submit("web.sleep", {"seconds": 60})
        assert (await session.call("web.echo", {"text": "x"})).data == "x"
    assert code(await session.result(slow.id)) == "unknown"
    assert code(await session.call("web.echo", {"text": "x"})) == "unavailable"
    async with served("http", port):
        assert (await session.call("web.echo", {"text": "back"})).data == "back"
        await crib.stop()


@requirement("mcp.client.5")
async def test_a_server_of_the_old_transport_that_dies_ends_its_calls() -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with served("sse", port):
            _, session = await stack.enter_async_context(opened(Mcp(f"http://127.0.0.1:{port}/sse", name="old")))
            slow = await session.submit("old.sleep", {"seconds": 60})
            assert (await session.call("old.echo", {"text": "x"})).data == "x"
        assert code(await session.result(slow.id)) == "unknown"
        assert code(await session.call("old.echo", {"text": "x"})) == "unavailable"


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """Something at a port that takes requests and never answers."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_an_address_that_never_answers_is_given_up_in_time() -> None:
    async with silent() as port:
        server = McpClient(McpClientSettings(name="web", url=f"http://127.0.0.1:{port}/mcp", start_s=0.3))
        with pytest.raises(ToolFailure, match="did not answer within") as failed:
            await server.tools()
        assert failed.value.code == "unavailable"
        await server.close()


@requirement("mcp.client.7")
async def test_each_owner_has_credentials_of_its_own_and_nobody_uses_those_of_another() -> None:
    tokens = {"ada": "a-token", "bob": "b-token"}
    async with served("http") as port, opened(web(port, tokens=tokens, headers={"x-team": "t"})) as (crib, ada):
        bob = await crib.open("b", owner="bob", namespaces=["web"])
        eve = await crib.open("e", owner="eve", namespaces=["web"])
        assert (await ada.call("web.who", {})).data == "Bearer a-token"
        assert (await bob.call("web.who", {})).data == "Bearer b-token"
        assert (await ada.call("web.who", {})).data == "Bearer a-token"
        refused = await eve.call("web.who", {})
        assert code(refused) == "denied"
        assert "token" not in message(refused)


@requirement("mcp.client.7")
async def test_the_authentication_of_an_owner_may_be_more_than_a_token() -> None:
    def auth(owner: str) -> httpx2.Auth:
        return httpx2.BasicAuth(owner or "list", "secret")

    async with served("http") as port, opened(web(port, auth=auth)) as (crib, ada):
        bob = await crib.open("b", owner="bob", namespaces=["web"])
        told = [(await session.call("web.who", {})).data.removeprefix("Basic ") for session in (ada, bob, ada)]
        assert [base64.b64decode(said) for said in told] == [b"ada:secret", b"bob:secret", b"ada:secret"]


@asynccontextmanager
async def answering(head: bytes) -> AsyncIterator[int]:
    """Something at a port that answers every request with the same, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@requirement("mcp.client.5")
@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", "HTTP 401"),
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", "HTTP 503"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi", "text/html"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{", "started"),
        (b"not http at all\r\n\r\n", "cannot be reached"),
    ],
)
async def test_what_is_no_server_is_told_in_words(head: bytes, told: str) -> None:
    async with answering(head) as port:
        server = McpClient(McpClientSettings(name="web", url=f"http://127.0.0.1:{port}/mcp", start_s=5))
        with pytest.raises(ToolFailure, match=told) as failed:
            await server.tools()
        assert failed.value.code == "unavailable"
        await server.close()

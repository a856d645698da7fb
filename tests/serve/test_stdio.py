"""The server on standard input and output, as a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psutil
import pytest

from tests.requirements import requirement
from tests.serve.place import LEGACY, META, VERSION
from tests.serve.stdio_client import Pipes, started

pytestmark = pytest.mark.process


@pytest.fixture
async def pipes() -> AsyncIterator[Pipes]:
    async with started() as made:
        yield made


@requirement("mcp.server.14")
async def test_the_newest_revision_needs_no_greeting(pipes: Pipes) -> None:
    assert (await pipes.ask("server/discover"))["result"]["supportedVersions"][0] == VERSION
    called = await pipes.ask("tools/call", {"name": "add", "arguments": {"a": 1}}, id="x")
    assert (called["id"], called["result"]["content"][0]["text"]) == ("x", "2")


@requirement("mcp.server.14", "mcp.server.13")
async def test_an_older_client_is_greeted_and_asked(pipes: Pipes) -> None:
    hello = {
        "protocolVersion": LEGACY,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"},
    }
    assert (await pipes.ask("initialize", hello, modern=False))["result"]["protocolVersion"] == LEGACY
    asked = await pipes.ask("tools/call", {"name": "greet"}, id=2, modern=False)
    assert asked["method"] == "elicitation/create"
    pipes.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"name": "Ada"}}})
    done = await pipes.read()
    assert (done["id"], done["result"]["content"][0]["text"]) == (2, "Hello, Ada!")


@requirement("mcp.server.14")
async def test_what_is_printed_is_no_protocol(pipes: Pipes) -> None:
    assert (await pipes.ask("tools/call", {"name": "loud"}))["result"]["content"][0]["text"] == "printed"
    assert pipes.process.stdin is not None
    pipes.process.stdin.close()
    out, errors = await pipes.process.communicate()
    assert out == b""
    assert b"this is no protocol" in errors
    assert b"nor is this" in errors


@requirement("mcp.server.14")
async def test_it_ends_when_its_input_ends_and_answers_before(pipes: Pipes) -> None:
    assert pipes.process.stdin is not None
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    pipes.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "steps", "_meta": meta}})
    pipes.process.stdin.close()
    assert (await pipes.read())["result"]["content"][0]["text"] == "done"
    assert await asyncio.wait_for(pipes.process.wait(), 60) == 0


@requirement("mcp.server.14")
async def test_a_termination_ends_it_in_order(pipes: Pipes) -> None:
    await pipes.ask("tools/list")
    pipes.process.terminate()
    assert await asyncio.wait_for(pipes.process.wait(), 60) == 0


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', -32600),
        (b"[" * 90_000, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 200_000 + b'"}', -32600),
    ],
)
async def test_bad_lines_have_defined_answers_and_the_next_is_heard(pipes: Pipes, line: bytes, code: int) -> None:
    pipes.send(line)
    assert (await pipes.read())["error"]["code"] == code
    assert (await pipes.ask("tools/call", {"name": "add", "arguments": {"a": 1}}))["result"]["content"]


async def test_two_requests_of_one_id_under_way_are_answered_and_refused(pipes: Pipes) -> None:
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    held = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "steps", "_meta": meta}}
    pipes.send(held)
    pipes.send(held)
    assert (await pipes.read())["error"]["code"] == -32600
    assert (await pipes.read())["result"]["content"][0]["text"] == "done"


async def test_a_request_is_cancelled_by_a_notification(pipes: Pipes) -> None:
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    pipes.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "hold", "_meta": meta}})
    pipes.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    assert (await pipes.ask("tools/call", {"name": "add", "arguments": {"a": 1}}, id=6))["id"] == 6


async def test_a_client_that_does_not_read_is_not_read_from(pipes: Pipes) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_flood(pipes), 1)
    assert psutil.Process(pipes.process.pid).memory_info().rss < 400e6
    assert (await pipes.read())["result"]["tools"]


async def _flood(pipes: Pipes) -> None:
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    assert pipes.process.stdin is not None
    while True:
        pipes.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
        await pipes.process.stdin.drain()

"""What strangers send: each has a defined answer, and nothing is left of it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from typing import Any

import pytest

from tests.serve.place import BOTH, VERSION, Place, headers
from tests.serve.tools import Doors
from toolcrib.errors import StoreUnavailable
from toolcrib.serve.principal import ANYONE

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b"\xff\xfe", 400, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', 400, -32700),
        (b"[]", 400, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
        (b"null", 400, -32600),
        (b"5", 400, -32600),
        (b'{"id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', 400, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', 400, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":[]}}', 400, -32602),
        (b"[" * 150_000, 400, -32600),
    ],
)
async def test_what_is_no_request_is_told_so(place: Place, body: bytes, status: int, code: int) -> None:
    answer = await place.http.post("/mcp", content=body, headers=BOTH | JSON | {"MCP-Protocol-Version": VERSION})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["id"] in (None, 1)


async def test_other_kinds_of_content_are_refused(place: Place) -> None:
    body = json.dumps(place.message("tools/list"))
    assert (await place.http.post("/mcp", content=body, headers={"Content-Type": "text/plain"})).status_code == 415
    picky = headers(place.message("tools/list")) | JSON | {"Accept": "image/png"}
    assert (await place.http.post("/mcp", content=body, headers=picky)).status_code == 406
    nowhere = await place.http.get("/nowhere")
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("changed", [{"Content-Type": "text/plain"}, {"Accept": "image/png"}])
async def test_a_call_in_a_message_that_is_refused_does_not_run(
    place: Place, doors: Doors, caplog: pytest.LogCaptureFixture, changed: dict[str, str]
) -> None:
    message = place.message("tools/call", {"name": "hold", "arguments": {}})
    answer = await place.http.post("/mcp", content=json.dumps(message), headers=headers(message) | JSON | changed)
    assert answer.status_code in (406, 415)
    doors.go.set()
    assert await place.call("hold")
    assert len(await place.crib.store.calls()) == 1
    assert "Exception in ASGI application" not in caplog.text


async def test_a_huge_message_is_refused_without_being_read(place: Place) -> None:
    answer = await place.post("tools/call", {"name": "add", "arguments": {"a": "9" * 300_000}})
    assert answer.status_code == 413


async def test_that_the_store_is_away_is_said_once_and_is_no_fault_of_ours(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: Any) -> Any:
        raise StoreUnavailable("The store is away")

    monkeypatch.setattr(place.crib.store, "open", away)
    answer = await place.post("tools/call", {"name": "add", "arguments": {"a": 1}})
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "The store is away")
    assert "could not be answered" not in caplog.text
    assert "Exception in ASGI application" not in caplog.text


async def test_a_slow_sender_is_not_waited_for(place: Place) -> None:
    reader, writer = await asyncio.open_connection(place.http.base_url.host, place.http.base_url.port)
    writer.write(_raw(place, "tools/list", {})[:-10])
    assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 408")
    assert await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("begun", [b"", b"POST /mcp HTTP/1.1\r\nHost: loc"])
async def test_who_never_gets_through_the_headers_is_let_go(place: Place, begun: bytes) -> None:
    reader, writer = await asyncio.open_connection(place.http.base_url.host, place.http.base_url.port)
    writer.write(begun)
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    await writer.wait_closed()


async def test_who_got_through_the_headers_is_answered_however_long_that_takes(place: Place, doors: Doors) -> None:
    host, port = place.http.base_url.host, place.http.base_url.port
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(_raw(place, "tools/call", {"name": "hold", "arguments": {}}))
    await asyncio.wait_for(doors.entered.wait(), 60)
    silent, other = await asyncio.open_connection(host, port)
    assert await asyncio.wait_for(silent.read(), 60) == b""  # by now the time for headers has passed
    doors.go.set()
    assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200")
    for one in (writer, other):
        one.close()
        await one.wait_closed()


async def test_deep_arguments_are_an_error_of_the_tool(place: Place) -> None:
    deep = b"[" * 5000 + b"]" * 5000
    message = json.dumps(place.message("tools/call", {"name": "add", "arguments": {"a": "@"}})).encode()
    sent = headers(place.message("tools/call", {"name": "add"})) | JSON
    answer = await place.http.post("/mcp", content=message.replace(b'"@"', deep), headers=sent)
    assert answer.status_code in (200, 400)
    assert (await place.call("add", {"a": 1}))["content"][0]["text"] == "2"


@pytest.mark.parametrize("arguments", [[], "text", 5, None])
async def test_arguments_of_another_kind_are_told_to_the_model(place: Place, arguments: Any) -> None:
    result = await place.result("tools/call", {"name": "add", "arguments": arguments})
    assert result["isError"] is True


async def test_unfitting_cursors_are_refused(place: Place) -> None:
    for cursor in ("nonsense", "OTk5OTk=", "LTE="):
        _, error = await place.error("tools/list", {"cursor": cursor})
        assert error["code"] == -32602


async def test_nothing_is_left_of_clients_that_hang_up(place: Place) -> None:
    await place.call("add", {"a": 1})
    before, files = _tasks(), _files()
    for _ in range(5):
        await _hang_up(place, 200)
    async with asyncio.timeout(60):
        while _files() > files + 2 or _tasks() > before + 2 or _held(place):  # noqa: ASYNC110 - nobody tells it
            await asyncio.sleep(0.05)


def _held(place: Place) -> bool:
    """Whether somebody still listens, or a call still runs."""
    room = place.mcp.server.sessions.known(ANYONE)
    assert room is not None
    return bool(len(place.mcp.server.hub) or room.session.live)


def _tasks() -> int:
    gc.collect()
    return len(asyncio.all_tasks())


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only how many there are


async def _hang_up(place: Place, count: int) -> None:
    """Clients that leave in the middle of a header, of a body, of a call, and of streams."""
    held = _raw(place, "tools/call", {"name": "hold", "arguments": {}})
    listens = _raw(place, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    oldest = b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n"
    openings = [b"POST /mcp HT", held[:-10], held, listens, oldest]

    async def one(number: int) -> None:
        _, writer = await asyncio.open_connection(place.http.base_url.host, place.http.base_url.port)
        writer.write(openings[number % len(openings)])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one(number) for number in range(count)))


def _raw(place: Place, method: str, params: dict[str, Any]) -> bytes:
    message = place.message(method, params)
    body = json.dumps(message).encode()
    lines = [f"{name}: {value}" for name, value in (headers(message) | JSON | {"Host": "localhost"}).items()]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"Content-Length: {len(body)}"])
    return head.encode() + b"\r\n\r\n" + body

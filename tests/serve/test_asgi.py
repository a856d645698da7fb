"""Bodies of requests, in one piece or several, and replies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib.serve.asgi import ClientDisconnected, Receive, UnreadableBody, gone, read, reply

GONE = {"type": "http.disconnect"}


def piece(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def arriving(*messages: dict[str, Any]) -> Receive:
    """What receives these messages, and then nothing."""
    left = list(messages)

    async def receive() -> Any:
        return left.pop(0) if left else await asyncio.Event().wait()

    return receive


@pytest.mark.parametrize(
    ("messages", "body"),
    [
        ([piece(b"1234")], b"1234"),
        ([piece(b"")], b""),
        ([{"type": "http.request"}], b""),
        ([piece(b"12", more=True), piece(b"34")], b"1234"),
        ([piece(b"12", more=True), {"type": "http.request", "more_body": True}, piece(b"34")], b"1234"),
        ([piece(b"1", more=True), piece(b"2", more=True), piece(b"3")], b"123"),
    ],
)
async def test_a_body_is_all_of_its_pieces(messages: list[dict[str, Any]], body: bytes) -> None:
    assert await read(arriving(*messages), 4, 60) == body


@pytest.mark.parametrize(
    "messages",
    [
        [piece(b"12345")],
        [piece(b"12", more=True), piece(b"345")],
        [piece(b"12", more=True), piece(b"345", more=True)],
        [piece(b"1234", more=True), piece(b"5", more=True)],
    ],
)
async def test_a_body_with_one_byte_too_many_is_not_read_on(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(UnreadableBody) as unreadable:
        await read(arriving(*messages), 4, 60)
    assert (unreadable.value.status, unreadable.value.message) == (413, "The request has more than 4 bytes")


@pytest.mark.parametrize("messages", [[GONE], [piece(b"12", more=True), GONE]])
async def test_whoever_hangs_up_before_the_end_of_a_body_sent_none(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(ClientDisconnected):
        await read(arriving(*messages), 4, 60)


@pytest.mark.parametrize("messages", [[], [piece(b"12", more=True)]])
async def test_a_body_that_does_not_come_is_not_waited_for(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(UnreadableBody) as unreadable:
        await read(arriving(*messages), 4, 0.01)
    assert (unreadable.value.status, unreadable.value.message) == (408, "The request took too long to arrive")


async def test_a_reply_says_how_long_it_is() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await reply(send, 201, b"{}")
    start, body = sent
    assert (start["status"], body["body"]) == (201, b"{}")
    assert start["headers"] == [(b"content-type", b"application/json"), (b"content-length", b"2")]


async def test_the_end_of_a_connection_is_waited_for_past_everything_else() -> None:
    await asyncio.wait_for(gone(arriving(piece(b"1"), piece(b"2"), GONE)), 60)
    waits = asyncio.ensure_future(gone(arriving(piece(b"1"))))
    await asyncio.sleep(0)
    assert not waits.done()
    waits.cancel()

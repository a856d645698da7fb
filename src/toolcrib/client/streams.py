"""Streams of events (SSE) that are read on where they broke off, at whatever address answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec

from toolcrib.client import codec
from toolcrib.errors import Refused
from toolcrib.events import Event

if TYPE_CHECKING:
    from toolcrib.client.transport import Transport

PAGE = 1000


class SseFrame(NamedTuple):
    """One event of a stream."""

    kind: str
    data: bytes


class SseFrames:
    """Takes a stream apart. A line ends at a line feed and nowhere else: a text may hold what others call an end."""

    def __init__(self) -> None:
        self._rest = b""
        self.still_there = False

    def feed(self, piece: bytes) -> list[SseFrame]:
        """The events that are whole now; a comment says that the server is there, and is silent."""
        self.still_there = piece.startswith(b":")
        *whole, self._rest = (self._rest + piece).split(b"\n\n")
        return [frame for frame in map(_frame, whole) if frame is not None]


def _frame(text: bytes) -> SseFrame | None:
    kind, data = "message", b""
    for line in text.split(b"\n"):
        name, _, value = line.partition(b": ")
        if name == b"event":
            kind = value.decode()
        elif name == b"data":
            data = value
    return SseFrame(kind, data) if data else None


OPENED = SseFrame("", b"")
"""Comes each time that a stream was opened."""


async def follow(link: Transport, path: str, query: Callable[[], Mapping[str, Any]]) -> AsyncGenerator[SseFrame, None]:
    """The events of a stream that is opened again whenever it breaks off, until it says that it is done.

    `query` says each time from where on; each opening begins with `OPENED`. Ends when the crib is closed.

    Raises:
        Refused: as the server says it; `unavailable`, nobody answered for too long.
    """
    from toolcrib.client.transport import Backoff, NoResponse

    trouble = Backoff(link)
    while True:
        url, frames = trouble.begin(), SseFrames()
        lost = NoResponse(Refused("unavailable", f"{url} ended the stream", "try again"))
        try:
            async with link.stream(url, path, query()) as pieces:
                yield OPENED
                async for piece in pieces:
                    for frame in frames.feed(piece):
                        if frame.kind != "end":
                            trouble.over()
                            yield frame
                        elif msgspec.json.decode(frame.data)["reason"] == "done":
                            return
                    if frames.still_there:
                        trouble.over()
        except NoResponse as error:
            lost = error
        if link.closed:
            return
        await trouble.pause(lost, url)


async def events(link: Transport, path: str, after: int, call: str | None) -> AsyncIterator[Event]:
    """The log of a session past `after`, each event once and none left out, however often the connection is lost."""
    at = after

    def query() -> dict[str, Any]:
        return {"after": at, "call": call, "follow": "1"}

    async with aclosing(follow(link, f"{path}/events", query)) as frames:
        async for frame in frames:
            if frame is not OPENED and (event := codec.event(frame.data)).seq > at:
                yield event if codec.whole(event) else await _fetched(link, path, event)
                at = event.seq


async def past(link: Transport, path: str, after: int, call: str | None) -> AsyncIterator[Event]:
    """The log of a session past `after`, up to now."""
    if call is not None:  # else one that never was would have no events
        await link.ask("GET", f"{path}/calls/{quote(call, safe='')}")
    place: str | None = str(after)
    while place is not None:
        answer = await link.ask("GET", f"{path}/events", query={"after": place, "call": call, "limit": PAGE})
        page, place = codec.events(answer.body)
        for event in page:
            yield event if codec.whole(event) else await _fetched(link, path, event)


async def _fetched(link: Transport, path: str, event: Event) -> Event:
    """An event with the large values that its stream had references for."""
    return codec.event((await link.ask("GET", f"{path}/events/{event.seq}")).body)

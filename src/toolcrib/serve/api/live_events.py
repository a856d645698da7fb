"""The events of all sessions that somebody may see, as they come."""

from __future__ import annotations

import re
from collections import deque

from toolcrib.events import Event
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.events import LAST
from toolcrib.serve.api.pages import AT, SESSION_ID, place
from toolcrib.serve.api.request import ApiRequest
from toolcrib.serve.api.router import Route
from toolcrib.serve.api.session_cache import bounds
from toolcrib.serve.api.streams import EXTENT, PAGE, EventStream, frame
from toolcrib.serve.api.watcher import MOST, SLACK_S, Found, used_since
from toolcrib.store import SessionRow

LATE_BYTES = 256 * 1024
"""What is kept for one who reads slower than things happen."""

_PLACE = re.compile(rf"(?P<at>{AT}):(?P<session>{SESSION_ID}):(?P<seq>[0-9]{{1,15}})")

PIECE = 20
"""Events that are sent at once to one who was away."""


async def live(request: ApiRequest) -> None:
    """A stream of all that happens, from now on or from where its reader was."""
    api, last = request.api, request.headers.get(LAST)
    since = None if last is None else _since(last.decode("latin-1").strip())
    if api.streams.stopped:
        raise ApiError("unavailable", "The server is stopping", "try again", retry_after=1)
    async with api.readers.of(request):
        line = api.streams.line(request.send)
        reader = _LiveReader(request, line)
        api.watch.join(line, reader.news, bounded=bounds(request.principal) is not None)
        try:
            await line.begin()
            if since is not None:
                await reader.replay(since)
            reader.ready = True
            line.freed = reader.freed
            reader.freed(line)
            await line.stay(request.receive)
        finally:
            api.watch.leave(line)


def _since(last: str) -> tuple[float, str, int]:
    """Where a reader was, by the id of the last event that it got."""
    parts = _PLACE.fullmatch(last)
    if parts is None:
        raise ApiError("invalid_arguments", "Last-Event-ID is no event of this stream", "begin without it")
    return float(parts["at"]), parts["session"], int(parts["seq"])


class _LiveReader:
    """What was sent to one reader of each session. A slow one loses the oldest of what it did not get."""

    def __init__(self, request: ApiRequest, line: EventStream) -> None:
        self._request = request
        self._line = line
        self._sent: dict[tuple[str, float], int] = {}  # one that was swept may come again
        self._late: deque[bytes] = deque()
        self.ready = False

    async def replay(self, since: tuple[float, str, int]) -> None:
        """Send what happened since, at most the last thousand events."""
        request, events = self._request, Found()
        owner = None if request.principal.admin else request.principal.name
        for row in await used_since(request.api.crib, since[0] - SLACK_S, owner):
            if not await request.api.sessions.sees(row, request.principal):
                continue
            self._sent[row.id, row.created_at] = await self._newest(row, since, events)
            if len(events) > 2 * MOST:
                _shorten(events)
        _shorten(events)
        for start in range(0, len(events), PIECE):
            await self._line.send(b"".join(map(_frame, events[start : start + PIECE])))

    async def _newest(self, row: SessionRow, since: tuple[float, str, int], events: Found) -> int:
        """Add what a session has since then, of its last thousand events; return the number of the last."""
        api, seq = self._request.api, max(0, row.seq - MOST)
        while seq < row.seq:
            async with api.streams.turns:
                page = await api.crib.store.read(row.id, seq, limit=PAGE, extent=EXTENT)
            if not page:
                return row.seq
            seq = page[-1].seq
            if not await api.sessions.sees(row, self._request.principal, seq):  # it was widened meanwhile
                return seq
            events += [(row, event) for event in page if (event.at, row.id, event.seq) > since]
        return seq

    def news(self, events: Found) -> None:
        """Takes what is new in all sessions."""
        principal, cache = self._request.principal, self._request.api.sessions
        mine = [
            (row, event)
            for row, event in events
            if event.seq > self._sent.get((row.id, row.created_at), 0) and cache.knows(row, principal)
        ]
        if mine:
            self._late.extend(map(_frame, mine))
            size = sum(map(len, self._late))
            while self._late and (len(self._late) > MOST or size > LATE_BYTES):
                size -= len(self._late.popleft())
            self.freed(self._line)

    def freed(self, line: EventStream) -> None:
        """Sends what is there, if it can be sent."""
        if self.ready and self._late and line.push(b"".join(self._late)):
            self._late.clear()


def _shorten(events: Found) -> None:
    """Keep the last thousand events, in order."""
    events.sort(key=lambda one: (one[1].at, one[0].id, one[1].seq))
    del events[:-MOST]


def _frame(one: tuple[SessionRow, Event]) -> bytes:
    row, event = one
    return frame(row.id, event, place(event.at, row.id, event.seq).encode())


ROUTES = [
    Route(
        "GET",
        "/v1/live",
        live,
        "A stream of the events of all sessions that you may see, from now on; with `Last-Event-ID` from there.",
        streams=True,
    ),
]

"""The log of a session: pages of it, and the stream that replays and then follows."""

from __future__ import annotations

from msgspec import Raw, Struct

from toolcrib.serve.api import forms
from toolcrib.serve.api.errors import ApiError, missing
from toolcrib.serve.api.pages import Limit, Name, Seq, paged
from toolcrib.serve.api.request import EVENTS, ApiRequest
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.session_cache import bounds
from toolcrib.serve.api.streams import EventStream
from toolcrib.store import SessionRow
from toolcrib.store.codec import PAGE_BYTES, PageLimit

LAST = b"last-event-id"


class EventsQuery(Struct, forbid_unknown_fields=True):
    """From where on, of which call; `follow` asks for a stream, as the header `Accept: text/event-stream` does."""

    after: Seq = 0
    call: Name | None = None
    follow: bool = False
    limit: Limit = 100


async def events(request: ApiRequest) -> ApiReply | None:
    """Events past `after`: a page, or a stream."""
    row = await request.api.sessions.row(request.path[0], request.principal)
    await request.api.crib.store.flush()  # what this process did before belongs to the page
    if request.query.follow or request.accepts(EVENTS):
        await _stream(request, row)
        return None
    page, next = await _page(request, row)
    return paged(page, next)


async def _page(request: ApiRequest, row: SessionRow) -> tuple[list[Raw], str | None]:
    """Events until there are enough, by number or by bytes, and where the next page begins."""
    query, items, size = request.query, list[Raw](), 0
    after = query.after
    while len(items) < query.limit and size < PAGE_BYTES:
        extent, limit = PageLimit(PAGE_BYTES - size, whole=False), query.limit - len(items)
        page = await request.api.crib.store.read(row.id, after, limit=limit, call=query.call, extent=extent)
        if not page:
            return items, None
        written = [forms.event(row.id, event) for event in page]
        items += map(Raw, written)
        size += sum(map(len, written))
        after = page[-1].seq
    return items, str(after)


async def event(request: ApiRequest) -> ApiReply:
    """One event with all of its values."""
    row = await request.api.sessions.row(request.path[0], request.principal)
    seq = request.path[1]
    if not seq.isascii() or not seq.isdecimal() or len(seq) > 15:
        raise missing("event")
    await request.api.crib.store.flush()
    page = await request.api.crib.store.read(row.id, int(seq) - 1, limit=1, until=int(seq))
    if not page or page[0].seq != int(seq):
        raise missing("event")
    return ApiReply(forms.event(row.id, page[0]))


async def _stream(request: ApiRequest, row: SessionRow) -> None:
    api, query = request.api, request.query
    row = await api.sessions.row(row.id, request.principal)
    after = _after(request.headers.get(LAST), query.after)
    if after > row.seq:
        raise ApiError("invalid_arguments", f"Event {after} is not in this session's log", "begin with after=0")
    last = 0
    if query.call is not None:
        call = await api.crib.store.call(query.call)
        if call is None or call.session != row.id:
            raise missing("call")
        after, last = max(after, call.accepted_seq - 1), call.done_seq or 0
    if api.streams.stopped:
        raise ApiError("unavailable", "The server is stopping", "try again", retry_after=1)
    async with api.readers.of(request):
        line = api.streams.line(request.send)
        line.at, line.call, line.last = after, query.call, last
        line.bounds = bounds(request.principal)
        await line.begin()
        if 0 < last <= after:
            line.end("done")
        else:
            await _follow(request, row, line)


async def _follow(request: ApiRequest, row: SessionRow, line: EventStream) -> None:
    feed = request.api.streams.feed(row.id, row.seq)
    try:
        await feed.join(line)
        await line.stay(request.receive)
    finally:
        feed.leave(line)


def _after(header: bytes | None, query: int) -> int:
    """Where a reader was: the header counts, since browsers send it when they come back."""
    if header is None:
        return query
    text = header.decode("latin-1").strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ApiError("invalid_arguments", "Last-Event-ID is no event of this session", "begin with after=0")
    return int(text)


ROUTES = [
    Route(
        "GET",
        "/v1/sessions/{session}/events",
        events,
        "The log past `after`: a page, or with `Accept: text/event-stream` a stream that replays and then follows. "
        "Large values are references, and a page may have fewer than `limit`: go on while there is a `next`.",
        query=EventsQuery,
        gives={200: forms.Events},
        streams=True,
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/events/{seq}",
        event,
        "One event with all of its values, also those that are references in pages and streams.",
        gives={200: forms.EventForm},
    ),
]

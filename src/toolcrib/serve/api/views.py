"""What a session shows of itself: the three lists, its state, and outputs that were too large for a result."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from toolcrib._call.history import History
from toolcrib.events import Done, RunEnded, StateRecord, UserState, Waiting
from toolcrib.media import guessed_type
from toolcrib.serve.api import forms
from toolcrib.serve.api.active_agents import ActiveAgent
from toolcrib.serve.api.pages import Limit, Seq
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.sessions import COUNTED, agent_of
from toolcrib.state import State
from toolcrib.store import Row, Store, WalkFilter
from toolcrib.store.codec import PAGE_BYTES, encode


class ListsQuery(Struct, forbid_unknown_fields=True):
    """As of which event; now, unless said. Of what is done the newest, at most `limit`."""

    at: Seq | None = None
    limit: Limit = 100


SMALL = 1000
"""Bytes of an entry that are not worth a look of their own."""


class ListsForm(Struct):
    """The three lists: each accepted call is in exactly one. Past 1 MB results are left out, those of the oldest calls.

    Of such a call `large` has the bytes, and `/v1/sessions/{session}/calls/{call}` the result.
    """

    unresolved: list[forms.EntryForm]
    ongoing: list[forms.EntryForm]
    completed: list[forms.EntryForm]


async def lists(request: ApiRequest) -> ApiReply:
    """The three lists of a session."""
    session, at = await request.api.sessions.of(request.path[0], request.principal), request.query.at
    await request.api.crib.store.flush()
    rows = await _open(request.api.crib.store, session.id, at) + await _done(request, session.id)
    sorted_out: dict[str, list[forms.EntryForm]] = {"unresolved": [], "ongoing": [], "completed": []}
    rows.reverse()  # the newest results come whole
    size = 0
    while rows:
        stories = await request.api.crib.store.stories(rows)
        del rows[: len(stories)]
        for story in stories:
            history = History(session.id, (event for event in story if at is None or event.seq <= at))
            if history.id:
                entry = forms.listed(history)
                length = len(encode(entry))
                if entry.result is not None and size + length > PAGE_BYTES and length > SMALL:
                    entry.result, entry.large = None, {"result": length}
                    length = SMALL
                size += length
                sorted_out[history.list].append(entry)
    return json_reply(ListsForm(**{name: entries[::-1] for name, entries in sorted_out.items()}))


async def _open(store: Store, session: str, at: int | None) -> list[Row]:
    """The calls that are not done, or were not at that event."""
    if at is None:
        return await store.calls(session, ("queued", "waiting", "running"), limit=COUNTED)
    rows = await store.calls(session, limit=COUNTED)
    return [row for row in rows if row.accepted_seq <= at and (row.done_seq is None or row.done_seq > at)]


async def _done(request: ApiRequest, session: str) -> list[Row]:
    """The newest calls that are done, or were at that event, in order of completion."""
    query, store, where, rows = request.query, request.api.crib.store, WalkFilter("ended", session), dict[str, Row]()
    past = None
    if query.at is not None:
        newest, _ = await store.walk(where, limit=1)
        past = newest[0].mark._replace(seq=min(query.at, newest[0].mark.seq) + 1) if newest else None
    while True:
        spots, past = await store.walk(where, past, limit=query.limit - len(rows))
        for row, *_ in spots:
            if query.at is None or (row.done_seq or 0) <= query.at:  # one that was settled later is among the open ones
                rows.setdefault(row.id, row)
        if past is None or len(rows) >= query.limit:
            return list(reversed(rows.values()))


_PICTURE = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox; default-src 'none'"))
_DOWNLOAD = (*_PICTURE, (b"content-disposition", b"attachment"))


class StateQuery(Struct, forbid_unknown_fields=True):
    """As of which event; now, unless said."""

    at: Seq | None = None


class StateForm(Struct, omit_defaults=True):
    """What tools keep in a session, the agent that a message goes to, and what the client said of its user."""

    state: dict[str, Any]
    revision: int
    user: dict[str, Any]
    agent: str | None = None


async def state(request: ApiRequest) -> ApiReply:
    """The state of a session."""
    session, crib = await request.api.sessions.of(request.path[0], request.principal), request.api.crib
    await crib.store.flush()
    if request.query.at is None:
        await session._reload_state()
        now = session.state.now
        return json_reply(StateForm(dict(now), now.revision, dict(session.user), agent_of(session)))
    past, user, word = State(crib.state_keys), {}, ActiveAgent()
    row = await crib.store.session(session.id)
    events = [] if row is None else await request.api.pasts.until(crib.store, row, request.query.at)
    word.take(events)
    for event in events:
        match event.data:
            case UserState(values=values):
                user = values
            case RunEnded(run=run):
                past.end(run)
            case Done(state=StateRecord() as commit) | Waiting(state=StateRecord() as commit):
                past.replay(commit, event.call or "")
    return json_reply(StateForm(dict(past.now), past.now.revision, user, word.agent))


class ByteRange(Struct, forbid_unknown_fields=True):
    """Which bytes."""

    offset: Seq = 0
    limit: Annotated[int, Meta(ge=1, le=1024 * 1024)] = 64 * 1024


class OutputForm(Struct, omit_defaults=True):
    """A piece of an output; `next` is where it goes on."""

    id: str
    offset: int
    total: int
    text: str
    next: int | None = None


async def output(request: ApiRequest) -> ApiReply:
    """A piece of an output that was too large for its result."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    query, id = request.query, request.path[1]
    text = await session.output(id, query.offset, query.limit)
    total = len(await request.api.crib.store.kept(session.id, id) or b"")
    end = query.offset + query.limit
    return json_reply(OutputForm(id, query.offset, total, text, end if end < total else None))


async def file(request: ApiRequest) -> ApiReply:
    """The bytes of a file. A browser shows pictures, and runs nothing of what stands in a file."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    data = await session.file(request.path[1])
    type = guessed_type(data).encode()
    return ApiReply(data, headers=((b"content-type", type), *(_PICTURE if type.startswith(b"image/") else _DOWNLOAD)))


ROUTES = [
    Route(
        "GET",
        "/v1/sessions/{session}/lists",
        lists,
        "The three lists of calls, now or as of an event.",
        query=ListsQuery,
        gives={200: ListsForm},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/state",
        state,
        "What tools keep in the session, now or as of an event.",
        query=StateQuery,
        gives={200: StateForm},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/outputs/{output}",
        output,
        "A piece of an output that was too large for its result.",
        query=ByteRange,
        gives={200: OutputForm},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/files/{file}",
        file,
        "The bytes of a file of a message or result, by the `output` of its block.",
        gives={200: None},
    ),
]

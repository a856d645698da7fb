"""Calls, those of a session and those of all, listed and one by one with all that the log says of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Raw, Struct

from toolcrib._call.history import History
from toolcrib.events import Event
from toolcrib.serve.api import forms
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.pages import LOOK_S, AmongCalls, Limit, Moment, Name, owner_of, paged, place, read_mark
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.session import Session
from toolcrib.store import OWNER, Row, Store, WalkedCall, WalkFilter
from toolcrib.store.codec import PAGE_BYTES, encode
from toolcrib.types import CODES, Status

_ENDED: dict[str | None, Status] = {
    None: "succeeded",
    "cancelled": "cancelled",
    "timeout": "timed_out",
    "unknown": "unknown",
}
_CODES = {"succeeded": ("",), "cancelled": ("cancelled",), "timed_out": ("timeout",), "unknown": ("unknown",)}
_FAILED = tuple(code for code in CODES if code not in _ENDED)


class CallsQuery(Struct, forbid_unknown_fields=True):
    """Which calls."""

    state: Status | None = None
    tool: Name | None = None
    after: AmongCalls | None = None
    limit: Limit = 100


class AllCalls(CallsQuery, forbid_unknown_fields=True):
    """Which calls, of whom, by which agent, with which code, and when they were accepted."""

    owner: Name | None = None
    agent: Name | None = None
    code: Name | None = None
    since: Moment = 0.0
    until: Moment | None = None


def status_of(row: Row) -> Status:
    """Where a call stands, by its row."""
    if row.state == "queued" or row.state == "waiting" or row.state == "running":
        return row.state
    return _ENDED.get(row.code, "failed")


def where_of(query: CallsQuery) -> WalkFilter:
    """What the store has to look for; a call that streams runs."""
    state = "running" if query.state == "streaming" else query.state
    if state in (None, "queued", "waiting", "running"):
        return WalkFilter(tool=query.tool, states=() if state is None else (state,))
    return WalkFilter(tool=query.tool, states=("done",), codes=_CODES.get(state, _FAILED))


async def walked(request: ApiRequest, where: WalkFilter) -> tuple[list[WalkedCall], str | None]:
    """A page of calls, and the place of the next."""
    loop = asyncio.get_running_loop()
    past, limit, page = read_mark(request.query.after), request.query.limit, list[WalkedCall]()
    stop = loop.time() + LOOK_S
    while True:
        spots, past = await request.api.crib.store.walk(where, past, limit=limit - len(page))
        own = [spot for spot in spots if spot.owner != OWNER]
        page += await request.api.sessions.visible(own, request.principal)
        if past is None or len(page) >= limit or loop.time() > stop:
            return page, None if past is None else place(*past)


async def stories(store: Store, spots: list[WalkedCall]) -> AsyncIterator[tuple[WalkedCall, list[Event]]]:
    """The events of each call, of as many at once as the store gives."""
    while spots:
        page = await store.stories([spot.row for spot in spots])
        for spot, story in zip(spots, page, strict=False):
            yield spot, story
        spots = spots[len(page) :]


async def histories(request: ApiRequest, spots: list[WalkedCall]) -> AsyncIterator[tuple[WalkedCall, History]]:
    """What the log says of each call, unless it was swept just now."""
    async for spot, story in stories(request.api.crib.store, spots):
        if story:
            yield spot, History(spot.row.session, story)


async def _entries(
    request: ApiRequest, where: WalkFilter, *, whose: bool = False, agent: str | None = None
) -> ApiReply:
    """A page of calls, which ends by its bytes too."""
    spots, next = await walked(request, where)
    entries, size = list[Raw](), 0
    async for spot, history in histories(request, spots):
        if agent is not None and history.accepted.agent != agent:
            continue
        more = {"session": spot.row.session, "owner": spot.owner} if whose else {}
        entries.append(Raw(encode(forms.listed(history, **more))))
        size += len(bytes(entries[-1]))
        if size >= PAGE_BYTES and spot is not spots[-1]:
            return paged(entries, place(*spot.mark))
    return paged(entries, next)


async def calls(request: ApiRequest) -> ApiReply:
    """The calls of a session, in order of acceptance."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    return await _entries(request, where_of(request.query)._replace(session=session.id, oldest_first=True))


async def all_calls(request: ApiRequest) -> ApiReply:
    """Calls of all sessions, the newest first."""
    query, owner = request.query, owner_of(request, request.query.owner)
    if query.owner not in (None, owner):
        return paged([])
    where = where_of(query)._replace(owner=owner, since=query.since)
    if query.until is not None:
        where = where._replace(until=query.until)
    if query.code is not None:
        where = where._replace(states=("done",), codes=("" if query.code == "succeeded" else query.code,))
    return await _entries(request, where, whose=True, agent=query.agent)


class CallDetail(forms.EntryForm, omit_defaults=True):
    """A call with all that its log says of it."""

    args: Any = None
    digest: str = ""
    run: str | None = None
    agent: str | None = None
    verdict: dict[str, Any] | None = None
    question: forms.QuestionForm | None = None
    edited: dict[str, Any] | None = None


async def call(request: ApiRequest) -> ApiReply:
    """One call: arguments, verdict, question, result."""
    session, row = await found(request)
    history, verdict = History(session.id), None
    after = row.accepted_seq - 1
    while page := await request.api.crib.store.read(session.id, after, call=row.id, limit=1000):
        for event in page:
            history.advance(event)
            verdict = event.fields.get("verdict", verdict)
        after = page[-1].seq
    accepted, asks = history.accepted, history.question
    base = forms.listed(history, session=session.id, owner=session.owner)
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    return json_reply(
        CallDetail(
            **fields,
            args=accepted.args if history.started is None else history.started.args,
            digest=(history.started or accepted).digest,
            run=accepted.run,
            agent=accepted.agent,
            verdict=verdict,
            question=None if asks is None else forms.question(asks),
            edited=history.edited,
        )
    )


async def found(request: ApiRequest) -> tuple[Session, Row]:
    """The call that a path names."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    await request.api.crib.store.flush()
    row = await request.api.crib.store.call(request.path[1])
    if row is None or row.session != session.id:
        raise missing("call")
    return session, row


ROUTES = [
    Route(
        "GET",
        "/v1/calls",
        all_calls,
        "Calls of all sessions that you may see, the newest first, of one status, code, tool, agent or owner, "
        "and accepted in some time. "
        "A page may have few and yet a `next`: go on until there is none.",
        query=AllCalls,
        gives={200: forms.Entries},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/calls",
        calls,
        "The calls of a session in order of acceptance, of one status or tool.",
        query=CallsQuery,
        gives={200: forms.Entries},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/calls/{call}",
        call,
        "One call with its arguments, the verdict on it, its question and its result.",
        gives={200: CallDetail},
    ),
]

"""Calls, those of a session and those of all, listed and one by one with all that the log says of one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

from msgspec import Raw, Struct

from toolcrib._call.history import History
from toolcrib.events import Answered, Done, Event, Waiting
from toolcrib.schema.names import nearest
from toolcrib.serve.api import forms
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.pages import (
    LOOK_S,
    AmongCalls,
    Limit,
    Moment,
    Name,
    NameOrNone,
    owner_of,
    paged,
    place,
    read_mark,
)
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.tools import open_tools, sources_of
from toolcrib.session import Session
from toolcrib.store import OWNER, LogPosition, Row, Store, WalkedCall, WalkFilter
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
_SUCCEEDED = "succeeded"

PIECE = 200
"""Calls that are read at once where the log has to say which of them are wanted."""

Wanted = Callable[[list[Event]], bool]
"""Whether the events of a call are those of one that is looked for."""


class CallsQuery(Struct, forbid_unknown_fields=True):
    """Which calls."""

    state: Status | None = None
    tool: Name | None = None
    after: AmongCalls | None = None
    limit: Limit = 100


class AllCalls(CallsQuery, forbid_unknown_fields=True):
    """Which calls, of whom, by which agent, of which source, how they ended, and when they were accepted.

    An empty `agent` stands for calls that no agent made, an empty `source` for tools that no source has now. `ok`
    leaves those that succeeded, or that did not; `rule` those that a rule of the policy decided, and `waited` those
    that waited for somebody. With `over=ended` calls are listed as they ended, each once, with `until` no more in it:
    these are the calls behind the numbers of `/v1/stats`.
    """

    owner: Name | None = None
    agent: NameOrNone | None = None
    source: NameOrNone | None = None
    code: Name | None = None
    ok: bool | None = None
    rule: Name | None = None
    waited: bool | None = None
    over: Literal["accepted", "ended"] = "accepted"
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


async def stories(store: Store, spots: list[WalkedCall]) -> AsyncIterator[tuple[WalkedCall, list[Event]]]:
    """The events of each call, of as many at once as the store gives."""
    while spots:
        page = await store.stories([spot.row for spot in spots])
        for spot, story in zip(spots, page, strict=False):
            yield spot, story
        spots = spots[len(page) :]


async def histories(
    request: ApiRequest, spots: list[WalkedCall], where: WalkFilter, wanted: Wanted | None = None
) -> AsyncIterator[tuple[WalkedCall, History]]:
    """What the log says of each call that is wanted, unless it was swept just now; of an end, up to there."""
    async for spot, story in stories(request.api.crib.store, spots):
        events = story if where.over == "accepted" else [event for event in story if event.seq <= spot.mark.seq]
        if events and (wanted is None or wanted(events)):
            yield spot, History(spot.row.session, events)


async def _entries(
    request: ApiRequest, where: WalkFilter, *, whose: bool = False, wanted: Wanted | None = None
) -> ApiReply:
    """A page of calls, which ends by its bytes too, or when enough was looked at."""
    loop, limit, entries, size = asyncio.get_running_loop(), request.query.limit, list[Raw](), 0
    past, stop = read_mark(request.query.after), loop.time() + LOOK_S
    while True:
        spots, past = await request.api.crib.store.walk(where, past, limit=PIECE if wanted else limit - len(entries))
        own = [spot for spot in spots if spot.owner != OWNER]
        own = await request.api.sessions.visible(own, request.principal)
        async for spot, history in histories(request, own, where, wanted):
            more = {"session": spot.row.session, "owner": spot.owner} if whose else {}
            entries.append(Raw(encode(forms.listed(history, **more))))
            size += len(bytes(entries[-1]))
            if len(entries) == limit or size >= PAGE_BYTES:
                return _page(request, entries, spot.mark if past is not None or spot is not own[-1] else None)
        if past is None or loop.time() > stop:
            return _page(request, entries, past)


def _page(request: ApiRequest, entries: list[Raw], past: LogPosition | None) -> ApiReply:
    """A page; if nothing was found, with what was probably meant."""
    hint = None if entries or request.query.after is not None else _hint(request)
    return paged(entries, None if past is None else place(*past), **({} if hint is None else {"hint": hint}))


def _hint(request: ApiRequest) -> str | None:
    """What names nothing that is there, with what is like it."""
    query, tools = request.query, {tool.id for tool in open_tools(request)}
    agents: Any = request.api.crib.agents
    for kind, known in (
        ("tool", tools | {tool.rpartition(".")[2] for tool in tools}),
        ("code", {*CODES, _SUCCEEDED}),
        ("source", {source for tool, source in sources_of(request).items() if tool in tools}),
        ("agent", set() if agents is None else set(agents.registry)),
    ):
        name = getattr(query, kind, None)
        if name and name not in known:
            close = nearest(name, sorted(known, key=lambda one: (len(one), one)), 1)
            some = ", ".join(sorted(known)) if kind != "tool" and known else ""
            there = f", did you mean '{close[0]}'?" if close else f": there is {some}" if some else ""
            return f"There is no {kind} '{name}' now{there}"
    return None


async def calls(request: ApiRequest) -> ApiReply:
    """The calls of a session, in order of acceptance."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    return await _entries(request, where_of(request.query)._replace(session=session.id, oldest_first=True))


async def all_calls(request: ApiRequest) -> ApiReply:
    """Calls of all sessions, the newest first."""
    query, owner = request.query, owner_of(request, request.query.owner)
    if query.owner not in (None, owner):
        return paged([])
    where = where_of(query)._replace(owner=owner, since=query.since, over=query.over)
    if query.until is not None:
        until = query.until if query.over == "accepted" else math.nextafter(query.until, 0)
        where = where._replace(until=until)
    if (codes := _codes(query)) is not None:
        where = where._replace(states=("done",), codes=codes)
    if query.source is not None:
        sources = sources_of(request)
        if query.source == "":
            where = where._replace(other_tools=tuple(sorted(sources)))
        elif tools := tuple(sorted(tool for tool, source in sources.items() if source == query.source)):
            where = where._replace(tools=tools)
        else:
            return _page(request, [], None)
    return await _entries(request, where, whose=True, wanted=_wanted(query))


def _codes(query: AllCalls) -> tuple[str, ...] | None:
    """The codes with one of which a call has to have ended; "" stands for success."""
    if query.code is not None:
        return ("" if query.code == _SUCCEEDED else query.code,)
    return None if query.ok is None else ("",) if query.ok else CODES


def _wanted(query: AllCalls) -> Wanted | None:
    """What only the log of a call can tell."""
    checks: list[Wanted] = []
    if query.over == "ended":
        checks.append(lambda events: events[-1].kind == "done")
    if query.agent is not None:
        checks.append(lambda events: (History("", events[:1]).accepted.agent or "") == query.agent)
    if query.rule is not None:
        checks.append(lambda events: any(isinstance(one.data, Done) and one.data.rule == query.rule for one in events))
    if query.waited is not None:
        checks.append(lambda events: any(isinstance(one.data, Waiting | Answered) for one in events) is query.waited)
    return (lambda events: all(check(events) for check in checks)) if checks else None


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
        "Calls of all sessions that you may see, the newest first, of one status, code, tool, source, agent or owner, "
        "and accepted in some time; with `over=ended` as they ended, which are the calls behind the numbers of "
        "`/v1/stats`. A page may have few and yet a `next`: go on until there is none. Where nothing is found for a "
        "name that nothing has, `hint` says what was probably meant.",
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

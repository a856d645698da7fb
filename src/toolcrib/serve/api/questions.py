"""Questions over HTTP: those of a session, and the inbox of somebody who approves.

Whoever is named by the rules as an approver sees the questions that are put to them, and may answer those; of the
sessions that they belong to they see nothing else.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from toolcrib.events import Event
from toolcrib.policy import rules_of
from toolcrib.policy.approvers import ApprovalRequirement, demand
from toolcrib.serve.api import forms
from toolcrib.serve.api.call_list import histories
from toolcrib.serve.api.errors import ApiError, missing
from toolcrib.serve.api.pages import MOST, AmongCalls, Limit, Name, Text, owner_of, paged, place, read_mark
from toolcrib.serve.api.reach import within
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.session_cache import bounds
from toolcrib.serve.api.streams import EventStream
from toolcrib.serve.principal import Principal
from toolcrib.session import Session
from toolcrib.store import OWNER, LogPosition, Row, SessionRow, WalkedCall, WalkFilter
from toolcrib.store.codec import PAGE_BYTES, encode
from toolcrib.types import Question

_ASKING = frozenset({"waiting", "answered", "endorsed", "escalated"})
_ENDED = frozenset({"done", "settled"})
LOOK_S = 1.0
"""How long is looked for questions at once, among those that are put to others."""

TOLD = 10 * MOST
"""Open questions that a stream tells of, those of the oldest calls."""


class QuestionsQuery(Struct, forbid_unknown_fields=True):
    """Whose; of other owners only what is put to you, unless you look after all."""

    owner: Name | None = None
    after: AmongCalls | None = None
    limit: Limit = MOST


async def session_questions(request: ApiRequest) -> ApiReply:
    """What is open in a session."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    return paged([forms.question(one, session.owner) for one in await session.questions()])


async def questions(request: ApiRequest) -> ApiReply:
    """What is open in all sessions and may be answered by whoever asks, those of the oldest calls first."""
    query = request.query
    items, next = await inbox(request, query.owner, read_mark(query.after), query.limit)
    return paged(items, None if next is None else place(*next))


async def inbox(
    request: ApiRequest, owner: str | None = None, past: LogPosition | None = None, limit: int = MOST
) -> tuple[list[forms.QuestionForm], LogPosition | None]:
    """Open questions that somebody may answer, and from where to go on where there are more."""
    # Where rules name no approvers, and mostly they do not, nobody has to look further than at their own sessions.
    whose = owner if _approves(request) else owner_of(request, owner)
    where = WalkFilter(states=("waiting",), owner=whose, oldest_first=True)
    items, loop, size = list[forms.QuestionForm](), asyncio.get_running_loop(), 0
    stop = loop.time() + LOOK_S
    while True:
        spots, past = await request.api.crib.store.walk(where, past, limit=limit - len(items))
        theirs = [spot for spot in spots if spot.owner != OWNER and owner in (None, spot.owner)]
        async for spot, history in histories(request, theirs, where):
            question = history.question
            if question is not None and await _visible(request, spot, question):
                items.append(forms.question(question, spot.owner))
                size += len(encode(items[-1].arguments))
                if size >= PAGE_BYTES and (past is not None or spot is not theirs[-1]):
                    return sorted(items, key=lambda one: one.asked_at), spot.mark
        if past is None or len(items) == limit or loop.time() > stop:
            return sorted(items, key=lambda one: one.asked_at), past


async def _visible(request: ApiRequest, spot: WalkedCall, question: Question) -> bool:
    """True if whoever asks may see a question: it is in a session of theirs, or put to them."""
    principal = request.principal
    if principal.admin or spot.owner == principal.name:
        return bool(await request.api.sessions.visible([spot], principal))
    row = await request.api.crib.store.session(spot.row.session)
    return row is not None and _put_to(principal, await request.api.crib._session_table.attach(row), question)


def _demands(request: ApiRequest) -> list[ApprovalRequirement]:
    """What rules demand of those who answer; mostly nothing, and then nothing has to be looked up."""
    rules = rules_of(request.api.crib.pipeline.policy)
    if rules is None:
        return []
    general = [ApprovalRequirement(rules.people.approvers)] if rules.people.approvers else []
    return [*general, *(rule.demand for layer in rules.layers for rule in layer.rules if rule.demand)]


def _approves(request: ApiRequest) -> bool:
    """True if rules name whoever asks as an approver of anything."""
    rules = rules_of(request.api.crib.pipeline.policy)
    names = [name for one in _demands(request) for name in (*one.approvers, *one.escalate_to)]
    return rules is not None and rules.people.among(request.principal.name, names)


def _put_to(principal: Principal, session: Session, question: Question) -> bool:
    """True if a question is put to somebody by the rules, as an approver of all or of this, and their key opens it."""
    rules = rules_of(session.policy)
    if rules is None or not within([question.tool.rpartition(".")[0]], bounds(principal)):
        return False
    people = rules.people
    named = [name for one in question.demands for name in demand(one).asked]
    return people.among(principal.name, (*(people.approvers or ()), *named))


class NewAnswer(Struct, forbid_unknown_fields=True):
    """An answer. `args` are the arguments as the approver wants them.

    `actor` names who answers on a server that asks nobody who they are. With keys it is whoever holds the key.
    """

    question: Annotated[str, Meta(min_length=1, max_length=1000)]
    action: Literal["accept", "decline", "cancel", "fail"]
    value: Any = None
    args: dict[str, Any] | None = None
    reason: Text | None = None
    key: Text | None = None
    scope: Literal["once", "session"] = "once"
    actor: Name | None = None


async def answer(request: ApiRequest) -> ApiReply:
    """Answers a question, as whoever asks."""
    body, principal = request.body, request.principal
    session = await _answerable(request)
    if body.actor not in (None, principal.name):
        await _check_named(request, session)
    given_answer = await session.answer(
        body.question,
        body.action,
        body.value,
        arguments=body.args,
        reason=body.reason,
        key=body.key or None,
        scope=body.scope,
        actor=body.actor or principal.name,
    )
    return json_reply(forms.answer(given_answer))


async def _check_named(request: ApiRequest, session: Session) -> None:
    """Raises `ApiError` where an answer names somebody else, and it is known who answers or it matters."""
    if request.principal.auth != "off":
        raise ApiError("denied", "You answer for yourself", "leave `actor` out")
    question = next((one for one in await session.questions() if one.id == request.body.question), None)
    if _demands(request) or (question is not None and question.demands):
        message = "Nobody knows here who you are, and somebody's own yes is demanded"
        raise ApiError("denied", message, "serve with keys, and have each approver answer with their own")


async def _answerable(request: ApiRequest) -> Session:
    """The session of a question that somebody may answer, also where it is not theirs."""
    crib, id = request.api.crib, request.path[0]
    row = await crib.store.session(id)
    if row is not None and request.api.sessions.owns(row, request.principal):
        return await request.api.sessions.of(id, request.principal)
    call = await crib.store.call(request.body.question.rpartition("-")[0])
    if row is not None and call is not None and call.session == id and await _once_visible(request, row, call):
        return await crib._session_table.attach(row)
    raise missing()


async def _once_visible(request: ApiRequest, place: SessionRow, call: Row) -> bool:
    """True if a question was for this person, open or not: an answer that is too late gets its own error."""
    if place.owner == OWNER or not _approves(request):
        return False
    session = await request.api.crib._session_table.attach(place)
    question = (await session._history(call)).questions.get(request.body.question)
    return question is not None and _put_to(request.principal, session, question)


# Changes


async def changes(request: ApiRequest) -> None:
    """Questions as they come up and go."""
    api = request.api
    async with api.readers.of(request):
        line = api.streams.line(request.send)
        inbox_of = _Inbox(request, line)
        api.watch.join(line, inbox_of.news)
        try:
            await line.begin()
            await inbox_of.begin()
            await line.stay(request.receive)
        finally:
            api.watch.leave(line)


class _Inbox:
    """One reader's inbox, and what was sent of it."""

    def __init__(self, request: ApiRequest, line: EventStream) -> None:
        self._request = request
        self._line = line
        self._shown: set[str] = set()
        self._calls: set[str | None] = set()
        self._ended: set[str | None] | None = None
        self._stale = False
        self._ready = False
        line.freed = self._freed

    def news(self, events: list[tuple[SessionRow, Event]]) -> None:
        """Take new events. Most of them are about no question, or somebody else's."""
        if self._ended is not None:
            self._ended.update(event.call for _, event in events if event.kind in _ENDED)
        asking = {row.owner for row, event in events if event.kind in _ASKING}
        if any(event.call in self._calls for _, event in events) or (asking and self._concerned(asking)):
            self._stale = True
            self._freed(self._line)

    def _concerned(self, owners: set[str]) -> bool:
        """True if questions in sessions of these owners may be for the reader."""
        principal = self._request.principal
        return principal.admin or principal.name in owners or _approves(self._request)

    def _freed(self, line: EventStream) -> None:
        if self._stale and self._ready and not line.busy:
            line.aside(self.look())

    async def begin(self) -> None:
        """Tells what is open, and from then on what is new."""
        await self.look()
        self._ready = True
        self._freed(self._line)

    async def look(self) -> None:
        """Send what is new, and what is gone."""
        self._stale, self._ended = False, set()
        open = {one.id: one for one in await self._open()}
        gone = [_frame("gone", {"id": id}) for id in self._shown - open.keys()]
        new = [_frame("asked", open[id]) for id in open if id not in self._shown]
        self._shown, self._calls = set(open), {one.call for one in open.values()}
        self._stale = self._stale or not self._calls.isdisjoint(self._ended)  # it ended while this was looked up
        self._ended = None
        if gone or new:
            await self._line.send(b"".join((*gone, *new)))

    async def _open(self) -> list[forms.QuestionForm]:
        open, past = await inbox(self._request)
        while past is not None and len(open) < TOLD:
            more, past = await inbox(self._request, past=past)
            open += more
        return open


def _frame(kind: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(data))


ROUTES = [
    Route(
        "GET",
        "/v1/sessions/{session}/questions",
        session_questions,
        "What is open in a session, in order of acceptance.",
        gives={200: forms.Questions},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/answers",
        answer,
        "Answers a question, as you. The same answer with the same `key` again changes nothing.",
        "answer",
        body=NewAnswer,
        gives={200: forms.AnswerForm},
    ),
    Route(
        "GET",
        "/v1/questions",
        questions,
        "Open questions that you may answer, of the oldest calls first: your own, and those that rules put to you. "
        "A page may have few and yet a `next`: go on until there is none.",
        query=QuestionsQuery,
        gives={200: forms.Questions},
    ),
    Route(
        "GET",
        "/v1/questions/events",
        changes,
        "A stream of the same: `asked` with each question, first those that are open, and `gone` with the id of each "
        "that no longer is.",
        gives={},
        streams=True,
    ),
]

"""Sessions over HTTP: opening, looking, narrowing, closing."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from toolcrib.serve.api import forms
from toolcrib.serve.api.errors import ApiError, missing
from toolcrib.serve.api.pages import AmongSessions, Limit, Name, SessionId, Text, paged, place, time_and_id
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.session import Session
from toolcrib.store import OWNER, SessionRow

Grant = Annotated[str, Meta(pattern=r"^([*]|[^:]+:[^:]+(:[\s\S]+)?)$")]
_EFFECTS = {"propertyNames": {"enum": ["allow", "ask", "deny"]}}
GrantLists = Annotated[dict[Literal["allow", "ask", "deny"], list[Grant]], Meta(extra_json_schema=_EFFECTS)]
Grants = GrantLists | list[Grant]
Names = Annotated[list[Name], Meta(max_length=1000)]
COUNTED = 100_000


class SessionsQuery(Struct, forbid_unknown_fields=True):
    """Which sessions: `q` is a part of their id; of other owners only for who looks after all."""

    owner: Name | None = None
    q: Text | None = None
    state: Literal["waiting", "running", "idle"] | None = None
    after: AmongSessions | None = None
    limit: Limit = 100


class NewSession(Struct, forbid_unknown_fields=True):
    """A session to open: one of that id is restored, or made. `grants` narrow what it may do."""

    id: SessionId | None = None
    namespaces: Names | None = None
    grants: Grants | None = None


async def sessions(request: ApiRequest) -> ApiReply:
    """Sessions, the last used first."""
    query, crib = request.query, request.api.crib
    owner = query.owner if request.principal.admin else request.principal.name
    if query.owner not in (None, owner) or owner == OWNER:
        return paged([])
    busy = await _busy(request, owner=owner)
    after = time_and_id(query.after)
    last = None if after is None else SessionRow(after[1], "", 0, 0, 0.0, after[0])
    rows: list[SessionRow] = []
    more = True
    while more and len(rows) <= query.limit:
        page = await crib.store.sessions(owner, limit=500, before=last)
        more = len(page) == 500
        last = page[-1] if page else None
        fitting = [row for row in page if row.owner != OWNER and _fits(row, query, busy)]
        rows += [row for row in fitting if await request.api.sessions.sees(row, request.principal)]
    shown = rows[: query.limit]
    next = place(shown[-1].updated_at, shown[-1].id) if len(rows) > len(shown) else None
    return paged([await _listed(request, row, busy) for row in shown], next)


Busy = dict[str, Counter[str]]


async def _busy(request: ApiRequest, session: str | None = None, owner: str | None = None) -> Busy:
    """How many calls of each session wait and run: of one session, of one owner's, or of all."""
    store = request.api.crib.store
    if session is None and owner is not None:
        rows = await store.calls_of_owner(owner, limit=COUNTED)
    else:
        rows = await store.calls(session, ("waiting", "running", "queued"), limit=COUNTED)
    counts: Busy = {}
    for row in rows:
        counts.setdefault(row.session, Counter())["waiting" if row.state == "waiting" else "running"] += 1
    return counts


def _fits(row: SessionRow, query: Any, busy: Busy) -> bool:
    if query.q is not None and query.q not in row.id:
        return False
    counts = busy.get(row.id, Counter())
    return query.state is None or (not counts if query.state == "idle" else counts[query.state] > 0)


async def _listed(request: ApiRequest, row: SessionRow, busy: Busy) -> forms.SessionForm:
    crib = request.api.crib
    session = crib._session_table.at_hand(row.id)
    counts = busy.get(row.id, Counter())
    more: dict[str, Any] = {"open": session is not None and not session.shut}
    if session is not None:
        more |= {"namespaces": session.namespaces, "agent": agent_of(session)}
    if crib.agents is not None and more.get("agent") is None:
        more["agent"] = await request.api.speakers.of(crib.store, row)
    return forms.session(row, counts["waiting"], counts["running"], **more)


def agent_of(session: Session) -> str | None:
    """The agent that a message goes to, where one was at work."""
    driver = session.driver
    return None if driver is None else driver.conversation.line.active or None


async def _one(request: ApiRequest, session: Session) -> forms.SessionForm:
    row = await request.api.crib.store.session(session.id)
    if row is None:
        raise missing()
    form = await _listed(request, row, await _busy(request, session.id))
    form.namespaces, form.grants = session.namespaces, list(session.grants) or None
    form.findings = [one.text for one in session.findings] or None
    return form


async def session(request: ApiRequest) -> ApiReply:
    """One session."""
    return json_reply(await _one(request, await request.api.sessions.of(request.path[0], request.principal)))


async def open_session(request: ApiRequest) -> ApiReply:
    """Opens a session; 201 where it is new."""
    body = request.body
    opened, made = await request.api.sessions.open(body.id, request.principal, body.namespaces, body.grants or ())
    return json_reply(await _one(request, opened), 201 if made else 200)


class Close(Struct, forbid_unknown_fields=True):
    """How long what runs may take."""

    timeout: Annotated[float, Meta(ge=0, le=3600)] = 30.0


class ClosedForm(Struct):
    """What a logout found."""

    finished: int
    timed_out: int
    waiting: int
    undelivered: int


async def close(request: ApiRequest) -> ApiReply:
    """Logs out."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    closed = await session.close(request.body.timeout)
    return json_reply(ClosedForm(*closed))


# Changing


async def set_user(request: ApiRequest) -> ApiReply:
    """What the client says of its user."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    await session.set_user(request.body)
    return json_reply(UserForm(dict(session.user)))


class Narrower(Struct, forbid_unknown_fields=True):
    """What stays open."""

    namespaces: Names | None = None
    grants: Grants | None = None


async def narrow(request: ApiRequest) -> ApiReply:
    """Takes rights away."""
    session, body = await request.api.sessions.of(request.path[0], request.principal), request.body
    if body.namespaces is None and not body.grants:
        raise ApiError("invalid_arguments", "There is nothing to narrow", "send namespaces or grants")
    await session.narrow(namespaces=body.namespaces, grants=body.grants)
    return json_reply(await _one(request, session))


class Interrupt(Struct, forbid_unknown_fields=True):
    """Whether calls in the background stop too."""

    background: bool = False


class StoppedForm(Struct):
    """How many calls were stopped."""

    stopped: int


async def interrupt(request: ApiRequest) -> ApiReply:
    """Stops what runs or waits."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    return json_reply(StoppedForm(await session.interrupt(background=request.body.background)))


class UserForm(Struct):
    """What the client said of its user."""

    user: dict[str, Any]


ROUTES = [
    Route(
        "GET",
        "/v1/sessions",
        sessions,
        "Sessions, the last used first: your own, and for who looks after the server everybody's.",
        query=SessionsQuery,
        gives={200: forms.Sessions},
    ),
    Route(
        "POST",
        "/v1/sessions",
        open_session,
        "Opens a session of yours: restores the one of that id, or makes it.",
        "call",
        body=NewSession,
        gives={200: forms.SessionForm, 201: forms.SessionForm},
    ),
    Route("GET", "/v1/sessions/{session}", session, "One session.", gives={200: forms.SessionForm}),
    Route(
        "POST",
        "/v1/sessions/{session}/close",
        close,
        "Logs out: waits for what runs, ends the rest at the timeout, loses nothing.",
        "call",
        body=Close,
        gives={200: ClosedForm},
    ),
    Route(
        "PUT",
        "/v1/sessions/{session}/user",
        set_user,
        "Sets what tools see as `ctx.user`. It gives no rights.",
        "call",
        body=dict[str, Any],
        gives={200: UserForm},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/narrow",
        narrow,
        "Takes rights away, from the next call on.",
        "call",
        body=Narrower,
        gives={200: forms.SessionForm},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/interrupt",
        interrupt,
        "Stops what runs or waits in the foreground, or all.",
        "call",
        body=Interrupt,
        gives={200: StoppedForm},
    ),
]

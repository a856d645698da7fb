"""Calls over HTTP. `make` is the path that has to be quick: arguments reach the tool's parser as they were sent."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from toolcrib.calls.history import History
from toolcrib.calls.live import LiveCall
from toolcrib.serve.api import forms
from toolcrib.serve.api.errors import Problem, missing
from toolcrib.serve.api.paging import Limit, Name, Seconds, Text, paged, place, read_place
from toolcrib.serve.api.request import Request, given
from toolcrib.serve.api.routing import Reply, Route
from toolcrib.serve.asgi import Gone, Receive, gone
from toolcrib.session import Session, queued
from toolcrib.store import Row, State
from toolcrib.store.codec import encode
from toolcrib.types import By, Result, Status, Wake

KEY = b"idempotency-key"
_ENDED: dict[str | None, Status] = {
    None: "succeeded",
    "cancelled": "cancelled",
    "timeout": "timed_out",
    "unknown": "unknown",
}
_STATES: dict[str, State] = {"queued": "queued", "waiting": "waiting", "running": "running", "streaming": "running"}
Some = Annotated[str, Meta(min_length=1, max_length=1000)]


class NewCall(Struct, forbid_unknown_fields=True):
    """A call to make.

    `wait` is whether the answer is the result, however long that takes; with a number of seconds the call itself comes
    back where it takes longer. A caller who leaves changes nothing, unless the call was made `cancel_on_disconnect`.
    """

    tool: Some
    args: Raw | UnsetType = UNSET
    label: Text | None = None
    key: Some | None = None
    background: bool | None = None
    wake: Wake | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=86400)] | None = None
    provider_id: Text | None = None
    wait: bool | Seconds = True
    cancel_on_disconnect: bool = False


_OPTIONS = ("label", "key", "background", "wake", "timeout_s", "provider_id")


async def make(asked: Request) -> Reply:
    """Makes a call; its result, or the call where nobody waits for it."""
    api, body, principal = asked.api, asked.body, asked.principal
    session = api.rooms.known(asked.path[0], principal) or await api.rooms.of(asked.path[0], principal)
    options = {name: value for name in _OPTIONS if (value := getattr(body, name)) is not None}
    if KEY in asked.headers:
        options["key"] = _key(asked.headers[KEY], body.key)
    by = api.by.get(principal.name)
    if by is None:
        by = api.by[principal.name] = By("user", principal.name)
    args = b"{}" if body.args is UNSET else bytes(body.args)
    if body.wait is False:
        call = await session.submit(body.tool, args, by=by, **options)
        return given(forms.call(call, "queued"), 202)
    live = session.new_call(body.tool, args, options)
    live.by, live.wanted = by, True
    await session.accept(live)
    id = live.id if live.row is None else live.row.id
    if live.result is not None:
        return Reply(forms.result(id, live.result))
    if live.background and live.row is not None:
        return Reply(forms.result(id, queued(id)))
    live.cancel_on_disconnect = body.cancel_on_disconnect
    return await _outcome(asked, session, live, id)


async def _outcome(asked: Request, session: Session, live: LiveCall, id: str) -> Reply:
    """Waits for a call that takes a while, as long as somebody wants to hear of it."""
    wait = asked.body.wait
    work = asyncio.ensure_future(session.outcome(live))
    try:
        done = await attend(work, asked.receive, None if wait is True else float(wait))
    except Gone:
        work.cancel()
        raise
    if not done:
        live.cancel_on_disconnect = False
        work.cancel()
        return given(await _call(session, id), 202)
    return Reply(forms.result(id, work.result()))


async def attend(work: asyncio.Future[Any], receive: Receive, seconds: float | None) -> bool:
    """Waits for something as long as its reader is there; whether it is done.

    Raises:
        Gone: the reader hung up.
    """
    left = asyncio.ensure_future(gone(receive))
    try:
        done, _ = await asyncio.wait({work, left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
    if work not in done and left in done:
        raise Gone
    return work in done


def _key(header: bytes, other: str | None) -> str:
    key = header.decode("latin-1").strip()
    if not key or len(key) > 1000:
        raise Problem("invalid_arguments", "Idempotency-Key has 1 to 1000 characters")
    if other not in (None, key):
        raise Problem("invalid_arguments", "Idempotency-Key and `key` differ", "send one of them")
    return key


async def _call(session: Session, id: str) -> forms.CallForm:
    history = await session.history(await session.row(id))
    return forms.call(history.call(), history.status)


# Looking


class CallsQuery(Struct, forbid_unknown_fields=True):
    """Which calls."""

    state: Status | None = None
    tool: Name | None = None
    after: Text | None = None
    limit: Limit = 100


def status_of(row: Row) -> Status:
    """Where a call stands, by its row."""
    return _ENDED.get(row.code, "failed") if row.state == "done" else row.state


def fits(row: Row, query: Any) -> bool:
    """Whether a call is one that is asked for; one that streams runs."""
    wanted = "running" if query.state == "streaming" else query.state
    return wanted in (None, status_of(row)) and query.tool in (None, row.tool, row.tool.rpartition(".")[2])


def states_of(state: str | None) -> tuple[str, ...]:
    """What the store has to look for."""
    return () if state is None else (_STATES.get(state, "done"),)


async def calls(asked: Request) -> Reply:
    """The calls of a session, in order of acceptance."""
    session, query = await asked.api.rooms.of(asked.path[0], asked.principal), asked.query
    after = read_place(query.after, tuple[int])
    store = asked.api.crib.store
    await store.flush()
    rows = await store.calls(session.id, states_of(query.state), limit=100_000)
    wanted = [row for row in rows if fits(row, query) and (after is None or row.accepted_seq > after[0])]
    page = wanted[: query.limit]
    entries = [forms.entry((await session.history(row)).entry()) for row in page]
    return paged(entries, place(page[-1].accepted_seq) if len(wanted) > len(page) else None)


class CallDetail(forms.EntryForm, omit_defaults=True):
    """A call with all that its log says of it."""

    args: Any = None
    digest: str = ""
    by: dict[str, str] | None = None
    run: str | None = None
    agent: str | None = None
    parent: str | None = None
    verdict: dict[str, Any] | None = None
    question: forms.QuestionForm | None = None
    edited: dict[str, Any] | None = None


async def call(asked: Request) -> Reply:
    """One call: arguments, verdict, question, result."""
    session, row = await _found(asked)
    history, verdict = History(session.id), None
    after = row.accepted_seq - 1
    while page := await asked.api.crib.store.read(session.id, after, call=row.id, limit=1000):
        for event in page:
            history.advance(event)
            verdict = event.data.get("verdict", verdict)
        after = page[-1].seq
    said, asks = history.accepted, history.question
    base = forms.entry(history.entry(), session=session.id, owner=session.owner)
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    return given(
        CallDetail(
            **fields,
            args=(history.started or {}).get("args", said.get("args")),
            digest=(history.started or said)["digest"],
            by=said.get("by"),
            run=said.get("run"),
            agent=said.get("agent"),
            parent=said.get("parent"),
            verdict=verdict,
            question=None if asks is None else forms.question(asks),
            edited=history.edited,
        )
    )


async def _found(asked: Request) -> tuple[Session, Row]:
    """The call that a path names."""
    session = await asked.api.rooms.of(asked.path[0], asked.principal)
    await asked.api.crib.store.flush()
    row = await asked.api.crib.store.call(asked.path[1])
    if row is None or row.session != session.id:
        raise missing("call")
    return session, row


class Wait(Struct, forbid_unknown_fields=True):
    """How many seconds to wait for it."""

    wait: Seconds = 0.0


class NotYet(Struct):
    """A call that is not done."""

    call: str
    state: Status


async def outcome(asked: Request) -> Reply:
    """The result of a call, or how far it is."""
    session, row = await _found(asked)
    if row.state == "done":
        return Reply(forms.result(row.id, await session.result(row.id)))
    if asked.query.wait:
        work: asyncio.Future[Result] = asyncio.ensure_future(session.result(row.id))
        try:
            if await attend(work, asked.receive, asked.query.wait):
                return Reply(forms.result(row.id, work.result()))
        finally:
            work.cancel()
    return given(NotYet(row.id, (await session.status(row.id)).status), 202)


# Stopping, and once more


class Cancelled(Struct):
    """Whether there was something to stop."""

    cancelled: bool


async def cancel(asked: Request) -> Reply:
    """Stops a call."""
    session, row = await _found(asked)
    return given(Cancelled(await session.cancel(row.id)))


async def again(asked: Request) -> Reply:
    """Makes the same call anew, with the arguments that it was made with."""
    session, row = await _found(asked)
    history = await session.history(row)
    kept = await asked.api.crib.store.kept(session.id, f"args:{row.id}") if history.accepted.get("secret") else None
    args = kept or encode(history.accepted.get("args"))
    call = await session.submit(row.tool, args, by=By("user", asked.principal.name), label=history.accepted["label"])
    return given(forms.call(call, "queued"), 202)


ROUTES = [
    Route(
        "POST",
        "/v1/sessions/{session}/calls",
        make,
        "Makes a call and gives its result. With `wait: false` it gives the accepted call at once, with `wait: 5` if "
        "it takes longer. The header `Idempotency-Key`, or `key`, makes the same request again give the same call.",
        "call",
        body=NewCall,
        gives={200: forms.ResultForm, 202: forms.CallForm},
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
    Route(
        "GET",
        "/v1/sessions/{session}/calls/{call}/result",
        outcome,
        "The result of a call; 202 where it is not done within `wait` seconds.",
        query=Wait,
        gives={200: forms.ResultForm, 202: NotYet},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/calls/{call}/cancel",
        cancel,
        "Stops a call, and answers when it has ended.",
        "call",
        gives={200: Cancelled},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/calls/{call}/again",
        again,
        "Makes the same call anew: same tool, same arguments.",
        "call",
        gives={202: forms.CallForm},
    ),
]

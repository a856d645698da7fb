"""The calls of a session, listed and one by one with all that its log says of it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from toolcrib.calls.history import History
from toolcrib.serve.api import forms
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.paging import Limit, Name, Text, paged, place, read_place
from toolcrib.serve.api.request import Request, given
from toolcrib.serve.api.routing import Reply, Route
from toolcrib.session import Session
from toolcrib.store import Row, State
from toolcrib.types import Status

_ENDED: dict[str | None, Status] = {
    None: "succeeded",
    "cancelled": "cancelled",
    "timeout": "timed_out",
    "unknown": "unknown",
}
_STATES: dict[str, State] = {"queued": "queued", "waiting": "waiting", "running": "running", "streaming": "running"}


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
    session, row = await found(asked)
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


async def found(asked: Request) -> tuple[Session, Row]:
    """The call that a path names."""
    session = await asked.api.rooms.of(asked.path[0], asked.principal)
    await asked.api.crib.store.flush()
    row = await asked.api.crib.store.call(asked.path[1])
    if row is None or row.session != session.id:
        raise missing("call")
    return session, row


ROUTES = [
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

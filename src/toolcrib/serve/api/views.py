"""What a session shows of itself: the three lists, its state, and outputs that were too large for a result."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from toolcrib.serve.api import forms
from toolcrib.serve.api.paging import Limit, Seq
from toolcrib.serve.api.request import Request, given
from toolcrib.serve.api.routing import Reply, Route
from toolcrib.serve.api.sessions import COUNTED, agent_of
from toolcrib.state import State
from toolcrib.types import Change


class At(Struct, forbid_unknown_fields=True):
    """As of which event; now, unless said. Of what is done the newest, at most `limit`."""

    at: Seq | None = None
    limit: Limit = 100


class ListsForm(Struct):
    """The three lists: each accepted call is in exactly one."""

    unresolved: list[forms.EntryForm]
    ongoing: list[forms.EntryForm]
    completed: list[forms.EntryForm]


async def lists(asked: Request) -> Reply:
    """The three lists of a session."""
    found, query = await asked.api.rooms.of(asked.path[0], asked.principal), asked.query
    store = asked.api.crib.store
    await store.flush()
    if query.at is None:
        rows = await store.calls(found.id, done_after=0, limit=COUNTED)
        done = [(await found.history(row)).entry() for row in rows[-query.limit :]]
    else:
        done = (await found.completed(at=query.at))[-query.limit :]
    before = await found.unresolved(query.at), await found.ongoing(query.at)
    unresolved, ongoing = ([forms.entry(one) for one in some] for some in before)
    return given(ListsForm(unresolved, ongoing, [forms.entry(one) for one in done]))


class StateAt(Struct, forbid_unknown_fields=True):
    """As of which event; now, unless said."""

    at: Seq | None = None


class StateForm(Struct, omit_defaults=True):
    """What tools keep in a session, the agent that a message goes to, and what the client said of its user."""

    state: dict[str, Any]
    revision: int
    user: dict[str, Any]
    agent: str | None = None


async def state(asked: Request) -> Reply:
    """The state of a session."""
    found, crib = await asked.api.rooms.of(asked.path[0], asked.principal), asked.api.crib
    await crib.store.flush()
    if asked.query.at is None:
        await found.reload_state()
        now = found.state.now
        return given(StateForm(dict(now), now.revision, dict(found.user), agent_of(found)))
    past, user, seq = State(crib.state_keys), {}, 0
    while page := await crib.store.read(found.id, seq, until=asked.query.at, limit=1000):
        for event in page:
            seq = event.seq
            if event.kind == "user_state":
                user = event.data
            elif event.kind == "run_ended":
                past.end(event.data["run"])
            elif event.kind == "done" and (said := event.data.get("state")) is not None:
                past.commit([Change(**one) for one in said["changes"]], said["base"], event.call or "", said.get("run"))
    return given(StateForm(dict(past.now), past.now.revision, user))


class Piece(Struct, forbid_unknown_fields=True):
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


async def output(asked: Request) -> Reply:
    """A piece of an output that was too large for its result."""
    found, query, id = await asked.api.rooms.of(asked.path[0], asked.principal), asked.query, asked.path[1]
    text = await found.output(id, query.offset, query.limit)
    total = len(await asked.api.crib.store.kept(found.id, id) or b"")
    end = query.offset + query.limit
    return given(OutputForm(id, query.offset, total, text, end if end < total else None))


ROUTES = [
    Route(
        "GET",
        "/v1/sessions/{session}/lists",
        lists,
        "The three lists of calls, now or as of an event.",
        query=At,
        gives={200: ListsForm},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/state",
        state,
        "What tools keep in the session, now or as of an event.",
        query=StateAt,
        gives={200: StateForm},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/outputs/{output}",
        output,
        "A piece of an output that was too large for its result.",
        query=Piece,
        gives={200: OutputForm},
    ),
]

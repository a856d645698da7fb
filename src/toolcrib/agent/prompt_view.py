"""The prompts of a session: each request to a model as the model saw it, computed from the log.

The messages are those that the fold of the log gives at the event where the request was made; instructions and tools
are kept beside the log. The digest that the log has of the messages tells whether they are the very same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import msgspec

from toolcrib.agent.attachments import fitted, without_files
from toolcrib.agent.conversation import Conversation
from toolcrib.agent.loop import SUMMARISE
from toolcrib.agent.models import CompletionRequest, Message, ToolView
from toolcrib.agent.prompt_record import digest, intake, kept_id
from toolcrib.agent.replies import REFUSED
from toolcrib.agent.transcript import Transcript, rendered
from toolcrib.errors import Refused
from toolcrib.events import (
    Compacted,
    Event,
    HandedOver,
    MessageAdded,
    ModelRequestRecord,
    RunFinished,
    TurnStarted,
)
from toolcrib.store import Store

PAGE = 1000
UNRECORDED = "The log does not say what instructions and tools the model had: an earlier version wrote it."
UNDER_WAY = "The model has not replied yet: instructions and tools are told with its reply."
CHANGED = "The messages are not those that the model was sent: their digest is another."
LOST = "The instructions or tools that the model had are not kept any more."


@dataclass(slots=True)
class ModelPrompt:
    """A request to a model: what it was sent, and what of it had changed since the request before.

    `seq` is the event that has the reply, or that of the turn where there is none; `at` is when the model was asked.
    `exact` is true where the digest of the log is that of these messages, and `notes` say what is missing otherwise.
    `previous` is the request before of the same agent in the same conversation, of whose messages the first `same`
    are the same; `dropped` of its messages are not sent any more.
    """

    seq: int
    run: str
    agent: str
    turn: int | None
    at: float
    purpose: str
    messages: list[Message]
    instructions: str | None = None
    tools: list[ToolView] | None = None
    exact: bool = False
    notes: list[str] = field(default_factory=list)
    previous: int | None = None
    same: int = 0
    dropped: int = 0
    instructions_before: str | None = None
    tools_before: list[str] | None = None


@dataclass(frozen=True, slots=True)
class _PromptPlace:
    """A request as the log tells of it: where it stands, and which events it was made of."""

    seq: int
    run: str
    agent: str
    turn: int | None
    at: float
    basis: int
    record: ModelRequestRecord | None
    summarised: Compacted | HandedOver | None = None


async def prompt_at(store: Store, session: str, seq: int) -> ModelPrompt:
    """Return the request to a model that an event tells of: a turn, a reply, a summary, or the end of a run.

    Raises:
        Refused: `not_found`, it tells of none.
    """
    event = next(iter(await store.read(session, seq - 1, until=seq, limit=1)), None)
    place, before, messages = await _looked_up(store, session, event)
    prompt = await _shown(store, session, place, messages)
    if before is not None:
        _, _, old = await _folded(store, session, before, {})
        older = await _shown(store, session, before, old)
        _compare(prompt, older)
    return prompt


def _compare(prompt: ModelPrompt, older: ModelPrompt) -> None:
    """Say what has changed since the request before."""
    pairs = zip(prompt.messages, older.messages, strict=False)
    prompt.same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    prompt.previous, prompt.dropped = older.seq, len(older.messages) - prompt.same
    prompt.instructions_before = older.instructions if older.instructions != prompt.instructions else None
    if older.tools is not None and older.tools != prompt.tools:
        prompt.tools_before = [tool.name for tool in older.tools]


async def _looked_up(
    store: Store, session: str, event: Event | None
) -> tuple[_PromptPlace, _PromptPlace | None, list[Message]]:
    """The request that an event tells of, the one before it, and its messages."""
    turns: dict[str, Event] = {}
    match None if event is None else event.data:
        case TurnStarted() as turn:
            assert event is not None
            place = await _reply_of(store, session, event, turn)
        case MessageAdded(role="assistant") | Compacted() | HandedOver() | RunFinished() as data:
            assert event is not None
            place = await _behind(store, session, event, data, turns)
        case _:
            raise Refused("not_found", "This event tells of no request to a model")
    return await _folded(store, session, place, turns)


async def _reply_of(store: Store, session: str, event: Event, turn: TurnStarted) -> _PromptPlace:
    """The request of a turn: with its reply, where there is one by now."""
    async for later in _events(store, session, event.seq, outside_calls=True):
        match later.data:
            case MessageAdded(role="assistant", run=run, turn=number) if (run, number) == (turn.run, turn.turn):
                return _place(later, later.data, event)
            case RunFinished(run=run) if run == turn.run:
                return _place(later, later.data, event)
            case TurnStarted(run=run) if run == turn.run:
                break
    return _PromptPlace(event.seq, turn.run, turn.agent, turn.turn, event.at, event.seq, None)


async def _behind(store: Store, session: str, event: Event, data: Any, turns: dict[str, Event]) -> _PromptPlace:
    """The request behind an event that has come of one."""
    if not isinstance(data, MessageAdded) and data.request is None:
        raise Refused("not_found", "This event tells of no request to a model")
    async for earlier in _events(store, session, 0, event.seq, outside_calls=True):
        if isinstance(earlier.data, TurnStarted):
            turns[earlier.data.run] = earlier
    return _place(event, data, turns.get(data.run or ""))


def _place(event: Event, data: Any, turn: Event | None) -> _PromptPlace:
    agent = data.source if isinstance(data, HandedOver) else data.agent
    summary = data if isinstance(data, Compacted | HandedOver) else None
    record, number = data.request, None if turn is None else turn.data.turn
    started = event if turn is None else turn
    at = started.at if record is None or record.at is None else record.at
    basis = started.seq if record is None else record.seq
    if isinstance(data, HandedOver):
        basis = event.seq - 1  # the call that handed over had ended, and its events stand between
    return _PromptPlace(event.seq, data.run or "", agent or "", number, at, basis, record, summary)


async def _folded(
    store: Store, session: str, place: _PromptPlace, turns: dict[str, Event]
) -> tuple[_PromptPlace, _PromptPlace | None, list[Message]]:
    """A request with the one before it in its conversation, and the messages that the log gives for it."""
    conversation = Conversation()
    before: dict[tuple[int, str], _PromptPlace] = {}
    async for event in _events(store, session, 0, place.basis):
        if event.kind == TurnStarted.kind:
            turns[event.data.run] = event
        elif event.kind in _REPLIES and (one := _answered(event, turns)) is not None and one.run in conversation.runs:
            before[id(conversation.runs[one.run].line), one.agent] = one
        conversation.advance(event)
    run = conversation.runs.get(place.run)
    line = conversation.line if run is None else run.line
    return place, before.get((id(line), place.agent)), _messages(line, place)


_REPLIES = (MessageAdded.kind, RunFinished.kind)


def _answered(event: Event, turns: dict[str, Event]) -> _PromptPlace | None:
    """The request of a turn that an event tells of, if it tells of one."""
    match event.data:
        case MessageAdded(role="assistant", run=str(run)) | RunFinished(run=run, request=ModelRequestRecord()):
            return _place(event, event.data, turns.get(run))
    return None


def _messages(line: Transcript, place: _PromptPlace) -> list[Message]:
    """What an agent sees of a conversation; for a summary, of the part that is summarised."""
    view = line.views.get(place.agent, [])
    if place.summarised is None:
        return rendered(view)
    if isinstance(place.summarised, Compacted):
        first, last = place.summarised.from_seq, place.summarised.to_seq
        view = [item for item in view if first <= item.seq <= last]
    return [*rendered(view), Message("user", SUMMARISE)]


async def _shown(store: Store, session: str, place: _PromptPlace, messages: Sequence[Message]) -> ModelPrompt:
    """The request as the model saw it, as far as the log and what is kept beside it tell."""
    record = place.record
    purpose = "turn" if place.summarised is None else "summary"
    prompt = ModelPrompt(place.seq, place.run, place.agent, place.turn, place.at, purpose, list(messages))
    if record is None:
        prompt.notes.append(UNDER_WAY if place.seq == place.basis else UNRECORDED)
        return prompt
    if record.files is not None:
        prompt.messages = await _with_files(store, session, record, messages)
    system = await store.kept(session, kept_id(record.instructions))
    tools = await store.kept(session, kept_id(record.tools))
    prompt.instructions = None if system is None else system.decode()
    prompt.tools = None if tools is None else msgspec.json.decode(tools, type=list[ToolView])
    same = digest(prompt.messages) == record.messages
    prompt.notes += [LOST] * (system is None or tools is None) + [CHANGED] * (not same)
    prompt.exact = not prompt.notes
    return prompt


async def _with_files(
    store: Store, session: str, record: ModelRequestRecord, messages: Sequence[Message]
) -> list[Message]:
    """The messages with the files that the model took, and with placeholders for the others."""

    async def load(id: str) -> bytes | None:
        return await store.kept(session, id)

    request = await fitted(CompletionRequest("", None, tuple(messages)), intake(record.files or {}), load)
    if record.bare:
        request = without_files(request, REFUSED) or request
    return list(request.messages)


async def _events(
    store: Store, session: str, after: int, until: int | None = None, *, outside_calls: bool = False
) -> AsyncIterator[Event]:
    """The events of a log, page by page; with `outside_calls` only those that belong to no call."""
    while page := await store.read(session, after, until=until, limit=PAGE, call="" if outside_calls else None):
        for event in page:
            yield event
        after = page[-1].seq


async def last_request(store: Store, session: str) -> int:
    """Return the number of the last event that tells of a request to a model; 0 where there is none."""
    last = 0
    async for event in _events(store, session, 0, outside_calls=True):
        if event.kind == TurnStarted.kind or (event.kind in _REPLIES and _answered(event, {}) is not None):
            last = event.seq
    return last

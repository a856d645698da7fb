"""One session as a file: JSON lines with its log, large values and cursors, and a checksum; written, read, taken in.

What stands in the file is what the log says. Arguments that a person typed in secret are kept apart from the log, and
are not in it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

import msgspec

from toolcrib._session.call_index import FoldedCall
from toolcrib._session.session_ids import imported_id
from toolcrib.errors import Refused
from toolcrib.events import Done, Event, RunFinished, RunStarted, SessionDeleted
from toolcrib.store import OWNER, SECRET, Archive, Row, SessionRow, Store, Write, draft
from toolcrib.store.codec import Stored, decode, encode, split_large
from toolcrib.types import Failure

VERSION = 1
PAGE = 200
UNDER_WAY = Failure("unknown", "It was under way where the session was exported: it may have run there")
WAITED = Failure("cancelled", "It waited for an answer where the session was exported")


class Exported(msgspec.Struct):
    """The first line of an exported session."""

    toolcrib: str
    version: int
    id: str
    owner: str
    revision: int
    created_at: float
    updated_at: float
    exported_at: float


class Contents(NamedTuple):
    """An exported session that was read and found to be whole."""

    about: Exported
    events: list[Event]
    kept: dict[str, bytes]
    cursors: dict[str, int]
    secret: set[str]


async def export(store: Store, row: SessionRow, at: float) -> AsyncIterator[bytes]:
    """The lines of a session as it is now."""
    digest, count, inside = hashlib.sha256(), 0, set[str]()

    def line(value: Any) -> bytes:
        text = encode(value) + b"\n"
        digest.update(text)
        return text

    yield line(
        Exported("session", VERSION, row.id, row.owner, row.revision, row.created_at, row.updated_at, exported_at=at)
    )
    async for event in _log(store, row):
        count += 1
        inside.update(part.id for part in split_large(event.kind, Stored(event.json))[1].values())
        yield line({"event": _values(event)})
    cursors, kept = await store.belongings(row.id)
    for id in kept:
        if id not in inside and not id.startswith(SECRET) and (content := await store.kept(row.id, id)) is not None:
            yield line({"kept": [id, base64.b64encode(content).decode()]})
    yield line({"cursors": cursors, "secret": [id.split(":")[1] for id in kept if id.startswith(SECRET)]})
    yield encode({"end": {"events": count, "sha256": digest.hexdigest()}}) + b"\n"


async def log_digest(store: Store, row: SessionRow) -> str:
    """A digest of all events of a session."""
    digest = hashlib.sha256()
    async for event in _log(store, row):
        digest.update(encode(_values(event)) + b"\n")
    return digest.hexdigest()


def _values(event: Event) -> list[Any]:
    return [event.seq, event.at, event.call, event.kind, msgspec.Raw(msgspec.json.format(event.json, indent=-1))]


async def _log(store: Store, row: SessionRow) -> AsyncIterator[Event]:
    last = 0
    while last < row.seq and (page := await store.read(row.id, last, limit=PAGE, until=row.seq)):
        for event in page:
            yield event
        last = page[-1].seq


def read(lines: Iterable[bytes]) -> Contents:
    """Reads an exported session and checks all of it.

    Raises:
        Refused: `invalid_arguments`, it is none, or damaged.
    """
    try:
        return _read(iter(lines))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, StopIteration) as error:
        why = "it is empty" if isinstance(error, StopIteration) else str(error) or type(error).__name__
        raise Refused("invalid_arguments", f"This is no whole exported session: {why}", "export it anew") from None


def _read(lines: Any) -> Contents:
    first = next(lines)
    digest = hashlib.sha256(first)
    about = msgspec.json.decode(first, type=Exported)
    if about.toolcrib != "session" or about.version > VERSION:
        raise ValueError(f"it has version {about.version}, this program knows {VERSION}")
    contents = Contents(about, [], {}, {}, set())
    for line in lines:
        value = decode(line)
        if "end" in value:
            if value["end"] != {"events": len(contents.events), "sha256": digest.hexdigest()}:
                raise ValueError("its checksum does not fit")
            if any(rest.strip() for rest in lines):
                raise ValueError("there is more behind its end")
            return contents
        digest.update(line)
        _take(contents, value, line)
    raise ValueError("its end is missing")


class _EventLine(msgspec.Struct):
    event: tuple[int, float, str | None, str, msgspec.Raw]


def _take(contents: Contents, value: dict[str, Any], line: bytes) -> None:
    if "event" in value:
        seq, at, call, kind, data = msgspec.json.decode(line, type=_EventLine).event
        if not isinstance(value["event"][4], dict):
            raise ValueError(f"event {seq} has no data")
        event = Event(seq, at, call, kind, bytes(data))  # the text as it was: 1.50 is not made 1.5
        if event.seq != len(contents.events) + 1:
            raise ValueError(f"event {len(contents.events) + 1} is missing")
        contents.events.append(event)
    elif "kept" in value:
        id, text = value["kept"]
        contents.kept[str(id)] = base64.b64decode(text, validate=True)
    else:
        contents.cursors.update(msgspec.convert(value["cursors"], dict[str, int]))
        contents.secret.update(msgspec.convert(value["secret"], list[str]))


async def import_session(
    store: Store, lines: Iterable[bytes], id: str | None, owner: str | None, at: float
) -> SessionRow:
    """Makes a session of what was exported, under its own id and owner or under others, once all was checked.

    Raises:
        Refused: `invalid_arguments`, it is damaged; `conflict`, there is a session of that id.
    """
    contents = read(lines)
    owner = owner or contents.about.owner
    id = imported_id(id or contents.about.id, owner)
    await store.session(contents.about.id)  # if it is in an archive, its calls are here now and keep their ids
    imported = await store.session(id) is None and await take_in(store, contents, id, owner, at)
    row = await store.session(id) if imported else None
    if row is None:
        raise Refused("conflict", f"There is a session '{id}'", "import it under another id")
    return row


async def take_in(store: Store, contents: Contents, id: str, owner: str, at: float) -> bool:
    """Makes the session that a file holds, at once; False where the id is taken.

    Its calls get new ids where the store has calls of theirs. What was queued or running ends `unknown`: it may have
    run where it was exported. What waits waits on under its own id and owner; under others, for which nobody approved
    anything, or where its arguments are secret and so not in the file, it ends.
    """
    events = await _renamed(store, contents.events)
    calls, ends = folded(id, events), list[Event]()
    same = (id, owner) == (contents.about.id, contents.about.owner) and events is contents.events
    for call in calls.values():
        waits = same and call.states[0] == "waiting" and call.history.id not in contents.secret
        if call.states[0] != "done" and not waits:
            failure = WAITED if "waiting" in call.states else UNDER_WAY
            done = Done(ok=False, failure=failure, duration_ms=0)
            ends.append(Event.of(len(events) + len(ends) + 1, at, call.history.id, done))
    ends += _finished(events, calls, {end.call for end in ends}, len(events) + len(ends), at)
    rows = [call.row() for call in folded(id, [*events, *ends]).values()]
    row = SessionRow(id, owner, len(events) + len(ends), contents.about.revision, contents.about.created_at, at)
    return await store.adopt(Archive(row, [*events, *ends], rows, contents.cursors, contents.kept))


def _finished(
    events: list[Event], calls: dict[str, FoldedCall], ended: set[str | None], last: int, at: float
) -> list[Event]:
    """The ends of runs of which nothing waits."""
    open_runs: dict[str, str] = {}
    for event in events:
        match event.data:
            case RunStarted(run=run, agent=agent):
                open_runs[run] = agent
            case RunFinished(run=run):
                open_runs.pop(run, None)
    waiting = {
        call.history.accepted.run for id, call in calls.items() if call.states[0] == "waiting" and id not in ended
    }
    messages = [
        RunFinished(run=run, agent=agent, reason="cancelled", turns=0, usage={})
        for run, agent in open_runs.items()
        if run not in waiting
    ]
    return [Event.of(last + number, at, None, data) for number, data in enumerate(messages, 1)]


def folded(session: str, events: Iterable[Event]) -> dict[str, FoldedCall]:
    """The calls of a log.

    Raises:
        Refused: `invalid_arguments`, it does not hold.
    """
    calls: dict[str, FoldedCall] = {}
    try:
        for event in events:
            if event.call is not None:
                calls.setdefault(event.call, FoldedCall(session, event)).take(event)
        rows: list[Row] = [call.row() for call in calls.values()]
    except Exception as error:  # noqa: BLE001 - whatever a foreign log holds
        raise Refused("invalid_arguments", f"The log does not hold: {type(error).__name__}: {error}") from None
    if len(rows) != sum(call.known for call in calls.values()):
        raise Refused("invalid_arguments", "The log does not hold: a call has no beginning")
    return calls


async def _renamed(store: Store, events: list[Event]) -> list[Event]:
    """The same events with new ids of calls, where the store has a call of one of those ids."""
    ids = list(dict.fromkeys(event.call for event in events if event.call is not None))
    if not any([await store.call(id) is not None for id in ids]):
        return events
    mark = hashlib.sha256(encode([ids, len(events)]) + encode(events[0].at)).hexdigest()[:8]
    number = 0
    while await store.call(f"{ids[0]}-{mark}{number}") is not None:
        number += 1
    new = {id: f"{id}-{mark}{number}" for id in ids}
    known = re.compile(f"(?:{'|'.join(sorted(map(re.escape, ids), key=len, reverse=True))})(?![0-9A-Za-z])")

    def renamed(text: str) -> str:
        return known.sub(lambda match: new[match.group()], text)

    return [
        Event(
            event.seq,
            event.at,
            event.call and new[event.call],
            event.kind,
            renamed(event.json.decode()).encode(),
        )
        for event in events
    ]


# Deleting


GRAVES = f"{OWNER}.deleted"
"""The session whose log has a line for each session that was deleted."""


async def delete(store: Store, id: str, actor: str, at: float, namespaces: Iterable[str]) -> SessionDeleted:
    """Deletes a session and leaves its tombstone.

    Raises:
        Refused: `not_found`; `conflict`, calls run in it.
    """
    await store.open(GRAVES, OWNER, at)
    row = await store.session(id)
    if row is None or row.owner == OWNER:
        raise Refused("not_found", f"There is no session '{id}'")
    calls = len(await store.calls(id, limit=10_000_000))
    digest, opened = await log_digest(store, row), tuple(sorted(namespaces))
    stone = SessionDeleted(id, row.owner, actor, at, row.seq, calls, digest, opened)
    if not await store.delete(id, Write(GRAVES, [draft(at, None, stone)])):
        raise Refused("conflict", f"Calls run in session '{id}'", "close it first, or delete it with force")
    return stone


async def tombstones(store: Store, owner: str | None = None) -> list[SessionDeleted]:
    """The sessions that were deleted, or those of one owner, the first deleted first."""
    deletions, last = list[SessionDeleted](), 0
    while await store.session(GRAVES) is not None and (page := await store.read(GRAVES, last, limit=1000)):
        last = page[-1].seq
        deletions += [event.data for event in page if isinstance(event.data, SessionDeleted)]
    return [stone for stone in deletions if owner in (None, stone.owner)]

"""What a recorded log means: everything that is made from its events, as JSON. `python -m tests.logs.views URL`."""

import asyncio
import hashlib
import json
import sys
from dataclasses import asdict, fields
from typing import Any

from tests.logs import shop
from toolcrib import Crib, Session
from toolcrib._session.audit import Audit
from toolcrib.catalog.fingerprints import Fingerprints
from toolcrib.serve.keyring import Keyring
from toolcrib.store import OWNER, SessionRow
from toolcrib.store.codec import decode, encode

LONG = 1000


async def views(url: str) -> dict[str, Any]:
    """All views of a store; nothing is written."""
    async with shop.crib(url) as crib:
        rows = sorted([row async for row in _sessions(crib)], key=lambda row: row.id)
        made = {row.id: await _views(crib, row) for row in rows if row.owner != OWNER}
        made |= {"own": await _own(crib)}
    plain: dict[str, Any] = _short(decode(encode(made)))
    return plain


def _short(value: Any) -> Any:
    """The same with digests for long texts."""
    match value:
        case str() if len(value) > LONG:
            return f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"
        case list():
            return [_short(one) for one in value]
        case dict():
            return {name: _short(one) for name, one in value.items()}
    return value


async def _sessions(crib: Crib) -> Any:
    before: SessionRow | None = None
    while rows := await crib.store.sessions(limit=50, before=before):
        for row in rows:
            yield row
        before = rows[-1]


async def _views(crib: Crib, row: SessionRow) -> dict[str, Any]:
    session = await crib._session_table.load(row)
    events = [event async for event in session.events(follow=False)]
    audit = Audit(row.id, row.owner)
    turns = [line for line in events if line.kind == "turn_started"]
    return {
        "export": [line.decode() async for line in crib.export_session(row.id)][1:-1],
        "calls": [await _call(session, one.id) for one in await crib.store.calls(row.id, limit=1000)],
        "lists": {name: [one.id for one in await getattr(session, name)()] for name in ("unresolved", "completed")},
        "questions": [asdict(one) for one in await session.questions()],
        "state": [dict(session.state.now), session.state.now.revision],
        "user": dict(session.user),
        "tools": session._tool_ids(),
        "progress": await session.progress(),
        "audit": [entry for event in events if (entry := audit.take(event)) is not None],
        "requests": [await _request(crib, session, one.fields["run"], one.fields["turn"]) for one in turns],
    }


async def _call(session: Session, id: str) -> dict[str, Any]:
    entry, output, _ = await session._look(id)
    shown: dict[str, Any] = {one.name: getattr(entry, one.name) for one in fields(entry)}
    shown["result"] = None if entry.result is None else [entry.result.text, entry.result.data, *entry.result.changes]
    row = (await session._row(id)).values()
    return {"row": {name: value for name, value in row.items() if name != "worker"}, "entry": shown, "output": output}


async def _request(crib: Crib, session: Session, run: str, turn: int) -> Any:
    agents: Any = crib.agents
    asked = await agents.request(session, run, turn)
    return [asked.agent, asked.earlier_requests, [[one.role, one.text, one.call, one.kept] for one in asked.messages]]


async def _own(crib: Crib) -> dict[str, Any]:
    """What the crib keeps for itself."""
    pins, keys = (
        Fingerprints(lambda: crib.store, crib.pipeline.clock.now),
        Keyring(lambda: crib.store, crib.pipeline.clock.now),
    )
    await pins._read()
    await keys.load()
    return {
        "pins": {tool: parts for (tool, owner), parts in pins._accepted.items() if owner is None},
        "keys": keys.keys,
        "tombstones": await crib.deleted_sessions(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(views(sys.argv[1])), ensure_ascii=False, indent=1) + "\n")

"""What a call asks: the question that it waits for, as the log has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from toolcrib._call.lifecycle import verdict_of
from toolcrib._call.live_call import LiveCall
from toolcrib.events import QuestionRecord, Waiting
from toolcrib.schema.redaction import parted, without
from toolcrib.store.codec import decode
from toolcrib.types import Resume

CONFIRM = "policy:confirm"
CLIENT = "client:result"

_RESUME: dict[str, Resume] = {"confirm": "run", "client": "use", "input": "pass", "external": "pass"}


def final(live: LiveCall) -> dict[str, Any]:
    """The final arguments with their defaults, as they may be seen."""
    values = dict(live.normalised())
    if live.shown is None:
        return values
    shown: dict[str, Any] = parted(None if live.tool is None else live.tool.hidden, values)[0]
    return shown


def waiting(live: LiveCall, fields: Mapping[str, Any], now: float) -> Waiting:
    """The question that a call waits for, with the final arguments."""
    tool, kind = live.tool, fields["kind"]
    assert tool is not None
    number = len(live.history.questions) + 1 if live.history is not None else 1
    limits = live.pipeline.limits
    default = limits.client_s if kind == "client" else limits.confirm_s
    more = fields.get("data")
    question = QuestionRecord(
        id=f"{live.id}-{number}",
        call=live.id,
        session=live.session_id,
        tool=tool.id,
        kind=kind,
        prompt=live.masked(fields["prompt"]),
        key=fields["key"],
        arguments=final(live),
        schema=fields.get("schema"),
        resume=fields.get("resume") or _RESUME[kind],
        digest=live.digest(),
        path=list(live.path()),
        asked_at=now,
        expires_at=now + next(s for s in (fields.get("expires_s"), tool.limits.wait_s, default) if s is not None),
        offer=fields.get("offer") or None,
        demands=fields.get("demands") or None,
        data=None if more is None else without(live.secrets, decode(to_json(more))),
    )
    return Waiting(question, verdict_of(live))


def client(live: LiveCall) -> dict[str, Any]:
    """What the client of a client tool is asked."""
    assert live.tool is not None
    prompt = f"Run {live.tool.id} and send its result"
    return {"kind": "client", "key": CLIENT, "prompt": prompt, "schema": live.tool.output_schema}

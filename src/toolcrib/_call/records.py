"""What the log says of a call: the data of its events, made from the call in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from pydantic_core import to_json

from toolcrib._call.history import History
from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import Admitted
from toolcrib.events import UNSET, Accepted, Done, EffectReported, Event, QuestionRecord, Started, StateRecord, Waiting
from toolcrib.policy import Verdict
from toolcrib.schema import title
from toolcrib.schema.names import one_line
from toolcrib.schema.redaction import parted, without
from toolcrib.store import Draft, draft
from toolcrib.store.codec import Raw, decode, digest, encode, event_json, raw
from toolcrib.tool import Tool
from toolcrib.types import NO_EXTRAS, By, Call, Result, Resume


class QuickCall(msgspec.Struct, gc=False):
    """A call that was read, ran at once and succeeded: its three events in one object of a few words."""

    session: str
    call: str
    tool: Tool
    by: By
    args: bytes
    result: bytes
    timeout_s: float
    verdict: Verdict
    accepted_at: float
    started_at: float
    at: float
    digest: bytes = b""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> Draft:
        return self._drafts()[number]

    def __iter__(self) -> Iterator[Draft]:
        return iter(self._drafts())

    def _drafts(self) -> tuple[Draft, Draft, Draft]:
        call = self.call
        return (
            (self.accepted_at, call, "accepted", self),
            (self.started_at, call, "started", self),
            (self.at, call, "done", self),
        )

    def json(self, kind: str) -> bytes:
        """Put together from ready pieces, since a busy store writes little else."""
        if kind == "done":
            took = (self.at - self.started_at) * 1000
            return b'{"ok":true,"data":%b,"duration_ms":%.3f}' % (self.result, took)
        if not self.digest:
            self.digest = digest(self.session, self.call, self.tool.fingerprint, self.args).encode()
        if kind == "started":
            rest = _judged(self.timeout_s, self.verdict)
            return b'{"attempt":1,"args":%b,"digest":"%b",%b' % (self.args, self.digest, rest)
        head, by = _head(self.tool.id, self.tool.name), _by(self.by)
        return b'{%b,"args":%b,"by":%b,"digest":"%b","effect":"read"}' % (head, self.args, by, self.digest)


@lru_cache(10_000)
def _head(id: str, name: str) -> bytes:
    return encode({"tool": id, "label": _label(name)})[1:-1]


@lru_cache(10_000)
def _by(by: By) -> bytes:
    return encode(by._asdict())


@lru_cache(10_000)
def _judged(timeout_s: float, verdict: Verdict) -> bytes:
    return b'"timeout_s":%b,"verdict":%b}' % (encode(timeout_s), _verdict(verdict))


@lru_cache(10_000)
def _verdict(verdict: Verdict) -> bytes:
    return encode(verdict.data())


CONFIRM = "policy:confirm"
CLIENT = "client:result"

_RESUME: dict[str, Resume] = {"confirm": "run", "client": "use", "input": "pass", "external": "pass"}
_labels: dict[str, str] = {}


def accepted(live: LiveCall, **more: Any) -> Draft:
    """Enough for a client to draw the card, and for another process to run the call."""
    call, request = live.admission, live.request
    tool, label = call.tool, call.label or request.options.label
    by: Any = Raw(_by(request.options.by))
    data = Accepted(
        call.tool_id or live.name,
        (label and live.masked(label)) or _label(live.name if tool is None else tool.name),
        arguments(live),
        by,
        live.digest(),
        "once" if tool is None else tool.does,
        **(live.marks or {}),
        **more,
    )
    return (request.at, live.id, "accepted", data)


def call(live: LiveCall) -> Call:
    """What the log says of a call that was just accepted, as its caller sees it."""
    at, id, kind, data = accepted(live)
    return History(live.session_id, [Event(0, at, id, kind, event_json(kind, data))]).call()


def _label(name: str) -> str:
    label = _labels.get(name)
    if label is None:
        label = one_line(title(name))
        if len(_labels) < 10_000:  # names of tools that do not exist are anybody's text
            _labels[name] = label
    return label


def arguments(live: LiveCall) -> Any:
    """The arguments as they may be seen: the bytes that came where they are valid, secrets masked."""
    call = live.admission
    if call.shown is not None:
        return call.shown
    if call.parsed is not None:
        return raw(call.parsed.json)
    if len(live.args) > live.pipeline.limits.arguments_bytes:
        return None
    try:
        return decode(live.args)
    except (ValueError, RecursionError):
        return live.args.decode("utf-8", "replace")


def final(live: LiveCall) -> dict[str, Any]:
    """The final arguments with their defaults, as they may be seen."""
    values = dict(live.normalised())
    if live.shown is None:
        return values
    shown: dict[str, Any] = parted(None if live.tool is None else live.tool.hidden, values)[0]
    return shown


def started(live: LiveCall, attempt: int) -> Draft:
    """What really runs, and why it may."""
    data = Started(attempt, arguments(live), live.digest(), live.admission.timeout_s, _verdict_of(live))
    return (live.started_at, live.id, "started", data)


def _verdict_of(live: LiveCall) -> Any:
    verdict = live.admission.verdict
    return None if verdict is None else Raw(_verdict(verdict))


def done(
    live: LiveCall, result: Result, now: float, state: StateRecord | None = None, *, of: type[Done] = Done
) -> Done:
    """The outcome. Only what is there is written."""
    failure, metadata = result.failure, result.metadata
    took = round((now - live.started_at) * 1000, 3) if live.started_at else 0
    plain = failure is None and state is None and result.handover is None and result.extras is NO_EXTRAS
    if plain and not (metadata or result.content or live.background):
        return of(ok=True, data=raw(result.json), duration_ms=took)
    if failure is not None and live.tool is not None and "definition" in live.tool.metadata:
        metadata = {"definition": live.tool.metadata["definition"]["sha256"], **metadata}
    wake = (live.wake or (live.tool.wake if live.tool is not None else "next_turn")) if live.background else None
    content: Any = list(result.content) or None
    return of(
        ok=failure is None,
        failure=failure,
        verdict=_verdict_of(live) if live.verdict is not None and live.verdict.effect == "deny" and failure else None,
        data=raw(result.json) if failure is None else UNSET,
        message=result.message,
        content=content,
        handover=result.handover,
        metadata=dict(metadata) or None,
        background=live.background,
        wake=wake,
        duration_ms=took,
        state=state,
    )


def ending(live: LiveCall, result: Result, now: float, data: Done) -> list[Draft]:
    """The last events of a call: what it brought about, and its end."""
    end = (now, live.id, data.kind, data)
    if result.extras is NO_EXTRAS:
        return [end]
    return [*(draft(now, live.id, EffectReported(effect.type, effect.data)) for effect in result.effects), end]


def quick(live: LiveCall, result: bytes, now: float) -> QuickCall:
    """All that the log says of a plain call that is over."""
    call, request = live.admission, live.request
    assert type(call) is Admitted
    return QuickCall(
        live.session.id,
        live.id,
        call.tool,
        request.options.by,
        call.parsed.json,
        result,
        call.timeout_s,
        call.verdict,
        request.at,
        live.started_at,
        now,
    )


def waiting(live: LiveCall, asked: Mapping[str, Any], now: float) -> Waiting:
    """The question that a call waits for, with the final arguments."""
    tool, kind = live.tool, asked["kind"]
    assert tool is not None
    number = len(live.history.questions) + 1 if live.history is not None else 1
    limits = live.pipeline.limits
    default = limits.client_s if kind == "client" else limits.confirm_s
    more = asked.get("data")
    question = QuestionRecord(
        id=f"{live.id}-{number}",
        call=live.id,
        session=live.session_id,
        tool=tool.id,
        kind=kind,
        prompt=live.masked(asked["prompt"]),
        key=asked["key"],
        arguments=final(live),
        schema=asked.get("schema"),
        resume=asked.get("resume") or _RESUME[kind],
        digest=live.digest(),
        path=list(live.path()),
        asked_at=now,
        expires_at=now + next(s for s in (asked.get("expires_s"), tool.limits.wait_s, default) if s is not None),
        offer=asked.get("offer") or None,
        demands=asked.get("demands") or None,
        data=None if more is None else without(live.secrets, decode(to_json(more))),
    )
    return Waiting(question, _verdict_of(live))


def client(live: LiveCall) -> dict[str, Any]:
    """What the client of a client tool is asked."""
    assert live.tool is not None
    prompt = f"Run {live.tool.id} and send its result"
    return {"kind": "client", "key": CLIENT, "prompt": prompt, "schema": live.tool.output_schema}


def undressed(tool: Tool, given: bytes, label: str) -> tuple[bytes, str]:
    """A model's arguments without the topic and the nulls that its view of the schema asked for; and the label."""
    if b"topic" not in given and b"null" not in given and b"\\u" not in given:
        return given, label  # as most are: there is nothing to take off
    try:
        values = decode(given)
    except (ValueError, RecursionError):
        return given, label
    if not isinstance(values, dict):
        return given, label
    properties = tool.input_schema.get("properties", {})
    required = set(tool.input_schema.get("required", ()))
    topic = values.get("topic")
    kept = {
        name: value
        for name, value in values.items()
        if (name != "topic" or "topic" in properties)
        and not (value is None and name in properties and name not in required)
    }
    if isinstance(topic, str) and topic.strip():
        label = label or one_line(topic)
    return (given if len(kept) == len(values) else encode(kept)), label

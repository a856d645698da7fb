"""The life of a call: its stages, what may follow what, the only functions that change its row, and what the log says.

    accepted -> (scheduled -> fired)? -> (waiting <-> answered)* -> started
        -> (progress | output | step | waiting <-> answered)* -> done

`NEXT` says which event may follow which, and `STATES` what the index may say meanwhile. The functions below are pure:
from the row that stands they make the `Write` that changes it, guarded by the state and attempt that must still stand.
Recovery, `store verify`, the test kit and the property tests use the same table and the same functions. What the log
says of a call is made here too, from the call in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from toolcrib._call.history import History
from toolcrib._call.request import PLAIN, TOP, Admitted, CallOptions
from toolcrib.events import UNSET, Accepted, Done, EffectReported, Event, Started, StateRecord
from toolcrib.policy import Verdict
from toolcrib.schema import title
from toolcrib.schema.names import one_line
from toolcrib.store import Conflict, Draft, Row, State, Write, draft
from toolcrib.store.codec import LARGE, CompactWrite, Raw, decode, digest, encode, event_json, raw
from toolcrib.tool import Tool
from toolcrib.types import By, Call, Result, effects_of

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall

Stage = Literal[
    "new",
    "queued",
    "scheduled",
    "asked",
    "running",
    "suspended",
    "resumed",
    "paused",
    "asked_again",
    "ended",
    "settled",
]
"""Where a call stands by its events. It is `scheduled` while it waits for its time. One that waits for an answer is
`asked` before it has run, else `suspended`, and `resumed` after the answer to that. It is `paused` while calls that it
made wait for somebody, and `asked_again` before it runs on.
"""

_REPORTS: tuple[str, ...] = ("started", "progress", "output", "activity", "step")
_ABOUT_QUESTION: tuple[str, ...] = ("endorsed", "escalated")

NEXT: dict[Stage, dict[str, Stage]] = {
    "new": {"accepted": "queued"},
    "queued": {"scheduled": "scheduled", "waiting": "asked", "started": "running", "done": "ended"},
    "scheduled": {"scheduled": "scheduled", "fired": "queued", "done": "ended"},
    "asked": {**dict.fromkeys(_ABOUT_QUESTION, "asked"), "answered": "queued", "done": "ended"},
    "running": {**dict.fromkeys(_REPORTS, "running"), "waiting": "suspended", "paused": "paused", "done": "ended"},
    "suspended": {**dict.fromkeys(_ABOUT_QUESTION, "suspended"), "answered": "resumed", "done": "ended"},
    "resumed": {
        **dict.fromkeys(_REPORTS[1:], "resumed"),
        "started": "running",
        "waiting": "suspended",
        "paused": "paused",
        "done": "ended",
    },
    "paused": {"started": "running", "waiting": "asked_again", "done": "ended"},
    "asked_again": {**dict.fromkeys(_ABOUT_QUESTION, "asked_again"), "answered": "paused", "done": "ended"},
    "ended": {"settled": "settled"},
    "settled": {},
}
"""The stage that follows each event of a call, by the stage before it."""

STATES: dict[Stage, tuple[State, ...]] = {
    "new": ("queued",),
    "queued": ("queued",),
    "scheduled": ("waiting",),
    "asked": ("waiting",),
    "running": ("running",),
    "suspended": ("waiting",),
    "resumed": ("queued", "running"),
    "paused": ("queued", "waiting"),
    "asked_again": ("waiting",),
    "ended": ("done",),
    "settled": ("done",),
}
"""What the index may say of a call in each stage. Going on after an answer or a pause writes no event of its own."""

MOVES: dict[State, tuple[State, ...]] = {
    "queued": ("running", "waiting", "done"),
    "running": ("running", "waiting", "done"),
    "waiting": ("waiting", "queued", "running", "done"),
    "done": ("done",),
}
"""The states that a row may move to. A running call is claimed again after a crash, a done one is settled."""

ENDS = ("done", "settled")
"""The events that end a call; `settled` follows a `done` of which nobody knew what happened."""


KINDS = frozenset(kind for after in NEXT.values() for kind in after)
"""The events that a life is made of."""


class Life:
    """The stage of one call, folded from its events, with the attempts that whoever wrote them has counted."""

    __slots__ = ("answered", "attempt", "ends", "faults", "stage")

    def __init__(self) -> None:
        self.stage: Stage = "new"
        self.attempt = 0
        self.answered = False
        self.ends: list[Event] = []
        self.faults: list[str] = []

    def take(self, event: Event) -> None:
        """Take the next event of the call; one that may not follow is a fault, and changes no stage."""
        kind, before = event.kind, self.stage
        self.stage = NEXT[before].get(kind, before)
        if kind not in KINDS:
            return
        if kind not in NEXT[before]:
            self.faults.append(f"'{kind}' at {event.seq} follows {before}")
        if kind in ENDS:
            self._end(event)
        elif kind == "started":
            started = event.data
            self.attempt = (started.attempt if isinstance(started, Started) else None) or 1
            self.answered = False
        elif kind == "waiting" and before == "queued" and self.answered:
            self.attempt += 1  # it never started since its last question, and yet both are told apart
        elif kind == "answered":
            self.answered = True
            self.attempt += before != "asked"  # going on is an attempt of its own where it had started before

    def _end(self, event: Event) -> None:
        if event.kind == "settled" and self.ends and not _is_unknown(self.ends[-1]):
            self.faults.append(f"settled at {event.seq} though its end was known")
        self.ends.append(event)

    def states(self, effect: str) -> tuple[State, ...]:
        """Return what the index may say, the one to write first.

        After an answer queued and running look alike: what may happen only once counts as running, so that nobody
        starts it a second time.
        """
        states = STATES[self.stage]
        return states[::-1] if self.stage == "resumed" and effect == "once" else states


# The only functions that change a call


def new_row(live: LiveCall, state: State, attempt: int = 0) -> Row:
    """Return the first row of a call."""
    call = live.admission
    request, tool = call.request, call.tool
    session, effect = request.session, "once" if tool is None else tool.does
    id = tool.id if tool is not None else call.tool_id or live.name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    row = Row(request.id, session.id, id, effect, state, attempt, session.pipeline.worker, request.at)
    if not call.is_plain:
        row.background, row.parent, row.key = call.background, request.origin.parent, request.options.key
    return row


def accept(row: Row, events: list[Draft] | CompactWrite) -> Write:
    """Write a call for the first time, in whatever state it has reached by then."""
    return Write(row.session, events, row)


def claim(row: Row, worker: str, events: Sequence[Draft]) -> Write:
    """Make a process the one that runs a call. The attempt rises, so that whoever had it before is fenced off."""
    return _moved(row, replace(row, state="running", attempt=row.attempt + 1, worker=worker, expires_at=None), events)


def suspend(row: Row, question: str, expires_at: float, events: Sequence[Draft]) -> Write:
    """Let a call wait for the answer to a question."""
    # One that never started since its last question has no new attempt that would tell both questions apart.
    attempt = row.attempt + (row.state == "queued")
    return _moved(row, replace(row, state="waiting", attempt=attempt, question=question, expires_at=expires_at), events)


def pause(row: Row, look_at: float, events: Sequence[Draft]) -> Write:
    """Let a call wait for calls that it made; it is looked at again at that time."""
    return _moved(row, replace(row, state="waiting", question=None, expires_at=look_at), events)


def postpone(row: Row, expires_at: float, events: Sequence[Draft] = ()) -> Write:
    """Let a call wait on, until another time: others are asked as well, or its children still wait."""
    return _moved(row, replace(row, expires_at=expires_at), events)


def endorse(row: Row, events: Sequence[Draft]) -> Write:
    """Let a call wait on: one of several who have to agree has."""
    return _moved(row, replace(row), events)


def resume(row: Row, worker: str | None, events: Sequence[Draft] = ()) -> Write:
    """Queue a call that waited, for this process or, with None, for whichever takes it."""
    return _moved(row, replace(row, state="queued", worker=worker, expires_at=None), events)


def hold(row: Row, worker: str) -> Write:
    """Take a paused call, so that the end of a child does not let it go on: it is about to be ended."""
    return _moved(row, replace(row, state="running", worker=worker, expires_at=None), ())


def finish(row: Row, code: str | None, events: Sequence[Draft]) -> Write:
    """End a call, with the code of its failure or None."""
    return _moved(row, replace(row, state="done", code=code, expires_at=None), events)


def settle(row: Row, code: str | None, events: Sequence[Draft]) -> Write:
    """Say what came of a call that ended `unknown`."""
    return _moved(row, replace(row, code=code), events)


def recover(row: Row) -> Row:
    """Count that a process died over a call, for the claim that follows."""
    return replace(row, crashes=row.crashes + 1)


def report(row: Row, events: Sequence[Draft]) -> Write:
    """Write what happened in a call that goes on as it is."""
    return Write(row.session, list(events), row, (row.state, row.attempt))


def _moved(old: Row, row: Row, events: Sequence[Draft]) -> Write:
    if row.state not in MOVES[old.state]:
        raise ValueError(f"a call that is {old.state} cannot become {row.state}")
    return Write(row.session, list(events), row, (old.state, old.attempt))


def standing(conflict: Conflict) -> Row | None:
    """Return the row that stands in the way of a call; there is none where it was its maker who may not make it."""
    return None if conflict.fenced else conflict.row


DUE = "due:"
"""What the index has as the question of a call that waits for its time: this, and the id of its schedule."""


def waits_for_time(row: Row) -> bool:
    """True if a call waits for its time, or for the end of another call."""
    return row.state == "waiting" and row.question is not None and row.question.startswith(DUE)


def waits_for_children(row: Row) -> bool:
    """True if a call asks nobody itself, but waits for calls that it made."""
    return row.state == "waiting" and row.question is None


def _is_unknown(end: Event) -> bool:
    """Return whether a call ended without anybody knowing how."""
    failure = end.data.failure if isinstance(end.data, Done) else None
    return failure is not None and failure.code == "unknown"


# What the log says


class PlainCall(msgspec.Struct, gc=False):
    """What the log says of a call that ran at once, its events in one object of a few words.

    It was accepted and it started; where there is a `result`, it also succeeded. `marks` are those of `Admitted.marks`
    where they are more than its options.
    """

    session: str
    call: str
    tool: Tool
    options: CallOptions
    args: bytes
    timeout_s: float
    verdict: Verdict
    accepted_at: float
    started_at: float
    at: float
    result: bytes | None = None
    count: int = 2
    digest: bytes = b""
    marks: dict[str, Any] | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Draft:
        return self._drafts()[number]

    def __iter__(self) -> Iterator[Draft]:
        return iter(self._drafts())

    def _drafts(self) -> tuple[Draft, ...]:
        call = self.call
        begun: tuple[Draft, ...] = (self.accepted_at, call, "accepted", self), (self.started_at, call, "started", self)
        return begun if self.result is None else (*begun, (self.at, call, "done", self))

    def lines(self) -> tuple[tuple[float, str, str, bytes], ...]:
        """Time, call, kind and JSON text of each of its events."""
        call, json = self.call, self.json
        accepted = self.accepted_at, call, "accepted", json("accepted")
        started = self.started_at, call, "started", json("started")
        if self.result is None:
            return accepted, started
        return accepted, started, (self.at, call, "done", json("done"))

    def begun(self) -> tuple[str, str, str | None]:
        """The call, its tool and its agent."""
        agent = self.options.agent if self.marks is None else self.marks.get("agent")
        return self.call, self.tool.id, agent

    def json(self, kind: str) -> bytes:
        """Put together from ready pieces, since a busy store writes little else."""
        if kind == "done" and self.result is not None:
            rule = b"" if self.verdict.rule is None else b',"rule":' + encode(self.verdict.rule)
            return b'{"ok":true,"data":%b,"duration_ms":%.3f%b}' % (
                self.result,
                (self.at - self.started_at) * 1000,
                rule,
            )
        if not self.digest:
            self.digest = digest(self.session, self.call, self.tool.fingerprint, self.args).encode()
        if kind == "started":
            rest = _judged(self.timeout_s, self.verdict)
            return b'{"attempt":1,"args":%b,"digest":"%b",%b' % (self.args, self.digest, rest)
        head, by, effect = _head(self.tool.id, self.tool.name), _by(self.options.by), self.tool.does.encode()
        marks = None if self.options is PLAIN else self.options.logged()
        rest = b"," + encode(self.marks or marks)[1:] if self.marks or marks else b"}"
        return b'{%b,"args":%b,"by":%b,"digest":"%b","effect":"%b"%b' % (head, self.args, by, self.digest, effect, rest)


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


_labels: dict[str, str] = {}


def accepted(live: LiveCall, **more: Any) -> Draft:
    """Enough for a client to draw the card, and for another process to run the call."""
    call, request = live.admission, live.admission.request
    tool, label = call.tool, call.label or request.options.label
    by: Any = Raw(_by(request.options.by))
    data = Accepted(
        call.tool_id or live.name,
        (label and live.masked(label)) or _label(live.name if tool is None else tool.name),
        arguments(live),
        by,
        live.digest(),
        "once" if tool is None else tool.does,
        **((None if call.is_plain else call.marks()) or {}),
        **more,
    )
    return (request.at, request.id, "accepted", data)


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


def started(live: LiveCall, attempt: int, at: float) -> Draft:
    """What really runs, and why it may."""
    data = Started(attempt, arguments(live), live.digest(), live.admission.timeout_s, verdict_of(live))
    return (at, live.id, "started", data)


def begun(live: LiveCall, at: float) -> list[Draft] | PlainCall:
    """What the log says first of a call that runs at once."""
    call = live.admission
    if type(call) is Admitted and call.is_light and len(call.parsed.json) <= LARGE:
        return plain_call(call, at)
    return [accepted(live), started(live, 1, at)]


def plain_call(call: Admitted, started_at: float) -> PlainCall:
    """The same of a call of which there is nothing to say but its tool, arguments and marks."""
    request, json = call.request, call.parsed.json
    session, id, options, at = request.session.id, request.id, request.options, request.at
    made = PlainCall(session, id, call.tool, options, json, call.timeout_s, call.verdict, at, started_at, started_at)
    if call.prepared_from is not None or request.origin is not TOP:
        made.marks = call.marks()
    return made


def verdict_of(live: LiveCall) -> Any:
    """What the policy says of it, as JSON."""
    verdict = live.admission.verdict
    return None if verdict is None else Raw(_verdict(verdict))


def rule_of(live: LiveCall) -> str | None:
    """The rule that decided about it, or by which somebody was asked before, where there is one."""
    verdict = live.admission.verdict
    if verdict is not None and verdict.rule is not None:
        return verdict.rule
    return None if live.history is None else live.history.rule


def has_only_data(result: Result) -> bool:
    """True if a result succeeded and says nothing beside its data, which is small."""
    if result.failure or result.handover or result.content or result.metadata or result.message is not None:
        return False
    json, more = result.encoded, result.changes or result.effects or result.schedules
    return json is not None and len(json) <= LARGE and not more


def done(
    live: LiveCall, result: Result, now: float, state: StateRecord | None = None, *, of: type[Done] = Done
) -> Done:
    """The outcome. Only what is there is written."""
    began, verdict = 0.0 if live.began is None else live.began.at, live.admission.verdict
    took = round((now - began) * 1000, 3) if began else 0
    if state is None and not live.admission.background and has_only_data(result):
        return of(ok=True, data=Raw(result.encoded or b"null"), duration_ms=took, rule=verdict and verdict.rule)
    return _whole_done(live, result, took, state, of)


def _whole_done(live: LiveCall, result: Result, took: float, state: StateRecord | None, of: type[Done]) -> Done:
    failure, metadata = result.failure, result.metadata
    if failure is not None and live.tool is not None and "definition" in live.tool.metadata:
        metadata = {"definition": live.tool.metadata["definition"]["sha256"], **metadata}
    wake = (live.wake or (live.tool.wake if live.tool is not None else "next_turn")) if live.background else None
    content: Any = list(result.content) or None
    return of(
        ok=failure is None,
        failure=failure,
        verdict=verdict_of(live) if live.verdict is not None and live.verdict.effect == "deny" and failure else None,
        data=raw(result.json) if failure is None else UNSET,
        message=result.message,
        content=content,
        handover=result.handover,
        metadata=dict(metadata) or None,
        background=live.background,
        wake=wake,
        duration_ms=took,
        state=state,
        rule=rule_of(live),
    )


def ending(live: LiveCall, result: Result, now: float, state: StateRecord | None = None) -> list[Draft]:
    """The last events of a call: what it brought about, and its end."""
    id = live.admission.request.id
    end: Draft = (now, id, "done", done(live, result, now, state))
    if not result.effects:
        return [end]
    return [*(draft(now, id, EffectReported(effect.type, effect.data)) for effect in effects_of(result)), end]


def succeeded_at_once(live: LiveCall, call: Admitted, result: Result, now: float) -> Write | None:
    """Write all of a call that only read and never paused; None where its result says more than its data."""
    if live.began is None or not has_only_data(result):
        return None
    events = plain_call(call, live.began.at)
    events.result, events.at, events.count = result.encoded, now, 3
    return Write(events.session, events, new_row(live, "done", 1))

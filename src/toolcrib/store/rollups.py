"""Roll-ups: how many calls ended when, how, and after how long, counted as the log grows.

A roll-up is a view of the log. Each event that counts (`COUNTED`) stands for one or more tallies at the time of that
event: the end of a call, the end of a wait for an answer, a turn of a model, a new session. Nothing that was counted is
taken back: a call that ended `unknown` stays one of the day it ended, and what it is settled as counts on the day that
happens; a session that is swept or deleted takes its log with it, not its numbers. `toolcrib store verify` folds all
logs anew and compares.

Stores add an event to their list of what is not rolled up yet in the transaction that writes it, and roll that list up
in pieces. The crib's own sessions are not counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from toolcrib.events import Event

MINUTE, HOUR = 60, 3600
STEPS = (MINUTE, HOUR)
"""The lengths of time that are counted, in seconds."""

MINUTES_KEPT_S = 2 * 24 * HOUR
HOURS_KEPT_S = 400 * 24 * HOUR
"""For how long tallies of minutes and of hours are kept."""

COUNTED = ("done", "settled", "answered", "turn_finished", "opened")
"""The kinds of events that are counted."""

LOOKED_AT = frozenset({*COUNTED, "accepted", "waiting"})
"""The kinds of events that a fold needs."""

What = Literal[
    "call", "settled", "wait", "turn", "input", "output", "cost", "session", "rule", "transfer", "delegation"
]
"""What a tally counts: ends of calls, outcomes that were found later, waits that ended, turns of models, tokens that
were read and written, cost in billionths of a dollar, new sessions, calls that a rule of the policy decided, whose
name stands in place of a code, and calls by which an agent handed over to another or had it work, whose name does."""

CALL_AGENT = "builtin.call_agent"
"""The tool by which an agent has another work."""

ROLL_S = 0.1
"""For how long whoever reads tallies rolls up what is new before."""

By = Literal["tool", "agent", "owner"]

Times = Literal["minutes", "hours", "tool", "agent", "owner", "gone"]
"""The cubes: every minute and every hour by all there is, every hour by one thing alone, and what the sessions that are
gone had counted in every hour."""

WHOLE_HOURS: tuple[By, ...] = ("tool", "agent", "owner")


class TallyKey(NamedTuple):
    """What is counted together. `tool` is the model where turns are counted."""

    at: int
    what: What
    owner: str
    tool: str
    agent: str
    code: str


class Sum:
    """How many, the sum of their times in microseconds, and how many took about how long, by slots."""

    __slots__ = ("count", "slots", "total")

    def __init__(self, count: int = 0, total: int = 0, slots: dict[int, int] | None = None) -> None:
        self.count = count
        self.total = total
        self.slots = {} if slots is None else slots

    def add(self, other: Sum) -> None:
        """Counts all of another."""
        self.count += other.count
        self.total += other.total
        slots = self.slots
        for slot, count in other.slots.items():
            slots[slot] = slots.get(slot, 0) + count
            if not slots[slot]:
                del slots[slot]

    def __eq__(self, other: object) -> bool:
        mine = (self.count, self.total, self.slots)
        return isinstance(other, Sum) and mine == (other.count, other.total, other.slots)

    __hash__ = None  # type: ignore[assignment]  # it changes


Tallies = dict[TallyKey, Sum]
"""What was counted, by key."""


class TallyFilter(NamedTuple):
    """Which tallies are wanted: from which second to which, by what, of which owner, agent and tools."""

    since: int
    until: int
    step: int = HOUR
    by: By = "tool"
    owner: str | None = None
    agent: str | None = None
    tools: tuple[str, ...] | None = None

    @property
    def cube(self) -> Times:
        """The smallest one that has them all."""
        if self.step == MINUTE:
            return "minutes"
        return "hours" if self.narrowed else self.by

    @property
    def narrowed(self) -> list[str]:
        """What they are wanted of alone."""
        return [name for name in ("owner", "agent", "tools") if getattr(self, name) is not None]


class Tally(NamedTuple):
    """So many of one kind, in one length of time, of one name; `slots` says how many of them took about how long."""

    at: int
    what: What
    name: str
    code: str
    number: int
    total: int
    slots: dict[int, int]


# Times


def _bounds() -> tuple[int, ...]:
    """Each a tenth above the one before, in whole microseconds, from 0.1 ms to more than a year."""
    bounds = [100]
    while bounds[-1] < 400 * 24 * HOUR * 1_000_000:
        bounds.append(bounds[-1] + bounds[-1] // 10)
    return tuple(bounds)


BOUNDS = _bounds()
"""Where the slots of times begin, but for the first, which has all below 0.1 ms."""


def slot_of(microseconds: int) -> int:
    """Return the slot of a time."""
    return bisect_right(BOUNDS, microseconds)


def milliseconds(slot: int) -> float:
    """Return the middle of a slot: no time in it is further away than 5 in 100, or 0.05 ms in the first."""
    if slot <= 0:
        return 0.05
    low = BOUNDS[min(slot, len(BOUNDS)) - 1]
    return (low + BOUNDS[slot] if slot < len(BOUNDS) else 2 * low) / 2000


def quantiles(slots: Mapping[int, int], wanted: Iterable[float]) -> list[float | None]:
    """Return the time within which each of these parts of all took; None where there is none."""
    order = sorted(slot for slot, count in slots.items() if count > 0)
    sums = list(accumulate(slots[slot] for slot in order))
    if not sums:
        return [None for _ in wanted]
    places = (next(place for place, so_far in enumerate(sums) if so_far >= part * sums[-1]) for part in wanted)
    return [milliseconds(order[place]) for place in places]


# From events to tallies


T = TypeVar("T")


class _Failure(msgspec.Struct):
    code: str = ""


class _Handover(msgspec.Struct):
    to: str = ""


class _CallEnd(msgspec.Struct):
    duration_ms: float = 0
    failure: _Failure | None = None
    rule: str | None = None
    handover: _Handover | None = None


class _CallStart(msgspec.Struct):
    tool: str = ""
    agent: str | None = None


class _Reached(msgspec.Struct):
    agent: str = ""


class _Delegation(msgspec.Struct):
    args: _Reached | None = None


class _Turn(msgspec.Struct):
    agent: str = ""
    model: str | None = None
    usage: dict[str, Any] = {}
    finish: str = ""
    duration_ms: float = 0


class _Opening(msgspec.Struct):
    restored: bool = False


_end, _start = msgspec.json.Decoder(_CallEnd), msgspec.json.Decoder(_CallStart)
_delegation = msgspec.json.Decoder(_Delegation)
_turn, _opening = msgspec.json.Decoder(_Turn), msgspec.json.Decoder(_Opening)


def _read(decoder: msgspec.json.Decoder[T], json: bytes | str, fallback: T) -> T:
    """Return what counts of the data of an event; a line that says something else counts with what it lacks."""
    try:
        return decoder.decode(json)
    except (msgspec.DecodeError, UnicodeError):
        return fallback


class CountedCall(NamedTuple):
    """What is known of the call that an event belongs to."""

    tool: str = ""
    agent: str = ""
    waits_since: float | None = None
    delegate: str = ""

    @classmethod
    def read(cls, accepted: bytes | str) -> CountedCall:
        """Return what its `accepted` tells."""
        start = _read(_start, accepted, _CallStart())
        reached = _read(_delegation, accepted, _Delegation()).args if start.tool == CALL_AGENT else None
        return cls(start.tool, start.agent or "", None, "" if reached is None else reached.agent)


def tallied(owner: str, at: float, kind: str, json: bytes | str, call: CountedCall) -> Iterator[tuple[TallyKey, Sum]]:
    """The tallies of one event."""
    minute = int(at // MINUTE) * MINUTE
    if kind == "done" or kind == "settled":
        end = _read(_end, json, _CallEnd())
        code = "" if end.failure is None else end.failure.code or "failed"
        what: What = "call" if kind == "done" else "settled"
        yield TallyKey(minute, what, owner, call.tool, call.agent, code), _timed(_micro(end.duration_ms))
        if end.rule is not None and kind == "done":
            yield TallyKey(minute, "rule", owner, call.tool, call.agent, end.rule), Sum(1)
        if kind == "done":
            yield from _traffic(minute, owner, call, end)
    if kind in ("done", "answered") and call.waits_since is not None:
        waited = max(int((at - call.waits_since) * 1_000_000), 0)
        yield TallyKey(minute, "wait", owner, call.tool, call.agent, ""), _timed(waited)
    elif kind == "turn_finished":
        yield from _turn_tallies(minute, owner, _read(_turn, json, _Turn()))
    elif kind == "opened" and not _read(_opening, json, _Opening()).restored:
        yield TallyKey(minute, "session", owner, "", "", ""), Sum(1)


def _traffic(minute: int, owner: str, call: CountedCall, end: _CallEnd) -> Iterator[tuple[TallyKey, Sum]]:
    """The agent that a call led to, if it was the call of an agent."""
    to = "" if end.handover is None else end.handover.to
    if call.agent and to:
        yield TallyKey(minute, "transfer", owner, call.tool, call.agent, to), Sum(1)
    if call.agent and call.delegate:
        yield TallyKey(minute, "delegation", owner, call.tool, call.agent, call.delegate), Sum(1)


def _turn_tallies(minute: int, owner: str, turn: _Turn) -> Iterator[tuple[TallyKey, Sum]]:
    model = turn.model or ""
    yield TallyKey(minute, "turn", owner, model, turn.agent, ""), _timed(_micro(turn.duration_ms))
    amounts: tuple[tuple[What, Any, int], ...] = (
        ("input", turn.usage.get("input"), 1),
        ("output", turn.usage.get("output"), 1),
        ("cost", turn.usage.get("cost"), 10**9),
    )
    for what, amount, units in amounts:
        if isinstance(amount, int | float) and amount:
            yield TallyKey(minute, what, owner, model, turn.agent, ""), Sum(int(amount * units + 0.5))


def _micro(milliseconds: float) -> int:
    return max(int(milliseconds * 1000 + 0.5), 0)


def _timed(microseconds: int) -> Sum:
    return Sum(1, microseconds, {slot_of(microseconds): 1})


def add(tallies: Tallies, key: TallyKey, more: Sum) -> None:
    """Counts more of one key."""
    known = tallies.get(key)
    if known is None:
        known = tallies[key] = Sum()
    known.add(more)


def negated(tallies: Tallies) -> Tallies:
    """What takes tallies away where it is added: a session that was gone is back with its log."""
    return {
        key: Sum(-more.count, -more.total, {slot: -count for slot, count in more.slots.items()})
        for key, more in tallies.items()
    }


def by_hours(tallies: Tallies) -> Tallies:
    """The same in hours."""
    hours: Tallies = {}
    for key, more in tallies.items():
        add(hours, key._replace(at=key.at // HOUR * HOUR), more)
    return hours


def of_one(tallies: Tallies, by: By) -> Tallies:
    """The same by one thing alone. Turns keep their model where tools are told apart."""
    fewer: Tallies = {}
    for key, more in tallies.items():
        add(fewer, narrowed(key, by), more)
    return fewer


def narrowed(key: TallyKey, by: By) -> TallyKey:
    """A key without what it is not counted by."""
    if by == "tool":
        return key._replace(owner="", agent="")
    return key._replace(owner="", tool="") if by == "agent" else key._replace(tool="", agent="")


Line = tuple[str, int, str, str, str, str, str, int, int, bytes]
"""A row of the table: cube, the fields of its key, number, time and slots."""


def cubes(tallies: Tallies) -> list[tuple[Times, Tallies]]:
    """Return what minutes of tallies add to each cube."""
    hours = by_hours(tallies)
    return [("minutes", tallies), ("hours", hours), *((by, of_one(hours, by)) for by in WHOLE_HOURS)]


def again(gone: Tallies) -> list[tuple[Times, Tallies]]:
    """Return what the hours of sessions that are gone add to each cube; of their minutes only the hours are known."""
    return [("minutes", gone), ("hours", gone), *((by, of_one(gone, by)) for by in WHOLE_HOURS)]


def lines_of(cube: Times, tallies: Tallies) -> list[Line]:
    """Return the rows that tallies add to one cube."""
    return [(cube, *key, more.count, more.total, packed(more.slots)) for key, more in tallies.items()]


_slots = msgspec.msgpack.Decoder(dict[int, int])
packed = msgspec.msgpack.Encoder().encode
"""Returns the slots of a sum as bytes."""


def unpacked(slots: bytes) -> dict[int, int]:
    """Return slots as they were."""
    return _slots.decode(slots)


def merged(slots: bytes, more: bytes) -> bytes:
    """Return the slots of two sums together."""
    total = Sum(0, 0, unpacked(slots))
    total.add(Sum(0, 0, unpacked(more)))
    return packed(total.slots)


# Folding whole logs


class LogTallies:
    """The tallies of one session, made as its log goes by."""

    __slots__ = ("_calls", "_owner", "seq")

    def __init__(self, owner: str) -> None:
        self.seq = 0
        self._owner = owner
        self._calls: dict[str, CountedCall] = {}

    def begin(self, call: str, tool: str, agent: str | None) -> None:
        """Takes what the `accepted` of a call tells."""
        self._calls[call] = CountedCall(tool, agent or "")

    def take(self, event: Event, tallies: Tallies) -> None:
        """Counts the next event of the log."""
        self.seq = event.seq
        kind, call = event.kind, event.call
        facts = CountedCall() if call is None else self._calls.get(call, CountedCall())
        if kind in COUNTED:
            for tally in tallied(self._owner, event.at, kind, event.json, facts):
                add(tallies, *tally)
        if call is None:
            return
        if kind == "accepted":
            self._calls[call] = CountedCall.read(event.json)
        elif kind == "waiting":
            self._calls[call] = facts._replace(waits_since=event.at)
        elif kind == "answered" or (kind == "done" and b'"unknown"' in event.json):  # it may be settled later
            self._calls[call] = facts._replace(waits_since=None)
        elif kind in ("done", "settled"):
            self._calls.pop(call, None)

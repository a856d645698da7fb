"""CallNumbers of calls, waits, turns, tokens and sessions over time, from the roll-ups of a store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from toolcrib.store import Store
from toolcrib.store.rollups import HOUR, MINUTE, By, Tally, TallyFilter, quantiles

GroupBy = Literal["tool", "agent", "owner", "source", "code", "rule"]
SPANS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
SHORT_S = 2 * 3600.0
"""A time of so many seconds or less is told by minutes, a longer one by hours."""

LONGEST_S = 366 * 86400.0
"""Of a longer time the last part is told: every step costs, also one in which nothing happened."""

SUCCEEDED = "succeeded"
GROUPS = 200
"""The largest groups that are told."""

_PARTS = (0.5, 0.95, 0.99)
_OF_CALLS = frozenset({"call", "wait"})
_OF_TURNS = frozenset({"turn", "input", "output", "cost"})
_NAMED = frozenset({"rule", "transfer", "delegation"})
"""What has a name in place of a code, and is told elsewhere."""


class CallNumbers(Struct, kw_only=True):
    """What ended in some time: calls, waits for answers, turns of models; and how many sessions were made.

    Times are those within which so many of 100 calls or waits took, exact to 5 in 100; None where there was none.
    """

    calls: int
    failures: dict[str, int]
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    waits: int
    waited_p50_ms: float | None
    waited_p95_ms: float | None
    turns: int
    input_tokens: int
    output_tokens: int
    cost: float
    sessions: int


class NumbersAt(CallNumbers, kw_only=True):
    """The numbers of one step."""

    at: float


class NumbersOf(CallNumbers, kw_only=True):
    """The numbers of one tool, agent, owner, source, code or rule, with its calls and failures step by step.

    Of a rule it is the calls that it decided.
    """

    name: str
    points: list[int]
    failed: list[int]


class ModelNumbers(Struct):
    """What the turns of one model took and cost, in US dollars as far as it is known."""

    model: str
    turns: int
    input_tokens: int
    output_tokens: int
    cost: float


class CountedStats(Struct, kw_only=True):
    """CallNumbers since `since`, step by step and by name, the most calls first.

    `uncounted` lines of the log are not in them yet: those of a store that was just brought up to date, for example.
    """

    since: float
    until: float
    step_s: int
    by: GroupBy
    total: CallNumbers
    points: list[NumbersAt]
    groups: list[NumbersOf]
    models: list[ModelNumbers]
    uncounted: int


class StatsFilter(NamedTuple):
    """Which numbers are wanted; `tools` are those that count, `sources` tell where tools come from."""

    since: float
    until: float
    by: GroupBy = "tool"
    owner: str | None = None
    agent: str | None = None
    tools: tuple[str, ...] | None = None
    code: str | None = None
    minutes_since: float = 0.0
    """Since when minutes are kept."""


def steps(since: float, until: float, minutes_since: float = 0.0) -> tuple[int, int, int]:
    """Return the length of a step, where the first one begins and where the last one ends."""
    step = MINUTE if until - since <= SHORT_S and since >= minutes_since else HOUR
    first = int(since // step) * step
    return step, first if first >= since else first + step, (int(until // step) + 1) * step


async def statistics(store: Store, where: StatsFilter, sources: Mapping[str, str]) -> CountedStats:
    """Return the numbers that are wanted, of a year at most; `sources` has the source of each tool."""
    uncounted = await store.roll_up()
    step, since, until = steps(max(where.since, where.until - LONGEST_S), where.until, where.minutes_since)
    wanted = TallyFilter(since, until, step, "tool", where.owner, where.agent, where.tools)
    count = (until - since) // step
    by: By = where.by if where.by == "agent" or where.by == "owner" else "tool"
    named = _with_code(await store.tallies(wanted._replace(by=by)), where.code)
    # Of some tools alone there are no models to tell apart, and the tallies are read once.
    once = by == "tool" or where.tools is not None
    tallies = named if once else _with_code(await store.tallies(wanted), where.code)
    points = _points(tallies, since, step, count)
    total = _RunningTotal()
    for point in points:
        total.merge(point)
    return CountedStats(
        since=since,
        until=until,
        step_s=step,
        by=where.by,
        total=CallNumbers(**total.numbers()),
        points=[NumbersAt(at=since + n * step, **point.numbers()) for n, point in enumerate(points)],
        groups=_groups(named, where.by, sources, (since, step, count)),
        models=[] if where.tools is not None else _models(tallies),
        uncounted=uncounted,
    )


async def tools_without_source(store: Store, where: StatsFilter, sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of the wanted tools were called and are of no source now."""
    await store.roll_up()
    step, since, until = steps(max(where.since, where.until - LONGEST_S), where.until, where.minutes_since)
    tallies = await store.tallies(TallyFilter(since, until, step, "tool", where.owner, where.agent, where.tools))
    return tuple(sorted({tally.name for tally in tallies if tally.what in _OF_CALLS} - sources.keys()))


def _with_code(tallies: list[Tally], code: str | None) -> list[Tally]:
    """Only calls that ended so, where that is wanted."""
    if code is None:
        return tallies
    kept = "" if code == SUCCEEDED else code
    return [tally for tally in tallies if tally.what == "call" and tally.code == kept]


class _RunningTotal:
    """CallNumbers that grow."""

    __slots__ = ("amounts", "failures", "times", "waits")

    def __init__(self) -> None:
        self.amounts: defaultdict[str, int] = defaultdict(int)
        self.failures: defaultdict[str, int] = defaultdict(int)
        self.times: defaultdict[int, int] = defaultdict(int)
        self.waits: defaultdict[int, int] = defaultdict(int)

    def add(self, what: str, code: str, number: int, slots: Mapping[int, int]) -> None:
        """Counts so many more."""
        self.amounts[what] += number
        if what == "call":
            times = self.times
            for slot, count in slots.items():
                times[slot] += count
            if code:
                self.failures[code] += number
        elif what == "wait":
            for slot, count in slots.items():
                self.waits[slot] += count

    def merge(self, other: _RunningTotal) -> None:
        """Counts all of another."""
        pairs: tuple[tuple[dict[str, int], dict[str, int]], ...] = (
            (self.amounts, other.amounts),
            (self.failures, other.failures),
        )
        for mine, theirs in pairs:
            for name, number in theirs.items():
                mine[name] = mine.get(name, 0) + number
        for own, more in ((self.times, other.times), (self.waits, other.waits)):
            for slot, number in more.items():
                own[slot] = own.get(slot, 0) + number

    def numbers(self) -> dict[str, Any]:
        """The fields of `CallNumbers`."""
        amounts = self.amounts
        p50, p95, p99 = quantiles(self.times, _PARTS)
        waited_p50, waited_p95 = quantiles(self.waits, _PARTS[:2])
        return {
            "calls": amounts.get("call", 0),
            "failures": dict(sorted(self.failures.items(), key=lambda one: -one[1])),
            "p50_ms": p50,
            "p95_ms": p95,
            "p99_ms": p99,
            "waits": amounts.get("wait", 0),
            "waited_p50_ms": waited_p50,
            "waited_p95_ms": waited_p95,
            "turns": amounts.get("turn", 0),
            "input_tokens": amounts.get("input", 0),
            "output_tokens": amounts.get("output", 0),
            "cost": amounts.get("cost", 0) / 10**9,
            "sessions": amounts.get("session", 0),
        }


def _points(tallies: Iterable[Tally], since: int, step: int, count: int) -> list[_RunningTotal]:
    points = [_RunningTotal() for _ in range(count)]
    for at, what, _, code, number, _, slots in tallies:
        points[(at - since) // step].add(what, code, number, slots)
    return points


def _groups(
    tallies: Iterable[Tally], by: GroupBy, sources: Mapping[str, str], range: tuple[int, int, int]
) -> list[NumbersOf]:
    since, step, count = range
    sums: dict[str, _RunningTotal] = {}
    lines: dict[str, tuple[list[int], list[int]]] = {}
    of_agents = by in ("agent", "owner")
    for at, what, tally_name, code, number, _, slots in tallies if by != "rule" else _decided(tallies):
        if (what in _OF_TURNS and not of_agents) or (what == "session" and by != "owner"):
            continue
        if what in _NAMED:
            continue
        name = tally_name
        if by == "source":
            name = sources.get(tally_name, "")
        elif by == "code":
            name = code or SUCCEEDED
        total = sums.get(name)
        if total is None:
            total = sums[name] = _RunningTotal()
            lines[name] = [0] * count, [0] * count
        total.add(what, code, number, slots)
        if what == "call":
            place = (at - since) // step
            lines[name][0][place] += number
            lines[name][1][place] += number if code else 0
    order = sorted(sums, key=lambda name: (-sums[name].amounts.get("call", 0), name))[:GROUPS]
    return [
        NumbersOf(name=name, points=lines[name][0], failed=lines[name][1], **sums[name].numbers()) for name in order
    ]


def _decided(tallies: Iterable[Tally]) -> Iterator[Tally]:
    """The calls that rules decided, by the names of the rules."""
    for tally in tallies:
        if tally.what == "rule":
            yield tally._replace(what="call", name=tally.code, code="")


async def traffic(store: Store, since: float, until: float, owner: str | None = None) -> Counter[tuple[str, str, str]]:
    """Return how often agents reached each other: from whom, whom, and whether by `transfer` or by `call`."""
    await store.roll_up()
    step, first, last = steps(since, until)
    counts: Counter[tuple[str, str, str]] = Counter()
    for tally in await store.tallies(TallyFilter(first, last, step, "agent", owner)):
        if tally.what == "transfer" or tally.what == "delegation":
            counts[tally.name, tally.code, "transfer" if tally.what == "transfer" else "call"] += tally.number
    return counts


def _models(tallies: Iterable[Tally]) -> list[ModelNumbers]:
    sums: dict[str, _RunningTotal] = {}
    for _, what, name, code, number, _, slots in tallies:
        if what in _OF_TURNS:
            sums.setdefault(name, _RunningTotal()).add(what, code, number, slots)
    models = [
        ModelNumbers(name, numbers["turns"], numbers["input_tokens"], numbers["output_tokens"], numbers["cost"])
        for name, numbers in ((name, total.numbers()) for name, total in sums.items())
    ]
    return sorted(models, key=lambda one: (-one.cost, -one.input_tokens, one.model))

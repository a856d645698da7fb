"""Where an amount of work puts the load, from what each part of it was measured to cost.

`python -m bench.capacity --calls 100000 --sessions 1000000` prints how busy each kind of process is, how many of them
that takes, what one that fails leaves, and what is full first when the work grows. What was measured stands in
`MEASURED`, with the page and the day; everything else is arithmetic, which assumes that a cost stays what it is on a
larger machine and with more of them. It models processors, memory and what is stored, no network and no disk.
"""

import argparse
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """What one unit of work costs, and where that was measured."""

    amount: float
    unit: str
    source: str


CLUSTER = "docs/benchmarks.md, durable calls over Postgres and NATS, 256 in flight, 2026-11-15, 2 cores"
MEASURED = {
    "api": Cost(99, "us of CPU a call", CLUSTER),
    "worker": Cost(129, "us of CPU a call", CLUSTER),
    "database": Cost(126, "us of CPU a call", CLUSTER),
    "nats": Cost(27, "us of CPU a call", CLUSTER),
    "session": Cost(2046, "bytes of memory an open session", "docs/benchmarks.md, idle sessions, 2026-11-16"),
    "stored": Cost(1590, "bytes of tables and indexes a call", "docs/benchmarks.md, waiting calls, 2026-11-15"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of process: how many cores one of them can use, and what others can do for one that fails.

    The work of a `shared` one moves to the others at once; that of others waits until a standby is in its place.
    """

    name: str
    cores: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """The work: calls a second, open sessions, and for how many seconds what they write stays in the store."""

    calls: float
    sessions: int
    kept_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """A kind of process under a demand: cores that are busy, processes that it takes, and how busy each is then.

    `without_one` is how busy each of the others is when one fails and its work moves there, above 1 it queues; None
    where it waits for a standby, which then is as busy as the one was.
    """

    part: Part
    busy: float
    count: int
    each: float
    without_one: float | None


def parts(database_cores: int) -> tuple[Part, ...]:
    """The kinds of processes.

    API nodes and workers use one core each. A server of the database has its share of the sessions. One server of NATS
    leads the stream of calls and does its work, the others of its cluster follow.
    """
    return (
        Part("api", 1, shared=True),
        Part("worker", 1, shared=True),
        Part("database", database_cores, shared=False),
        Part("nats", 4, shared=False),
    )


def load_of(part: Part, calls: float, full: float) -> Load:
    """How many of one kind it takes, when none may be busier than `full`."""
    busy = calls * MEASURED[part.name].amount / 1e6
    count = max(math.ceil(busy / (part.cores * full)), 1)
    each = busy / (count * part.cores)
    if not part.shared:
        return Load(part, busy, count, each, None)
    return Load(part, busy, count, each, busy / ((count - 1) * part.cores) if count > 1 else math.inf)


def largest(part: Part, count: int, full: float) -> float:
    """The calls a second at which so many of one kind are as busy as they may be."""
    return count * part.cores * full / (MEASURED[part.name].amount / 1e6)


def memory_gb(demand: Demand) -> float:
    """What open sessions take in the memory of all API nodes together."""
    return demand.sessions * MEASURED["session"].amount / 1e9


def stored_gb(demand: Demand) -> float:
    """What the store holds before it is swept."""
    return demand.calls * demand.kept_s * MEASURED["stored"].amount / 1e9


def walls(database_cores: int, full: float) -> list[tuple[float, str]]:
    """What is full first when all but one kind grow with the work, the lowest first, in calls a second."""
    singles = [part for part in parts(database_cores) if part.name in ("database", "nats")]
    return sorted((largest(part, 1, full), f"one {part.name} server of {part.cores} cores") for part in singles)


def report(demand: Demand, database_cores: int, full: float) -> str:
    """The tables for a page."""
    lines = [
        "| part, of so many cores | busy cores | processes | each busy | when one fails |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for load in (load_of(part, demand.calls, full) for part in parts(database_cores)):
        cells = f"{load.part.name} of {load.part.cores}", f"{load.busy:.1f}", f"{load.count}", f"{load.each:.0%}"
        lines.append(f"| {' | '.join(cells)} | {_after(load)} |")
    lines += ["", f"{demand.sessions:,} open sessions: {memory_gb(demand):.1f} GB in all API nodes together."]
    lines += [f"{demand.kept_s / 86400:g} days of calls: {stored_gb(demand):,.0f} GB in the store.", ""]
    lines += [f"Full first: {what}, at {calls:,.0f} calls a second." for calls, what in walls(database_cores, full)]
    lines += ["", "Measured:"]
    lines += [f"- {name}: {cost.amount:g} {cost.unit} ({cost.source})" for name, cost in MEASURED.items()]
    lines += ["", "Computed: all the rest. Costs are taken to stay what they are on more cores and more machines."]
    return "\n".join(lines)


def _after(load: Load) -> str:
    """What one that fails leaves."""
    if load.without_one is None:
        return f"1/{load.count} of the work waits for its standby"
    return "nothing is left" if math.isinf(load.without_one) else f"each of the others {load.without_one:.0%}"


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=float, default=100_000.0, help="durable calls a second")
    parser.add_argument("--sessions", type=int, default=1_000_000, help="open sessions")
    parser.add_argument("--kept", type=float, default=7.0, help="days until the sweep")
    parser.add_argument("--database-cores", type=int, default=16)
    parser.add_argument("--full", type=float, default=0.6, help="how busy a process may be")
    options = parser.parse_args()
    demand = Demand(options.calls, options.sessions, options.kept * 86400)
    print(report(demand, options.database_cores, options.full))


if __name__ == "__main__":
    main()

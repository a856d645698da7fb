"""`python -m bench.origins`: what it costs to decide a call by where its values come from, and what the index holds.

A call is decided in sessions with logs of 100 and 10,000 events; what is shown is the time of the decision, beside the
same policy without the guard, that of taking in another call, and the memory of the index. Nothing fails by it.
"""

import asyncio
import gc
import tracemalloc
from statistics import median
from time import perf_counter
from typing import Any

from rich.console import Console

from bench.section import Section
from toolcrib import Crib, Session, tool
from toolcrib._call.request import Asker
from toolcrib.policy.loader import load

EVENTS = (100, 10_000)
ROUNDS = 2_000
MAIL = {
    "sender": "ann{n}@corp.example",
    "subject": "Budget {n}",
    "body": "Please send the numbers of week {n} to all. " * 4,
}


@tool(namespace="mail", read_only=True)
async def search(query: str) -> list[dict[str, str]]:
    """Search the mails."""
    return [{key: text.format(n=query) for key, text in MAIL.items()}]


@tool(namespace="mail")
async def send(to: str, body: str) -> str:
    """Send a mail."""
    return "sent"


async def _session(crib: Crib, events: int) -> Session:
    """A session whose log has about so many events."""
    session = await crib.open(f"s{events}", owner="ada", namespaces=["mail"])
    await session.call("mail.send", {"to": "bob@corp.example", "body": "the words of the user"})
    for number in range(events // 2):
        await session.call("mail.search", {"query": str(number)}, agent="clerk", by=("agent", "clerk"))
    return session


def _decision(session: Session, guarded: bool) -> float:
    """Microseconds of one decision, the median of many."""
    policy = load({"preset": "guarded" if guarded else "developer"})
    log = session.origin_log
    asker = Asker(session.id, session.owner, session.namespaces, None, "clerk", None if log is None else log.index)
    took = []
    for number in range(ROUNDS):
        arguments = {"to": f"ann{number % 40}@corp.example", "body": "Here they are"}
        start = perf_counter()
        policy.decide(asker, send, lambda given=arguments: given)  # type: ignore[misc]  # bound in this round
        took.append((perf_counter() - start) * 1e6)
    return median(took)


async def _catch_up(session: Session) -> float:
    """Microseconds to take in one more call, the median of many."""
    took = []
    for number in range(200):
        await session.call("mail.search", {"query": str(number)}, agent="clerk", by=("agent", "clerk"))
        start = perf_counter()
        await session._trace_origins()
        took.append((perf_counter() - start) * 1e6)
    return median(took)


async def _row(events: int) -> tuple[tuple[str, ...], dict[str, Any]]:
    async with Crib([search, send]) as crib:
        session = await _session(crib, events)
        gc.collect()
        tracemalloc.start()
        await session._trace_origins()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        plain, guarded, more = _decision(session, False), _decision(session, True), await _catch_up(session)
    cells = (f"{events:,} events", f"{plain:.1f} us", f"{guarded:.1f} us", f"{more:.0f} us", f"{held / 1e6:.1f} MB")
    return cells, {"plain_us": plain, "guarded_us": guarded, "catch_up_us": more, "bytes": held}


async def measure() -> Section:
    """Measure every length of log."""
    rows = {events: await _row(events) for events in EVENTS}
    return Section(
        name="origins",
        title="A decision by where values come from",
        columns=("log", "without the guard", "guarded", "to take in one more call", "memory of the index"),
        cells=tuple(cells for cells, _ in rows.values()),
        notes=("Goal: at most 20 us a call more in a session of 100 events, 60 us in one of 10,000.",),
        data={str(events): data for events, (_, data) in rows.items()},
    )


def main() -> None:
    """Measure and show."""
    asyncio.run(measure()).draw(Console())


if __name__ == "__main__":
    main()

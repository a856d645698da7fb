"""`python -m bench.origins`: what it costs to decide a call by where its values come from, and what the index holds.

An agent looks mails up and removes each by the id that was found, no mail twice: in sessions with logs of 100 and
10,000 events, in memory and in SQLite, with the guard and without it. What is shown is the CPU time of the whole
process for a call (half of a lookup and a removal), the least of several blocks, and what the guard adds to it: to
decide, and to take in a result of some 250 characters. The words of its text are read later, and measured apart. The
memory of the index is that of this log, and that of one which is full. Nothing fails by it.
"""

import argparse
import asyncio
import gc
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from time import process_time, thread_time
from typing import Any

from rich.console import Console

from bench import docs
from bench.peers import ROOT
from bench.section import Section
from toolcrib import Crib, Session, tool
from toolcrib.origins.index import OriginIndex

EVENTS = (100, 10_000)
BLOCK, BLOCKS = 50, 24
MAIL = {
    "id": "m{n}",
    "sender": "ann{n}@corp.example",
    "subject": "Budget {n}",
    "body": "Please send the numbers of week {n} to all. " * 4,
}
PRESETS = ("developer", "guarded")
MARKERS = ("<!-- bench-origins: begin -->", "<!-- bench-origins: end -->")


_PROSE = (
    "Hello Ann as we said the numbers of the first quarter should be with the board before the end of next week so "
    "please send what you have to me and ask Bob for the rest of it he knows where the older files are thank you Carol"
)


@tool(namespace="mail", read_only=True)
async def search(query: str) -> list[dict[str, str]]:
    """Search the mails."""
    return [{key: text.format(n=query) for key, text in MAIL.items()}]


@tool(namespace="mail")
async def remove(mail_id: str) -> str:
    """Remove a mail."""
    return "removed"


async def _by_agent(session: Session, name: str, arguments: dict[str, Any]) -> None:
    result = await session.call(name, arguments, agent="clerk", by=("agent", "clerk"))
    assert result.ok, result


async def _session(crib: Crib, id: str, events: int) -> Session:
    """A session whose log has about so many events, and whose user says the numbers of all mails."""
    session = await crib.open(id, owner="ada", namespaces=["mail"])
    most = events // 2 + BLOCK * BLOCKS
    await session.call("mail.remove", {"mail_id": f"remove all of them: {' '.join(map(str, range(most)))}"})
    for number in range(events // 2):
        await _by_agent(session, "mail.search", {"query": str(number)})
    return session


async def _block(session: Session, first: int) -> float:
    """Microseconds of CPU of one call, of which half look a mail up and half remove it."""
    start = process_time()
    for number in range(first, first + BLOCK):
        await _by_agent(session, "mail.search", {"query": str(number)})
        await _by_agent(session, "mail.remove", {"mail_id": f"m{number}"})
    return (process_time() - start) * 1e6 / (2 * BLOCK)


async def _calls(events: int, stores: dict[str, str]) -> list[float]:
    """The least of several blocks for each preset, in turns, since the machine may be busy for a while.

    Short sessions are made anew for each block, since they grow.
    """
    took: dict[str, list[float]] = {preset: [] for preset in stores}
    async with AsyncExitStack() as stack:
        sessions: dict[str, Session] = {}
        for preset, store in stores.items():
            crib = await stack.enter_async_context(Crib([search, remove], policy={"preset": preset}, store=store))
            sessions[preset] = await _session(crib, "first", events)
        for number in range(BLOCKS):
            for preset, session in sessions.items():
                short = events < BLOCK * 10
                used = await _session(session.crib, f"s{number}", events) if short else session
                await _by_agent(used, "mail.remove", {"mail_id": "m0"})  # what came before is in the index
                took[preset].append(await _block(used, events // 2 + BLOCK * number))
    return [min(blocks) for blocks in took.values()]


def _reading(mails: int = 200) -> float:
    """Microseconds of CPU that reading the words of the text of one mail takes, once it is asked for or many wait."""
    index, took = OriginIndex(), list[float]()
    for _ in range(5):
        for number in range(mails):
            text = " ".join(
                f"{word}{number % 100}" if place % 8 == 0 else word for place, word in enumerate(_PROSE.split())
            )
            index.add_text("prose", f"c{number}", "mail.search", "[0].body", text)
        start = process_time()
        index.sightings("nowhere@corp.example")
        took.append((process_time() - start) * 1e6 / mails)
    return min(took)


async def _first_look(events: int) -> tuple[float, float]:
    """Milliseconds of CPU that the first look at a restored log takes in all, and at the most without a pause."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder)}/restored.db"
        async with Crib([search, remove], store=store) as crib:
            await _session(crib, "s", events)
        looks = [await _look_at_restored(store) for _ in range(5)]
    return min(whole for whole, _ in looks), min(longest for _, longest in looks)


async def _look_at_restored(store: str) -> tuple[float, float]:
    async with Crib([search, remove], store=store) as crib:
        session = await crib.open("s", owner="ada", namespaces=["mail"])
        looking = asyncio.create_task(session._trace_origins())
        start, turns = thread_time(), [0.0]
        while not looking.done():
            before = thread_time()
            await asyncio.sleep(0)
            turns.append(thread_time() - before)
        return (thread_time() - start) * 1e3, max(turns) * 1e3


async def _held(events: int) -> int:
    """Bytes of the index of a session."""
    async with Crib([search, remove]) as crib:
        session = await _session(crib, "s", events)
        gc.collect()
        tracemalloc.start()
        await session._trace_origins()
        log = session.origin_log
        assert log is not None
        log.index.sightings("nowhere@corp.example")
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return held


def full_index(words: int = 20_000) -> OriginIndex:
    """An index that takes no more: every word and every field in it is another one."""
    index, number = OriginIndex(), 0
    while index.complete:
        number += 1
        body = " ".join(f"word{number}x{part}" for part in range(20))
        record = {f"field{number}": f"id{number}", "sender": f"a{number}@corp.example", "body": body}
        index.add_result(f"c{number}", "mail.search", [], [record], trusted=False)
    for part in range(words):
        index.user.add(f"word{part} was said by the user, in words of some length")
        index.add_written(f"word{part} was written by an agent, in words of some length")
    index.sightings("nowhere@corp.example")
    return index


def _full() -> int:
    """Bytes of an index that takes no more."""
    tracemalloc.start()
    index = full_index()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert not index.complete
    return held


async def _rows() -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    rows: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    for kind, events in _measures():
        with tempfile.TemporaryDirectory() as folder:
            in_memory = kind == "memory"
            stores = {one: "memory:" if in_memory else f"sqlite:///{Path(folder)}/{one}.db" for one in PRESETS}
            plain, guarded = await _calls(events, stores)
        held = await _held(events)
        cells = (f"{events:,} events, {kind}", f"{plain:.1f} us", f"{guarded:.1f} us", f"{guarded - plain:.1f} us")
        data = {"plain_us": plain, "guarded_us": guarded, "added_us": guarded - plain, "bytes": held}
        rows.append(((*cells, f"{held / 1e6:.1f} MB"), data))
    return rows


def _measures() -> Iterator[tuple[str, int]]:
    return ((kind, events) for kind in ("memory", "SQLite") for events in EVENTS)


async def measure() -> Section:
    """Measure every length of log in every store."""
    rows, full, reading = await _rows(), _full(), _reading()
    whole, longest = await _first_look(EVENTS[-1])
    return Section(
        name="origins",
        title="A decision by where values come from",
        columns=("log", "a call without the guard", "guarded", "added", "memory of the index"),
        cells=tuple(cells for cells, _ in rows),
        notes=(
            "Goal: at most 20 us a call in a session of 100 events, 60 us in one of 10,000.",
            f"An index that is full holds {full / 1e6:.0f} MB. Reading the words of a text of {len(_PROSE)} "
            f"characters takes {reading:.0f} us, once a value is in no field or 64,000 characters wait.",
            f"The first look at a restored log of {EVENTS[-1]:,} events takes {whole:.0f} ms, "
            f"and others wait {longest:.1f} ms for their turn at the most.",
        ),
        data={
            **{cells[0]: data for cells, data in rows},
            "full_bytes": full,
            "reading_us": reading,
            "first_look_ms": whole,
            "longest_turn_ms": longest,
        },
    )


def main() -> None:
    """Measure, show, and write where that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.origins", description=__doc__)
    parser.add_argument("--write-docs", nargs="?", const=str(ROOT / "docs" / "benchmarks.md"), metavar="page")
    chosen = parser.parse_args()
    found = asyncio.run(measure())
    found.draw(Console())
    if chosen.write_docs:
        docs.write(Path(chosen.write_docs), found.as_markdown(), MARKERS)


if __name__ == "__main__":
    main()

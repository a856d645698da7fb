"""Acceptance 4 over Postgres: what waits costs nothing, neither time at a start nor memory."""

import asyncio
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.cluster.place import READY, Place
from toolcrib.store import Draft, Row, Write, open_store
from toolcrib.store.codec import Stored, encode

COUNT, PER_SESSION = 100_000, 1000


def waiting(session: str, n: int) -> Write:
    """A call that has asked, as the pipeline would have written it."""
    id, expires_at = f"c{n}", time.time() + 3600
    question: dict[str, Any] = {
        "id": f"{id}-1",
        "call": id,
        "session": session,
        "tool": "default.ask",
        "kind": "input",
        "prompt": "Really?",
        "key": "really",
        "arguments": {"n": n},
        "schema": None,
        "resume": "pass",
        "digest": "",
        "path": [],
        "asked_at": 0.0,
        "expires_at": expires_at,
    }
    args = {"args": {"n": n}, "digest": ""}
    events: list[Draft] = [
        (
            0.0,
            id,
            "accepted",
            Stored(encode({"tool": "default.ask", "label": "Ask", "by": {"kind": "user"}, "effect": "once", **args})),
        ),
        (0.0, id, "started", Stored(encode({"attempt": 1, "timeout_s": 60, **args}))),
        (0.0, id, "waiting", Stored(encode({"question": question}))),
    ]
    row = Row(id, session, "default.ask", "once", "waiting", 1, "w-dead")
    row.question, row.expires_at = question["id"], expires_at
    return Write(session, events, row)


async def fill(url: str, name: str, firsts: Iterable[int]) -> None:
    """Very many calls that wait, in sessions that begin with these."""
    store = open_store(url)
    await store.start(name)
    for first in firsts:
        session = f"s-{first}"
        await store.open(session, "ada", time.time())
        for n in range(first, first + PER_SESSION):
            store.put(waiting(session, n))
        await store.flush()
    await store.close()


async def serve(place: Place, label: str) -> list[Any]:
    """Starts an API node, hears what it did, and kills it."""
    words = ["/usr/bin/env", sys.executable, "-m", "tests.cluster.many", place.store, place.engine]  # from nothing
    node = await place.run(words, label).ready()
    node.kill()
    said: list[Any] = json.loads(next(line for line in node.said if READY.match(line)))
    return said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
async def test_with_a_hundred_thousand_waiting_calls_a_new_node_serves_an_answer_in_little_memory(place: Place) -> None:
    begun = time.perf_counter()
    firsts = range(0, COUNT, PER_SESSION)
    await asyncio.gather(*(fill(place.store, f"w-{part}", firsts[part::3]) for part in range(3)))
    print(f"{COUNT} calls written in {time.perf_counter() - begun:.1f} s")
    await place.worker("w1")
    answered = set()
    for label in ("first", "second"):
        _, data, acknowledged, seconds, memory = await asyncio.wait_for(serve(place, label), 60)
        print(f"answered after {acknowledged:.2f} s, resumed after {seconds:.2f} s, {memory / 1e6:.0f} MB")
        assert memory < 100_000_000
        answered.add(data)
    assert answered == {"yes 0", "yes 1"}
    assert place.effects("ask") == {0: 1, 1: 1}

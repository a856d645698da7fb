"""What a node tells others of its commits: the first at once, the rest together."""

import asyncio

import pytest

from tests.requirements import requirement
from toolcrib.store.postgres import hints
from toolcrib.store.postgres.hints import Hints


@requirement("aomi.push.3")
async def test_what_is_committed_just_after_a_hint_is_not_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "GATHER_S", 3600.0)
    told: list[list[str]] = []

    async def send(lines: list[str]) -> None:
        told.append(lines)

    telling = Hints(send)
    for number in (1, 2):
        telling.add("a", number, [f"1:{number}"])
        for _ in range(5):  # rounds of the loop, more than it takes to tell
            await asyncio.sleep(0)
    assert told == [["a 1:1 ^1 #1"]]
    await telling.stop(listens=False)


@requirement("aomi.push.3")
async def test_what_was_committed_while_a_hint_was_under_way_is_told_together() -> None:
    told: list[list[str]] = []
    sent, gate = asyncio.Event(), asyncio.Event()

    async def send(lines: list[str]) -> None:
        told.append(lines)
        sent.set()
        await gate.wait()

    telling = Hints(send)
    telling.add("a", 1, ["1:1"])
    await asyncio.wait_for(sent.wait(), 60)
    telling.add("a", 2, ["1:2!"])
    telling.add("a", 3, ["1:3", "2:1"])
    gate.set()
    await telling.stop()
    assert told == [["a 1:1 ^1 #1"], ["a 1:3! 2:1 ^2 #3"]]

"""Servers that list too much, tell of changes without end, and answer with more than can be read."""

import asyncio
import json
import logging
import random
import sys
import threading
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import PEERS, code, opened
from toolcrib import Crib
from toolcrib.sources.json_parts import PartCounter, exceeds
from toolcrib.sources.mcp import Mcp

pytestmark = pytest.mark.process


def hostile(tools: int = 0, **more: Any) -> Mcp:
    return Mcp(sys.executable, str(PEERS / "hostile.py"), str(tools), name="hostile", **more)


def names(crib: Crib) -> set[str]:
    return {tool.name for tool in crib.catalog.view(("hostile",)).tools}


@requirement("security.bounds.3")
async def test_of_very_many_tools_the_first_are_taken_and_the_source_says_so() -> None:
    source = hostile(3000)
    async with opened(source) as (crib, session):
        assert len(names(crib)) == 1000 - 3  # those that do not hold count too
        assert "t900" in names(crib)
        health = source.health_of(None)
        assert health.status == "degraded"
        assert "it lists more than 1000 tools" in health.reason
        assert code(await session.call("hostile.listings", {})) is None


@requirement("security.bounds.3")
async def test_a_listing_that_cannot_be_read_without_a_pause_is_refused() -> None:
    source = hostile(60_000, start_s=60)
    async with Crib([source]) as crib:
        assert names(crib) == set()
        health = source.health_of(None)
        assert "more than 200000 values" in health.reason


@requirement("security.bounds.3")
async def test_tools_that_are_too_large_are_left_out_with_a_reason() -> None:
    source = hostile()
    async with opened(source) as (crib, _):
        assert names(crib) == {"listings", "flood", "values", "text"}
        reason = source.health_of(None).reason
        assert "costly: the patterns of the schema are too large" in reason
        assert "wordy: its description has more than 64 KB" in reason
        assert "unreadable: input_schema: not valid JSON Schema" in reason
        tool = crib.catalog.view(("hostile",)).names["hostile.listings"]
        assert source.health_of(tool).status == "ok"


@requirement("security.bounds.2")
async def test_tools_of_a_server_are_made_beside_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib.mcp"):
        async with opened(hostile()):
            pass
    (record,) = [record for record in caplog.records if "unreadable" in record.getMessage()]
    assert record.thread != threading.get_ident()


@requirement("security.bounds.3")
async def test_a_flood_of_changes_costs_few_listings() -> None:
    async with opened(hostile()) as (crib, session):
        changed = asyncio.Event()
        crib.catalog.listen(changed.set)
        assert code(await session.call("hostile.flood", {})) is None
        await asyncio.wait_for(changed.wait(), 60)
        assert "grown" in names(crib)
        listings = await session.call("hostile.listings", {})
        assert int(listings.content[0]["text"]) < 10


@requirement("security.bounds.3")
async def test_an_answer_with_very_many_values_is_refused_and_one_long_text_is_not() -> None:
    async with opened(hostile()) as (_, session):
        refused = await session.call("hostile.values", {})
        assert code(refused) == "too_large"
        assert refused.failure is not None
        assert "`message_parts`" in str(refused.failure.hint)
        assert code(await session.call("hostile.text", {})) is None
        assert code(await session.call("hostile.listings", {})) is None


@requirement("security.bounds.3")
def test_values_are_counted_by_chunks_as_by_the_whole() -> None:
    chance = random.Random(20261116)
    for _ in range(200):
        texts = ["".join(chance.choices('ab,[{}]"\\', k=chance.randrange(9))) for _ in range(chance.randrange(1, 60))]
        data = [chance.choice([text, [text], {text: 1}, 5]) for text in texts]
        line = json.dumps(data).encode()
        most = next(most for most in range(1000) if not PartCounter(most).exceeded_by(line))
        assert len(data) // 2 <= most <= 5 * len(data)
        counter, start, over = PartCounter(most - 1), 0, False
        while start < len(line):
            end = start + chance.randrange(1, 7)
            over = counter.exceeded_by(line[start:end]) or over
            start = end
        assert over
        assert not exceeds(line, most)

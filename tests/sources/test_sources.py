"""Sources that a crib starts and stops."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Crib, Tool
from toolcrib.catalog import registry
from toolcrib.sources import Source


class Counted(Source):
    """A source that counts its starts and stops, and may have nothing to give."""

    def __init__(self, name: str, *, broken: bool = False) -> None:
        self.name = name
        self.namespaces = (name,)
        self.broken = broken
        self.log: list[str] = []

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        self.log.append("start")
        if self.broken:
            raise RuntimeError("nobody there")

        async def run(ctx: Any, values: Any) -> str:
            return self.name

        return [Tool(name="who", namespace=self.name, description="Say who.", effect="read", run=run)]

    async def stop(self) -> None:
        self.log.append("stop")


async def test_a_crib_that_is_started_again_starts_its_sources_again() -> None:
    source = Counted("far")
    crib = Crib([source])
    for _ in range(2):
        async with crib:
            session = await crib.open("s", owner="ada", namespaces=["far"])
            assert (await session.call("far.who", {})).data == "far"
    assert source.log == ["start", "stop", "start", "stop"]


async def test_a_crib_that_cannot_start_stops_what_it_has_started() -> None:
    well, broken = Counted("well"), Counted("broken", broken=True)
    with pytest.raises(RuntimeError, match="nobody there"):
        await Crib([well, broken]).start()
    assert well.log == ["start", "stop"]


async def test_a_namespace_can_be_opened_before_its_source_has_any_tools() -> None:
    class Late(Counted):
        async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
            self.changed = changed
            self.tools = await super().start(changed)
            return []

    late = Late("late")
    async with Crib([late]) as crib:
        session = await crib.open("s", owner="ada", namespaces=["late"])
        assert session._tool_ids() == []
        late.changed(late.tools)
        assert (await session.call("late.who", {})).data == "late"


class Gated(Counted):
    """A source in the background that is ready when it is let."""

    background = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.gate = asyncio.Event()

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        tools = await super().start(changed)
        await self.gate.wait()
        return tools


@requirement("gateway.start.1")
async def test_a_crib_that_starts_at_once_waits_for_the_source_that_is_named_alone() -> None:
    near, far, away = Counted("near"), Gated("far"), Gated("away")
    crib = Crib([near, far, away])
    crib.at_once = True
    async with asyncio.timeout(60), crib:
        session = await crib.open("s", owner="ada", namespaces=["near", "far", "away"])
        assert (await session.call("near.who", {})).data == "near"
        await crib.registry.arrive("near.who", 1000)
        arrival = asyncio.create_task(crib.registry.arrive("far.who", 1000))
        await asyncio.sleep(0)
        assert not arrival.done()
        far.gate.set()
        await arrival
        assert (await session.call("far.who", {})).data == "far"
        assert crib.registry.pending
    assert away.log == ["start", "stop"]


@requirement("gateway.start.1")
async def test_sources_in_the_background_begin_when_the_server_can_answer_or_somebody_waits_for_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "HEAD_START_S", 1000.0)
    sources = [Gated(f"s{number}") for number in range(50)]
    crib = Crib(sources)
    crib.at_once = True
    async with asyncio.timeout(60), crib:
        session = await crib.open("s", owner="ada", namespaces=["s7"])
        assert not any(source.log for source in sources)
        for _ in range(3):
            await asyncio.sleep(0)
        assert "has not answered" not in caplog.text
        sources[7].gate.set()
        await crib.registry.arrive("s7.who", 1000)
        assert (await session.call("s7.who", {})).data == "s7"

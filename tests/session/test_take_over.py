"""A crib that goes on with the sources and the policy of another."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable

import pytest

from tests.requirements import requirement
from toolcrib import Crib, Refused, Tool, tool
from toolcrib.sources import Source


class Slow(Source):
    """A source whose one tool waits until it is let go."""

    name = "slow"

    def __init__(self) -> None:
        self.begun, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        @tool(read_only=True)
        async def wait() -> str:
            """Wait."""
            self.begun.set()
            await self.go.wait()
            return "stopped" if self.stopped.is_set() else "done"

        return [Crib([wait]).catalog.view(("*",)).names["default.wait"]]

    async def stop(self) -> None:
        self.stopped.set()


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "seen"


@requirement("project.reload.1")
async def test_a_source_that_is_gone_stops_when_its_calls_have_ended() -> None:
    slow = Slow()
    async with Crib([slow]) as crib:
        session = await crib.open("s", owner="ada")
        call = asyncio.ensure_future(session.call("wait"))
        await slow.begun.wait()
        await crib.take_over(Crib([look]))
        assert (await session.call("look")).data == "seen"
        refused = await session.call("wait")
        assert refused.failure is not None
        assert refused.failure.code == "not_found"
        slow.go.set()
        assert (await call).data == "done"
        await slow.stopped.wait()


@requirement("project.reload.1")
async def test_a_source_that_both_have_is_neither_stopped_nor_started() -> None:
    slow = Slow()
    async with Crib([slow]) as crib:
        await crib.take_over(Crib([slow, look], policy={"rules": [{"deny": "default.look"}]}))
        session = await crib.open("s", owner="ada")
        denied = await session.call("look")
        assert denied.failure is not None
        assert denied.failure.code == "denied"
        slow.go.set()
        assert (await session.call("wait")).data == "done"
        assert not slow.stopped.is_set()


@requirement("project.reload.2")
async def test_where_two_tools_have_one_id_nothing_changes() -> None:
    slow = Slow()
    async with Crib([look]) as crib:
        with pytest.raises(Refused, match="already registered"):
            await crib.take_over(Crib([Clash(), slow]))
        session = await crib.open("s", owner="ada")
        assert (await session.call("look")).data == "seen"
        await slow.stopped.wait()


class Clash(Slow):
    """A source that has one tool twice."""

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        first = Crib([look]).catalog.view(("*",)).names["default.look"]
        second = Crib([look]).catalog.view(("*",)).names["default.look"]
        return [first, dataclasses.replace(second, description="Another.")]

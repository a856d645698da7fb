"""Cribs over memory and over a real file, with a clock that stands still."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Crib
from toolcrib.store import Store, open_store
from toolcrib.testing import FakeClock

OpenCrib = Callable[..., Awaitable[Crib]]
"""`await open_crib(*sources, **options)`: a started crib, which ends with the test."""


@pytest.fixture(params=["memory", "sqlite"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/toolcrib.db"


@pytest.fixture
def store(store_url: str) -> Store:
    """One store for all cribs of a test, so that a second crib is a restart."""
    return open_store(store_url)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_767_225_600.123456)


@pytest.fixture
async def open_crib(store: Store, clock: FakeClock) -> AsyncIterator[OpenCrib]:
    running: list[Crib] = []

    async def opened(*sources: Any, **options: Any) -> Crib:
        """The first crib; each further one is what comes after a restart."""
        while running:
            await running.pop().stop(grace=0)
        settings: dict[str, Any] = {"store": store, "clock": clock}
        crib = Crib(sources, **settings | options)
        await crib.start()
        running.append(crib)
        return crib

    yield opened
    while running:
        await running.pop().stop(grace=0)


@pytest.fixture
def trace(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """All that the trace says so far."""
    caplog.set_level(logging.DEBUG, "toolcrib.trace")
    return lambda: caplog.text

"""Every test that takes `place` runs over each store that a single process can use."""

import asyncio
import functools
import gc
import sys
from collections.abc import AsyncIterator

import pytest

from tests.session.conftest import file_place, place

__all__ = ["file_place", "place"]


@pytest.fixture(autouse=True)
async def _no_clients_left() -> AsyncIterator[None]:
    """Google's client closes itself by tasks of whatever loop runs when it is collected: let it be this test's."""
    yield
    if "google.genai" not in sys.modules:
        return
    gc.collect()
    left = {task for task in asyncio.all_tasks() if "aclose" in repr(task.get_coro())}
    if left:
        await asyncio.wait(left, timeout=30)
    _leave_clients_alone()


@functools.cache
def _leave_clients_alone() -> None:
    """What the clients are made of stays, and is not looked through again after each test."""
    gc.freeze()

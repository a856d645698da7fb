"""A served crib for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.serve.place import Place, serving
from tests.serve.tools import TOOLS, Doors, library
from toolcrib import Crib
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.mcp import McpServerSettings


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
async def place(doors: Doors) -> AsyncIterator[Place]:
    shelved = library()
    crib = Crib([*TOOLS, shelved], deps={"doors": doors})
    settings = McpServerSettings(name="workshop", instructions="Be kind.", task_after_s=0.3)
    limits = ServeLimits(body_bytes=200_000, body_s=0.5)
    async with serving(crib, library=shelved, mcp=settings, limits=limits) as made:
        yield made

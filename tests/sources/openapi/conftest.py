"""A service for the tests of a file, and a crib over a document of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.sources.openapi.service import Service, serving
from toolcrib import Crib
from toolcrib.session import Session
from toolcrib.sources.openapi import OpenApi

POLICY: dict[str, Any] = {"grants": {"allow": ["net:egress:*", "net:egress:private"]}}
Opened = Callable[..., Awaitable[Session]]


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture
def service(running: Service) -> Service:
    running.seen.clear()
    running.tokens.clear()
    running.withdrawn.clear()
    running.files.clear()
    running.lives = 3600
    return running


@pytest.fixture
async def opened(service: Service) -> AsyncIterator[Opened]:
    """Opens a session over a document; it is trusted and at the service, unless said."""
    async with AsyncExitStack() as stack:

        async def open_(given: Any, *, owner: str = "ada", **settings: Any) -> Session:
            settings = {"trusted": True, "base_url": service.url, "namespace": "shop", **settings}
            crib = await stack.enter_async_context(Crib([OpenApi(given, **settings)], policy=POLICY))
            return await crib.open(owner=owner, namespaces=["*"])

        yield open_

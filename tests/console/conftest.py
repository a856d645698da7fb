"""One browser and one shop for all tests of the console; each test has a page of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.console.place import SOON_S, Shop, Visit, shop_at

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
Visiting = Callable[..., Any]


def chromium() -> str:
    """The browser of this machine."""
    found = os.environ.get("TOOLCRIB_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip(f"no Chromium is installed: none of {', '.join(CHROMIUMS)}, and TOOLCRIB_CHROMIUM names none")
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    expect.set_options(timeout=SOON_S * 1000)
    async with async_playwright() as playwright:
        made = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield made
        await made.close()


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop for all; each test takes sessions of its own."""
    chromium()
    with shop_at(tmp_path_factory.mktemp("shop"), "--tools", "300") as made:
        yield made


@pytest.fixture(scope="session")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop with a week of calls in its log, to look at alone."""
    chromium()
    with shop_at(tmp_path_factory.mktemp("week"), "--week") as made:
        yield made


@pytest.fixture
def own_shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop that a test may end."""
    chromium()
    with shop_at(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def visiting(browser: Browser) -> Visiting:
    """Opens a page of a shop: `async with visiting(shop) as visit`."""

    @asynccontextmanager
    async def visit(shop: Shop, **options: Any) -> AsyncIterator[Visit]:
        context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(SOON_S * 1000)
        made = Visit(await context.new_page(), shop.url)
        await made.guard(context)
        try:
            yield made
        finally:
            await made.page.unroute_all(behavior="ignoreErrors")
            await context.unroute_all(behavior="ignoreErrors")
            await context.close()
        made.check()

    return visit


@pytest_asyncio.fixture(loop_scope="session")
async def visit(visiting: Visiting, shop: Shop) -> AsyncIterator[Visit]:
    """A page of the shop for all."""
    async with visiting(shop) as made:
        yield made

"""The console of a server without keys: the printed address signs in, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting, chromium
from tests.console.place import UNKNOWN, Shop, shop_at
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")
TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def closed_shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop that asks for its start token."""
    chromium()
    with shop_at(tmp_path, "--token", TOKEN) as made:
        made.http.headers["Authorization"] = f"Bearer {TOKEN}"
        yield made


@requirement("security.door.4")
async def test_the_printed_address_opens_the_console_and_streams_follow(closed_shop: Shop, visiting: Visiting) -> None:
    async with visiting(closed_shop) as visit:
        visit.expected = UNKNOWN
        await visit.page.goto(f"{closed_shop.url}/")
        await expect(visit.page.get_by_role("button", name="Sign in")).to_be_visible()
        await visit.page.goto(f"{closed_shop.url}/?token={TOKEN}#/inbox")
        await expect(visit.page).to_have_url(f"{closed_shop.url}/#/inbox")
        closed_shop.begin("s", "shop.refund", {"order": "T-1", "cents": 2}, "waiting")
        await expect(visit.region("Open questions").get_by_role("link").filter(has_text="shop.refund")).to_be_visible()
        assert TOKEN not in str(await visit.page.evaluate("document.cookie + location.href"))

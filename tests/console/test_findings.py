"""What does nothing is told on the page of tools, to whoever looks after the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting, chromium
from tests.console.place import shop_at
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")


@requirement("findings.shown.3")
async def test_a_rule_about_nothing_is_told_on_the_page_of_tools(visiting: Visiting, tmp_path: Path) -> None:
    chromium()
    with shop_at(tmp_path, "--deny", "shop.refnd") as shop:
        async with visiting(shop) as visit:
            await visit.go("tools")
            summary = visit.page.locator(".findings summary")
            await expect(summary).to_contain_text("here do")
            await summary.click()
            told = visit.page.get_by_role("list", name="Findings").get_by_role("listitem")
            await expect(told.filter(has_text="NO_TOOL")).to_contain_text("did you mean shop.refund?")

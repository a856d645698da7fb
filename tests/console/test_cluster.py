"""The cluster as the console shows it: two nodes over one store and one engine."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting, chromium
from tests.console.place import shop_at

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_nodes_and_lanes_are_shown(visiting: Visiting, postgres_url: str, nats_url: str) -> None:
    chromium()
    engine = ("--engine", nats_url)
    with shop_at(postgres_url, *engine) as one, shop_at(postgres_url, *engine):
        one.begin("held", "shop.report", {"rows": 1, "hold": True})
        one.begin("till", "shop.refund", {"order": "B-1", "cents": 7}, "waiting")
        async with visiting(one) as visit:
            await visit.go("cluster")
            nodes = visit.region("Nodes").locator("tbody tr")
            await expect(nodes).to_have_count(2)
            await expect(nodes.filter(has_text="alive").filter(has_text="worker")).to_have_count(2)
            # Which of them runs the call is theirs to settle; a beat later it is told.
            await expect(nodes.get_by_role("meter").and_(visit.page.locator("[aria-valuenow='1']"))).to_have_count(1)
            lanes = visit.region("Lanes").locator("tbody tr")
            await expect(lanes.filter(has_text="shop.report")).to_have_text("defaultshop.report010")
            await expect(lanes.filter(has_text="shop.refund")).to_have_text("defaultshop.refund001")
            await expect(visit.page.get_by_role("img", name="running, since you look: 1")).to_be_visible()
            # A narrow screen scrolls the table, not the page.
            await visit.page.set_viewport_size({"width": 390, "height": 780})
            assert await visit.page.evaluate("document.querySelector('main').scrollWidth") <= 390

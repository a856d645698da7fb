"""A week in numbers: how a tool is used and by whom, what changed in it, and how often agents reached each other."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.place import Shop
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")


@requirement("console.tools.1")
async def test_a_person_sees_how_a_tool_is_used_how_well_it_works_and_who_uses_it(
    week: Shop, visiting: Visiting
) -> None:
    numbers = week.ask("GET", "/tools/shop.track/stats", by="agent", range="week")
    total, failed = numbers["total"]["calls"], numbers["total"]["failures"]["unavailable"]
    desk = next(one for one in numbers["groups"] if one["name"] == "desk")
    async with visiting(week) as visit:
        await visit.go("tools", "shop.track")
        use = visit.region("Use")
        await expect(use).to_contain_text(f"{total}calls in a week")
        await expect(use).to_contain_text(f"{failed}failed: unavailable")
        await expect(use.get_by_role("img", name=re.compile("not well in [0-9]+ of the [0-9]+ hours"))).to_be_visible()
        who = visit.region("Who uses it, by agent")
        row = who.get_by_role("row").filter(has_text="desk")
        await expect(row).to_contain_text(str(desk["calls"]))
        await use.get_by_role("button", name="Table of Calls").click()
        await expect(use.get_by_role("region", name="Calls, as a table")).to_contain_text("succeeded")
        await row.get_by_role("link").click()
        await expect(visit.page).to_have_url(re.compile("overview.*tool=shop.track.*agent=desk"))
        behind = visit.region("Calls behind the numbers").get_by_role("link").filter(has_text="shop.track")
        await expect(behind).to_have_count(desk["calls"])


@requirement("console.tools.1")
async def test_the_list_of_tools_has_how_much_each_was_used(week: Shop, visiting: Visiting) -> None:
    groups = {one["name"]: one["calls"] for one in week.ask("GET", "/stats", by="tool", range="day")["groups"]}
    async with visiting(week) as visit:
        await visit.go("tools")
        row = visit.region("Tools").get_by_role("link").filter(has_text="find_order")
        await expect(row).to_contain_text(f"{groups['shop.find_order']} calls in the last day")
        never = visit.region("Tools").get_by_role("link").filter(has_text="quote")
        await expect(never).not_to_contain_text("in the last day")


@requirement("console.tools.2")
async def test_two_versions_of_a_tool_stand_side_by_side(week: Shop, visiting: Visiting) -> None:
    async with visiting(week) as visit:
        await visit.go("tools", "carrier.quote")
        await expect(visit.page.get_by_text("It has changed since it was accepted: description")).to_be_visible()
        versions = visit.region("Versions")
        await expect(versions.locator("ins")).to_contain_text(["with insurance", "the customer's address"])
        await expect(versions.locator("del")).to_have_text(["Say what a parcel costs."])
        await versions.get_by_label("Earlier version").select_option("1")
        await expect(versions).to_contain_text("These two look the same.")


@requirement("console.agents.1")
async def test_the_graph_of_agents_has_the_traffic_on_its_edges(week: Shop, visiting: Visiting) -> None:
    edges = {(one["target"], one["via"]): one.get("count", 0) for one in week.ask("GET", "/agents")["edges"]}
    asks, handovers = edges["stock", "call"], edges["billing", "transfer"]
    assert min(asks, handovers) > 1
    async with visiting(week) as visit:
        await visit.go("agents")
        graph = visit.region("Who works with whom")
        words = f"desk hands over to billing, {handovers} times in the last week"
        await expect(graph.get_by_role("img", name=re.compile(words))).to_be_visible()
        await expect(graph.locator(".traffic text")).to_have_text([str(handovers), str(asks)])
        card = visit.page.get_by_role("article", name="billing", exact=True)
        await expect(card).to_contain_text("in the last week")
        await card.get_by_role("link").click()
        await expect(visit.page).to_have_url(re.compile("overview.*agent=billing"))
        await expect(visit.page.get_by_role("heading", name="Overview")).to_be_visible()

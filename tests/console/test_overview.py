"""Stories of the overview: what somebody who never saw the product finds out from it alone."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.place import Shop
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")


@requirement("console.overview.1")
async def test_somebody_finds_the_tool_that_fails_most_today_and_why(own_shop: Shop, visiting: Visiting) -> None:
    for order in ("one", "two", "three"):
        own_shop.call("s", "shop.find_order", {"order": order})
    own_shop.call("s", "shop.find_order", {"order": "A-7"})
    own_shop.call("s", "shop.pack", {"lines": "none"})
    async with visiting(own_shop) as visit:
        await visit.page.goto(own_shop.url)
        await expect(visit.page.get_by_role("heading", name="Overview")).to_be_visible()
        tools = visit.region("By tool")
        await tools.get_by_label("Order").select_option("most failures")
        worst = tools.get_by_role("row").nth(1)
        await expect(worst).to_contain_text("shop.find_order")
        await expect(worst).to_contain_text("3 (75 %)")
        await worst.get_by_role("link", name="not_found 3").click()
        behind = visit.region("Calls behind the numbers")
        await expect(behind.get_by_role("link").filter(has_text="There is no order")).to_have_count(3)
        await behind.get_by_role("link").filter(has_text="There is no order two").click()
        await expect(visit.page).to_have_url(re.compile(r"#/live/s/"))


@requirement("console.overview.1")
async def test_somebody_finds_the_agent_that_costs_most(own_shop: Shop, visiting: Visiting) -> None:
    for agent, messages in (("billing", 1), ("desk", 3)):
        own_shop.ask("POST", "/sessions", {"id": agent})
        for _ in range(messages):
            own_shop.ask("POST", f"/sessions/{agent}/messages", {"text": "hello", "agent": agent, "wait": 60})
    async with visiting(own_shop) as visit:
        await visit.page.goto(own_shop.url)
        await visit.page.get_by_role("link", name=re.compile("^cost")).click()
        first = visit.region("By agent").get_by_role("row").nth(1)
        await expect(first).to_contain_text("desk")
        await expect(first).to_contain_text("$0.00")
        await expect(visit.region("Models").get_by_role("row")).to_have_count(2)
        await visit.region("Cost").get_by_role("button", name="Table").click()
        await expect(visit.region("Cost").get_by_role("table")).to_contain_text("$0.0")


@requirement("console.overview.1")
async def test_somebody_finds_what_waits_longest(own_shop: Shop, visiting: Visiting) -> None:
    for session, prompt in (("first", "Which address is right?"), ("second", "Is it blue?"), ("third", "Or red?")):
        own_shop.begin(session, "shop.question", {"prompt": prompt}, "waiting")
    async with visiting(own_shop) as visit:
        await visit.page.goto(own_shop.url)
        needs = visit.region("What needs you")
        await expect(needs.get_by_role("link").nth(0)).to_have_text("3 waiting for an answer")
        await expect(needs.get_by_role("link").nth(1)).to_contain_text("Which address is right?")
        await needs.get_by_role("link").nth(1).click()
        await expect(visit.region("Question")).to_contain_text("Which address is right?")


@requirement("console.overview.1")
async def test_a_call_of_which_nobody_knows_the_end_stands_on_top(own_shop: Shop, visiting: Visiting) -> None:
    own_shop.begin("s", "shop.charge", {"order": "A-1"})
    own_shop.kill()
    own_shop.start()
    async with visiting(own_shop) as visit:
        await visit.page.goto(own_shop.url)
        needs = visit.region("What needs you")
        await expect(needs).to_contain_text("1 ended, nobody knows how")
        await needs.get_by_role("link", name=re.compile("shop.charge")).click()
        await expect(visit.page).to_have_url(re.compile(r"#/live/s/"))


@requirement("console.overview.1")
async def test_a_plot_is_read_with_keys_and_narrowed_by_dragging(own_shop: Shop, visiting: Visiting) -> None:
    for _ in range(4):
        own_shop.call("s", "shop.find_order", {"order": "A-7"})
    async with visiting(own_shop) as visit:
        await visit.page.goto(f"{own_shop.url}/#/overview?range=hour")
        plot = visit.region("Calls by tool")
        slider = plot.get_by_role("slider", name="Calls by tool")
        await slider.focus()
        await slider.press("End")
        await expect(slider).to_have_attribute("aria-valuetext", re.compile(r"to .*: shop\.find_order \d"))
        await expect(visit.page.get_by_text("Nothing waits for you")).to_be_visible()
        box = await plot.locator(".u-over").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        await visit.page.mouse.move(box["x"] + box["width"] * 0.5, middle)
        await visit.page.mouse.down()
        await visit.page.mouse.move(box["x"] + box["width"] - 1, middle, steps=4)
        await visit.page.mouse.up()
        await expect(visit.page).to_have_url(re.compile(r"since=\d+&until=\d+&calls=1"))
        behind = visit.region("Calls behind the numbers").get_by_role("link")
        await expect(behind.filter(has_text="find_order")).to_have_count(4)
        await visit.page.get_by_role("link", name=re.compile("look at all again")).click()
        await expect(visit.page).not_to_have_url(re.compile("since"))


@requirement("console.overview.1")
async def test_an_overview_with_nothing_says_what_to_do(own_shop: Shop, visiting: Visiting) -> None:
    async with visiting(own_shop, viewport={"width": 390, "height": 800}) as visit:
        await visit.page.goto(own_shop.url)
        await expect(visit.page.get_by_text("Nothing ended in the last day.")).to_be_visible()
        await expect(visit.page.get_by_text("Nothing waits for you")).to_be_visible()
        wide = await visit.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        assert not wide
        await visit.page.get_by_role("link", name="Choose a tool and call it").click()
        await expect(visit.page.get_by_role("heading", name="Tools")).to_be_visible()


@requirement("console.overview.4")
@pytest.mark.parametrize("group", ["tool", "agent", "owner", "source", "code", "rule"])
async def test_each_number_leads_to_as_many_calls(week: Shop, visiting: Visiting, group: str) -> None:
    day = week.ask("GET", "/stats", range="day")
    since, until = round(day["since"]), round(day["until"])  # an hour may end meanwhile
    place, stats = (
        f"since={since}&until={until}&by={group}",
        week.ask("GET", "/stats", since=since, until=until, by=group),
    )
    rows = [one for one in stats["groups"] if one["calls"]]
    async with visiting(week) as visit:
        await visit.page.goto(f"{week.url}/#/overview?{place}")
        table = visit.region(f"By {group}")
        await expect(table.get_by_role("row")).to_have_count(
            1 + sum(bool(one["calls"] or one["waits"] or one["turns"]) for one in stats["groups"])
        )
        for row in rows:
            name = row["name"] or f"no {group}"
            shown = table.get_by_role("row").filter(has=visit.page.get_by_role("rowheader", name=name, exact=True))
            await shown.get_by_role("link", name=f"{row['calls']} calls").click()
            behind = visit.region("Calls behind the numbers").locator("a.row")
            await expect(behind).to_have_count(row["calls"])
            await visit.page.goto(f"{week.url}/#/overview?{place}")


@requirement("console.overview.4")
async def test_a_part_of_a_plot_leads_to_its_calls_alone(own_shop: Shop, visiting: Visiting) -> None:
    for order in ("A-7", "A-8", "none", "void"):
        own_shop.call("s", "shop.find_order", {"order": order})
    own_shop.call("s", "shop.pack", {"lines": "none"})
    async with visiting(own_shop) as visit:
        behind = visit.region("Calls behind the numbers").locator("a.row")
        await visit.page.goto(f"{own_shop.url}/#/overview?range=hour")
        await visit.region("Failures by code").get_by_role("link", name="not_found").click()
        await expect(behind).to_have_count(2)
        await visit.page.goto(f"{own_shop.url}/#/overview?range=hour")
        await expect(behind).to_have_count(0)
        await visit.page.reload()  # the plot of before is gone, and no key is lost with it
        slider = visit.page.get_by_role("slider", name="Failures by code")
        await slider.focus()
        await slider.press("End")
        await expect(slider).to_have_attribute("aria-valuetext", re.compile("not_found [12]|invalid_arguments 1"))
        await slider.press("Enter")
        await expect(visit.page).to_have_url(re.compile("calls=failed"))
        await expect(behind.filter(has_text="succeeded")).to_have_count(0)
        await visit.page.goto(f"{own_shop.url}/#/overview?range=hour&source=nothing&calls=1")
        await expect(visit.region("Calls behind the numbers")).to_contain_text("There is no source 'nothing' now")


@requirement("console.overview.5")
async def test_ten_thousand_points_are_drawn_and_read(own_shop: Shop, visiting: Visiting) -> None:
    count, step = 10_000, 3600
    first = 1_700_000_000 // step * step
    stats = own_shop.ask("GET", "/stats")
    points = [{**stats["points"][0], "at": first + n * step, "calls": 1 + n % 7} for n in range(count)]
    groups = [
        {
            **stats["total"],
            "name": f"shop.tool{k}",
            "calls": count,
            "points": [1 + (n + k) % 7 for n in range(count)],
            "failed": [0] * count,
        }
        for k in range(8)
    ]
    told = {**stats, "since": first, "until": first + count * step, "step_s": step, "points": points, "groups": groups}
    told["total"] = {**stats["total"], "calls": 8 * count}
    async with visiting(own_shop) as visit:
        await visit.page.route("**/v1/stats*", lambda route: route.fulfill(json=told))
        await visit.page.goto(f"{own_shop.url}/#/overview")
        slider = visit.page.get_by_role("slider", name="Calls by tool")
        await slider.focus()
        await slider.press("End")
        await expect(slider).to_have_attribute("aria-valuenow", str(count - 1))
        await expect(slider).to_have_attribute("aria-valuetext", re.compile(rf"shop\.tool0 {1 + (count - 1) % 7},"))
        bars = await visit.region("By tool").locator("svg path").first.get_attribute("d")
        assert str(bars).count("M") <= 168
        await visit.region("Calls by tool").get_by_role("button", name="Table").click()
        await expect(visit.region("Calls by tool").get_by_role("table")).to_be_visible()

"""Whatever somebody else wrote is shown as text: markup, scripts, marks that turn text around, a megabyte."""

from __future__ import annotations

import asyncio
import json

import pytest
from playwright.async_api import Locator, Route, expect

from tests.console.place import SCREENS, Shop, Visit
from tests.console.shop import HOSTILE, LARGE
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHOWN = HOSTILE.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066")
"""What cannot be seen is written out."""


async def is_text(visit: Visit, place: Locator) -> None:
    """The text stands there, and nothing of it became a part of the page."""
    await expect(place.get_by_text(SHOWN).first).to_be_visible()
    assert await visit.page.locator("main script, main img").count() == 0
    assert "owned" not in await visit.page.title()


async def test_what_a_tool_says_of_itself(visit: Visit) -> None:
    await visit.go("tools", "odd.hostile")
    await is_text(visit, visit.region("odd.hostile"))
    await visit.button("Run").click()
    card = visit.call("odd.hostile succeeded")
    await expect(card.get_by_role("region", name="output")).to_have_text(SHOWN)


async def test_what_calls_and_their_failures_say(shop: Shop, visit: Visit) -> None:
    made = shop.call("hostile-1", "odd.hostile", {"text": HOSTILE, "fail": True})
    await visit.go("live", "hostile-1", made["call"])
    await is_text(visit, visit.call("odd.hostile failed"))
    await visit.go("sessions", "hostile-1")
    await expect(visit.region("Events").get_by_text(SHOWN[:40]).first).to_be_visible()
    await visit.go("audit")
    await visit.region("Calls").get_by_role("button").filter(has_text="hostile-1").click()
    await is_text(visit, visit.region("What was recorded"))


async def test_arguments_that_somebody_is_asked_about(shop: Shop, visit: Visit) -> None:
    id = shop.begin("hostile-2", "odd.ask_hostile", {"text": HOSTILE}, "waiting")
    await visit.go("inbox", f"{id}-1")
    exact = visit.page.get_by_role("region", name="Arguments of odd.ask_hostile")
    await expect(exact).to_contain_text("\\u202etxt.exe\\u2066")
    assert "\u202e" not in await exact.inner_text()
    await visit.page.get_by_label("Reason").fill(HOSTILE)
    await visit.button("Decline").click()
    await is_text(visit, visit.region("Answered lately"))


async def test_what_agents_and_people_say(visit: Visit) -> None:
    await visit.go("agents")
    await is_text(visit, visit.page.get_by_role("article", name="stock"))
    await visit.button("Talk to stock").click()
    await visit.page.get_by_label("Message").fill(f"say {HOSTILE}")
    await visit.button("Send").click()
    await is_text(visit, visit.page.get_by_role("log"))


async def test_addresses_that_lead_nowhere(visit: Visit) -> None:
    visit.expected = "status of 404|status of 400"
    for screen in SCREENS:
        await visit.go(screen, "%3Cscript%3E", "%E0%A4%A")
        await expect(visit.page.get_by_role("main", name=screen.capitalize())).to_be_visible()
    await visit.go("no-such-screen")
    await expect(visit.page.get_by_role("main", name="Overview")).to_be_visible()


async def test_a_megabyte_is_cut_and_shown_whole_when_asked_for(shop: Shop, visit: Visit) -> None:
    made = shop.call("hostile-3", "odd.large")
    await visit.go("live", "hostile-3", made["call"])
    result = visit.page.get_by_role("region", name="result")
    await expect(result).to_contain_text("y" * 1000)
    assert len(await result.text_content() or "") < 30_000
    await result.get_by_role("button", name=f"Show all {LARGE:,} characters").click()
    await expect(result.get_by_role("button")).to_have_count(0)
    assert await result.text_content() == "y" * LARGE


async def test_what_is_shown_whole_stays_so_when_the_events_of_its_call_come(shop: Shop, visit: Visit) -> None:
    made = shop.call("hostile-6", "odd.large")
    events = {"call": asyncio.Event(), "session": asyncio.Event()}

    async def hold(route: Route) -> None:
        await events["call" if "call=" in route.request.url else "session"].wait()
        await route.continue_()

    await visit.page.route("**/v1/sessions/hostile-6/events?*", hold)
    await visit.go("live", "hostile-6", made["call"])
    result, output = (visit.page.get_by_role("region", name=name) for name in ("result", "output"))
    await result.get_by_role("button", name=f"Show all {LARGE:,} characters").click()
    await expect(result.get_by_role("button")).to_have_count(0)
    await expect(output).to_have_count(0)
    events["session"].set()
    await expect(visit.page.get_by_role("region", name="arguments")).to_be_visible()
    assert await result.text_content() == "y" * LARGE
    events["call"].set()
    await expect(output).to_contain_text("x" * 1000)
    assert await result.text_content() == "y" * LARGE


async def test_events_that_a_stream_repeats_change_nothing(shop: Shop, visit: Visit) -> None:
    made = shop.call("hostile-5", "odd.large")
    events = shop.ask("GET", "/sessions/hostile-5/events", call=made["call"])["items"]
    shown, repeated = asyncio.Event(), asyncio.Event()

    async def repeat(route: Route) -> None:
        await shown.wait()
        lines = [f"event: {event['kind']}\ndata: {json.dumps(event)}\n\n" for event in events[:1]]
        if repeated.is_set():
            await route.continue_()
        else:
            repeated.set()
            await route.fulfill(content_type="text/event-stream", body="".join(lines))

    await visit.page.route("**/v1/live", repeat)
    await visit.go("live", "hostile-5", made["call"])
    result = visit.page.get_by_role("region", name="result")
    await result.get_by_role("button", name=f"Show all {LARGE:,} characters").click()
    await expect(result.get_by_role("button")).to_have_count(0)
    async with visit.page.expect_request(lambda request: request.url.endswith("/v1/live")):
        shown.set()  # it ends at once, and the page listens again
    await expect(visit.call("odd.large succeeded")).to_be_visible()
    assert await result.text_content() == "y" * LARGE


@requirement("security.approval.2")
async def test_numbers_that_a_page_cannot_keep_are_shown_whole_and_not_edited(shop: Shop, visit: Visit) -> None:
    args = {"text": "a\u2028b", "number": 9007199254740993}
    id = shop.begin("hostile-4", "odd.ask_hostile", args, "waiting")
    await visit.go("inbox", f"{id}-1")
    exact = visit.page.get_by_role("region", name="Arguments of odd.ask_hostile")
    await expect(exact).to_contain_text("9007199254740993")
    await expect(exact).to_contain_text("a\\u2028b")
    await expect(visit.button("Edit")).to_have_count(0)
    await visit.button("Decline").click()

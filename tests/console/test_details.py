"""Nothing is cut off or missed, empty screens say what to do, and everything is found, linked and copied."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys

import pytest
from playwright.async_api import Route, expect

from tests.console.conftest import Visiting
from tests.console.place import SOON_S, Shop, Visit
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")

TWO_LINES = "Shall the parcel go to the neighbour across the street?"
CUT = """row => {
  const bottom = row.parentElement.getBoundingClientRect().bottom;
  const cut = [...row.querySelectorAll("span, b")].filter((one) => one.getBoundingClientRect().bottom > bottom + 1);
  const prompt = row.querySelector(".few-lines");
  return [cut.length, prompt.scrollHeight - prompt.clientHeight];
}"""


@requirement("console.inbox.1")
@pytest.mark.parametrize("width", [390, 1000, 1280])
async def test_a_question_of_two_lines_is_not_cut_off(shop: Shop, visiting: Visiting, width: int) -> None:
    shop.begin(f"lines-{width}", "shop.question", {"prompt": TWO_LINES}, "waiting")
    async with visiting(shop, viewport={"width": width, "height": 800}) as visit:
        await visit.go("inbox")
        row = visit.region("Open questions").get_by_role("link").filter(has_text=f"lines-{width}")
        await expect(row).to_contain_text(TWO_LINES)
        assert await row.evaluate(CUT) == [0, 0]


@requirement("console.inbox.1")
async def test_the_inbox_has_all_pages_of_questions(own_shop: Shop, visiting: Visiting) -> None:
    for number in range(5):
        own_shop.begin(f"many-{number}", "shop.refund", {"order": "A-1", "cents": number + 1}, "waiting")

    async def shorten(route: Route) -> None:
        await route.continue_(url=f"{route.request.url}{'&' if '?' in route.request.url else '?'}limit=2")

    async with visiting(own_shop) as visit:
        await visit.page.route(re.compile(r"/v1/questions(\?|$)"), shorten)
        await visit.go("inbox")
        await expect(visit.region("Open questions").get_by_role("link")).to_have_count(5)
        await expect(visit.text("5 open").first).to_be_visible()


@requirement("console.session.1")
async def test_a_call_that_began_and_waits_is_listed_as_waiting(shop: Shop, visit: Visit) -> None:
    shop.begin("began", "shop.question", {"prompt": "Now?"}, "waiting")
    shop.begin("began", "shop.report", {"hold": True})
    await visit.go("sessions", "began")
    await expect(visit.region("Waits")).to_contain_text("shop.question")
    await expect(visit.region("Runs")).to_contain_text("shop.report")
    await expect(visit.region("Runs")).not_to_contain_text("shop.question")


@requirement("console.inbox.1")
async def test_what_is_allowed_for_a_session_has_numbers_as_numbers(shop: Shop, visit: Visit) -> None:
    shop.begin("offer", "shop.refund", {"order": "A-8", "cents": 450}, "waiting")
    (question,) = shop.ask("GET", "/sessions/offer/questions")["items"]
    await visit.go("inbox", question["id"])
    await expect(visit.region("Question")).to_contain_text('shop.refund(order = "A-8", cents = 450)')


@requirement("console.live.1")
async def test_what_ends_while_the_list_is_on_its_way_is_not_missed(shop: Shop, visiting: Visiting) -> None:
    id = shop.begin("between", "shop.report", {"hold": True})
    async with visiting(shop) as visit:

        async def hold(route: Route) -> None:
            listed = await route.fetch()
            await asyncio.to_thread(shop.ask, "POST", f"/sessions/between/calls/{id}/cancel", {})
            await asyncio.to_thread(shop.ask, "GET", f"/sessions/between/calls/{id}/result", wait=SOON_S)
            # The page hears of the end before it gets the older list.
            await asyncio.to_thread(shop.call, "between-2", "shop.find_order", {"order": "A-1"})
            await expect(visit.region("Calls").get_by_role("link").filter(has_text="between-2")).to_be_visible()
            await route.fulfill(response=listed)

        await visit.page.route(re.compile(r"/v1/calls\?"), hold, times=1)
        await visit.go("live")
        row = visit.region("Calls").get_by_role("link").filter(has_text="shop.report").filter(has_text="between")
        await expect(row).to_contain_text("cancelled")


@requirement("console.link.1")
async def test_times_have_their_date(shop: Shop, visit: Visit) -> None:
    shop.call("dated", "shop.find_order", {"order": "A-1"})
    await visit.go("sessions", "dated")
    await expect(visit.region("Events").locator("time").first).to_have_text(re.compile(r"^[A-Z][a-z]{2} \d{1,2}, "))


@requirement("console.link.1")
async def test_filters_events_and_lines_have_addresses(shop: Shop, visit: Visit) -> None:
    shop.call("links", "shop.find_order", {"order": "none"})
    await visit.go("tools?q=find_order&effect=read")
    await expect(visit.region("Tools").get_by_role("link")).to_have_count(1)
    await expect(visit.page.get_by_role("searchbox", name="Search tools")).to_have_value("find_order")
    await visit.page.get_by_role("link", name="Tools").first.click()
    await expect(visit.page.get_by_role("searchbox", name="Search tools")).to_have_value("")
    await visit.go("sessions", "links?event=1")
    await expect(visit.region("Event 1")).to_contain_text("opened")
    await visit.button("One event back").click()
    await expect(visit.page).to_have_url(re.compile(r"at=\d"))
    await visit.page.reload()
    await expect(visit.button("Now")).to_be_enabled()
    await visit.go("audit?outcome=failed&q=none")
    await visit.region("Calls").get_by_role("button").filter(has_text="links").first.click()
    await expect(visit.page).to_have_url(re.compile(r"line="))
    await visit.page.reload()
    await expect(visit.region("What was recorded")).to_contain_text("links")
    await visit.go("live?only=unknown")
    await expect(visit.button("unknown")).to_have_attribute("aria-pressed", "true")


@requirement("console.link.2")
async def test_a_call_is_copied_as_something_that_runs(shop: Shop, visiting: Visiting) -> None:
    call = shop.begin("copied", "shop.find_order", {"order": "it's-7"}, "done")
    async with visiting(shop, permissions=["clipboard-read", "clipboard-write"]) as visit:
        await visit.go("live", "copied", call)
        copied: dict[str, str] = {}
        for form in ("curl", "Python", "JSON"):
            await visit.call("shop.find_order succeeded").get_by_role("button", name=form).click()
            await expect(visit.text(f"Copied as {form}.")).to_be_visible()
            copied[form] = await visit.page.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied["JSON"]) == {"tool": "shop.find_order", "args": {"order": "it's-7"}}
    for argv in (["bash", "-c", copied["curl"]], [sys.executable, "-c", copied["Python"]]):
        ran = await asyncio.to_thread(subprocess.run, argv, check=True, capture_output=True, text=True, timeout=SOON_S)
        assert "it's-7" in ran.stdout


@requirement("console.link.3")
async def test_tools_sessions_and_calls_are_found_in_one_box(shop: Shop, visit: Visit) -> None:
    call = shop.begin("findable-session", "shop.find_order", {"order": "none"}, "done")
    await visit.go("audit")
    for words, kind, address in (
        ("pack a parcel", "Tools", "tools/shop.pack"),
        ("findable-sess", "Sessions", "sessions/findable-session"),
        (call, "Calls", f"live/findable-session/{call}"),
    ):
        await visit.page.keyboard.press("Control+k")
        box = visit.page.get_by_role("dialog", name="Search everything")
        await box.get_by_role("combobox").fill(words)
        await expect(box.get_by_role("option").filter(has_text=kind).first).to_be_visible()
        await visit.page.keyboard.press("Enter")
        await expect(visit.page).to_have_url(f"{visit.url}/#/{address}")
        await expect(box).to_have_count(0)
    await visit.button("Search (Ctrl K)").click()
    await visit.page.get_by_role("combobox", name="Search tools, sessions and calls").fill("no such thing at all")
    await expect(visit.text("Nothing was found.")).to_be_visible()


@requirement("console.empty.1")
async def test_empty_screens_say_what_to_do_next(own_shop: Shop, visiting: Visiting) -> None:
    texts = {
        "live": "try a tool",
        "inbox": "Calls that ask first appear here",
        "sessions": "try a tool, or talk to an agent",
        "accounts": "in crib.yaml",
        "audit": "Calls stand here once they are over",
        "tools?q=nosuchtool": "Take a filter away",
    }
    async with visiting(own_shop) as visit:
        for screen, text in texts.items():
            await visit.go(screen)
            await expect(visit.page.locator("main .nothing").filter(has_text=text)).to_be_visible()

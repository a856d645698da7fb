"""A session as a waterfall: found by a person who never saw it, by keys, on a phone, and for everybody's eyes."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from tests.console.conftest import Visiting
from tests.console.place import Shop, Visit
from tests.console.test_access import AXE, SERIOUS
from tests.npm import fetched
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")
REASON = "the customer is right"


@pytest.fixture(scope="session")
def ran(shop: Shop) -> Shop:
    """A shop where an agent looked an order up, asked before it refunded it, and was allowed to."""
    session = "fall-1"
    shop.ask("POST", "/sessions", {"id": session})
    shop.ask("POST", f"/sessions/{session}/messages", {"text": "look at A-7", "wait": 60})
    shop.ask("POST", f"/sessions/{session}/messages", {"text": "refund it", "wait": 60})
    (question,) = shop.ask("GET", f"/sessions/{session}/questions")["items"]
    answer = {"question": question["id"], "action": "accept", "reason": REASON}
    shop.ask("POST", f"/sessions/{session}/answers", answer)
    with shop.http.stream("GET", f"/sessions/{session}/events", params={"follow": True}) as events:
        ends = 0
        for line in events.iter_lines():
            ends += line == "event: run_finished"
            if ends == 2:
                break
    shop.call(session, "shop.check_orders", {"orders": ["A-1", "none"]})
    return shop


def spans(visit: Visit) -> Locator:
    return visit.page.get_by_role("treeitem")


def span(visit: Visit, name: str) -> Locator:
    return spans(visit).filter(has_text=name)


@requirement("console.waterfall.3")
async def test_a_person_finds_what_one_run_of_an_agent_saw_and_did(ran: Shop, visiting: Visiting) -> None:
    async with visiting(ran) as visit:
        await visit.go("sessions")
        await visit.page.get_by_role("link", name=re.compile("fall-1")).click()
        # The second run is the one in question: what did it do?
        await span(visit, "run of desk").nth(1).click()
        parts = visit.region("Parts")
        await expect(parts.get_by_role("button")).to_have_count(2)
        # What its model saw last, and what of that was new.
        await span(visit, "model").nth(3).click()
        saw = visit.page.get_by_role("region", name="What the model saw")
        await expect(saw.get_by_text("exactly as sent")).to_be_visible()
        await expect(saw.get_by_text("2 new messages")).to_be_visible()
        await expect(saw.get_by_text('{"receipt":"R-A-7-500"}')).to_be_visible()
        await expect(saw.get_by_text("look at A-7")).to_have_count(0)
        await saw.get_by_text("messages as in the request before").click()
        await expect(saw.get_by_text("look at A-7")).to_be_visible()
        await expect(visit.region("What the model said").get_by_text("All done, says desk.")).to_be_visible()
        # The call in between: why was it allowed, by which rule, who said so?
        await span(visit, "shop.refund").click()
        call = visit.call("shop.refund succeeded")
        await expect(call.get_by_text("asks first because the tool is destructive")).to_be_visible()
        await expect(call.get_by_text(REASON)).to_be_visible()
        await expect(visit.region("Span").get_by_text("waited")).to_be_visible()
        # Its events, and no others.
        rows = visit.region("Events").get_by_role("button")
        await expect(rows.first).to_contain_text("accepted")
        await expect(rows).to_have_count(6)
        await visit.button("Show all events").click()
        await expect(visit.region("Events")).to_contain_text("check_orders")


@requirement("console.waterfall.1")
async def test_the_slider_moves_spans_and_events_together(ran: Shop, visiting: Visiting) -> None:
    async with visiting(ran) as visit:
        await visit.go("sessions", "fall-1")
        await expect(span(visit, "shop.check_orders")).to_be_visible()
        await visit.page.get_by_role("slider").fill("8")
        await expect(span(visit, "shop.check_orders")).to_have_count(0)
        await expect(span(visit, "shop.refund")).to_have_count(0)
        await expect(span(visit, "run of desk")).to_have_count(1)
        await expect(visit.region("Events").get_by_role("button")).to_have_count(8)
        await visit.button("Now").click()
        await expect(span(visit, "run of desk")).to_have_count(2)


@requirement("console.waterfall.1")
async def test_of_what_was_chosen_no_more_is_shown_than_had_happened(ran: Shop, visiting: Visiting) -> None:
    async with visiting(ran) as visit:
        await visit.go("sessions", "fall-1")
        await span(visit, "shop.refund").click()
        await expect(visit.call("shop.refund succeeded")).to_be_visible()
        kinds = [one["kind"] for one in ran.ask("GET", "/sessions/fall-1/events")["items"]]
        await visit.page.get_by_role("slider").fill(str(1 + kinds.index("waiting")))
        await expect(visit.call("shop.refund waiting")).to_be_visible()
        await expect(visit.page.get_by_text(REASON)).to_have_count(0)
        await visit.page.get_by_role("slider").fill("8")
        await expect(visit.region("Span")).to_contain_text("At event 8 it had not begun.")
        await expect(visit.page.get_by_role("article")).to_have_count(0)


@requirement("console.waterfall.1")
async def test_a_phone_shows_what_was_chosen_below_the_waterfall(ran: Shop, visiting: Visiting) -> None:
    async with visiting(ran, viewport={"width": 390, "height": 844}) as visit:
        await visit.go("sessions", "fall-1")
        await span(visit, "shop.refund").click()
        sheet, events = visit.region("Span"), visit.region("Events")
        await expect(sheet).to_be_in_viewport()
        above, below = await sheet.bounding_box(), await events.bounding_box()
        assert above is not None
        assert below is not None
        assert above["y"] < below["y"]


@requirement("console.waterfall.1")
async def test_a_keyboard_is_enough(ran: Shop, visiting: Visiting) -> None:
    async with visiting(ran) as visit:
        await visit.go("sessions", "fall-1")
        tree, keys = visit.page.get_by_role("tree", name="Spans"), visit.page.keyboard
        await expect(spans(visit).first).to_be_visible()
        await tree.focus()
        count = await spans(visit).count()
        await keys.press("ArrowDown")
        await expect(spans(visit).first).to_have_attribute("aria-selected", "true")
        await expect(tree).to_have_attribute("aria-activedescendant", "span-0")
        await keys.press("ArrowLeft")
        await expect(spans(visit).first).to_have_attribute("aria-expanded", "false")
        await expect(spans(visit)).to_have_count(count - 5)
        await keys.press("ArrowRight")
        await expect(spans(visit)).to_have_count(count)
        for _ in range(2):
            await keys.press("ArrowRight")
        await expect(visit.page.get_by_role("region", name="What the model saw")).to_be_visible()
        bar = spans(visit).nth(2).locator(".fall-bar").first
        narrow = await bar.get_attribute("style")
        await keys.press("z")
        await expect(bar).not_to_have_attribute("style", narrow or "")
        await keys.press("0")
        await expect(bar).to_have_attribute("style", narrow or "")
        await expect(visit.page).to_have_url(re.compile(r"span=model"))
        await visit.page.reload()
        await expect(visit.page.get_by_role("region", name="What the model saw")).to_be_visible()


@requirement("console.waterfall.1")
async def test_the_wheel_and_dragging_zoom(ran: Shop, visiting: Visiting) -> None:
    async with visiting(ran) as visit:
        await visit.go("sessions", "fall-1")
        strip, frame = visit.page.locator(".fall-map"), visit.page.locator(".fall-frame")
        await expect(spans(visit).first).to_be_visible()
        box = await strip.bounding_box()
        assert box is not None
        await visit.page.mouse.move(box["x"] + 20, box["y"] + 10)
        await visit.page.mouse.wheel(0, -100)
        await expect(frame).to_be_visible()
        await strip.dblclick()
        await expect(frame).to_have_count(0)
        await visit.page.mouse.down()
        await visit.page.mouse.move(box["x"] + 120, box["y"] + 10)
        await visit.page.mouse.up()
        await expect(frame).to_be_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_axe_finds_nothing_in_a_waterfall(ran: Shop, visiting: Visiting, colours: str) -> None:
    axe = fetched(AXE) / "axe-core" / "axe.min.js"
    found: dict[str, list[str]] = {}
    for size in ((1280, 800), (390, 844)):
        viewport = {"width": size[0], "height": size[1]}
        async with visiting(ran, color_scheme=colours, bypass_csp=True, viewport=viewport) as visit:
            await visit.go("sessions", "fall-1")
            await visit.page.add_script_tag(path=axe)
            for name in ("run of desk", "model", "shop.refund"):
                await span(visit, name).last.click()
                await expect(visit.region("Span")).to_be_visible()
                if problems := await visit.page.evaluate(SERIOUS):
                    found[f"{name} {size}"] = problems
    assert found == {}


async def test_a_phone_shows_all_of_it(ran: Shop, visiting: Visiting) -> None:
    async with visiting(ran, viewport={"width": 390, "height": 844}) as visit:
        await visit.go("sessions", "fall-1")
        await span(visit, "shop.refund").click()
        await visit.call("shop.refund succeeded").scroll_into_view_if_needed()
        await expect(visit.call("shop.refund succeeded")).to_be_visible()
        wide = await visit.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390

"""Everybody can use it: with a keyboard alone, with a screen reader, in the dark, on a narrow screen."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.console.conftest import Visiting
from tests.console.place import SCREENS, Shop, Visit
from tests.npm import fetched

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = "axe-core@4.11.0"
SERIOUS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter(({impact, tags}) =>
    ["serious", "critical"].includes(impact) || tags.some((tag) => /^wcag[0-9]+aa?$/.test(tag)))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join("; ")}`)"""


@pytest.fixture(scope="module")
def busy(shop: Shop) -> Shop:
    """A shop in which something of everything happened."""
    shop.call("axe-1", "shop.check_orders", {"orders": ["A-1", "none"]})
    shop.begin("axe-1", "shop.report", {"rows": 3, "hold": True})
    shop.begin("axe-2", "shop.refund", {"order": "A-7", "cents": 5}, "waiting")
    shop.begin("axe-2", "shop.survey", {}, "waiting")
    shop.ask("POST", "/sessions", {"id": "axe-3"})
    shop.ask("POST", "/sessions/axe-3/messages", {"text": "look at A-7 and refund it", "agent": "desk", "wait": 60})
    return shop


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_axe_finds_nothing_serious_on_any_screen(busy: Shop, visiting: Visiting, colours: str) -> None:
    axe = fetched(AXE) / "axe-core" / "axe.min.js"
    waiting = busy.ask("GET", "/sessions/axe-2/questions")["items"]
    (call,) = busy.ask("GET", "/sessions/axe-1/calls", state="streaming")["items"]
    places: list[tuple[str, ...]] = [*((screen,) for screen in SCREENS), ("tools", "shop.pack"), ("sessions", "axe-1")]
    places += [("overview?range=week&by=agent&calls=failed",), ("overview?by=rule&calls=1",)]
    places += [
        ("live", "axe-1", call["id"]),
        ("agents", "chat", "axe-3"),
        ("sources", "+"),
        ("sources", "__main__"),
        *(("inbox", one["id"]) for one in waiting),
    ]
    found: dict[str, list[str]] = {}
    async with visiting(busy, color_scheme=colours, bypass_csp=True) as visit:
        for place in places:
            await visit.go(*place)
            await expect(visit.page.locator("main .sheet, main .list, main .nothing").first).to_be_visible()
            if await visit.page.evaluate("typeof axe") == "undefined":
                await visit.page.add_script_tag(path=axe)
            if problems := await visit.page.evaluate(SERIOUS):
                found["/".join(place)] = problems
        await visit.page.keyboard.press("Control+k")
        await visit.page.get_by_role("combobox", name="Search tools, sessions and calls").fill("order")
        await expect(visit.page.get_by_role("listbox", name="Found").get_by_role("option").first).to_be_visible()
        if problems := await visit.page.evaluate(SERIOUS):
            found["search"] = problems
    assert found == {}


async def test_a_question_is_found_and_answered_with_keys_alone(shop: Shop, visit: Visit) -> None:
    id = shop.begin("keys", "shop.refund", {"order": "K-1", "cents": 2}, "waiting")
    await visit.go("tools")
    waiting = [one["call"] for one in shop.ask("GET", "/questions")["items"]]
    await expect(visit.page.get_by_role("link", name="Inbox")).to_contain_text(str(len(waiting)))
    await visit.page.keyboard.press("4")
    await expect(visit.region("Open questions").get_by_role("link").filter(has_text="keys")).to_be_visible()
    for _ in waiting[: waiting.index(id) + 1]:
        await visit.page.keyboard.press("j")
    await expect(visit.region("Question")).to_contain_text("K-1")
    await visit.page.keyboard.press("a")
    await expect(visit.region("Answered lately")).to_contain_text("K-1")
    assert shop.ask("GET", f"/sessions/keys/calls/{id}/result", wait=30)["ok"]


async def reach(visit: Visit, place: Locator) -> None:
    """Goes from one thing to the next until it is there."""
    for _ in range(20):
        await visit.page.keyboard.press("Tab")
        if await place.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(f"{place} cannot be reached")


async def test_a_tool_is_found_and_run_with_keys_alone(visit: Visit) -> None:
    press = visit.page.keyboard.press
    await visit.go("live")
    await press("2")
    await expect(visit.region("Tools").get_by_role("link").first).to_be_visible()
    await press("/")
    await expect(visit.page.get_by_role("searchbox", name="Search tools")).to_be_focused()
    await visit.page.keyboard.type("find_order")
    await expect(visit.region("Tools").get_by_role("link")).to_have_count(1)
    await reach(visit, visit.region("Tools"))
    await press("ArrowDown")
    field = visit.page.get_by_role("textbox", name="order")
    await expect(field).to_be_visible()
    await reach(visit, field)
    await visit.page.keyboard.type("A-7")
    await expect(field).to_have_value("A-7")
    await reach(visit, visit.button("Run"))
    await press("Enter")
    await expect(visit.call("shop.find_order succeeded")).to_be_visible()


async def test_the_content_is_one_key_away_and_the_keys_are_listed(visit: Visit) -> None:
    await visit.go("tools")
    await visit.page.keyboard.press("Tab")
    await expect(visit.button("Skip to the content")).to_be_focused()
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.get_by_role("main")).to_be_focused()
    await visit.page.keyboard.press("?")
    await expect(visit.page.get_by_role("dialog", name="Keys")).to_be_visible()
    await visit.page.keyboard.press("Escape")
    await expect(visit.page.get_by_role("dialog", name="Keys")).to_be_hidden()


async def test_a_narrow_screen_shows_one_thing_at_a_time_and_nothing_sticks_out(busy: Shop, visiting: Visiting) -> None:
    async with visiting(busy, viewport={"width": 360, "height": 740}) as visit:
        for screen in SCREENS:
            await visit.go(screen)
            await expect(visit.page.locator("main .sheet, main .list, main .nothing").first).to_be_visible()
            if screen == "policy":  # its box comes with the forms
                await expect(visit.page.get_by_role("textbox", name="Arguments")).to_be_visible()
            wide = await visit.page.evaluate("document.querySelector('main').scrollWidth")
            assert wide <= 360, screen
            higher = await visit.page.evaluate("document.documentElement.scrollHeight > innerHeight")
            assert not higher, screen  # the screen scrolls, and not the page
        await visit.go("tools")
        await visit.page.get_by_role("searchbox").fill("find_order")
        await visit.region("Tools").get_by_role("link").first.click()
        await expect(visit.region("Tools")).to_be_hidden()
        await visit.text("all tools").click()
        await expect(visit.region("Tools")).to_be_visible()


async def test_colours_are_chosen_and_kept(visit: Visit) -> None:
    await visit.go("tools")
    await visit.page.get_by_label("Colours").select_option("dark")
    dark = await visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    await visit.page.get_by_label("Colours").select_option("light")
    assert await visit.page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    await visit.page.reload()
    await expect(visit.page.get_by_label("Colours")).to_have_value("light")

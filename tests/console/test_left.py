"""What a browser still tells parts of a screen that was left does no harm: the page complains of nothing."""

from __future__ import annotations

import pytest
from playwright.async_api import ElementHandle, Locator, expect

from tests.console.place import Shop, Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def leave(visit: Visit, *parts: Locator) -> list[ElementHandle]:
    """Parts of a screen that are not on the page any more."""
    left = [await part.element_handle() for part in parts]
    await visit.page.evaluate("location.hash = '#/policy'")
    for part in left:
        await part.wait_for_element_state("hidden")
        assert not await part.evaluate("one => one.isConnected")
    return left


async def test_a_drag_that_ends_when_its_strip_is_gone(shop: Shop, visit: Visit) -> None:
    shop.call("left-1", "shop.check_orders", {"orders": ["A-1"]})
    await visit.go("sessions", "left-1")
    strip = visit.page.locator(".fall-map")
    await strip.hover()
    await visit.page.mouse.down()
    await expect(strip.locator(".fall-frame")).to_be_attached()
    (left,) = await leave(visit, strip)
    for kind in ("pointermove", "pointerup"):
        assert await left.evaluate("(one, kind) => one.dispatchEvent(new PointerEvent(kind, {clientX: 300}))", kind)
    await visit.page.mouse.up()


async def test_lists_that_scroll_when_they_are_gone(shop: Shop, visit: Visit) -> None:
    shop.call("left-2", "shop.check_orders", {"orders": ["A-1"]})
    await visit.go("sessions", "left-2")
    await expect(visit.page.get_by_role("treeitem").first).to_be_visible()
    for part in await leave(visit, visit.region("Events"), visit.page.get_by_role("tree")):
        assert await part.evaluate("one => one.dispatchEvent(new Event('scroll'))")


async def test_a_button_that_asks_once_more_is_pressed_when_it_is_gone(shop: Shop, visit: Visit) -> None:
    name = shop.ask("GET", "/sources")["items"][0]["name"]
    await visit.go("sources", name)
    await visit.button("Disable").click()
    dialog = visit.page.get_by_role("dialog", name=f"Disable {name}?")
    stay = dialog.get_by_role("button", name="Leave it")
    await expect(stay).to_be_visible()
    for part in await leave(visit, visit.page.get_by_text("Disable", exact=True).first, stay):
        await part.evaluate("one => one.click()")
    await expect(dialog).to_have_count(0)


async def test_something_that_was_searched_is_chosen_twice(visit: Visit) -> None:
    await visit.go("audit")
    await visit.page.keyboard.press("Control+k")
    box = visit.page.get_by_role("dialog", name="Search everything")
    await box.get_by_role("combobox").fill("pack a parcel")
    hit = await box.get_by_role("option").first.element_handle()
    await hit.click()
    await expect(box).to_have_count(0)
    await hit.evaluate("one => one.click()")
    await expect(visit.page).to_have_url(f"{visit.url}/#/tools/shop.pack")

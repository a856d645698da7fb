"""Pictures of every screen, made in a real browser: `make pictures` keeps them in the docs."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import Visiting
from tests.console.place import SCREENS, Shop, Visit
from tests.requirements import requirement

DOCS = Path(__file__).parents[2] / "docs"
KEPT = DOCS / "images/console"
PAGE = DOCS / "howto/use-the-console.md"
MORE = ("tool", "versions", "session", "talk")
"""Screens of one thing, beside the lists that they come from."""

MOST_BYTES = 700_000
LEAST_BYTES = 4_000
INTO_VIEW = "one => (one.closest('.detail').scrollTop = one.offsetTop)"


@requirement("console.pictures.1")
def test_every_screen_has_a_picture_in_the_docs() -> None:
    names = {f"{name}.webp" for name in (*SCREENS, *MORE)}
    assert {path.name for path in KEPT.iterdir()} == names
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < MOST_BYTES
    text = PAGE.read_text("utf-8")
    assert [name for name in sorted(names) if f"(../images/console/{name})" not in text] == []


@requirement("console.pictures.1")
@pytest.mark.asyncio(loop_scope="session")
async def test_pictures_of_every_screen_are_made(week: Shop, visiting: Visiting, tmp_path: Path) -> None:
    folder = Path(os.environ.get("TOOLCRIB_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    question = week.ask("GET", "/questions")["items"][1]["id"]
    talks = week.ask("GET", "/sessions", q="chat", limit=200)["items"]
    talk = min((one for one in talks if one["seq"] > 40), key=lambda one: one["seq"])["id"]
    places = {name: (name,) for name in SCREENS} | {
        "inbox": ("inbox", question),
        "sources": ("sources", "carrier"),
        "tool": ("tools", "shop.track"),
        "versions": ("tools", "carrier.quote"),
        "session": ("sessions", talk),
        "talk": ("agents", "chat", talk),
    }
    async with visiting(week, viewport={"width": 1280, "height": 800}, color_scheme="light") as visit:
        visit.expected = "status of 403"  # the talk of somebody else is read
        for name, place in places.items():
            await visit.go(*place)
            await _ready(visit, name)
            picture = await _picture(visit.page)
            assert picture[8:12] == b"WEBP"
            assert len(picture) > LEAST_BYTES, name
            (folder / f"{name}.webp").write_bytes(picture)


async def _ready(visit: Visit, name: str) -> None:
    await expect(visit.page.locator("main .sheet, main .list, main .nothing, main .bubble").first).to_be_visible()
    if name == "overview":
        await expect(visit.region("By tool")).to_be_visible()
    elif name == "tool":
        await visit.region("Use").evaluate(INTO_VIEW)
        await expect(visit.region("Who uses it, by agent")).to_be_visible()
    elif name == "versions":
        await visit.region("Versions").evaluate(INTO_VIEW)
        await expect(visit.region("Versions").locator("ins").first).to_be_visible()
    elif name == "session":
        await visit.page.get_by_role("treeitem").filter(has_text="model").first.click()
        await expect(visit.region("What the model said")).to_be_visible()
    elif name in ("sessions", "audit", "live"):
        await expect(visit.page.locator("main .list .row").first).to_be_visible()
    elif name == "agents":
        await expect(visit.region("Conversations").get_by_role("link").first).to_be_visible()
        await expect(visit.page.locator(".traffic text").first).to_be_visible()
    elif name == "policy":
        await expect(visit.page.get_by_role("textbox", name="Arguments")).to_be_visible()
        await expect(visit.region("Decided in the last week")).to_be_visible()
    elif name == "tools":
        await expect(visit.page.locator(".use").first).to_be_visible()


async def _picture(page: Page) -> bytes:
    await page.evaluate(
        "async () => { await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame); }"
    )
    devtools = await page.context.new_cdp_session(page)
    taken = await devtools.send("Page.captureScreenshot", {"format": "webp", "quality": 70})
    await devtools.detach()
    return base64.b64decode(taken["data"])

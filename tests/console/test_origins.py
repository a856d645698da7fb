"""A question about where a value came from shows the passage, and leads to it in the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting, chromium
from tests.console.place import shop_at
from tests.console.shop import EVIL
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")


@requirement("flow.guard.7")
async def test_the_passage_that_a_value_came_from_is_marked(tmp_path: Path, visiting: Visiting) -> None:
    chromium()
    with shop_at(tmp_path, "--mail") as shop:
        shop.ask("POST", "/sessions", {"id": "mails"})
        shop.ask("POST", "/sessions/mails/messages", {"text": "send me the minutes", "agent": "desk", "wait": 60})
        (question,) = shop.ask("GET", "/questions")["items"]
        async with visiting(shop) as visit:
            await visit.go("inbox", question["id"])
            place = visit.region("Question")
            await expect(place).to_contain_text(f"`to` = {EVIL} was only seen inside the text of mail.read_mail")
            await expect(place).to_contain_text("not in your words")
            await expect(place.locator("mark")).to_have_text(EVIL)
            await place.get_by_role("link", name="Show it in the result").click()
            result = visit.call("mail.read_mail succeeded").get_by_role("region", name="result")
            await expect(result.locator("mark")).to_have_text(EVIL)
            await expect(result.locator("mark")).to_be_in_viewport()
            await visit.go("sessions", "mails")
            await visit.region("Waits").get_by_role("button").click()
            await visit.page.get_by_role("link", name="Show it in the result").click()
            await expect(result.locator("mark")).to_have_text(EVIL)

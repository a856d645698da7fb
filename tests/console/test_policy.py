"""The screen of the policy: what decided how often, what never does, and what would become of a call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.place import shop_at
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")

DECIDED, NEVER = "Decided in the last week", "Never decided in the last week"


@requirement("console.policy.2")
async def test_a_person_sees_which_rules_decide_and_why_a_call_would_not_run(
    visiting: Visiting, tmp_path: Path
) -> None:
    with shop_at(tmp_path, "--deny", "shop.survey") as shop:
        shop.ask("POST", "/sessions", {"id": "s"})
        async with visiting(shop) as visit:
            await visit.go("policy")
            await expect(visit.region(NEVER)).to_contain_text("shop.survey")
            await expect(visit.region(DECIDED)).to_have_count(0)
            box = visit.region("What would become of a call")
            for tool, args, words in (
                ("shop.survey", "{}", "It would be denied"),
                ("shop.refund", '{"order": "A-7", "cents": 5}', "Somebody would be asked first"),
                ("shop.find_order", '{"order": "A-7"}', "It would run"),
            ):
                await box.get_by_label("Tool").fill(tool)
                await box.get_by_label("Arguments").fill(args)
                await box.get_by_role("button", name="Ask why").click()
                await expect(box.get_by_role("status")).to_contain_text(words)
            assert shop.ask("GET", "/sessions/s/calls")["items"] == []
            await expect(visit.page).to_have_url(re.compile("tool=shop.find_order"))  # it can be sent to others
            shop.call("s", "shop.survey", {})
            await visit.page.reload()
            await expect(visit.region(DECIDED)).to_contain_text("shop.survey")
            await expect(visit.region(DECIDED).get_by_role("cell", name="1", exact=True)).to_be_visible()
            await expect(box.get_by_label("Tool")).to_have_value("shop.find_order")
            await visit.region(DECIDED).get_by_role("link", name="1", exact=True).click()
            await expect(visit.region("Calls behind the numbers").locator("a.row")).to_have_count(1)
            await expect(visit.region("Calls behind the numbers")).to_contain_text("Calls that a rule decided")

"""Administrators look after sources in the console: they see how each is, add, test, disable and remove."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.console.conftest import Visiting
from tests.console.place import REFUSED, Shop, Visit, shop_at
from tests.requirements import requirement
from tests.sources.mcp.place import PEERS

pytestmark = pytest.mark.asyncio(loop_scope="session")

OFFERS = shlex.join([sys.executable, str(PEERS / "offers.py")])


async def fill(visit: Visit, name: str, command: str) -> None:
    await visit.page.get_by_label("What it is").select_option("command")
    await visit.page.get_by_label("Name").fill(name)
    await visit.page.get_by_label("Command").fill(command)


def row(visit: Visit, name: str) -> Locator:
    return visit.region("Sources").get_by_role("link").filter(has_text=name)


@requirement("gateway.managed.5")
async def test_a_source_is_tested_added_disabled_enabled_and_removed(shop: Shop, visit: Visit) -> None:
    await visit.go("sources")
    await visit.page.get_by_role("link", name="Add a source").click()
    await fill(visit, "peer-one", OFFERS)
    await visit.button("Test").click()
    await expect(visit.text("It answers, with")).to_be_visible()
    await visit.button("Add").click()
    source = visit.region("peer-one")
    await expect(source.get_by_text("ok", exact=True)).to_be_visible()
    assert {one["name"] for one in shop.ask("GET", "/sources")["items"]} >= {"peer-one"}
    await source.get_by_role("link", name="tool").click()
    await expect(visit.region("Tools").get_by_role("link").first).to_contain_text("peer-one")
    await visit.page.go_back()
    await visit.button("Disable").click()
    dialog = visit.page.get_by_role("dialog", name="Disable peer-one?")
    await dialog.get_by_role("button", name="Leave it").click()
    await expect(row(visit, "peer-one")).to_contain_text("ok")
    await visit.button("Disable").click()
    await dialog.get_by_role("button", name="Disable").click()
    await expect(row(visit, "peer-one")).to_contain_text("disabled")
    await visit.button("Enable").click()
    await expect(row(visit, "peer-one")).to_contain_text("ok")
    await visit.button("Remove").click()
    await visit.page.get_by_role("dialog", name="Remove peer-one?").get_by_role("button", name="Remove").click()
    await expect(row(visit, "peer-one")).to_have_count(0)
    assert "peer-one" not in json.dumps(shop.ask("GET", "/sources"))


@requirement("gateway.managed.5")
async def test_what_cannot_be_added_is_said_and_leaves_nothing_behind(shop: Shop, visit: Visit) -> None:
    visit.expected = REFUSED + "|status of 4"
    await visit.go("sources", "+")
    await fill(visit, "dead", f"{shlex.quote(sys.executable)} -c pass")
    await visit.button("Add").click()
    await expect(visit.page.get_by_role("alert")).to_contain_text("dead did not pass its test")
    await expect(visit.page.get_by_role("alert")).to_contain_text("nothing was added")
    await visit.page.get_by_label("Command").fill("program --token=abc")
    await visit.button("Test").click()
    await expect(visit.page.get_by_role("alert").filter(has_text="A secret stands in")).to_be_visible()
    await expect(row(visit, "dead")).to_have_count(0)


@requirement("gateway.managed.5")
async def test_what_another_did_and_how_calls_ended_appear_by_themselves(shop: Shop, visit: Visit) -> None:
    await visit.go("sources", "__main__")
    shop.call("src-1", "shop.find_order", {"order": "none"})
    await expect(visit.region("__main__").get_by_text("Last failure:")).to_be_visible()
    await visit.region("__main__").get_by_role("link", name="shop.find_order").click()
    await expect(visit.call("shop.find_order failed")).to_be_visible()
    await visit.go("sources")
    shop.ask("POST", "/sources", {"name": "peer-two", "mcp": shlex.split(OFFERS)})
    await expect(row(visit, "peer-two")).to_be_visible()
    shop.ask("DELETE", "/sources/peer-two")
    await expect(row(visit, "peer-two")).to_have_count(0)


@requirement("gateway.managed.5")
async def test_who_does_not_look_after_the_server_sees_sources_and_changes_none(
    tmp_path: Path, visiting: Visiting
) -> None:
    keys = tmp_path / "key"
    with shop_at(tmp_path, "--keys", str(keys)) as shop:
        shop.http.headers["Authorization"] = f"Bearer {keys.read_text()}"
        key = shop.ask("POST", "/keys", {"owner": "bob", "scopes": ["read", "call"]})["key"]
        async with visiting(shop) as visit:
            visit.expected = "status of 401"
            await visit.page.goto(f"{shop.url}/#/sources")
            await visit.page.get_by_label("Key").fill(key)
            await visit.page.keyboard.press("Enter")
            await row(visit, "__main__").click()
            await expect(visit.region("__main__")).to_contain_text("tools")
            await expect(visit.button("Disable")).to_have_count(0)
            await expect(visit.page.get_by_role("link", name="Add a source")).to_have_count(0)

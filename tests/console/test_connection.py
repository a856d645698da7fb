"""The server goes away and comes back, and keys come to their end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting, chromium
from tests.console.place import AWAY, REFUSED, UNKNOWN, Shop, Visit, shop_at

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_restart_in_the_middle_of_everything_is_shown_and_mended(own_shop: Shop, visiting: Visiting) -> None:
    own_shop.call("before", "shop.find_order", {"order": "A-1"})
    async with visiting(own_shop) as visit:
        visit.expected = AWAY
        await visit.go("sessions", "before")
        rows = visit.region("Events").get_by_role("button")
        await expect(rows).to_have_count(4)
        own_shop.kill()
        await expect(visit.text("The connection is lost.")).to_be_visible()
        await visit.page.get_by_role("link", name="Tools", exact=True).click()
        own_shop.start()
        await expect(visit.text("The connection is lost.")).to_have_count(0)
        await expect(visit.region("Tools").get_by_role("link").first).to_be_visible()
        await visit.page.get_by_role("link", name="Sessions", exact=True).click()
        await visit.region("Sessions").get_by_role("link").filter(has_text="before").click()
        await expect(rows).to_have_count(4)
        own_shop.call("before", "shop.find_order", {"order": "A-2"})
        await expect(rows.filter(has_text="done")).to_have_count(2)


async def test_a_log_goes_on_where_it_was_after_a_restart(own_shop: Shop, visiting: Visiting) -> None:
    own_shop.call("kept", "shop.find_order", {"order": "A-1"})
    async with visiting(own_shop) as visit:
        visit.expected = AWAY
        await visit.go("sessions", "kept")
        done = visit.region("Events").get_by_role("button").filter(has_text="done")
        await expect(done).to_have_count(1)
        own_shop.kill()
        own_shop.start()
        own_shop.call("kept", "shop.find_order", {"order": "A-2"})
        await expect(done).to_have_count(2)


async def test_a_call_that_a_crash_left_in_doubt_waits_in_the_inbox_to_be_settled(
    own_shop: Shop, visiting: Visiting
) -> None:
    id = own_shop.begin("doubt", "shop.charge", {"order": "A-1"})
    own_shop.kill()
    own_shop.start()
    own_shop.ask("POST", "/sessions", {"id": "doubt"})
    async with visiting(own_shop) as visit:
        await visit.go("inbox")
        await visit.region("Calls that may have run").get_by_role("link").click()
        await expect(visit.call("shop.charge unknown")).to_contain_text("It may have run, or not")
        await visit.page.get_by_label("How you know").fill("the bank has it")
        await visit.button("It happened").click()
        await expect(visit.call("shop.charge succeeded")).to_contain_text("anyone: it happened (the bank has it)")
        await visit.go("inbox")
        await expect(visit.text("Nobody waits for an answer.")).to_be_visible()
        await expect(visit.region("Calls that may have run")).to_have_count(0)
    assert own_shop.ask("GET", f"/sessions/doubt/calls/{id}")["status"] == "succeeded"


async def test_a_server_that_is_away_is_waited_for(own_shop: Shop, visiting: Visiting) -> None:
    async with visiting(own_shop) as visit:
        visit.expected = AWAY
        await visit.go("tools")
        own_shop.kill()
        await visit.page.get_by_role("link", name="Audit", exact=True).click()
        await expect(visit.text("The connection is lost.")).to_be_visible()
        await expect(visit.page.get_by_role("alert")).to_have_count(0)
        own_shop.start()
        await expect(visit.text("No call that ended fits.")).to_be_visible()


# Keys


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Shop, str]]:
    """A shop that asks for keys, and the one of its administrator."""
    chromium()
    with shop_at(tmp_path, "--keys", str(tmp_path / "key")) as shop:
        key = (tmp_path / "key").read_text()
        shop.http.headers["Authorization"] = f"Bearer {key}"
        yield shop, key


def another(shop: Shop, **more: Any) -> tuple[str, str]:
    """A key of somebody, and its id."""
    made = shop.ask("POST", "/keys", {"owner": "bob", **more})
    return made["key"], made["id"]


async def sign_in(visit: Visit, key: str) -> None:
    await visit.page.get_by_label("Key").fill(key)
    await visit.button("Sign in").click()


async def test_signing_in_takes_a_key_and_leaves_none_behind(guarded: tuple[Shop, str], visiting: Visiting) -> None:
    shop, key = guarded
    async with visiting(shop) as visit:
        visit.expected = UNKNOWN
        await visit.page.goto(f"{shop.url}/#/audit")
        await sign_in(visit, "tc_wrong")
        await expect(visit.page.get_by_role("alert")).to_contain_text("not known")
        await sign_in(visit, key)
        await expect(visit.page.get_by_role("main", name="Audit")).to_be_visible()
        await expect(visit.text("ada (admin)")).to_be_visible()
        seen = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, document.body.innerHTML])"
        assert key not in await visit.page.evaluate(seen)
        await visit.button("Sign out").click()
        await expect(visit.page.get_by_role("heading", name="Sign in to Toolcrib")).to_be_visible()


async def test_a_revoked_key_leads_back_to_the_sign_in_and_then_to_the_same_place(
    guarded: tuple[Shop, str], visiting: Visiting
) -> None:
    shop, _ = guarded
    key, id = another(shop)
    async with visiting(shop) as visit:
        visit.expected = f"{UNKNOWN}|{REFUSED}"
        await visit.page.goto(f"{shop.url}/#/tools/shop.find_order")
        await sign_in(visit, key)
        await visit.page.get_by_role("textbox", name="order").fill("A-7")
        shop.ask("DELETE", f"/keys/{id}")
        await visit.button("Run").click()
        await expect(visit.text("You are signed out")).to_be_visible()
        await visit.page.reload()
        await sign_in(visit, another(shop)[0])
        await expect(visit.region("shop.find_order")).to_be_visible()


async def test_somebody_sees_their_own_and_no_more(guarded: tuple[Shop, str], visiting: Visiting) -> None:
    shop, _ = guarded
    shop.call("of-ada", "shop.find_order", {"order": "A-1"})
    async with visiting(shop) as visit:
        visit.expected = f"{UNKNOWN}|status of 403|status of 404"
        await visit.page.goto(f"{shop.url}/#/sessions")
        await sign_in(visit, another(shop)[0])
        await expect(visit.text("No session fits.")).to_be_visible()
        await visit.go("sessions", "of-ada")
        await expect(visit.page.get_by_role("alert").first).to_be_visible()
        await visit.go("cluster")
        await expect(visit.page.get_by_role("img", name="calls a second")).to_be_visible()


async def test_who_looks_after_all_reads_a_conversation_but_does_not_speak_in_it(
    guarded: tuple[Shop, str], visiting: Visiting
) -> None:
    shop, admin = guarded
    bob = {"Authorization": f"Bearer {another(shop)[0]}"}
    shop.http.post("/sessions", json={"id": "of-bob"}, headers=bob).raise_for_status()
    said = {"text": "say hello there", "agent": "desk", "wait": 60}
    shop.http.post("/sessions/of-bob/messages", json=said, headers=bob).raise_for_status()
    async with visiting(shop) as visit:
        visit.expected = f"{UNKNOWN}|status of 403"
        await visit.page.goto(f"{shop.url}/#/agents/chat/of-bob")
        await sign_in(visit, admin)
        await expect(visit.page.get_by_role("log", name="Conversation")).to_contain_text("hello there")
        await expect(visit.text("A conversation of bob")).to_be_visible()
        await expect(visit.button("Send")).to_be_hidden()

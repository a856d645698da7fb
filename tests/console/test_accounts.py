"""Owners connect and disconnect their accounts in the console; no token is ever shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.accounts.service import Service, running
from tests.console.conftest import Visiting, chromium
from tests.console.place import Shop, Visit, shop_at
from tests.requirements import requirement

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def service() -> AsyncIterator[Service]:
    async with running() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def shop_with_accounts(service: Service, tmp_path: Path) -> AsyncIterator[Shop]:
    chromium()
    with shop_at(tmp_path, "--account", service.api) as shop:
        yield shop


async def connect(visit: Visit) -> None:
    """Follows `Connect` to the service and back."""
    async with visit.page.context.expect_page() as opened:
        await visit.page.get_by_role("link", name="Connect", exact=True).click()
    tab: Page = await opened.value
    await expect(tab.get_by_text("The account is connected.")).to_be_visible()
    await tab.close()


@requirement("accounts.console.1")
async def test_an_account_is_connected_from_a_call_that_waits_for_it(
    service: Service, shop_with_accounts: Shop, visiting: Visiting
) -> None:
    shop = shop_with_accounts
    call = shop.begin("acc-1", "default.whoami", {}, "waiting")
    async with visiting(shop) as visit:
        visit.others = (service.base,)
        await visit.go("accounts")
        await expect(visit.call("shop waiting")).to_be_visible()
        await visit.page.get_by_role("link", name="A call of default.whoami").click()
        await expect(visit.region("Question")).to_contain_text("Connect your account shop")
        await connect(visit)
        await expect(visit.text("Nobody waits for an answer.")).to_be_visible()
        assert (await asyncio.to_thread(shop.ask, "GET", f"/sessions/acc-1/calls/{call}/result", wait=60))["ok"]
        await visit.go("accounts")
        await expect(visit.call("shop connected")).to_contain_text("read, write")
        shown = await visit.page.content()
        assert service.secrets
        assert not [secret for secret in service.secrets if secret in shown]


@requirement("accounts.console.1")
async def test_an_account_expires_and_is_disconnected(
    service: Service, shop_with_accounts: Shop, visiting: Visiting
) -> None:
    shop = shop_with_accounts
    async with visiting(shop) as visit:
        visit.others = (service.base,)
        await visit.go("accounts")
        await expect(visit.call("shop not connected")).to_be_visible()
        await connect(visit)
        await expect(visit.call("shop connected")).to_be_visible()
        service.revoke_all()
        await asyncio.to_thread(shop.begin, "acc-2", "default.whoami", {}, "waiting")
        await expect(visit.call("shop waiting")).to_contain_text("The service ended the access")
        await connect(visit)
        await visit.button("Disconnect").click()
        dialog = visit.page.get_by_role("dialog", name="Disconnect shop?")
        await dialog.get_by_role("button", name="Disconnect").click()
        await expect(visit.call("shop not connected")).to_be_visible()
        assert service.revoked


@requirement("accounts.console.1")
async def test_a_key_is_taken_and_never_shown(shop_with_accounts: Shop, visiting: Visiting) -> None:
    async with visiting(shop_with_accounts) as visit:
        await visit.go("accounts")
        card = visit.call("bank not connected")
        await card.get_by_label("Key").fill("sk-very-secret")
        await card.get_by_role("button", name="Connect").click()
        await expect(visit.call("bank connected")).to_be_visible()
        assert "sk-very" not in await visit.page.content()


@requirement("accounts.console.1")
async def test_a_screen_without_accounts_says_what_to_do(visit: Visit) -> None:
    await visit.go("accounts")
    await expect(visit.text("There is no service to connect with.")).to_be_visible()

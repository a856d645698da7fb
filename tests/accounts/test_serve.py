"""Accounts over HTTP: owners connect in a browser, and see nothing of each other's."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.accounts.place import KEY, connect, connect_and_list, question, shop, whoami
from tests.accounts.service import Service
from tests.requirements import requirement
from tests.serve.place import Place, serving
from toolcrib import Crib, ToolFailure
from toolcrib.accounts import AccountSettings
from toolcrib.serve.keys import ApiKeys, digest
from toolcrib.serve.principal import Principal
from toolcrib.sources.mcp import Mcp
from toolcrib.sources.mcp.link import STARTS

OWNERS = {owner: f"{owner}-" + owner * 10 for owner in ("ada", "bob")}
URL_CLIENT: dict[str, Any] = {"elicitation": {"url": {}}}


@pytest.fixture
async def place(service: Service, tmp_path: Path) -> AsyncIterator[Place]:
    accounts = [shop(service), AccountSettings(name="bank", grant="key")]
    crib = Crib(
        [whoami],
        store=f"sqlite:///{tmp_path}/crib.db",
        secret_key=KEY,
        deps={"api": service.api},
        accounts=accounts,
        policy={"default": "allow"},
    )
    async with serving(crib, guard=ApiKeys({digest(key): Principal(owner) for owner, key in OWNERS.items()})) as place:
        crib.accounts.serve_at(place.url)
        yield place


def as_owner(owner: str) -> dict[str, str]:
    return {"authorization": f"Bearer {OWNERS[owner]}"}


async def browse(place: Place, owner: str, url: str) -> httpx.Response:
    """A browser of an owner: it visits a page, agrees at the service, and comes back."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        leads = await browser.get(url, headers=as_owner(owner))
        assert leads.status_code == 303, leads.text
        agreed = await browser.get(f"{leads.headers['location']}&login={owner}@shop")
        return await browser.get(agreed.headers["location"])


@requirement("accounts.http.1")
async def test_an_owner_connects_in_a_browser_and_the_call_goes_on(place: Place) -> None:
    ada = await place.crib.open("s", owner="ada")
    call = await ada.submit("whoami", {})
    asked = await question(ada, call.id)
    assert asked.data["url"] == f"{place.crib.accounts.callback}".replace("callback", "shop/connect")
    page = await browse(place, "ada", asked.data["url"])
    assert (page.status_code, "is connected" in page.text) == (200, True)
    assert (await ada.result(call.id)).data["login"] == "ada@shop"


@requirement("accounts.http.1")
async def test_what_one_browser_began_no_other_can_finish(place: Place) -> None:
    url = f"{place.url}/v1/accounts/shop/connect"
    async with (
        httpx.AsyncClient(trust_env=False, timeout=60) as eve,
        httpx.AsyncClient(trust_env=False, timeout=60) as ada,
    ):
        leads = await eve.get(url, headers=as_owner("bob"))
        agreed = await eve.get(f"{leads.headers['location']}&login=eve@shop")
        page = await ada.get(agreed.headers["location"])
    assert page.status_code == 403
    assert not await place.crib.accounts.connected()


@requirement("accounts.http.2")
async def test_owners_see_and_remove_their_own_alone(place: Place, service: Service) -> None:
    for owner in OWNERS:
        await browse(place, owner, f"{place.url}/v1/accounts/shop/connect")
    listed = await place.http.get("/v1/accounts", headers=as_owner("ada"))
    assert [(one["name"], one.get("owner")) for one in listed.json()["items"]] == [("shop", "ada"), ("bank", None)]
    assert not [secret for secret in service.secrets if secret in listed.text]
    foreign = await place.http.delete("/v1/accounts/shop?owner=bob", headers=as_owner("ada"))
    assert foreign.status_code == 403
    own = await place.http.delete("/v1/accounts/shop", headers=as_owner("ada"))
    assert own.status_code == 200
    assert [one.owner for one in await place.crib.accounts.connected()] == ["bob"]


@requirement("accounts.http.2")
async def test_a_key_is_taken_and_never_shown(place: Place) -> None:
    taken = await place.http.put("/v1/accounts/bank/key", json={"key": "sk-ada-123"}, headers=as_owner("ada"))
    assert taken.status_code == 201
    listed = await place.http.get("/v1/accounts", headers=as_owner("ada"))
    assert "sk-ada" not in taken.text + listed.text
    wrong = await place.http.put("/v1/accounts/shop/key", json={"key": "x"}, headers=as_owner("ada"))
    assert wrong.status_code == 400
    missing = await place.http.delete("/v1/accounts/nothing", headers=as_owner("ada"))
    assert missing.status_code == 404


@requirement("accounts.http.3")
async def test_an_mcp_client_is_sent_to_the_page(place: Place) -> None:
    more: dict[str, Any] = {"can": URL_CLIENT, "headers": {"authorization": f"Bearer {OWNERS['ada']}"}}
    told = await place.result("tools/call", {"name": "whoami", "arguments": {}}, **more)
    ((name, asked),) = told["inputRequests"].items()
    assert (asked["params"]["mode"], asked["params"]["url"][-21:]) == ("url", "accounts/shop/connect")
    await browse(place, "ada", asked["params"]["url"])
    again = {"name": "whoami", "arguments": {}, "requestState": told["requestState"]}
    done = await place.result("tools/call", {**again, "inputResponses": {name: {"action": "accept"}}}, **more)
    assert done["structuredContent"]["login"] == "ada@shop"


@requirement("gateway.share.4")
async def test_an_owner_sees_the_resources_of_their_own_account_alone(service: Service, tmp_path: Path) -> None:
    source = Mcp(f"{service.api}/mcp", name="mail", account="shop", trusted=True)
    settings: dict[str, Any] = {
        "accounts": [shop(service)],
        "secret_key": KEY,
        "store": f"sqlite:///{tmp_path}/crib.db",
    }
    keys = ApiKeys({digest(key): Principal(owner) for owner, key in OWNERS.items()})
    async with (
        Crib([source], policy={"default": "allow"}, default_namespaces=["mail"], **settings) as crib,
        serving(crib, guard=keys) as place,
    ):
        shown = {}
        for connecting in OWNERS:
            await connect_and_list(crib, source, connecting, f"{connecting}@shop")
            for owner in OWNERS:
                listed = await place.result("resources/list", headers=as_owner(owner))
                shown[connecting, owner] = [one["uri"] for one in listed["resources"]]
    assert shown["ada", "ada"] == shown["bob", "ada"] == ["letters://ada@shop"]
    assert shown["ada", "bob"] == []
    assert shown["bob", "bob"] == ["letters://bob@shop"]


@requirement("gateway.share.4")
async def test_who_lists_before_they_connected_an_account_is_kept_waiting_by_nothing_after(
    service: Service, tmp_path: Path
) -> None:
    source = Mcp(f"{service.api}/mcp", name="mail", account="shop", trusted=True)
    settings: dict[str, Any] = {
        "accounts": [shop(service)],
        "secret_key": KEY,
        "store": f"sqlite:///{tmp_path}/crib.db",
    }
    async with Crib([source], policy={"default": "allow"}, default_namespaces=["mail"], **settings) as crib:
        await connect(crib, "ada", "ada@shop")
        for _ in range(STARTS):
            with pytest.raises(ToolFailure, match="bob has not connected"):
                await source.server.offers("bob")
        await connect(crib, "bob", "bob@shop")
        bob = await crib.open("b", owner="bob", namespaces=["mail"])
        assert (await bob.call("mail.whoami", {})).data == "bob@shop"

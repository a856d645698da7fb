"""Owners connect accounts, and their calls wait for that; tokens are theirs alone, and nobody sees them."""

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.accounts.place import RETURN, OpenCrib, all_text, connect, question, shop, visit
from tests.accounts.service import Grant, Service
from tests.requirements import requirement
from toolcrib import Refused
from toolcrib.accounts import AccountSettings
from toolcrib.errors import BadAccount


@requirement("accounts.park.1")
async def test_a_call_waits_until_its_owner_has_connected_the_account(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    ada = await crib.open("s", owner="ada")
    call = await ada.submit("whoami", {})
    asked = await question(ada, call.id)
    assert asked.kind == "external"
    assert asked.data == {"account": "shop"}
    assert "toolcrib connect shop" in asked.prompt
    await connect(crib, "ada", "ada@shop")
    result = await ada.result(call.id)
    assert result.data["login"] == "ada@shop"


@requirement("accounts.park.2")
async def test_nobody_can_say_that_an_account_is_connected_which_is_not(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    ada = await crib.open("s", owner="ada")
    call = await ada.submit("whoami", {})
    asked = await question(ada, call.id)
    with pytest.raises(Refused) as refused:
        await ada.answer(asked.id, "accept")
    assert refused.value.code == "conflict"
    await ada.answer(asked.id, "decline", reason="not now")
    failure = (await ada.result(call.id)).failure
    assert failure is not None
    assert failure.code == "declined"


@requirement("accounts.park.3")
async def test_a_crib_that_was_restarted_in_between_goes_on(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    ada = await crib.open("s", owner="ada")
    call = await ada.submit("whoami", {})
    await question(ada, call.id)
    url = await crib.accounts.begin("ada", "shop", RETURN)
    crib = await open_crib(service)
    await crib.accounts.finish(await visit(url, "ada@shop"))
    ada = await crib.open("s", owner="ada")
    assert (await ada.result(call.id)).data["login"] == "ada@shop"


@requirement("accounts.oauth.1")
async def test_the_server_is_discovered_and_this_program_registered_once(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    await connect(crib, "bob", "bob@shop")
    (client,) = service.clients.values()
    assert client["redirect_uris"] == [RETURN]
    (one, two) = [grant for grant, _ in service.access.values()]
    assert one.resource == two.resource == service.api
    assert one.scope.split() == ["read", "write"]


@requirement("accounts.oauth.1")
async def test_a_document_is_the_client_where_the_server_takes_that(open_crib: OpenCrib, service: Service) -> None:
    service.cimd = True
    page = "https://crib.example/client.json"
    crib = await open_crib(service, shop(service, client_metadata_url=page))
    url = await crib.accounts.begin("ada", "shop", RETURN)
    assert "client_id=https%3A%2F%2Fcrib.example%2Fclient.json" in url
    assert not service.clients
    await crib.accounts.finish(await visit(url, "ada@shop"))
    assert await crib.accounts.fits("ada", "shop")


@requirement("accounts.oauth.2")
async def test_what_comes_back_counts_once_and_only_in_the_same_browser(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    url = await crib.accounts.begin("ada", "shop", RETURN, bound="cookie-of-ada")
    reply = await visit(url, "eve@shop")
    with pytest.raises(Refused, match="another browser"):
        await crib.accounts.finish(reply, bound="cookie-of-eve")
    await crib.accounts.finish(reply, bound="cookie-of-ada")
    with pytest.raises(Refused, match="no such request"):
        await crib.accounts.finish(reply, bound="cookie-of-ada")


@requirement("accounts.oauth.2")
async def test_an_owner_who_does_not_agree_has_nothing_connected(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    url = await crib.accounts.begin("ada", "shop", RETURN)
    with pytest.raises(Refused, match="access_denied"):
        await crib.accounts.finish(await visit(url, "ada", deny="1"))
    assert not await crib.accounts.connected()


@requirement("accounts.token.1")
async def test_a_token_that_expired_is_renewed_and_nobody_is_asked(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    service.expire()
    ada = await crib.open("s", owner="ada")
    assert (await ada.call("whoami", {})).ok
    assert service.asked == ["authorization_code", "refresh_token"]
    crib = await open_crib(service)
    assert (await (await crib.open("s", owner="ada")).call("whoami", {})).ok


@requirement("accounts.token.1")
async def test_calls_at_once_renew_a_token_once(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    service.expire()
    ada = await crib.open("s", owner="ada")
    calls = [await ada.submit("whoami", {}) for _ in range(8)]
    assert all([(await ada.result(call.id)).ok for call in calls])
    assert service.asked.count("refresh_token") == 1


@requirement("accounts.token.1")
async def test_a_token_that_is_replaced_while_it_is_looked_up_is_no_reason_to_ask(
    open_crib: OpenCrib, service: Service
) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    (before,) = [replace(one) for one in await crib.accounts.connected("ada")]
    service.expire()
    assert (await (await crib.open("s", owner="ada")).call("whoami", {})).ok
    tokens = await crib.accounts._kept.tokens(before)
    assert tokens is not None
    assert tokens.access_token in service.access


@requirement("accounts.token.2")
async def test_who_took_access_back_is_asked_again(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    service.revoke_all()
    ada = await crib.open("s", owner="ada")
    call = await ada.submit("whoami", {})
    await question(ada, call.id)
    assert not await crib.accounts.connected("ada")
    await connect(crib, "ada", "ada@shop")
    assert (await ada.result(call.id)).ok


@requirement("accounts.token.3")
async def test_more_rights_are_asked_for_where_a_call_needs_them(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    ada = await crib.open("s", owner="ada")
    call = await ada.submit("whoami", {"scope": "admin"})
    asked = await question(ada, call.id)
    assert asked.data["scope"] == "admin"
    with pytest.raises(Refused):
        await ada.answer(asked.id, "accept")
    await connect(crib, "ada", "ada@shop", "admin")
    assert (await ada.result(call.id)).ok
    ((grant, _),) = [one for one in service.access.values() if "admin" in one[0].scope]
    assert grant.scope.split() == ["read", "write", "admin"]


@requirement("accounts.secret.1")
async def test_no_log_and_no_file_holds_a_token(open_crib: OpenCrib, service: Service, tmp_path: Path) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    service.expire()
    ada = await crib.open("s", owner="ada")
    result = await ada.call("whoami", {})
    await crib.store.flush()
    shown = await all_text(crib) + repr(result) + repr(await crib.accounts.connected())
    files = b"".join(path.read_bytes() for path in tmp_path.glob("crib.db*"))
    assert len(service.secrets) >= 4
    for secret in service.secrets:
        assert secret not in shown
        assert secret.encode() not in files
    assert "account_connected" in shown


@requirement("accounts.secret.1")
async def test_another_key_opens_no_account(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    crib = await open_crib(service, secret_key="x" * 40)
    result = await (await crib.open("s", owner="ada")).call("whoami", {})
    assert result.failure is not None
    assert result.failure.code == "unavailable"
    assert "secret_key" in (result.failure.hint or "")


@requirement("accounts.manage.1")
async def test_an_account_that_was_removed_is_forgotten_and_revoked(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    (refresh,) = service.refresh
    await crib.accounts.remove("ada", "shop")
    assert service.revoked == [refresh]
    assert not await crib.accounts.connected()
    with pytest.raises(Refused, match="has not connected"):
        await crib.accounts.remove("ada", "shop")


@requirement("accounts.dpop.1")
@pytest.mark.parametrize("nonces", [False, True])
async def test_tokens_are_bound_to_a_key_where_the_service_wants_it(
    open_crib: OpenCrib, service: Service, nonces: bool
) -> None:
    service.dpop, service.nonces = True, nonces
    crib = await open_crib(service)
    await connect(crib, "ada", "ada@shop")
    ada = await crib.open("s", owner="ada")
    assert (await ada.call("whoami", {})).ok
    service.expire()
    assert (await ada.call("whoami", {})).ok
    assert all(grant.thumbprint for grant, _ in service.access.values())


@requirement("accounts.machine.1")
@pytest.mark.parametrize(
    ("more", "login"),
    [
        ({"grant": "client_credentials", "client_id": "robot", "client_secret": "env:ROBOT"}, "robot"),
        ({"grant": "token_exchange", "client_id": "cli", "subject_token": "env:SUBJECT"}, "for workload"),
        ({"grant": "jwt_bearer", "client_id": "cli", "subject_token": "env:SUBJECT"}, "for workload"),
    ],
)
async def test_machines_need_nobody(
    open_crib: OpenCrib, service: Service, monkeypatch: pytest.MonkeyPatch, more: Any, login: str
) -> None:
    monkeypatch.setenv("ROBOT", "robots-secret")
    monkeypatch.setenv("SUBJECT", "workload")
    service.clients["robot"] = {"client_secret": "robots-secret"}
    crib = await open_crib(service, shop(service, **more))
    ada = await crib.open("s", owner="ada")
    assert (await ada.call("whoami", {})).data["login"] == login
    service.expire()
    assert (await ada.call("whoami", {})).data["login"] == login


@requirement("accounts.manage.2")
async def test_an_owner_may_hand_in_a_key(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service, AccountSettings(name="shop", grant="key"))
    ada = await crib.open("s", owner="ada")
    call = await ada.submit("whoami", {})
    await question(ada, call.id)
    service.access["sk-ada-1"] = Grant("ada@shop", "", "", None), math.inf
    await crib.accounts.add_key("ada", "shop", "sk-ada-1")
    assert (await ada.result(call.id)).data["login"] == "ada@shop"
    assert "sk-ada-1" not in await all_text(crib)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": "a b", "issuer": "https://x.example"}, "no name"),
        ({"name": "a"}, "where its tokens come from"),
        ({"name": "a", "issuer": "x.example"}, "an address"),
        ({"name": "a", "grant": "client_credentials", "issuer": "https://x.example"}, "client_id"),
        ({"name": "a", "grant": "token_exchange", "issuer": "https://x.example"}, "subject_token"),
        ({"name": "a", "grant": "secret"}, "a secret"),
        ({"name": "a", "grant": "magic"}, "one of"),
    ],
)
def test_settings_that_do_not_hold_are_refused(settings: Any, problem: str) -> None:
    with pytest.raises(BadAccount, match=problem):
        AccountSettings(**settings)

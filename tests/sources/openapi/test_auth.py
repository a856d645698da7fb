"""Credentials: where each scheme puts them, whose they are, and that nobody sees them."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sources.openapi.conftest import Opened
from tests.sources.openapi.service import TOKEN, Service, document, operation
from toolcrib.sources.openapi import BadDocument

SECRET = "k-9f8e7d-secret/+="


def secured(scheme: dict[str, Any], *ways: dict[str, Any], path: str = "/echo") -> dict[str, Any]:
    said = operation(security=list(ways) or [{"it": []}])
    return document({path: {"get": said}}, components={"securitySchemes": {"it": scheme, "other": scheme}})


@pytest.mark.parametrize("place", ["header", "query", "cookie"])
async def test_a_key_goes_where_its_scheme_says(opened: Opened, service: Service, place: str) -> None:
    scheme = {"type": "apiKey", "in": place, "name": "X-Key"}
    session = await opened(secured(scheme), auth={"it": SECRET})
    result = await session.call("shop.it", {})
    assert result.ok, result.failure
    seen = service.last
    coded = "X-Key=k-9f8e7d-secret%2F%2B%3D"
    assert {"header": seen.headers.get("x-key"), "query": seen.query, "cookie": seen.headers.get("cookie")}[place] in (
        SECRET,
        coded,
    )
    assert "9f8e7d" not in result.text


@pytest.mark.parametrize(
    ("scheme", "given", "header"),
    [
        ({"type": "http", "scheme": "bearer"}, SECRET, f"Bearer {SECRET}"),
        ({"type": "http", "scheme": "Basic"}, "ada:pässword", None),
        ({"type": "http", "scheme": "basic"}, {"username": "ada", "password": "pässword"}, None),
        ({"type": "oauth2", "flows": {}}, SECRET, f"Bearer {SECRET}"),
        ({"type": "openIdConnect", "openIdConnectUrl": "x"}, SECRET, f"Bearer {SECRET}"),
    ],
)
async def test_authorization_is_sent(
    opened: Opened, service: Service, scheme: dict[str, Any], given: Any, header: str | None
) -> None:
    session = await opened(secured(scheme), auth={"it": given})
    result = await session.call("shop.it", {})
    assert result.ok, result.failure
    basic = "Basic " + base64.b64encode("ada:pässword".encode()).decode()
    assert service.last.headers["authorization"] == (header or basic)
    assert service.last.headers["authorization"].partition(" ")[2] not in json.dumps(result.data)


async def test_the_first_way_with_credentials_is_taken(opened: Opened, service: Service) -> None:
    scheme = {"type": "apiKey", "in": "header", "name": "X-Key"}
    session = await opened(secured(scheme, {}, {"it": [], "other": []}, {"other": []}), auth={"other": SECRET})
    assert (await session.call("shop.it", {})).ok
    assert service.last.headers["x-key"] == SECRET
    session = await opened(secured(scheme, {}, {"it": []}))
    assert (await session.call("shop.it", {})).ok
    assert "x-key" not in service.last.headers


async def test_without_credentials_it_is_said_what_to_configure(opened: Opened, service: Service) -> None:
    session = await opened(secured({"type": "http", "scheme": "bearer"}))
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == ("unavailable", False)
    assert "auth: {it: ...}" in (result.failure.hint or "")
    assert service.seen == []


async def test_a_scheme_that_the_document_does_not_declare_is_told_at_the_start(opened: Opened) -> None:
    bearer = {"type": "http", "scheme": "bearer"}
    with pytest.raises(BadDocument) as caught:
        await opened(secured(bearer), auth={"othr": SECRET})
    told = "auth names the security scheme 'othr', which the document does not have: it declares it, other"
    assert f"{told} (did you mean 'other'?)" in str(caught.value)
    assert SECRET not in str(caught.value)
    with pytest.raises(BadDocument, match="it declares none; headers go without one"):
        await opened(document({"/echo": {"get": operation()}}), auth={"key": SECRET})
    old = {"swagger": "2.0", "paths": {"/echo": {"get": operation()}}, "securityDefinitions": {"key": bearer}}
    with pytest.raises(BadDocument, match="it declares key"):
        await opened(old, auth={"token": SECRET})


async def test_each_owner_has_its_own_credentials(opened: Opened, service: Service) -> None:
    async def credentials(owner: str, scheme: str) -> str | None:
        return f"{owner}-secret-{scheme}" if owner != "eve" else None

    session = await opened(secured({"type": "http", "scheme": "bearer"}), credentials=credentials)
    for owner in ("ada", "bob"):
        theirs = await session.crib.open(owner=owner, namespaces=["shop"])
        assert (await theirs.call("shop.it", {})).ok
        assert service.last.headers["authorization"] == f"Bearer {owner}-secret-it"
    eve = await session.crib.open(owner="eve", namespaces=["shop"])
    result = await eve.call("shop.it", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("denied", "There are no credentials of eve for shop (it)")
    assert len(service.seen) == 2


OAUTH = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {}}}}
CLIENT = {"client_id": "crib", "client_secret": "s3cret-of-client", "scope": "read"}


async def test_a_token_is_fetched_once_while_it_lives(opened: Opened, service: Service) -> None:
    session = await opened(secured(OAUTH), auth={"it": CLIENT})
    results = await asyncio.gather(*(session.call("shop.it", {}) for _ in range(5)))
    assert all(result.ok for result in results)
    assert len(service.tokens) == 1
    assert service.last.headers["authorization"] == f"Bearer {TOKEN}-crib-0"
    assert all("very-secret" not in result.text for result in results)


async def test_a_token_that_has_ended_is_renewed(opened: Opened, service: Service) -> None:
    service.lives = 0
    session = await opened(secured(OAUTH), auth={"it": CLIENT})
    for number in range(3):
        assert (await session.call("shop.it", {})).ok
        assert service.last.headers["authorization"] == f"Bearer {TOKEN}-crib-{number}"


async def test_a_token_that_was_withdrawn_is_replaced(opened: Opened, service: Service) -> None:
    session = await opened(secured(OAUTH), auth={"it": {**CLIENT, "in": "body"}})
    assert (await session.call("shop.it", {})).ok
    service.withdrawn.add(service.tokens[0])
    assert (await session.call("shop.it", {})).ok
    assert len(service.tokens) == 2
    service.withdrawn.update(f"{TOKEN}-crib-{number}" for number in range(5))
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert result.failure.code == "denied"
    assert len(service.tokens) == 3


async def test_a_refused_client_is_told_without_its_secret(opened: Opened) -> None:
    session = await opened(secured(OAUTH), auth={"it": {**CLIENT, "client_secret": "wrong-secret-here"}})
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == ("unavailable", False)
    assert "gave no token (HTTP 401)" in result.failure.message
    assert "wrong-secret" not in result.text


async def test_nobody_sees_a_credential(opened: Opened, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    scheme = {"type": "apiKey", "in": "header", "name": "X-Key"}
    document_ = secured(scheme)
    document_["paths"]["/status/400"] = {"get": {**operation(security=[{"it": []}]), "operationId": "bad"}}
    session = await opened(document_, auth={"it": SECRET}, headers={"X-Other": "other-secret-value"})
    ok, bad = await session.call("shop.it", {}), await session.call("shop.bad", {})
    assert service.last.headers["x-other"] == "other-secret-value"
    events = [event async for event in session.events(follow=False)]
    seen = repr([ok, ok.data, bad, ok.metadata, bad.metadata, events, caplog.text])
    assert "9f8e7d" not in seen
    assert "other-secret" not in seen
    assert "•••" in seen


async def test_a_credential_that_cannot_be_sent_is_not(opened: Opened, service: Service) -> None:
    session = await opened(secured({"type": "http", "scheme": "bearer"}), auth={"it": "a\r\nX-Evil: 1"})
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert "X-Evil" not in result.text
    assert service.seen == []


async def test_an_unknown_scheme_leaves_the_operation_out(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    said = {"/echo": {"get": operation(security=[{"nope": []}]), "post": {**operation(), "operationId": "fine"}}}
    session = await opened(document(said))
    assert session.tool("shop.it") is None
    assert session.tool("shop.fine") is not None
    assert "there is no security scheme 'nope'" in caplog.text


@requirement("security.bounds.5")
@pytest.mark.parametrize(
    "elsewhere", ["http://localhost:{port}/token", "https://tokens.example/token", "//localhost:{port}/token"]
)
async def test_a_client_secret_is_not_sent_to_another_host_that_a_document_names(
    opened: Opened, service: Service, elsewhere: str
) -> None:
    port = service.url.rpartition(":")[2]
    flow = {"clientCredentials": {"tokenUrl": elsewhere.format(port=port), "scopes": {}}}
    session = await opened(secured({"type": "oauth2", "flows": flow}), auth={"it": CLIENT})
    failure = (await session.call("shop.it", {})).failure
    assert failure is not None
    assert failure.code == "unavailable"
    assert "which is not where its service is" in failure.message
    assert "token_url" in (failure.hint or "")
    assert (service.tokens, service.seen) == ([], [])


@requirement("security.bounds.5")
async def test_a_client_secret_is_sent_where_the_configuration_says(opened: Opened, service: Service) -> None:
    elsewhere = service.url.replace("127.0.0.1", "localhost") + "/token"
    flow = {"clientCredentials": {"tokenUrl": "https://tokens.example/token", "scopes": {}}}
    session = await opened(secured({"type": "oauth2", "flows": flow}), auth={"it": {**CLIENT, "token_url": elsewhere}})
    assert (await session.call("shop.it", {})).ok
    assert len(service.tokens) == 1

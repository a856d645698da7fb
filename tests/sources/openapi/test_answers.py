"""What a service answers, as the result of a call: data, content, or a failure that helps."""

from __future__ import annotations

import base64
import socket
import threading
from typing import Any

import pytest

from tests.sources.openapi.conftest import POLICY, Opened
from tests.sources.openapi.service import Service, document, operation, parameter
from toolcrib import Crib
from toolcrib.sources.openapi import OpenApi


def at(path: str, method: str = "get", *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return document({path: {method: operation(*parameters, **more)}})


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "invalid_arguments", True),
        (401, "denied", False),
        (403, "denied", False),
        (404, "not_found", False),
        (405, "failed", False),
        (408, "timeout", True),
        (409, "failed", False),
        (413, "too_large", True),
        (422, "invalid_arguments", True),
        (429, "rate_limited", True),
        (500, "unavailable", True),
        (503, "unavailable", True),
        (504, "timeout", True),
    ],
)
async def test_a_status_is_a_failure_with_what_the_service_says(
    opened: Opened, status: int, code: str, retryable: bool
) -> None:
    session = await opened(at(f"/status/{status}/bad-name"))
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == (code, retryable)
    assert f"HTTP {status}" in result.failure.message
    assert "bad-name" in result.failure.message
    assert result.metadata["http_status"] == status


async def test_what_may_happen_once_is_not_to_be_tried_again(opened: Opened) -> None:
    session = await opened(at("/status/503", "post"))
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == ("unavailable", False)


async def test_a_service_says_when_to_come_back(opened: Opened) -> None:
    session = await opened(at("/status/429", "get", parameter("after", "query")))
    result = await session.call("shop.it", {"after": "7"})
    assert result.failure is not None
    assert result.metadata["retry_after_s"] == 7.0
    assert result.failure.hint == "Try again in 7 s."


async def test_a_long_complaint_is_cut_and_a_page_is_left_out(opened: Opened) -> None:
    session = await opened(at("/status/400/" + "x" * 5000))
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert len(result.failure.message) < 1100
    session = await opened(at("/nowhere"))
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert result.failure.message == "HTTP 404"


async def test_kinds_of_answers(opened: Opened) -> None:
    paths = {
        f"/kind/{kind}": {"get": {**operation(), "operationId": kind}}
        for kind in ("png", "zip", "text", "nothing", "list", "broken")
    }
    session = await opened(document(paths))
    png = await session.call("shop.png", {})
    assert png.content == [
        {"type": "image", "data": base64.b64encode(b"\x89PNG\x00").decode(), "mime_type": "image/png"}
    ]
    packed = await session.call("shop.zip", {})
    assert (packed.content[0]["type"], packed.content[0]["mime_type"]) == ("resource", "application/zip")
    assert (await session.call("shop.text", {})).data == "schön"
    nothing = await session.call("shop.nothing", {})
    assert (nothing.ok, nothing.data) == (True, None)
    assert (await session.call("shop.list", {})).data == [1, 2]
    assert (await session.call("shop.broken", {})).data == "{broken"


async def test_an_answer_that_unpacks_without_end_is_cut_off(opened: Opened) -> None:
    session = await opened(at("/kind/bomb"))
    result = await session.call("shop.it", {})
    assert result.failure is not None
    assert result.failure.code == "too_large"


async def test_headers_alone_are_data(opened: Opened) -> None:
    session = await opened(at("/kind/text", "head"))
    result = await session.call("shop.it", {})
    assert result.data["status"] == 200
    assert result.data["headers"]["content-type"].startswith("text/plain")


def giving(schema: dict[str, Any]) -> dict[str, Any]:
    return {"responses": {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}}


async def test_an_answer_is_described_and_may_be_less_than_promised(opened: Opened) -> None:
    promised = {
        "type": "object",
        "required": ["method", "promised"],
        "properties": {"method": {"type": "string", "enum": ["POST"]}, "promised": {"type": "integer"}},
        "additionalProperties": False,
    }
    session = await opened(at("/echo", **giving(promised)))
    tool = session.tool("shop.it")
    assert tool is not None
    assert tool.output_schema is not None
    assert list(tool.output_schema["properties"]) == ["method", "promised"]
    result = await session.call("shop.it", {})
    assert result.ok, result.failure
    assert result.data["method"] == "GET"


async def test_an_answer_of_another_shape_is_not_lost(opened: Opened) -> None:
    session = await opened(at("/kind/list", **giving({"type": "object", "properties": {"a": {"type": "string"}}})))
    result = await session.call("shop.it", {})
    assert result.ok, result.failure
    assert (result.data, result.content) == (None, [{"type": "json", "value": [1, 2]}])
    assert "unexpected" in result.metadata
    assert result.text == "[1,2]"


@pytest.mark.parametrize(
    ("to", "method", "arrives"),
    [("/echo/new", "get", "GET"), ("/echo/new", "post", "POST"), ("{url}/echo/new", "put", "PUT")],
)
async def test_a_redirect_on_the_same_host_is_followed(
    opened: Opened, service: Service, to: str, method: str, arrives: str
) -> None:
    session = await opened(at("/moved", method, parameter("to", "query")))
    result = await session.call("shop.it", {"to": to.replace("{url}", service.url)})
    assert result.ok, result.failure
    assert (service.last.path, service.last.method) == ("/echo/new", arrives)


@pytest.mark.parametrize(
    "to", ["http://169.254.169.254/latest", "//evil.example/x", "http://127.0.0.1:1/", "file:///etc/passwd"]
)
async def test_a_redirect_to_another_place_is_refused(opened: Opened, service: Service, to: str) -> None:
    session = await opened(at("/moved", "get", parameter("to", "query")))
    result = await session.call("shop.it", {"to": to})
    assert result.failure is not None
    assert (result.failure.code, len(service.seen)) == ("denied", 1)


async def test_endless_redirects_end(opened: Opened, service: Service) -> None:
    session = await opened(at("/moved", "get", parameter("to", "query")))
    result = await session.call("shop.it", {"to": "/moved?to=/moved?to=/x"})
    assert result.failure is not None
    assert len(service.seen) <= 6


async def test_a_service_that_is_away_is_unavailable(opened: Opened) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        session = await opened(at("/echo", "post"), base_url=f"http://127.0.0.1:{port}")
        result = await session.call("shop.it", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == ("unavailable", True)
    assert "127.0.0.1 cannot be reached" in result.failure.message


@pytest.mark.parametrize(("method", "code"), [("get", "unavailable"), ("post", "unknown")])
async def test_a_connection_that_breaks_tells_whether_it_may_have_run(opened: Opened, method: str, code: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)

        def hang_up() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)

        thread = threading.Thread(target=hang_up)
        thread.start()
        session = await opened(at("/echo", method), base_url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        result = await session.call("shop.it", {})
        thread.join(30)
    assert result.failure is not None
    assert result.failure.code == code


async def test_a_public_name_that_leads_inside_is_refused(service: Service) -> None:
    port = int(service.url.rpartition(":")[2])
    source = OpenApi(document({"/echo": {"get": operation()}}, server=f"http://shop.example:{port}"), trusted=True)

    async def inside(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    source._connections._client._resolve = inside
    async with Crib([source], policy=POLICY) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        result = await session.call("shop.it", {})
    assert result.failure is not None
    assert (result.failure.code, service.seen) == ("denied", [])
    assert "base_url" in (result.failure.hint or "")

"""One client behind toolkits, OpenAPI documents and definition files: what holds for one of them holds for all."""

import gzip
import ssl
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.definitions.runners.made import called, definition, tool_of
from tests.requirements import requirement
from tests.toolkits.place import names, reply, web
from toolcrib import Crib, Result
from toolcrib.definitions.runners import RunnerSettings
from toolcrib.errors import ToolFailure
from toolcrib.http import Anywhere, Client, Request, Resolve
from toolcrib.sources.openapi import OpenApi
from toolcrib.sources.openapi.connections import Connections
from toolcrib.toolkits import http

Send = Callable[[str, int, Resolve, bool], Awaitable[Result]]
"""Requests a host and a port by a scheme; the last argument allows inner addresses."""

INNER = ["127.0.0.1", "10.0.0.5", "169.254.169.254", "168.63.129.16", "192.0.0.192", "::1", "fe80::1%eth0", "fd00::1"]


async def by_toolkit(origin: str, port: int, resolve: Resolve, inner: bool) -> Result:
    host = origin.partition("://")[2]
    grants = ["net:egress:*", *([f"net:egress:{host}:*"] if inner else [f"net:egress:{origin}:{port}"])]
    kit = http.tools(ports=[port], resolve=resolve)
    if not inner:
        grants = ["*", "net:egress:*"]
    async with Crib([kit], policy={"grants": {"allow": grants}}) as crib:
        session = await crib.open(owner="ada", namespaces=["http"])
        return await session.call("http_fetch", {"url": f"{origin}:{port}/"})


async def by_document(origin: str, port: int, resolve: Resolve, inner: bool) -> Result:
    url = f"{origin}:{port}"
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": url}],
        "paths": {"/": {"get": {"operationId": "it", "responses": {"200": {"description": "ok"}}}}},
    }
    source = OpenApi(document, namespace="shop", trusted=True, base_url=url if inner else None)
    source._connections = source._loading._connections = Connections(Client(resolve=resolve, keep=True))
    policy = {"grants": {"allow": ["net:egress:*", "net:egress:private", f"net:egress:{url}"]}}
    async with Crib([source], policy=policy) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        return await session.call("shop.it", {})


async def by_file(origin: str, port: int, resolve: Resolve, inner: bool) -> Result:
    needs = "requires: ['net:egress:private']\n" if inner else ""
    text = f"{needs}http_specific: {{base_url: '{origin}:{port}'}}\ncommands: [{{name: a, path: /}}]"
    return await called(tool_of(definition("http", text), "a", RunnerSettings(environ={}, resolve=resolve)), {})


SENDERS = [pytest.param(one, id=one.__name__) for one in (by_toolkit, by_document, by_file)]
everyone = pytest.mark.parametrize("send", SENDERS)
SITE = names(site_test=["127.0.0.1"], other_test=["127.0.0.1"])


def code(result: Result) -> str:
    assert result.failure is not None, result
    return result.failure.code


@requirement("http.5")
@everyone
async def test_a_compressed_bomb_is_never_held(send: Send) -> None:
    bomb = reply(gzip.compress(b"\0" * (512 << 20), 9), content_encoding="gzip")
    async with web(lambda seen: bomb) as site:
        tracemalloc.start()
        try:
            assert code(await send("http://site.test", site.port, SITE, True)) == "too_large"
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 200 << 20


@requirement("http.5")
@everyone
@pytest.mark.parametrize(
    "where", ["http://127.0.0.1:{port}/", "http://168.63.129.16/", "http://192.0.0.192/", "file:///x"]
)
async def test_a_redirect_to_an_inner_address_is_not_followed(send: Send, where: str) -> None:
    async with web(lambda seen: reply(status=302, location=where.format(port=site.port))) as site:
        assert code(await send("http://site.test", site.port, SITE, True)) in ("denied", "invalid_arguments")
        assert len(site.seen) == 1


@requirement("http.5")
@everyone
@pytest.mark.parametrize("address", INNER)
async def test_a_name_that_leads_to_an_inner_address_is_refused(send: Send, address: str) -> None:
    async with web(lambda seen: reply("ok")) as site:
        for addresses in ([address], ["93.184.216.34", address]):
            result = await send("http://site.test", site.port, names(site_test=addresses), False)
            assert code(result) == "denied"
        assert site.seen == []


@requirement("http.5")
@everyone
async def test_a_name_that_changes_its_answer_is_asked_once_for_a_connection(send: Send) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.255.255.1"]

    async with web(lambda seen: reply("ok")) as site:
        assert (await send("http://site.test", site.port, rebinding, True)).ok
        assert (asked, len(site.seen)) == (["site.test"], 1)


@requirement("http.5")
@everyone
async def test_proxies_of_the_environment_are_not_used(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    async with web(lambda seen: reply("proxy")) as proxy, web(lambda seen: reply("site")) as site:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert (await send("http://site.test", site.port, SITE, True)).ok
        assert (len(proxy.seen), len(site.seen)) == (0, 1)


def certificate_of(folder: Path, host: str) -> Path:
    """A certificate of one host, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / f"{host}.pem"
    path.write_bytes(secret + made.public_bytes(Encoding.PEM))
    return path


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


@requirement("http.5")
@everyone
async def test_certificates_are_those_of_the_environment(
    send: Send, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = certificate_of(tmp_path, "site.test")
    async with web(lambda seen: reply("ok"), server_tls(certificate)) as site:
        untrusted = await send("https://site.test", site.port, SITE, True)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = await send("https://site.test", site.port, SITE, True)
        other = await send("https://other.test", site.port, SITE, True)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
        missing = await send("https://site.test", site.port, SITE, True)
    assert trusted.ok, trusted
    assert "no certificate that can be trusted" in untrusted.text
    assert "no certificate that can be trusted" in other.text
    assert code(missing) == "unavailable"
    assert "SSL_CERT_FILE" in missing.text


@requirement("http.5")
async def test_a_kept_connection_serves_no_other_name_at_the_same_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = certificate_of(tmp_path, "site.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    lasting = reply("ok").replace(b"connection: close\r\n", b"")
    async with web(lambda seen: lasting, server_tls(certificate)) as site:
        client = Client(resolve=SITE, keep=True)
        try:
            assert (await client.send(Request.to(f"https://site.test:{site.port}/"), Anywhere())).status == 200
            with pytest.raises(ToolFailure, match="no certificate"):
                await client.send(Request.to(f"https://other.test:{site.port}/"), Anywhere())
        finally:
            await client.close()


@requirement("http.5")
@pytest.mark.parametrize(
    ("status", "method", "arrives"),
    [(301, "POST", "GET"), (302, "PUT", "PUT"), (303, "PUT", "GET"), (303, "HEAD", "HEAD"), (307, "POST", "POST")],
)
async def test_a_redirect_keeps_the_method_or_becomes_a_get(status: int, method: str, arrives: str) -> None:
    first = Request.to("http://site.test/a", method, {"Content-Type": "text/plain", "X-Key": "k"}, b"x")
    moved = first.redirected(first.joined("/b?c=d#e"), status)
    assert (moved.url, moved.method, moved.headers["X-Key"]) == ("http://site.test/b?c=d", arrives, "k")
    assert (moved.content, "Content-Type" in moved.headers) == ((None, False) if arrives != method else (b"x", True))
    away = first.redirected("http://other.test/", status)
    assert "X-Key" not in away.headers

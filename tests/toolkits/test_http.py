"""Addresses that a model chose: what is read, and what nothing on this side may be reached by."""

import asyncio
import gzip
import json
import ssl
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.requirements import requirement
from tests.toolkits.place import Seen, names, opened, reply, web
from toolcrib import BadTool, Crib
from toolcrib.toolkits import http

LOOPBACK = {"grants": {"allow": ["net:egress:127.0.0.1:*", "net:egress:site.test:*"]}}
SITE = names(site_test=["127.0.0.1"])


def pages(seen: Seen) -> bytes:
    match seen.path:
        case "/page":
            return reply(
                "<html><head><title>no</title></head><body><h1>Hi &amp; ho</h1><p>A <b>bold</b> <a href='/x'>link</a>"
                "<script>alert(1)</script></body></html>",
                content_type="text/html; charset=utf-8",
            )
        case "/json":
            return reply('{"a": [1, 2]}', content_type="application/json")
        case "/latin":
            return reply("gr\u00fcn".encode("latin-1"), content_type="text/plain; charset=iso-8859-1")
        case "/picture":
            return reply(b"\x89PNG\0\0", content_type="image/png")
        case "/gone":
            return reply("it is gone", 404)
        case _:
            return reply("0123456789" * 100)


@requirement("http.1")
async def test_a_page_is_read_as_markdown_and_other_texts_as_they_are() -> None:
    async with web(pages) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        page = (await session.call("http_fetch", {"url": f"{site.url}/page"})).data
        assert page == {
            "url": f"{site.url}/page",
            "status": 200,
            "content_type": "text/html",
            "text": f"# Hi & ho\n\nA **bold** [link]({site.url}/x)",
        }
        assert "<h1>" in (await session.call("http_fetch", {"url": f"{site.url}/page", "raw": True})).data["text"]
        assert (await session.call("http_fetch", {"url": f"{site.url}/json"})).data["text"] == '{"a": [1, 2]}'
        assert (await session.call("http_fetch", {"url": f"{site.url}/latin"})).data["text"] == "gr\u00fcn"
        assert (await session.call("http_fetch", {"url": f"{site.url}/gone"})).data["status"] == 404


@requirement("http.1")
async def test_a_long_text_is_read_piece_by_piece() -> None:
    async with web(pages) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        first = (await session.call("http_fetch", {"url": f"{site.url}/long", "max_chars": 600})).data
        assert (len(first["text"]), first["next_start"]) == (600, 600)
        rest = (await session.call("http_fetch", {"url": f"{site.url}/long", "start": 600, "max_chars": 600})).data
        assert len(rest["text"]) == 400
        assert "next_start" not in rest


@requirement("http.4")
async def test_what_is_no_text_is_not_shown() -> None:
    async with web(pages) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        failure = (await session.call("http_fetch", {"url": f"{site.url}/picture"})).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("failed", "The answer (image/png) cannot be shown as text")


@requirement("http.1")
async def test_a_request_says_what_it_is_and_asks_by_default() -> None:
    async with web(lambda seen: reply(seen.body)) as site, Crib([http.tools(ports=[site.port])]) as crib:
        tool = crib.catalog.some("http.http_request")
        assert tool is not None
        assert tool.annotations is not None
        assert (tool.does, tool.annotations.open_world, tool.annotations.destructive) == ("once", True, True)
        session = await crib.open("s", owner="ada", namespaces=["http"])
        await session.submit("http_request", {"method": "POST", "url": f"{site.url}/x", "body": "b"})
        assert [question.kind for question in await session.questions()] == ["confirm"]
        assert site.seen == []


@requirement("http.1")
async def test_a_request_sends_method_headers_and_body() -> None:
    async with web(lambda seen: reply(seen.body)) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        args = {"method": "PUT", "url": f"{site.url}/x?q=1", "headers": {"X-A": "b"}, "body": "gr\u00fcn"}
        assert (await session.call("http_request", args)).data["text"] == "gr\u00fcn"
        (seen,) = site.seen
        assert (seen.method, seen.path, seen.headers["x-a"]) == ("PUT", "/x?q=1", "b")


INSIDE = [
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://127.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://127.000.000.001:{port}/",
    "http://0:{port}/",
    "http://0.0.0.0:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://\uff11\uff12\uff17.0.0.1:{port}/",
    "http://127\u30020.0.1:{port}/",
    "http://a.localhost:{port}/",
    "http://LOCALHOST.:{port}/",
    "http://inside.test:{port}/",
    "http://mixed.test:{port}/",
    "http://mapped.test:{port}/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fe80::1]/",
    "http://[fd00:ec2::254]/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://metadata.google.internal/",
    "http://link.test/",
]


@requirement("http.2")
@pytest.mark.parametrize("url", INSIDE)
async def test_nothing_inside_is_reached_though_everything_is_granted(url: str) -> None:
    known = names(
        inside_test=["127.0.0.1"],
        mixed_test=["93.184.215.14", "127.0.0.1"],
        mapped_test=["::ffff:127.0.0.1"],
        link_test=["fe80::1%eth0"],
        localhost=["127.0.0.1"],
        a_localhost=["127.0.0.1"],
        metadata_google_internal=["169.254.169.254"],
    )
    async with web(pages) as site, opened(http.tools(ports=[site.port], resolve=known)) as session:
        failure = (await session.call("http_fetch", {"url": url.format(port=site.port)})).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("denied", "Address not allowed")
        assert site.seen == []


@requirement("http.2")
async def test_a_person_who_says_yes_to_a_name_opens_nothing_inside() -> None:
    kit_names = names(inside_test=["127.0.0.1"])
    async with web(pages) as site, Crib([http.tools(ports=[site.port], resolve=kit_names)]) as crib:
        session = await crib.open("s", owner="ada", namespaces=["http"])
        call = await session.submit("http_fetch", {"url": f"http://inside.test:{site.port}/"})
        (question,) = await session.questions()
        await session.answer(question.id, "accept", actor="ada")
        result = await session.result(call.id)
        assert str(result.failure).startswith("[denied] Address not allowed")
        assert site.seen == []


@requirement("http.2")
@pytest.mark.parametrize("grant", ["net:egress:private", "net:egress:site.test:*"])
async def test_a_grant_that_names_it_opens_what_lies_inside(grant: str) -> None:
    policy = {"grants": {"allow": ["net:egress:*", grant]}}
    async with web(pages) as site, opened(http.tools(ports=[site.port], resolve=SITE), policy) as session:
        assert (await session.call("http_fetch", {"url": f"http://site.test:{site.port}/json"})).ok
        assert site.seen[0].headers["host"] == f"site.test:{site.port}"


@requirement("http.2")
async def test_a_name_that_changes_its_answer_gains_nothing() -> None:
    """The first lookup gives a public address, every later one this machine: what was checked is what is dialled."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["198.51.99.7"] if len(asked) == 1 else ["127.0.0.1"]

    async with web(pages) as site:
        kit = http.tools(ports=[site.port], resolve=rebinding, connect_s=0.2, total_s=2)
        async with opened(kit, {"grants": {"allow": ["net:egress:rebind.test:*"]}}) as session:
            assert (await session.call("http_fetch", {"url": f"http://rebind.test:{site.port}/"})).failure is not None
        assert (asked, site.seen) == (["rebind.test"], [])


@requirement("http.2")
async def test_a_name_that_was_public_for_the_first_request_is_checked_again_for_the_redirect() -> None:
    answers = iter([["127.0.0.1"], ["127.0.0.1"], ["127.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    async with web(lambda seen: reply(status=302, location=f"http://other.test:{site.port}/secret")) as site:
        policy = {"grants": {"allow": ["net:egress:*", "net:egress:*.test:*", "net:egress:site.test:*"]}}
        async with opened(http.tools(ports=[site.port], resolve=rebinding), policy) as session:
            failure = (await session.call("http_fetch", {"url": f"http://site.test:{site.port}/"})).failure
            assert failure is not None
            assert (failure.code, failure.message) == ("denied", "Address not allowed")
            assert [seen.path for seen in site.seen] == ["/"]


@requirement("http.2", "http.3")
@pytest.mark.parametrize(
    "where",
    [
        "http://127.0.0.1:{port}/secret",
        "http://2130706433:{port}/secret",
        "//localhost:{port}/secret",
        "http://user:pw@site.test:{port}/secret",
        "http://site.test:22/secret",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/secret",
        "http://site.test:{port}\\@127.0.0.1:{port}/secret",
        "http://[::ffff:127.0.0.1]:{port}/secret",
    ],
)
async def test_a_redirect_reaches_nothing_that_was_not_granted(where: str) -> None:
    def handler(seen: Seen) -> bytes:
        return reply("secret") if seen.path == "/secret" else reply(status=302, location=where.format(port=site.port))

    policy = {"grants": {"allow": ["*", "net:egress:site.test:*"]}}
    known = names(site_test=["127.0.0.1"], localhost=["127.0.0.1"])
    async with web(handler) as site, opened(http.tools(ports=[site.port], resolve=known), policy) as session:
        result = await session.call("http_fetch", {"url": f"http://site.test:{site.port}/"})
        assert result.failure is not None
        assert result.failure.code in ("denied", "invalid_arguments")
        assert [seen.path for seen in site.seen] == ["/"]


@requirement("http.3")
async def test_a_redirect_to_a_host_that_has_to_be_asked_for_is_refused_and_says_where() -> None:
    answer = reply(status=301, location="https://elsewhere.test/x")
    async with web(lambda seen: answer) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        failure = (await session.call("http_fetch", {"url": site.url})).failure
        assert failure is not None
        assert failure.code == "denied"
        assert "https://elsewhere.test/x" in str(failure.hint)


@requirement("http.3")
async def test_three_redirects_are_followed_and_no_more() -> None:
    def handler(seen: Seen) -> bytes:
        left = int(seen.path[1:])
        return reply("here") if not left else reply(status=302, location=f"/{left - 1}")

    async with web(handler) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        assert (await session.call("http_fetch", {"url": f"{site.url}/3"})).data["url"] == f"{site.url}/0"
        failure = (await session.call("http_fetch", {"url": f"{site.url}/4"})).failure
        assert "more than 3 redirects" in str(failure)


@requirement("http.3")
@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/", "invalid_arguments"),
        ("ws://example.com/", "invalid_arguments"),
        ("file:///etc/passwd", "invalid_arguments"),
        ("javascript:alert(1)", "invalid_arguments"),
        ("http://ada:secret-word@example.com/", "denied"),
        ("http://example.com:22/", "denied"),
        ("http://example.com:0/", "invalid_arguments"),
        ("http://example.com\r\nX: y/", "invalid_arguments"),
        ("http://a b/", "invalid_arguments"),
        ("http://example.com\\@127.0.0.1/", "invalid_arguments"),
        ("http:///x", "invalid_arguments"),
        ("//example.com", "invalid_arguments"),
    ],
)
async def test_what_is_no_plain_web_address_is_refused(url: str, code: str) -> None:
    async with opened(http.tools(resolve=names())) as session:
        failure = (await session.call("http_fetch", {"url": url})).failure
        assert failure is not None
        assert failure.code == code
        assert "secret-word" not in str(failure)


@requirement("http.3")
async def test_configured_headers_go_to_their_host_alone_and_are_never_shown() -> None:
    def handler(seen: Seen) -> bytes:
        if seen.path == "/away":
            return reply(status=302, location=f"http://other.test:{site.port}/echo")
        return reply(json.dumps(dict(seen.headers)))

    async with web(handler) as site:
        kit = http.tools(
            ports=[site.port],
            headers={f"http://site.test:{site.port}": {"Authorization": "Bearer tok-very-secret"}},
            resolve=names(site_test=["127.0.0.1"], other_test=["127.0.0.1"]),
        )
        policy = {"grants": {"allow": ["net:egress:site.test:*", "net:egress:other.test:*"]}}
        async with opened(kit, policy) as session:
            echo = await session.call("http_fetch", {"url": f"http://site.test:{site.port}/echo"})
            assert site.seen[0].headers["authorization"] == "Bearer tok-very-secret"
            assert "tok-very-secret" not in echo.text
            args = {"method": "GET", "url": f"http://site.test:{site.port}/away", "headers": {"X-Key": "mine"}}
            assert (await session.call("http_request", args)).ok
            assert [seen.headers.get("authorization") for seen in site.seen[1:]] == ["Bearer tok-very-secret", None]
            assert [seen.headers.get("x-key") for seen in site.seen[1:]] == ["mine", None]
            events = [event async for event in session.events(follow=False)]
            assert "tok-very-secret" not in repr(events)


@requirement("http.3")
@pytest.mark.parametrize("name", ["Authorization", "cookie", "Proxy-Authorization", "Host", "Content-Length", "X\r\nY"])
async def test_a_model_sets_no_header_that_is_not_its_own(name: str) -> None:
    async with web(pages) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        args = {"method": "GET", "url": site.url, "headers": {name: "x"}}
        assert (await session.call("http_request", args)).failure is not None
        assert (await session.call("http_request", {**args, "headers": {"X-A": "b\r\nc: d"}})).failure is not None
        assert site.seen == []


@requirement("http.3")
async def test_no_cookie_is_kept_and_no_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    answer = reply("x", set_cookie="a=b")
    async with web(lambda seen: answer) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        for _ in range(2):
            assert (await session.call("http_fetch", {"url": site.url})).ok
        assert not any("cookie" in seen.headers for seen in site.seen)


@requirement("http.4")
@pytest.mark.parametrize("packed", ["no", "gzip", "deflate"])
async def test_more_than_two_megabytes_are_never_held(packed: str) -> None:
    large = b"a" * (64 * 1024 * 1024 if packed != "no" else 3 * 1024 * 1024)
    body = large if packed == "no" else gzip.compress(large, 1) if packed == "gzip" else zlib.compress(large, 1)
    answer = reply(body, content_encoding="identity" if packed == "no" else packed)
    async with web(lambda seen: answer) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        failure = (await session.call("http_fetch", {"url": site.url})).failure
        assert failure is not None
        assert failure.code == "too_large"


@requirement("http.4")
async def test_a_server_that_never_ends_its_answer_is_left() -> None:
    async def slowly(seen: Seen) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async with web(slowly) as site, opened(http.tools(ports=[site.port], total_s=0.3), LOOPBACK) as session:
        read = (await session.call("http_fetch", {"url": site.url})).failure
        assert read is not None
        assert read.code == "timeout"
        sent = (await session.call("http_request", {"method": "POST", "url": site.url, "body": "x"})).failure
        assert sent is not None
        assert (sent.code, sent.retryable) == ("unknown", False)
        assert "may have been carried out" in sent.message


@requirement("http.4")
async def test_an_encoding_that_was_not_asked_for_is_not_unpacked() -> None:
    answer = reply(b"xx", content_encoding="br")
    async with web(lambda seen: answer) as site, opened(http.tools(ports=[site.port]), LOOPBACK) as session:
        failure = (await session.call("http_fetch", {"url": site.url})).failure
        assert failure is not None
        assert failure.code == "failed"
        assert site.seen[0].headers["accept-encoding"] == "gzip, deflate"


@requirement("http.4")
@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"allow_hosts": ["site.test"]}, True),
        ({"allow_hosts": ["*.test"]}, True),
        ({"allow_hosts": ["example.com"]}, False),
        ({"allow_hosts": []}, False),
        ({"deny_hosts": ["SITE.test."]}, False),
        ({"deny_hosts": ["*.test"]}, False),
        ({"deny_hosts": ["te.test"]}, True),
    ],
)
async def test_hosts_can_be_allowed_and_denied(settings: dict[str, Any], allowed: bool) -> None:
    async with web(pages) as site, opened(http.tools(ports=[site.port], resolve=SITE, **settings), LOOPBACK) as session:
        assert (await session.call("http_fetch", {"url": f"http://site.test:{site.port}/json"})).ok is allowed
        assert len(site.seen) == allowed


@requirement("http.4")
async def test_each_host_has_to_be_granted() -> None:
    async with opened(http.tools(), {"grants": {"allow": ["net:egress:example.com"]}}) as session:
        failure = (await session.call("http_fetch", {"url": "https://example.org/"})).failure
        assert failure is not None
        assert failure.code == "denied"
        assert "net:egress:https://example.org:443 is not granted" in failure.message


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for site.test that nobody has signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "site.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("site.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "site.pem").write_bytes(secret + made.public_bytes(Encoding.PEM))
    return tmp_path / "site.pem"


@requirement("http.2")
async def test_a_certificate_is_checked_for_the_name_though_a_number_is_dialled(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate)
    policy = {"grants": {"allow": ["net:egress:site.test:*", "net:egress:other.test:*"]}}
    known = names(site_test=["127.0.0.1"], other_test=["127.0.0.1"])
    async with web(pages, serving) as site, opened(http.tools(ports=[site.port], resolve=known), policy) as session:

        async def fetched(host: str) -> Any:
            return await session.call("http_fetch", {"url": f"https://{host}:{site.port}/json"})

        assert "no certificate that can be trusted" in (await fetched("site.test")).text
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert (await fetched("site.test")).data["status"] == 200
        assert "no certificate that can be trusted" in (await fetched("other.test")).text


async def test_settings_that_mean_nothing_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"allow_hosts": ["a/b"]}, {"headers": {"*": {"A": "b"}}}, {"headers": {"*.x": {}}}]
    for settings in wrong:
        with pytest.raises(BadTool):
            http.tools(**settings)


async def test_a_host_that_nobody_knows_or_that_is_not_there_is_unavailable() -> None:
    async with web(pages) as site:
        port = site.port
    async with opened(http.tools(ports=[port], resolve=names()), LOOPBACK) as session:
        there = (await session.call("http_fetch", {"url": f"http://127.0.0.1:{port}/"})).failure
        known = (await session.call("http_fetch", {"url": f"http://site.test:{port}/"})).failure
        assert there is not None
        assert known is not None
        assert (there.code, known.code) == ("unavailable", "unavailable")

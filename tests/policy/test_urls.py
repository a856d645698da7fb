"""policy.match.url and policy.match.net: where a URL leads, and which targets a grant covers."""

import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy import hosts, urls
from toolcrib.policy.errors import BadRule, UnfitArgument

CASES = case_data("policy/urls.json")
GRANTS = case_data("policy/url_grants.json")


@requirement("policy.match.url")
@pytest.mark.parametrize("case", CASES, ids=[ascii(case["url"]) for case in CASES])
def test_urls_lead_where_the_shared_cases_say(case: dict[str, Any]) -> None:
    if case.get("error"):
        with pytest.raises(UnfitArgument):
            urls.canonical(case["url"])
    else:
        target = urls.canonical(case["url"])
        assert (f"net:egress:{target.text}", target.private) == (case["capability"], case["private"])


@requirement("policy.match.net")
@pytest.mark.parametrize("case", GRANTS, ids=[f"{case['grant']!a}-{case['url']!a}" for case in GRANTS])
def test_grants_cover_what_the_shared_cases_say(case: dict[str, Any]) -> None:
    covers = urls.grant(case["grant"].removeprefix("net:egress:"))
    assert covers(urls.canonical(case["url"])) is case["match"]


@requirement("policy.match.url")
@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://shop.example", "https://shop.example:443"),
        ("http://shop.example/a?b#c", "http://shop.example:80"),
        ("WS://Shop.Example./", "ws://shop.example:80"),
        ("ftp://shop.example", "ftp://shop.example:21"),
        ("https://shop.example:/", "https://shop.example:443"),
        ("https://ada:secret@shop.example:8443/", "https://shop.example:8443"),
        ("https://shop.example@evil.test/", "https://evil.test:443"),
        ("https://shop.example:80@evil.test/", "https://evil.test:443"),
        ("https://shop.example#@evil.test/", "https://shop.example:443"),
        ("https://shop.example/@evil.test/", "https://shop.example:443"),
        ("https://a_b.example", "https://a_b.example:443"),
        ("https://MÜNCHEN.example", "https://xn--mnchen-3ya.example:443"),
        ("https://mu\u0308nchen.example", "https://xn--mnchen-3ya.example:443"),
        ("https://XN--MNCHEN-3YA.example", "https://xn--mnchen-3ya.example:443"),
        ("https://shop。example", "https://shop.example:443"),
        ("https://\uff53\uff48\uff4f\uff50.example", "https://shop.example:443"),
        ("https://sh\u043ep.example", "https://xn--shp-ted.example:443"),  # a Cyrillic o is another host
        ("http://3232235777/", "http://192.168.1.1:80"),
        ("http://0xC0.0250.257/", "http://192.168.1.1:80"),
        ("http://\uff11\uff12\uff17.1/", "http://127.0.0.1:80"),
        ("http://10.1/", "http://10.0.0.1:80"),
        ("http://0/", "http://0.0.0.0:80"),
        ("http://8.8.8.8./", "http://8.8.8.8:80"),
        ("http://[::FFFF:a00:1]/", "http://10.0.0.1:80"),
        ("http://[2001:DB8:0::0:1]:8080/", "http://[2001:db8::1]:8080"),
    ],
)
def test_a_url_leads_here(url: str, text: str) -> None:
    target = urls.canonical(url)
    assert target.text == text
    assert urls.canonical(text) == target


@requirement("policy.match.url")
@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "shop.example", "//shop.example", "/path", "https:shop.example", "https:/shop.example", "https://"),
        *("https:///x", "https://:80/", "https://@/", "https://?x", "https://.", "https://a..b", "https://.a"),
        *("file:///etc/passwd", "javascript:alert(1)", "data:,x", "gopher://x.example", "https+x://a.example"),
        *("https://a b.example", "https://a.example/x y", " https://a.example", "https://a.example\n", "ht\ttps://a.b"),
        *("https://a.example/\x00", "https://a.example/\x7f", "https://a.example/\u00a0", "https://a.example/\u2028"),
        *("https://a\\b.example", "https://a.example\\@b.example", "https:\\\\a.example", "https://a.example/\\x"),
        *(
            "https://a@b@c.example",
            "https://[@c.example",
            "https://a%2eb.example",
            "https://%61.example",
            "https://a.example%00.b",
        ),
        *("https://a.example:0", "https://a.example:65536", "https://a.example:-1", "https://a.example:\uff18\uff10"),
        *("https://a.example:80:80", "https://a.example:x", "https://a.example:0x50", "https://a.example:000080"),
        *("http://1.2.3.4.5", "http://256.1.1.1", "http://1.2.3.08", "http://4294967296", "http://1..2", "http://a.1"),
        *("http://[::1", "http://::1", "http://[::1%25lo]", "http://[1.2.3.4]", "http://[::1]x", "http://[a]"),
        *(
            "https://straße.example",
            "https://xn--shop-.example",
            "https://a\u200bb.example",
            "https://a\u00adb.example",
        ),
        *("https://a\u2100b.example", "https://a\u2024b.example", "https://-a.example", "https://a*.example"),
        *("https://" + "a" * 64 + ".example", "https://" + "a." * 130 + "example", "https://" + "ü" * 300 + ".example"),
        *("https://\ud800.example", "https://a.example/\udc80"),
    ],
)
def test_what_is_no_clear_url_is_unfit(url: str) -> None:
    with pytest.raises(UnfitArgument):
        urls.canonical(url)


@requirement("policy.match.net")
@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1"),
        *("168.63.129.16", "192.0.0.192", "192.0.0.9", "100.100.100.200"),
        *("0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
        *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]", "[::7f00:1]", "[64:ff9b::a00:1]"),
        *("[64:ff9b:1::1]", "[2002:a00:1::]", "[2001:db8::1]", "[2001:0:1::1]", "[::ffff:10.0.0.1]"),
        *("localhost", "LOCALHOST.", "a.localhost", "printer.local", "metadata.google.internal", "internal"),
    ],
)
def test_private_targets_need_their_own_name_or_the_word(host: str) -> None:
    target = urls.canonical(f"https://{host}/")
    assert target.private
    covering = [pattern for pattern in ("*", "*:*", "https://*", "private", host) if urls.grant(pattern)(target)]
    assert covering == ["private", host]
    assert urls.grant("*").widely(target)


@requirement("policy.match.net")
@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700::1]", "[64:ff9b::808:808]", "shop.example", "mylocal.example"])
def test_public_targets_are_not_private(host: str) -> None:
    target = urls.canonical(f"https://{host}/")
    assert not target.private
    assert [pattern for pattern in ("*", "private", host) if urls.grant(pattern)(target)] == ["*", host]


@requirement("policy.match.net")
@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (
            "shop.example",
            ["http://shop.example", "https://shop.example", "ws://shop.example", "wss://SHOP.example."],
            ["https://shop.example:8443", "ftp://shop.example", "https://a.shop.example", "http://shop.example:443"],
        ),
        ("shop.example:8443", ["https://shop.example:8443", "ws://shop.example:8443"], ["https://shop.example"]),
        ("shop.example:*", ["https://shop.example:1", "ftp://shop.example"], ["https://x.example"]),
        ("https://shop.example", ["https://shop.example"], ["http://shop.example", "https://shop.example:444"]),
        ("https://shop.example:444", ["https://shop.example:444"], ["https://shop.example", "wss://shop.example:444"]),
        ("HTTPS://Shop.Example/", ["https://shop.example/x"], ["http://shop.example"]),
        (
            "*.shop.example",
            ["https://a.shop.example", "http://a.b.shop.example"],
            ["https://shop.example", "https://ashop.example", "https://a.shop.example:444", "https://a.shop.example.x"],
        ),
        ("https://*.shop.example:*", ["https://a.shop.example:9"], ["http://a.shop.example"]),
        ("*.münchen.example", ["https://a.xn--mnchen-3ya.example"], ["https://a.munchen.example"]),
        ("*", ["https://shop.example:9", "ftp://shop.example"], ["http://localhost"]),
        ("*.internal", [], ["http://a.internal", "http://a.b.internal"]),
        ("db.internal:5432", ["https://db.internal:5432"], ["https://db.internal", "https://x.db.internal:5432"]),
        ("::1", ["http://[::1]/", "https://[0::1]/"], ["http://[::2]/"]),
        ("[::1]:99", ["http://[::1]:99/"], ["http://[::1]/"]),
        ("0x7f.1", ["http://127.0.0.1", "http://2130706433"], ["http://127.0.0.2"]),
        ("private", ["http://localhost:3000", "ws://10.0.0.1:1"], ["https://shop.example"]),
    ],
)
def test_a_grant_covers_these_targets(pattern: str, yes: list[str], no: list[str]) -> None:
    covers = urls.grant(pattern)
    assert [url for url in yes if not covers(urls.canonical(url))] == []
    assert [url for url in no if covers(urls.canonical(url))] == []


@requirement("policy.match.net")
@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "*x.example",
            "a.*.example",
            "**",
            "*.*",
            "*.",
            "a*",
            "10.0.0.0/8",
            "https://a.example/path",
            "a.example?x",
        ),
        *("ada@a.example", "a.example:0", "a.example:99999", "a.example:", "a.example:8*", "file://a.example", "a b"),
        *("a\\b", "*.127.0.0.1", "*.[::1]", "https://", "a#b"),
    ],
)
def test_a_grant_that_means_nothing_does_not_load(pattern: str) -> None:
    with pytest.raises(BadRule):
        urls.grant(pattern)


@requirement("policy.match.net")
def test_a_bare_host_in_a_request_means_https() -> None:
    assert urls.requested("shop.example").text == "https://shop.example:443"
    assert urls.requested("shop.example:8443").text == "https://shop.example:8443"
    assert urls.requested("http://shop.example").text == "http://shop.example:80"
    for resource in ("shop.example/x", "ada@shop.example", "*", "a:*", "a b", ""):
        with pytest.raises(UnfitArgument):
            urls.requested(resource)


PIECES = st.sampled_from(
    [
        *("https://", "http://", "HTTP://", "//", ":", "@", "/", "?", "#", "\\", "%2e", ".", "。", "[", "]", "\t", " "),
        *("shop.example", "evil.test", "127.1", "0x7f", "017", "1", "0", "::1", "::ffff:7f00:1", "localhost", "8080"),
        *("a", "ü", "ß", "xn--", "xn--mnchen-3ya", "\uff11", "-", "_", "*", "0" * 20),
    ]
)


@requirement("policy.match.url")
@given(st.lists(PIECES, max_size=8).map("".join), st.booleans())
def test_no_url_leads_elsewhere_than_common_readers_go(rest: str, given_scheme: bool) -> None:
    url = "http://" + rest if given_scheme else rest
    try:
        target = urls.canonical(url)
    except UnfitArgument:
        return
    assert urls.canonical(target.text) == target
    split = urlsplit(url)
    assert split.hostname is not None
    literal = split.hostname if ":" not in split.hostname else f"[{split.hostname}]"
    assert hosts.canonical(literal) == target.host
    assert (split.port or urls.PORTS[target.scheme]) == target.port
    _agrees_with_the_system(split.hostname.rstrip("."), target)


def _agrees_with_the_system(host: str, target: urls.UrlTarget) -> None:
    try:
        address = socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return
    assert target.host == address
    if ipaddress.ip_address(address).is_private:
        assert not urls.grant("*")(target)


@requirement("policy.match.net")
@given(st.integers(0, 2**128 - 1) | st.integers(0, 2**32 - 1).map(lambda low: 0xFFFF << 32 | low))
def test_an_address_is_private_however_it_is_written(number: int) -> None:
    address = ipaddress.IPv6Address(number)
    short, long = (urls.canonical(f"http://[{text}]/") for text in (str(address), address.exploded))
    assert short == long
    if not address.is_global and address.ipv4_mapped is None:
        assert short.private


@requirement("policy.match.url")
@given(st.text(max_size=12), st.text("abü.1-_", max_size=6))
def test_a_host_is_ascii_or_refused(before: str, after: str) -> None:
    try:
        found = hosts.canonical(before + after)
    except UnfitArgument:
        return
    assert found.isascii()
    assert found == found.lower()
    assume(not found.startswith("["))
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert hosts.canonical(found) == found


@requirement("policy.match.url")
@given(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
def test_old_and_new_rules_for_international_names_agree_on_what_is_taken(char: str) -> None:
    new = pytest.importorskip("idna")
    name = f"a{char}b"
    try:
        found = hosts.canonical(name)
    except UnfitArgument:
        return
    for encode in (lambda: name.encode("idna").decode(), lambda: new.encode(name, uts46=True).decode()):
        try:
            other = encode()
        except UnicodeError:
            continue
        assert other == found

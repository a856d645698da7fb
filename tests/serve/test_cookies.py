"""The cookie of a page: whose key stands in it, and for how long."""

from __future__ import annotations

import time

import pytest
from cryptography.fernet import Fernet

from toolcrib.serve.cookies import LASTS_S, Cookies, guarded

HERE = {b"host": b"localhost:8000"}


def sent(header: tuple[bytes, bytes], **more: bytes) -> dict[bytes, bytes]:
    """The headers of a browser that was given a cookie."""
    return {**HERE, b"cookie": header[1].partition(b";")[0]}


def test_a_key_comes_back_out_of_its_cookie_as_often_as_it_is_sent() -> None:
    cookies = Cookies(b"secret")
    header = cookies.header("tc_1", HERE, secure=False)
    for _ in range(2):
        assert cookies.key(sent(header)) == b"tc_1"
    assert Cookies(b"secret").key(sent(header)) == b"tc_1"
    assert Cookies(b"other").key(sent(header)) is None


def test_a_cookie_says_how_it_is_to_be_kept() -> None:
    cookies = Cookies(b"secret")
    name, value = cookies.header("tc_1", HERE, secure=True)
    assert name == b"set-cookie"
    assert value.startswith(b"toolcrib-8000=")
    assert value.endswith(b"; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict; Secure" % LASTS_S)
    plain = cookies.gone(HERE, secure=False)[1]
    assert plain == b"toolcrib-8000=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    assert cookies.key(sent((b"set-cookie", plain))) is None


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (b"localhost:8000", b"toolcrib-8000"),
        (b"crib.example", b"toolcrib"),
        (b"[::1]:9", b"toolcrib-9"),
        (b"", b"toolcrib"),
    ],
)
def test_each_port_of_a_host_has_a_cookie_of_its_own(host: bytes, name: bytes) -> None:
    cookies = Cookies(b"secret")
    header = cookies.header("tc_1", {b"host": host}, secure=False)
    assert header[1].startswith(name + b"=")
    cookie = header[1].partition(b";")[0]
    assert cookies.key({b"host": host, b"cookie": b"a=1; " + cookie + b"; b=2"}) == b"tc_1"
    assert cookies.key({b"host": b"localhost:1", b"cookie": cookie}) is None


def test_a_key_that_is_sent_itself_counts_before_the_cookie() -> None:
    cookies = Cookies(b"secret")
    headers = sent(cookies.header("tc_1", HERE, secure=False))
    assert cookies.key({**headers, b"authorization": b"Bearer tc_2"}) is None
    assert cookies.key(HERE) is None
    assert cookies.key({**HERE, b"cookie": b"other=1"}) is None


@pytest.mark.parametrize("age", [LASTS_S + 2, LASTS_S * 2])
def test_a_cookie_that_is_too_old_opens_nothing(age: int) -> None:
    cookies = Cookies(b"secret")
    old = Fernet(cookies._secret).encrypt_at_time(b"tc_1", int(time.time()) - age)
    fresh = Fernet(cookies._secret).encrypt_at_time(b"tc_1", int(time.time()) - LASTS_S + 60)
    assert cookies.key({**HERE, b"cookie": b"toolcrib-8000=" + old}) is None
    assert cookies.key({**HERE, b"cookie": b"toolcrib-8000=" + fresh}) == b"tc_1"


def test_who_changes_something_with_a_cookie_sends_a_header_that_no_other_page_can() -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        assert guarded(method, {})
    for method in ("POST", "PUT", "DELETE"):
        assert not guarded(method, {})
        assert guarded(method, {b"x-toolcrib": b"1"})


def test_no_more_cookies_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.serve.cookies.MOST_KNOWN", 2)
    cookies = Cookies(b"secret")
    for number in range(5):
        assert cookies.key(sent(cookies.header(f"tc_{number}", HERE, secure=False))) == b"tc_%d" % number
        assert len(cookies._known) == number % 2 + 1

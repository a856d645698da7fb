"""Which hosts and origins are let in: those that are named, and no name that only begins like one."""

import pytest

from tests.requirements import requirement
from toolcrib.serve.origins import Origins


def admits(host: str | None = "crib.example", origin: str | None = None, *origins: str) -> bool:
    given = {b"host": host, b"origin": origin}
    headers = {name: value.encode("latin-1") for name, value in given.items() if value is not None}
    return Origins(["crib.example"], origins).admits(headers)


@requirement("mcp.server.3")
@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("crib.example", True),
        ("CRIB.example:8080", True),
        ("crib.example:80@evil.example", False),
        ("crib.example:", False),
        ("crib.example:x", False),
        ("crib.example:²", False),
        ("crib.example.evil.example", False),
        ("evil.example", False),
        ("", False),
        (None, False),
    ],
)
def test_a_host_is_let_in_by_its_whole_name_with_any_port(host: str | None, admitted: bool) -> None:
    assert admits(host) is admitted


@requirement("mcp.server.3")
@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        (None, True),
        ("https://crib.example", True),
        ("http://crib.example:8080", True),
        ("https://page.example", True),
        ("https://page.example:81", False),
        ("http://page.example", False),
        ("ftp://crib.example", False),
        ("crib.example", False),
        ("null", False),
        ("https://evil.example", False),
        ("https://crib.example:80@evil.example", False),
    ],
)
def test_an_origin_is_let_in_where_it_is_named_or_is_the_server_itself(origin: str | None, admitted: bool) -> None:
    assert admits("crib.example", origin, "https://page.example") is admitted


@requirement("mcp.server.3")
def test_a_star_lets_in_all_of_its_kind_and_nothing_else() -> None:
    assert admits("crib.example", "https://evil.example", "*")
    assert not admits("evil.example", "https://crib.example", "*")
    anywhere = Origins(["*"], [])
    assert anywhere.admits({b"host": b"evil.example"})
    assert not anywhere.admits({b"host": b"evil.example", b"origin": b"https://page.example"})

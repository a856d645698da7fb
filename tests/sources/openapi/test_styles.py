"""Round trips: what a service reads by the rules of a style is what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.sources.openapi.service import Service
from toolcrib.http import Request
from toolcrib.policy import urls
from toolcrib.sources.openapi.connections import Connections
from toolcrib.sources.openapi.styles import Parameter, in_cookie, in_header, in_path, in_query

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
FILLED = TEXT.filter(bool)
LISTS = st.lists(FILLED, min_size=1, max_size=4)
OBJECTS = st.dictionaries(FILLED, FILLED, min_size=1, max_size=4)
OFTEN = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
Sent = Callable[[str, str, dict[str, str]], Any]


@pytest.fixture(scope="module")
def sent(running: Service) -> Iterator[Sent]:
    """Sends a path, a query and headers, and gives what arrived."""
    with asyncio.Runner() as runner:
        connections = Connections()
        connections.inner_hosts.add("127.0.0.1")
        port = urlsplit(running.url).port
        assert port is not None
        target = urls.UrlTarget("http", "127.0.0.1", port, True)

        def send(path: str, query: str, headers: dict[str, str]) -> Any:
            url = f"{target.text}{path}?{query}"
            runner.run(connections.send(Request(url, target, headers=headers)))
            return running.last

        yield send
        runner.run(connections.close())


def unpaired(pieces: list[str]) -> dict[str, str]:
    """Keys and values in turn."""
    return {unquote(key): unquote(value) for key, value in zip(pieces[::2], pieces[1::2], strict=True)}


def pairs(pieces: list[str]) -> dict[str, str]:
    return {unquote(key): unquote(value) for key, _, value in (one.partition("=") for one in pieces)}


def read_path(style: str, explode: bool, kind: type, text: str) -> Any:
    """A value as a service reads it from a segment of a path."""
    if style == "matrix":
        pieces = [one.partition("=") for one in text[1:].split(";")]
        if explode and kind is dict:
            return {unquote(key): unquote(value) for key, _, value in pieces}
        values = [value for _, _, value in pieces]
        values = values if explode else values[0].split(",")
    else:
        values = (text[1:] if style == "label" else text).split("." if style == "label" and explode else ",")
    if kind is dict:
        return pairs(values) if explode else unpaired(values)
    return [unquote(one) for one in values] if kind is list else unquote(values[0])


@pytest.mark.parametrize("style", ["simple", "label", "matrix"])
@pytest.mark.parametrize("explode", [True, False])
@OFTEN
@given(value=LISTS | OBJECTS | FILLED)
@example(value="../..")
@example(value=["a,b", ";c=d", "e/f"])
def test_a_path_says_what_was_sent(style: str, explode: bool, sent: Sent, value: Any) -> None:
    if style == "label" and explode and "." in str(value):
        return  # the style has no way to write a dot
    made = in_path(Parameter("a", "a", "path", style, explode), value)
    seen = sent(f"/echo/x{made}/end", "", {})
    head, _, rest = seen.path.removeprefix("/echo/x").partition("/")
    assert rest == "end"
    assert read_path(style, explode, type(value), head) == value


def read_query(style: str, explode: bool, kind: type, query: str) -> Any:
    found = [one.partition("=")[::2] for one in query.split("&")]
    if style == "deepObject" and kind is dict:
        return {unquote(name.removeprefix("a[").removesuffix("]")): unquote(value) for name, value in found}
    if explode and kind is dict:
        return {unquote(name): unquote(value) for name, value in found}
    if explode:
        values = [value for _, value in found]
    else:
        values = found[0][1].split({"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, ","))
    if kind is dict:
        return unpaired(values)
    return [unquote(one) for one in values] if kind is list else unquote(values[0])


@pytest.mark.parametrize(
    ("style", "explode"),
    [("form", True), ("form", False), ("deepObject", True), ("spaceDelimited", False), ("pipeDelimited", False)],
)
@pytest.mark.parametrize("reserved", [False, True])
@OFTEN
@given(value=LISTS | OBJECTS | FILLED)
@example(value={"a&b": "c=d", "e[f]": "#"})
def test_a_query_says_what_was_sent(style: str, explode: bool, reserved: bool, sent: Sent, value: Any) -> None:
    if style in ("spaceDelimited", "pipeDelimited") and any(mark in str(value) for mark in " |"):
        return  # these styles have no way to write their own separator
    if reserved and style == "form" and not explode and "," in str(value) and isinstance(value, str):
        return  # left as it is, a comma in a text is one
    made = "&".join(in_query(Parameter("a", "a", "query", style, explode, reserved), value))
    seen = sent("/echo", f"{made}&last=1", {})
    query, _, last = seen.query.rpartition("&")
    assert last == "last=1"
    assert read_query(style, explode, type(value), query) == value


PLAIN = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=",="), min_size=1, max_size=8)


@pytest.mark.parametrize("explode", [True, False])
@OFTEN
@given(value=st.lists(PLAIN, min_size=1, max_size=4) | st.dictionaries(PLAIN, PLAIN, min_size=1, max_size=4) | PLAIN)
def test_a_header_says_what_was_sent(explode: bool, sent: Sent, value: Any) -> None:
    seen = sent("/echo", "", {"X-A": in_header(Parameter("a", "X-A", "header", "simple", explode), value)})
    values = seen.headers["x-a"].split(",")
    if isinstance(value, dict):
        found = (one.partition("=")[::2] for one in values) if explode else zip(values[::2], values[1::2], strict=True)
        assert dict(found) == value
    else:
        assert (values if isinstance(value, list) else values[0]) == value


@OFTEN
@given(value=LISTS | FILLED)
def test_a_cookie_says_what_was_sent(sent: Sent, value: Any) -> None:
    seen = sent("/echo", "", {"Cookie": in_cookie(Parameter("a", "a", "cookie"), value)})
    values = [unquote(one) for one in seen.headers["cookie"].removeprefix("a=").split(",")]
    assert (values if isinstance(value, list) else values[0]) == value

"""What a request says and would do nothing is refused: fields that there are none of, bodies that nobody reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec import inspect

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from tests.serve.tools import TOOLS
from tests.shared import nonempty
from toolcrib import Crib
from toolcrib.serve.api.router import Route
from toolcrib.serve.api.routes import ROUTES

OF_STRANGERS = "/v1/accounts/callback"
"""What comes by this has fields that others define."""
OWN = [route for route in ROUTES if route.path.startswith("/v1") and route.path != OF_STRANGERS]


@pytest.fixture
async def served() -> AsyncIterator[Desk]:
    async with desk(Crib(TOOLS)) as made:
        yield made


def structs(kind: Any) -> Iterator[inspect.StructType]:
    """The structs that something is made of."""
    if isinstance(kind, inspect.StructType):
        yield kind
        for field in kind.fields:
            yield from structs(field.type)
    inner = getattr(kind, "types", None) or (getattr(kind, "item_type", None), getattr(kind, "value_type", None))
    for one in inner:
        if one is not None:
            yield from structs(one)


@requirement("findings.words.9")
@pytest.mark.parametrize("route", nonempty(OWN), ids=lambda route: f"{route.method} {route.path}")
def test_no_route_takes_fields_that_there_are_none_of(route: Route) -> None:
    taken = [inspect.type_info(kind) for kind in (route.query, route.body) if kind is not None]
    assert [one.cls for kind in taken for one in structs(kind) if not one.forbid_unknown_fields] == []


@requirement("findings.words.9")
@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/calls?statuss=failed", None, "statuss"),
        ("GET", "/sessions/{s}/calls?state=faild", None, "faild"),
        ("GET", "/calls?limit=1&limit=2", None, "twice"),
        ("GET", "/findings?code=NO_TOOL", None, "takes no query"),
        ("POST", "/sessions", {"namespacs": ["shop"]}, "namespacs"),
        ("POST", "/sessions/{s}/calls", {"tool": "add", "args": {}, "timeout": 5}, "timeout"),
        ("POST", "/signout", {"everywhere": True}, "takes no body"),
        ("DELETE", "/sessions/{s}", {"reason": "over"}, "takes no body"),
        ("DELETE", "/sessions/{s}", "over", "takes no body"),
    ],
)
async def test_what_would_do_nothing_is_refused(served: Desk, method: str, path: str, body: Any, expected: str) -> None:
    await served.open("s")
    answer = await served.ask(method, path.replace("{s}", "s"), body)
    assert answer.status_code == 400, answer.text
    assert expected in answer.json()["error"]["message"]


@requirement("findings.words.9")
async def test_an_empty_body_says_nothing_and_is_taken_where_there_is_none(served: Desk) -> None:
    await served.open("s")
    for content in (b"", b" {} ", b"null"):
        assert (await served.ask("POST", "/signout", content=content)).status_code < 300
    assert (await served.ask("DELETE", "/sessions/s", {})).status_code < 300

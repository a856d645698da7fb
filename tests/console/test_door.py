"""The page as it is served: its policy, its weight, how it is kept by browsers."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from toolcrib.console import PAGE, console

SMALL = 200 * 1024


@pytest.fixture
async def door() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(console()), base_url="http://crib") as http:
        yield http


async def test_the_page_lets_nothing_in_from_elsewhere(door: httpx.AsyncClient) -> None:
    answer = await door.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "://" not in answer.text.replace("http://www.w3.org", "")


async def test_all_of_it_is_small(door: httpx.AsyncClient) -> None:
    files = [path for path in PAGE.rglob("*") if path.is_file()]
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in files) < SMALL


async def test_assets_are_kept_forever_and_the_page_is_asked_for_again(door: httpx.AsyncClient) -> None:
    page = await door.get("/")
    assert page.headers["cache-control"] == "no-cache"
    again = await door.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    asset = next(path for path in PAGE.rglob("*.js"))
    served = await door.get(f"/{asset.relative_to(PAGE).as_posix()}")
    assert "immutable" in served.headers["cache-control"]
    assert served.headers["content-encoding"] == "gzip"
    assert served.content == asset.read_bytes()


async def test_a_browser_without_gzip_gets_it_plain(door: httpx.AsyncClient) -> None:
    asset = next(path for path in PAGE.rglob("*.js"))
    served = await door.get(f"/{asset.relative_to(PAGE).as_posix()}", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in served.headers
    assert served.content == asset.read_bytes()


@pytest.mark.parametrize("path", ["/nothing", "/../__init__.py", "/assets/../../__init__.py", "/%2e%2e/__init__.py"])
async def test_there_is_nothing_else(door: httpx.AsyncClient, path: str) -> None:
    assert (await door.get(path)).status_code == 404


async def test_it_is_only_looked_at(door: httpx.AsyncClient) -> None:
    assert (await door.post("/")).status_code == 405
    head = await door.head("/")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0

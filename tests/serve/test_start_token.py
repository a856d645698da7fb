"""A server without keys: its start token, and which pages of a browser it lets in."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.requirements import requirement
from tests.serve.place import Place, serving
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.client import RemoteCrib
from toolcrib.client.local import published_token, start_token
from toolcrib.errors import Refused
from toolcrib.serve.asgi import Receive, Scope, Send, reply
from toolcrib.serve.mcp.signed_state import kept_secret
from toolcrib.serve.origins import Origins
from toolcrib.serve.start_token import StartToken, derived
from toolcrib.store.private_files import state_folder

TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


async def _page(scope: Scope, receive: Receive, send: Send) -> None:
    await reply(send, 200, b"the page", ((b"content-type", b"text/html"),))


@asynccontextmanager
async def asking(token: str = TOKEN) -> AsyncIterator[Place]:
    async with serving(Crib(TOOLS), guard=StartToken(token)) as place:
        place.site.mount("/", _page)
        yield place


@requirement("security.door.4")
@pytest.mark.parametrize("path", ["/v1/me", "/v1/sessions", "/v1/tools", "/mcp", "/metrics", "/sse"])
async def test_every_door_asks_for_the_token_and_says_what_to_do(path: str) -> None:
    async with asking() as place:
        method = "POST" if path == "/mcp" else "GET"
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            answer = await place.http.request(method, path, headers=headers)
            assert answer.status_code == 401, (path, answer.text)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert "--no-token" in answer.text
        assert (await place.http.get("/v1/me", headers=BEARER)).json()["auth"] == "off"
        for open_to_all in ("/healthz", "/readyz", "/v1/openapi.json", "/"):
            assert (await place.http.get(open_to_all)).status_code == 200


@requirement("security.door.4")
async def test_the_printed_address_signs_a_browser_in_and_the_token_leaves_it() -> None:
    async with asking() as place:
        came = await place.http.get(f"/?token={TOKEN}&screen=tools")
        assert (came.status_code, came.headers["location"]) == (303, "/?screen=tools")
        cookie = came.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        assert f"toolcrib-{place.http.base_url.port}=" in cookie
        assert came.headers["referrer-policy"] == "no-referrer"
        signed_in = {"Cookie": cookie.partition(";")[0]}
        assert (await place.http.get("/v1/me", headers=signed_in)).status_code == 200
        assert (await place.http.post("/v1/sessions", json={}, headers=signed_in)).status_code == 403
        marked = {**signed_in, "X-Toolcrib": "1"}
        assert (await place.http.post("/v1/sessions", json={}, headers=marked)).status_code == 201
        wrong = await place.http.get("/?token=wrong")
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (200, False)
        place.http.cookies.clear()
        assert (await place.http.get(f"/v1/me?token={TOKEN}")).status_code == 401


@requirement("security.door.4")
async def test_the_token_can_be_pasted_where_a_key_is_asked_for() -> None:
    async with asking() as place:
        assert (await place.http.post("/v1/signin", json={"key": "other"})).status_code == 401
        assert (await place.http.post("/v1/signin", json={"key": TOKEN})).status_code == 200
        assert (await place.http.get("/v1/me")).status_code == 200


HERE = {"host": "127.0.0.1:8000"}
ELSEWHERE = {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}


@requirement("security.door.3")
@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1:8000"}, True),
        ({"origin": "http://127.0.0.1:8001"}, False),
        ({"origin": "http://127.0.0.1"}, False),
        ({"origin": "http://localhost:8000"}, False),
        ({"origin": "null"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "http://127.0.0.1:8000.evil.example"}, False),
        ({"origin": "http://app.example:3000"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, True),
        ({"sec-fetch-site": "same-site", **ELSEWHERE}, False),
        ({"sec-fetch-site": "cross-site", **ELSEWHERE}, False),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, False),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, False),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, True),
        ({"sec-fetch-site": "cross-site", "origin": "http://app.example:3000"}, True),
        ({"host": "evil.example:8000", "origin": "http://evil.example:8000"}, False),
    ],
)
def test_without_keys_only_pages_of_the_same_address_are_let_in(headers: dict[str, str], admitted: bool) -> None:
    given = {name.encode(): value.encode() for name, value in {**HERE, **headers}.items()}
    assert Origins(origins=["app.example:3000"], own_port=True).admits(given) is admitted


@requirement("security.door.3")
@pytest.mark.parametrize("guard", [None, StartToken(TOKEN)])
async def test_a_page_of_another_port_is_a_stranger(guard: Any) -> None:
    async with serving(Crib(TOOLS), guard=guard) as place:
        own = f"{place.http.base_url.scheme}://{place.http.base_url.host}"
        headers = {} if guard is None else BEARER
        for origin, status in ((f"{own}:{place.http.base_url.port}", 200), (f"{own}:1", 403), (own, 403)):
            answer = await place.http.get("/v1/tools", headers={**headers, "Origin": origin})
            assert answer.status_code == status, origin
        stolen = await place.http.get("/v1/tools", headers={**headers, "Sec-Fetch-Site": "cross-site"})
        assert stolen.status_code == 403


@requirement("security.door.5")
async def test_servers_over_one_store_have_one_token(tmp_path: Path) -> None:
    tokens = set()
    for name in ("one.db", "one.db", "other.db"):
        async with Crib(TOOLS, store=f"sqlite:///{tmp_path / name}") as crib:
            tokens.add(derived(await kept_secret(crib.store, 0.0)))
    assert len(tokens) == 2


@requirement("security.door.5")
async def test_a_program_of_the_same_user_finds_the_token_while_the_server_runs() -> None:
    async with asking() as place:
        port = place.http.base_url.port
        assert port is not None
        with published_token(port, TOKEN) as path:
            assert path is not None
            assert path.parent == state_folder()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            async with RemoteCrib(place.url) as crib:
                assert crib.me["name"] == "anyone"
            assert start_token(f"http://crib.example:{port}") is None
            path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', '"pid": 999999999'))
            assert start_token(place.url) is None
        assert not path.exists()
        with pytest.raises(Refused) as refused:
            async with RemoteCrib(place.url):
                pass
        assert refused.value.code == "unauthorized"
        assert "--no-token" in (refused.value.hint or "")


@requirement("security.door.5")
async def test_the_token_stands_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with asking() as place, httpx.AsyncClient(base_url=place.url) as http:
        await http.get(f"/?token={TOKEN}")
        await http.get("/v1/me", headers=BEARER)
    assert TOKEN not in "".join(line for line in caplog.text.splitlines() if "toolcrib" in line)

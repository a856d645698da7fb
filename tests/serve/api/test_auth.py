"""Who may come in and do what: keys of the store, tokens, cookies, scopes, namespaces, and how often."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.faults.proxy import Proxy
from tests.requirements import requirement
from tests.serve.api.place import Desk, desk, until
from tests.serve.tools import TOOLS
from toolcrib import Crib, tool
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.api.routes import ROUTES as ALL
from toolcrib.serve.keyring import Keyring
from toolcrib.serve.keys import new_key
from toolcrib.serve.oauth import Claims, OAuth
from toolcrib.serve.principal import Guards

ROUTES = [route for route in ALL if route.path.startswith("/v1/")]
AUDIENCE = "https://crib.example"
KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "k1"}


@tool(namespace="forge", read_only=True)
async def build() -> str:
    """Build something."""
    return "built"


def ring(crib: Crib) -> Keyring:
    return Keyring(lambda: crib.store, crib.pipeline.clock.now)


@asynccontextmanager
async def kept(store: str = "memory:", **site: Any) -> AsyncIterator[tuple[Desk, Keyring]]:
    """A server whose keys are in its store, and those keys."""
    crib = Crib([*TOOLS, build], store=store)
    keys = ring(crib)
    async with desk(crib, guard=keys, **site) as made:
        yield made, keys


async def made(keys: Keyring, owner: str, *scopes: str, **more: Any) -> str:
    key, _ = await keys.add(owner, by="test", scopes=scopes, **more)
    return key


async def test_the_keys_of_a_store_open_from_the_start_on() -> None:
    async with Crib() as crib:
        key = (await made(ring(crib), "ada")).encode()
        later = ring(crib)
        await later.start()
        assert (await later.admit({b"authorization": b"Bearer " + key})).name == "ada"
        await later.stop()


async def test_keys_are_made_used_and_revoked_over_http() -> None:
    async with kept() as (served, keys):
        root = served.as_(await made(keys, "root", "admin"))
        new = await root.post("/keys", owner="ada", name="laptop", scopes=["read", "call"])
        assert new["key"].startswith("tc_")
        ada = served.as_(new["key"])
        assert (await ada.get("/me"))["name"] == "ada"
        session = await ada.open()
        assert (await ada.call(session, "add", {"a": 1}))["ok"]
        listed = (await root.get("/keys"))["items"]
        (mine,) = [one for one in listed if one["owner"] == "ada"]
        assert (mine["name"], mine["scopes"], mine["active"], mine["by"]) == ("laptop", ["read", "call"], True, "root")
        assert mine["last_used"] > 0
        assert new["key"] not in json.dumps(listed)
        assert (await root.ask("DELETE", f"/keys/{new['id']}")).json()["active"] is False
        assert await ada.refused("GET", "/me") == (403, "denied")
        assert await root.refused("DELETE", "/keys/none") == (404, "not_found")
        assert await root.refused("POST", "/keys", {"owner": "x", "scopes": ["odd"]}) == (400, "invalid_arguments")
        assert await root.refused("POST", "/keys", {"owner": "toolcrib"}) == (400, "invalid_arguments")


async def test_a_revoked_key_opens_nothing_on_any_server(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'crib.db'}"
    async with kept(store) as (first, keys), kept(store) as (second, _):
        key, known = await keys.add("ada", by="test")
        ada = second.as_(key)
        await ada.comes_to(200)
        await keys.revoke(known.id, by="test")
        assert (await first.as_(key).ask("GET", "/me")).status_code == 403
        await ada.comes_to(403)


@requirement("reliability.logout.6")
async def test_a_revoked_key_opens_nothing_at_a_server_that_did_not_hear_of_it(postgres_url: str) -> None:
    async with Proxy(postgres_url) as proxy, kept(postgres_url) as (_, keys), kept(proxy.url) as (second, _):
        key, known = await keys.add("ada", by="test")
        await second.as_(key).comes_to(200)
        proxy.deafen()
        await keys.revoke(known.id, by="test")
        assert (await second.as_(key).ask("GET", "/me")).status_code == 403
        proxy.mend()


async def test_the_streams_of_a_revoked_key_end_and_those_of_others_go_on() -> None:
    async with kept(limits=ServeLimits(ping_s=0.05)) as (served, keys):
        key, known = await keys.add("ada", by="test")
        ada, bob = served.as_(key), served.as_(await made(keys, "bob"))
        session, other = await ada.open("of-ada"), await bob.open("of-bob")
        paths = (f"/sessions/{session}/events", "/live", "/questions/events")
        async with bob.stream(f"/sessions/{other}/events") as heard, AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(ada.stream(path)) for path in paths]
            await keys.revoke(known.id, by="test")
            for stream in streams:
                assert [event.kind async for event in stream if event.kind == "end"] == []
            assert served.api.gate.open == 1
            await bob.call(other, "add", {"a": 1, "b": 2})
            assert (await until(heard, "done")).data["data"]["ok"]


async def test_a_key_expires_and_is_known_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'crib.db'}"
    async with kept(store) as (served, keys):
        lasting = await made(keys, "ada", expires_at=time.time() + 3600)
        short = await made(keys, "ada", expires_at=time.time() + 0.3)
        await served.as_(short).comes_to(403)
    async with kept(store) as (served, _):
        assert (await served.as_(lasting).get("/me"))["name"] == "ada"
        assert (await served.as_(short).ask("GET", "/me")).status_code == 403
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert lasting.encode() not in written


async def test_every_route_asks_for_its_scope() -> None:
    async with kept() as (served, keys):
        holders = {right: served.as_(await made(keys, "ada", right)) for right in ("read", "call", "answer")}
        for route in ROUTES:
            path = route.path.removeprefix("/v1")
            assert (await served.ask(route.method, path)).status_code == 401 or route.right is None, route.path
            for right, holder in holders.items():
                if route.streams and right == route.right and not route.names:
                    continue  # it would not end
                status = (await holder.ask(route.method, path, {} if route.body else None)).status_code
                allowed = route.right in (None, right)
                assert (status != 403) is allowed, (route.method, path, right, status)


@requirement("aomi.open.6")
async def test_namespaces_lie_within_those_of_whoever_asks() -> None:
    async with kept() as (served, keys):
        plain, smith = served.as_(await made(keys, "ada")), served.as_(await made(keys, "ada", namespaces=["forge"]))
        wide = {"namespaces": ["default", "forge"]}
        refused = await plain.ask("POST", "/sessions", wide)
        assert refused.status_code == 403
        assert refused.json()["error"]["message"] == "Namespace 'forge' not authorized. Allowed: [default]"
        assert await smith.refused("POST", "/sessions", wide) == (403, "denied")
        forge = await smith.open()
        assert (await smith.call(forge, "build"))["data"] == "built"
        assert [one["id"] for one in (await smith.get("/tools"))["items"]] == ["forge.build"]
        default = await plain.open()
        assert await smith.refused("POST", f"/sessions/{default}/calls", {"tool": "add"}) == (403, "denied")
        stranger = served.as_(new_key()[0])
        assert await stranger.refused("POST", "/sessions", wide) == (403, "denied")
        assert await served.refused("POST", "/sessions", wide) == (401, "unauthorized")
    async with desk(Crib([*TOOLS, build])) as anyone:
        assert (await anyone.ask("POST", "/sessions", {"namespaces": ["default"]})).status_code == 201
        assert await anyone.refused("POST", "/sessions", wide) == (401, "unauthorized")
        assert await anyone.as_("some-key").refused("POST", "/sessions", {}) == (403, "denied")


async def test_a_page_signs_in_with_a_cookie_that_no_other_page_can_use() -> None:
    async with kept() as (served, keys):
        key, known = await keys.add("ada", by="test")
        assert await served.refused("POST", "/signin", {"key": new_key()[0]}) == (401, "unauthorized")
        answer = await served.ask("POST", "/signin", {"key": key})
        cookie = answer.headers["set-cookie"]
        assert key not in cookie
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        assert answer.json()["name"] == "ada"
        served.http.cookies.clear()
        signed = {"Cookie": cookie.partition(";")[0]}
        assert (await served.ask("GET", "/me", headers=signed)).json()["name"] == "ada"
        assert await served.refused("POST", "/sessions", {}, headers=signed) == (403, "denied")
        marked = signed | {"X-Toolcrib": "1"}
        assert (await served.ask("POST", "/sessions", {}, headers=marked)).status_code == 201
        foreign = marked | {"Origin": "https://evil.example"}
        assert await served.refused("POST", "/sessions", {}, headers=foreign) == (403, "denied")
        forged = {"Cookie": cookie.partition(";")[0][:-4] + "AAAA"}
        assert await served.refused("GET", "/me", headers=forged) == (401, "unauthorized")
        await keys.revoke(known.id, by="test")
        assert (await served.ask("GET", "/me", headers=signed)).status_code == 403
        assert "Max-Age=0" in (await served.ask("POST", "/signout")).headers["set-cookie"]


class _Issuer(BaseHTTPRequestHandler):
    """An OpenID provider that only says where its keys are."""

    def do_GET(self) -> None:
        host = f"http://{self.headers['host']}"
        known = {
            "/.well-known/openid-configuration": {"issuer": host, "jwks_uri": f"{host}/jwks"},
            "/jwks": {"keys": [PUBLIC]},
        }
        body = json.dumps(known.get(self.path, {})).encode()
        self.send_response(200 if self.path in known else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def issuer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Issuer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def token(issuer: str, **changed: Any) -> str:
    claims = {"iss": issuer, "aud": AUDIENCE, "sub": "1", "exp": time.time() + 60}
    claims |= {"email": "ada@example.org", "email_verified": True} | changed
    return jwt.encode(claims, KEY, "ES256", headers={"kid": "k1"})


async def test_tokens_of_a_provider_are_taken_beside_keys(issuer: str) -> None:
    crib = Crib([*TOOLS, build])
    keys = ring(crib)
    claims = Claims(owner="email", roles="groups", namespaces="tools", admins=("ops",))
    provider = OAuth(AUDIENCE, issuer, claims=claims)
    async with desk(crib, guard=Guards([keys, provider])) as served:
        bob = served.as_(await made(keys, "bob"))
        assert (await bob.get("/me"))["auth"] == "key"
        me = await served.as_(token(issuer, groups=["staff"], tools=["forge"])).get("/me")
        assert (me["name"], me["auth"], me["admin"], me["roles"]) == ("ada@example.org", "jwt", False, ["staff"])
        assert me["namespaces"] == ["forge"]
        assert (await served.as_(token(issuer, groups=["ops"])).get("/me"))["admin"] is True
        assert (await served.as_(token(issuer, groups=["admin"])).get("/me"))["admin"] is False
        assert (await served.as_(token(issuer, scope="read")).get("/me"))["scopes"] == ["read"]
        stranger = ec.generate_private_key(ec.SECP256R1())
        good = {"iss": issuer, "aud": AUDIENCE, "sub": "1", "exp": time.time() + 60}
        good |= {"email": "a@b", "email_verified": True}
        wrong = [
            token(issuer, aud="https://other.example"),
            token(issuer, exp=time.time() - 100),
            token(issuer, email=None),
            token(issuer, email_verified=False),
            token(issuer, email_verified=None),
            token(issuer, groups=5),
            token(issuer, scope={"read": True}),
            token("https://evil.example"),
            jwt.encode(good, "", "none"),
            jwt.encode(good, "x" * 32, "HS256", headers={"kid": "k1"}),
            jwt.encode(good, stranger, "ES256", headers={"kid": "k1"}),
        ]
        for given in wrong:
            assert await served.as_(given).refused("GET", "/me") == (401, "unauthorized")
        challenge = (await served.ask("GET", "/me")).headers["www-authenticate"]
        assert "resource_metadata=" in challenge
        assert 'realm="toolcrib"' in challenge


async def test_a_key_that_only_reads_calls_nothing_by_any_door() -> None:
    async with kept() as (served, keys):
        reader = served.as_(await made(keys, "ada", "read"))
        hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answer = await served.http.post("/mcp", json=hello, headers=reader.headers)
        assert answer.status_code == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


async def test_requests_beyond_the_rate_are_told_when_to_come_back() -> None:
    async with kept(limits=ServeLimits(rate="3/h", body_bytes=1000)) as (served, keys):
        ada, bob = served.as_(await made(keys, "ada")), served.as_(await made(keys, "bob"))
        for _ in range(3):
            assert (await ada.ask("GET", "/me")).status_code == 200
        refused = await ada.ask("GET", "/me")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert 0 < int(refused.headers["retry-after"]) <= 1200
        session = await bob.open()
        large = {"tool": "add", "args": {"a": "x" * 2000}}
        assert await bob.refused("POST", f"/sessions/{session}/calls", large) == (413, "too_large")


async def test_so_many_requests_at_once_and_no_more() -> None:
    async with kept(limits=ServeLimits(requests_each=2)) as (served, keys):
        ada, bob = served.as_(await made(keys, "ada")), served.as_(await made(keys, "bob"))
        session = await ada.open()
        calls = [asyncio.ensure_future(ada.call(session, "greet")) for _ in range(2)]  # they wait for a person
        await ada.comes_to(429)
        assert await ada.refused("GET", "/me") == (429, "too_many")
        assert (await bob.get("/me"))["name"] == "bob"
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        await ada.comes_to(200)
        async with ada.stream(f"/sessions/{session}/events"), ada.stream(f"/sessions/{session}/events"):
            assert (await ada.get("/me"))["name"] == "ada"


@requirement("aomi.restore.5")
async def test_signing_in_and_out_are_lines_of_the_log_without_keys(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib.serve")
    async with kept() as (served, keys):
        key, _ = await keys.add("ada", by="test")
        answer = await served.ask("POST", "/signin", {"key": key})
        cookie = answer.headers["set-cookie"].partition(";")[0]
        served.http.cookies.clear()
        await served.ask("POST", "/signout", headers={"Cookie": cookie, "X-Toolcrib": "1"})
        served.http.cookies.clear()
        await served.ask("POST", "/signout")
    lines = [one.getMessage() for one in caplog.records if "signed" in one.getMessage()]
    assert lines == ["ada signed in", "ada signed out", "somebody whose key is not valid any more signed out"]
    assert key not in caplog.text

"""One principal, one set of limits, whichever door they come by; and streams end with the key that opened them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.serve.place import BOTH, LEGACY, Place, headers, serving
from tests.serve.tools import TOOLS, Doors
from toolcrib import Crib
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.keyring import Keyring
from toolcrib.serve.keys import new_key
from toolcrib.serve.mcp import McpServerSettings

SOON_S = 60
LISTEN = {"notifications": {"toolsListChanged": True}}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}


class Holder:
    """Somebody with a key, at any door of a server."""

    def __init__(self, place: Place, key: str) -> None:
        self.place = place
        self.headers = {"Authorization": f"Bearer {key}"}

    async def me(self) -> int:
        return (await self.place.http.get("/v1/me", headers=self.headers)).status_code

    async def list(self) -> httpx.Response:
        return await self.place.post("tools/list", headers=self.headers)

    async def post(self, message: dict[str, Any], **more: str) -> httpx.Response:
        return await self.place.http.post("/mcp", json=message, headers=BOTH | self.headers | more)

    async def greeted(self) -> dict[str, str]:
        """The headers of a new session of an older revision."""
        answer = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        assert answer.status_code == 200, answer.text
        return {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": LEGACY}

    @asynccontextmanager
    async def sent(self, method: str, params: dict[str, Any]) -> AsyncIterator[httpx.Response]:
        """The answer to a request of the newest revision, as it comes."""
        message = self.place.message(method, params)
        made = headers(message) | self.headers
        async with (
            asyncio.timeout(SOON_S),
            self.place.http.stream("POST", "/mcp", json=message, headers=made) as answer,
        ):
            yield answer

    @asynccontextmanager
    async def heard(self, path: str = "/mcp", **more: str) -> AsyncIterator[httpx.Response]:
        """A stream of an older revision."""
        made = BOTH | self.headers | more
        async with asyncio.timeout(SOON_S), self.place.http.stream("GET", path, headers=made) as answer:
            yield answer


@asynccontextmanager
async def guarded(doors: Doors | None = None, **site: Any) -> AsyncIterator[tuple[Place, Keyring]]:
    crib = Crib(TOOLS, deps={"doors": doors or Doors()})
    keys = Keyring(lambda: crib.store, crib.pipeline.clock.now)
    async with serving(crib, guard=keys, **site) as place:
        yield place, keys


async def holder(place: Place, keys: Keyring, owner: str, **more: Any) -> Holder:
    return Holder(place, (await keys.add(owner, by="test", **more))[0])


async def settles(place: Place, count: int = 0) -> None:
    """Returns when so many streams are open; nobody tells when they are."""
    async with asyncio.timeout(SOON_S):
        while place.site.api.gate.open != count or place.site.api.gate.under_way:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


async def test_the_rate_is_one_for_all_doors() -> None:
    async with guarded(limits=ServeLimits(rate="4/h")) as (place, keys):
        ada, bob = await holder(place, keys, "ada"), await holder(place, keys, "bob")
        assert [(await ada.list()).status_code, (await ada.list()).status_code] == [200, 200]
        assert [await ada.me(), await ada.me()] == [200, 200]
        refused = await ada.list()
        assert (refused.status_code, await ada.me()) == (429, 429)
        assert 0 < int(refused.headers["retry-after"]) <= 3600
        said = refused.json()
        assert (said["jsonrpc"], said["id"], said["error"]["code"]) == ("2.0", None, -32000)
        assert said["error"]["data"]["code"] == "rate_limited"
        assert said["error"]["data"]["retry_after"] > 0
        for path in ("/sse", "/messages"):
            assert (await place.http.get(path, headers=ada.headers)).status_code == 429
        assert ((await bob.list()).status_code, await bob.me()) == (200, 200)


async def test_a_body_is_no_larger_by_one_door_than_by_another() -> None:
    async with guarded(limits=ServeLimits(body_bytes=2000)) as (place, keys):
        ada = await holder(place, keys, "ada")
        large = {"name": "add", "arguments": {"a": "x" * 3000}}
        answer = await place.post("tools/call", large, headers=ada.headers)
        assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (413, "too_large")


async def test_calls_that_wait_count_as_requests_of_whoever_made_them() -> None:
    async with guarded(limits=ServeLimits(requests_each=2)) as (place, keys):
        ada, bob = await holder(place, keys, "ada"), await holder(place, keys, "bob")
        params: dict[str, Any] = {"name": "hold", "arguments": {}}
        calls = [asyncio.ensure_future(place.post("tools/call", params, id=n, headers=ada.headers)) for n in range(2)]
        async with asyncio.timeout(SOON_S):
            while await ada.me() != 429:  # noqa: ASYNC110 - nobody tells when both are under way
                await asyncio.sleep(0.02)
        refused = await ada.list()
        assert (refused.status_code, refused.json()["error"]["data"]["code"]) == (429, "too_many")
        assert (await bob.list()).status_code == 200
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        await settles(place)
        assert (await ada.list()).status_code == 200


async def test_streams_count_together_whichever_door_they_come_by() -> None:
    async with guarded(limits=ServeLimits(streams_each=3)) as (place, keys):
        ada, bob = await holder(place, keys, "ada"), await holder(place, keys, "bob")
        session = await ada.greeted()
        async with (
            ada.sent("subscriptions/listen", LISTEN) as one,
            ada.heard(**session) as two,
            ada.heard("/v1/live", Accept="text/event-stream") as three,
        ):
            assert [one.status_code, two.status_code, three.status_code] == [200] * 3
            assert place.site.api.gate.open == 3
            async with ada.sent("subscriptions/listen", LISTEN) as refused:
                said = await refused.aread(), refused.status_code, refused.headers["retry-after"]
            assert said[1:] == (429, "5")
            assert refused.json()["id"] == 1
            assert refused.json()["error"]["data"]["code"] == "too_many"
            async with ada.heard("/sse") as old, ada.heard(**(await ada.greeted())) as other:
                assert (old.status_code, other.status_code) == (429, 429)
            assert (await ada.list()).status_code == 200
            async with bob.sent("subscriptions/listen", LISTEN) as open_:
                assert open_.status_code == 200
        await settles(place)


@pytest.mark.parametrize("door", ["listen", "get", "sse", "call", "silent call"])
async def test_a_stream_ends_soon_after_its_key_was_revoked(door: str) -> None:
    doors = Doors()
    async with guarded(doors, limits=ServeLimits(ping_s=0.05)) as (place, keys), AsyncExitStack() as stack:
        key, known = await keys.add("ada", by="test")
        ada, bob = Holder(place, key), await holder(place, keys, "bob")
        hold = {"name": "hold", "arguments": {}}
        match door:
            case "listen":
                opening = ada.sent("subscriptions/listen", LISTEN)
            case "get":
                opening = ada.heard(**(await ada.greeted()))
            case "sse":
                opening = ada.heard("/sse")
            case _:
                opening = ada.sent("tools/call", hold)
        other = await stack.enter_async_context(bob.sent("subscriptions/listen", LISTEN))
        if door == "silent call":
            calling = asyncio.ensure_future(place.post("tools/call", hold, headers=ada.headers))
            await doors.entered.wait()
            await keys.revoke(known.id, by="test")
            answer = await asyncio.wait_for(calling, SOON_S)
            text = answer.text
        else:
            answer = await stack.enter_async_context(opening)
            await keys.revoke(known.id, by="test")
            text = "".join([piece async for piece in answer.aiter_text()])
        assert '"result"' not in text
        await settles(place, 1)
        lines = other.aiter_lines()
        async with asyncio.timeout(SOON_S):
            assert [line async for line in _two(lines)] == [": still here"] * 2


async def _two(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """The next two signs of life: a stream of somebody else goes on."""
    count = 0
    async for line in lines:
        if line.startswith(":"):
            yield line
            count += 1
        if count == 2:
            return


async def test_a_call_of_a_revoked_key_that_said_nothing_yet_is_told_so() -> None:
    doors = Doors()
    async with guarded(doors, limits=ServeLimits(ping_s=0.3)) as (place, keys):
        key, known = await keys.add("ada", by="test")
        calling = asyncio.ensure_future(
            place.post("tools/call", {"name": "hold"}, headers={"Authorization": f"Bearer {key}"})
        )
        await doors.entered.wait()
        await keys.revoke(known.id, by="test")
        answer = await asyncio.wait_for(calling, SOON_S)
        if answer.status_code == 401:  # the first sign of life may have been sent before
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert '"result"' not in answer.text
        await settles(place)
        assert await came_of_it(await holder(place, keys, "ada"), doors) == "held"


async def came_of_it(other: Holder, doors: Doors) -> Any:
    """The result of the one call of somebody who has `other` as their next key."""
    (made,) = (await other.place.http.get("/v1/calls", headers=other.headers)).json()["items"]
    doors.go.set()
    path = f"/v1/sessions/{made['session']}/calls/{made['id']}/result"
    answer = await other.place.http.get(path, params={"wait": SOON_S}, headers=other.headers)
    return answer.json().get("data")


@pytest.mark.parametrize("door", ["mcp", "sse", "rest"])
async def test_a_call_goes_on_whose_caller_has_a_key_that_expires_meanwhile(door: str) -> None:
    now, doors = [1_000.0], Doors()
    crib = Crib(TOOLS, deps={"doors": doors})
    keys = Keyring(lambda: crib.store, lambda: now[0])
    async with serving(crib, guard=keys, limits=ServeLimits(ping_s=0.05)) as place, asyncio.timeout(SOON_S):
        ada, later = await holder(place, keys, "ada", expires_at=2_000.0), await holder(place, keys, "ada")
        waiting = asyncio.ensure_future(held(ada, door))
        await doors.entered.wait()
        now[0] = 2_000.0
        assert '"result"' not in await waiting
        await settles(place)
        assert await came_of_it(later, doors) == "held"


async def held(ada: Holder, door: str) -> str:
    """What somebody is told, by the end of the answer, who calls what takes long."""
    hold = ada.place.message("tools/call", {"name": "hold", "arguments": {}})
    if door == "mcp":
        return (await ada.post(hold, **headers(hold))).text
    if door == "rest":
        made = (await ada.place.http.post("/v1/sessions", json={}, headers=ada.headers)).json()["id"]
        body = {"tool": "hold", "cancel_on_disconnect": True}
        return (await ada.place.http.post(f"/v1/sessions/{made}/calls", json=body, headers=ada.headers)).text
    async with ada.heard("/sse") as stream:
        lines = stream.aiter_lines()
        address = [await anext(lines), await anext(lines)][1].removeprefix("data: ")
        posted = await ada.place.http.post(address, json=hold, headers=ada.headers)
        assert posted.status_code == 202
        return "\n".join([line async for line in lines])


async def test_a_new_session_takes_the_place_of_ones_own_that_was_silent_for_longest() -> None:
    async with guarded(mcp=McpServerSettings(sessions=3, sessions_each=2)) as (place, keys):
        ada, bob = await holder(place, keys, "ada"), await holder(place, keys, "bob")
        first, second = await ada.greeted(), await ada.greeted()
        assert (await ada.post(PING, **first)).status_code == 200
        third = await ada.greeted()
        assert [(await ada.post(PING, **one)).status_code for one in (first, second, third)] == [200, 404, 200]
        await bob.greeted()
        refused = await (await holder(place, keys, "eve")).post(
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
        )
        assert (refused.status_code, refused.json()["id"]) == (503, 0)
        assert int(refused.headers["retry-after"]) > 0
        async with ada.heard(**first), ada.heard(**third):
            busy = await ada.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
            assert (busy.status_code, busy.json()["error"]["data"]["code"]) == (429, "too_many")


async def test_another_key_of_the_same_owner_that_opens_less_does_not_get_at_a_session() -> None:
    async with guarded() as (place, keys):
        ada, less = await holder(place, keys, "ada"), await holder(place, keys, "ada", scopes=["call"])
        session = await ada.greeted()
        assert (await less.post(PING, **session)).status_code == 404
        assert (await ada.post(PING, **session)).status_code == 200


@pytest.mark.parametrize("door", ["/v1/me", "/mcp", "/sse", "/messages", "/metrics"])
async def test_who_brings_no_key_is_told_how_to_get_and_to_send_one(door: str) -> None:
    async with guarded() as (place, _):
        ways: list[dict[str, str]] = [{}, {"Authorization": f"Bearer {new_key()[0]}"}, {"Authorization": "Basic YTpi"}]
        for given in ways:
            answer = await place.http.get(door, headers=given)
            bad_key = "Bearer" in given.get("Authorization", "")
            assert answer.status_code == (403 if bad_key and door == "/v1/me" else 401)
            assert answer.headers["www-authenticate"].startswith('Bearer realm="toolcrib"')
            assert ('error="invalid_token"' in answer.headers["www-authenticate"]) is bad_key
            said = answer.json()["error"]
            hint = said.get("hint") or said["data"]["hint"]
            assert "Authorization: Bearer" in hint
            assert "toolcrib keys add" in hint


async def test_streams_end_soon_after_their_key_expired_by_every_door() -> None:
    now = [1_000.0]
    crib = Crib(TOOLS)
    keys = Keyring(lambda: crib.store, lambda: now[0])
    async with serving(crib, guard=keys, limits=ServeLimits(ping_s=0.05)) as place:
        ada, bob = await holder(place, keys, "ada", expires_at=2_000.0), await holder(place, keys, "bob")
        session = await ada.greeted()
        async with (
            bob.sent("subscriptions/listen", LISTEN),
            ada.sent("subscriptions/listen", LISTEN) as one,
            ada.heard(**session) as two,
            ada.heard("/v1/live", Accept="text/event-stream") as three,
        ):
            now[0] = 2_000.0
            for stream in (one, two, three):
                assert b"error" not in await stream.aread()
            await settles(place, 1)


async def test_a_server_without_keys_takes_none_by_any_door() -> None:
    async with serving(Crib(TOOLS)) as place:
        stranger = Holder(place, new_key()[0])
        refused = await stranger.list()
        assert (refused.status_code, await stranger.me()) == (403, 403)
        assert refused.json()["error"]["data"]["hint"] == "leave the header Authorization out"
        assert (await place.post("tools/list")).status_code == 200

"""Somebody with a plain key who wants what is not theirs, or wants that nobody gets anything."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.agent.place import UNGUARDED
from tests.serve.place import BOTH, META, VERSION, Place, headers, serving
from tests.serve.tools import TOOLS, Doors, library
from toolcrib import Crib
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.keyring import Keyring
from toolcrib.serve.keys import ApiKeys, digest
from toolcrib.serve.mcp import sse
from toolcrib.serve.principal import Principal

SOON_S = 60
PEOPLE = {
    "ada": Principal("ada", auth="key"),
    "eve": Principal("eve", auth="key"),
    "caller": Principal("eve", scopes=frozenset({"call", "read"}), auth="key"),
    "root": Principal("root", scopes=frozenset({"admin"}), auth="key"),
}
KEYS = ApiKeys({digest(name): principal for name, principal in PEOPLE.items()})
FORM: dict[str, Any] = {"elicitation": {}}


@asynccontextmanager
async def guarded(**site: Any) -> AsyncIterator[Place]:
    shelved = library()
    agents = Agents([Agent(name="desk", instructions="Help.")], model=ScriptedModel({"desk": [{"text": "Hi."}] * 9}))
    crib = Crib([*TOOLS, shelved], agents=agents, policy=UNGUARDED, deps={"doors": Doors()})
    async with serving(crib, guard=KEYS, library=shelved, **site) as place:
        yield place


def as_(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


async def greeted(place: Place, name: str, **capabilities: Any) -> httpx.Response:
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    return await place.http.post("/mcp", json=message, headers=BOTH | as_(name))


async def old(place: Place, name: str, **capabilities: Any) -> dict[str, str]:
    """The headers of a session of an older revision."""
    id = (await greeted(place, name, **capabilities)).headers["mcp-session-id"]
    return BOTH | as_(name) | {"Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-11-25"}


async def empty(place: Place) -> None:
    """Returns when nothing is open or under way; nobody tells when that is."""
    gate = place.site.api.gate
    async with asyncio.timeout(SOON_S):
        while gate.open or gate.under_way:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", ["Authorization", "Origin", "Idempotency-Key", "Mcp-Session-Id", "Last-Event-ID"])
async def test_a_header_that_counts_comes_once(name: str) -> None:
    async with guarded() as place:
        good = {"Authorization": "Bearer eve", "Host": "localhost"}
        sent = [*good.items(), (name, good.get(name, "x")), (name.lower(), "other")]
        for path in ("/v1/me", "/mcp", "/sse", "/a2a/desk", "/ag-ui/desk/t"):
            answer = await place.http.get(path, headers=sent)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_arguments"), path
            assert name.lower() in answer.json()["error"]["message"]


async def test_a_host_comes_once() -> None:
    async with guarded() as place:
        url = place.http.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(
            b"GET /v1/me HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\nAuthorization: Bearer eve\r\n\r\n"
        )
        assert (await asyncio.wait_for(reader.readline(), SOON_S)).startswith(b"HTTP/1.1 400 ")
        writer.transport.abort()


async def test_nobody_takes_the_session_that_another_will_have_over_mcp() -> None:
    async with guarded() as place:
        day = int(time.time() // 86400)
        for guess in (hashlib.sha256(b"ada").hexdigest(), hashlib.sha256(b"ada\0").hexdigest()):
            for when in (day, day + 1):
                for length in (16, 32):
                    taken = {"id": f"mcp-{guess[:length]}-{when}"}
                    await place.http.post("/v1/sessions", json=taken, headers=as_("eve"))
        assert (await place.call("add", {"a": 1}, headers=as_("ada")))["content"][0]["text"] == "2"
        mine = (await place.http.get("/v1/sessions", headers=as_("ada"))).json()["items"]
        assert [one["id"].startswith("mcp-") for one in mine] == [True]


async def test_the_same_key_of_two_owners_is_two_calls() -> None:
    async with guarded() as place:
        for name in ("ada", "eve"):
            await place.http.post("/v1/sessions", json={"id": f"of-{name}"}, headers=as_(name))
        made = [
            await place.http.post(
                f"/v1/sessions/of-{name}/calls",
                json={"tool": "add", "args": {"a": number}},
                headers=as_(name) | {"Idempotency-Key": "the same"},
            )
            for name, number in (("ada", 1), ("eve", 41), ("ada", 1))
        ]
        assert [one.json()["data"] for one in made] == [2, 42, 2]
        assert made[0].json()["call"] == made[2].json()["call"] != made[1].json()["call"]


async def test_what_a_client_has_the_server_remember_is_bounded() -> None:
    async with guarded() as place:
        much = await greeted(place, "eve", experimental={"x": "y" * 100_000})
        assert (much.status_code, much.json()["error"]["code"]) == (400, -32602)
        session = await old(place, "eve")

        async def subscribe(uri: str) -> bool:
            message = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}}
            return "result" in (await place.http.post("/mcp", json=message, headers=session)).json()

        assert not await subscribe("note://" + "x" * 10_000)
        place.mcp.legacy.connections[session["Mcp-Session-Id"]].uris.update(f"note://{n}" for n in range(999))
        assert [await subscribe("note://a"), await subscribe("note://b"), await subscribe("note://5")] == [
            True,
            False,
            True,
        ]
        status, error = await place.error("resources/read", {"uri": "user://" + "x" * 10_000}, headers=as_("eve"))
        assert (status, error["code"]) == (400, -32602)


async def test_who_may_not_answer_neither_agrees_nor_declines_over_an_older_revision() -> None:
    async with guarded() as place:
        session = await old(place, "caller", **FORM)
        params = {"name": "erase", "arguments": {"what": "all"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        await place.http.post("/mcp", json=message, headers=session)
        (question,) = (await place.http.get("/v1/questions", headers=as_("eve"))).json()["items"]
        for said in ({"result": {"action": "accept", "content": {}}}, {"result": None}, {"error": {"message": "no"}}):
            response = {"jsonrpc": "2.0", "id": question["id"], **said}
            assert (await place.http.post("/mcp", json=response, headers=session)).status_code == 202
        (still,) = (await place.http.get("/v1/questions", headers=as_("eve"))).json()["items"]
        assert still["id"] == question["id"]


@pytest.mark.parametrize("arguments", ["1" * 5000, "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000])
async def test_arguments_that_nobody_can_read_are_told_so_with_a_state_too(arguments: str) -> None:
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    params = f'"name":"add","requestState":"a.b","arguments":{arguments},"_meta":{json.dumps(meta)}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params}}}}}'
    sent = BOTH | as_("eve") | {"Content-Type": "application/json", "MCP-Protocol-Version": VERSION}
    async with guarded() as place:
        answer = await place.http.post(
            "/mcp", content=body, headers=sent | {"Mcp-Method": "tools/call", "Mcp-Name": "add"}
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] in (-32602, -32700)


async def test_an_answer_that_nobody_can_read_is_a_no() -> None:
    async with guarded() as place:
        session = await old(place, "eve", **FORM)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet", "arguments": {}}}
        async with asyncio.timeout(SOON_S), place.http.stream("POST", "/mcp", json=message, headers=session) as answer:
            lines = (json.loads(line[6:]) async for line in answer.aiter_lines() if line.startswith("data: {"))
            asked = await anext(lines)
            body = f'{{"jsonrpc":"2.0","id":"{asked["id"]}","result":{"1" * 5000}}}'
            sent = session | {"Content-Type": "application/json"}
            assert (await place.http.post("/mcp", content=body, headers=sent)).status_code == 202
            assert (await anext(lines))["result"]["isError"] is True


async def test_who_comes_and_goes_a_hundred_times_leaves_nothing_behind() -> None:
    async with guarded() as place:
        session = await old(place, "eve")
        listen = place.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        before = len(asyncio.all_tasks())

        async def come_and_go(method: str, path: str, **more: Any) -> None:
            for _ in range(10):
                async with place.http.stream(method, path, **more) as answer:
                    assert answer.status_code == 200

        async with asyncio.timeout(SOON_S):
            for _ in range(4):
                await asyncio.gather(
                    come_and_go("GET", "/mcp", headers=session),
                    come_and_go("POST", "/mcp", json=listen, headers=headers(listen) | as_("eve")),
                    come_and_go("GET", "/sse", headers=BOTH | as_("eve")),
                )
        await empty(place)
        assert len(place.mcp.server.hub) == 0
        async with asyncio.timeout(SOON_S):
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - tasks end when they like
                await asyncio.sleep(0.02)


async def test_on_the_oldest_transport_no_more_is_taken_than_is_answered() -> None:
    async with guarded(limits=ServeLimits(requests_each=5)) as place:
        sent = BOTH | as_("eve")
        async with asyncio.timeout(SOON_S), place.http.stream("GET", "/sse", headers=sent) as stream:
            lines = stream.aiter_lines()
            where = (await anext(line async for line in lines if line.startswith("data: ")))[6:]
            call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "hold", "arguments": {}}}
            hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
            assert (await place.http.post(where, json=begin, headers=sent)).status_code == 202
            taken = [await place.http.post(where, json=call | {"id": n}, headers=sent) for n in range(1, 8)]
            assert [one.status_code for one in taken] == [202] * 5 + [429] * 2
            assert taken[-1].headers["retry-after"] == "1"
            assert (await place.http.post(where, json=call, headers=BOTH | as_("ada"))).status_code == 404
        await empty(place)


async def test_on_the_oldest_transport_a_call_goes_on_when_what_came_before_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "MOST_WAITING", 1)
    async with guarded() as place:
        sent = BOTH | as_("eve")
        async with asyncio.timeout(SOON_S), place.http.stream("GET", "/sse", headers=sent) as stream:
            lines = (line[6:] async for line in stream.aiter_lines() if line.startswith("data: "))
            where = await anext(lines)
            hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
            assert (await place.http.post(where, json=begin, headers=sent)).status_code == 202
            assert json.loads(await anext(lines))["id"] == 0
            params = {"name": "steps", "arguments": {}, "_meta": {"progressToken": "t"}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            assert (await place.http.post(where, json=call, headers=sent)).status_code == 202
            heard = [json.loads(await anext(lines))]
            while "id" not in heard[-1]:
                heard.append(json.loads(await anext(lines)))
            assert len(heard) > 3
        await empty(place)


async def test_a_reader_over_mcp_who_takes_nothing_is_cut_off() -> None:
    async with guarded(limits=ServeLimits(drain_s=0.2)) as place:
        message = place.message("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["note://today"]}})
        body = json.dumps(message).encode()
        made = headers(message) | as_("eve") | {"Host": "localhost", "Content-Type": "application/json"}
        head = "".join(f"{name}: {value}\r\n" for name, value in made.items())
        url = place.http.base_url
        with socket.create_connection((url.host, url.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            request = f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
            connection.sendall(request)
            async with asyncio.timeout(SOON_S):
                while not len(place.mcp.server.hub):  # noqa: ASYNC110 - nobody tells when it listens
                    await asyncio.sleep(0.01)
                while len(place.mcp.server.hub):
                    place.mcp.server.hub.updated("note://today")
                    await asyncio.sleep(0)
            await empty(place)


@pytest.mark.parametrize("door", ["calls", "result", "messages", "a2a"])
async def test_who_waits_for_a_result_with_a_revoked_key_waits_no_longer(door: str) -> None:
    doors = Doors()
    turn = {"calls": [{"tool": "hold", "args": {}}]}
    agents = Agents([Agent(name="desk", instructions="Help.")], model=ScriptedModel({"desk": [turn]}))
    crib = Crib(TOOLS, agents=agents, policy=UNGUARDED, deps={"doors": doors})
    keys = Keyring(lambda: crib.store, crib.pipeline.clock.now)
    async with serving(crib, guard=keys, limits=ServeLimits(ping_s=0.05)) as place:
        key, known = await keys.add("ada", by="test")
        http, sent = place.http, {"Authorization": f"Bearer {key}"}
        await http.post("/v1/sessions", json={"id": "s"}, headers=sent)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        match door:
            case "calls":
                asking = http.post("/v1/sessions/s/calls", json={"tool": "hold"}, headers=sent)
            case "result":
                begun = await http.post("/v1/sessions/s/calls", json={"tool": "hold", "wait": False}, headers=sent)
                path = f"/v1/sessions/s/calls/{begun.json()['id']}/result"
                asking = http.get(path, params={"wait": 600}, headers=sent)
            case "messages":
                asking = http.post("/v1/sessions/s/messages", json={"text": "hi", "wait": True}, headers=sent)
            case _:
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
                asking = http.post("/a2a/desk", json=body, headers=sent)
        waiting = asyncio.ensure_future(asking)
        await asyncio.wait_for(doors.entered.wait(), SOON_S)
        async with asyncio.timeout(SOON_S):
            while not place.site.api.gate.under_way:  # noqa: ASYNC110 - nobody tells when it was let in
                await asyncio.sleep(0.01)
        await keys.revoke(known.id, by="test")
        answer = await asyncio.wait_for(waiting, SOON_S)
        doors.go.set()
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


async def test_who_looks_after_the_server_makes_no_session_by_asking_for_a_task_of_others() -> None:
    async with guarded() as place:

        async def ask(name: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            said: dict[str, Any] = (await place.http.post("/a2a/desk", json=body, headers=as_(name))).json()
            return said

        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        task = (await ask("ada", "SendMessage", {"message": message}))["result"]["task"]
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert (await ask("root", method, {"id": task["id"]}))["error"]["code"] == -32001
        every = (await place.http.get("/v1/sessions", headers=as_("root"))).json()["items"]
        assert [one["owner"] for one in every] == ["ada"]
        lengths = [
            len((await ask("ada", "GetTask", {"id": task["id"], "historyLength": most}))["result"]["history"])
            for most in (0, 1, 2, 3, 99)
        ]
        assert lengths == [0, 1, 2, 2, 2]


async def test_front_ends_without_a_key_are_told_what_to_do_next() -> None:
    async with guarded() as place:
        for path in ("/ag-ui/desk", "/ai-sdk/desk", "/a2a/desk"):
            answer = await place.http.post(path, json={})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Bearer realm="toolcrib"'
            assert "toolcrib keys add" in answer.json()["error"]["hint"]

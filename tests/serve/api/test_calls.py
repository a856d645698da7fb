"""Calls over the API: results, accepted calls, keys, waiting, cancelling, and callers that leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, Desk, desk, until
from tests.serve.tools import TOOLS, Doors
from toolcrib import Crib, StreamClosed, tool


@pytest.fixture
async def served(doors: Doors) -> AsyncIterator[Desk]:
    async with desk(Crib(TOOLS, deps={"doors": doors})) as made:
        yield made


async def test_a_call_gives_its_result(served: Desk) -> None:
    session = await served.open("s-1")
    result = await served.call(session, "add", {"a": 40, "b": 2})
    assert (result["ok"], result["data"]) == (True, 42)
    entry = await served.get(f"/sessions/s-1/calls/{result['call']}")
    assert (entry["tool"], entry["status"], entry["args"]) == ("default.add", "succeeded", {"a": 40, "b": 2})
    assert entry["by"] == {"kind": "user", "name": "anyone"}
    assert entry["verdict"]["effect"] == "allow"
    assert entry["result"]["data"] == 42


async def test_a_call_that_fails_is_a_result(served: Desk) -> None:
    session = await served.open()
    answer = await served.ask("POST", f"/sessions/{session}/calls", {"tool": "add", "args": {"a": "x"}})
    assert answer.status_code == 200
    assert answer.json()["failure"]["code"] == "invalid_arguments"
    unknown = await served.call(session, "nothing")
    assert unknown["failure"]["code"] == "not_found"
    broken = await served.call(session, "fails", {"how": "broken"}, background=False)
    assert broken["failure"]["code"] == "internal"
    assert "secret" not in str(broken)


async def test_nobody_has_to_wait(served: Desk, doors: Doors) -> None:
    session = await served.open()
    accepted = await served.ask("POST", f"/sessions/{session}/calls", {"tool": "hold", "wait": False})
    assert accepted.status_code == 202
    call = accepted.json()["id"]
    path = f"/sessions/{session}/calls/{call}/result"
    early = await served.ask("GET", path, params={"wait": 0.01})
    assert (early.status_code, early.json()["call"]) == (202, call)
    short = await served.ask("POST", f"/sessions/{session}/calls", {"tool": "hold", "wait": 0.05})
    assert (short.status_code, short.json()["status"]) == (202, "running")
    doors.go.set()
    assert (await served.get(path, wait=SOON_S))["data"] == "held"


async def test_the_same_key_is_the_same_call(served: Desk) -> None:
    session = await served.open()
    first = await served.call(session, "add", {"a": 1}, key="k")
    body = {"tool": "add", "args": {"a": 1}}
    second = await served.ask("POST", f"/sessions/{session}/calls", body, headers={"Idempotency-Key": "k"})
    assert second.json() == first
    other = {**body, "key": "j"}
    assert await served.refused("POST", f"/sessions/{session}/calls", other, headers={"Idempotency-Key": "k"}) == (
        400,
        "invalid_arguments",
    )


@requirement("aomi.stream.6")
@pytest.mark.parametrize("stops", [False, True])
async def test_a_caller_who_leaves_changes_nothing_unless_asked(served: Desk, doors: Doors, stops: bool) -> None:
    session = await served.open()
    body = {"tool": "hold", "cancel_on_disconnect": stops}
    asking = asyncio.ensure_future(served.ask("POST", f"/sessions/{session}/calls", body))
    async with asyncio.timeout(SOON_S):
        await doors.entered.wait()
        asking.cancel()
        await asyncio.wait([asking])
        if not stops:
            doors.go.set()
        await doors.left.wait()
        async with served.stream(f"/sessions/{session}/events") as events:
            done = await until(events, "done")
    assert done.data["data"]["ok"] is not stops


async def test_a_call_can_be_stopped_and_made_again(served: Desk, doors: Doors) -> None:
    session = await served.open()
    call = (await served.post(f"/sessions/{session}/calls", tool="hold", wait=False))["id"]
    await asyncio.wait_for(doors.entered.wait(), SOON_S)
    assert await served.post(f"/sessions/{session}/calls/{call}/cancel") == {"cancelled": True}
    assert await served.post(f"/sessions/{session}/calls/{call}/cancel") == {"cancelled": False}
    doors.go.set()
    again = (await served.post(f"/sessions/{session}/calls/{call}/again"))["id"]
    assert (await served.get(f"/sessions/{session}/calls/{again}/result", wait=SOON_S))["data"] == "held"
    cancelled = await served.get(f"/sessions/{session}/calls", state="cancelled")
    assert [entry["id"] for entry in cancelled["items"]] == [call]


async def test_calls_are_listed_in_pages(served: Desk) -> None:
    session = await served.open()
    made = [(await served.call(session, "add", {"a": n}))["call"] for n in range(5)]
    found, after = [], None
    while True:
        page = await served.get(f"/sessions/{session}/calls", limit=2, **({} if after is None else {"after": after}))
        found += [entry["id"] for entry in page["items"]]
        after = page.get("next")
        if after is None:
            break
    assert found == made
    lists = await served.get(f"/sessions/{session}/lists")
    assert [entry["id"] for entry in lists["completed"]] == made
    assert (await served.get(f"/sessions/{session}/lists", at=1))["completed"] == []


async def test_what_is_wrong_with_a_request_is_said(served: Desk) -> None:
    session = await served.open()
    path = f"/sessions/{session}/calls"
    for body in ({}, {"tool": 1}, {"tool": "add", "wait": -1}, {"tool": "add", "odd": 1}, [1]):
        assert await served.refused("POST", path, body) == (400, "invalid_arguments")
    torn = await served.ask("POST", path, content=b'{"tool": "add", "args": {')
    assert (torn.status_code, torn.json()["error"]["code"]) == (400, "invalid_arguments")
    assert await served.refused("GET", path, params={"limit": 0}) == (400, "invalid_arguments")
    assert await served.refused("GET", "/nothing") == (404, "not_found")
    wrong = await served.ask("DELETE", path)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
    assert await served.refused("GET", "/sessions/other/calls") == (404, "not_found")
    assert await served.refused("GET", f"{path}/other") == (404, "not_found")


@tool
async def lost() -> str:
    """Lose the connection in the middle."""
    raise StreamClosed


async def test_somebody_who_looked_settles_what_nobody_knew() -> None:
    async with desk(Crib([lost, *TOOLS])) as served:
        session = await served.open()
        result = await served.call(session, "lost")
        assert result["failure"]["code"] == "unknown"
        path = f"/sessions/{session}/calls/{result['call']}"
        settled = await served.post(f"{path}/reconcile", outcome="happened", data="sent", reason="it is in the mail")
        assert (settled["ok"], settled["data"], settled["metadata"]["settled_by"]) == (True, "sent", "anyone")
        assert (await served.get(path))["status"] == "succeeded"
        assert await served.refused("POST", f"{path}/reconcile", {"outcome": "not"}) == (409, "conflict")


async def test_a_background_call_is_queued_however_soon_it_ends() -> None:
    @tool(namespace="default", background=True, read_only=True)
    async def soon() -> str:
        """End at once."""
        return "over"

    async with desk(Crib([soon])) as client:
        session = await client.open()
        answer = await client.call(session, "soon")
        assert answer["data"]["status"] == "queued"
        ended = await client.get(f"/sessions/{session}/calls/{answer['data']['id']}/result", wait=60)
        assert ended["data"] == "over"


@pytest.mark.parametrize("store", ["memory", "postgres"])
async def test_what_is_no_text_is_refused_and_never_a_fault_of_ours(
    store: str, request: pytest.FixtureRequest, doors: Doors
) -> None:
    url = "memory:" if store == "memory" else request.getfixturevalue("postgres_url")
    async with desk(Crib(TOOLS, deps={"doors": doors}, store=url)) as served:
        session = await served.open("s-1")
        for args in (b'{"a": "\xff"}', b"[" * 50_000 + b"]" * 50_000, b'{"a": "\\u0000"}', b'{"\\u0000": 1}'):
            body = b'{"tool": "add", "args": ' + args + b"}"
            answer = await served.ask("POST", f"/sessions/{session}/calls", content=body)
            assert answer.status_code in (200, 400)
            assert "invalid_arguments" in answer.text
        named = await served.ask("POST", f"/sessions/{session}/calls", {"tool": "a\0b"})
        assert named.json()["failure"]["code"] == "not_found"
        for path in ("/sessions/%00", f"/sessions/{session}/calls/%00", f"/sessions/{session}/outputs/%00"):
            assert (await served.ask("GET", path)).status_code == 404
        for path in ("/calls?tool=%00", "/sessions?owner=%00", "/calls?session=%00"):
            assert (await served.ask("GET", path)).status_code == 400


@requirement("security.secret.3")
async def test_a_call_is_not_made_again_without_its_secrets() -> None:
    @tool
    async def log_in(password: SecretStr) -> int:
        """Log in."""
        return len(password.get_secret_value())

    async with desk(Crib([log_in])) as here:
        session = await here.open()
        made = await here.call(session, "log_in", {"password": "hunter2"})
        again = await here.ask("POST", f"/sessions/{session}/calls/{made['call']}/again")
        assert (made["data"], again.status_code, again.json()["error"]["code"]) == (7, 409, "conflict")

"""Two owners try everything against each other, by all routes of the table: a new one is covered by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.api.router import Route
from toolcrib.serve.api.routes import ROUTES as ALL
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal

ROUTES = [route for route in ALL if route.path.startswith("/v1/")]
FOREIGN = [route for route in ROUTES if {"session", "call", "output", "file"} & set(route.names)]
BODIES: dict[str, Any] = {
    "/v1/sessions/{session}/calls": {"tool": "add", "args": {"a": 1}},
    "/v1/sessions/{session}/answers": {"action": "accept", "value": {"name": "Eve"}},
    "/v1/sessions/{session}/tools/client": {"tools": []},
    "/v1/sessions/{session}/why": {"tool": "add", "args": {"a": 1}},
    "/v1/sessions/{session}/narrow": {"namespaces": ["default"]},
    "/v1/sessions/{session}/messages": {"text": "hello"},
    "/v1/sessions/{session}/calls/{call}/reconcile": {"outcome": "not"},
}


@pytest.fixture
async def desks() -> AsyncIterator[dict[str, Desk]]:
    keys = {name: new_key() for name in ("ada", "eve")}
    known = {kept: Principal(name, auth="key") for name, (_, kept) in keys.items()}
    async with desk(Crib(TOOLS), guard=ApiKeys(known)) as made:
        yield {name: made.as_(keys[name][0]) for name in keys}


async def _send(holder: Desk, route: Route, ids: dict[str, str], *, question: str) -> httpx.Response:
    body = BODIES.get(route.path, {}) if route.body is not None else None
    if route.path.endswith("/answers"):
        body = {**(body or {}), "question": question}
    return await holder.ask(route.method, route.path.removeprefix("/v1").format(**ids), body)


@requirement("aomi.open.2")
async def test_what_is_somebody_elses_is_as_unknown_as_what_never_was(desks: dict[str, Desk]) -> None:
    ada, eve = desks["ada"], desks["eve"]
    session = await ada.open("secret-session")
    call = (await ada.post(f"/sessions/{session}/calls", tool="greet", wait=False))["id"]
    (question,) = (await ada.get(f"/sessions/{session}/questions"))["items"]
    before = (await ada.get(f"/sessions/{session}"))["seq"]
    theirs = {"session": session, "call": call, "output": "o", "file": "0" * 64, "run": "r", "seq": "1"}
    never = {"session": "no-session", "call": "no-call", "output": "o", "file": "0" * 64, "run": "r", "seq": "1"}
    mine = await eve.open()
    assert len(FOREIGN) >= 15
    for route in FOREIGN:
        foreign = await _send(eve, route, theirs, question=question["id"])
        unknown = await _send(eve, route, never, question="no-call-1")
        assert foreign.status_code == unknown.status_code == 404, (route.method, route.path, foreign.text)
        assert foreign.json() == unknown.json(), route.path
        if "call" in route.names:  # by way of a session of one's own
            crossed = await _send(eve, route, theirs | {"session": mine}, question=question["id"])
            assert crossed.status_code == 404, (route.method, route.path, crossed.text)
    assert (await ada.get(f"/sessions/{session}"))["seq"] == before
    taken, kept = [(await eve.ask("POST", "/sessions", {"id": id})).json() for id in (session, "toolcrib.keys")]
    assert taken["error"]["code"] == "denied"
    assert "leave it out" in taken["error"]["hint"]
    assert str(kept).replace("toolcrib.keys", session) == str(taken)  # whether somebody has it is not told


@requirement("aomi.open.2")
async def test_a_schedule_of_somebody_else_is_as_unknown_as_one_that_never_was(desks: dict[str, Desk]) -> None:
    ada, eve = desks["ada"], desks["eve"]
    session = await ada.open("secret-session")
    made = await ada.post("/schedules", session=session, tool="add", args={"a": 1}, after=3600)
    call = (await ada.call(session, "add", {"a": 1}))["call"]
    unknown = await eve.ask("DELETE", "/schedules/never")
    for id in (made["id"], made["call"], call):
        foreign = await eve.ask("DELETE", f"/schedules/{id}")
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.text == unknown.text.replace("never", id)
    assert session not in (await eve.ask("GET", "/schedules")).text
    assert (await eve.ask("GET", f"/schedules?session={session}")).status_code == 404
    assert [one["id"] for one in (await ada.get("/schedules"))["items"]] == [made["id"]]


@requirement("aomi.open.2")
async def test_no_schedule_waits_for_a_call_of_somebody_else(desks: dict[str, Desk]) -> None:
    ada, eve = desks["ada"], desks["eve"]
    session, own = await ada.open("secret-session"), await eve.open()
    waiting = (await ada.post(f"/sessions/{session}/calls", tool="greet", wait=False))["id"]
    done = (await ada.call(session, "add", {"a": 1}))["call"]
    wanted = {"session": own, "tool": "add", "args": {"a": 1}}
    unknown = await eve.ask("POST", "/schedules", {**wanted, "when": "never"})
    for call in (waiting, done):
        foreign = await eve.ask("POST", "/schedules", {**wanted, "when": call})
        assert (foreign.status_code, foreign.text) == (unknown.status_code, unknown.text.replace("never", call))


async def test_lists_hold_only_what_is_ones_own(desks: dict[str, Desk]) -> None:
    ada, eve = desks["ada"], desks["eve"]
    session = await ada.open()
    await ada.post(f"/sessions/{session}/calls", tool="greet", wait=False)
    await ada.call(session, "add", {"a": 1})
    for route in ROUTES:
        if (
            route.method == "GET"
            and not route.names
            and route.right == "read"
            and not (route.streams and not route.gives)
        ):
            path = route.path.removeprefix("/v1")
            answer = await eve.ask("GET", path)
            assert answer.status_code < 500, path
            assert session not in answer.text, path
    for path in ("/sessions", "/questions"):
        assert (await eve.get(path, owner="ada"))["items"] == []

"""A key that opens few namespaces, against all that the same owner did with others: by every route of the table, by
every method of the protocols for agents, and by MCP. A new route is covered by itself.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.agent.place import UNGUARDED
from tests.requirements import requirement
from tests.serve.api.place import Desk, desk, good, until
from tests.serve.place import TASKS, Place
from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.events import Event
from toolcrib.serve.api.router import Route
from toolcrib.serve.api.routes import ROUTES
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal

SECRET = "melon-4711"
STREAMS = ("/v1/live", "/v1/questions/events")
WIDE, NARROWED = "wide-session", "narrowed-session"
BODIES: dict[str, Any] = {
    "/v1/sessions": {"id": WIDE, "namespaces": ["forge"]},
    "/v1/sessions/{session}/calls": {"tool": "forge.build"},
    "/v1/sessions/{session}/tools/client": {"tools": []},
    "/v1/sessions/{session}/why": {"tool": "forge.build"},
    "/v1/sessions/{session}/narrow": {"namespaces": ["forge"]},
    "/v1/sessions/{session}/messages": {"text": "hello"},
    "/v1/sessions/{session}/calls/{call}/reconcile": {"outcome": "not"},
    "/v1/signin": {"key": "none"},
    "/ai-sdk/{agent}": {"id": WIDE, "messages": [{"id": "1", "role": "user", "parts": []}]},
}
PARTS = [{"text": "hello"}]


@tool(namespace="forge", read_only=True)
async def build() -> str:
    """Build something."""
    return "built"


@tool(namespace="vault", read_only=True)
async def reveal(word: str) -> str:
    """Say a word again."""
    return f"{word} {SECRET}"


@tool(namespace="vault", destructive=True)
async def burn(word: str) -> str:
    """Burn something."""
    return word


class Keys(NamedTuple):
    """The same server for one owner with two keys, and the ids of what they did with the wider one."""

    wide: Desk
    narrow: Desk
    ids: dict[str, str]
    question: str
    task: str


def _crib() -> Crib:
    said = [{"text": f"It is {SECRET}"}] * 8
    agents = Agents([Agent(name="desk", instructions="Help.", tools=["vault.*"])], model=ScriptedModel({"desk": said}))
    return Crib([build, reveal, burn], agents=agents, default_namespaces=["forge"], policy=UNGUARDED)


@pytest.fixture
async def keys() -> AsyncIterator[Keys]:
    """A session with two namespaces, and one that had two and was narrowed since."""
    made = {name: new_key() for name in ("wide", "narrow")}
    known = {
        made["wide"][1]: Principal("ada", ("forge", "vault"), auth="key"),
        made["narrow"][1]: Principal("ada", ("forge",), auth="key"),
    }
    async with desk(_crib(), guard=ApiKeys(known)) as served:
        wide, narrow = served.as_(made["wide"][0]), served.as_(made["narrow"][0])
        for session in (NARROWED, WIDE):
            await wide.open(session, namespaces=["forge", "vault"])
            done = await wide.call(session, "vault.reveal", {"word": SECRET})
            await wide.post(f"/sessions/{session}/messages", text="Which word?", agent="desk", wait=True)
            await wide.post(f"/sessions/{session}/calls", tool="vault.burn", args={"word": SECRET}, wait=False)
        wanted = {"tool": "vault.reveal", "args": {"word": SECRET}, "after": 3600}
        later = await wide.post("/schedules", session=WIDE, **wanted)
        await wide.post("/schedules", session=NARROWED, **wanted)
        await wide.post(f"/sessions/{NARROWED}/narrow", namespaces=["forge"])
        (asked, *_) = (await wide.get(f"/sessions/{WIDE}/questions"))["items"]
        (run,) = (await wide.get(f"/sessions/{WIDE}/runs"))["items"]
        ids = {"call": done["call"], "run": run["run"], "output": "o", "seq": "2", "agent": "desk", "key": "none"}
        ids |= {
            "file": "0" * 64,
            "schedule": later["id"],
            "server": "none",
            "account": "none",
            "source": "none",
            "tool": "vault.reveal",
            "thread": WIDE,
            "chat": WIDE,
        }
        place = Place(served.api.crib, served.site, served.http)
        more = {"headers": {**wide.headers}, "can": TASKS}
        burnt = await place.call("burn", {"word": SECRET}, **more)
        yield Keys(wide, narrow, ids, asked["id"], burnt["taskId"])


async def _asked(holder: Desk, route: Route, ids: dict[str, str], question: str) -> str:
    """All that a route answers."""
    body = BODIES.get(route.path, {}) if route.body is not None else None
    if route.path.endswith("/answers"):
        body = {"question": question, "action": "accept"}
    if body is not None and "id" in body:
        body = {**body, "id": ids["session"]}
    path = route.path.format(**ids)
    more = {"headers": holder.headers} | ({} if body is None else {"json": body})
    return (await holder.http.request(route.method, path, **more)).text


@requirement("security.tenant.1")
@pytest.mark.parametrize("session", [WIDE, NARROWED])
async def test_no_route_shows_anything_of_a_session_in_which_more_was_open(keys: Keys, session: str) -> None:
    ids = {**keys.ids, "session": session}
    forbidden = {SECRET, WIDE, NARROWED, keys.ids["call"], keys.ids["run"], keys.question}
    asked = 0
    for route in ROUTES:
        if route.path in STREAMS or (route.path == "/a2a/{agent}"):
            continue
        said = await _asked(keys.narrow, route, ids, keys.question)
        told = {word for word in forbidden if word in said.replace(f"Session '{session}'", "")}
        assert told == set(), (route.method, route.path, said[:500])
        asked += 1
    assert asked >= 45
    own = await keys.narrow.open()
    assert (await keys.narrow.call(own, "forge.build"))["data"] == "built"
    assert [one["id"] for one in (await keys.narrow.get("/sessions"))["items"]] == [own]
    assert {one["session"] for one in (await keys.narrow.get("/audit"))["items"]} == {own}
    assert (await keys.narrow.get("/stats"))["now"]["sessions"] == 1
    assert len((await keys.wide.get("/sessions"))["items"]) >= 3


@requirement("security.tenant.1")
@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
async def test_no_stream_of_one_session_and_no_line_of_the_audit_does(keys: Keys, accept: str) -> None:
    for path in (f"/sessions/{WIDE}/events", f"/sessions/{NARROWED}/events", "/audit", f"/sessions/{NARROWED}/export"):
        if (path, accept) == ("/audit", "text/event-stream"):
            continue
        said = (await keys.narrow.ask("GET", path, headers={"Accept": accept})).text
        assert SECRET not in said, path
        assert NARROWED not in said, path


@requirement("security.tenant.1")
@pytest.mark.parametrize("path", ["/live", "/questions/events"])
async def test_streams_of_everything_tell_of_sessions_of_its_own_alone(keys: Keys, path: str) -> None:
    own = await keys.narrow.open()
    async with keys.narrow.stream(path) as events:
        await keys.wide.call(WIDE, "vault.reveal", {"word": SECRET})
        await keys.wide.post(f"/sessions/{WIDE}/calls", tool="vault.burn", args={"word": SECRET}, wait=False)
        offered = [{"name": "show", "description": "Show a window.", "input_schema": {"type": "object"}}]
        good(await keys.narrow.ask("PUT", f"/sessions/{own}/tools/client", {"tools": offered}))
        await keys.narrow.post(f"/sessions/{own}/calls", tool="client.show", wait=False)
        heard = []
        async for event in events:
            heard.append(event)
            if event.kind in ("waiting", "asked"):
                break
    assert {event.data["session"] for event in heard} == {own}
    assert SECRET not in json.dumps([event.data for event in heard])


@requirement("security.tenant.1")
async def test_who_comes_back_to_the_stream_of_everything_is_told_no_more(keys: Keys) -> None:
    own = await keys.narrow.open()
    async with keys.narrow.stream("/live") as events:
        await keys.narrow.call(own, "forge.build")
        seen = await until(events, "done")
    await keys.wide.call(WIDE, "vault.reveal", {"word": SECRET})
    await keys.narrow.call(own, "forge.build")
    async with keys.narrow.stream("/live", **{"Last-Event-ID": seen.id}) as events:
        assert (await anext(events)).data["session"] == own


@requirement("security.tenant.1")
async def test_a_stream_ends_when_its_session_is_widened(keys: Keys) -> None:
    own = await keys.narrow.open()
    async with keys.narrow.stream(f"/sessions/{own}/events") as events:
        assert (await anext(events)).kind == "opened"
        await keys.wide.open(own, namespaces=["forge", "vault"])
        await keys.wide.call(own, "vault.reveal", {"word": SECRET})
        rest = [event async for event in events]
    assert [(event.kind, event.data) for event in rest] == [("end", {"reason": "denied"})]
    assert await keys.narrow.refused("GET", f"/sessions/{own}/events") == (403, "denied")


@requirement("security.tenant.1")
@pytest.mark.parametrize("session", [WIDE, NARROWED])
@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask", "ListTasks", "SendMessage"])
async def test_no_history_of_a2a_does(keys: Keys, session: str, method: str) -> None:
    task = f"{keys.ids['run']}@{session}"
    message = {"messageId": "1", "taskId": task, "contextId": session, "parts": PARTS}
    params = {"id": task, "contextId": session, "message": message}
    for sent in (params, {} if method == "ListTasks" else params):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}
        said = (await keys.narrow.http.post("/a2a/desk", json=body, headers=keys.narrow.headers)).text
        assert SECRET not in said
        assert keys.ids["run"] not in said


@requirement("security.tenant.1")
async def test_no_task_of_mcp_does(keys: Keys) -> None:
    place = Place(keys.wide.api.crib, keys.wide.site, keys.wide.http)
    listed = await place.result("tools/list", headers={**keys.narrow.headers})
    assert [one["name"] for one in listed["tools"]] == ["build"]
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        status, error = await place.error(method, {"taskId": keys.task}, can=TASKS, headers={**keys.narrow.headers})
        never = await place.error(method, {"taskId": "none"}, can=TASKS, headers={**keys.narrow.headers})
        assert (status, error["message"]) == (never[0], never[1]["message"]), method
    told = await place.result("tasks/get", {"taskId": keys.task}, can=TASKS, headers={**keys.wide.headers})
    assert told["taskId"] == keys.task


@requirement("security.tenant.1")
async def test_a_key_that_opens_no_namespace_has_none_over_mcp(keys: Keys) -> None:
    key, kept = new_key()
    async with desk(_crib(), guard=ApiKeys({kept: Principal("eve", (), auth="key")})) as served:
        place = Place(served.api.crib, served.site, served.http)
        listed = await place.result("tools/list", headers={"Authorization": f"Bearer {key}"})
        assert listed["tools"] == []


@requirement("security.tenant.2")
async def test_who_may_not_open_everything_cannot_undo_a_narrowing(keys: Keys) -> None:
    reopened = {"id": NARROWED, "namespaces": ["forge", "vault"]}
    assert await keys.wide.refused("POST", "/sessions", reopened) == (403, "denied")
    for shut in (False, True):
        session = await keys.wide.open(f"granted-{shut}", namespaces=["forge", "vault"], grants=["fs:read:docs"])
        await keys.wide.post(f"/sessions/{session}/narrow", namespaces=["forge"])
        if shut:
            await keys.wide.post(f"/sessions/{session}/close")
        assert await keys.wide.refused("POST", "/sessions", {**reopened, "id": session}) == (403, "denied")
        again = await keys.wide.post("/sessions", id=session, grants=["*"])
        assert again["namespaces"] == ["forge"]
        assert {"allow": ["fs:read:docs"]} in again["grants"]
        assert len(again["grants"]) == 2
        twice = await keys.wide.post("/sessions", id=session, grants=["*"])
        assert twice["grants"] == again["grants"]


@requirement("security.tenant.2")
async def test_the_program_itself_gives_back_what_was_taken(keys: Keys) -> None:
    crib = keys.wide.api.crib
    session = await crib.open(NARROWED, owner="ada", namespaces=["forge", "vault"], grants=["*"])
    assert (session.namespaces, session.grants) == (("forge", "vault"), ({"allow": ["*"]},))
    log: list[Event] = [event async for event in session.events(follow=False) if event.kind == "namespaces"]
    assert [bool(event.fields.get("narrowed")) for event in log[-2:]] == [True, False]
    good(await keys.wide.ask("POST", "/sessions", {"id": NARROWED, "namespaces": ["forge", "vault"]}))

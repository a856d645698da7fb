"""Who sees what: every event by the page of the log and by its stream, and of each only what is meant for the model."""

import asyncio
from typing import Any, NamedTuple

import pytest

from tests.agent.place import UNGUARDED, calls, text
from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from tests.serve.place import serving
from tests.session.place import Gate, Place, first
from toolcrib import Context, Crib, Event, Tool, tool
from toolcrib.agent import Agent, Agents, ScriptedModel

MAIN = Agent(name="main", instructions="M.", tools=["walk", "job"])

TABLE: dict[str, str | None] = {
    "accepted": None,
    "started": None,
    "progress": None,
    "output": None,
    "activity": None,
    "step": None,
    "waiting": None,
    "answered": None,
    "done": "tool: done-mark",
    "done in the background": "note: [[SYSTEM]] Tool result for default.job with id",
    "done in silence": None,
    "notice": None,
    "error": "note: [[SYSTEM]] error-mark",
    "user_state": "note: [[USER_STATE]] Connected wallet: 0xuser_state-mark | Chain ID: unknown | ENS: none",
    "interrupted": "note: [[SYSTEM]] The user interrupted the turn",
    "opened": None,
    "namespaces": None,
    "tools_changed": None,
    "closing": None,
    "closed": None,
}
"""What the model reads of each event; a page of the log and its stream show all of them."""


@tool
async def walk(ctx: Context) -> str:
    """Say everything that a call can say."""
    ctx.progress("progress-mark", 0.5)
    ctx.output("output-mark")
    ctx.activity("activity", {"at": "activity-mark"})
    await ctx.step("step", lambda: "step-mark")
    answer = await ctx.ask("waiting-mark", schema={"type": "string"})
    assert answer.value == "answered-mark"
    return "done-mark"


def job(gate: Gate) -> Tool:
    @tool(background=True)
    async def job(word: str) -> str:
        """Take long."""
        await gate.passed()
        return word

    return job


class Told(NamedTuple):
    """Everything that was told in one session, and what the model was sent at its end."""

    log: list[Event]
    page: list[Any]
    stream: list[Any]
    messages: list[str]

    def mark(self, kind: str) -> str:
        """What would give an event away that the model must not see."""
        return {"done in silence": "silent", "namespaces": "time", "tools_changed": "paint"}.get(kind, f"{kind}-mark")


@pytest.fixture
async def told(place: Place) -> Told:
    """A session in which everything happens."""
    gate = Gate()
    script = {"main": [calls(("walk", {}), ("job", {"word": "late"})), text("walked"), text("end")]}
    model = ScriptedModel(script)
    agents = Agents([MAIN], model=model)
    crib = place.crib(walk, job(gate), agents=agents, policy=UNGUARDED)
    async with desk(crib) as served, asyncio.timeout(80):
        id = await served.open()
        await served.post(f"/sessions/{id}/messages", text="go")
        row = await crib.store.session(id)
        assert row is not None
        session = await crib.open(id, owner=row.owner)
        asked = await first(session, "waiting")
        await session.answer(asked.fields["question"]["id"], "accept", "answered-mark")
        await first(session, "run_finished")
        await session.submit("job", {"word": "silent"}, wake="silent")
        await session.narrow(namespaces=["default"])
        await session.offer([{"name": "paint", "description": "Paints.", "input_schema": {"type": "object"}}])
        await session.set_user({"address": "0xuser_state-mark", "isConnected": True})
        await session.notice("notice-mark")
        await session.error("error-mark")
        await session.interrupt()
        gate.opened.set()
        await session.close()
        session = await crib.open(id, owner=row.owner)
        await session.send("well?")
        log = [event async for event in session.events(follow=False)]
        page, stream = await paged(served, id), await streamed(served, id, log[-1].seq)
    roles = {"user": "note"}
    said = [f"{roles.get(one.role, one.role)}: {one.text}" for one in model.requests[-1].messages]
    return Told(log, page, stream, said)


async def paged(served: Desk, id: str) -> list[Any]:
    found: list[Any] = []
    while page := (await served.get(f"/sessions/{id}/events", after=len(found), limit=7))["items"]:
        found += page
    return found


async def streamed(served: Desk, id: str, last: int) -> list[Any]:
    found: list[Any] = []
    async with served.stream(f"/sessions/{id}/events") as events:
        async for event in events:
            assert (event.id, event.kind) == (str(event.data["seq"]), event.data["kind"])
            found.append(event.data)
            if event.data["seq"] == last:
                return found
    raise AssertionError("the stream ended")


@requirement("aomi.event.1")
async def test_the_table_of_who_sees_what_holds_cell_by_cell(told: Told) -> None:
    for name, read in TABLE.items():
        kind = name.partition(" ")[0]
        assert kind in [event["kind"] for event in told.page], name
        assert kind in [event["kind"] for event in told.stream], name
        if read is None:
            assert [one for one in told.messages[1:] if told.mark(name) in one] == [], name
        else:
            assert len([one for one in told.messages if one.startswith(read)]) == 1, name
    wanted = [read for read in TABLE.values() if read is not None]
    ours = ("system: M.", "note: go", "assistant: ", "assistant: walked", "note: well?", 'tool: {"status":"queued"')
    rest = [one for one in told.messages if not one.startswith((*wanted, *ours))]
    assert rest == []  # nothing else


@requirement("aomi.event.1")
async def test_the_page_and_the_stream_carry_the_same_events(told: Told) -> None:
    assert told.page == told.stream
    shown = [(one["seq"], one["kind"], one.get("call"), one["data"]) for one in told.page]
    assert shown == [(event.seq, event.kind, event.call, event.fields) for event in told.log]


# Labels


@tool(read_only=True)
async def look(city: str, day: str = "today") -> str:
    """Look."""
    return city


OFFERED = {"name": "paint", "description": "Paints.", "input_schema": {"type": "object", "properties": {}}}


@requirement("aomi.topic.2")
@pytest.mark.parametrize("topics", [True, False])
async def test_only_a_model_is_asked_for_topics(place: Place, topics: bool) -> None:
    model = ScriptedModel({"main": [calls(("look", {"city": "Oslo", "topic": "Weather"})), text("ok")]})
    agents = Agents([Agent(name="main", tools=["look", "paint"], topics=topics)], model=model)
    async with serving(place.crib(look, agents=agents, policy=UNGUARDED)) as served, asyncio.timeout(80):
        crib: Crib = served.crib
        session = await crib.open("s", owner="local")
        await session.offer([OFFERED])
        await session.send("go")
        seen = {one.name: one.schema for one in model.requests[0].tools}
        log = [event async for event in session.events(follow=False)]
        listed = await served.result("tools/list")
        shown = [await served.http.get(f"/v1{path}") for path in ("/tools", "/tools/default.look", "/openapi.json")]
    for name in ("look", "client__paint"):
        assert ("topic" in seen[name]["properties"], "topic" in seen[name].get("required", ())) == (topics, topics)
    assert (seen["look"]["properties"]["day"]["type"] == "string") is not topics
    assert "topic" not in look.input_schema["properties"]
    assert "look" in str(listed)
    assert "topic" not in str(listed)
    assert [answer.status_code for answer in shown] == [200] * 3
    assert [name for answer in shown for name in _properties(answer.json()) if name == "topic"] == []
    offered = next(event.fields["client"] for event in log if event.kind == "tools_changed")
    assert offered[0]["input_schema"] == OFFERED["input_schema"]


def _properties(node: Any) -> list[str]:
    """The names of all properties that schemas describe, at any depth."""
    if isinstance(node, list):
        return [name for inner in node for name in _properties(inner)]
    if not isinstance(node, dict):
        return []
    own = list(node["properties"]) if isinstance(node.get("properties"), dict) else []
    return own + [name for inner in node.values() for name in _properties(inner)]

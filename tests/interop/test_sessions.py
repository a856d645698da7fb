"""Real sessions seen from outside: tools of other systems as client tools, and one log told to each of them."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.observers import log, parked
from tests.interop.observers import known, tags
from tests.requirements import requirement
from tests.shared import nonempty
from toolcrib import Context, Crib, Event, Handover, Question, Result, Session, ToolFailure, tool
from toolcrib.interop import aios, aomi, awaken, distri
from toolcrib.testing import check_index

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
AIOS = json.dumps(
    [
        {"name": "say", "description": "Say it", "input_schema": TEXT, "timeout_secs": 5},
        {"name": "wipe", "description": "Wipe", "input_schema": {}, "annotations": {"requires_confirmation": True}},
    ]
)
AWAKEN = json.dumps([{"id": "pick", "name": "Picker", "description": "Pick a colour", "parameters": TEXT}])


async def offered(session: Session) -> None:
    tools = [aios.to_tool(definition) for definition in json.loads(AIOS)]
    await session.offer([*tools, *(awaken.to_tool(descriptor) for descriptor in json.loads(AWAKEN))])


@requirement("contract.interop.3", "contract.interop.6")
async def test_tools_of_aios_and_awaken_are_offered_called_and_answered() -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        await offered(session)
        assert [found.id for found in session.tools()] == ["client.pick", "client.say", "client.wipe"]

        asked = await parked(session, "say", {"text": "hi"})
        answer = aios.from_result(asked.call, "say", Result({"said": "hi"}))
        read = aios.to_result(aios.loads("ToolResult", aios.dumps("ToolResult", answer)))
        await session.answer(asked.id, "accept", read.data)
        written = aios.from_result(asked.call, "say", await session.result(asked.call))
        assert (written["output"], written["is_error"]) == ({"said": "hi"}, False)

        asked = await parked(session, "pick", {"text": "sky"})
        ticket = awaken.loads("SuspendTicket", awaken.dumps("SuspendTicket", awaken.from_question(asked)))
        assert awaken.to_call(ticket["pending"]) == ("pick", {"text": "sky"}, asked.call, ())
        resume = awaken.to_answer({"decision_id": "d1", "action": "resume", "result": "blue"}, asked.id, "bob")
        for _ in range(2):
            await session.answer(asked.id, resume.action, resume.value, actor=resume.actor, key=resume.key)
        result = await session.result(asked.call)
        assert awaken.from_result("pick", result) == {
            "tool_name": "pick",
            "status": "success",
            "data": "blue",
            "message": None,
        }


@requirement("contract.interop.4")
async def test_what_a_caller_requests_and_what_a_client_fails_changes_nothing_else() -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        await offered(session)
        call = {"call_id": "p", "tool_name": "wipe", "input": {}, "requested_capabilities": ["*"]}
        wanted = aios.to_call(call)
        asked = await parked(session, wanted.tool, wanted.args, provider_id=wanted.provider_id)
        assert (asked.kind, wanted.requested) == ("confirm", ("*",))
        no = aios.to_answer({"approval_id": asked.id, "decision": "denied"}, "bob")
        await session.answer(asked.id, no.action, actor=no.actor, key=no.key)
        result = await session.result(asked.call)
        assert aios.to_outcome(aios.from_result("p", "wipe", result))["status"] == "failure"

        asked = await parked(session, "say", {"text": "hi"})
        said = {"part_type": "data", "data": {"error": {"code": "unavailable", "message": "no voice"}}}
        response = {"tool_call_id": asked.call, "tool_name": "say", "parts": [said]}
        failed = distri.to_answer(response, asked.id, "bob")
        await session.answer(asked.id, failed.action, reason=failed.reason)
        assert str((await session.result(asked.call)).failure) == "[failed] no voice"


@tool(destructive=True)
async def refund(order: str, cents: int = 5) -> dict[str, Any]:
    """Refund an order."""
    return {"order": order, "cents": cents}


@tool
async def ask_name(ctx: Context) -> str:
    """Ask for a name."""
    return str((await ctx.ask("Who?", schema={"type": "string"})).value)


@tool
async def work(ctx: Context) -> str:
    """Work and tell of it."""
    ctx.progress("half", 0.5, loaded=1, total=2)
    ctx.activity("plan", {"steps": 2})
    ctx.activity_delta("plan", {"op": "replace", "path": "/steps", "value": 3})
    ctx.output("piece")
    return "worked"


@tool
async def transfer() -> Result:
    """Hand over to another agent."""
    return Result({"status": "transferred"}, handover=Handover("bob", "his field"))


@tool(background=True)
async def later(ctx: Context) -> str:
    """Finish later."""
    ctx.output("soon")
    return "finished"


@tool
async def broken() -> None:
    """Fail on purpose."""
    raise ToolFailure("unavailable", "The printer is away", hint="Try the other one")


async def told() -> tuple[list[Event], dict[str, Result]]:
    """The log of a session in which everything happened, and the results of its calls."""
    async with Crib([refund, ask_name, work, transfer, later, broken]) as crib:
        session = await crib.open(owner="ada")
        for name, action in (("o1", "accept"), ("o2", "decline")):
            asked = await parked(session, "refund", {"order": name}, turn=f"turn-{name}")
            await session.answer(asked.id, action, reason=None if action == "accept" else "too much")
        asked = await parked(session, "ask_name")
        await session.answer(asked.id, "accept", "Ada")
        await session.offer([{"name": "sign", "description": "Sign", "input_schema": TEXT}])
        asked = await parked(session, "sign", {"text": "tx"})
        await session.answer(asked.id, "accept", {"sig": "0x1"})
        for name in ("work", "transfer", "broken", "later", "nowhere"):
            await session.submit(name)
        await session.notice("Backend connected")
        events = [event async for event in session.events(follow=False) if event.kind == "accepted"]
        results = {event.call or "": await session.result(event.call or "") for event in events}
        return await log(session), results


@pytest.fixture
async def session_log() -> tuple[list[Event], dict[str, Result]]:
    return await told()


Told = tuple[list[Event], dict[str, Result]]


def accepted(events: list[Event]) -> dict[str, tuple[str, Any]]:
    """Name and arguments of each call."""
    found = [event for event in events if event.kind == "accepted"]
    return {event.call or "": (event.fields["tool"].rpartition(".")[2], event.fields["args"]) for event in found}


@requirement("contract.interop.14", "contract.interop.9", "contract.interop.8")
async def test_a_session_is_told_to_awaken_and_nothing_is_lost(session_log: Told) -> None:
    events, results = session_log
    made = awaken.replay(events, "s1")
    read = [awaken.loads("AgentEvent", awaken.dumps("AgentEvent", event)) for event in made]
    assert read == made == known("awaken", made)
    ready = [event for event in read if event["event_type"] == "tool_call_ready"]
    assert {event["id"]: (event["name"], event["arguments"]) for event in ready} == accepted(events)
    done = {event["id"]: event for event in read if event["event_type"] == "tool_call_done"}
    for call, result in results.items():
        again = awaken.to_result(done[call]["result"])
        assert (again.data, again.failure, again.ok) == (
            result.data,
            result.failure,
            done[call]["outcome"] == "succeeded",
        )
    assert {"tool_call_resumed", "tool_call_cancel", "tool_call_stream_delta", "activity_delta"} <= {
        *tags(read, "event_type")
    }
    activities = [event["activity_type"] for event in read if event["event_type"] == "activity_snapshot"]
    assert {*activities} == {"tool-call-progress", "plan", "agent-handover"}
    tickets = [event["result"]["suspension"] for event in read if event.get("outcome") == "suspended"]
    assert [awaken.to_question(ticket).kind for ticket in tickets] == ["confirm", "confirm", "input", "client"]
    for path in awaken.call_statuses(events).values():
        assert all(awaken.follows("tool_call", a, b) for a, b in itertools.pairwise(path))


@requirement("contract.interop.14", "contract.interop.11")
async def test_a_session_is_told_to_distri_and_nothing_is_lost(session_log: Told) -> None:
    events, results = session_log
    made = distri.replay(events)
    read = [distri.loads("AgentEventType", distri.dumps("AgentEventType", event)) for event in made]
    assert read == made == known("distri", made)
    calls = [call for event in read if event["type"] == "tool_calls" for call in event["tool_calls"]]
    assert {call["tool_call_id"]: (call["tool_name"], call["input"]) for call in calls} == accepted(events)
    responses = [response for event in read if event["type"] == "tool_results" for response in event["results"]]
    assert {response["tool_call_id"] for response in responses} == {*results}
    for response in responses:
        again, result = distri.to_result(response), results[response["tool_call_id"]]
        assert again.data == result.data
        if result.failure is not None and again.failure is not None:
            assert (again.failure.code, again.failure.message) == (result.failure.code, result.failure.message)
    (handover,) = [event for event in read if event["type"] == "agent_handover"]
    assert (handover["to_agent"], handover["reason"]) == ("bob", "his field")
    statuses = distri.task_statuses(events)
    assert (statuses[0], statuses.count("input_required"), statuses[-1]) == ("pending", 4, "completed")


@requirement("contract.interop.14", "contract.interop.5")
async def test_a_session_is_told_to_aios_and_nothing_is_lost(session_log: Told) -> None:
    events, results = session_log
    made = aios.replay(events)
    read = [aios.loads("EventKind", aios.dumps("EventKind", event)) for event in made]
    assert read == made == known("aios", made)
    requested = [event for event in read if event["type"] == "ToolCallRequested"]
    assert {event["call_id"]: (event["tool_name"], event["arguments"]) for event in requested} == accepted(events)
    completed = {event["call_id"]: event for event in read if event["type"] == "ToolCallCompleted"}
    failed = {event["call_id"]: event for event in read if event["type"] == "ToolCallFailed"}
    assert {*completed} == {call for call, result in results.items() if result.ok}
    assert {*failed} == {call for call, result in results.items() if not result.ok}
    assert all(completed[call]["result"]["output"] == results[call].data for call in completed)
    assert sorted(aios.read_error(event["error"]).code for event in failed.values()) == [
        "denied",
        "failed",
        "not_found",
    ]
    decisions = [event["decision"] for event in read if event["type"] == "ApprovalResolved"]
    assert (decisions, tags(read, "type").count("ApprovalRequested")) == (["approved", "denied"], 2)
    assert tags(read, "type").count("Custom") == 1


@requirement("contract.interop.14", "contract.interop.12")
async def test_a_session_is_told_to_aomi(session_log: Told) -> None:
    events, _ = session_log
    made = aomi.replay(events)
    background = next(event.call for event in events if event.kind == "accepted" and event.fields.get("background"))
    assert {"status": "queued", "id": background} in made
    callbacks = [event["AsyncCallback"] for event in made if "AsyncCallback" in event]
    assert [(one["type"], one["result"]) for one in callbacks] == [
        ("tool_update", "soon"),
        ("tool_complete", "finished"),
    ]
    assert sum("InlineCall" in event for event in made) == 4
    assert {"SystemNotice": "Backend connected"} in made


async def test_a_real_question_is_the_same_after_its_ticket(session_log: Told) -> None:
    events, _ = session_log
    questions = [Question(**event.fields["question"]) for event in events if event.kind == "waiting"]
    for asked in nonempty(questions):
        again = awaken.to_question(awaken.from_question(asked))
        assert (again.call, again.kind, again.resume) == (asked.call, asked.kind, asked.resume)
        assert (again.arguments, again.schema) == (asked.arguments, asked.schema)


LATER = {"name": "swap", "namespace": "dex", "id": "a2", "call_id": None, "is_async": True}
SAVED: dict[str, Any] = {
    "namespaces": ["default", "dex"],
    "available_tools": ["test_tool"],
    "completed_calls": [
        {"call_id": "a1", "tool_name": "test_tool", "sync": True, "result": {"Ok": {"status": "success"}}},
        {"metadata": LATER, "result": {"Err": "no gas"}, "has_more": False},
        {"metadata": LATER, "result": {"Ok": "half"}, "has_more": True},
    ],
}


@requirement("aomi.table.5")
@pytest.mark.parametrize("tools", [["test_tool"], {"test_tool": {"is_async": False}}], ids=["list", "map"])
async def test_a_saved_state_of_aomi_is_taken_in_and_delivered_once(tools: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/toolcrib.db"
    async with Crib(store=url) as crib:
        session = await crib.open("s1", owner="ada")
        for expected in (2, 0):
            assert len(await aomi.import_state(session, {**SAVED, "available_tools": tools})) == expected
        assert session.namespaces == ("default",)
        await session.close()
    async with Crib(store=url) as crib:
        session = await crib.open("s1", owner="ada")
        good, bad = await session.completed(consumer="model")
        assert (good.tool, good.provider_id, good.result) == ("default.test_tool", "a1", Result({"status": "success"}))
        assert bad.result is not None
        assert (bad.tool, str(bad.result.failure)) == ("dex.swap", "[failed] no gas")
        assert (good.background, bad.background) == (False, True)
        await check_index(crib.store, session.id)
        await session.consume("model", bad.seq)
        assert await session.completed(consumer="model") == []

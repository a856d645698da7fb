"""One program, two cribs: what it does with a session in its own process it does with one of a server, word for word.

`open` is all that differs. Each test runs twice, and what it expects is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.client.place import served
from tests.client.tools import Doors, agents, crib
from toolcrib import Crib, Event, Question, Refused, Result, Session
from toolcrib.client import RemoteCrib, RemoteSession
from toolcrib.types import Closed, Entry

Any_ = Session | RemoteSession


class Here(NamedTuple):
    crib: Crib | RemoteCrib
    doors: Doors

    async def open(self, id: str = "s-1") -> Any_:
        return await self.crib.open(id, owner="ada", namespaces=["shop"])


@pytest.fixture(params=["embedded", "remote"])
async def here(request: pytest.FixtureRequest) -> AsyncIterator[Here]:
    if request.param == "embedded":
        async with crib(agents=agents()) as made:
            yield Here(made, made.pipeline.deps[Doors])
    else:
        async with served(agents=agents()) as place, await place.remote() as remote:
            yield Here(remote, place.doors)


@pytest.fixture
async def session(here: Here) -> Any_:
    return await here.open()


async def log_of(session: Any_, **which: Any) -> list[Event]:
    return [event async for event in session.events(**which)]


async def asked(session: Any_, call: str) -> Question:
    """The question of a call, when it comes up."""
    async for event in session.events(call=call):
        if event.kind == "waiting":
            (found,) = [one for one in await session.questions() if one.id == event.fields["question"]["id"]]
            return found
    raise AssertionError("nothing was asked")


async def test_a_result_is_a_result(session: Any_) -> None:
    assert await session.call("shop.add", {"a": 2, "b": 3}) == Result(5)
    assert await session.call("add", '{"a": 2}') == Result(3)
    assert (await session.call("add", b'{"a": 1}', label="One more", provider_id="p-1")).data == 2
    entry = (await session.completed())[-1]
    assert (entry.label, entry.provider_id, entry.status) == ("One more", "p-1", "succeeded")


@pytest.mark.parametrize(
    ("tool", "args", "code", "words", "hint"),
    [
        ("broken", {"how": "paint"}, "failed", "no paint left", "buy some"),
        ("broken", {"how": "bug"}, "internal", "", None),
        ("add", {"a": "x"}, "invalid_arguments", "a: ", None),
        ("add", "{no json", "invalid_arguments", "", None),
        ("nothing", {}, "not_found", "nothing", None),
        ("forge.build", {}, "denied", "forge", None),
    ],
)
async def test_a_failure_is_a_result(
    session: Any_, tool: str, args: Any, code: str, words: str, hint: str | None
) -> None:
    result = await session.call(tool, args)
    assert result.failure is not None
    assert (result.ok, result.failure.code) == (False, code)
    assert words in result.failure.message
    assert "secret" not in result.text
    assert hint is None or result.failure.hint == hint
    assert [entry.result for entry in await session.completed()] == [result]


async def test_a_call_in_the_background_is_followed_to_its_end(session: Any_, here: Here) -> None:
    at_once = await session.call("parcel", {"n": 1})
    assert at_once.data["status"] == "queued"
    here.doors.go.set()
    assert (await session.result(at_once.data["id"])).data == "parcel 1"
    call = await session.submit("parcel", {"n": 2})
    assert (call.session, call.tool, call.args, call.background) == ("s-1", "shop.parcel", {"n": 2}, True)
    assert [event.kind for event in await log_of(session, call=call.id)][-1] == "done"
    nodes = await session.progress()
    assert [(node["tool_name"], node["status"], node["message"]) for node in nodes] == [
        ("parcel", "done", "packing")
    ] * 2


async def test_a_key_is_one_call(session: Any_, here: Here) -> None:
    first = await session.call("charge", {"n": 1}, key="k-1")
    assert await session.call("charge", {"n": 1}, key="k-1") == first
    assert (await session.submit("charge", {"n": 1}, key="k-1")).id == (await session.completed())[0].id
    assert here.doors.ran == ["charge 1"]


async def test_an_approver_edits_what_will_run(session: Any_) -> None:
    call = await session.submit("refund", {"order": "A-7", "cents": 500})
    question = await asked(session, call.id)
    assert (question.kind, question.tool, question.resume, question.session) == ("confirm", "shop.refund", "run", "s-1")
    assert (question.arguments, question.call) == ({"order": "A-7", "cents": 500}, call.id)
    changed = {"order": "A-7", "cents": 50}
    answer = await session.answer(question.id, "accept", arguments=changed, reason="too much", key="a-1")
    assert (answer.actor, answer.action, answer.arguments, answer.reason) == ("ada", "accept", changed, "too much")
    assert await session.answer(question.id, "accept", arguments=changed, reason="too much", key="a-1") == answer
    result = await session.result(call.id)
    assert (result.data, result.metadata["edited"]) == ({"order": "A-7", "cents": 50}, {"cents": 50})
    with pytest.raises(Refused) as refused:
        await session.answer(question.id, "decline", key="a-2")
    assert refused.value.code == "already_answered"
    assert await session.questions() == []


async def test_a_person_may_decline(session: Any_) -> None:
    call = await session.submit("refund", {"order": "A-7", "cents": 500})
    await session.answer((await asked(session, call.id)).id, "decline", reason="not now")
    result = await session.result(call.id)
    assert (result.failure and (result.failure.code, result.failure.message)) == ("declined", "not now")


async def test_a_tool_asks_and_an_answer_has_to_fit(session: Any_) -> None:
    call = await session.submit("greet")
    question = await asked(session, call.id)
    assert (question.kind, question.prompt, question.key) == ("input", "What is your name?", "name")
    assert question.schema is not None
    assert question.schema["required"] == ["name"]
    with pytest.raises(Refused) as refused:
        await session.answer(question.id, "accept", {"nom": "Ada"})
    assert refused.value.code == "invalid_arguments"
    await session.answer(question.id, "accept", {"name": "Ada"})
    assert (await session.result(call.id)).data == "Hello, Ada!"


async def test_stop_means_stop(session: Any_, here: Here) -> None:
    call = await session.submit("hold")
    await here.doors.entered.wait()
    assert [entry.status for entry in await session.ongoing()] == ["running"]
    assert await session.cancel(call.id)
    assert here.doors.left.is_set()
    assert not await session.cancel(call.id)
    assert (await session.status(call.id)).status == "cancelled"
    here.doors.entered.clear()
    await session.submit("hold")
    await here.doors.entered.wait()
    assert await session.interrupt() == 1


async def test_a_caller_who_leaves_may_take_the_call_along(session: Any_, here: Here) -> None:
    caller = asyncio.ensure_future(session.call("hold", cancel_on_disconnect=True))
    await here.doors.entered.wait()
    caller.cancel()
    await here.doors.left.wait()
    (entry,) = await session.ongoing() or await session.completed()
    assert (await session.result(entry.id)).failure is not None
    assert (await session.status(entry.id)).status == "cancelled"


async def test_a_log_is_replayed_and_followed(session: Any_) -> None:
    call = await session.submit("count", {"upto": 3, "text": "\u2028\r\n\n\x85"})
    whole = await log_of(session, call=call.id)
    kinds = [event.kind for event in whole]
    assert (kinds[0], kinds[-1], kinds.count("output")) == ("accepted", "done", 3)
    assert all(event.call == call.id for event in whole)
    assert whole[-1].fields["data"] == "\u2028\r\n\n\x852 "
    assert await log_of(session, call=call.id, after=whole[2].seq) == whole[3:]
    assert await log_of(session, call=call.id, follow=False) == whole
    every = await log_of(session, follow=False)
    assert [event.seq for event in every] == list(range(1, len(every) + 1))
    assert await log_of(session, after=3, follow=False) == every[3:]
    following = session.events(after=every[-1].seq)
    next = asyncio.ensure_future(anext(following))
    await session.set_user({"address": "0x1"})
    assert ((await next).kind, (await next).seq) == ("user_state", every[-1].seq + 1)
    await following.aclose()  # type: ignore[attr-defined]


async def test_the_three_lists_know_the_past(session: Any_) -> None:
    waits = await session.submit("refund", {"order": "A-7", "cents": 1})
    await asked(session, waits.id)
    await session.call("add", {"a": 1})
    (waiting,), done = await session.unresolved(), await session.completed()
    assert isinstance(waiting, Entry)
    assert (waiting.id, waiting.status, waiting.result) == (waits.id, "waiting", None)
    assert [(entry.tool, entry.status, entry.result) for entry in done] == [("shop.add", "succeeded", Result(2))]
    assert done == [await session.status(done[0].id)]
    assert (await session.unresolved(at=1), await session.completed(at=1)) == ([], [])
    assert [entry.status for entry in await session.unresolved(at=2)] == ["queued"]
    assert [entry.id for entry in await session.completed(at=done[0].seq)] == [done[0].id]


async def test_state_and_user_last_as_long_as_the_session(session: Any_, here: Here) -> None:
    assert (await session.call("remember", {"thing": "hat"})).data == {}
    assert (await session.call("remember", {"thing": "coat"})).data == {"thing": "hat"}
    await session.set_user({"address": "0x1"})
    assert (await session.call("who")).data == session.user == {"isConnected": False, "address": "0x1"}
    again = await here.open()
    assert (again.user, again.namespaces, again.owner, again.id) == (session.user, ("shop",), "ada", "s-1")


async def test_a_large_output_is_read_in_pieces(session: Any_) -> None:
    result = await session.call("large")
    id = result.metadata["spilled"]["output"]
    assert "no play" in await session.output(id, 0, 1000)
    assert await session.output(id, 0, 10) + await session.output(id, 10, 10) == await session.output(id, 0, 20)


async def test_a_session_closes_and_loses_nothing(session: Any_, here: Here) -> None:
    call = await session.submit("refund", {"order": "A-7", "cents": 1})
    await asked(session, call.id)
    await session.call("add", {"a": 1})
    assert await session.close(timeout=5) == Closed(finished=0, timed_out=0, waiting=1, undelivered=1)
    refused = (await session.call("add", {"a": 1})).failure
    assert refused is not None
    assert (refused.code, refused.message, refused.retryable) == ("unavailable", "Session is closing", True)
    with pytest.raises(Refused):
        await session.close(timeout=-1)
    again = await here.open()
    assert [question.call for question in await again.questions()] == [call.id]


async def test_rights_are_taken_away(session: Any_) -> None:
    with pytest.raises(Refused) as refused:
        await session.narrow(namespaces=["shop", "forge"])
    assert refused.value.code == "denied"
    await session.narrow(namespaces=[])
    assert session.namespaces == ()
    failed = (await session.call("shop.add", {"a": 1})).failure
    assert failed is not None
    assert failed.code == "denied"


async def test_a_client_runs_its_own_tools(session: Any_) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    await session.offer([{"name": "show", "description": "Show a window.", "input_schema": schema}])
    call = await session.submit("client.show", {"title": "hello"})
    question = await asked(session, call.id)
    assert (question.kind, question.arguments) == ("client", {"title": "hello"})
    await session.answer(question.id, "accept", {"shown": True})
    assert (await session.result(call.id)).data == {"shown": True}


async def test_an_agent_hands_over_and_waits_for_a_person(session: Any_) -> None:
    outcome = await session.send("What was order A-7?", key="m-1")
    assert (outcome.status, outcome.answer, outcome.turns) == ("done", "It was 12.", 3)
    assert (await session.send("What was order A-7?", key="m-1")).run == outcome.run
    handovers = [event.fields["to"] for event in await log_of(session, follow=False) if event.kind == "handover"]
    assert handovers == ["billing"]
    waits = await session.send("Refund it.")
    (question,) = waits.questions
    assert (waits.status, question.tool) == ("waiting", "shop.refund")
    assert question in await session.questions()
    await session.answer(question.id, "accept")
    async for event in session.events():
        if event.kind == "run_finished" and event.fields["run"] == waits.run:
            assert event.fields["answer"] == "Refunded."
            break


async def test_what_is_not_there_is_refused(session: Any_) -> None:
    for asks in (session.result("none"), session.status("none"), session.cancel("none"), session.output("none")):
        with pytest.raises(Refused) as refused:
            await asks
        assert refused.value.code == "not_found"
    for follow in (True, False):
        with pytest.raises(Refused) as refused:
            await log_of(session, call="none", follow=follow)
        assert refused.value.code == "not_found"
    with pytest.raises(TypeError, match="unknown option 'colour'"):
        await session.call("add", {"a": 1}, colour="red")  # type: ignore[call-arg]


async def test_sessions_and_questions_of_the_crib(here: Here) -> None:
    for id in ("s-1", "s-2", "s-3"):
        await (await here.open(id)).submit("refund", {"order": id, "cents": 1})
    rows = await here.crib.sessions("ada", limit=2)
    rest = await here.crib.sessions("ada", limit=2, before=rows[-1])  # type: ignore[arg-type]
    assert sorted(row.id for row in (*rows, *rest)) == ["s-1", "s-2", "s-3"]
    assert all(row.owner == "ada" and row.created_at <= row.updated_at for row in (*rows, *rest))
    session = await here.open("s-3")
    await asked(session, (await session.unresolved())[0].id)
    assert {one.session for one in await here.crib.questions("ada")} == {"s-1", "s-2", "s-3"}

"""Questions of servers, old and new, and tasks: they wait in the log, survive a restart, and are answered once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sources.mcp.peers.raw import STATE
from tests.sources.mcp.place import ALLOW, asked, code, kit, message, opened, raw
from toolcrib import Crib, Session

pytestmark = pytest.mark.process

RED = {"color": "red"}


async def heard(session: Session, name: str = "raw") -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = (await session.call(f"{name}.heard", {})).data["heard"]
    return said


def calls(said: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one["params"] for one in said if one["method"] == "tools/call" and one["params"]["name"] == name]


@requirement("mcp.client.2")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_question_of_a_server_waits_in_the_log_with_its_form(era: str) -> None:
    async with opened(raw(era)) as (_, session):
        call = await session.submit("raw.ask", {})
        question = await asked(session, call.id)
        assert question["kind"] == "input"
        assert "raw asks: Which color?" in question["prompt"]
        assert question["schema"]["required"] == ["color"]
        with pytest.raises(Exception, match="does not fit"):
            await session.answer(question["id"], "accept", {"colour": 1})
        await session.answer(question["id"], "accept", RED)
        assert (await session.result(call.id)).data == "red"


@requirement("mcp.client.2")
async def test_an_old_server_is_asked_once_though_the_call_waits_twice() -> None:
    async with opened(raw()) as (_, session):
        call = await session.submit("raw.ask_twice", {})
        await session.answer((await asked(session, call.id))["id"], "accept", RED)
        second = await asked(session, call.id)
        assert "second" in second["prompt"]
        await session.answer(second["id"], "accept", {"color": "blue"})
        assert (await session.result(call.id)).data == "red+blue"
        assert len(calls(await heard(session), "ask_twice")) == 1


@requirement("mcp.client.2", "mcp.client.6")
async def test_questions_of_a_new_server_come_one_by_one_and_round_by_round() -> None:
    async with opened(raw("modern")) as (_, session):
        call = await session.submit("raw.ask_twice", {})
        for color in ("red", "green", "blue"):
            await session.answer((await asked(session, call.id))["id"], "accept", {"color": color})
        assert (await session.result(call.id)).data == "red+green+blue"
        assert [said.get("requestState") for said in calls(await heard(session), "ask_twice")] == [
            None,
            "one",
            "red+green",
        ]


@requirement("mcp.client.6")
async def test_the_state_of_a_new_server_is_sent_back_byte_for_byte_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    async with opened(raw("modern"), store=store) as (_, session):
        call = await session.submit("raw.ask", {})
        question = await asked(session, call.id)
    async with Crib([raw("modern")], store=store, policy=ALLOW) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question["id"], "accept", RED)
        assert (await session.result(call.id)).data == "red"
        (sent,) = calls(await heard(session), "ask")
        assert sent["requestState"] == STATE
        assert sent["inputResponses"] == {"color": {"action": "accept", "content": RED}}


@requirement("mcp.client.6")
async def test_a_state_without_a_question_is_only_sent_back() -> None:
    async with opened(raw("modern")) as (_, session):
        assert (await session.call("raw.later", {})).ok
        assert [said.get("requestState") for said in calls(await heard(session), "later")] == [None, "s"]


async def test_a_server_that_asks_for_roots_is_told_that_there_are_none_where_no_client_has_any() -> None:
    async with opened(raw("modern")) as (_, session):
        assert not (await session.call("raw.roots", {})).ok  # it asks the same each time
        sent = calls(await heard(session), "roots")
        assert sent[1]["inputResponses"] == {"r": {"roots": []}}


@requirement("mcp.client.2", "mcp.client.5")
async def test_a_call_of_an_old_server_that_is_gone_when_it_is_answered_is_unknown(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    async with opened(raw(), store=store) as (_, session):
        call = await session.submit("raw.ask", {})
        question = await asked(session, call.id)
    async with Crib([raw()], store=store, policy=ALLOW) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question["id"], "accept", RED)
        assert code(await session.result(call.id)) == "unknown"
        assert calls(await heard(session), "ask") == []


@requirement("mcp.client.2", "mcp.client.5")
async def test_one_that_may_be_repeated_is_sent_again_and_finds_its_answer(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    async with Crib([_repeatable()], store=store, policy=ALLOW) as crib:
        session = await crib.open("s", owner="ada", namespaces=["raw"])
        call = await session.submit("raw.ask", {})
        question = await asked(session, call.id)
    async with Crib([_repeatable()], store=store, policy=ALLOW) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question["id"], "accept", RED)
        assert (await session.result(call.id)).data == "red"


def _repeatable() -> Any:
    """The same server, but the configuration says that its tools do no harm twice."""
    source = raw()
    made = source._made
    source._made = lambda tools: [tool.but(effect="idempotent", run=_run(source, tool)) for tool in made(tools)]  # type: ignore[method-assign]
    return source


def _run(source: Any, tool: Any) -> Any:
    return lambda ctx, values: source.server.call(tool.name, values, ctx, repeatable=True)


@requirement("mcp.client.2", "gateway.content.4")
@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.parametrize(("era", "tool"), [("legacy", "ask"), ("modern", "ask"), ("modern", "task")])
async def test_a_server_hears_that_its_question_was_declined_and_what_it_replies_is_the_result(
    era: str, tool: str, action: str
) -> None:
    async with opened(raw(era)) as (_, session):
        call = await session.submit(f"raw.{tool}", {})
        question = await asked(session, call.id)
        await session.answer(question["id"], action, actor="bob", reason="I do not paint")
        assert (await session.result(call.id)).data == f"no color, it was {action}"
        (answered,) = [event async for event in session.events(call=call.id) if event.kind == "answered"]
        assert (answered.fields["action"], answered.fields["actor"]) == (action, "bob")


@requirement("mcp.client.2", "gateway.content.4")
async def test_the_reply_of_a_server_to_a_decline_survives_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    async with opened(raw("modern"), store=store) as (_, session):
        call = await session.submit("raw.ask", {})
        question = await asked(session, call.id)
    async with Crib([raw("modern")], store=store, policy=ALLOW) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question["id"], "decline")
        assert (await session.result(call.id)).data == "no color, it was decline"


@requirement("mcp.client.2", "gateway.content.4")
async def test_a_call_that_is_cancelled_is_cancelled_whatever_its_server_asks() -> None:
    async with opened(raw()) as (_, session):
        call = await session.submit("raw.ask", {})
        await asked(session, call.id)
        reply = await session.submit("raw.next_reply", {})
        await session.cancel(call.id)
        assert code(await session.result(call.id)) == "cancelled"
        assert (await session.result(reply.id)).data == "cancel"


@requirement("mcp.client.2")
async def test_an_old_server_on_a_pipe_never_asks_the_wrong_owner() -> None:
    async with opened(raw(share="all")) as (crib, ada):
        bob = await crib.open("b", owner="bob", namespaces=["raw"])
        hanging = await bob.submit("raw.hang", {})
        await bob.call("raw.echo", {"text": "x"})
        result = await ada.call("raw.ask", {})
        assert result.data == "error"
        await bob.cancel(hanging.id)


@requirement("mcp.client.2")
async def test_a_call_that_waits_for_its_answer_is_not_in_the_way_of_another_question() -> None:
    async with opened(raw()) as (crib, ada):
        bob = await crib.open("b", owner="bob", namespaces=["raw"])
        first = await ada.submit("raw.ask", {})
        question = await asked(ada, first.id)
        second = await bob.submit("raw.ask_twice", {})
        await bob.answer((await asked(bob, second.id))["id"], "accept", {"color": "blue"})
        await bob.answer((await asked(bob, second.id))["id"], "accept", {"color": "green"})
        assert (await bob.result(second.id)).data == "blue+green"
        await ada.answer(question["id"], "accept", RED)
        assert (await ada.result(first.id)).data == "red"


@requirement("mcp.client.2", "mcp.client.6")
async def test_a_server_made_with_the_sdk_asks_in_the_new_way() -> None:
    async with opened(kit()) as (_, session):
        call = await session.submit("kit.paint", {})
        await session.answer((await asked(session, call.id))["id"], "accept", RED)
        assert (await session.result(call.id)).data == "red"
        call = await session.submit("kit.paint", {})
        await session.answer((await asked(session, call.id))["id"], "decline")
        assert (await session.result(call.id)).data == "nothing"


@requirement("mcp.client.8")
async def test_a_task_of_a_server_is_followed_to_its_end() -> None:
    async with opened(raw("modern")) as (_, session):
        call = await session.submit("raw.task", {}, background=True)
        await session.answer((await asked(session, call.id))["id"], "accept", RED)
        events = [event async for event in session.events(call=call.id)]
        assert "poll 1" in [event.fields.get("message") for event in events if event.kind == "progress"]
        assert (await session.result(call.id)).data == "red"
        assert len(calls(await heard(session), "task")) == 1


@requirement("mcp.client.8")
async def test_a_task_that_fails_fails_its_call() -> None:
    async with opened(raw("modern")) as (_, session):
        result = await session.call("raw.task", {"id": "fails"})
        assert (code(result), message(result)) == ("failed", "out of disk")


@requirement("mcp.client.8")
async def test_a_cancelled_call_cancels_the_task_of_the_server() -> None:
    async with opened(raw("modern")) as (_, session):
        call = await session.submit("raw.task", {"id": "endless"})
        async for event in session.events(call=call.id):
            if event.kind == "progress":
                await session.cancel(call.id)
        assert code(await session.result(call.id)) == "cancelled"
        assert (await session.call("raw.heard", {})).data["task"]["cancelled"]


@requirement("mcp.client.8")
async def test_a_task_is_found_again_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    crib = Crib([raw("modern")], store=store, policy=ALLOW)
    await crib.start()
    session = await crib.open("s", owner="ada", namespaces=["raw"])
    call = await session.submit("raw.task", {"id": "job"})
    async for event in session.events(call=call.id):
        if event.kind == "step":
            break
    await crib.stop(grace=0)
    async with Crib([raw("modern")], store=store, policy=ALLOW) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.result(call.id)).data == "built"
        assert calls(await heard(session), "task") == []

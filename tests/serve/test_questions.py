"""Questions of calls, asked of clients: `input_required`, sealed states, and what clients cannot answer."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.place import TASKS, Place, serving
from tests.serve.tools import TOOLS, greet
from toolcrib import Crib
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.mcp import McpServerSettings
from toolcrib.serve.principal import Principal

FORM: dict[str, Any] = {"elicitation": {}}
EVERYTHING: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
ADA = {"user_name": {"action": "accept", "content": {"name": "Ada"}}}


def back(asked: dict[str, Any], **responses: Any) -> dict[str, Any]:
    return {"requestState": asked["requestState"], "inputResponses": responses}


@requirement("mcp.server.5")
async def test_a_question_is_asked_and_its_answer_goes_on_with_the_same_call(place: Place) -> None:
    asked = await place.call("greet", can=FORM)
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"]["user_name"]["params"]["message"] == "What is your name?"
    done = await place.call("greet", can=FORM, with_=back(asked, **ADA))
    assert done["content"][0]["text"] == "Hello, Ada!"
    (session,) = await place.crib.sessions("anyone")
    assert len(await place.crib.store.calls(session.id)) == 1


@requirement("mcp.server.5")
async def test_a_policy_that_asks_is_answered_by_the_client(place: Place) -> None:
    asked = await place.call("erase", {"what": "it"}, can=FORM)
    (name,) = asked["inputRequests"]
    yes = await place.call("erase", {"what": "it"}, can=FORM, with_=back(asked, **{name: {"action": "accept"}}))
    assert yes["content"][0]["text"] == "erased it"
    asked = await place.call("erase", {"what": "it"}, can=FORM)
    no = await place.call("erase", {"what": "it"}, can=FORM, with_=back(asked, **{name: {"action": "decline"}}))
    assert no["isError"] is True
    assert "declined" in no["content"][0]["text"]


@requirement("mcp.server.5")
async def test_nobody_agrees_to_what_was_not_shown(place: Place) -> None:
    asked = await place.call("erase", {"what": "it"}, can=FORM)
    early = {"inputResponses": {name: {"action": "accept"} for name in asked["inputRequests"]}}
    again = await place.call("erase", {"what": "it"}, can=FORM, with_=early)
    assert again["resultType"] == "input_required"


async def test_what_is_no_consent_may_be_answered_before_it_is_asked(place: Place) -> None:
    done = await place.call("greet", can=FORM, with_={"inputResponses": {**ADA, "more": {}}})
    assert done["content"][0]["text"] == "Hello, Ada!"


@requirement("mcp.server.5")
@pytest.mark.parametrize(
    "responses",
    [
        {},
        {"other": {"action": "accept"}},
        {"user_name": 5},
        {"user_name": {"action": "accept", "content": {"name": 5}}},
    ],
)
async def test_what_does_not_answer_is_asked_again(place: Place, responses: dict[str, Any]) -> None:
    asked = await place.call("greet", can=FORM)
    again = await place.call("greet", can=FORM, with_=back(asked, **responses))
    assert again["resultType"] == "input_required"
    done = await place.call("greet", can=FORM, with_=back(again, **ADA))
    assert done["content"][0]["text"] == "Hello, Ada!"


@requirement("mcp.server.5")
async def test_the_same_answer_twice_gives_the_same_result(place: Place) -> None:
    asked = await place.call("greet", can=FORM)
    first, second = [await place.call("greet", can=FORM, with_=back(asked, **ADA)) for _ in range(2)]
    assert first == second


def _changed(state: str) -> str:
    body, _, mark = state.partition(".")
    inside = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    inside["x"] += 1e9
    return base64.urlsafe_b64encode(json.dumps(inside).encode()).decode().rstrip("=") + "." + mark


@requirement("mcp.server.5")
@pytest.mark.parametrize("tamper", [lambda state: state + "x", _changed, lambda state: "", lambda state: "ö.ö"])
async def test_a_state_that_was_changed_is_refused(place: Place, tamper: Any) -> None:
    asked = await place.call("greet", can=FORM)
    given = {"name": "greet", "arguments": {}, **back({"requestState": tamper(asked["requestState"])}, **ADA)}
    status, error = await place.error("tools/call", given, can=FORM)
    assert (status, error["code"]) == (400, -32602)
    assert len(await place.crib.questions()) == 1


@requirement("mcp.server.5")
async def test_a_state_is_bound_to_its_request(place: Place) -> None:
    asked = await place.call("erase", {"what": "this"}, can=FORM)
    yes = back(asked, **{name: {"action": "accept"} for name in asked["inputRequests"]})
    for name, arguments in (("erase", {"what": "that"}), ("greet", {})):
        _, error = await place.error("tools/call", {"name": name, "arguments": arguments, **yes}, can=FORM)
        assert error["code"] == -32602


@requirement("mcp.server.5")
async def test_a_state_expires() -> None:
    async with serving(Crib([greet]), mcp=McpServerSettings(state_s=0.0)) as place:
        asked = await place.call("greet", can=FORM)
        given = {"name": "greet", "arguments": {}, **back(asked, **ADA)}
        _, error = await place.error("tools/call", given, can=FORM)
        assert "expired" in error["message"]


@requirement("mcp.server.5")
async def test_several_things_are_asked_at_once_and_only_what_the_client_can_do(place: Place) -> None:
    asked = await place.call("several", can=EVERYTHING)
    assert {one["method"] for one in asked["inputRequests"].values()} == {
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    }
    asked = await place.call("several", can={"sampling": {}})
    assert list(asked["inputRequests"]) == ["model"]
    reply = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
    done = await place.call("several", can={"sampling": {}}, with_=back(asked, model=reply))
    assert done["content"][0]["text"] == "model"


@requirement("mcp.server.5")
async def test_a_client_that_cannot_be_asked_is_told_how_to_answer_elsewhere(place: Place) -> None:
    parked = await place.call("greet")
    assert parked["isError"] is True
    (question,) = await place.crib.questions()
    assert question.id in parked["content"][0]["text"]
    session = await place.crib._session_table.attached(question.session)
    assert session is not None
    await session.answer(question.id, "accept", {"name": "Bob"}, actor="anyone")
    assert (await session.result(question.call)).data == "Hello, Bob!"


@requirement("mcp.server.5")
async def test_the_question_of_a_call_that_a_tool_made_is_asked_too(place: Place) -> None:
    asked = await place.call("outer", can=FORM)
    assert list(asked["inputRequests"]) == ["user_name"]
    done = await place.call("outer", can=FORM, with_=back(asked, **ADA))
    assert done["content"][0]["text"] == "inner said: Hello, Ada!"


@requirement("mcp.server.5", "mcp.server.12")
async def test_a_prompt_may_ask(place: Place) -> None:
    asked = await place.result("prompts/get", {"name": "asks"}, can=FORM)
    given = {"name": "asks", **back(asked, who={"action": "accept", "content": {"name": "Eve"}})}
    done = await place.result("prompts/get", given, can=FORM)
    assert done["messages"][0]["content"]["text"] == "For Eve"


@requirement("mcp.server.5")
async def test_a_prompt_that_asks_who_cannot_be_asked_is_an_error_and_no_task(place: Place) -> None:
    status, error = await place.error("prompts/get", {"name": "asks"}, can=TASKS)
    assert (status, error["code"]) == (500, -32603)
    (question,) = await place.crib.questions()
    assert question.id in error["message"]


@requirement("mcp.server.6")
async def test_a_background_tool_is_a_task_that_can_be_answered_in_parts(place: Place) -> None:
    can = FORM | TASKS
    made = await place.call("job", can=can)
    assert (made["resultType"], made["status"]) == ("task", "working")
    task = {"taskId": made["taskId"]}
    shown = await until(place, task, "input_required", can)
    assert set(shown["inputRequests"]) == {"first", "second"}
    ada = {"action": "accept", "content": {"name": "Ada"}}
    assert "taskId" not in await place.result("tasks/update", {**task, "inputResponses": {"first": ada}}, can=can)
    shown = await place.result("tasks/get", task, can=can)
    assert (shown["status"], list(shown["inputRequests"])) == ("input_required", ["second"])
    await place.result("tasks/update", {**task, "inputResponses": {"second": ada, "x": 1}}, can=can)
    done = await until(place, task, "completed", can)
    assert done["result"]["content"][0]["text"] == "Ada and Ada"
    assert done["resultType"] == "complete"


async def until(place: Place, task: dict[str, str], status: str, can: dict[str, Any]) -> dict[str, Any]:
    row = await place.crib.store.call(task["taskId"].rpartition(".")[0])
    assert row is not None
    session = await place.crib._session_table.attached(row.session)
    assert session is not None
    async for event in session.events(call=row.id):
        if event.kind == ("waiting" if status == "input_required" else "done"):
            break
    shown = await place.result("tasks/get", task, can=can)
    assert shown["status"] == status
    return shown


@requirement("mcp.server.6")
async def test_a_call_that_takes_long_becomes_a_task_and_may_be_cancelled(place: Place) -> None:
    made = await place.call("hold", can=TASKS)
    assert made["resultType"] == "task"
    task = {"taskId": made["taskId"]}
    assert (await place.result("tasks/get", task, can=TASKS))["status"] == "working"
    assert set(await place.result("tasks/cancel", task, can=TASKS)) == {"resultType", "_meta"}
    assert (await place.result("tasks/get", task, can=TASKS))["status"] == "cancelled"
    await place.result("tasks/cancel", task, can=TASKS)


@requirement("mcp.server.6")
async def test_errors_of_tools_complete_a_task_and_faults_fail_it(place: Place) -> None:
    for how, status in (("paint", "completed"), ("broken", "failed")):
        task = {"taskId": (await place.call("fails", {"how": how}, can=TASKS))["taskId"]}
        shown = await until(place, task, status, TASKS)
        if status == "completed":
            assert shown["result"]["isError"] is True
        else:
            assert shown["error"]["code"] == -32603
            assert "secret" not in shown["error"]["message"]


@requirement("mcp.server.6")
async def test_tasks_are_for_clients_that_know_them(place: Place) -> None:
    assert (await place.call("fails", {"how": "paint"}))["isError"] is True
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        status, error = await place.error(method, {"taskId": "c1.x"})
        assert (status, error["code"]) == (400, -32021)


@requirement("mcp.server.6")
async def test_ids_of_tasks_cannot_be_guessed(place: Place) -> None:
    task = (await place.call("job", can=TASKS | FORM))["taskId"]
    call, _, mark = task.rpartition(".")
    for guess in (call, f"{call}.", f"{call}.{'A' * len(mark)}", f"{call}1.{mark}", "nothing", ""):
        _, error = await place.error("tasks/get", {"taskId": guess}, can=TASKS)
        assert error["code"] == -32602, guess


@requirement("mcp.server.6")
async def test_a_task_outlives_the_server(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/tasks.db"
    can = FORM | TASKS
    async with serving(Crib(TOOLS, store=store)) as place:
        task = {"taskId": (await place.call("job", can=can))["taskId"]}
        await until(place, task, "input_required", can)
    ada = {"action": "accept", "content": {"name": "Ada"}}
    async with serving(Crib(TOOLS, store=store)) as place:
        given = {**task, "inputResponses": {"first": ada, "second": ada}}
        await place.result("tasks/update", given, can=can)
        assert (await until(place, task, "completed", can))["result"]["content"][0]["text"] == "Ada and Ada"


async def test_a_key_that_may_not_answer_is_not_asked_to_agree() -> None:
    key, kept = new_key()
    caller = Principal("ada", scopes=frozenset({"call", "read"}), auth="key")
    async with serving(Crib(TOOLS), guard=ApiKeys({kept: caller})) as place:
        place.http.headers["Authorization"] = f"Bearer {key}"
        parked = await place.call("erase", {"what": "it"}, can=FORM)
        assert "inputRequests" not in parked
        (session,) = await place.crib.sessions("ada")
        (row,) = await place.crib.store.calls(session.id)
        assert row.state == "waiting"
        greeted = await place.call("greet", can=FORM)
        assert greeted["resultType"] == "input_required"


@requirement("security.approval.2")
@requirement("gateway.approve.1")
async def test_an_elicitation_shows_tool_arguments_and_digest(place: Place) -> None:
    asked = await place.call("erase", {"what": "a\u202etxt\u2028"}, can=FORM)
    (request,) = asked["inputRequests"].values()
    message = request["params"]["message"]
    (question,) = await place.crib.questions()
    assert f"Tool: {question.tool}" in message
    assert r'"what": "a\u202etxt\u2028"' in message
    assert f"Digest: {question.digest}" in message

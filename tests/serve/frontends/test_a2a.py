"""A2A's own client, `@a2a-js/sdk` of npm, talks to agents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.npm import fetched
from tests.requirements import requirement
from tests.serve.api.place import Desk
from tests.serve.frontends.place import Client, client, crib, served
from toolcrib import Crib, tool
from toolcrib.serve.api.pages import place
from toolcrib.serve.keys import ApiKeys, digest
from toolcrib.serve.principal import Principal

pytestmark = pytest.mark.process

SDK = "@a2a-js/sdk@1.3.0"
LOOK: dict[str, Any] = {"text": "Let me see.", "chunks": 3, "calls": [{"tool": "find", "args": {"order": "A-7"}}]}
PAY: dict[str, Any] = {"calls": [{"tool": "refund", "args": {"order": "A-7", "cents": 500}}]}
SAID: dict[str, Any] = {"text": "All done."}
WORKING, COMPLETED, FAILED, CANCELED, INPUT_REQUIRED = 2, 3, 4, 5, 6


@asynccontextmanager
async def peer(given: Crib, agent: str = "desk") -> AsyncIterator[tuple[Desk, Client]]:
    async with served(given) as (desk, url):
        module = str(fetched(SDK) / "@a2a-js" / "sdk" / "dist" / "client" / "index.js")
        async with client("a2a_client.mjs", module, f"{url}/a2a/{agent}/") as talking:
            yield desk, talking


async def value(page: Client, do: str, **step: Any) -> Any:
    answer = await page.step(do=do, **step)
    assert "error" not in answer, answer
    return answer["value"]


def texts(task: dict[str, Any]) -> list[str]:
    return [part["content"]["value"] for one in task["artifacts"] for part in one["parts"]]


async def test_a_message_becomes_a_task_with_its_answer() -> None:
    async with peer(crib({"desk": [LOOK, SAID]})) as (_, agent):
        task = await value(agent, "send", text="Where is A-7?")
        assert task["status"]["state"] == COMPLETED
        assert texts(task) == ["Let me see.", "All done."]
        again = await value(agent, "get", taskId=task["id"])
        assert (again["id"], texts(again)) == (task["id"], texts(task))
        assert again["history"][0]["messageId"] == "m0"
        listed = await value(agent, "list", contextId=task["contextId"])
        assert [one["id"] for one in listed["tasks"]] == [task["id"]]


async def test_a_stream_tells_of_text_calls_and_the_end() -> None:
    async with peer(crib({"desk": [LOOK, SAID]})) as (_, agent):
        heard = await value(agent, "stream", text="Where is A-7?")
    kinds = [one["$case"] for one in heard]
    assert kinds[0] == "task"
    pieces = [one["value"] for one in heard if one["$case"] == "artifactUpdate"]
    assert "".join(p["artifact"]["parts"][0]["content"]["value"] for p in pieces) == "Let me see.All done."
    assert [p["append"] for p in pieces].count(False) == 2
    states = [one["value"]["status"]["state"] for one in heard if one["$case"] == "statusUpdate"]
    assert states[-1] == COMPLETED
    assert WORKING in states


async def test_a_task_that_waits_is_answered_by_a_message() -> None:
    async with peer(crib({"desk": [PAY, SAID]})) as (desk, agent):
        task = await value(agent, "send", text="Refund A-7")
        assert task["status"]["state"] == INPUT_REQUIRED
        asked = task["status"]["message"]["parts"][1]["content"]["value"]["question"]
        assert (asked["tool"], asked["arguments"]) == ("shop.refund", {"order": "A-7", "cents": 500})
        done = await value(agent, "send", taskId=task["id"], contextId=task["contextId"], data={"approved": True})
        assert (done["id"], done["status"]["state"], texts(done)[-1]) == (task["id"], COMPLETED, "All done.")
        events = (await desk.get(f"/sessions/{task['contextId']}/events", limit=1000))["items"]
    assert next(event["data"]["data"] for event in events if event["kind"] == "done") == {"receipt": "A-7/500"}


async def test_a_no_is_a_no() -> None:
    async with peer(crib({"desk": [PAY, SAID]})) as (desk, agent):
        task = await value(agent, "send", text="Refund A-7")
        await value(agent, "send", taskId=task["id"], text="No, that is too much")
        events = (await desk.get(f"/sessions/{task['contextId']}/events", limit=1000))["items"]
    assert next(event["data"]["failure"]["code"] for event in events if event["kind"] == "done") == "declined"


async def test_a_task_is_followed_and_cancelled() -> None:
    begun = asyncio.Event()

    @tool(namespace="shop", read_only=True)
    async def slow() -> str:
        """Take a while."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    turns = {"desk": [{"text": "One moment.", "calls": [{"tool": "slow", "args": {}}]}, SAID]}
    async with peer(crib(turns, tools=[slow])) as (_, agent):
        task = await value(agent, "send", text="hi", configuration=_at_once())
        assert task["status"]["state"] == WORKING
        await begun.wait()
        cancelled = await value(agent, "cancel", taskId=task["id"])
        assert cancelled["status"]["state"] == CANCELED
        assert "over" in (await agent.step(do="cancel", taskId=task["id"]))["error"]
        assert "error" in await agent.step(do="subscribe", taskId=task["id"])


def _at_once() -> dict[str, Any]:
    return {"returnImmediately": True, "acceptedOutputModes": []}


async def test_the_card_says_where_and_how() -> None:
    keys = ApiKeys({digest("key-of-ada-1234567"): Principal("ada")})
    async with served(crib({"desk": [SAID]}), guard=keys) as (desk, url):
        card = (await desk.http.get("/a2a/desk/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"] == f"{url}/a2a/desk"
        assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"
        assert (await desk.http.get("/a2a/nobody/.well-known/agent-card.json")).status_code == 404
        assert (await desk.http.post("/a2a/desk", json={})).status_code == 401


async def call(desk: Desk, method: Any, params: Any = None) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return await desk.http.post("/a2a/desk", json=body, headers=desk.headers)


PUSHED = {"taskPushNotificationConfig": {"url": "https://me.example"}}


@requirement("findings.words.7")
async def test_what_does_not_fit_is_told_as_json_rpc() -> None:
    async with served(crib({"desk": [SAID]})) as (desk, _):
        for method, params, code in (
            ("Nothing", {}, -32601),
            (7, {}, -32600),
            ("SendMessage", {}, -32602),
            ("SendMessage", [], -32602),
            ("SendMessage", {"message": {"parts": []}}, -32602),
            ("GetTask", {"id": "r1@nowhere"}, -32001),
            ("GetTask", {"id": "nonsense"}, -32001),
            ("ListTasks", {"contextId": "nowhere"}, -32001),
            ("ListTasks", {"pageSize": 0}, -32602),
            ("ListTasks", {"pageSize": 101}, -32602),
            ("ListTasks", {"pageSize": "ten"}, -32602),
            ("ListTasks", {"pageToken": "nonsense"}, -32602),
            ("ListTasks", {"pageToken": "\u00e9"}, -32602),
            ("ListTasks", {"pageToken": "W10"}, -32602),
            ("ListTasks", {"statusTimestampAfter": "yesterday"}, -32602),
            ("ListTasks", {"status": "TASK_STATE_RUNNING"}, -32602),
            ("CreateTaskPushNotificationConfig", {}, -32003),
            ("SendMessage", {"message": {"parts": [{"text": "hi"}]}, "configuration": PUSHED}, -32003),
        ):
            answer = (await call(desk, method, params)).json()
            assert answer["error"]["code"] == code, (method, answer)


async def test_nobody_sees_the_task_of_another() -> None:
    keys = ApiKeys({digest("key-of-ada-1234567"): Principal("ada"), digest("key-of-bob-1234567"): Principal("bob")})
    async with served(crib({"desk": [PAY, SAID, SAID]}), guard=keys) as (desk, _):
        ada, bob = desk.as_("key-of-ada-1234567"), desk.as_("key-of-bob-1234567")
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        task = (await call(ada, "SendMessage", {"message": message})).json()["result"]["task"]
        theirs = {"message": {**message, "taskId": task["id"]}}
        for method, params in (
            ("GetTask", {"id": task["id"]}),
            ("CancelTask", {"id": task["id"]}),
            ("SubscribeToTask", {"id": task["id"]}),
            ("ListTasks", {"contextId": task["contextId"]}),
            ("SendMessage", theirs),
        ):
            assert (await call(bob, method, params)).json()["error"]["code"] == -32001, method
        named = {"message": {**message, "contextId": task["contextId"]}}  # as a name that nobody has: one of his own
        own = (await call(bob, "SendMessage", named)).json()["result"]["task"]
        assert own["contextId"] != task["contextId"]
        again = (await call(bob, "SendMessage", named)).json()["result"]["task"]
        assert again["id"] == own["id"]
        assert (await call(bob, "ListTasks", {"contextId": task["contextId"]})).json()["result"]["totalSize"] == 1
        assert (await call(ada, "GetTask", {"id": task["id"]})).json()["result"]["status"]["state"].endswith("REQUIRED")


async def test_tasks_are_listed_by_pages() -> None:
    async with peer(crib({"desk": [SAID] * 5})) as (_, agent):
        made = [await value(agent, "send", text="hi", contextId=context) for context in ("c1", "c1", "c2", "c1", "c2")]
        newest = [task["id"] for task in reversed(made)]
        seen: list[str] = []
        token = ""
        for size in (2, 2, 1):
            page = await value(agent, "list", pageSize=2, pageToken=token)
            assert (len(page["tasks"]), page["pageSize"], page["totalSize"]) == (size, 2, 5)
            assert all(task["artifacts"] == [] for task in page["tasks"])
            seen += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
        assert (seen, token) == (newest, "")
        one = await value(agent, "list", contextId="c2", pageSize=1, artifacts=True)
        assert (one["totalSize"], texts(one["tasks"][0])) == (2, ["All done."])
        rest = await value(agent, "list", contextId="c2", pageToken=one["nextPageToken"])
        assert [task["id"] for task in (*one["tasks"], *rest["tasks"])] == [made[4]["id"], made[2]["id"]]
        assert (await value(agent, "list", status=COMPLETED))["totalSize"] == 5
        assert (await value(agent, "list", status=FAILED))["totalSize"] == 0
        last = made[4]["status"]["timestamp"]
        assert [task["id"] for task in (await value(agent, "list", after=last))["tasks"]] == [made[4]["id"]]


async def test_no_page_has_tasks_of_others_whatever_its_token_says() -> None:
    keys = ApiKeys({digest("key-of-ada-1234567"): Principal("ada"), digest("key-of-bob-1234567"): Principal("bob")})
    async with served(crib({"desk": [SAID] * 4}), guard=keys) as (desk, _):
        ada, bob = desk.as_("key-of-ada-1234567"), desk.as_("key-of-bob-1234567")
        for number, who in enumerate((ada, ada, bob, ada)):
            message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
            await call(who, "SendMessage", {"message": message})
        first = (await call(ada, "ListTasks", {"pageSize": 1})).json()["result"]
        assert first["totalSize"] == 3
        for params in ({}, {"pageToken": first["nextPageToken"]}, {"pageToken": place(9e9, "~")}):
            found = (await call(bob, "ListTasks", params)).json()["result"]
            assert found["totalSize"] == 1
            assert {task["contextId"] for task in found["tasks"]}.isdisjoint({first["tasks"][0]["contextId"]})

"""Built-in tools: the registry, `ctx.run`, and those that come along."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.place import calls, text, world
from tests.requirements import requirement
from tests.session.place import Place
from tests.shared import case_data
from toolcrib import Context, Refused, Tool, tool
from toolcrib.agent import Agent, builtin, builtins, todos
from toolcrib.agent.distri import from_builtin
from toolcrib.agent.models import Message, ModelCall
from toolcrib.agent.transcript import repaired
from toolcrib.definitions import search

MAIN = [Agent(name="main", instructions="M.")]
SHIPPED = {
    *("transfer_to_agent", "call_agent", "call_status", "cancel_call", "list_calls", "wait_calls", "message_agent"),
    *("tool_help", "ask_user", "read_output", "tool_search", "write_todos"),
}


@pytest.fixture
def _forgotten() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = builtins.names()
    yield
    for name in set(builtins.names()) - set(before):
        builtins.unregister(name)


@requirement("agents.builtin.2", "agents.builtin.4")
def test_the_registry_knows_what_comes_along() -> None:
    assert set(builtins.names()) >= SHIPPED
    assert builtins.get("ask_user") is not None
    assert builtins.get("builtin.ask_user") is not None
    assert builtins.get("look") is None
    assert {one["name"] for one in builtins.definitions()} == set(builtins.names())
    asked = builtins.get("ask_user")
    assert asked is not None
    with pytest.raises(Refused, match="already a built-in tool 'ask_user'"):
        builtins.register(asked)


@requirement("agents.builtin.1")
@pytest.mark.usefixtures("_forgotten")
async def test_a_plug_in_reads_the_messages_and_ends_the_run(place: Place) -> None:
    @builtin(read_only=True)
    async def wrap_up(ctx: Context, last: int) -> str:
        """End with the last messages."""
        assert ctx.run is not None
        assert (ctx.run.agent, ctx.run.turn) == ("main", 1)
        ctx.run.finish(" / ".join(one.text for one in ctx.run.messages[-last:] if one.text))
        return "over"

    async with world(place, MAIN, {"main": [calls(("wrap_up", {"last": 2}), text="So."), text("never")]}) as here:
        outcome = await here.send("hello")
    assert (outcome.reason, outcome.answer, outcome.turns) == ("answered", "hello / So.", 1)


@requirement("agents.builtin.1")
async def test_any_tool_may_hand_over_and_leave_notes(place: Place) -> None:
    @tool(read_only=True)
    def route(ctx: Context, to: str) -> str:
        """Find out who is next; a plain function in a thread."""
        assert ctx.run is not None
        ctx.run.note(f"looked at {to}")
        ctx.run.handover(to, "routed", "go on")
        return "routed"

    given = [Agent(name="main", sub_agents=["other"]), Agent(name="other")]
    script = {"main": [calls(("route", {"to": "nobody"})), calls(("route", {"to": "other"}))], "other": [text("o")]}
    async with world(place, given, script, route) as here:
        assert (await here.send("x")).answer == "o"
        codes = [e.fields.get("failure", {}).get("code") for e in await here.log("done")]
        said = [one.text for one in here.model.requests[1].messages]
        (handed,) = await here.log("handover")
    assert codes == ["not_found", None]
    assert "looked at nobody" in said
    assert handed.fields["reason"] == "routed"


@requirement("agents.builtin.3")
@pytest.mark.usefixtures("_forgotten")
async def test_an_object_in_the_shape_of_distri_becomes_a_tool(place: Place) -> None:
    class Shout:
        def get_tool_definition(self) -> dict[str, Any]:
            properties = {"word": {"type": "string"}}
            schema = {"type": "object", "properties": properties, "required": ["word"]}
            function = {"name": "shout", "description": "Shout a word.", "parameters": schema}
            return {"type": "function", "function": function}

        async def execute(self, args: dict[str, Any], context: Context) -> str:
            assert context.run is not None
            return f"{args['word'].upper()} {context.run.agent}"

    builtins.register(from_builtin("shout", Shout()))
    script = {"main": [calls(("shout", {"word": "hey"}), ("shout", {})), text("ok")]}
    async with world(place, MAIN, script) as here:
        await here.send("x")
        done = sorted((e.fields for e in await here.log("done")), key=lambda data: not data["ok"])
    assert done[0]["data"] == "HEY main"
    assert done[1]["failure"]["code"] == "invalid_arguments"


@requirement("agents.builtin.5")
async def test_what_can_do_nothing_is_not_offered(place: Place) -> None:
    async with world(place, MAIN, {"main": [text("a")]}) as here:
        await here.send("x")
        names = {one.name for one in here.model.requests[0].tools}
    assert names == {"ask_user", "write_todos"}


@requirement("agents.builtin.4")
async def test_an_agent_asks_its_user(place: Place) -> None:
    script = {"main": [calls(("ask_user", {"question": "Which?", "options": ["a", "b"]})), text("ok")]}
    async with world(place, MAIN, script) as here:
        outcome = await here.send("x")
        assert [one.prompt for one in outcome.questions] == ["Which?"]
        with pytest.raises(Refused):
            await here.session.answer(outcome.questions[0].id, "accept", "c")
        await here.session.answer(outcome.questions[0].id, "accept", "b")
        await here.settled()
        assert (await here.result("ask_user"))["data"] == "b"


def many(count: int) -> list[Tool]:
    def made(number: int) -> Tool:
        async def run(ctx: Any, values: Any) -> int:
            return number

        it: Tool = Tool(name=f"tool_{number}", description=f"Count to {number}. And more.", run=run, effect="read")
        return it

    weather: Tool = Tool(name="forecast", description="Tell the weather of tomorrow.", run=made(0).run, effect="read")
    return [*(made(number) for number in range(count)), weather]


@requirement("agents.builtin.6")
async def test_of_many_tools_most_are_only_named_until_they_are_looked_for(place: Place) -> None:
    given = [Agent(name="main", always=["tool_3"])]
    script = {"main": [calls(("tool_7", {}), ("tool_search", {"query": "weather tomorrow", "limit": 1})), text("ok")]}
    async with world(place, given, script, *many(20)) as here:
        await here.send("x")
        first, second = here.model.requests
        done = {e.fields["ok"] for e in await here.log("done")}
    names = [{one.name for one in request.tools} for request in (first, second)]
    assert {"tool_3", "tool_search"} <= names[0]
    assert "tool_7" not in names[0]
    assert "- tool_7: Count to 7. And more." in first.messages[0].text
    assert "forecast" not in names[0]
    assert "forecast" in names[1]
    assert done == {True}


@requirement("agents.builtin.7")
def test_todos_change_as_the_cases_say() -> None:
    for case in case_data("agents/todos.json"):
        new = todos.read(case["next"])
        assert todos.changes(todos.read(case["prev"]), new) == case["changes"]
        assert (todos.display(new), todos.all_done(new)) == (case["display"], case["all_done"])


@requirement("agents.builtin.7")
async def test_todos_are_kept_in_state(place: Place) -> None:
    one, two = {"content": "a", "status": "pending"}, {"content": "b", "status": "completed"}
    script = {
        "main": [calls(("write_todos", {"items": [one]})), calls(("write_todos", {"items": [one, two]})), text("k")]
    }
    async with world(place, MAIN, script) as here:
        await here.send("x")
        said = [message.text for message in here.model.requests[-1].messages if message.role == "tool"]
        done = await here.result("write_todos")
        state = here.session.state.now["todos"]
    assert said == ["□ a", "□ a\n■ b"]
    assert done["data"]["changes"] == [{"kind": "added", "content": "b", "status": "done"}]
    assert [item["status"] for item in state] == ["open", "done"]


@requirement("agents.builtin.4")
@pytest.mark.parametrize(
    ("schema", "args", "answer"),
    [
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"n": 3}, {"n": 3}),
        ({"type": "array", "items": {"type": "integer"}}, {"answer": [1, 2]}, [1, 2]),
    ],
)
async def test_a_final_answer_fits_its_schema(place: Place, schema: Any, args: Any, answer: Any) -> None:
    given = [Agent(name="main", output_schema=schema)]
    script = {"main": [calls(("final_answer", {"x": "no"})), calls(("final_answer", args)), text("never")]}
    async with world(place, given, script) as here:
        outcome = await here.send("x")
    assert (outcome.reason, outcome.answer, outcome.turns) == ("answered", answer, 2)


@requirement("agents.run.4")
def test_history_is_repaired_as_the_cases_say() -> None:
    def message(said: dict[str, Any]) -> Message:
        made = tuple(ModelCall(id, "t", "{}") for id in said.get("calls", ()))
        return Message(said["role"], said["text"], made, said.get("call"))

    for case in case_data("agents/orphans.json"):
        assert repaired(map(message, case["before"])) == [message(one) for one in case["after"]], case["note"]


@requirement("agents.run.4")
def test_results_without_a_call_and_second_results_are_left_out_and_who_waits_is_no_orphan() -> None:
    asked = Message("assistant", "", (ModelCall("a", "t", "{}"), ModelCall("b", "t", "{}")))
    given = [asked, Message("tool", "1", call="a"), Message("tool", "2", call="a"), Message("tool", "3", call="x")]
    assert repaired(given, waiting=["b"]) == [asked, Message("tool", "1", call="a")]


def test_tools_are_found_without_the_stemmer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    remembered = (search._stemmer, search._stem, search._weights)
    subjects = [
        search.SearchEntry("a", description="Tells the weather"),
        search.SearchEntry("b", description="Books flights"),
    ]
    try:
        for known in remembered:
            known.cache_clear()
        assert [one.id for one in search.rank("booking a flight", subjects)] == ["b"]
    finally:
        for known in remembered:
            known.cache_clear()


@requirement("agents.builtin.8")
async def test_a_tool_sees_the_agent_that_it_runs_for_and_who_called_that() -> None:
    seen: list[dict[str, Any]] = []

    @tool(read_only=True)
    async def look(ctx: Context) -> str:
        """Look."""
        run = ctx.run
        assert run is not None
        about = {"agent": run.definition.instructions, "parent": run.parent, "call": run.call, "run": run.id}
        seen.append({**about, "agents": {name: one.description for name, one in run.agents.items()}})
        return "seen"

    agents = [
        Agent(name="main", instructions="Lead.", sub_agents=[{"agent": "worker", "via": "call"}]),
        Agent(name="worker", instructions="Work.", description="Works."),
    ]
    delegates = calls(("look", {}), ("call_agent", {"agent": "worker", "prompt": "go"}))
    script = {"main": [delegates, text("ok")], "worker": [calls(("look", {})), text("done")]}
    async with world(Place("memory:"), agents, script, look) as here:
        await here.send("go")
        accepted = await here.log("accepted")
        (made,) = [one.call for one in accepted if one.fields["tool"] == "builtin.call_agent"]
    top, below = sorted(seen, key=lambda one: one["call"] is not None)
    assert (top["agent"], top["parent"], top["call"]) == ("Lead.", None, None)
    assert (below["agent"], below["parent"], below["call"]) == ("Work.", top["run"], made)
    assert top["agents"] == below["agents"] == {"main": "", "worker": "Works."}

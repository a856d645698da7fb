"""Scripts of models: Python that calls the tools of an agent, and waits for people without being there."""

import asyncio
from typing import Any

import pytest

from tests.agent.place import calls, text, world
from tests.session.place import Place
from toolcrib import ToolFailure, tool
from toolcrib.agent import Agent, scripts, signatures
from toolcrib.testing.index_check import check_index
from toolcrib.tool import Tool

WRITER = Agent(name="main", instructions="M.", tools=["*", "builtin.run_script"])


def script(code: str, said: str = "so") -> dict[str, Any]:
    return {"main": [calls(("run_script", {"code": code})), text(said)]}


async def ran(place: Place, code: str, *tools: Any, agent: Agent = WRITER) -> dict[str, Any]:
    """The `done` of a script."""
    async with world(place, [agent], script(code), *tools) as here:
        outcome = await here.send("go")
        assert outcome.answer == "so"
        await check_index(here.session.crib.store, "s")
        return await here.result("run_script")


@tool(read_only=True)
async def find(order: str) -> dict[str, Any]:
    """Find an order."""
    return {"order": order, "cents": 100 * int(order)}


@tool(read_only=True)
async def lose() -> None:
    """Fail."""
    raise ToolFailure("not_found", "It is gone")


async def test_a_script_loops_over_tools_and_the_model_sees_only_what_it_gives(place: Place) -> None:
    code = (
        "total = 0\nfor n in range(1, 6):\n    total += (await find(str(n)))['cents']\nprint('done')\n{'total': total}"
    )
    async with world(place, [WRITER], script(code), find) as here:
        await here.send("go")
        done = await here.result("run_script")
        log = await here.log()
        answer = here.model.requests[-1].messages[-1].text
    assert done["data"] == {"result": {"total": 1500}, "printed": "done\n"}
    assert "1500" in answer
    accepted = [event for event in log if event.kind == "accepted"]
    assert [event.fields["tool"] for event in accepted] == ["builtin.run_script", *["default.find"] * 5]
    assert {event.fields["parent"] for event in accepted[1:]} == {accepted[0].call}
    assert {event.fields["agent"] for event in accepted} == {"main"}
    started = [event.fields for event in log if event.kind == "started"]
    assert [data["verdict"]["effect"] for data in started] == ["allow"] * 6
    assert [event.fields["delta"] for event in log if event.kind == "output"] == ["done\n"]


async def test_calls_run_side_by_side(place: Place) -> None:
    both = asyncio.Barrier(2)

    @tool(read_only=True)
    async def meet(name: str) -> str:
        """Wait for the other."""
        async with asyncio.timeout(60):
            await both.wait()
        return name

    done = await ran(place, "import asyncio\nawait asyncio.gather(meet('a'), meet('b'))", meet)
    assert done["data"] == {"result": ["a", "b"]}


@pytest.mark.parametrize(
    "code",
    [
        "find('1')['cents'] + find(order='2')['cents']",
        "f = find\nresult = sum(f(n)['cents'] for n in ['1', '2'])",
        "import asyncio\nasync def main(n):\n    return (await find(n))['cents']\nasyncio.run(main('3'))",
        "a = find('1')\nb = await find('2')\na = await a\nreturn a['cents'] + b['cents']",
    ],
)
async def test_scripts_may_be_written_in_several_ways(code: str) -> None:
    assert (await ran(Place("memory:"), code, find))["data"] == {"result": 300}


async def test_a_failed_call_can_be_caught(place: Place) -> None:
    caught = "try:\n    await lose()\nexcept RuntimeError as error:\n    said = str(error)\n"
    code = f"{caught}found = await find('1')\n[said, found]"
    done = await ran(place, code, find, lose)
    assert done["data"]["result"] == ["not_found: It is gone", {"order": "1", "cents": 100}]


async def test_a_failure_that_is_not_caught_ends_the_script_with_its_line(place: Place) -> None:
    done = await ran(place, "print('a')\nx = await find('1')\nawait lose()\n", find, lose)
    assert done["failure"]["code"] == "failed"
    said = done["failure"]["message"]
    assert "line 3: RuntimeError: not_found: It is gone" in said
    assert "It had printed:\na\n" in said
    assert "2 calls were made before." in said


async def test_a_call_that_never_was_awaited_is_waited_for(place: Place) -> None:
    went: list[str] = []

    @tool
    async def tell(whom: str) -> str:
        """Tell somebody."""
        await asyncio.sleep(0)
        went.append(whom)
        return whom

    done = await ran(place, "tell('ada')\nawait tell('bob')\n3", tell)
    assert done["data"] == {"result": 3}
    assert sorted(went) == ["ada", "bob"]


async def test_what_an_agent_may_not_do_its_script_may_not_do(place: Place) -> None:
    paid: list[str] = []

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    rules = {"rules": [{"deny": 'pay(to ~ "bank*")', "reason": "not today"}]}
    narrow = Agent(name="main", instructions="M.", tools=["*", "run_script"], policy=rules)
    denied = "try:\n    await pay('bank-7')\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
    async with world(place, [narrow], script(denied), find, pay) as here:
        await here.send("go")
        assert "denied: " in (await here.result("run_script"))["data"]["result"]
        assert (await here.result("pay"))["verdict"]["effect"] == "deny"
    blind = Agent(name="main", instructions="M.", tools=["find", "run_script"])
    for code in ("await pay('me')", "await default_pay('me')", "f = pay\nawait f('me')"):
        done = await ran(Place("memory:"), code, find, pay, agent=blind)
        assert "NameError" in done["failure"]["message"]
    assert paid == []


@pytest.mark.parametrize(
    "code", ["await run_script(code='1')", "await ask_user('who?')", "await builtin__run_script(code='1')"]
)
async def test_a_script_cannot_call_what_belongs_to_the_run(code: str) -> None:
    done = await ran(Place("memory:"), code, find)
    assert "NameError" in done["failure"]["message"]


async def test_only_an_agent_that_names_it_writes_scripts() -> None:
    for selected, offered in (
        ("*", False),
        ("* run_script", True),
        ("find builtin.run_script", True),
        ("builtin.*", False),
    ):
        agent = Agent(name="main", instructions="M.", tools=selected.split())
        async with world(Place("memory:"), [agent], {"main": [text("so")]}, find) as here:
            await here.send("go")
            shown = {view.name: view.description for view in here.model.requests[0].tools}
        assert ("run_script" in shown) is offered
        if offered:
            assert "find(order: str)" in shown["run_script"]


async def test_of_many_tools_the_model_reads_how_to_find_them() -> None:
    many = [find.but(name=f"find_{n}") for n in range(20)]
    async with world(Place("memory:"), [WRITER], script("(await find_7('3'))['cents']"), *many) as here:
        await here.send("go")
        done = await here.result("run_script")
        shown = {view.name: view.description for view in here.model.requests[0].tools}
    assert scripts.MANY in shown["run_script"]
    assert "find_7" not in shown["run_script"]
    assert done["data"] == {"result": 300}


async def test_a_large_result_reaches_the_script_whole(place: Place) -> None:
    @tool(read_only=True)
    async def read() -> list[int]:
        """Read a lot."""
        return list(range(100_000))

    assert (await ran(place, "len(await read())", read))["data"] == {"result": 100_000}


async def test_a_run_without_an_agent_has_no_scripts(place: Place) -> None:
    async with world(place, [WRITER], {"main": []}, find) as here:
        result = await here.session.call("builtin.run_script", {"code": "1"})
    assert result.failure is not None
    assert result.failure.code == "not_found"


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["a"]}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (schema(b={"type": "integer", "default": 3}, a={"type": "string"}), "t(a: str, b: int = 3)"),
        (schema(a={"enum": ["x", "y"]}), "t(a: Literal['x', 'y'])"),
        (schema(a={"anyOf": [{"type": "number"}, {"type": "null"}]}), "t(a: float)"),
        (schema(a={"anyOf": [{"type": "number"}, {"type": "boolean"}]}), "t(a: float | bool)"),
        (schema(a={"type": "array", "items": {"type": "boolean"}}), "t(a: list[bool])"),
        (schema(a={"type": ["string", "integer"]}), "t(a: str | int)"),
        (schema(a={"type": "object", "properties": {"x": {"type": "string"}}}), "t(a: {'x': str})"),
        (schema(a={}, **{"b-c": {"type": "string"}}), "t(a: Any, **others)"),
    ],
)
def test_a_tool_is_shown_as_a_signature(given: dict[str, Any], shown: str) -> None:
    made: Tool = Tool(name="t", description="Do it.", input_schema=given)
    assert signatures.signature("t", made) == f"{shown}  # Do it."


def test_functions_have_legal_names_of_their_own() -> None:
    made = {name: find.but(name="n") for name in ("print", "a-b", "a_b", "for", "7up", "result")}
    assert list(signatures.functions(made)) == [
        "default_print",
        "a_b",
        "a_b_",
        "default_for",
        "default_7up",
        "default_result",
    ]


async def test_arguments_that_do_not_fit_are_told_to_the_script(place: Place) -> None:
    caught = "    try:\n        find(*args)\n    except Exception as error:\n        said.append(str(error))\n"
    code = f"said = []\nfor args in ([], ['1', '2'], [{{1: len}}]):\n{caught}said"
    done = await ran(place, code, find)
    said = done["data"]["result"]
    assert said[0].startswith("invalid_arguments: ")
    assert "takes 1 positional arguments but 2 were given" in said[1]

"""An agent of the OpenAI SDK, whose model is scripted, with tools of a crib and with a crib round its own tools."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, RunState, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.adapters.openai_agents import guard_tools, guarded_tools, openai_tools
from toolcrib.session import Session

ASKS = {"default.refund": {"annotations": {"destructive": True}}}
QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """Call `refund` once, then say what came back."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = json.dumps({"order": "A-7", **arguments})

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:
        outputs = [one for one in input if isinstance(one, dict) and one.get("type") == "function_call_output"]
        if outputs:
            text = ResponseOutputText(type="output_text", text=str(outputs[-1]["output"]), annotations=[])
            said: Any = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            said = ResponseFunctionToolCall(
                type="function_call", name="refund", call_id="call-1", arguments=self.arguments
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class Bank:
    """What the tool acts on."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def function(self) -> Any:
        def refund(order: str, cents: int) -> dict[str, Any]:
            """Refund part of an order."""
            if cents < 0:
                raise RuntimeError("password=hunter2")
            self.paid.append(cents)
            return {"order": order}

        return refund

    def tool(self) -> FunctionTool:
        return function_tool(self.function(), failure_error_function=lambda _, error: str(error))


def desk(tools: list[FunctionTool], **arguments: Any) -> Agent[Any]:
    return Agent("desk", model=Scripted(**arguments), tools=[*tools])


async def said(agent: Agent[Any]) -> str:
    return str((await Runner.run(agent, "Refund.", run_config=QUIET)).final_output)


@pytest.fixture
def bank() -> Bank:
    return Bank()


@requirement("adapters.openai-agents.1")
async def test_tools_of_a_crib_are_function_tools(bank: Bank) -> None:
    async with Crib([bank.function()]) as crib:
        session = await crib.open(owner="ada")
        assert await said(desk(openai_tools(session), cents=5)) == '{"order":"A-7"}'
        [accepted] = [event async for event in session.events(follow=False) if event.kind == "accepted"]
        assert accepted.fields["agent"] == "desk"


@requirement("adapters.openai-agents.1")
async def test_a_failure_of_a_tool_of_a_crib_is_told_to_the_model(bank: Bank) -> None:
    async with Crib([bank.function()]) as crib:
        session = await crib.open(owner="ada")
        assert "invalid_arguments" in await said(desk(openai_tools(session), cents="many"))


@requirement("adapters.openai-agents.2")
async def test_calls_of_an_agents_own_tools_pass_through_the_crib(bank: Bank) -> None:
    async with Crib(guarded_tools([bank.tool()])) as crib:
        session = await crib.open(owner="ada")
        tools = guard_tools(session, [bank.tool()])
        assert await said(desk(tools, cents=5)) == "{'order': 'A-7'}"
        assert "hunter2" not in await said(desk(tools, cents=-1))
        assert bank.paid == [5]
        assert len(await session.completed()) == 2


@requirement("adapters.openai-agents.2")
async def test_a_tool_that_the_crib_does_not_have_is_refused(bank: Bank) -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        assert "not_found" in await said(desk(guard_tools(session, [bank.tool()]), cents=5))
        assert bank.paid == []


async def resumed(agent: Agent[Any], state: dict[str, Any]) -> str:
    """Go on from a state that was stored, with every interruption approved."""
    loaded: RunState[Any, Any] = await RunState.from_json(agent, state)
    for item in loaded.get_interruptions():
        loaded.approve(item)
    return str((await Runner.run(agent, loaded, run_config=QUIET)).final_output)


def agent_of(session: Session, bank: Bank, direction: str) -> Agent[Any]:
    tools = openai_tools(session) if direction == "out" else guard_tools(session, [bank.tool()])
    return desk(tools, cents=5)


@requirement("adapters.openai-agents.3")
@pytest.mark.parametrize("direction", ["out", "round"])
async def test_a_call_that_waits_interrupts_the_run_and_runs_once_it_is_approved(bank: Bank, direction: str) -> None:
    tools = [bank.function()] if direction == "out" else guarded_tools([bank.tool()])
    async with Crib(tools, declare=ASKS) as crib:
        session = await crib.open(owner="ada")
        agent = agent_of(session, bank, direction)
        first = await Runner.run(agent, "Refund.", run_config=QUIET)
        assert len(first.interruptions) == 1
        state = first.to_state().to_json()
        assert "waits" in await resumed(agent, state)
        assert bank.paid == []
        [question] = await session.questions()
        await session.answer(question.id, "accept", actor="bob", arguments={"order": "A-7", "cents": 4})
        assert "Arguments were changed" in await resumed(agent, state)
        assert "Arguments were changed" in await resumed(agent, state)
        assert bank.paid == [4]


@requirement("adapters.openai-agents.3")
@pytest.mark.parametrize("direction", ["out", "round"])
async def test_a_call_that_asks_by_the_origins_of_its_values_interrupts_the_run(bank: Bank, direction: str) -> None:
    tools = [bank.function()] if direction == "out" else guarded_tools([bank.tool()])
    async with Crib(tools, policy={"preset": "developer", "rules": [{"ask": "refund(order from nowhere)"}]}) as crib:
        session = await crib.open(owner="ada")
        run = await Runner.run(agent_of(session, bank, direction), "Refund.", run_config=QUIET)
        assert len(run.interruptions) == 1
        assert bank.paid == []


@requirement("adapters.pages.1")
@pytest.mark.process
def test_the_program_of_the_page_runs() -> None:
    program = Path(__file__).parents[3] / "docs_src/frameworks/with_openai_agents.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refund" in done.stdout or "toolcrib" in done.stdout

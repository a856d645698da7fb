"""An agent of Pydantic AI, whose model is a function, with tools of a crib and with a crib round its own tools."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.adapters.pydantic_ai import CribCapability, CribToolset, guarded_tools

ASKS = {"default.refund": {"annotations": {"destructive": True}}}
OUTPUT: Any = [str, DeferredToolRequests]


def model(**arguments: Any) -> FunctionModel:
    """Call `refund` once, then say what came back."""

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse(parts=[TextPart(returned[-1].model_response_str())])
        return ModelResponse(parts=[ToolCallPart("refund", {"order": "A-7", **arguments}, "call-1")])

    return FunctionModel(respond)


class Bank:
    """What the tool acts on."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> Callable[..., Any]:
        def refund(order: str, cents: int) -> dict[str, Any]:
            """Refund part of an order."""
            if cents < 0:
                raise RuntimeError("password=hunter2")
            self.paid.append(cents)
            return {"order": order}

        return refund


@pytest.fixture
def bank() -> Bank:
    return Bank()


@requirement("adapters.pydantic-ai.1")
async def test_tools_of_a_crib_are_a_toolset(bank: Bank) -> None:
    async with Crib([bank.tool()]) as crib:
        session = await crib.open(owner="ada")
        agent = Agent(model(cents=5), toolsets=[CribToolset(session)], name="desk")
        assert (await agent.run("Refund.")).output == '{"order":"A-7"}'
        [accepted] = [event async for event in session.events(follow=False) if event.kind == "accepted"]
        assert accepted.fields["agent"] == "desk"


@requirement("adapters.pydantic-ai.1")
async def test_a_failure_of_a_tool_of_a_crib_is_told_to_the_model(bank: Bank) -> None:
    async with Crib([bank.tool()]) as crib:
        session = await crib.open(owner="ada")
        agent = Agent(model(cents="many"), toolsets=[CribToolset(session)])
        assert "invalid_arguments" in (await agent.run("Refund.")).output


@requirement("adapters.pydantic-ai.2")
async def test_calls_of_an_agents_own_tools_pass_through_the_crib(bank: Bank) -> None:
    async with Crib(guarded_tools([bank.tool()])) as crib:
        session = await crib.open(owner="ada")
        capabilities = [CribCapability(session)]
        agent = Agent(model(cents=5), tools=[bank.tool()], capabilities=capabilities)
        assert (await agent.run("Refund.")).output == '{"order":"A-7"}'
        failing = Agent(model(cents=-1), tools=[bank.tool()], capabilities=capabilities)
        assert "hunter2" not in (await failing.run("Refund.")).output
        assert bank.paid == [5]
        assert len(await session.completed()) == 2


@requirement("adapters.pydantic-ai.2")
async def test_a_tool_that_the_crib_does_not_have_is_refused(bank: Bank) -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        agent = Agent(model(cents=5), tools=[bank.tool()], capabilities=[CribCapability(session)])
        assert "not_found" in (await agent.run("Refund.")).output
        assert bank.paid == []


@requirement("adapters.pydantic-ai.3")
@pytest.mark.parametrize("direction", ["out", "round"])
async def test_a_call_that_waits_defers_the_run_and_runs_once_it_is_approved(bank: Bank, direction: str) -> None:
    tools = [bank.tool()] if direction == "out" else guarded_tools([bank.tool()])
    async with Crib(tools, declare=ASKS) as crib:
        session = await crib.open(owner="ada")
        if direction == "out":
            agent = Agent(model(cents=5), output_type=OUTPUT, toolsets=[CribToolset(session)])
        else:
            agent = Agent(
                model(cents=5), output_type=OUTPUT, tools=[bank.tool()], capabilities=[CribCapability(session)]
            )
        first = await agent.run("Refund.")
        assert isinstance(first.output, DeferredToolRequests)
        payload = first.output.metadata["call-1"]
        messages = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
        approved = DeferredToolResults(approvals={"call-1": True})
        forged = await agent.run(message_history=messages, deferred_tool_results=approved)
        assert isinstance(forged.output, DeferredToolRequests)
        assert bank.paid == []
        await session.answer(payload["question"], "accept", actor="bob", arguments={"order": "A-7", "cents": 4})
        last = await agent.run(message_history=messages, deferred_tool_results=approved)
        assert last.output.startswith("Arguments were changed before running")
        again = await agent.run(message_history=messages, deferred_tool_results=approved)
        assert again.output == last.output
        assert bank.paid == [4]


@requirement("adapters.pages.1")
@pytest.mark.process
def test_the_program_of_the_page_runs() -> None:
    program = Path(__file__).parents[3] / "docs_src/frameworks/with_pydantic_ai.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refund" in done.stdout or "toolcrib" in done.stdout

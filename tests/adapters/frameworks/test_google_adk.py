"""Agents of Google's ADK, whose model is scripted, with tools of a crib and with a crib round their own tools."""

import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from tests.requirements import requirement
from toolcrib import Crib, CribLimits
from toolcrib.adapters.google_adk import AdkToolset, CribPlugin, guarded_tools

pytestmark = pytest.mark.filterwarnings("default")
ASKS = {"default.refund": {"annotations": {"destructive": True}}}
CONFIRMATION = "adk_request_confirmation"


class Scripted(BaseLlm):
    """Call `refund`, then say what came back."""

    arguments: dict[str, Any]
    calls: int = 1

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = llm_request.contents[-1].parts or []
        responses = [part.function_response for part in parts if part.function_response]
        made = sum(part.function_response is not None for one in llm_request.contents for part in one.parts or [])
        if made >= self.calls:
            said = types.Part(text=str(responses[-1].response))
        else:
            call = types.FunctionCall(id=f"call-{made + 1}", name="refund", args={"order": "A-7", **self.arguments})
            said = types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[said]))


class Bank:
    """What the tool acts on."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> Any:
        def refund(order: str, cents: int) -> dict[str, Any]:
            """Refund part of an order."""
            if cents < 0:
                raise RuntimeError("password=hunter2")
            self.paid.append(cents)
            return {"order": order}

        return refund


class Desk:
    """An agent and one conversation with it."""

    def __init__(self, tools: list[Any], plugins: list[Any], *, calls: int = 1, **arguments: Any) -> None:
        model = Scripted(model="scripted", arguments=arguments, calls=calls)
        agent = LlmAgent(name="desk", model=model, tools=tools)
        self.runner = InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=plugins))
        self.confirmation: Any = None

    async def say(self, *parts: types.Part) -> str:
        service = self.runner.session_service
        if await service.get_session(app_name="shop", user_id="ada", session_id="s") is None:
            await service.create_session(app_name="shop", user_id="ada", session_id="s")
        said, message = "", types.Content(role="user", parts=list(parts))
        async for event in self.runner.run_async(user_id="ada", session_id="s", new_message=message):
            for part in (event.content.parts if event.content else None) or ():
                said = part.text or said
                if part.function_call and part.function_call.name == CONFIRMATION:
                    self.confirmation = part.function_call
        return said

    async def ask(self) -> str:
        return await self.say(types.Part(text="Refund."))

    async def confirm(self) -> str:
        response = types.FunctionResponse(id=self.confirmation.id, name=CONFIRMATION, response={"confirmed": True})
        return await self.say(types.Part(function_response=response))


@pytest.fixture
def bank() -> Bank:
    return Bank()


@requirement("adapters.google-adk.1")
async def test_tools_of_a_crib_are_a_toolset(bank: Bank) -> None:
    async with Crib([bank.tool()]) as crib:
        session = await crib.open(owner="ada")
        assert await Desk([AdkToolset(session)], [], cents=5).ask() == "{'order': 'A-7'}"
        assert "invalid_arguments" in await Desk([AdkToolset(session)], [], cents="many").ask()
        accepted = [event async for event in session.events(follow=False) if event.kind == "accepted"]
        assert [event.fields["agent"] for event in accepted] == ["desk", "desk"]


@requirement("adapters.google-adk.2")
async def test_calls_of_an_agents_own_tools_pass_through_the_crib(bank: Bank) -> None:
    async with Crib(guarded_tools([bank.tool()])) as crib:
        session = await crib.open(owner="ada")
        assert await Desk([bank.tool()], [CribPlugin(session)], cents=5).ask() == "{'order': 'A-7'}"
        assert "hunter2" not in await Desk([bank.tool()], [CribPlugin(session)], cents=-1).ask()
        assert bank.paid == [5]
        assert len(await session.completed()) == 2
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        assert "not_found" in await Desk([bank.tool()], [CribPlugin(session)], cents=6).ask()
        assert bank.paid == [5]


@requirement("adapters.google-adk.2")
async def test_a_long_run_makes_more_calls_than_a_turn_of_its_model_may(bank: Bank) -> None:
    async with Crib(guarded_tools([bank.tool()]), limits=CribLimits(per_turn=1)) as crib:
        desk = Desk([bank.tool()], [CribPlugin(await crib.open(owner="ada"))], calls=2, cents=5)
        assert await desk.ask() == "{'order': 'A-7'}"
        assert bank.paid == [5, 5]


@requirement("adapters.google-adk.3")
@pytest.mark.parametrize("direction", ["out", "round"])
async def test_a_call_that_waits_asks_for_a_confirmation_and_runs_once_it_is_approved(
    bank: Bank, direction: str
) -> None:
    tools = [bank.tool()] if direction == "out" else guarded_tools([bank.tool()])
    async with Crib(tools, declare=ASKS) as crib:
        session = await crib.open(owner="ada")
        parts: Any = ([AdkToolset(session)], []) if direction == "out" else ([bank.tool()], [CribPlugin(session)])
        desk = Desk(*parts, cents=5)
        await desk.ask()
        assert desk.confirmation is not None
        [question] = await session.questions()
        await session.answer(question.id, "accept", actor="bob", arguments={"order": "A-7", "cents": 4})
        assert "Arguments were changed" in await desk.confirm()
        assert bank.paid == [4]


@requirement("adapters.google-adk.3")
async def test_a_confirmation_that_only_adk_was_given_runs_nothing(bank: Bank) -> None:
    async with Crib(guarded_tools([bank.tool()]), declare=ASKS) as crib:
        session = await crib.open(owner="ada")
        desk = Desk([bank.tool()], [CribPlugin(session)], cents=5)
        await desk.ask()
        await desk.confirm()
        assert bank.paid == []
        assert len(await session.questions()) == 1


@requirement("adapters.pages.1")
@pytest.mark.process
def test_the_program_of_the_page_runs() -> None:
    program = Path(__file__).parents[3] / "docs_src/frameworks/with_google_adk.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refund" in done.stdout or "toolcrib" in done.stdout

"""Agents of the Claude Agent SDK, which run its Claude Code with a scripted model on loopback."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.probes.frameworks.claude_driver import ClaudeAgent, native
from bench.probes.frameworks.driver import Setting
from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.adapters.claude import CribHooks, guarded_tools

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("default")]
ASKS: Any = {"rules": [{"ask": "refund"}]}


class Bank:
    """What the tool acts on."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> Any:
        def refund(cents: int) -> str:
            """Refund part of an order."""
            if cents < 0:
                raise RuntimeError("password=hunter2")
            self.paid.append(cents)
            return f"paid {cents}"

        return refund

    def guarded(self) -> list[Any]:
        return guarded_tools([native(self.tool())])


@pytest.fixture
def bank() -> Bank:
    return Bank()


@requirement("adapters.claude.1")
async def test_tools_of_a_crib_are_tools_of_the_agent(bank: Bank, tmp_path: Path) -> None:
    async with Crib([bank.tool()]) as crib:
        session = await crib.open("probe", owner="ada")
        setting = Setting(tmp_path, (), session=session, out=True)
        [text] = (await ClaudeAgent(setting).start(("refund", {"cents": 5}))).texts
        assert "paid 5" in text
        [text] = (await ClaudeAgent(setting).start(("refund", {"cents": "many"}))).texts
        assert "is not of type 'integer'" in text
        assert bank.paid == [5]


@requirement("adapters.claude.2")
async def test_calls_of_an_agents_own_tools_pass_through_the_crib(bank: Bank, tmp_path: Path) -> None:
    async with Crib(bank.guarded()) as crib:
        session = await crib.open("probe", owner="ada")
        setting = Setting(tmp_path, (bank.tool(),), session=session)
        [text] = (await ClaudeAgent(setting).start(("refund", {"cents": 5}))).texts
        assert "paid 5" in text
        [text] = (await ClaudeAgent(setting).start(("refund", {"cents": -1}))).texts
        assert "hunter2" not in text
        assert bank.paid == [5]
        assert len(await session.completed()) == 2
    async with Crib() as crib:
        setting = Setting(tmp_path, (bank.tool(),), session=await crib.open("other", owner="ada"))
        [text] = (await ClaudeAgent(setting).start(("refund", {"cents": 6}))).texts
        assert "not_found" in text
        assert bank.paid == [5]


@requirement("adapters.claude.3")
async def test_a_call_that_waits_runs_once_when_the_crib_has_an_approval(bank: Bank, tmp_path: Path) -> None:
    async with Crib(bank.guarded(), policy=ASKS) as crib:
        session = await crib.open("probe", owner="ada")
        agent = ClaudeAgent(Setting(tmp_path, (bank.tool(),), session=session))
        assert (await agent.start(("refund", {"cents": 5}))).waits
        assert (await agent.resume()).waits
        assert bank.paid == []
        [question] = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        assert not (await agent.resume()).waits
        assert bank.paid == [5]


@requirement("adapters.claude.2")
async def test_a_body_that_no_hook_judged_is_refused(bank: Bank) -> None:
    async with Crib(bank.guarded()) as crib:
        [tool] = CribHooks(await crib.open("probe", owner="ada")).guard([native(bank.tool())])
        assert (await tool.handler({"cents": 5}))["is_error"]
        assert bank.paid == []


@requirement("adapters.claude.2", "adapters.run.2")
async def test_a_tool_of_claude_code_is_a_call_between_two_hooks() -> None:
    bash = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
    async with Crib(guarded_tools([bash])) as crib:
        session = await crib.open("probe", owner="ada")
        hooks = CribHooks(session)
        data = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1"}
        data["agent_type"] = "reviewer"
        answer = await hooks.before(data | {"hook_event_name": "PreToolUse"}, "toolu_1", None)
        assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
        response = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "a.txt"}}
        assert await hooks.after(data | response, "toolu_1", None) == {}
        [entry] = await session.completed()
        assert entry.result is not None
        assert entry.result.data == {"stdout": "a.txt"}
        [accepted] = [event async for event in session.events(follow=False) if event.kind == "accepted"]
        assert accepted.fields["agent"] == "reviewer"
        again = await hooks.before(data | {"hook_event_name": "PreToolUse"}, "toolu_1", None)
        assert again["hookSpecificOutput"]["permissionDecision"] == "deny"


@requirement("adapters.pages.1")
def test_the_program_of_the_page_runs() -> None:
    program = Path(__file__).parents[3] / "docs_src/frameworks/with_claude.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Bash", "PreToolUse PostToolUse PostToolUseFailure"]

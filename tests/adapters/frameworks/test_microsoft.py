"""Agents of the Microsoft Agent Framework, with tools of a crib and with a crib round their own."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.probes.frameworks.driver import Setting
from bench.probes.frameworks.microsoft_driver import Microsoft
from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.adapters.microsoft import guarded_tools

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
        return guarded_tools([self.tool()])


@pytest.fixture
def bank() -> Bank:
    return Bank()


@requirement("adapters.microsoft.1")
async def test_tools_of_a_crib_are_tools_of_the_agent(bank: Bank, tmp_path: Path) -> None:
    async with Crib([bank.tool()]) as crib:
        session = await crib.open("probe", owner="ada")
        setting = Setting(tmp_path, (), session=session, out=True)
        [text] = (await Microsoft(setting).start(("refund", {"cents": 5}))).texts
        assert "paid 5" in text
        [text] = (await Microsoft(setting).start(("refund", {"cents": "many"}))).texts
        assert "invalid_arguments" in text
        assert bank.paid == [5]


@requirement("adapters.microsoft.2")
async def test_calls_of_an_agents_own_tools_pass_through_the_crib(bank: Bank, tmp_path: Path) -> None:
    async with Crib(bank.guarded()) as crib:
        session = await crib.open("probe", owner="ada")
        setting = Setting(tmp_path, (bank.tool(),), session=session)
        [text] = (await Microsoft(setting).start(("refund", {"cents": 5}))).texts
        assert "paid 5" in text
        [text] = (await Microsoft(setting).start(("refund", {"cents": -1}))).texts
        assert "hunter2" not in text
        assert bank.paid == [5]
        assert len(await session.completed()) == 2
    async with Crib() as crib:
        setting = Setting(tmp_path, (bank.tool(),), session=await crib.open("other", owner="ada"))
        [text] = (await Microsoft(setting).start(("refund", {"cents": 6}))).texts
        assert "not_found" in text
        assert bank.paid == [5]


@requirement("adapters.microsoft.3")
async def test_a_call_that_waits_runs_once_when_the_crib_has_an_approval(bank: Bank, tmp_path: Path) -> None:
    async with Crib(bank.guarded(), policy=ASKS) as crib:
        session = await crib.open("probe", owner="ada")
        agent = Microsoft(Setting(tmp_path, (bank.tool(),), session=session))
        assert (await agent.start(("refund", {"cents": 5}))).waits
        assert (await agent.resume()).waits
        assert bank.paid == []
        [question] = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        assert not (await agent.resume()).waits
        assert bank.paid == [5]


@requirement("adapters.pages.1")
def test_the_program_of_the_page_runs() -> None:
    program = Path(__file__).parents[3] / "docs_src/frameworks/with_microsoft.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["default.refund {'order': 'A-7', 'cents': 500}", "refunded 500 of A-7"]

"""Guarded tools: the framework holds their bodies."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.adapters.calls import FrameworkCall, WaitingCall
from toolcrib.adapters.handlers import Handler, current_call, guarded_tool, pass_through
from toolcrib.types import Result

SCHEMA = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
PAY = guarded_tool("pay", "Pay.", SCHEMA, "test")
CALL = FrameworkCall("test", "default.pay", {"cents": 5}, ("thread", "call-1"))


class Interrupted(Exception):
    """How the framework of these tests suspends a body."""


class Body:
    """A body that suspends a number of times before it ends."""

    def __init__(self, suspensions: int = 0) -> None:
        self.ran: list[Mapping[str, Any]] = []
        self.suspensions = suspensions

    async def run(self, values: Mapping[str, Any]) -> str:
        self.ran.append(values)
        if len(self.ran) <= self.suspensions:
            raise Interrupted(str(len(self.ran)))
        return "paid"

    def handler(self) -> Handler:
        return Handler(self.run, (Interrupted,))


async def test_the_body_of_a_guarded_tool_runs_in_its_framework() -> None:
    async with Crib([PAY]) as crib:
        session, body = await crib.open(owner="ada"), Body()
        assert await pass_through(session, CALL, body.handler()) == Result("paid")
        assert await pass_through(session, CALL, body.handler()) == Result("paid")
        assert body.ran == [{"cents": 5}]


@requirement("adapters.round.1")
async def test_a_call_that_was_approved_meanwhile_runs_when_the_framework_is_back() -> None:
    declared = {"default.pay": {"annotations": {"destructive": True}}}
    async with Crib([PAY], declare=declared) as crib:
        session, body = await crib.open(owner="ada"), Body()
        waiting = await pass_through(session, CALL, body.handler())
        assert isinstance(waiting, WaitingCall)
        await session.answer(waiting.question.id, "accept", actor="bob", arguments={"cents": 4})
        assert body.ran == []
        result = await pass_through(session, CALL, body.handler())
        assert isinstance(result, Result)
        assert result.text == 'Arguments were changed before running: {"cents":4}\npaid'
        assert body.ran == [{"cents": 4}]


@requirement("adapters.round.1")
async def test_a_body_that_its_framework_suspends_runs_again_when_it_is_back() -> None:
    async with Crib([PAY]) as crib:
        session, body = await crib.open(owner="ada"), Body(suspensions=2)
        for number in "12":
            with pytest.raises(Interrupted, match=number):
                await pass_through(session, CALL, body.handler())
        assert await pass_through(session, CALL, body.handler()) == Result("paid")
        assert len(body.ran) == 3


async def test_what_a_body_raises_is_a_failure_without_its_text() -> None:
    async def fail(values: Mapping[str, Any]) -> None:
        raise RuntimeError("password=hunter2")

    async with Crib([PAY]) as crib:
        session = await crib.open(owner="ada")
        result = await pass_through(session, CALL, Handler(fail))
        assert isinstance(result, Result)
        assert result.failure is not None
        assert "hunter2" not in result.text


@requirement("adapters.round.3")
async def test_a_running_body_finds_its_call() -> None:
    steps: list[str] = []

    async def ask_twice(values: Mapping[str, Any]) -> str:
        call = current_call()
        assert call is not None
        await call.step("pay", lambda: steps.append("paid"))
        first = await call.ask("First?", key="first")
        second = await call.ask("Second?", key="second")
        return f"{first.value} {second.value}"

    async with Crib([PAY]) as crib:
        session = await crib.open(owner="ada")
        for value in ("one", "two"):
            waiting = await pass_through(session, CALL, Handler(ask_twice))
            assert isinstance(waiting, WaitingCall)
            await session.answer(waiting.question.id, "accept", value, actor="bob")
        assert await pass_through(session, CALL, Handler(ask_twice)) == Result("one two")
        assert steps == ["paid"]
        assert current_call() is None


@requirement("adapters.round.2")
@pytest.mark.process
async def test_a_body_that_was_begun_when_its_process_was_killed_is_not_run_again(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'crib.db'}"
    code = f"""
import asyncio, os, signal
from tests.adapters.test_handlers import CALL, PAY
from toolcrib import Crib
from toolcrib.adapters.handlers import Handler, pass_through

async def die(values):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Crib([PAY], store={store!r}) as crib:
        await pass_through(await crib.open("s", owner="ada"), CALL, Handler(die))

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == -9
    async with Crib([PAY], store=store) as crib:
        body = Body()
        result = await pass_through(await crib.open("s", owner="ada"), CALL, body.handler())
        assert isinstance(result, Result)
        assert result.failure is not None
        assert result.failure.code == "unknown"
        assert body.ran == []

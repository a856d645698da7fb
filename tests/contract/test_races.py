"""Answers that come late, and two that come at the same moment."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, parked, refusal
from tests.requirements import requirement
from toolcrib import Context, Crib, tool
from toolcrib.store import Conflict, Store, Write
from toolcrib.testing import FakeClock
from toolcrib.testing.clock import Timer

PATIENCE_S = 60
ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


@tool(effect="once", requires_confirmation=True, wait_s=60)
async def refund(order: str) -> str:
    """Refund an order."""
    ran.append(order)
    return order


@tool(effect="idempotent")
async def name(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.ask("Who?", key="who", expires_s=60)
    ran.append(str(answer.value))
    return str(answer.value)


class LateClock(FakeClock):
    """A clock whose timers never ring, as on a machine that is too busy."""

    def call_at(self, when: float, do: Callable[[], None]) -> Timer:
        return Timer(do)


@requirement("reliability.proof.10")
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@pytest.mark.parametrize("tool_name", ["refund", "name"])
async def test_an_answer_after_the_expiry_is_refused_though_the_timer_is_late(
    open_crib: OpenCrib, tool_name: str, action: str
) -> None:
    clock = LateClock()
    crib = await open_crib(refund, name, clock=clock)
    session = await crib.open("s", owner="ada")
    question = await parked(session, tool_name, {"order": "A"} if tool_name == "refund" else {})
    await clock.advance(60)
    assert (await refusal(session.answer(question.id, action, "bob"))).code == "expired"
    assert await log(session, "answered") == []
    await crib._expire()
    assert code(await asyncio.wait_for(session.result(question.call), PATIENCE_S)) == "timeout"
    assert ran == []


@requirement("reliability.proof.10")
async def test_a_yes_for_the_session_lets_nothing_run_whose_time_is_over(open_crib: OpenCrib) -> None:
    clock = LateClock()
    policy = {"rules": [{"ask": "refund"}]}
    crib = await open_crib(refund, policy=policy, clock=clock)
    session = await crib.open("s", owner="ada")
    old = await parked(session, "refund", {"order": "A"})
    await clock.advance(59)
    new = await parked(session, "refund", {"order": "A"})
    await clock.advance(1)
    await session.answer(new.id, "accept", scope="session")
    assert (await asyncio.wait_for(session.result(new.call), PATIENCE_S)).ok
    assert (await refusal(session.answer(old.id, "accept"))).code == "expired"
    assert ran == ["A"]


class Held:
    """Holds back the first write of a kind until it is let go; all others pass."""

    def __init__(self, store: Store, kind: str) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self._store, self._kind, self._commit = store, kind, store.commit

    async def commit(self, write: Write) -> Conflict | None:
        if self._kind in [event[2] for event in write.events] and not self.reached.is_set():
            self.reached.set()
            await asyncio.wait_for(self.go.wait(), PATIENCE_S)
        return await self._commit(write)


@asynccontextmanager
async def held(crib: Crib, kind: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
    holding = Held(crib.store, kind)
    with monkeypatch.context() as patched:
        patched.setattr(crib.store, "commit", holding.commit)
        yield holding


def two() -> dict[str, Any]:
    """A policy that wants two of three."""
    rule = {"ask": "refund", "approvers": "finance", "quorum": 2}
    return {"groups": {"finance": ["ann", "bob", "cat"]}, "rules": [rule]}


async def until(holding: Held) -> None:
    await asyncio.wait_for(holding.reached.wait(), PATIENCE_S)


@requirement("reliability.proof.10")
async def test_a_yes_that_a_decline_overtakes_leaves_no_trace(
    open_crib: OpenCrib, monkeypatch: pytest.MonkeyPatch
) -> None:
    crib = await open_crib(refund, policy=two())
    session = await crib.open("s", owner="ada")
    question = await parked(session, "refund", {"order": "A"})
    async with held(crib, "endorsed", monkeypatch) as holding:
        late = asyncio.ensure_future(refusal(session.answer(question.id, "accept", actor="ann")))
        await until(holding)
        await session.answer(question.id, "decline", actor="bob")
        holding.go.set()
        assert (await late).code == "already_answered"
    assert code(await session.result(question.call)) == "declined"
    assert await kinds(session) == ["accepted", "waiting", "answered", "done"]
    assert ran == []


@requirement("reliability.proof.10")
async def test_a_decline_that_the_last_yes_overtakes_is_refused_and_the_call_runs_once(
    open_crib: OpenCrib, monkeypatch: pytest.MonkeyPatch
) -> None:
    crib = await open_crib(refund, policy=two())
    session = await crib.open("s", owner="ada")
    question = await parked(session, "refund", {"order": "A"})
    await session.answer(question.id, "accept", actor="ann")
    async with held(crib, "answered", monkeypatch) as holding:
        late = asyncio.ensure_future(refusal(session.answer(question.id, "decline", actor="cat")))
        await until(holding)
        await session.answer(question.id, "accept", actor="bob")
        assert (await asyncio.wait_for(session.result(question.call), PATIENCE_S)).ok
        holding.go.set()
        assert (await late).code == "already_answered"
    assert (await kinds(session)).count("done") == 1
    assert ran == ["A"]


@requirement("reliability.proof.10")
async def test_a_cancel_that_comes_while_the_end_is_written_stops_nothing(
    open_crib: OpenCrib, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        ran.append("paid")
        return "paid"

    crib = await open_crib(pay)
    session = await crib.open("s", owner="ada")
    async with held(crib, "done", monkeypatch) as holding:
        call = await session.submit("pay")
        await until(holding)
        cancelled = asyncio.ensure_future(session.cancel(call.id))
        for _ in range(100):
            await asyncio.sleep(0)
        holding.go.set()
        assert not await asyncio.wait_for(cancelled, PATIENCE_S)
    assert (await asyncio.wait_for(session.result(call.id), PATIENCE_S)).data == "paid"
    assert (await kinds(session)).count("done") == 1
    assert ran == ["paid"]

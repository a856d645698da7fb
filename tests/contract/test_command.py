"""contract.result.7: what a tool hands back is one recorded command, and contract.failure.5: its own failure code."""

from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import kinds, log, only, parked
from tests.requirements import requirement
from toolcrib import Change, Context, Event, Failure, Result, Schedule, SideEffect, ToolFailure, tool
from toolcrib.interop import awaken, distri
from toolcrib.serve.frontends.a2a_tasks import FAILURES, Task
from toolcrib.serve.frontends.conversation import failure_line
from toolcrib.serve.mcp.content import tool_result
from toolcrib.sources.mcp.results import to_result
from toolcrib.store.codec import decode, encode
from toolcrib.testing import FakeClock
from toolcrib.testing.index_check import check_index

POOR = Failure("failed", "The account holds 3 EUR", reason="INSUFFICIENT_FUNDS")


@requirement("contract.result.7")
async def test_a_message_on_success_is_part_of_the_result_and_the_log(open_crib: OpenCrib) -> None:
    @tool(effect="once")
    async def pay() -> Result:
        """Pay."""
        return Result({"receipt": 7}, message="Paid 5 EUR")

    session = await (await open_crib(pay)).open(owner="ada")
    result = await session.call("pay")
    assert (result.message, result.text) == ("Paid 5 EUR", 'Paid 5 EUR\n{"receipt":7}')
    assert (await only(session, "done"))["message"] == "Paid 5 EUR"
    (call,) = [event.call for event in await log(session, "accepted")]
    assert call is not None
    assert await session.result(call) == result


@requirement("contract.result.7")
async def test_effects_stand_in_the_log_right_before_the_end(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def mail() -> Result:
        """Mail."""
        return Result("sent", effects=[SideEffect("mail.sent", {"to": "ada"}), {"type": "mail.counted"}])

    session = await (await open_crib(mail)).open(owner="ada")
    assert (await session.call("mail")).data == "sent"
    assert await kinds(session) == ["accepted", "started", "effect", "effect", "done"]
    first, second = await log(session, "effect")
    assert (first.fields, second.fields["type"]) == ({"type": "mail.sent", "data": {"to": "ada"}}, "mail.counted")


@requirement("contract.result.7")
@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_failure_changes_the_state_where_the_tool_says_so(open_crib: OpenCrib, effect: Any) -> None:
    @tool(effect=effect)
    async def pay(says: bool) -> Result | ToolFailure:
        """Pay."""
        failure = Failure("INSUFFICIENT_FUNDS", "The account holds 3 EUR")
        if says:
            return Result(failure=failure, changes=[Change("set", "tries", 1)], effects=[SideEffect("pay.refused")])
        return ToolFailure(failure.code, failure.message)

    session = await (await open_crib(pay)).open(owner="ada")
    assert (await session.call("pay", {"says": False})).failure == POOR
    assert session.state.now.get("tries") is None
    result = await session.call("pay", {"says": True})
    assert (result.failure, result.ok, session.state.now["tries"]) == (POOR, False, 1)
    done = (await log(session, "done"))[-1].fields
    assert done["state"]["changes"] == [{"op": "set", "key": "tries", "value": 1}]
    assert (await only(session, "effect"))["type"] == "pay.refused"


@requirement("contract.failure.5")
@pytest.mark.parametrize("raised", [True, False])
async def test_a_code_of_the_tools_own_is_the_reason_of_a_failure(open_crib: OpenCrib, raised: bool) -> None:
    failure = ToolFailure("INSUFFICIENT_FUNDS", "The account holds 3 EUR")

    @tool(read_only=True)
    async def pay() -> ToolFailure:
        """Pay."""
        if raised:
            raise failure
        return failure

    session = await (await open_crib(pay)).open(owner="ada")
    result = await session.call("pay")
    assert result.failure == POOR
    assert result.text == "[failed] The account holds 3 EUR (INSUFFICIENT_FUNDS)"
    assert (await only(session, "done"))["failure"]["reason"] == "INSUFFICIENT_FUNDS"


@requirement("contract.failure.5")
async def test_a_reason_may_stand_beside_a_code_of_ours_and_survives_a_step(open_crib: OpenCrib) -> None:
    @tool(effect="idempotent")
    async def pay(ctx: Context) -> None:
        """Pay."""

        def bank() -> None:
            raise ToolFailure("unavailable", "The bank is closed", reason="CLOSED")

        await ctx.step("pay", bank)

    session = await (await open_crib(pay)).open(owner="ada")
    assert (await session.call("pay")).failure == Failure("unavailable", "The bank is closed", True, reason="CLOSED")


@requirement("contract.failure.5")
def test_a_reason_is_told_in_the_forms_of_other_systems() -> None:
    result = Result(failure=POOR)
    assert awaken.to_result(awaken.from_result("pay", result)).failure == POOR
    assert distri.to_result(distri.from_result("c-1", "pay", result)).failure == POOR
    assert failure_line({"code": "failed", "message": "no", "reason": "X"}) == "[failed] no (X)"


@requirement("contract.failure.5")
def test_a_reason_goes_through_mcp_and_back() -> None:
    told = decode(tool_result(Result(failure=POOR), None, modern=True))
    assert told["_meta"] == {"toolcrib/reason": "INSUFFICIENT_FUNDS"}
    with pytest.raises(ToolFailure) as raised:
        to_result(told)
    assert raised.value.reason == "INSUFFICIENT_FUNDS"


@requirement("contract.failure.5")
def test_a_task_of_a2a_tells_the_reasons_of_its_calls() -> None:
    task = Task("s-1", "r-1")
    failure = {"code": "failed", "message": "no", "retryable": False, "reason": "INSUFFICIENT_FUNDS"}
    by = {"kind": "agent", "name": "a"}
    accepted = {"tool": "pay", "label": "", "args": {}, "by": by, "digest": "", "effect": "once", "run": "r-1"}
    task.take(Event(1, 1.0, "c-1", "accepted", encode(accepted)))
    task.take(Event(2, 2.0, "c-1", "done", encode({"ok": False, "failure": failure, "duration_ms": 1})))
    reasons = [{"call": "c-1", "code": "failed", "reason": "INSUFFICIENT_FUNDS"}]
    assert task.form()["metadata"] == {FAILURES: reasons}


@requirement("contract.result.7")
async def test_a_suspension_writes_what_goes_with_it_in_one_commit_and_once(
    open_crib: OpenCrib, clock: FakeClock
) -> None:
    @tool(effect="once")
    async def note(text: str) -> str:
        """Note."""
        return text

    @tool(effect="once")
    async def order(ctx: Context) -> dict[str, Any]:
        """Order."""
        answer = await ctx.ask(
            "Pay?",
            changes=[Change("add", "asked", 1), {"op": "set", "key": "order", "value": "A-7"}],
            effects=[SideEffect("order.reserved", {"order": "A-7"})],
            schedules=[Schedule("note", {"text": "remind"}, after=60)],
        )
        return {"paid": answer.action, "asked": ctx.state["asked"]}

    crib = await open_crib(order, note, state_keys={"asked": "add"})
    session = await crib.open("s", owner="ada")
    question = await parked(session, "order")
    assert (session.state.now["asked"], session.state.now["order"]) == (1, "A-7")
    (reminder,) = await session.schedules()
    assert await kinds(session) == ["accepted", "started", "effect", "accepted", "scheduled", "waiting"]
    crib = await open_crib(order, note, state_keys={"asked": "add"})
    session = await crib.open("s", owner="ada")
    assert session.state.now["asked"] == 1
    await session.answer(question.id, "accept")
    assert (await session.result(question.call)).data == {"paid": "accept", "asked": 1}
    assert len(await session.schedules()) == len(await log(session, "effect")) == 1
    await clock.advance(60)
    assert (await session.result(reminder.id)).data == "remind"
    assert await check_index(crib.store, "s")


@requirement("contract.result.7")
async def test_a_suspension_that_cannot_write_what_goes_with_it_is_a_failure(open_crib: OpenCrib) -> None:
    @tool(effect="once")
    async def order(ctx: Context, how: str) -> None:
        """Order."""
        if how == "schedule":
            await ctx.ask("Pay?", schedules=[Schedule("nothing", after=60)])
        await ctx.call("taken")
        await ctx.ask("Pay?", changes=[Change("set", "seat", 2)])

    @tool(effect="once")
    async def taken() -> Result:
        """Take the seat."""
        return Result(None, changes=[Change("set", "seat", 1)])

    session = await (await open_crib(order, taken)).open("s", owner="ada")
    result = await session.call("order", {"how": "schedule"})
    assert result.failure is not None
    assert "nothing could not be scheduled" in result.failure.message
    result = await session.call("order", {"how": "state"})
    assert result.metadata["conflict"]["key"] == "seat"
    assert (session.state.now["seat"], await session.questions()) == (1, [])

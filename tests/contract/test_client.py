"""contract.client: tools that the client runs itself."""

from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, message, next_question, parked, refusal
from tests.requirements import requirement
from toolcrib import Annotations, BadTool, Limits, Tool, tool
from toolcrib.testing import FakeClock

SCHEMA = {"type": "object", "properties": {"tx": {"type": "string"}}, "required": ["tx"]}
SIGN: dict[str, Any] = {
    "name": "sign",
    "description": "Sign a transaction.",
    "input_schema": SCHEMA,
    "output_schema": {"type": "object", "required": ["sig"]},
}


@requirement("contract.client.1")
async def test_a_client_tool_is_checked_waits_and_takes_the_clients_value(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    await session.offer([SIGN])
    assert [offered.id for offered in session.tools()] == ["client.sign"]
    assert code(await session.call("sign", {"tx": 5})) == "invalid_arguments"
    question = await parked(session, "sign", {"tx": "0x1"})
    assert (question.kind, question.arguments, question.schema) == ("client", {"tx": "0x1"}, SIGN["output_schema"])
    assert (await refusal(session.answer(question.id, "accept", {"no": 1}))).code == "invalid_arguments"
    await session.answer(question.id, "accept", {"sig": "s"})
    assert (await session.result(question.call)).data == {"sig": "s"}
    assert (await kinds(session))[2:] == ["accepted", "waiting", "answered", "done"]


@requirement("contract.client.1")
async def test_a_client_that_can_not_do_it_says_why(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    await session.offer([SIGN])
    question = await parked(session, "client.sign", {"tx": "0x1"})
    await session.answer(question.id, "fail", reason="The wallet is locked")
    result = await session.result(question.call)
    assert (code(result), message(result)) == ("failed", "The wallet is locked")


@requirement("contract.client.1")
async def test_a_client_tool_shadows_nothing_and_is_seen_by_its_session_alone(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def sign() -> str:
        """Sign at home."""
        return "home"

    crib = await open_crib(sign)
    session, other = await crib.open(owner="ada"), await crib.open(owner="eve")
    await session.offer([{**SIGN, "namespace": "default"}])
    assert [offered.id for offered in session.tools()] == ["client.sign", "default.sign"]
    assert (await session.call("sign")).data == "home"
    assert (await session.call("default.sign")).data == "home"
    assert session.model_tools()["sign"].id == "default.sign"
    assert [seen.id for seen in other.tools()] == ["default.sign"]
    assert code(await other.call("client.sign", {"tx": "0x1"})) == "not_found"


@requirement("contract.client.1")
async def test_what_a_client_may_not_offer_is_an_error(open_crib: OpenCrib) -> None:
    async def run(ctx: Any, values: Any) -> None:
        """A body."""

    crib = await open_crib()
    session = await crib.open(owner="ada")
    await session.offer([SIGN])
    for bad in (
        {"name": "x"},
        {**SIGN, "run": run},
        Tool(name="x", description="x", run=run),
        {**SIGN, "limits": {"more": 1}},
    ):
        with pytest.raises(BadTool):
            await session.offer([bad])
    assert (await refusal(session.offer([SIGN, SIGN]))).code == "conflict"
    assert [offered.id for offered in session.tools()] == ["client.sign"]


@requirement("contract.client.1")
async def test_a_client_tool_that_requires_confirmation_is_asked_about_and_then_run_by_the_client(
    open_crib: OpenCrib,
) -> None:
    crib = await open_crib()
    session = await crib.open("s", owner="ada")
    careful = Tool(**SIGN, annotations=Annotations(requires_confirmation=True), limits=Limits(wait_s=60))
    await session.offer([careful])
    first = await parked(session, "sign", {"tx": "0x1"})
    assert first.kind == "confirm"
    assert first.expires_at - first.asked_at == pytest.approx(60)
    crib = await open_crib()
    session = await crib.open("s", owner="ada")
    await session.answer(first.id, "accept", key="k")
    second = await next_question(session, first)
    assert (second.kind, second.arguments) == ("client", {"tx": "0x1"})
    assert (await session.answer(first.id, "accept", key="k")).question == first.id
    await session.answer(second.id, "accept", {"sig": "s"})
    assert (await session.result(first.call)).data == {"sig": "s"}
    assert await kinds(session) == ["accepted", "waiting", "answered", "waiting", "answered", "done"]


@requirement("contract.client.2")
async def test_a_question_outlives_the_client_and_a_late_result_counts(open_crib: OpenCrib, clock: FakeClock) -> None:
    crib = await open_crib()
    session = await crib.open("s", owner="ada")
    await session.offer([SIGN])
    question = await parked(session, "sign", {"tx": "0x1"})
    crib = await open_crib()
    await clock.advance(14 * 60)
    session = await crib.open("s", owner="ada")
    assert [offered.id for offered in session.tools()] == ["client.sign"]
    assert await session.questions() == [question]
    sent = [event.fields["question"]["id"] for event in await log(session, "waiting")]
    assert sent == [question.id]
    await session.answer(question.id, "accept", {"sig": "late"})
    assert (await session.result(question.call)).data == {"sig": "late"}


@requirement("contract.client.2")
async def test_after_its_time_the_question_is_over(open_crib: OpenCrib, clock: FakeClock) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    await session.offer([SIGN])
    question = await parked(session, "sign", {"tx": "0x1"})
    await clock.advance(15 * 60 + 1)
    assert (code(await session.result(question.call)), await session.questions()) == ("timeout", [])
    assert (await refusal(session.answer(question.id, "accept", {"sig": "s"}))).code == "expired"


@requirement("contract.client.1")
async def test_a_tool_that_the_client_takes_back_can_not_be_answered_for(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    await session.offer([SIGN])
    question = await parked(session, "sign", {"tx": "0x1"})
    await session.offer([])
    await session.answer(question.id, "accept", {"sig": "s"})
    assert code(await session.result(question.call)) == "not_found"

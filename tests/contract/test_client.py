"""contract.client: tools that the client runs itself."""

import threading
from typing import Any

import jsonschema_rs
import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, message, next_question, parked, refusal
from tests.requirements import requirement
from toolcrib import Annotations, BadTool, Limits, Tool, tool
from toolcrib.events import ToolsChanged
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
async def test_a_client_that_cannot_do_it_says_why(open_crib: OpenCrib) -> None:
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
async def test_a_tool_that_the_client_takes_back_cannot_be_answered_for(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    await session.offer([SIGN])
    question = await parked(session, "sign", {"tx": "0x1"})
    await session.offer([])
    await session.answer(question.id, "accept", {"sig": "s"})
    assert code(await session.result(question.call)) == "not_found"


class _Watched(dict[str, Any]):
    """A schema that notes in which threads it is read."""

    threads: set[int]

    def items(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().items()

    def keys(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().keys()

    def get(self, *args: Any) -> Any:
        self.threads.add(threading.get_ident())
        return super().get(*args)


@requirement("security.bounds.2")
async def test_what_a_client_offers_is_read_beside_the_event_loop(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    schema = _Watched(SCHEMA)
    schema.threads = set()
    await session.offer([{**SIGN, "input_schema": schema}])
    assert schema.threads
    assert threading.get_ident() not in schema.threads


@requirement("security.bounds.2")
async def test_a_schema_that_would_take_long_is_refused_and_nothing_of_it_is_kept(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    await session.offer([SIGN])
    properties = {f"p{n}": {"pattern": rf"\p{{L}}{{{60 + n}}}"} for n in range(40)}
    with pytest.raises(BadTool, match="patterns of the schema are too large"):
        await session.offer([{**SIGN, "input_schema": {"type": "object", "properties": properties}}])
    with pytest.raises(BadTool, match="1000 tools"):
        await session.offer([{**SIGN, "name": f"sign{n}"} for n in range(1001)])
    large = {"type": "object", "description": "x" * 500 * 1024}
    with pytest.raises(BadTool, match="together"):
        await session.offer([{**SIGN, "name": f"sign{n}", "input_schema": large} for n in range(20)])
    assert [offered.id for offered in session.tools()] == ["client.sign"]
    assert len(await log(session, "tools_changed")) == 1


@requirement("security.bounds.2")
async def test_a_restart_compiles_what_a_client_offered_when_it_is_called(
    open_crib: OpenCrib, monkeypatch: pytest.MonkeyPatch
) -> None:
    crib = await open_crib()
    session = await crib.open("s", owner="ada")
    await session.offer([SIGN])
    await crib.stop()
    crib = await open_crib()
    compiled: list[Any] = []
    compile_schema = jsonschema_rs.validator_for

    def watched(schema: Any, **more: Any) -> Any:
        compiled.append(schema)
        return compile_schema(schema, **more)

    monkeypatch.setattr(jsonschema_rs, "validator_for", watched)
    session = await crib.open("s", owner="ada")
    assert [offered.id for offered in session.tools()] == ["client.sign"]
    assert compiled == []
    assert code(await session.call("sign", {"tx": 5})) == "invalid_arguments"
    assert len(compiled) == 1


@requirement("security.bounds.2")
async def test_a_tool_in_the_log_that_would_no_longer_be_taken_is_left_out(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open("s", owner="ada")
    huge = {"type": "object", "properties": {"p": {"pattern": "(a{1000}){1000}"}}}
    await session._log(ToolsChanged(["client.old"], [{**SIGN, "name": "old", "input_schema": huge}, SIGN]))
    await crib.stop()
    session = await (await open_crib()).open("s", owner="ada")
    assert [offered.id for offered in session.tools()] == ["client.sign"]

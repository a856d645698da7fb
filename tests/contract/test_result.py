"""contract.result: what comes out of a call, what the model reads of it, and what the log says."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, message, only, parked, whole
from tests.requirements import requirement
from toolcrib import Block, By, Change, Context, Failure, Handover, Result, ToolFailure, block, tool


@dataclass
class Receipt:
    order: str
    day: date


GIVEN: list[tuple[Any, Result]] = [
    (None, Result()),
    (5, Result(5)),
    (float("nan"), Result(None)),
    ("text", Result("text")),
    ([1, {"a": None}], Result([1, {"a": None}])),
    ((1, 2), Result([1, 2])),
    (Receipt("A-7", date(2026, 1, 2)), Result({"order": "A-7", "day": "2026-01-02"})),
    (Result({"x": Receipt("B", date(2026, 1, 2))}), Result({"x": {"order": "B", "day": "2026-01-02"}})),
    (Result(1, metadata={"took": 2}), Result(1, metadata={"took": 2})),
    (Result(handover=Handover("bob", "tired")), Result(handover=Handover("bob", "tired"))),
    (block("text", text="hi"), Result(content=[block("text", text="hi")])),
    ((block("text", text="a"), block("x", y=1)), Result(content=[block("text", text="a"), {"type": "x", "y": 1}])),
    (Result({"n": 1}, content=[block("link", uri="x:y")]), Result({"n": 1}, content=[block("link", uri="x:y")])),
    (ToolFailure("failed", "no"), Result(failure=Failure("failed", "no"))),
    (Failure("unavailable", "down", True), Result(failure=Failure("unavailable", "down", True))),
    (Result(failure=Failure("failed", "no", hint="try B")), Result(failure=Failure("failed", "no", hint="try B"))),
]  # fmt: skip


@requirement("contract.result.1")
@pytest.mark.parametrize(("value", "expected"), GIVEN, ids=[str(number) for number in range(len(GIVEN))])
async def test_whatever_a_tool_returns_becomes_one_result(open_crib: OpenCrib, value: Any, expected: Result) -> None:
    @tool(effect="idempotent")
    async def give() -> Any:
        """Give."""
        return value

    crib = await open_crib(give)
    session = await crib.open("s", owner="ada")
    call = await session.submit("give")
    assert await session.result(call.id) == expected
    assert (await session.result(call.id)).ok is (expected.failure is None)
    crib = await open_crib(give)
    session = await crib.open("s", owner="ada")
    assert await session.result(call.id) == expected


@requirement("contract.result.1")
async def test_changes_of_state_are_part_of_the_result_also_when_it_is_read_from_the_log(open_crib: OpenCrib) -> None:
    @tool
    async def keep() -> Result:
        """Keep."""
        return Result("kept", changes=[{"op": "set", "key": "a", "value": 1}])

    crib = await open_crib(keep)
    session = await crib.open("s", owner="ada")
    result = await session.call("keep")
    (entry,) = await session.completed()
    assert list(result.changes) == [Change("set", "a", 1)]
    assert entry.result == result


@requirement("contract.result.1")
async def test_what_a_tool_changes_after_it_returned_is_not_in_its_result(open_crib: OpenCrib) -> None:
    content, metadata = [block("text", text="a")], {"n": 1}

    @tool(read_only=True)
    async def give() -> Result:
        """Give."""
        return Result("x", content=content, metadata=metadata)

    crib = await open_crib(give)
    session = await crib.open(owner="ada")
    await session.call("give")
    content[0]["text"], metadata["n"] = "b", 2
    done = await only(session, "done")
    assert (done["content"][0]["text"], done["metadata"]) == ("a", {"n": 1})


BLOCKS = [
    block("text", text="t"),
    block("image", data="aGk=", mime_type="image/png"),
    block("audio", data="aGk=", mime_type="audio/wav", audience=("user",)),
    block("json", value={"a": 1}, audience=("model",)),
    block("resource", uri="file:x", mime_type="text/plain", text="x", audience=("model", "user")),
    block("link", uri="https://x", name="n", title="t", description="d", mime_type="text/html", size=3),
    Block(type="hologram", depth=3),
]


@requirement("contract.result.2")
async def test_blocks_of_every_type_are_kept_and_passed_on(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def show() -> list[Block]:
        """Show."""
        return BLOCKS

    crib = await open_crib(show)
    session = await crib.open(owner="ada")
    result = await session.call("show")
    assert list(result.content) == BLOCKS
    assert (await only(session, "done"))["content"] == BLOCKS
    assert BLOCKS[2]["audience"] == ["user"]
    assert "audience" not in BLOCKS[0]


@requirement("contract.result.2", "contract.result.3")
def test_the_model_reads_the_blocks_that_are_meant_for_it() -> None:
    lines = Result("data", content=BLOCKS).text.split("\n")
    assert lines[0] == "t"
    assert lines[1] == "[image, image/png, 2 bytes]"
    assert lines[2] == '{"a":1}'
    assert "aGk=" not in "".join(lines[2:])
    assert lines[-1] == '{"type":"hologram","depth":3}'
    assert len(lines) == 6


@requirement("contract.result.3")
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Result("as it is\n"), "as it is\n"),
        (Result({"ä": [1, None]}), '{"ä":[1,null]}'),
        (Result(0), "0"),
        (Result(False), "false"),
        (Result(""), ""),
        (Result(), "(no output)"),
        (Result(content=[block("text", text="not for you", audience=("user",))]), "(no output)"),
        (Result(failure=Failure("failed", "no")), "[failed] no"),
        (Result(failure=Failure("denied", "no", hint="ask Bob")), "[denied] no\nHint: ask Bob"),
    ],
)
def test_what_the_model_reads(result: Result, text: str) -> None:
    assert result.text == text


@requirement("contract.result.4")
async def test_provider_ids_are_kept_and_never_used_as_keys(open_crib: OpenCrib) -> None:
    ran = []

    @tool(effect="once")
    async def pay(cents: int) -> int:
        """Pay."""
        ran.append(cents)
        return cents

    crib = await open_crib(pay)
    session = await crib.open(owner="ada")
    calls = [await session.submit("pay", {"cents": n}, provider_id=id) for n, id in enumerate(["t1", "t1", "", "t1"])]
    assert [(await session.result(call.id)).data for call in calls] == [0, 1, 2, 3]
    assert sorted(ran) == [0, 1, 2, 3]
    assert len({call.id for call in calls}) == 4
    assert [call.provider_id for call in calls] == ["t1", "t1", "", "t1"]
    assert [entry.provider_id for entry in await session.completed()] == ["t1", "t1", "", "t1"]
    assert "t1" not in {call.id for call in calls}


@tool(requires_confirmation=True)
async def order(item: str, count: int = 1, note: str | None = None) -> str:
    """Order something."""
    if count > 9:
        raise ToolFailure("failed", "too many")
    return f"{count} {item}"


@requirement("contract.result.5")
async def test_the_model_is_told_which_arguments_were_changed(open_crib: OpenCrib) -> None:
    crib = await open_crib(order)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "order", {"item": "tea", "note": "x"})
    await session.answer(question.id, "accept", arguments={"item": "tea", "count": "3"})
    result = await session.result(question.call)
    assert result.data == "3 tea"
    assert result.metadata["edited"] == {"count": 3, "note": None}
    assert result.text == 'Arguments were changed before running: {"count":3,"note":null}\n3 tea'
    assert (await only(session, "started"))["args"] == {"item": "tea", "count": 3}
    crib = await open_crib(order)
    assert (await (await crib.open("s", owner="ada")).result(question.call)).text == result.text


@requirement("contract.result.5")
async def test_a_failure_after_a_change_tells_of_the_change_too(open_crib: OpenCrib) -> None:
    crib = await open_crib(order)
    session = await crib.open(owner="ada")
    question = await parked(session, "order", {"item": "tea"})
    await session.answer(question.id, "accept", arguments={"item": "tea", "count": 10})
    text = (await session.result(question.call)).text
    assert text == 'Arguments were changed before running: {"count":10}\n[failed] too many'


@requirement("contract.result.5")
async def test_arguments_that_are_sent_back_as_they_were_are_no_change(open_crib: OpenCrib) -> None:
    crib = await open_crib(order)
    session = await crib.open(owner="ada")
    question = await parked(session, "order", {"item": "tea"})
    await session.answer(question.id, "accept", arguments=question.arguments)
    result = await session.result(question.call)
    assert (result.text, dict(result.metadata)) == ("1 tea", {})


@tool(requires_confirmation=True, effect="idempotent")
async def busy(ctx: Context, n: int) -> Result:
    """Do everything that the log can tell."""
    ctx.progress("half", 0.5, loaded=1, total=2)
    ctx.output("some ")
    ctx.output("text")
    ctx.output({"n": n})
    ctx.activity("plan", ["a"])
    ctx.activity_delta("plan", {"op": "add", "path": "/-", "value": "b"})
    await ctx.step("one", lambda: n)
    answer = await ctx.ask("Name?", schema={"type": "string"})
    return Result(
        answer.value,
        content=[block("text", text="x")],
        changes=[Change("set", "n", n)],
        handover=Handover("bob"),
        metadata={"m": 1},
    )


@requirement("contract.result.6")
async def test_the_log_says_of_a_call_what_it_should(open_crib: OpenCrib) -> None:
    crib = await open_crib(busy)
    session = await crib.open(owner="ada")
    call = await session.submit("busy", {"n": 1}, by=By("agent", "helper"), provider_id="p-1", run="r-1")
    (asked,) = await session.questions()
    await session.answer(asked.id, "accept", actor="bob", reason="fine", key="k-1")
    async for event in session.events(call=call.id):
        if event.kind == "waiting" and event.fields["question"]["kind"] == "input":
            await session.answer(event.fields["question"]["id"], "accept", "Bob", actor="bob", key="k-2")
    events = {event.kind: event.fields for event in reversed(await log(session)) if event.call == call.id}
    accepted = events["accepted"]
    assert {name: accepted[name] for name in ("tool", "label", "args", "by", "provider_id", "run")} == {
        "tool": "default.busy",
        "label": "Busy",
        "args": {"n": 1},
        "by": {"kind": "agent", "name": "helper"},
        "provider_id": "p-1",
        "run": "r-1",
    }
    assert accepted["digest"] == events["started"]["digest"] == events["waiting"]["question"]["digest"]
    answered = {"question": asked.id, "action": "accept", "actor": "bob", "reason": "fine", "key": "k-1"}
    assert events["answered"] == {**answered, "scope": "once"}
    assert events["started"].keys() == {"attempt", "args", "digest", "verdict", "timeout_s"}
    assert (events["started"]["attempt"], events["started"]["args"]) == (1, {"n": 1})
    assert events["progress"] == {"status": "running", "progress": 0.5, "loaded": 1, "total": 2, "message": "half"}
    assert events["step"] == {"key": "one", "value": 1}
    done = events["done"]
    changes = [{"op": "set", "key": "n", "value": 1}]
    assert done["state"] == {"base": 0, "revision": 1, "changes": changes, "keys": {"n": "exclusive"}}
    assert (done["ok"], done["data"], done["handover"]["to"], done["metadata"]) == (True, "Bob", "bob", {"m": 1})
    assert done["duration_ms"] >= 0


@requirement("contract.result.6")
async def test_outputs_and_activities_stand_in_the_log_in_their_order(open_crib: OpenCrib) -> None:
    crib = await open_crib(busy)
    session = await crib.open(owner="ada")
    await parked(session, "busy", {"n": 1})
    (asked,) = await session.questions()
    await session.answer(asked.id, "accept")
    async for event in session.events(call=asked.call):
        if event.kind == "waiting" and event.fields["question"]["kind"] == "input":
            break
    told = [event.fields for event in await log(session) if event.kind in ("output", "activity")]
    assert told == [
        {"delta": "some text"},
        {"value": {"n": 1}},
        {"type": "plan", "content": ["a"]},
        {"type": "plan", "patch": [{"op": "add", "path": "/-", "value": "b"}]},
    ]


@requirement("contract.result.6")
async def test_a_denied_call_has_its_verdict_in_the_log_and_no_start(open_crib: OpenCrib) -> None:
    @tool(namespace="closed")
    async def hidden() -> None:
        """Not open."""

    crib = await open_crib(hidden)
    session = await crib.open(owner="ada")
    result = await session.call("closed.hidden", {"a": 1})
    assert code(result) == "denied"
    assert await kinds(session) == ["accepted", "done"]
    done = await only(session, "done")
    assert (done["ok"], done["verdict"]["effect"], done["verdict"]["by"]) == (False, "deny", "namespace")
    assert done["failure"]["message"] == message(result)
    assert '"a": 1' in await whole(session)

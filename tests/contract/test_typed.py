"""contract.typed: from a function to a tool, and from a model's arguments to what its body receives, in a session."""

import asyncio
import enum
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, message, only, parked
from tests.requirements import requirement
from toolcrib import BadTool, Context, Result, Tool, ToolFailure, tool
from toolcrib.policy import Policy, Verdict


@dataclass
class Line:
    sku: str
    qty: Annotated[int, Field(ge=1)] = 1


@dataclass
class Basket:
    lines: list[Line]
    gift: bool = False
    tags: dict[str, str] = field(default_factory=dict)


@tool(read_only=True)
async def price(
    ctx: Context, basket: Basket, currency: Literal["EUR", "USD"] = "EUR", note: str = ""
) -> dict[str, Any]:
    """Price a basket.

    It asks nobody.

    Args:
        basket: What is bought.
        currency: In which money.
    """
    assert isinstance(basket.lines[0], Line)
    return {"owner": ctx.owner, "count": sum(line.qty for line in basket.lines), "currency": currency}


@requirement("contract.typed.1", "contract.typed.2", "contract.typed.3", "contract.typed.6")
async def test_a_function_with_a_dataclass_is_listed_and_called_in_every_way(open_crib: OpenCrib) -> None:
    """Story 1 of the chapter."""
    crib = await open_crib(price)
    session = await crib.open(owner="ada")
    (listed,) = session.tools()
    assert (listed.id, listed.description) == ("default.price", "Price a basket.\n\nIt asks nobody.")
    assert list(listed.input_schema["properties"]) == ["basket", "currency", "note"]
    assert listed.input_schema["required"] == ["basket"]
    assert listed.input_schema["properties"]["currency"]["description"] == "In which money."
    good = {"basket": {"lines": [{"sku": "a", "qty": 2}, {"sku": "b"}]}}
    expected = {"owner": "ada", "count": 3, "currency": "EUR"}
    for args in (good, json.dumps(good), {**good, "currency": None}, {"basket": json.dumps(good["basket"])}):
        assert (await session.call("price", args)).data == expected
    empty: list[Any] = [None, "", "null", {}]
    for nothing in empty:
        result = await session.call("price", nothing)
        assert (code(result), message(result)) == ("invalid_arguments", "basket: missing")
    result = await session.call(
        "price", {"basket": {"lines": [{"sku": "a"}, {"sku": "b", "qty": "x"}]}, "curency": "USD"}
    )
    assert message(result).splitlines()[0] == 'basket.lines[1].qty: expected integer, got "x"'
    assert "'currency'" in message(result).splitlines()[1] or '"currency"' in message(result).splitlines()[1]
    assert result.failure is not None
    assert result.failure.retryable
    assert await kinds(session) == ["accepted", "started", "done"] * 4 + ["accepted", "done"] * 5


@requirement("contract.typed.1")
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_each_value_of_a_generator_is_an_output_and_the_last_one_the_data(
    open_crib: OpenCrib, sync: bool
) -> None:
    @tool(read_only=True, name="count")
    def count(n: int) -> Iterator[Any]:
        """Count."""
        for number in range(n):
            yield {"n": number} if number % 2 else "even"

    @tool(read_only=True, name="count")
    async def count_async(n: int) -> AsyncIterator[Any]:
        """Count."""
        for number in range(n):
            yield {"n": number} if number % 2 else "even"

    crib = await open_crib(count if sync else count_async)
    session = await crib.open(owner="ada")
    assert (await session.call("count", {"n": 4})).data == {"n": 3}
    values = ["even", {"n": 1}, "even", {"n": 3}]
    assert [event.fields["value"] for event in await log(session, "output")] == values
    assert (await session.call("count", {"n": 0})).data is None


@requirement("contract.typed.1")
async def test_a_result_that_is_yielded_last_is_the_result(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def stream(fail: bool) -> AsyncIterator[Any]:
        """Stream."""
        yield 1
        yield ToolFailure("failed", "half done") if fail else Result({"all": 2}, metadata={"m": 1})

    crib = await open_crib(stream)
    session = await crib.open(owner="ada")
    assert await session.call("stream", {"fail": False}) == Result({"all": 2}, metadata={"m": 1})
    assert [event.fields["value"] for event in await log(session, "output")] == [1, {"all": 2}]
    assert code(await session.call("stream", {"fail": True})) == "failed"


class Bank:
    """Something that the crib is made with."""

    name = "Sparkasse"


@requirement("contract.typed.1")
async def test_context_and_dependencies_are_no_arguments(open_crib: OpenCrib) -> None:
    @tool(read_only=True, deps=["bank", "rate"])
    def pay(cents: int, bank: Bank, rate: float, ctx: Context) -> list[Any]:
        """Pay."""
        return [cents, bank.name, rate, ctx.session]

    crib = await open_crib(pay, deps={"my_bank": Bank(), "rate": 1.5})
    session = await crib.open("s-1", owner="ada")
    assert list(pay.input_schema["properties"]) == ["cents"]
    assert (await session.call("pay", {"cents": 5})).data == [5, "Sparkasse", 1.5, "s-1"]
    assert code(await session.call("pay", {"cents": 5, "rate": 2})) == "invalid_arguments"


@requirement("contract.typed.1")
def test_descriptions_come_from_annotated_or_any_style_of_docstring() -> None:
    @tool
    def annotated(a: Annotated[int, "the first"], b: Annotated[int, Field(description="the second")]) -> None:
        """Do it."""

    @tool
    def numpy(a: int) -> None:
        """Do it.

        Parameters
        ----------
        a : int
            the first
        """

    @tool
    def sphinx(a: int) -> None:
        """Do it.

        :param a: the first
        """

    said = [made.input_schema["properties"]["a"]["description"] for made in (annotated, numpy, sphinx)]
    assert said == ["the first"] * 3
    assert annotated.input_schema["properties"]["b"]["description"] == "the second"
    assert {made.description for made in (annotated, numpy, sphinx)} == {"Do it."}


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict, total=False):
    deep: bool


class Model(BaseModel):
    name: str
    inner: "Model | None" = None


EVERYTHING: dict[str, tuple[Any, Any, Any]] = {
    "str": (str, "a", "a"),
    "int": (int, 5, 5),
    "float": (float, 1.5, 1.5),
    "bool": (bool, True, True),
    "none": (None, None, None),
    "bytes": (bytes, "hi", b"hi"),
    "list": (list[Point], [[1, 2]], [Point(1, 2)]),
    "dict": (dict[str, list[date]], {"a": ["2026-01-02"]}, {"a": [date(2026, 1, 2)]}),
    "tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "set": (set[int], [1, 2], {1, 2}),
    "literal": (Literal["a", 2], 2, 2),
    "enum": (Colour, "red", Colour.RED),
    "optional": (int | None, None, None),
    "union": (int | list[str], ["a"], ["a"]),
    "dataclass": (Line, {"sku": "a"}, Line("a")),
    "typed_dict": (Options, {"deep": True}, {"deep": True}),
    "named_tuple": (Point, [1, 2], Point(1, 2)),
    "model": (Model, {"name": "a", "inner": {"name": "b"}}, Model(name="a", inner=Model(name="b"))),
    "datetime": (datetime, "2026-01-02T03:04:05Z", datetime.fromisoformat("2026-01-02T03:04:05+00:00")),
    "time": (time, "03:04:05", time(3, 4, 5)),
    "timedelta": (timedelta, "PT90S", timedelta(seconds=90)),
    "uuid": (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
    "decimal": (Decimal, "1.50", Decimal("1.50")),
    "path": (Path, "a/b", Path("a/b")),
}


@requirement("contract.typed.2")
@pytest.mark.parametrize("name", EVERYTHING)
async def test_the_body_receives_real_objects(open_crib: OpenCrib, name: str) -> None:
    kind, given, expected = EVERYTHING[name]
    got: list[Any] = []

    async def take(value: Any, many: Any = None) -> None:
        """Take it."""
        got.extend([value, many])

    take.__annotations__.update(value=kind, many=dict[str, list[kind]] | None)  # type: ignore[valid-type]
    crib = await open_crib(tool(take), store="memory:")
    session = await crib.open(owner="ada")
    result = await session.call("take", {"value": given, "many": {"deep": [given]}})
    assert result.ok, result
    assert got == [expected, {"deep": [expected]}]
    assert type(got[0]) is type(expected)


@requirement("contract.typed.2")
async def test_constraints_hold_and_a_type_without_a_schema_names_its_parameter(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def grade(mark: Annotated[int, Field(ge=1, le=6)], who: Annotated[str, Field(pattern="^[a-z]+$")]) -> int:
        """Grade."""
        return mark

    crib = await open_crib(grade)
    session = await crib.open(owner="ada")
    assert grade.input_schema["properties"]["mark"]["minimum"] == 1
    assert len(message(await session.call("grade", {"mark": 7, "who": "Ada"})).splitlines()) == 2
    with pytest.raises(BadTool, match=r"parameter 'lock'.*write @tool\(deps=\['lock'\]\)"):

        @tool
        async def bad(lock: asyncio.Lock) -> None:
            """Take a lock."""


@requirement("contract.typed.3")
async def test_broken_json_is_refused_with_its_position_and_a_cut_off_text_is_called_so(open_crib: OpenCrib) -> None:
    crib = await open_crib(price)
    session = await crib.open(owner="ada")
    result = await session.call("price", '{"basket": nope}')
    assert code(result) == "invalid_arguments"
    assert "line 1 column 13" in message(result)
    assert "cut off" not in message(result)
    assert "cut off" in message(await session.call("price", '{"basket": {"lines": ['))
    assert code(await session.call("price", "[1]")) == "invalid_arguments"
    assert [entry.status for entry in await session.completed()] == ["failed"] * 3


@requirement("contract.typed.4")
async def test_arguments_are_read_gently_and_only_where_they_have_to_be(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def take(
        n: int = 0,
        x: float = 0.0,
        yes: bool = False,
        text: str = "t",
        lines: list[int] | None = None,
        either: int | str = 1,
    ) -> list[Any]:
        """Take."""
        return [n, x, yes, text, lines, either]

    crib = await open_crib(take)
    session = await crib.open(owner="ada")
    args = {"n": "5", "x": "1.5", "yes": "true", "text": None, "lines": "[1,2]", "either": "7"}
    assert (await session.call("take", args)).data == [5, 1.5, True, "t", [1, 2], "7"]
    assert (await log(session, "started"))[0].fields["args"] == {
        "n": 5,
        "x": 1.5,
        "yes": True,
        "lines": [1, 2],
        "either": "7",
    }
    assert (await session.call("take", {"n": 5.0, "text": "5"})).data[:4] == [5, 0.0, False, "5"]
    for wrong in ({"text": 5}, {"n": True}, {"x": False}, {"yes": 1}, {"n": 5.5}, {"n": "5x"}):
        assert code(await session.call("take", wrong)) == "invalid_arguments", wrong


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@requirement("contract.typed.5")
async def test_every_tool_is_checked_before_it_runs(open_crib: OpenCrib) -> None:
    ran: list[Mapping[str, Any]] = []

    async def run(ctx: Any, values: Mapping[str, Any]) -> Any:
        ran.append(values)

    local = Tool(name="local", description="A tool of a schema.", input_schema=SCHEMA, run=run)
    closed = Tool(name="closed", description="Closed.", input_schema={**SCHEMA, "additionalProperties": False}, run=run)
    crib = await open_crib(local, closed, price)
    session = await crib.open(owner="ada")
    await session.offer([{"name": "remote", "description": "A client's.", "input_schema": SCHEMA}])
    for name in ("local", "closed", "client.remote"):
        assert code(await session.call(name, {"n": "x"})) == "invalid_arguments"
        assert code(await session.call(name, {})) == "invalid_arguments"
    assert ran == []
    assert await session.questions() == []
    assert (await session.call("local", {"n": 1, "more": 2})).ok
    assert code(await session.call("closed", {"n": 1, "more": 2})) == "invalid_arguments"
    assert code(await session.call("price", {"basket": {"lines": []}, "more": 2})) == "invalid_arguments"
    assert ran == [{"n": 1, "more": 2}]


@requirement("contract.typed.6")
async def test_all_problems_are_reported_at_once_and_at_most_ten(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def take(first: int, second: int, lines: list[int]) -> None:
        """Take."""

    crib = await open_crib(take)
    session = await crib.open(owner="ada")
    lines = message(await session.call("take", {"lines": [1, "x"], "firts": 1})).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["first", "second", "lines[1]", "firts"]
    assert 'expected integer, got "x"' in lines[2]
    assert "first" in lines[3].partition(":")[2]
    result = await session.call("take", {"first": 1, "second": 2, "lines": ["x"] * 30})
    assert len(message(result).splitlines()) == 10


class Counting(Policy):
    """A policy that counts how often it is asked."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def decide(self, session: Any, tool: Tool, arguments: Any) -> Verdict:
        self.seen.append(dict(arguments()))
        return Verdict("allow")


@requirement("contract.typed.7")
async def test_the_business_check_runs_after_the_schema_and_before_the_policy(open_crib: OpenCrib) -> None:
    seen: list[Any] = []
    ran: list[int] = []
    policy = Counting()

    def check(ctx: Context, cents: int, when: date) -> str | None:
        seen.append([ctx.owner, cents, when, ctx.deadline])
        if cents > 100:
            raise ValueError("Too much for one day")
        return "Not a round sum" if cents % 10 else None

    @tool(effect="once", validate=check)
    async def pay(ctx: Context, cents: int, when: date, note: str = "") -> float:
        """Pay."""
        ran.append(cents)
        return ctx.deadline

    crib = await open_crib(pay, policy=policy)
    session = await crib.open(owner="ada")
    assert code(await session.call("pay", {"cents": "x", "when": "2026-01-02"})) == "invalid_arguments"
    assert seen == []
    for cents, said in ((110, "Too much for one day"), (15, "Not a round sum")):
        result = await session.call("pay", {"cents": cents, "when": "2026-01-02"})
        assert (code(result), message(result)) == ("invalid_arguments", said)
    assert (ran, policy.seen) == ([], [])
    assert (await session.call("pay", {"cents": 50, "when": "2026-01-02"})).data == crib.pipeline.clock.now() + 60
    assert [row[:3] for row in seen] == [["ada", cents, date(2026, 1, 2)] for cents in (110, 15, 50)]
    assert (ran, policy.seen) == ([50], [{"cents": 50, "when": "2026-01-02", "note": ""}])


@requirement("contract.typed.7")
async def test_a_check_may_take_its_time_and_tells_nobody_before_the_call_is_decided(open_crib: OpenCrib) -> None:
    async def check(ctx: Context) -> None:
        ctx.progress("checking")
        ctx.output("checking")
        await asyncio.sleep(0)

    @tool(requires_confirmation=True, validate=check)
    async def pay() -> str:
        """Pay."""
        return "paid"

    crib = await open_crib(pay)
    session = await crib.open(owner="ada")
    question = await parked(session, "pay")
    assert await kinds(session) == ["accepted", "waiting"]
    await session.answer(question.id, "accept")
    assert (await session.result(question.call)).data == "paid"
    assert (await only(session, "started"))["attempt"] == 1


@requirement("contract.typed.7")
async def test_a_class_checks_its_arguments_as_one_object(open_crib: OpenCrib) -> None:
    @tool
    class Transfer:
        """Move money."""

        Args = Line
        effect = "once"

        def validate(self, ctx: Context, args: Line) -> str | None:
            return "Nothing to move" if args.qty == 1 else None

        async def run(self, ctx: Context, args: Line) -> str:
            return f"{args.qty} {args.sku}"

    crib = await open_crib(Transfer)
    session = await crib.open(owner="ada")
    assert message(await session.call("Transfer", {"sku": "a"})) == "Nothing to move"
    assert (await session.call("Transfer", {"sku": "a", "qty": 2})).data == "2 a"

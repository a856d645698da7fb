"""Typed tools: the body receives real objects."""

import dataclasses
import json
import typing
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import annotated_types
import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tests.requirements import requirement
from tests.schema.parse import lines, parser_of, problems, values
from toolcrib.schema import BadArguments, Parser, SchemaError, check_schema, read_arguments, schema_of, type_parser


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    YES = True
    TEXT = "text"


class Speed(StrEnum):
    FAST = "fast"


@dataclasses.dataclass
class Item:
    sku: str
    qty: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int = 0


class Plain(TypedDict):
    a: int
    b: NotRequired[str]


class Extended(typing_extensions.TypedDict):
    a: int


class Tree(TypedDict):
    n: int
    kids: "list[Tree]"


@dataclasses.dataclass
class Holder:
    plain: Plain


class Order(BaseModel):
    id: str
    items: list[Item] = []
    placed: datetime | None = None

    @field_validator("id")
    @classmethod
    def check_id(cls, value: str) -> str:
        if not value.startswith("A-"):
            raise ValueError("an order id starts with A-")
        return value


class Node(BaseModel):
    n: int
    next: "Node | None" = None


def taking(hint: Any) -> Parser:
    """Make the parser of a function with one parameter `x` of this type."""

    def fn(x: Any) -> None: ...

    fn.__annotations__["x"] = hint
    return parser_of(fn)


@requirement("contract.typed.2")
@pytest.mark.parametrize(
    ("hint", "given", "received"),
    [
        (str, "a", "a"),
        (int, 5, 5),
        (float, 5, 5.0),
        (float, 2.5, 2.5),
        (bool, True, True),
        (None, None, None),
        (bytes, "é", "é".encode()),
        (list, [1, "a"], [1, "a"]),
        (list[int], [1], [1]),
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dict[Color, int], {"red": 1}, {Color.RED: 1}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[int], [1, 2, 1], {1, 2}),
        (frozenset[str], ["a"], frozenset("a")),
        (Iterable[int], [1, 2], [1, 2]),
        (Literal["a", 1], 1, 1),
        (Literal["a", 1], "a", "a"),
        (Literal[Color.RED], "red", Color.RED),
        (Literal[True], True, True),
        (Color, "blue", Color.BLUE),
        (Level, 2, Level.HIGH),
        (Mixed, "text", Mixed.TEXT),
        (Speed, "fast", Speed.FAST),
        (int | None, None, None),
        (typing.Optional[int], 5, 5),  # noqa: UP045 - people write it
        (int | str, "5", "5"),
        (int | str, 5, 5),
        (typing.Union[Item, Point, str], {"sku": "a"}, Item("a")),  # noqa: UP007 - people write it
        (Item, {"sku": "a", "qty": 2}, Item("a", 2)),
        (list[Item | None], [{"sku": "a"}, None], [Item("a"), None]),
        (Point, [1, 2], Point(1, 2)),
        (Plain, {"a": 1}, {"a": 1}),
        (list[Plain], [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
        (Extended, {"a": 1}, {"a": 1}),
        (Tree, {"n": 1, "kids": [{"n": 2, "kids": []}]}, {"n": 1, "kids": [{"n": 2, "kids": []}]}),
        (Holder, {"plain": {"a": 1}}, Holder({"a": 1})),
        (Node, {"n": 1, "next": {"n": 2}}, Node(n=1, next=Node(n=2))),
        (Order, {"id": "A-7", "items": [{"sku": "a"}]}, Order(id="A-7", items=[Item("a")])),
        (datetime, "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (date, "2026-01-02", date(2026, 1, 2)),
        (time, "03:04:05", time(3, 4, 5)),
        (timedelta, "P1DT2H", timedelta(days=1, hours=2)),
        (UUID, "00000000-0000-0000-0000-000000000005", UUID(int=5)),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 1.5, Decimal("1.5")),
        (Path, "a/b", Path("a/b")),
        (dict[str, list[Item]], {"x": [{"sku": "a"}]}, {"x": [Item("a")]}),
        (Any, {"a": [None]}, {"a": [None]}),
    ],
)
def test_the_body_receives_real_objects_from_an_untouched_text(hint: Any, given: Any, received: Any) -> None:
    raw = read_arguments({"x": given})
    parsed = taking(hint).parse(raw)
    assert parsed.values == {"x": received}
    assert type(parsed.values["x"]) is type(received)
    assert parsed.json is raw


@requirement("contract.typed.2", "contract.typed.4")
@pytest.mark.parametrize(
    ("hint", "given"),
    [
        (int, True),
        (float, True),
        (bool, 1),
        (str, 5),
        (Level, True),
        (Literal[1, 2], True),
        (Literal[True], 1),
        (Decimal, True),
        (datetime, 5),
        (Path, 5),
        (bytes, 5),
        (int | str, True),
        (int, None),
        (list[int], {"a": 1}),
        (Item, ["a"]),
        (Plain, [1]),
    ],
)
def test_a_value_of_another_type_is_never_taken(hint: Any, given: Any) -> None:
    (problem,) = problems(taking(hint), {"x": given})
    assert problem.path == "x"
    assert problem.kind in ("type", "value")


@requirement("contract.typed.4")
@pytest.mark.parametrize(
    ("hint", "given", "received"),
    [
        (int, "5", 5),
        (int, 5.0, 5),
        (float, "2.5", 2.5),
        (bool, "true", True),
        (Level, "2", Level.HIGH),
        (list[int], "[1, 2]", [1, 2]),
        (set[int], "[1]", {1}),
        (tuple[int, str], '["1", "a"]', (1, "a")),
        (Item, '{"sku": "a", "qty": "2"}', Item("a", 2)),
        (Item | None, '{"sku": "a"}', Item("a")),
        (Item, {"sku": "a", "qty": None, "tags": None}, Item("a")),
        (list[Item], [{"sku": "a", "qty": "3"}], [Item("a", 3)]),
        (Order, {"id": "A-1", "items": '[{"sku": "a"}]'}, Order(id="A-1", items=[Item("a")])),
        (Point, ["1"], Point(1)),
        (Plain, {"a": "1"}, {"a": 1}),
        (int | None, "5", 5),
        (dict[str, int], {"a": "1"}, {"a": 1}),
    ],
)
def test_typed_tools_read_gently_too(hint: Any, given: Any, received: Any) -> None:
    parser = taking(hint)
    parsed = parser.parse(read_arguments({"x": given}))
    assert parsed.values == {"x": received}
    assert type(parsed.values["x"]) is type(received)
    assert parser.parse(parsed.json).values == parsed.values


@requirement("contract.typed.4")
def test_null_for_a_parameter_with_a_default_means_the_default() -> None:
    def fn(tag: str = "latest", n: int | None = 5) -> None: ...

    assert values(parser_of(fn), {"tag": None, "n": None}) == {"tag": "latest", "n": None}


@requirement("contract.typed.2")
@pytest.mark.parametrize(
    ("hint", "good", "bad", "line"),
    [
        (Annotated[int, Field(ge=1, le=14)], 14, 15, "x: must be at most 14"),
        (Annotated[int, annotated_types.Gt(0)], 1, 0, "x: must be more than 0"),
        (Annotated[str, Field(pattern="^a+$")], "aa", "b", "x: must match the pattern ^a+$"),
        (Annotated[str, Field(pattern="^(?=.*1)a")], "a1", "a", "x: must match the pattern ^(?=.*1)a"),
        (Annotated[list[int], Field(min_length=1)], [1], [], "x: must have at least 1 item"),
        (Annotated[str, annotated_types.MaxLen(2)], "ab", "abc", "x: must have at most 2 characters"),
        (Literal["fast", "slow"], "fast", "quick", 'x: must be one of "fast", "slow"'),
        (Color, "red", "green", 'x: must be one of "red", "blue"'),
        (list[Annotated[int, Field(multiple_of=5)]], [5], [5, 7], "x[1]: must be a multiple of 5"),
    ],
)
def test_constraints_are_in_the_schema_and_kept(hint: Any, good: Any, bad: Any, line: str) -> None:
    parser = taking(hint)
    values(parser, {"x": good})
    assert lines(parser, {"x": bad}) == [line]


@requirement("contract.typed.6")
def test_all_problems_of_typed_arguments_are_told_at_once() -> None:
    def fn(city: str, items: list[Item], days: int = 3) -> None: ...

    assert lines(parser_of(fn), {"days": "many", "items": [{"sku": "a"}, {"qty": "x", "sk": 1}], "citty": "Rom"}) == [
        "items[1].sku: missing",
        "city: missing",
        'days: expected integer, got "many"',
        'items[1].qty: expected integer, got "x"',
        "items[1].sk: unknown, did you mean 'sku'?",
        "citty: unknown, did you mean 'city'?",
    ]


def test_what_only_pydantic_sees_is_told_beside_what_the_schema_says() -> None:
    def fn(order: Order, day: date, n: int) -> None: ...

    assert lines(parser_of(fn), {"order": {"id": "B-1"}, "day": "2026-02-30", "n": "x"}) == [
        "order.id: an order id starts with A-",
        "day: must be a valid date or datetime, day value is outside expected range",
        'n: expected integer, got "x"',
    ]


def test_problems_inside_a_union_are_told_at_their_place_in_the_data() -> None:
    def fn(order: Order | int) -> None: ...

    assert lines(parser_of(fn), {"order": {"id": "B-1"}}) == ["order.id: an order id starts with A-"]


def test_a_check_of_a_whole_model_is_told() -> None:
    class Range(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def check(self) -> "Range":
            if self.low > self.high:
                raise ValueError("low is\nabove high")
            return self

    assert lines(taking(Range), {"x": {"low": 2, "high": 1}}) == ["x: low is above high"]


def test_models_keep_their_own_configuration() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")

    class Renamed(BaseModel):
        start: int = Field(alias="from")

    assert values(taking(Open), {"x": {"more": 1}})["x"].model_extra == {"more": 1}
    assert lines(taking(Closed), {"x": {"more": 1}}) == ["x.more: unknown"]
    assert values(taking(Renamed), {"x": {"from": "1"}})["x"].start == 1


def test_a_model_that_asks_for_lax_reading_takes_no_more_than_its_schema() -> None:
    class Lax(BaseModel):
        model_config = ConfigDict(strict=False)
        n: int

    assert values(taking(Lax), {"x": {"n": "5"}})["x"].n == 5
    assert lines(taking(Lax), {"x": {"n": True}}) == ["x.n: expected integer, got true"]


def test_dataclasses_inside_take_no_unknown_fields() -> None:
    assert lines(taking(Item), {"x": {"sku": "a", "quantity": 1}}) == ["x.quantity: unknown"]


def test_an_enum_may_say_what_a_missing_value_means() -> None:
    class Forgiving(IntEnum):
        ONE = 1

        @classmethod
        def _missing_(cls, value: object) -> "Forgiving":
            return cls.ONE

    def fn(x: Any) -> None: ...

    fn.__annotations__["x"] = Forgiving
    assert values(parser_of(fn), {"x": 7}) == {"x": Forgiving.ONE}


def test_a_tagged_union_is_read_by_its_tag() -> None:
    @dataclasses.dataclass
    class Card:
        kind: Literal["card"]
        number: str

    @dataclasses.dataclass
    class Cash:
        kind: Literal["cash"]
        cents: int

    parser = taking(Annotated[Card | Cash, Field(discriminator="kind")])
    assert values(parser, {"x": {"kind": "cash", "cents": "5"}}) == {"x": Cash("cash", 5)}
    assert lines(parser, {"x": {"kind": "card"}}) == ["x.number: missing"]
    assert lines(parser, {"x": {"kind": "gold"}}) == ['x.kind: must be one of "card", "cash"']


def test_a_function_without_parameters_takes_nothing() -> None:
    def fn() -> None: ...

    parser = parser_of(fn)
    assert parser.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert values(parser, None) == {}
    assert lines(parser, {"a": 1}) == ["a: unknown"]


def test_the_input_schema_is_clean() -> None:
    def fn(
        order: Order, item: Item, color: Color = Color.RED, titled: Annotated[int, Field(title="Mine")] = 1
    ) -> None: ...

    schema = parser_of(fn).schema
    check_schema(schema)
    assert json.dumps(schema).count('"title"') == 1
    assert schema["properties"]["titled"] == {"type": "integer", "title": "Mine", "default": 1}
    assert schema["properties"]["color"] == {"$ref": "#/$defs/Color", "default": "red"}
    assert schema["$defs"]["Item"]["properties"]["tags"] == {
        "type": "array",
        "items": {"type": "string"},
        "default": [],
    }


def test_normalised_arguments_are_plain_json_with_defaults() -> None:
    def fn(item: Item, day: date = date(2026, 1, 2), color: Color = Color.RED, more: Item | None = None) -> None: ...

    parser = parser_of(fn)
    assert parser.normalised(parser.parse(b'{"item": {"sku": "a"}, "more": {"sku": "b", "qty": "2"}}')) == {
        "item": {"sku": "a", "qty": 1, "tags": []},
        "more": {"sku": "b", "qty": 2, "tags": []},
        "day": "2026-01-02",
        "color": "red",
    }


def test_patterns_of_another_dialect_are_left_to_pydantic() -> None:
    def fn(word: Annotated[str, Field(pattern=r"(?i)^(?P<first>a)b\z")], n: int) -> None: ...

    parser = parser_of(fn)
    assert values(parser, {"word": "AB", "n": "5"}) == {"word": "AB", "n": 5}
    assert [problem.path for problem in problems(parser, {"word": "c", "n": "x"})] == ["word", "n"]


@pytest.mark.parametrize("kind", [Order, Item, Plain, Extended, Node])
def test_a_class_may_be_the_whole_argument_object(kind: Any) -> None:
    parser = type_parser(kind)
    check_schema(parser.schema)
    assert parser.schema["type"] == "object"
    assert "title" not in parser.schema


def test_a_class_tool_receives_its_object_as_one_value() -> None:
    parser = type_parser(Item, "item")
    assert parser.parse(b'{"sku": "a", "qty": "2"}').values == {"item": Item("a", 2)}
    assert parser.normalised(parser.parse(b'{"sku": "a"}')) == {"sku": "a", "qty": 1, "tags": []}
    assert lines(parser, {"quantity": 1}) == ["sku: missing", "quantity: unknown"]
    assert type_parser(Node).parse(b'{"n": 1, "next": {"n": 2}}').values == {"arguments": Node(n=1, next=Node(n=2))}


@pytest.mark.parametrize("kind", [int, list[int], Point, Callable[[], None], Color])
def test_a_type_that_is_no_object_cannot_be_a_class_tool(kind: Any) -> None:
    with pytest.raises(SchemaError):
        type_parser(kind)


def test_any_type_has_a_schema_or_says_why_not() -> None:
    assert schema_of(int) == {"type": "integer"}
    assert schema_of(list[Plain])["items"] == {"$ref": "#/$defs/Plain"}
    assert schema_of(Item)["required"] == ["sku"]
    assert schema_of(Item, "serialization")["properties"].keys() == {"sku", "qty", "tags"}
    assert schema_of(Node)["properties"]["next"] == {
        "anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}],
        "default": None,
    }
    with pytest.raises(SchemaError, match=r"Strange.*no schema"):
        schema_of(type("Strange", (), {}))


def test_every_refusal_is_a_bad_arguments() -> None:
    parser = taking(Order)
    for raw in (b"", b"[]", b"{", b'{"x": 1}', b"\xff", b'{"x": {"id": null}}', b'"x"', b"0"):
        with pytest.raises(BadArguments):
            parser.parse(raw)

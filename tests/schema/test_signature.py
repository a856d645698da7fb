"""Functions as tools: parameters, context, dependencies and docstrings."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Optional, TypeVar

import pytest
from pydantic import Field

from tests.requirements import requirement
from tests.schema.parse import Context, lines, parser_of, values
from toolcrib.schema import FunctionSignature, SchemaError, function_parser

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers

T = TypeVar("T")


class Bound(Context, Generic[T]):
    """A context that knows the type of something."""


class Bank: ...


def signature(fn: Any, *deps: str) -> FunctionSignature:
    return function_parser(fn, context_type=Context, deps=frozenset(deps))


@requirement("contract.typed.1")
def test_the_schema_follows_the_signature() -> None:
    def trip(city: str, days: int = 3) -> None: ...

    assert signature(trip).parser.schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
        "required": ["city"],
        "additionalProperties": False,
    }


@requirement("contract.typed.1")
def test_context_and_dependencies_are_no_arguments() -> None:
    def pay(ctx: Context, bank: Bank, cents: int) -> None: ...

    found = signature(pay, "bank")
    assert found.context_param == "ctx"
    assert found.dep_params == {"bank": Bank}
    assert list(found.parser.schema["properties"]) == ["cents"]


def with_optional(ctx: Optional[Context] = None) -> None: ...  # noqa: UP045 - people write it
def with_union(ctx: Context | None = None) -> None: ...
def with_text(ctx: "Context") -> None: ...  # noqa: UP037 - people write it
def with_note(ctx: Annotated[Context, "the context"]) -> None: ...
def with_generic(ctx: Bound[int]) -> None: ...


@requirement("contract.typed.1")
@pytest.mark.parametrize("fn", [with_optional, with_union, with_text, with_note, with_generic])
def test_the_context_is_known_however_it_is_written(fn: Any) -> None:
    assert signature(fn).context_param == "ctx"
    assert signature(fn).parser.schema["properties"] == {}


def test_a_function_without_a_context_has_none() -> None:
    def plain(a: int) -> None: ...

    assert signature(plain).context_param is None


def test_a_context_that_only_type_checkers_import_is_known() -> None:
    namespace: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef fn(ctx: Context, n: int): ...", namespace)
    assert signature(namespace["fn"]).context_param == "ctx"


def test_types_of_an_enclosing_function_are_found() -> None:
    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: Inner

    def fn(outer: Outer, more: list[Inner]) -> None: ...

    given = {"outer": {"inner": {"n": 1}}, "more": [{"n": 2}]}
    assert values(parser_of(fn), given) == {"outer": Outer(Inner(1)), "more": [Inner(2)]}


def star(a: int, *rest: int) -> None: ...
def stars(a: int, **rest: int) -> None: ...
def positional(rest: int, /, a: int) -> None: ...
def without_schema(a: int, rest: Bank) -> None: ...
def deep_without_schema(a: int, rest: list[dict[str, Bank]]) -> None: ...
def unknown_name(a: int, rest: OnlyForCheckers) -> None: ...
def two_contexts(a: Context, rest: Context) -> None: ...
def no_type(a: int, rest: 5) -> None: ...  # type: ignore[valid-type]


@requirement("contract.typed.2")
@pytest.mark.parametrize(
    "fn", [star, stars, positional, without_schema, deep_without_schema, unknown_name, two_contexts, no_type]
)
def test_a_parameter_that_cannot_be_an_argument_is_named(fn: Any) -> None:
    with pytest.raises(SchemaError, match="parameter 'rest'"):
        signature(fn)


def test_a_parameter_without_annotation_takes_anything() -> None:
    def fn(a, b=None):  # type: ignore[no-untyped-def]
        ...

    assert signature(fn).parser.schema["properties"] == {"a": {}, "b": {"default": None}}
    assert values(parser_of(fn), {"a": [1, {"x": None}]}) == {"a": [1, {"x": None}], "b": None}


@requirement("contract.typed.5")
def test_unknown_arguments_are_refused() -> None:
    def fn(city: str) -> None: ...

    assert lines(parser_of(fn), {"city": "Rom", "town": 1}) == ["town: unknown"]


@requirement("contract.typed.1")
def test_annotated_describes_and_constrains_a_parameter() -> None:
    def fn(
        a: Annotated[int, Field(description="how many", ge=1)],
        b: Annotated[str, "a bare text"] = "x",
        c: int = Field(7, description="as default", le=9),
        d: Annotated[str, "bare", Field(description="explicit")] = "",
    ) -> None:
        """Do.

        Args:
            a: from the docstring
        """

    assert signature(fn).parser.schema["properties"] == {
        "a": {"type": "integer", "description": "how many", "minimum": 1},
        "b": {"type": "string", "description": "a bare text", "default": "x"},
        "c": {"type": "integer", "description": "as default", "default": 7, "maximum": 9},
        "d": {"type": "string", "description": "explicit", "default": ""},
    }
    assert values(parser_of(fn), {"a": 1})["c"] == 7


def google(city: str, days: int) -> None:
    """Plan a trip.

    It takes a while.

    Args:
        city (str): Where to go,
            as a name.
        days: How long.

    Returns:
        A plan.
    """


def numpy(city: str, days: int) -> None:
    """Plan a trip.

    It takes a while.

    Parameters
    ----------
    city : str
        Where to go,
        as a name.
    days : int
        How long.

    Returns
    -------
    str
        A plan.
    """


def sphinx(city: str, days: int) -> None:
    """Plan a trip.

    It takes a while.

    :param city: Where to go,
        as a name.
    :type city: str
    :param int days: How long.
    :returns: A plan.
    """


@requirement("contract.typed.1")
@pytest.mark.parametrize("fn", [google, numpy, sphinx])
def test_parameters_are_described_by_the_docstring(fn: Any) -> None:
    found = signature(fn)
    properties = found.parser.schema["properties"]
    assert properties["city"]["description"] == "Where to go, as a name."
    assert properties["days"]["description"] == "How long."
    assert found.description.startswith("Plan a trip.\n\nIt takes a while.\n\n")
    assert "How long" not in found.description
    assert "A plan." in found.description


@pytest.mark.parametrize("doc", [None, "", "One line.", "Uses args: none of them.", "Text.\n\n    More text."])
def test_a_docstring_without_sections_is_the_description(doc: str | None) -> None:
    def fn() -> None: ...

    fn.__doc__ = doc
    assert signature(fn).description == "\n".join(line.strip() for line in (doc or "").splitlines())


def test_a_method_is_read_without_its_self() -> None:
    class Shop:
        def refund(self, order: str) -> None:
            """Refund an order."""

        def __call__(self, order: str) -> None:
            """Call the shop."""

    assert list(signature(Shop().refund).parser.schema["properties"]) == ["order"]
    assert signature(Shop().refund).description == "Refund an order."
    assert signature(Shop()).description == "Call the shop."


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    def original(city: str, days: int = 1) -> None:
        """Plan."""

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert signature(wrapper).parser.schema["required"] == ["city"]
    fixed = signature(functools.partial(original, days=2))
    assert fixed.description == "Plan."
    assert values(fixed.parser, {"city": "Rom"}) == {"city": "Rom", "days": 2}


def test_parameters_may_have_any_name() -> None:
    def fn(schema: int, model_config: int, _hidden: int, self: int, json: int) -> None: ...

    given = {"schema": 1, "model_config": 2, "_hidden": 3, "self": 4, "json": 5}
    assert values(parser_of(fn), given) == given


def test_a_default_that_json_cannot_say_still_applies() -> None:
    marker = object()

    def fn(a: Any = marker) -> None: ...

    assert signature(fn).parser.schema["properties"] == {"a": {}}
    assert values(parser_of(fn), {}) == {"a": marker}


def test_a_mutable_default_is_never_shared_between_calls() -> None:
    def fn(tags: list[str] = []) -> None: ...  # noqa: B006 - the point of the test

    parser = parser_of(fn)
    values(parser, {})["tags"].append("mine")
    assert values(parser, {}) == {"tags": []}

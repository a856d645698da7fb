"""What the tests of parsing share: a context, and arguments in, values or problems out."""

from collections.abc import Callable
from typing import Any

from toolcrib.schema import ArgumentProblem, BadArguments, Parser, function_parser, read_arguments, schema_parser


class Context:
    """Stands for the context of a running tool."""


def parser_of(fn: Callable[..., Any]) -> Parser:
    return function_parser(fn, context_type=Context).parser


def values(parser: Parser, given: object) -> dict[str, Any]:
    return parser.parse(read_arguments(given)).values


def problems(parser: Parser, given: object) -> list[ArgumentProblem]:
    try:
        parsed = parser.parse(read_arguments(given))
    except BadArguments as error:
        return error.problems
    raise AssertionError(f"{given!r} was taken as {parsed.values!r}")


def lines(parser: Parser, given: object) -> list[str]:
    return [str(problem) for problem in problems(parser, given)]


def object_parser(**properties: Any) -> Parser:
    """Make the parser of a raw schema whose properties are all optional."""
    return schema_parser({"type": "object", "properties": properties})

"""Schemas: from signatures and types to JSON Schema and fast parsers, from schemas to what a model sees.

It knows nothing of calls, sessions or tools. Arguments go in as JSON text and come out as the values of a body, or as
problems that a model can act on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.schema.coercion import read_arguments
from toolcrib.schema.model_view import llm_schema, with_topic
from toolcrib.schema.names import nearest, title
from toolcrib.schema.parser import ParsedArguments, Parser, schema_parser
from toolcrib.schema.problems import ArgumentProblem, BadArguments, SchemaError
from toolcrib.schema.validator import check_schema, output_check

if TYPE_CHECKING:
    from toolcrib.schema.signature import FunctionSignature, function_parser
    from toolcrib.schema.typed_parser import schema_of, type_parser

__all__ = [
    "ArgumentProblem",
    "BadArguments",
    "FunctionSignature",
    "ParsedArguments",
    "Parser",
    "SchemaError",
    "check_schema",
    "function_parser",
    "llm_schema",
    "nearest",
    "output_check",
    "read_arguments",
    "schema_of",
    "schema_parser",
    "title",
    "type_parser",
    "with_topic",
]

# These need all of pydantic, which a program without typed tools never loads.
_LATER = {
    "FunctionSignature": "toolcrib.schema.signature",
    "function_parser": "toolcrib.schema.signature",
    "schema_of": "toolcrib.schema.typed_parser",
    "type_parser": "toolcrib.schema.typed_parser",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)

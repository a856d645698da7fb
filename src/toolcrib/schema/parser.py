"""From the JSON text of a call to what the body of the tool receives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from toolcrib.schema.coercion import decode, encode
from toolcrib.schema.limits import measure
from toolcrib.schema.problems import ArgumentProblem, BadArguments, SchemaError, in_order
from toolcrib.schema.validator import TOO_LONG, JsonSchemaValidator, object_schema

POINT = ord(".")


class ParsedArguments(msgspec.Struct, frozen=True, gc=False):
    """The final arguments of a call: their JSON text, and the values that the body receives."""

    # A msgspec Struct since it is made for every call, four times as fast as a named tuple.

    json: bytes
    values: dict[str, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.json, self.values))


class Parser:
    """Parses the arguments of one tool; made once."""

    __slots__ = ("exact", "rules", "schema")

    def __init__(self, rules: JsonSchemaValidator) -> None:
        self.exact: Callable[..., dict[str, Any]] | None = None
        """Reads a JSON text that is right as it stands; where it raises a `ValidationError`, `mend` decides."""
        self.rules = rules
        self.schema: dict[str, Any] = rules.schema

    def parse(self, raw: bytes) -> ParsedArguments:
        """Parse the JSON text of a call.

        Raises:
            BadArguments: the text is not JSON or breaks the schema.
        """
        raise NotImplementedError

    def mend(self, raw: bytes) -> ParsedArguments:
        """Parse a JSON text that is not right as it stands.

        Raises:
            BadArguments: it cannot be read gently either.
        """
        return self.parse(raw)

    def normalised(self, parsed: ParsedArguments) -> dict[str, Any]:
        """Give the final arguments as plain JSON data with defaults filled in."""
        raise NotImplementedError

    def read(self, raw: bytes, value: Any) -> tuple[bytes, Any]:
        """Read what was given gently, to the text and the data that are meant."""
        data = self.rules.read(value, len(raw))
        return (raw if data is value else encode(data)), data


class SchemaParser(Parser):
    """Parses by a JSON Schema alone; the body receives plain JSON data."""

    __slots__ = ("_counts", "_fills", "_timer", "_valid")

    def __init__(self, rules: JsonSchemaValidator) -> None:
        super().__init__(rules)
        self._valid = rules.compile().is_valid
        self._timer = rules.match_timer
        self._counts = rules.counts()
        self._fills = rules.fills()

    def parse(self, raw: bytes) -> ParsedArguments:
        """Parse the JSON text of a call."""
        data = decode(raw)
        if self._timer is not None and not self._timer.is_short(len(raw)) and self._timer.exceeds(data):
            raise BadArguments([ArgumentProblem("", "value", TOO_LONG)])
        if not self._valid(data):
            raw, data = self._mended(raw, data)
        elif self._counts and POINT in raw and raw.find(b".0") >= 0:
            raw, data = self.read(raw, data)  # 5.0 is a valid integer, but a body wants 5
        if self._fills and self.rules.fill_defaults(data):
            raw = encode(data)
        return ParsedArguments(raw, data)

    def normalised(self, parsed: ParsedArguments) -> dict[str, Any]:
        """Give the values: they are plain JSON data."""
        return parsed.values

    def _mended(self, raw: bytes, value: Any) -> tuple[bytes, Any]:
        text, data = self.read(raw, value)
        if self._valid(data):
            return text, data
        findings = self.rules.findings(data)
        if self._fills and all(finding.kind == "missing" for finding in findings):  # a default may be required
            filled = copy.deepcopy(data)
            if self.rules.fill_defaults(filled) and self._valid(filled):
                return encode(filled), filled
        raise BadArguments(in_order(findings, data))


class LateParser(Parser):
    """Parses by a schema that was checked before and is compiled when the first call comes.

    Raises:
        SchemaError: the schema is too large to be compiled, or does not describe an object.
    """

    __slots__ = ("_parser",)

    def __init__(self, schema: Mapping[str, Any]) -> None:
        super().__init__(JsonSchemaValidator(object_schema(schema)))
        measure(self.schema)
        self._parser: SchemaParser | None = None

    def parse(self, raw: bytes) -> ParsedArguments:
        """Parse the JSON text of a call."""
        if self._parser is None:
            try:
                self._parser = SchemaParser(self.rules)
            except SchemaError as error:
                raise BadArguments([ArgumentProblem("", "value", f"the tool cannot be used: {error}")]) from None
        return self._parser.parse(raw)

    def normalised(self, parsed: ParsedArguments) -> dict[str, Any]:
        """Give the values: they are plain JSON data."""
        return parsed.values


def schema_parser(schema: Mapping[str, Any]) -> Parser:
    """Make the parser of a tool that has only a JSON Schema.

    Raises:
        SchemaError: the schema is not valid, does not describe an object or refers to something outside.
    """
    rules = JsonSchemaValidator(object_schema(schema))
    rules.compile()
    rules.shape()
    return SchemaParser(rules)

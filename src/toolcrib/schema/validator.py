"""A JSON Schema put to work: compiled once, it checks, reads gently, fills in defaults and explains.

Nothing is ever fetched, formats are not asserted, and no pattern of a stranger can hang the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.schema.coercion import fill_defaults, read_gently
from toolcrib.schema.limits import LIGHT, all_patterns, longest_text, measure, pattern_states
from toolcrib.schema.match_time import MatchTimer
from toolcrib.schema.positions import reference_to, resolve
from toolcrib.schema.problems import LocatedProblem, SchemaError, in_order, show, spell
from toolcrib.schema.shape import Shape, ShapeBuilder
from toolcrib.schema.violations import findings

if TYPE_CHECKING:
    from jsonschema_rs import Validator

BASE = "urn:toolcrib:arguments"
ENOUGH = 500  # errors looked at for one call; ten are reported
BACKTRACKS = 10_000
LOOKED_AROUND = 2000
"""The longest text that is held against a pattern with look-around: its time grows with text and tries, and no engine
bounds both.
"""
MOST_NAME_STATES = 10 * LIGHT
TOO_LONG = "the texts take too long to be matched with the patterns of the schema"


def check_schema(schema: Mapping[str, Any]) -> None:
    """Make sure that a schema can be the input schema of a tool.

    Raises:
        SchemaError: it is not valid JSON Schema, does not describe an object or refers to something outside.
    """
    rules = JsonSchemaValidator(object_schema(schema))
    rules.compile()
    rules.shape()


def output_check(schema: Mapping[str, Any], *, late: bool = False) -> Callable[[Any], str | None]:
    """Make the check of a tool's output: None, or its first problem as `<path>: <problem>`.

    A schema that was checked before may be compiled `late`, when the first output comes.

    Raises:
        SchemaError: the schema is not valid or refers to something outside.
    """
    rules = JsonSchemaValidator(plain_schema(schema))
    if late:
        measure(rules.schema)
    else:
        rules.compile()

    def check(data: Any) -> str | None:
        try:
            if rules.takes_too_long(data):
                return TOO_LONG
            if rules.valid(data):
                return None
            return str(in_order(rules.findings(data), data)[0])
        except (TypeError, ValueError) as error:
            return f"not JSON data: {error}"

    return check


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema as plain JSON data, so that nobody changes it behind our back."""
    if not isinstance(schema, Mapping):
        raise SchemaError(f"a schema is an object, not {type(schema).__name__}")
    try:
        text = msgspec.json.encode(dict(schema), enc_hook=_as_plain)
        copied: dict[str, Any] = msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None
    return copied


def _as_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds {type(value).__name__}")


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema, sure that it describes an object."""
    copied = plain_schema(schema)
    top: Any = copied
    for _ in range(10):
        if isinstance(top, dict) and "type" not in top and isinstance(top.get("$ref"), str):
            top = resolve(copied, top["$ref"])
    if not isinstance(top, dict) or top.get("type") != "object":
        actual = show(top.get("type")) if isinstance(top, dict) and "type" in top else "none"
        raise SchemaError(f'the type of the arguments must be "object", not {actual}')
    return copied


_VALUES = frozenset({"const", "default", "enum", "examples"})


class JsonSchemaValidator:
    """One schema; everything about it is worked out at its first use."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._compiled: _CompiledSchema | None = None
        self._validator: Validator | None = None
        self._shape: Shape | None = None
        self._counts = False

    def compile(self) -> Validator:
        """Make the validator.

        Raises:
            SchemaError: the schema is not valid, too large to be compiled, or refers to something outside.
        """
        if self._validator is None:
            self._compiled = _compiled(self.schema)
            self._validator = self._compiled.validator
        return self._validator

    @property
    def match_timer(self) -> MatchTimer | None:
        """What tells which data would take too long; None where no data can."""
        self.compile()
        assert self._compiled is not None
        return self._compiled.match_timer

    def takes_too_long(self, data: Any) -> bool:
        """Say whether the texts of data take too long to be held against the patterns of the schema."""
        timer = self.match_timer
        return timer is not None and timer.exceeds(data)

    def valid(self, data: Any) -> bool:
        """Say whether data is valid."""
        return (self._validator or self.compile()).is_valid(data)

    def findings(self, data: Any) -> list[LocatedProblem]:
        """Find what is wrong with data."""
        errors = islice(self.compile().iter_errors(data), ENOUGH)
        return [finding for error in errors for finding in findings(error, self.schema)]

    def read(self, data: Any, size: int) -> Any:
        """Read data gently; `size` is the length of its text."""
        return read_gently(self.shape(), data, size)

    def fills(self) -> bool:
        """Say whether there is any default to fill in."""
        return self.shape().fills

    def counts(self) -> bool:
        """True if the schema has an integer anywhere."""
        self.shape()
        return self._counts

    def fill_defaults(self, data: dict[str, Any]) -> bool:
        """Fill in the defaults of data that is valid; says whether there were any."""
        return fill_defaults(self.shape(), data)

    def shape(self) -> Shape:
        """Give the tree of the schema.

        Raises:
            SchemaError: checking one value would take forever, or references follow each other too far.
        """
        if self._shape is None:
            builder = ShapeBuilder(self.schema, self._acceptor)
            try:
                self._shape = builder.build()
            except RecursionError:
                raise SchemaError("the schema is nested too deeply, or its references lead too far") from None
            self._counts = builder.counts()
        return self._shape

    def _acceptor(self, steps: tuple[str, ...]) -> Callable[[Any], bool]:
        """Make the validity check of one schema inside, compiled on first use."""
        made: list[Validator] = []

        def accepts(value: Any) -> bool:
            if not made:
                self.compile()
                assert self._compiled is not None
                made.append(self._compiled.part(reference_to(steps)))
            return made[0].is_valid(value)

        return accepts


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema, and nothing is fetched")


class _CompiledSchema:
    """A schema as one of the engines for patterns reads it."""

    def __init__(self, schema: dict[str, Any], engine: Any, match_timer: MatchTimer | None = None) -> None:
        self._schema = schema
        self._engine = engine
        self._registry: Any = None
        self.validator = self._made(schema)
        self.match_timer = match_timer

    def part(self, reference: str) -> Validator:
        """Make the validator of a schema inside; the whole is read once for all of them."""
        import jsonschema_rs

        if self._registry is None:
            self._registry = jsonschema_rs.Registry([(BASE, self._schema)], retriever=_fetch_nothing)
        return self._made({"$ref": BASE + reference})

    def _made(self, schema: dict[str, Any]) -> Validator:
        import jsonschema_rs

        return jsonschema_rs.validator_for(
            schema, registry=self._registry, offline=True, validate_formats=False, pattern_options=self._engine
        )


def _compiled(schema: dict[str, Any]) -> _CompiledSchema:
    import jsonschema_rs

    states = measure(schema).states
    heavy = states > LIGHT
    # The engine without backtracking cannot hang, but knows no look-around; the other has few tries and short texts.
    linear, other = jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS)
    problem: Exception = SchemaError("the schema is not valid")
    for engine, longest in ((linear, longest_text), (other, _longest_looked_around)):
        try:
            if not heavy and engine is linear:
                return _CompiledSchema(schema, engine)
            cost = states if engine is linear else states + BACKTRACKS
            timer = MatchTimer(cost, _PatternMatcher(all_patterns(schema), longest, engine))
            return _CompiledSchema(_bounded(schema, longest), engine, timer)
        except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
            problem = error
    raise SchemaError(_why_invalid(problem)) from None


class _PatternMatcher:
    """Holds texts against patterns, whatever comes of it; they are compiled when the first texts come."""

    def __init__(self, patterns: list[str], longest: Callable[[str], int | None], engine: Any) -> None:
        self._patterns = patterns
        self._longest = longest
        self._engine = engine
        self._validators: list[Validator] | None = None

    def __call__(self, texts: list[str]) -> None:
        """Hold all of them against each pattern."""
        if self._validators is None:
            self._validators = list(self._compiled())
        for validator in self._validators:
            validator.is_valid(texts)

    def _compiled(self) -> Iterator[Validator]:
        import jsonschema_rs

        for pattern in self._patterns:
            # A text that does not fit must not keep the rest from being looked at.
            items = {"anyOf": [_bounded({"pattern": pattern}, self._longest), {"type": "string"}]}
            try:
                yield jsonschema_rs.validator_for({"items": items}, pattern_options=self._engine)
            except (ValueError, TypeError):
                pass  # what stands there is no pattern but a part of an example


def _longest_looked_around(pattern: str) -> int:
    return min(longest_text(pattern) or LOOKED_AROUND, LOOKED_AROUND)


def _bounded(schema: Any, longest: Callable[[str], int | None], old: bool = False) -> Any:
    """The same schema, in which no text is held against a pattern that is longer than the pattern can bear.

    `old` is one of the first drafts.
    """
    if isinstance(schema, list):
        return [_bounded(one, longest, old) for one in schema]
    if not isinstance(schema, dict):
        return schema
    old = old or any(draft in str(schema.get("$schema", "")) for draft in ("draft-04", "draft-06"))
    made = {key: value if key in _VALUES else _bounded(value, longest, old) for key, value in schema.items()}
    most = longest(schema["pattern"]) if isinstance(schema.get("pattern"), str) else None
    if most is not None:
        pattern, short = {"pattern": made.pop("pattern")}, {"maxLength": most}
        # Where a text is long, the pattern is not looked at. The first drafts have no word for that but a choice.
        held = {"anyOf": [{"minLength": most + 1}, pattern]} if old else {"if": short, "then": pattern}
        made["allOf"] = [*made.get("allOf", ()), held, short]
    if isinstance(schema.get("patternProperties"), dict):
        _check_names(made["patternProperties"])
    return made


def _check_names(patterns: dict[str, Any]) -> None:
    """Names of arguments may be of any length, and nothing can be held before their patterns."""
    import jsonschema_rs

    for pattern in patterns:
        if pattern_states(pattern) > MOST_NAME_STATES:
            raise SchemaError(f"patternProperties: {show(pattern)} is too large")
        schema = {"patternProperties": {pattern: True}}
        try:
            jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions())
        except (ValueError, TypeError):
            raise SchemaError(f"patternProperties: {show(pattern)} is no pattern without look-around") from None


def _why_invalid(error: Exception) -> str:
    where = spell(getattr(error, "instance_path", ()))
    what = str(getattr(error, "message", error))
    what = what if len(what) <= 300 else what[:299] + "…"
    return f"not valid JSON Schema: {where}: {what}" if where else f"not valid JSON Schema: {what}"

"""Declarative checks of arguments. They are pure: arguments in, findings out, and nothing in them can hang.

A pattern is matched by an engine that takes linear time and so knows neither look-around nor back-references; one that
it cannot read is no check. A check that is none (an unknown name, a format without a field) is a finding too, marked
as a fault: who wrote the file erred, not who wrote the arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import msgspec

from toolcrib.definitions.values import SEMVER
from toolcrib.schema.limits import HEAVIEST_PATTERNS, longest_text, pattern_states
from toolcrib.yaml import thaw

Weight = Literal["error", "warning"]

FAULT = "UNKNOWN_CHECK"
ABSENT: Any = object()
"""What stands where nothing is."""

_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")
_NUMERIC = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_SHAPES = {
    "snake_case": re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*"),
    "kebab-case": re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*"),
    "url": re.compile(r"(?i:https?)://[^\s/?#]+.*"),
    # Unlike that of JSON Schema, a time of day needs neither seconds nor a zone.
    "time": re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?"),
}
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_STANDARD = ("email", "uri", "uuid", "date", "date-time", "ipv4", "ipv6", "hostname")
_FORMATS = frozenset((*_SHAPES, *_STANDARD, "json", "numeric", "semver"))


@dataclass(frozen=True, slots=True)
class ArgumentFinding:
    """A finding about the arguments; `source` is its validator, `fault` is True if the validator itself is broken."""

    path: str
    code: str
    message: str
    severity: Weight = "error"
    source: str = ""
    fault: bool = False
    fields: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """It as JSON data."""
        return {name: getattr(self, name) for name in ("path", "code", "message", "severity", "source")}

    def names(self, field: str) -> bool:
        """True if it speaks of that field."""
        return field in (self.fields or (self.path,))

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class BadCheck(Exception):
    """A check that checks nothing, and why."""


Test = Callable[[Mapping[str, Any]], Iterator[ArgumentFinding]]


def failed(checks: Iterable[Any], args: Mapping[str, Any], *, labels: Weight = "error") -> list[ArgumentFinding]:
    """Return the findings of the checks, in their order; `labels` is the weight of bare names, which check nothing."""
    findings: list[ArgumentFinding] = []
    for check in checks:
        for name, setting in check.items() if isinstance(check, Mapping) else ((check, None),):
            try:
                findings.extend(prepared(name, setting)(args))
            except BadCheck as error:
                weight = "error" if isinstance(check, Mapping) else labels
                findings.append(ArgumentFinding("", FAULT, f"{error}; it checks nothing", weight, fault=True))
    return findings


def prepared(name: Any, setting: Any) -> Test:
    """Return a check as a function of the arguments.

    Raises:
        BadCheck: there is no such check, or its setting is wrong.
    """
    if not isinstance(name, str):
        raise BadCheck(f"Unknown check {_show(name)}")
    if name in _OF_FIELDS:
        return partial(_OF_FIELDS[name], _names(name, setting))
    if name not in _OF_EACH:
        raise BadCheck(f"Unknown check '{name}'")
    if name == "deprecated" and not isinstance(setting, Mapping):
        setting = dict.fromkeys(_names(name, setting), "")
    if not isinstance(setting, Mapping) or not setting:
        raise BadCheck(f"The check '{name}' names no field")
    tests = [_OF_EACH[name](field, wanted) for field, wanted in setting.items()]
    return lambda args: (finding for test in tests for finding in test(args))


def at(data: Any, path: str) -> Any:
    """What stands at a path such as `a.b[0]`; `ABSENT` where nothing does."""
    if isinstance(data, Mapping) and path in data:
        return data[path]
    for name, index in _STEP.findall(path):
        if name and isinstance(data, Mapping):
            data = data.get(name, ABSENT)
        elif index and isinstance(data, list | tuple) and int(index) < len(data):
            data = data[int(index)]
        else:
            return ABSENT
    return data


def is_given(data: Any, path: str) -> bool:
    """True if something stands there; null and the empty text are nothing, 0, false and [] are something."""
    value = at(data, path)
    return value is not ABSENT and value is not None and value != ""


def type_of(value: Any) -> str:
    """The type of a value, in the words of JSON."""
    if isinstance(value, Mapping):
        return "object"
    types = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", tuple: "array"}
    return types.get(type(value), "null")


def is_type(value: Any, name: str) -> bool:
    """True if a value is of a type of JSON; 5 and 5.0 are integers and numbers."""
    actual = type_of(value)
    whole = actual == "integer" or (actual == "number" and value == value // 1)
    return name == actual or (name == "number" and whole) or (name == "integer" and whole)


def same(one: Any, other: Any) -> bool:
    """True if two values are the same in JSON, where true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@lru_cache(1000)
def pattern(expression: str) -> Callable[[str], bool]:
    """Tell of a text whether the expression is found in it, in linear time; in one that is too long it is not found.

    Raises:
        BadCheck: it is no regular expression, none that takes linear time, or one that is too large.
    """
    import jsonschema_rs

    if pattern_states(expression) > HEAVIEST_PATTERNS:
        raise BadCheck(f"'{expression[:100]}' repeats too much to be matched in linear time and in little memory")
    longest = longest_text(expression)
    try:
        engine = jsonschema_rs.validator_for(
            {"pattern": _whole(expression)}, pattern_options=jsonschema_rs.RegexOptions(), offline=True
        )
    except (ValueError, TypeError):
        raise BadCheck(f"'{expression}' is no regular expression that can be matched in linear time") from None
    return lambda text: (longest is None or len(text) <= longest) and engine.is_valid(_whole(text))


def _names(check: str, value: Any) -> tuple[Any, ...]:
    """The fields of a check; an inner list, which only `required_fields` knows, are other names of one."""
    fields = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    for field in fields:
        others = field if check == "required_fields" and isinstance(field, list | tuple) else (field,)
        if not others or not all(isinstance(other, str) and other for other in others):
            raise BadCheck(f"The check '{check}' wants names of fields, not {_show(field)}")
    if not fields:
        raise BadCheck(f"The check '{check}' names no fields")
    return fields


# Checks of several fields


def _required(fields: Sequence[Any], args: Mapping[str, Any]) -> Iterator[ArgumentFinding]:
    for field in fields:
        names = (field,) if isinstance(field, str) else tuple(field)
        if not any(is_given(args, name) for name in names):
            yield ArgumentFinding(names[0], "required", f"Required field '{names[0]}' is missing", fields=names)


def _any_of(fields: Sequence[str], args: Mapping[str, Any]) -> Iterator[ArgumentFinding]:
    if not any(is_given(args, field) for field in fields):
        yield ArgumentFinding("", "any_of", f"At least one of {', '.join(fields)} is required", fields=tuple(fields))


def _one_of(fields: Sequence[str], args: Mapping[str, Any]) -> Iterator[ArgumentFinding]:
    there = [field for field in fields if is_given(args, field)]
    if len(there) != 1:
        message = f"Exactly one of {', '.join(fields)} must be given, not {' and '.join(there) or 'none'}"
        yield ArgumentFinding("", "one_of", message, fields=tuple(fields))


def _all_or_none(fields: Sequence[str], args: Mapping[str, Any]) -> Iterator[ArgumentFinding]:
    lacking = [field for field in fields if not is_given(args, field)]
    if lacking and len(lacking) < len(fields):
        message = f"All of {', '.join(fields)} must be given, or none; {', '.join(lacking)} is missing"
        yield ArgumentFinding("", "all_or_none", message, fields=tuple(fields))


_OF_FIELDS: dict[str, Callable[[Any, Mapping[str, Any]], Iterator[ArgumentFinding]]] = {
    "required_fields": _required,
    "any_of": _any_of,
    "one_of": _one_of,
    "all_or_none": _all_or_none,
}


# Checks of one field each


def _requires(field: str, value: Any) -> Test:
    wanted = _names("requires", value)

    def test(args: Mapping[str, Any]) -> Iterator[ArgumentFinding]:
        for name in wanted if is_given(args, field) else ():
            if not is_given(args, name):
                yield ArgumentFinding(name, "requires", f"{field} requires {name}")

    return test


def _deprecated(field: str, value: Any) -> Test:
    message = value if isinstance(value, str) and value else f"{field} is deprecated"

    def test(args: Mapping[str, Any]) -> Iterator[ArgumentFinding]:
        if is_given(args, field):
            yield ArgumentFinding(field, "deprecated", message, "warning")

    return test


Rule = Callable[[Any], str | None]
"""Of a value, what it must be; None where it is that."""


def _on_value(code: str, make: Callable[[Any], Rule]) -> Callable[[str, Any], Test]:
    """A check of the value of a field, which passes where there is none."""

    def check(field: str, setting: Any) -> Test:
        rule = make(setting)

        def test(args: Mapping[str, Any]) -> Iterator[ArgumentFinding]:
            value = at(args, field)
            if value is not ABSENT and value is not None and (problem := rule(value)) is not None:
                yield ArgumentFinding(field, code, f"{field} must {problem}")

        return test

    return check


def _format(name: Any) -> Rule:
    if not isinstance(name, str) or name not in _FORMATS:
        raise BadCheck(f"Unknown format {_show(name)}")
    return lambda value: None if _has_format(value, name) else f"be a valid {name}"


def _has_format(value: Any, name: str) -> bool:
    if name == "numeric":
        return is_type(value, "number") or (isinstance(value, str) and _NUMERIC.fullmatch(value) is not None)
    if not isinstance(value, str):
        return False
    if name in _SHAPES and not _SHAPES[name].fullmatch(value):
        return False
    if name in ("json", "semver"):
        return _is_json(value) if name == "json" else _is_semver(value)
    standard = "uri" if name == "url" else name
    return standard not in _STANDARD or bool(_standard(standard)(_whole(value)))


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=float, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return False
    return True


def _no_json(word: str) -> Any:
    """`NaN` and its like, which only Python takes for JSON."""
    raise ValueError(word)


def _is_semver(text: str) -> bool:
    return SEMVER.fullmatch(text) is not None


@lru_cache
def _standard(name: str) -> Callable[[str], bool]:
    import jsonschema_rs

    return jsonschema_rs.validator_for({"format": name}, validate_formats=True, offline=True).is_valid


def _enum(values: Any) -> Rule:
    if not isinstance(values, list | tuple) or not values:
        raise BadCheck("The check 'enum' wants a list of values")
    plain = thaw(values)
    wanted = ", ".join(value if isinstance(value, str) else _show(value) for value in plain)
    return lambda value: None if any(same(value, other) for other in plain) else f"be one of: {wanted}"


def _bounds(check: str, value: Any) -> tuple[Any, Any]:
    low, high = (value.get("min"), value.get("max")) if isinstance(value, Mapping) else (None, None)
    numbers = [bound for bound in (low, high) if bound is not None]
    if not numbers or not all(is_type(bound, "number") for bound in numbers):
        raise BadCheck(f"The check '{check}' wants numbers at min, max or both")
    if low is not None and high is not None and low > high:
        raise BadCheck(f"The check '{check}' has a min of {low} above its max of {high}, which no value fits")
    return low, high


def _outside(value: Any, low: Any, high: Any) -> bool:
    return (low is not None and value < low) or (high is not None and value > high)


def _limits(low: Any, high: Any) -> str:
    if low is None or high is None:
        return f"at least {low}" if high is None else f"at most {high}"
    return f"between {low} and {high}"


def _range(setting: Any) -> Rule:
    low, high = _bounds("range", setting)

    def rule(value: Any) -> str | None:
        if not is_type(value, "number"):
            return f"be a number {_limits(low, high)}"
        return f"be {_limits(low, high)}" if _outside(value, low, high) else None

    return rule


def _length(setting: Any) -> Rule:
    low, high = _bounds("length", setting)

    def rule(value: Any) -> str | None:
        nouns = {"string": "characters", "array": "items", "object": "fields"}
        noun = nouns.get(type_of(value))
        if noun is None:
            return f"be text or a list with a length {_limits(low, high)}"
        return f"have {_limits(low, high)} {noun}, not {len(value)}" if _outside(len(value), low, high) else None

    return rule


def _type(setting: Any) -> Rule:
    types = (setting,) if isinstance(setting, str) else tuple(setting) if isinstance(setting, list | tuple) else ()
    if not types or not all(name in TYPES for name in types):
        raise BadCheck(f"Unknown type {_show(setting)}")

    def rule(value: Any) -> str | None:
        fits = any(is_type(value, name) for name in types)
        return None if fits else f"be of type {' or '.join(types)}, not {type_of(value)}"

    return rule


def _pattern(expression: Any) -> Rule:
    if not isinstance(expression, str):
        raise BadCheck("The check 'pattern' wants a regular expression")
    matches = pattern(expression)

    def rule(value: Any) -> str | None:
        text = _show(value) if is_type(value, "number") else value
        return None if isinstance(text, str) and matches(text) else f"match the pattern {expression}"

    return rule


def _max_bytes(most: Any) -> Rule:
    if type_of(most) != "integer":
        raise BadCheck("The check 'max_bytes' wants a number of bytes")

    def rule(value: Any) -> str | None:
        size = len(_whole(value).encode() if isinstance(value, str) else _show(value).encode())
        return f"have at most {most} bytes, not {size}" if size > most else None

    return rule


_OF_EACH: dict[str, Callable[[str, Any], Test]] = {
    "requires": _requires,
    "deprecated": _deprecated,
    "format": _on_value("format", _format),
    "enum": _on_value("enum", _enum),
    "range": _on_value("range", _range),
    "length": _on_value("length", _length),
    "type": _on_value("type", _type),
    "pattern": _on_value("pattern", _pattern),
    "max_bytes": _on_value("max_bytes", _max_bytes),
}


def _whole(text: str) -> str:
    """A text that can be written anywhere: half surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _show(value: Any) -> str:
    try:
        return msgspec.json.encode(thaw(value)).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)

"""The code of a file: validators, helpers and processors, with what is wrong with each.

What cannot run is kept and says why (`Code.fault`): a validator that is broken must reject, not be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

from toolcrib.definitions.argument_checks import BadCheck, prepared
from toolcrib.definitions.definition import Code, Helper, Language, Processor, Validator
from toolcrib.definitions.lint import ToolProblems, kind, one_of
from toolcrib.definitions.values import text, texts
from toolcrib.definitions.version import present
from toolcrib.schema import SchemaError, output_check
from toolcrib.yaml import Path

BLOCK = "executable_knowledge"
LANGUAGES: tuple[Language, ...] = get_args(Language)


FIELDS = ("required_fields", "any_of", "one_of", "all_or_none")
CHECKS = (*FIELDS, "format", "enum", "range", "length", "type", "pattern", "max_bytes", "requires", "deprecated")
"""The names of declarative checks, to suggest one."""


@dataclass(frozen=True, slots=True)
class LocatedCode(Code):
    """Code with the position of its function, for problems that appear later."""

    path: str = ""
    line: int = 0
    column: int = 0


class DefinitionCode(NamedTuple):
    """All code of a file."""

    validators: tuple[Validator, ...] = ()
    helpers: tuple[Helper, ...] = ()
    processors: tuple[Processor, ...] = ()


def read_executable(tool: Mapping[str, Any], findings: ToolProblems, *, soft_checks: bool = False) -> DefinitionCode:
    """The code of a tool of version 2. With `soft_checks`, checks beside a function warn unless they say otherwise."""
    block = tool.get(BLOCK)
    if not present(block):
        return DefinitionCode()
    if not isinstance(block, Mapping):
        findings.refuse("INVALID_TYPE", f"'{BLOCK}' must be a mapping, not {kind(block)}", BLOCK)
        return DefinitionCode()
    helpers = tuple(_helpers(block, findings))
    known = {helper.id for helper in helpers}
    validators = tuple(
        validator
        for index, entry in _entries(block, "validators", findings)
        if (validator := _validator(index, entry, findings, soft=soft_checks)) is not None
    )
    return DefinitionCode(validators, helpers, tuple(_processors(block, known, findings)))


def _entries(block: Mapping[str, Any], name: str, findings: ToolProblems) -> list[tuple[int, Any]]:
    entries = block.get(name)
    if not present(entries):
        return []
    if not isinstance(entries, tuple):
        findings.refuse("INVALID_TYPE", f"'{name}' must be a list, not {kind(entries)}", BLOCK, name)
        return []
    return list(enumerate(entries))


# Validators


def _validator(index: int, entry: Any, findings: ToolProblems, *, soft: bool) -> Validator | None:
    where = (BLOCK, "validators", index)
    if not isinstance(entry, Mapping):
        findings.refuse("INVALID_TYPE", f"A validator must be a mapping, not {kind(entry)}", *where)
        return None
    id = _id(entry, "Validator", where, findings) or f"validators[{index}]"
    validates = texts(entry.get("validates"))
    if not validates:
        message = f"Validator '{id}' missing required field: validates"
        fix = "Add 'validates' with the name of a command, a list of names, or \"*\" for all"
        findings.refuse("MISSING_REQUIRED_FIELD", message, *where, "validates", fix=fix)
        return None
    checks = _checks(entry.get("checks"))
    code = _code(entry, where, findings)
    if code is None and not checks:
        message = f"Validator '{id}' missing required field: function"
        fix = "Add 'function' or 'checks'; until then every call is rejected"
        findings.error("MISSING_REQUIRED_FIELD", message, *where, "function", fix=fix)
    enforced = _enforced(entry, code, soft, where, findings)
    labels = findings.error if code is None else findings.warning
    _review_checks(checks, where, findings.error if enforced else findings.warning, labels)
    if code is not None and checks and not enforced and entry.get("enforce") is None:
        message = (
            f"Validator '{id}' has checks beside its function; its folder is read with soft_checks: they only warn"
        )
        fix = "Add 'enforce: true' if they are to reject too, 'enforce: false' if they are not"
        findings.warning("SOFT_CHECKS", message, *where, "checks", fix=fix)
    return Validator(id, validates, code, checks, enforced)


def _enforced(entry: Mapping[str, Any], code: Code | None, soft: bool, where: Path, findings: ToolProblems) -> bool:
    """True if checks that fail reject a call: always where they stand alone, else unless they are declared soft."""
    enforce = entry.get("enforce")
    if enforce is not None and not isinstance(enforce, bool):
        findings.error("INVALID_TYPE", f"'enforce' must be true or false, not {kind(enforce)}", *where, "enforce")
        enforce = True
    if code is None:
        return True
    return not soft if enforce is None else enforce


def _checks(value: Any) -> tuple[Any, ...]:
    if not present(value):
        return ()
    return value if isinstance(value, tuple) else (value,)


def _review_checks(
    checks: tuple[Any, ...], where: Path, tell: Callable[..., Any], tell_label: Callable[..., Any]
) -> None:
    """Report the checks that check nothing: those with settings by `tell`, bare names by `tell_label`."""
    for index, check in enumerate(checks):
        report = tell if isinstance(check, Mapping) else tell_label
        for name, setting in check.items() if isinstance(check, Mapping) else ((check, None),):
            try:
                prepared(name, setting)
            except BadCheck as error:
                example = f"Write '{name}: [<field>]'" if name in FIELDS else f"Write '{name}: {{<field>: ...}}'"
                fix = example if name in CHECKS else one_of(name, CHECKS)
                report("UNKNOWN_CHECK", f"{error}; it checks nothing", *where, "checks", index, fix=fix)


# Helpers and processors


def _helpers(block: Mapping[str, Any], findings: ToolProblems) -> list[Helper]:
    helpers: dict[str, Helper] = {}
    for index, entry, id in _named(block, "helpers", "Helper", findings):
        where = (BLOCK, "helpers", index)
        if id in helpers:
            _twice("helper", id, where, findings)
            continue
        code = _code(entry, where, findings)
        if code is None:
            message = f"Helper '{id}' missing required field: function"
            findings.error("MISSING_REQUIRED_FIELD", message, *where, "function", fix="Add 'function' with its code")
        helpers[id] = Helper(id, code, text(entry.get("description")))
    return list(helpers.values())


def _processors(block: Mapping[str, Any], helpers: set[str], findings: ToolProblems) -> list[Processor]:
    processors: dict[str, Processor] = {}
    for index, entry, id in _named(block, "processors", "Processor", findings):
        where = (BLOCK, "processors", index)
        if id in processors:
            _twice("processor", id, where, findings)
        else:
            processors[id] = _processor(id, entry, where, helpers, findings)
    return list(processors.values())


def _processor(id: str, entry: Mapping[str, Any], where: Path, helpers: set[str], findings: ToolProblems) -> Processor:
    code = _code(entry, where, findings)
    steps, fault = texts(entry.get("steps")), None
    if code is None and not steps:
        message = f"Processor '{id}' missing required field: function"
        fault = findings.error(
            "MISSING_REQUIRED_FIELD", message, *where, "function", fix="Add 'function', or 'steps' with ids of helpers"
        )
    for number, step in enumerate(steps):
        if step.removeprefix("helpers.") not in helpers:
            message = f"Processor '{id}' names the helper '{step}', which does not exist"
            fault = findings.error("DANGLING_REFERENCE", message, *where, "steps", number, fix=one_of(step, helpers))
    stage = entry.get("stage")
    if stage not in (None, "before", "after"):
        message = f"Invalid stage '{stage}' of processor '{id}'. Must be one of: before, after"
        fault = findings.error("INVALID_ENUM_VALUE", message, *where, "stage", fix=one_of(stage, ("before", "after")))
    taken, returned = (_schema(entry, key, where, findings) for key in ("input_schema", "output_schema"))
    fault = fault or taken.fault or returned.fault
    if fault is not None:
        code = Code("" if code is None else code.text, fault=fault)
    steps = tuple(step.removeprefix("helpers.") for step in steps)
    meant: Literal["before", "after"] = "before" if stage == "before" else "after"
    return Processor(id, code, steps, meant, texts(entry.get("applies_to")), taken.schema, returned.schema)


class _Schema(NamedTuple):
    schema: Mapping[str, Any] | None = None
    fault: str | None = None


def _schema(entry: Mapping[str, Any], key: str, where: Path, findings: ToolProblems) -> _Schema:
    schema = entry.get(key)
    if schema is None:
        return _Schema()
    try:
        output_check(schema)
    except SchemaError as error:
        message = f"'{key}' is no valid JSON Schema: {error}"
        return _Schema(None, findings.error("INVALID_SCHEMA", message, *where, key))
    return _Schema(schema)


def _twice(what: str, id: str, where: Path, findings: ToolProblems) -> None:
    message = f"The {what} '{id}' stands here again; the first counts"
    findings.error("DUPLICATE_ID", message, *where, "id", fix="Give it another id, or remove it")


def _named(
    block: Mapping[str, Any], name: str, what: str, findings: ToolProblems
) -> list[tuple[int, Mapping[str, Any], str]]:
    """Yield the entries of a list that are mappings with an id; the others are reported."""
    named = []
    for index, entry in _entries(block, name, findings):
        where = (BLOCK, name, index)
        if not isinstance(entry, Mapping):
            findings.error("INVALID_TYPE", f"A {what.lower()} must be a mapping, not {kind(entry)}", *where)
        elif (id := _id(entry, what, where, findings)) is not None:
            named.append((index, entry, id))
    return named


# Parts


def _id(entry: Mapping[str, Any], what: str, where: Path, findings: ToolProblems) -> str | None:
    id = entry.get("id")
    if isinstance(id, str) and id:
        return id
    if id in (None, ""):
        findings.error("MISSING_REQUIRED_FIELD", f"{what} missing required field: id", *where, "id", fix="Add 'id'")
    else:
        findings.error("INVALID_TYPE", f"The id of a {what.lower()} must be text, not {kind(id)}", *where, "id")
    return None


def _code(entry: Mapping[str, Any], where: Path, findings: ToolProblems) -> Code | None:
    function = entry.get("function")
    if function is None or (isinstance(function, str) and not function.strip()):
        return None
    fault = None
    if not isinstance(function, str):
        fault = findings.error("INVALID_TYPE", f"'function' must be text, not {kind(function)}", *where, "function")
    language = entry.get("language", "javascript")
    if language is None:
        language = "javascript"
    if language not in LANGUAGES:
        message = f"Invalid language '{language}'. Must be one of: {', '.join(LANGUAGES)}"
        fault = findings.error("INVALID_ENUM_VALUE", message, *where, "language", fix=one_of(language, LANGUAGES))
        language = "javascript"
    timeout_ms, memory_mb = (count(entry, key, where, findings) for key in ("timeout_ms", "memory_mb"))
    path, line, column = findings.place(*where, "function")
    return LocatedCode(text(function), cast(Language, language), timeout_ms, memory_mb, fault, path, line, column)


def count(entry: Mapping[str, Any], key: str, where: Path, findings: ToolProblems) -> int | None:
    """A whole number above 0; a problem and None for anything else that is there."""
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1 and value == value // 1:
        return int(value)
    message = f"'{key}' must be a whole number above 0"
    findings.error("INVALID_TYPE", message, *where, key, fix=f"Write a number, as '{key}: 1000'")
    return None

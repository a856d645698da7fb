"""The commands of a file, merged by name from all places that tell of them; what an earlier place says of a key wins.

The places in their order: `commands`, `tools`, `command_groups`, `executables`, and what validators and examples name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, cast, get_args

from toolcrib.definitions.blocks import is_steps
from toolcrib.definitions.definition import Command, Type, Validator
from toolcrib.definitions.executable_code import DefinitionCode, count
from toolcrib.definitions.lint import ToolProblems, kind, one_of
from toolcrib.definitions.parameters import BadParameters, input_schema
from toolcrib.definitions.values import mapping, text, texts
from toolcrib.tool import NAME
from toolcrib.types import Effect
from toolcrib.yaml import Path

EFFECTS: tuple[Effect, ...] = get_args(Effect)
LONGEST_LINE = 10_000
TEMPLATES = ("cli_args", "exec_template")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


@dataclass(slots=True)
class _Draft:
    """A command as it grows. `where` is the first place that tells of it, `places` has one for each key.

    A `variant` has a command line that goes on after its name: `gh pr list --web` beside `gh pr list`.
    """

    name: str
    where: Path = ()
    fields: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    program: str | None = None
    variant: bool = False
    listed: bool = True


def read_commands(
    tool: Mapping[str, Any], type: Type | None, code: DefinitionCode, examples: Any, findings: ToolProblems
) -> tuple[Command, ...]:
    """All commands of a tool. One that is broken is kept and says why."""
    merged: dict[str, _Draft] = {}
    executable = text(specific(tool, "cli").get("executable"))
    _merge(merged, _listed(tool, "commands", ("name", "id"), findings), findings)
    _merge(merged, _listed(tool, "tools", ("id", "name"), findings), findings)
    _merge(merged, _grouped(tool, executable, findings), findings)
    _merge(merged, _executables(tool, findings), findings)
    if type == "meta" and any(key in specific(tool, "meta") for key in ("workflow", "orchestration")):
        merged.setdefault("run", _Draft("run"))
    for name in _mentioned(code.validators, examples):
        merged.setdefault(name, _Draft(name, listed=False))
    known = {
        "validation": [validator.id for validator in code.validators],
        "processors": [processor.id for processor in code.processors],
    }
    return tuple(_command(draft, type, known, findings) for draft in merged.values())


def specific(tool: Mapping[str, Any], type: str) -> Mapping[str, Any]:
    """How a type runs: `<type>_config` and `<type>_specific`, the latter first."""
    return {**mapping(tool.get(f"{type}_config")), **mapping(tool.get(f"{type}_specific"))}


def _merge(merged: dict[str, _Draft], block: Iterable[_Draft], findings: ToolProblems) -> None:
    """Takes the commands of one block in; of two in it that have one name the first stands."""
    seen: set[str] = set()
    for draft in block:
        if draft.name in seen:
            if draft.variant:
                continue
            message = f"The command '{draft.name}' stands here again; the first counts"
            findings.error("DUPLICATE_COMMAND", message, *draft.where, fix="Remove one of them, or rename it")
            continue
        seen.add(draft.name)
        earlier = merged.setdefault(draft.name, draft)
        for key, value in draft.fields.items():
            earlier.fields.setdefault(key, value)
            earlier.places.setdefault(key, draft.places[key])
        earlier.words = earlier.words or draft.words
        earlier.program = earlier.program or draft.program


# The places


def _listed(tool: Mapping[str, Any], block: str, keys: tuple[str, ...], findings: ToolProblems) -> Iterator[_Draft]:
    """`commands` and `tools`: names, or mappings with a name."""
    executable = PurePath(text(specific(tool, "cli").get("executable"))).name
    for index, entry in _items(tool.get(block), (block,), findings):
        where = (block, index)
        if isinstance(entry, str) and entry.strip():
            yield from _of_words(entry, executable, where, {}, findings)
        elif isinstance(entry, Mapping):
            key = next((key for key in keys if entry.get(key) is not None), keys[0])
            name = entry.get(key)
            if isinstance(name, str) and name.strip():
                yield from _of_words(name, executable, (*where, key), entry, findings)
            else:
                message = f"Command missing required field: {key}"
                findings.error("MISSING_REQUIRED_FIELD", message, *where, key, fix=f"Add '{key}' with its name")
        else:
            message = f"A command is a name or a mapping, not {kind(entry)}"
            findings.error("INVALID_TYPE", message, *where, fix="Put the name in quotes")


def _of_words(
    name: str, executable: str, where: Path, data: Mapping[str, Any], findings: ToolProblems
) -> Iterator[_Draft]:
    """Yield a command whose name may have several words, which become arguments of the program."""
    words = name.split()
    if len(words) > 1 and words[0] == executable:
        words = words[1:]
    for draft in _named("_".join(words), where, data, findings):
        draft.words = tuple(words) if len(name.split()) > 1 else ()
        yield draft


def _grouped(tool: Mapping[str, Any], executable: str, findings: ToolProblems) -> Iterator[_Draft]:
    """`command_groups`: command lines, whose words after the program are the name."""
    groups = tool.get("command_groups")
    if groups is not None and not isinstance(groups, Mapping):
        findings.error("INVALID_TYPE", f"'command_groups' must be a mapping, not {kind(groups)}", "command_groups")
    for group, entries in mapping(groups).items():
        for index, entry in _items(entries, ("command_groups", group), findings):
            where = ("command_groups", group, index)
            fields = {"command": entry} if isinstance(entry, str) else mapping(entry)
            line = split(text(fields.get("command")))
            if not line:
                message = "Command missing required field: command"
                findings.error("MISSING_REQUIRED_FIELD", message, *where, fix="Add 'command', as in 'gh pr list'")
                continue
            fixed = (line[0], *takewhile(_WORD.fullmatch, line[1:]))
            program, words = _without_program(fixed, executable)
            name = "_".join(words).replace(":", "_") or PurePath(program).name
            for draft in _named(name, where, fields, findings):
                draft.words, draft.program, draft.variant = words, program, len(line) > len(fixed)
                yield draft


def _executables(tool: Mapping[str, Any], findings: ToolProblems) -> Iterator[_Draft]:
    """`executables` of a local tool: one command for each program."""
    for block in ("local_specific", "local_config"):
        for index, entry in _items(mapping(tool.get(block)).get("executables"), (block, "executables"), findings):
            where = (block, "executables", index)
            fields = {"name": entry} if isinstance(entry, str) else mapping(entry)
            program = text(fields.get("name"))
            if not program:
                message = "Executable missing required field: name"
                findings.error("MISSING_REQUIRED_FIELD", message, *where, fix="Add 'name' with the program")
                continue
            fields = {"description": text(fields.get("purpose")), **fields}
            for draft in _named(PurePath(program).name, where, fields, findings):
                draft.program = program
                yield draft


def _mentioned(validators: Iterable[Validator], examples: Any) -> Iterator[str]:
    """The commands that validators check and examples show; of a list of steps, those that the steps call."""
    for validator in validators:
        yield from (name for name in validator.validates if NAME.fullmatch(name))
    for name, entries in mapping(examples).items():
        steps = entries if isinstance(entries, tuple) and is_steps(entries) else None
        called = [name] if steps is None else [text(mapping(step).get("command")) for step in steps]
        yield from (command for command in called if NAME.fullmatch(command))


# Parts of them


def _items(entries: Any, where: Path, findings: ToolProblems) -> list[tuple[int, Any]]:
    if entries is None:
        return []
    if not isinstance(entries, tuple):
        findings.error("INVALID_TYPE", f"'{where[-1]}' must be a list, not {kind(entries)}", *where)
        return []
    return list(enumerate(entries))


def _named(name: str, where: Path, data: Mapping[str, Any], findings: ToolProblems) -> Iterator[_Draft]:
    if not NAME.fullmatch(name):
        message = f"Invalid command name '{name}'. Expected letters, digits, '_', '-' and '.', at most 128"
        findings.error("INVALID_ID", message, *where, fix=f"Write '{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:128]}'")
        return
    top = where if isinstance(where[-1], int) else where[:-1]
    yield _Draft(name, where, dict(data), {key: (*top, key) for key in data})


def split(line: str) -> list[str]:
    """The words of a command line; of one that is made to be long, those at its beginning."""
    line = line[:LONGEST_LINE]
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _without_program(words: tuple[str, ...], executable: str) -> tuple[str, tuple[str, ...]]:
    """The program of a command line and the words after it; one without the file's own program is all words."""
    if executable and PurePath(words[0]).name != PurePath(executable).name:
        return executable, words
    return executable or words[0], words[1:]


# The whole


def _command(draft: _Draft, type: Type | None, known: Mapping[str, list[str]], findings: ToolProblems) -> Command:
    fields, words = draft.fields, draft.words
    schema, broken = _schema(draft, findings)
    if type == "cli" and not words and draft.program is None and draft.listed:
        words = (draft.name,)
    of_program = draft.program is not None or (type == "cli" and draft.listed)
    return Command(
        name=draft.name,
        description=text(fields.get("description")),
        input_schema=schema,
        argv=of_program and schema is None and all(fields.get(key) is None for key in TEMPLATES),
        prefix=words,
        program=draft.program,
        effect=_effect(draft, findings),
        timeout_ms=count(fields, "timeout_ms", draft.places.get("timeout_ms", ())[:-1], findings),
        filter=mapping(fields.get("filter")) or None,
        processors=texts(fields.get("processors")),
        listed=draft.listed,
        broken=_unsound(draft, findings) or _dangling(draft, known, findings) or broken,
        where=draft.where if not draft.where or isinstance(draft.where[-1], int) else draft.where[:-1],
        fields=MappingProxyType(fields),
    )


def _unsound(draft: _Draft, findings: ToolProblems) -> str | None:
    """What is wrong with the templates of a command."""
    from toolcrib.definitions.runners import templates

    readers: dict[str, Callable[[Any, str], Any]] = {
        "cli_args": templates.words,
        "exec_template": templates.command_line,
    }
    if "method" in draft.fields or "path" in draft.fields:
        readers |= dict.fromkeys(("path", "query", "headers", "body"), templates.json)
    broken = None
    for key, read in readers.items():
        if draft.fields.get(key) is not None:
            try:
                read(draft.fields[key], key)
            except templates.BadTemplate as error:
                message = f"Command '{draft.name}': {error}"
                broken = findings.error("INVALID_TEMPLATE", message, *draft.places[key])
    return broken


def _dangling(draft: _Draft, known: Mapping[str, list[str]], findings: ToolProblems) -> str | None:
    """Return the problem of a command that refers to something which the file lacks."""
    broken = None
    for key, ids in known.items():
        for reference in texts(draft.fields.get(key)):
            id = reference.removeprefix("validators.").removeprefix("processors.")
            if id not in ids and not re.search(r"\s", id):  # several words are prose
                message = f"Command '{draft.name}' names '{reference}' at '{key}', which does not exist"
                broken = findings.error("DANGLING_REFERENCE", message, *draft.places[key], fix=one_of(id, ids))
    return broken


def _schema(draft: _Draft, findings: ToolProblems) -> tuple[Mapping[str, Any] | None, str | None]:
    try:
        return input_schema(draft.fields), None
    except BadParameters as error:
        return None, findings.error("INVALID_SCHEMA", f"Command '{draft.name}': {error}", *draft.places[error.key])


def _effect(draft: _Draft, findings: ToolProblems) -> Effect | None:
    effect = draft.fields.get("effect")
    if effect is None or effect in EFFECTS:
        return cast(Effect | None, effect)
    message = f"Invalid effect '{effect}' of command '{draft.name}'. Must be one of: {', '.join(EFFECTS)}"
    findings.error("INVALID_ENUM_VALUE", message, *draft.places["effect"], fix=one_of(effect, EFFECTS))
    return None

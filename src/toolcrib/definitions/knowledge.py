"""What people learned about a tool, shown on request, and as the one hint of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from toolcrib.definitions.argument_checks import ArgumentFinding
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.filters import tokens
from toolcrib.definitions.values import mapping, text, texts
from toolcrib.yaml import thaw

HINT = 600
PROSE = 250
"""How much of a hint may be prose, so that the correct form has room."""
HELP_TOKENS = 800
ISSUES = ("error_handling", "common_issues")
_NOTES = ("usage", "notes", "common_flags", "subcommands", "examples", "example_ref", "uses_helpers")
_NO_TOPICS = frozenset(
    (
        *("id", "type", "name", "description", "version", "schema_version", "knowledge_strategy", "enforce"),
        *("commands", "tools", "command_groups", "executable_knowledge", "requires", "expose", "expose_helpers"),
        *("effect", "timeout_ms", "detect", "match", "health_check", "knowledge"),
    )
)
_HOW_IT_RUNS = re.compile(r"(mcp|cli|local|http|meta)_(specific|config)")


# Hints


def hint(
    definition: ToolDefinition, command: str, code: str, message: str, findings: Sequence[ArgumentFinding] = ()
) -> str | None:
    """The one hint that fits a failure best; None where nobody knows of it."""
    paths = [finding.path for finding in findings if finding.path]
    patterns = _anti_patterns(definition)
    fitting = chain(
        (_advice(each) for each in patterns if _matches(each, command, code, message, findings)),
        (_advice(each) for each in patterns if _shows(each, command, paths)),
        _solutions(definition, message),
        (_mitigation(each) for each in _quirks(definition) if _tells(each, command, paths)),
        (_mitigation(each) for each in _entries(definition.block("examples")) if _ends_so(each, message)),
    )
    return next((_cut(each, HINT) for each in fitting if each), None)


def _anti_patterns(definition: ToolDefinition) -> list[Mapping[str, Any]]:
    block = definition.block("anti_patterns")
    return [mapping(each) for each in block] if isinstance(block, tuple) else []


def _quirks(definition: ToolDefinition) -> list[Mapping[str, Any]]:
    block = mapping(definition.block("api_complexity")).get("api_quirks")
    return [mapping(each) for each in block] if isinstance(block, tuple) else []


def _matches(
    pattern: Mapping[str, Any], command: str, code: str, message: str, findings: Sequence[ArgumentFinding]
) -> bool:
    match = mapping(pattern.get("match"))
    wanted = {name: texts(match[name]) for name in ("command", "path", "code", "message") if match.get(name)}
    if not wanted or ("command" in wanted and command not in wanted["command"]):
        return False
    if "message" in wanted and not any(_occurs(each, message) for each in wanted["message"]):
        return False
    codes, paths = wanted.get("code"), wanted.get("path")
    if paths is None:
        return codes is None or code in codes or any(each.code in codes for each in findings)
    return any(
        any(_within(each.path, path) for path in paths) and (codes is None or each.code in codes or code in codes)
        for each in findings
    )


def _within(path: str, wanted: str) -> bool:
    return path == wanted or (path.startswith(wanted) and path[len(wanted)] in ".[")


def _shows(pattern: Mapping[str, Any], command: str, paths: Iterable[str]) -> bool:
    """True if an anti-pattern is about the command and one of the paths; unchanged lines do not count."""
    wrong, correct = text(pattern.get("wrong")), text(pattern.get("correct"))
    if not _names(wrong, command):
        return False
    lines, kept = wrong.splitlines() + correct.splitlines(), set(wrong.splitlines()) & set(correct.splitlines())
    texts = [text(pattern.get(name)) for name in ("pattern", "description", "rationale", "error")]
    return _names_any("\n".join((*texts, *(line for line in lines if line not in kept))), paths)


def _tells(entry: Mapping[str, Any], command: str, paths: Iterable[str]) -> bool:
    written = write(entry)
    return _names(written, command) and _names_any(written, paths)


def _names_any(content: str, paths: Iterable[str]) -> bool:
    """True if a text names one of the paths, or the field in which it lies."""
    return any(_names(content, path) or _names(content, re.split(r"[.\[]", path, maxsplit=1)[0]) for path in paths)


def _names(content: str, name: str) -> bool:
    """True if a text holds a name as a word; a name may come from anywhere, so no expression is made of it."""
    at = content.find(name) if name else -1
    while at >= 0:
        around = content[max(at - 1, 0) : at] + content[at + len(name) : at + len(name) + 1]
        if not any(letter.isalnum() or letter in "_$" for letter in around):
            return True
        at = content.find(name, at + 1)
    return False


def _occurs(part: str, message: str) -> bool:
    wanted = " ".join(part.split()).casefold()
    return bool(wanted) and wanted in " ".join(message.split()).casefold()


def _advice(pattern: Mapping[str, Any]) -> str:
    prose = [text(pattern.get(name)).strip() for name in ("description", "rationale")]
    description = " ".join(each if each.endswith((".", "!", "?")) else f"{each}." for each in prose if each)
    correct = text(pattern.get("correct")).strip()
    room = PROSE if len(description) + len(correct) > HINT - 20 else HINT
    return "\n".join(each for each in (_cut(description, room), f"Correct: {correct}" if correct else "") if each)


def _solutions(definition: ToolDefinition, message: str) -> Iterator[str]:
    for name in ISSUES:
        block = definition.tool.get(name)
        for entry in block.values() if isinstance(block, Mapping) else block if isinstance(block, tuple) else ():
            issue = mapping(entry)
            if any(_occurs(text(issue.get(key)), message) for key in ("error", "issue")):
                yield " ".join((*texts(issue.get("solution")), *texts(issue.get("solutions"))))


def _mitigation(entry: Mapping[str, Any]) -> str:
    return text(entry.get("mitigation")) or text(entry.get("solution"))


def _ends_so(example: Mapping[str, Any], message: str) -> bool:
    return _occurs(text(mapping(example.get("error")).get("message")), message)


def _entries(examples: Any) -> list[Mapping[str, Any]]:
    blocks = mapping(examples).values()
    return [mapping(each) for block in blocks if isinstance(block, tuple) for each in block]


# Help


def tool_help(
    definition: ToolDefinition, command: str, topic: str | None = None, *, parameters: Iterable[str] = ()
) -> str:
    """Return what is known of a command beside its name, line and schema; or about one topic, at length.

    `parameters` are those that the file does not know of, as where a server tells them.
    """
    known = topics(definition)
    others = f"Other topics: {', '.join(known)}" if known else ""
    if topic is not None:
        return write(known[topic]) if topic in known else f"No topic '{topic}'. {others or 'There are none.'}"
    room = HELP_TOKENS - tokens(others)
    parts: list[str] = []
    for part in _parts(definition, command, parameters):
        if (size := tokens(part) + 1) <= room:
            parts.append(part)
            room -= size
    return "\n\n".join(each for each in (*parts, others) if each) or f"Nothing more is known of '{command}'."


def topics(definition: ToolDefinition) -> dict[str, Any]:
    """All else that the file tells, by topic: its blocks that do not say how it runs, and its topics of knowledge."""
    blocks = {
        name: block
        for name, block in definition.tool.items()
        if name not in _NO_TOPICS and not _HOW_IT_RUNS.fullmatch(name) and block not in (None, "", (), {})
    }
    entries = definition.tool.get("knowledge")
    pieces = {
        text(mapping(each).get("topic")): mapping(each).get("content")
        for each in (entries if isinstance(entries, tuple) else ())
    }
    return {**definition.extra, **blocks, **{topic: piece for topic, piece in pieces.items() if topic}}


def _parts(definition: ToolDefinition, command: str, parameters: Iterable[str]) -> Iterator[str]:
    """Notes, examples, and what mentions the command or its parameters, the most telling first."""
    described = definition.command(command) or Command(command)
    examples = _entries({command: mapping(definition.block("examples")).get(command)})
    inputs = [] if described.argv else [mapping(mapping(described.input_schema).get("properties"))]
    inputs += [mapping(each.get("input")) for each in examples]
    names = list(dict.fromkeys((command, *parameters, *chain(*inputs))))
    notes = {name: described.fields[name] for name in _NOTES if described.fields.get(name)}
    if notes:
        yield write(notes)
    yield from _operations(definition, described)
    yield from _shown(examples)
    for pattern in _anti_patterns(definition):
        if _mentions(pattern, names):
            yield f"Avoid: {_advice(pattern)}"
    yield from _interface_notes(definition, names)


def _operations(definition: ToolDefinition, command: Command) -> Iterator[str]:
    """Command lines that begin with the program of a command."""
    begins = " ".join((command.program, *command.prefix)) if command.program else command.name
    groups = mapping(definition.tool.get("common_operations")).values()
    for entry in chain(*(group for group in groups if isinstance(group, tuple))):
        operation = mapping(entry)
        if f"{text(operation.get('command'))} ".startswith(f"{begins} "):
            yield write(operation)


def _shown(examples: list[Mapping[str, Any]]) -> Iterator[str]:
    """One example that succeeds and one that fails."""
    for title, key in (("Works", "output"), ("Fails", "error")):
        example = next((each for each in examples if key in each), None)
        if example is not None:
            details = {name: example[name] for name in ("description", "error", "mitigation") if name in example}
            data = {name: _json(example[name]) for name in ("input", "output") if name in example}
            yield f"{title}:\n{_indented(write({**data, **details}))}"


def _interface_notes(definition: ToolDefinition, names: Iterable[str]) -> Iterator[str]:
    api = mapping(definition.block("api_complexity"))
    for quirk in _quirks(definition):
        if _mentions(quirk, names):
            yield f"Quirk:\n{_indented(write({key: value for key, value in quirk.items() if key != 'quirk'}))}"
    for field, field_mapping in mapping(api.get("field_mappings")).items():
        if field in names:
            yield f"Field {field}:\n{_indented(write(field_mapping))}"
    for block in (api.get("known_limitations"), definition.tool.get("limitations")):
        for limit in block if isinstance(block, tuple) else ():
            if _mentions(limit, names):
                yield f"Limit: {write(limit)}"


def _mentions(entry: Any, names: Iterable[str]) -> bool:
    written = write(entry)
    return any(_names(written, name) for name in names)


def write(value: Any) -> str:
    """Data as indented lines, for a model to read."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        return "\n".join(_line(f"{key}:", inner) for key, inner in value.items())
    if isinstance(value, tuple | list):
        return "\n".join(_line("-", inner) for inner in value)
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(thaw(value)).decode()


def _line(mark: str, value: Any) -> str:
    written = write(value)
    if "\n" in written or (mark != "-" and isinstance(value, Mapping | tuple | list) and written):
        return f"{mark}\n{_indented(written)}"
    return f"{mark} {written}".rstrip()


def _indented(content: str) -> str:
    return "\n".join(f"  {line}" for line in content.splitlines())


def _cut(content: str, most: int) -> str:
    return content if len(content) <= most else content[: most - 1].rstrip() + "…"

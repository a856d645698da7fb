"""From one version of the format to the other and back, without touching a line that the change does not mean.

A rewritten file is read again before it is written: it must hold exactly what was meant, and no new error.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from toolcrib.definitions.code_checks import check_code
from toolcrib.definitions.definition import Language, ToolDefinition
from toolcrib.definitions.reader import ID, read
from toolcrib.definitions.text_edits import (
    TextEdit,
    edited,
    insert_first,
    line_of,
    line_start,
    newline,
    parts_of,
    remove,
    replace_value,
    unfit,
)
from toolcrib.definitions.values import texts
from toolcrib.definitions.version import BLOCKS, explicit, features
from toolcrib.errors import Refused
from toolcrib.sandbox import Sandbox
from toolcrib.yaml import YamlDocument, YamlNode, decoded, parse, thaw

KEY = "schema_version"
NO_SANDBOXES: Mapping[Language, Sandbox] = MappingProxyType({})
_BEFORE_RESTORE = ".before-restore"
SKELETONS = {
    "executable_knowledge": """\
executable_knowledge:
  validators:
    - id: validate-<command>
      validates: <command>
      checks:
        - required_fields: [<field>]
  helpers:
    - id: <helper>
      function: |
        (function() { return args; })();
""",
    "api_complexity": """\
api_complexity:
  api_quirks:
    - quirk: <name>
      description: <what happens>
      impact: <what it breaks>
      mitigation: <what to do>
""",
    "anti_patterns": """\
anti_patterns:
  - pattern: <name>
    description: <what people do>
    wrong: <command>({...})
    correct: <command>({...})
""",
    "examples": """\
examples:
  <command>:
    - scenario: success
      input: {}
      output: {}
    - scenario: failure_invalid_param
      input: {}
      error: {code: VALIDATION_ERROR, message: <message>}
""",
}


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a change makes of a file. `backup` is where its bytes were kept, None where nothing was written."""

    path: Path
    before: bytes
    after: bytes
    backup: Path | None = None

    @property
    def diff(self) -> str:
        """The change, line by line."""
        old, new = (decoded(data)[0].splitlines(keepends=True) for data in (self.before, self.after))
        difference = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith(("\n", "\r")) else f"{line}\n" for line in difference)


# The text


def migrated(data: bytes, *, scaffold: bool = False) -> bytes:
    """A file that says that it is of version 2, with commented skeletons of the blocks it does not have if wanted.

    Raises:
        Refused: it holds no tool, or cannot be rewritten.
    """
    text, encoding, document, tool = _opened(data)
    meant = dict(tool.value)
    edits = []
    if explicit(tool.value.get(KEY)) != 2:
        edits = _put_first(text, tool, "2.0")
        meant[KEY] = 2.0
    if scaffold and not tool.flow:
        edits += _skeletons(text, tool)
    return _closed(edited(text, edits), encoding, document, meant)


def rolled_back(data: bytes) -> bytes:
    """A file that says that it is of version 1, without what only version 2 has.

    Raises:
        Refused: it holds no tool, or cannot be rewritten.
    """
    text, encoding, document, tool = _opened(data)
    meant = {key: value for key, value in tool.value.items() if key not in BLOCKS}
    gone: set[str | int] = {key for key in BLOCKS if key in tool.children}
    edits = [_version(text, tool, "1.0")] if explicit(meant.get(KEY)) != 1 else []
    if edits:
        meant[KEY] = 1.0
    if features({"examples": meant.get("examples")}):
        left = _successes(text, tool.children["examples"])
        if left is None:
            gone.add("examples")
            del meant["examples"]
        else:
            meant["examples"] = left[0]
            edits += left[1]
    if "expose_helpers" in tool.children:
        gone.add("expose_helpers")
        del meant["expose_helpers"]
    for key in ("commands", "tools"):
        if isinstance(meant.get(key), tuple):
            meant[key], changes = _without_references(text, tool.children[key])
            edits += changes
    edits += remove(text, tool, gone)
    return _closed(edited(text, edits), encoding, document, meant)


def _without_references(text: str, node: YamlNode) -> tuple[list[Any], list[TextEdit]]:
    """Commands that no longer name validators and processors, which are gone; several words are prose and stay."""
    left: list[Any] = []
    edits: list[TextEdit] = []
    for number, entry in enumerate(node.value):
        named = [key for key in ("validation", "processors") if isinstance(entry, Mapping) and _refers(entry.get(key))]
        left.append({key: value for key, value in entry.items() if key not in named} if named else entry)
        edits += [edit for key in named for edit in _dropped(text, node.children[number], key)]
    return left, edits


def _dropped(text: str, holder: YamlNode, key: str) -> list[TextEdit]:
    """The lines of a key, taken out; the first key of an entry of a list stands beside its dash."""
    start = holder.keys[key].index
    if holder.flow or text[line_start(text, start) : start].strip():
        return remove(text, holder, [key])
    return [line_of(text, start, len(text[: holder.children[key].end.index].rstrip()))]


def _refers(value: Any) -> bool:
    return bool(texts(value)) and not any(re.search(r"\s", one) for one in texts(value))


def _opened(data: bytes) -> tuple[str, str, YamlDocument, YamlNode]:
    try:
        text, encoding = decoded(data)
    except UnicodeDecodeError:
        raise unfit("it is no text") from None
    document = parse(text)
    if document.problems:
        raise unfit(document.problems[0].message)
    if text.startswith("\ufeff"):  # places are counted after it
        text, encoding = text[1:], f"{encoding}+bom"
    tool = document.node(("tool",)) or document.root
    if tool is None or not isinstance(tool.value, Mapping) or read(data).status == "not_a_tool":
        raise unfit("it holds no tool")
    return text, encoding, document, tool


def _closed(text: str, encoding: str, before: YamlDocument, meant: Mapping[str, Any]) -> bytes:
    """The bytes of a new text, sure that it holds what was meant and nothing else."""
    root = before.value
    expected = {**root, "tool": meant} if "tool" in root else meant
    after = parse(text)
    if after.problems or thaw(after.value) != thaw(expected):
        raise unfit("its form is too unusual to be sure that nothing else changes")
    name, _, mark = encoding.partition("+")
    return ("\ufeff" * bool(mark) + text).encode(name)


def _version(text: str, tool: YamlNode, value: str) -> TextEdit:
    node = tool.children.get(KEY)
    return insert_first(text, tool, KEY, value) if node is None else replace_value(node, value)


def _put_first(text: str, tool: YamlNode, value: str) -> list[TextEdit]:
    """The version, moved to the front with the rest of its line."""
    keys = list(tool.children)
    if KEY not in keys or keys[0] == KEY:
        return [_version(text, tool, value)]
    if tool.flow:
        return [*remove(text, tool, {KEY}), insert_first(text, tool, KEY, value)]
    parts = {part.key: part.start for part in parts_of(text, tool)}
    node = tool.children[KEY]
    taken = line_of(text, parts[KEY], node.end.index)
    line = text[taken.start : node.start.index] + replace_value(node, value).text + text[node.end.index : taken.end]
    first = line_start(text, parts[keys[0]])
    return [taken, TextEdit(first, first, line if line.endswith(("\n", "\r")) else line + newline(text))]


def _skeletons(text: str, tool: YamlNode) -> list[TextEdit]:
    """Comments after the last line of the tool, for those blocks that it neither has nor shows already."""
    start = parts_of(text, tool)[0].start
    margin = text[line_start(text, start) : start]
    end = len(text[: tool.end.index].rstrip())
    at = line_of(text, end, end).end
    lines = [
        f"{margin}# {line}".rstrip()
        for name, skeleton in SKELETONS.items()
        if name not in tool.children and not re.search(rf"^\s*#\s*{name}:", text, re.MULTILINE)
        for line in skeleton.splitlines()
    ]
    ending = newline(text)
    before = "" if text[:at].endswith(("\n", "\r")) else ending
    return [TextEdit(at, at, before + "".join(line + ending for line in lines))] if lines else []


def _successes(text: str, node: YamlNode) -> tuple[Any, list[TextEdit]] | None:
    """What is left of examples, with the changes that leave it; None where nothing is."""
    value = node.value
    if isinstance(value, Mapping) and isinstance(value.get("scenario"), str):
        return (value, []) if value["scenario"] == "success" else None
    kept = {key: left for key, child in node.children.items() if (left := _successes(text, child)) is not None}
    if not kept:
        return None
    edits = [edit for _, changes in kept.values() for edit in changes]
    edits += remove(text, node, [key for key in node.children if key not in kept])
    values = {key: inner for key, (inner, _) in kept.items()}
    return (values if isinstance(value, Mapping) else list(values.values())), edits


# The file


async def migrate(
    path: Path,
    *,
    scaffold: bool = False,
    sandboxes: Mapping[Language, Sandbox] = NO_SANDBOXES,
    backups: Path | None = None,
    dry_run: bool = False,
) -> Rewrite:
    """Makes a file say that it is of version 2.

    Raises:
        Refused: it holds no tool, cannot be rewritten, or would have an error that it does not have now.
    """
    before = await asyncio.to_thread(path.read_bytes)
    rewrite = Rewrite(path, before, migrated(before, scaffold=scaffold))
    return await _carried_out(rewrite, sandboxes, backups, dry_run)


async def rollback(
    path: Path,
    *,
    sandboxes: Mapping[Language, Sandbox] = NO_SANDBOXES,
    backups: Path | None = None,
    dry_run: bool = False,
) -> Rewrite:
    """Makes a file one of version 1, without what only version 2 has.

    Raises:
        Refused: it holds no tool, cannot be rewritten, or would have an error that it does not have now.
    """
    before = await asyncio.to_thread(path.read_bytes)
    return await _carried_out(Rewrite(path, before, rolled_back(before)), sandboxes, backups, dry_run)


async def restore(
    path: Path, backup: Path | None = None, *, backups: Path | None = None, dry_run: bool = False
) -> Rewrite:
    """Gives a file the bytes of a backup: the one named, else the newest of version 1, else the newest.

    Raises:
        Refused: there is no backup.
    """
    return await asyncio.to_thread(_restore, path, backup, backups or backups_of(path), dry_run)


def backups_of(path: Path) -> Path:
    """The folder of backups for a file: in the `.toolcrib` that it lies in, else in one beside it."""
    own = next((above for above in path.absolute().parents if above.name == ".toolcrib"), path.parent / ".toolcrib")
    return own / "backups"


async def _carried_out(
    rewrite: Rewrite, sandboxes: Mapping[Language, Sandbox], backups: Path | None, dry_run: bool
) -> Rewrite:
    if rewrite.before == rewrite.after:
        return rewrite
    path = rewrite.path
    known, rewritten = [await check_code(read(data, path=path), sandboxes) for data in (rewrite.before, rewrite.after)]
    new = Counter(_errors(rewritten)) - Counter(_errors(known))
    if new:
        raise Refused("invalid_arguments", f"Not written, there would be a new error: {next(iter(new))}")
    if dry_run:
        return rewrite
    return await asyncio.to_thread(_write, rewrite, _name(path, rewritten), backups or backups_of(path), "")


def _name(path: Path, definition: ToolDefinition) -> str:
    """What backups of a file are called: its id, or its own name where that is none."""
    return definition.id if ID.fullmatch(definition.id) else path.stem


def _errors(definition: ToolDefinition) -> Iterator[str]:
    return (f"{one.code}: {one.message}" for one in definition.problems if one.severity == "error")


def _restore(path: Path, backup: Path | None, backups: Path, dry_run: bool) -> Rewrite:
    before = path.read_bytes() if path.exists() else b""
    id = _name(path, read(before, path=path))
    if backup is None:
        backup = _newest(id, backups)
    if backup is None or not backup.is_file():
        where = backups if backup is None else backup
        raise Refused("not_found", f"There is no backup of '{id}' at {where}")
    rewrite = Rewrite(path, before, backup.read_bytes())
    if dry_run or rewrite.before == rewrite.after:
        return rewrite
    return _write(rewrite, id, backups, _BEFORE_RESTORE)


def _newest(id: str, backups: Path) -> Path | None:
    """The newest backup of version 1; the newest at all where there is none. What `restore` itself kept is left out."""
    named = re.compile(rf"{re.escape(id)}\.\d{{8}}T\d{{12}}Z\.yaml")
    candidates = sorted((one for one in backups.glob("*.yaml") if named.fullmatch(one.name)), reverse=True)
    return next((one for one in candidates if read(one.read_bytes()).schema_version == 1), next(iter(candidates), None))


def _write(rewrite: Rewrite, id: str, backups: Path, kind: str) -> Rewrite:
    """Keeps the bytes of before, then puts the new ones in their place at once."""
    target = rewrite.path.resolve()
    if not target.exists():
        put(target, rewrite.after)
        return rewrite
    backups.mkdir(parents=True, exist_ok=True)
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    backup = backups / f"{id}.{time}{kind}.yaml"
    put(backup, rewrite.before)
    put(target, rewrite.after)
    return replace(rewrite, backup=backup)


def put(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all; one that is there keeps its mode."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

"""Changes to the text of a document by the places of its nodes: what a change does not mean stays byte for byte."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from toolcrib.errors import Refused
from toolcrib.yaml import YamlNode

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_DASH_ALONE = re.compile(r"[ \t]*-[ \t]*(?:#.*)?")


class TextEdit(NamedTuple):
    """Text that takes the place of what stands between two places."""

    start: int
    end: int
    text: str = ""


class EntrySpan(NamedTuple):
    """An entry of a list or mapping: its key or index, where it starts, and where its value ends."""

    key: str | int
    start: int
    end: int


def edited(text: str, edits: Collection[TextEdit]) -> str:
    """The text after changes, none of which touches another."""
    pieces, at = [], 0
    for edit in sorted(edits):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*pieces, text[at:]))


def newline(text: str) -> str:
    """How lines end in a text."""
    match = re.search(r"\r\n|\r|\n", text)
    return match[0] if match else "\n"


def line_start(text: str, at: int) -> int:
    """Where the line begins that a place is in."""
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def insert_first(text: str, holder: YamlNode, key: str, value: str) -> TextEdit:
    """Puts an entry before the first of a mapping, written like that one.

    Raises:
        Refused: the mapping is empty, or not changed here.
    """
    parts = parts_of(text, holder)
    if not parts:
        raise unfit("the mapping is empty")
    first = parts[0].start
    begin = line_start(text, first)
    margin = text[begin:first]
    written = _entry(text, first, str(parts[0].key), key, value)
    if not holder.flow:
        return TextEdit(begin, begin, margin + written + newline(text))
    if not margin.strip():
        return TextEdit(first, first, f"{written},{newline(text)}{margin}")
    return TextEdit(first, first, f"{written}, " if ": " in written else f"{written},")


def _entry(text: str, first: int, named: str, key: str, value: str) -> str:
    if text[first] != '"':
        return f"{key}: {value}"
    close = text[first + len(named) + 2 :][:2]
    return f'"{key}":{value}' if close[:1] == ":" and not close[1:].isspace() else f'"{key}": {value}'


def replace_value(node: YamlNode, written: str) -> TextEdit:
    """Puts another scalar in the place of one."""
    start, end = node.start.index, node.end.index
    return TextEdit(start, end, written if end > start else f" {written}")


def remove(text: str, holder: YamlNode, keys: Collection[str | int]) -> list[TextEdit]:
    """Takes entries out of a list or mapping, of which some are left.

    Raises:
        Refused: they are in a form that is not changed here.
    """
    if not keys:
        return []
    parts = parts_of(text, holder)
    ends = [*(part.start for part in parts[1:]), min(holder.end.index, len(text))]
    if not holder.flow:
        return [_lines(text, part.start, end) for part, end in zip(parts, ends, strict=True) if part.key in keys]
    last = max(index for index, part in enumerate(parts) if part.key not in keys)
    edits = [TextEdit(part.start, end) for part, end in zip(parts[:last], ends, strict=False) if part.key in keys]
    if last + 1 < len(parts):  # the comma before the rest goes with it
        edits.append(TextEdit(parts[last].end, parts[-1].end))
    return edits


def line_of(text: str, start: int, end: int) -> TextEdit:
    """The whole lines from one place to another, taken out."""
    match = _LINE.match(text, end)
    return TextEdit(line_start(text, start), end if match is None else match.end())


def parts_of(text: str, holder: YamlNode) -> list[EntrySpan]:
    """The entries of a list or mapping, as they stand in the text.

    Raises:
        Refused: they stand somewhere else, behind an alias, or in a form that is not changed here.
    """
    parts = []
    for key, child in holder.children.items():
        start = holder.keys[key].index if isinstance(key, str) else child.start.index
        if not holder.start.index <= start <= holder.end.index:
            raise unfit("what is to change stands behind an alias")
        parts.append(EntrySpan(key, start if holder.flow else _block_start(text, start, key), child.end.index))
    return parts


def _block_start(text: str, start: int, key: str | int) -> int:
    """Where an entry of a block begins: at its key, its `?` or its dash."""
    begin = line_start(text, start)
    margin = text[begin:start]
    if isinstance(key, str):
        if margin.strip() not in ("", "?"):
            raise unfit("a key shares its line with something else")
        return begin + len(margin) - len(margin.lstrip())
    while margin.strip() != "-":
        if margin.strip() or begin == 0:
            raise unfit("an item of a list shares its line with something else")
        start, begin = begin, line_start(text, begin - 1)
        margin = text[begin:start].rstrip("\r\n")
        if _DASH_ALONE.fullmatch(margin):
            break
        margin = "" if margin.lstrip().startswith("#") else margin
    return begin + text[begin:].index("-")


def _lines(text: str, start: int, end: int) -> TextEdit:
    """The lines of an entry with the blank ones after it; comments that stand no deeper are for what follows."""
    begin, stop = line_start(text, start), line_start(text, end)
    if text[stop:end].strip():  # the text ends without a line break
        stop = end
    lines = [line for line in _LINE.findall(text[begin:stop]) if line]
    last = max(index for index, line in enumerate(lines) if not index or not _is_for_the_next(line, start - begin))
    while last + 1 < len(lines) and not lines[last + 1].strip():
        last += 1
    return TextEdit(begin, begin + sum(map(len, lines[: last + 1])))


def _is_for_the_next(line: str, depth: int) -> bool:
    content = line.strip()
    return not content or (content.startswith("#") and len(line) - len(line.lstrip()) <= depth)


def unfit(why: str) -> Refused:
    """That a text cannot be changed here."""
    return Refused("invalid_arguments", f"The file cannot be rewritten: {why}", "change it in an editor")

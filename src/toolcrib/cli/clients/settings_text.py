"""The three forms of configuration: JSON with comments, TOML and YAML, each edited as text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Literal

from toolcrib import yaml
from toolcrib.cli.clients import json_text
from toolcrib.cli.config.block_edits import block_end, inserted, line_end

Form = Literal["json", "toml", "yaml"]
Path = tuple[str | int, ...]

_HEADER = re.compile(r"^[ \t]*\[[^\n]*\]", re.MULTILINE)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(form: Form, text: str) -> Any:
    """Return the data of a text.

    Raises:
        ValueError: it is not of this form.
    """
    if form == "json":
        return json_text.parse(text).value
    if form == "toml":
        return tomllib.loads(text.removeprefix("\ufeff"))
    document = yaml.parse(text)
    if document.problems:
        first = document.problems[0]
        raise ValueError(f"line {first.line}: {first.message}")
    return {} if document.root is None else yaml.thaw(document.value)


def insert(form: Form, text: str, path: Path, value: Any) -> str:
    """Return the text with a value at a path, and with nothing else changed.

    Raises:
        ValueError: that cannot be done.
    """
    wanted = _with(read(form, text), path, value)
    if form == "json":
        made = json_text.insert(text, path, value)
    elif form == "toml":
        made = _toml_inserted(text, path, value)
    else:
        made = _yaml_inserted(text, path, value)
    return _checked(form, made, wanted)


def remove(form: Form, text: str, path: Path) -> str:
    """Return the text without what stands at a path, and with nothing else changed.

    Raises:
        ValueError: that cannot be done.
    """
    wanted = _without(read(form, text), path)
    if form == "json":
        made = json_text.remove(text, path)
    elif form == "toml":
        made = _toml_removed(text, path)
    else:
        made = _yaml_removed(text, path)
    return _checked(form, made, wanted)


def fragment(form: Form, path: Path, value: Any) -> str:
    """Return what a person would write into an empty file."""
    if form == "toml":
        return _table(path, value)
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return yaml.dump(value) if form == "yaml" else json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def pruned(data: Any) -> Any:
    """Return the data without what is empty."""
    if not isinstance(data, Mapping):
        return data
    made = {key: pruned(value) for key, value in data.items()}
    return {key: value for key, value in made.items() if value not in (None, {}, [])}


def _checked(form: Form, text: str, wanted: Any) -> str:
    if pruned(read(form, text)) != pruned(wanted):
        raise ValueError("it cannot be changed without touching what else it says")
    return text


def _with(data: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        if not isinstance(data or [], list):
            raise ValueError(f"{data!r} is no list")
        return [*(data or [])[:step], _with(None, tuple(rest), value)]
    if not isinstance({} if data is None else data, Mapping):
        raise ValueError(f"there is no place for '{step}'")
    data = data or {}
    return {**data, step: _with(data.get(step), tuple(rest), value)}


def _without(data: Any, path: Path) -> Any:
    step, *rest = path
    if rest:
        inner = _without(data[step], tuple(rest))
        if isinstance(data, list):
            return [inner if number == step else one for number, one in enumerate(data)]
        return {key: inner if key == step else one for key, one in data.items()}
    if isinstance(data, list):
        return [one for number, one in enumerate(data) if number != step]
    return {key: one for key, one in data.items() if key != step}


# TOML: a table of its own at the end


def _toml_inserted(text: str, path: Path, value: Mapping[str, Any]) -> str:
    old: Any = read("toml", text)
    for step in path:
        old = old.get(step) if isinstance(old, dict) else None
    if old is not None:
        text = _toml_removed(text, path)
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return text + (gap + _table(path, value)).replace("\n", "\r\n" if "\r\n" in text else "\n")


def _toml_removed(text: str, path: Path) -> str:
    names = [json.dumps(step) if not _BARE.fullmatch(str(step)) else str(step) for step in path]
    own = re.compile(r"\s*\[\s*" + r"\s*\.\s*".join(_spelled(name) for name in names) + r"\s*[\].]")
    headers = [*_HEADER.finditer(text)]
    for number, header in reversed([*enumerate(headers)]):
        if own.match(header[0]):
            end = headers[number + 1].start() if number + 1 < len(headers) else len(text)
            end = header.end() + _content_end(text[header.end() : end])
            begin = header.start()
            if text[:begin].endswith("\n\n") and (end == len(text) or text[end] in "\r\n"):
                begin -= 1
            text = text[:begin] + text[end:]
    return text


def _spelled(name: str) -> str:
    bare = name.strip('"')
    return rf"(?:{re.escape(bare)}|\"{re.escape(bare)}\"|'{re.escape(bare)}')"


def _content_end(text: str) -> int:
    """Where the last line with a value ends; comments after it belong to what follows."""
    end = at = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        if line.strip() and not line.lstrip().startswith("#"):
            end = at
    return end or text.find("\n") + 1 or len(text)


def _table(path: Path, value: Mapping[str, Any]) -> str:
    name = ".".join(str(step) if _BARE.fullmatch(str(step)) else json.dumps(step) for step in path)
    return "".join([f"[{name}]\n", *(f"{key} = {_toml(one)}\n" for key, one in value.items())])


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


# YAML: an entry of a mapping


def _yaml_inserted(text: str, path: Path, value: Any) -> str:
    section, name = path
    root = yaml.parse(text).root
    node = None if root is None else root.children.get(section)
    if node is not None and name in node.children:
        text = _yaml_removed(text, path)
        root = yaml.parse(text).root
        node = None if root is None else root.children.get(section)
    if node is None or root is None:
        column = 0 if root is None else root.start.column
        return inserted(text, len(text), _block({section: {name: value}}, column))
    if node.flow:
        at = node.start.index + 1
        entry = yaml.dump({name: value}, flow=True).strip()[1:-1]
        return f"{text[:at]}{entry}{', ' if node.children else ''}{text[at:]}"
    if not node.children:  # nothing stands after the key
        key = root.keys[str(section)]
        return inserted(text, line_end(text, key.index), _block({name: value}, key.column + 2))
    return inserted(text, block_end(text, node), _block({name: value}, node.start.column))


def _yaml_removed(text: str, path: Path) -> str:
    """The text without an entry; a mapping that it leaves empty is written as such, else it would be null."""
    *way, name = path
    node = above = yaml.parse(text).root
    for step in way:
        above, node = node, None if node is None else node.children[step]
    assert node is not None
    assert above is not None
    names = [*node.children]
    own, begin = node.children[name], node.keys[str(name)].index
    if node.flow:
        following = names[names.index(name) + 1 :]
        return text[:begin] + text[node.keys[str(following[0])].index if following else own.end.index :]
    if way and len(names) == 1:
        colon = text.index(":", above.keys[str(way[-1])].index) + 1
        return f"{text[:colon]} {{}}\n{text[block_end(text, own) :]}"
    return text[: text.rfind("\n", 0, begin) + 1] + text[block_end(text, own) :]


def _block(value: Any, column: int) -> str:
    return "".join(f"{'':{column}}{line}\n" for line in yaml.dump(value).splitlines())

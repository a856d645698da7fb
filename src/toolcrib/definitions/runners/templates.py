"""Templates of a definition file: `{{x}}` in words, addresses and JSON. Each is read once and filled for every call.

A value never becomes more than its template says: words are split before values are put in, and what looks like an
option is refused where the template does not expect one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcrib.errors import ToolFailure

_PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_PATH = re.compile(r"[\w$-]+(?:\.[\w$-]+|\[\d+\])*")
_STEP = re.compile(r"\[(\d+)\]|([\w$-]+)")
SPREAD = "..."


class BadTemplate(ValueError):
    """A template, or what stands around it, that cannot be run; `path` leads to it inside its command or tool."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class Absent:
    """That there is no value; the one instance is `ABSENT`."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place-holder: the path of a value, and whether it is spread over several words."""

    path: str
    steps: tuple[str | int, ...]
    spread: bool = False

    @property
    def root(self) -> str:
        """The argument that the value is, or lies in."""
        return str(self.steps[0])

    def value(self, values: Mapping[str, Any]) -> Any:
        """What stands there, or `ABSENT`."""
        value: Any = values
        for step in self.steps:
            value = _inside(value, step)
        return value


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(str(step), ABSENT)
    if isinstance(value, Sequence) and not isinstance(value, str) and str(step).isdecimal() and int(step) < len(value):
        return value[int(step)]
    return ABSENT


def place(path: str, where: str) -> Placeholder:
    """Read the path of a value, such as `a.b[0]`.

    Raises:
        BadTemplate: it is none.
    """
    if not _PATH.fullmatch(path):
        raise BadTemplate(where, f"{path!r} is no name of an argument")
    return Placeholder(path, tuple(name or int(index) for index, name in _STEP.findall(path)))


def as_text(value: Any) -> str:
    """A value inside a text: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """A text with place-holders."""

    parts: tuple[str | Placeholder, ...]

    @property
    def places(self) -> tuple[Placeholder, ...]:
        """Its place-holders, in order."""
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    @property
    def whole(self) -> Placeholder | None:
        """The place-holder, where the text is nothing else."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], Placeholder) else None

    def fill(self, values: Mapping[str, Any], write: Callable[[Any], str] = as_text) -> str | Absent:
        """The text with each value as `write` writes it; `ABSENT` where one is missing or null."""
        filled = []
        for part in self.parts:
            value = part.value(values) if isinstance(part, Placeholder) else part
            if value is None or isinstance(value, Absent):
                return ABSENT
            filled.append(write(value) if isinstance(part, Placeholder) else part)
        return "".join(filled)


def text(template: str, where: str) -> TextTemplate:
    """Read a text.

    Raises:
        BadTemplate: a place-holder is not closed, or names nothing.
    """
    parts: list[str | Placeholder] = []
    at = 0
    for match in _PLACE.finditer(template):
        parts += [template[at : match.start()], _place(match[1], where)]
        at = match.end()
    parts.append(template[at:])
    if any(isinstance(part, str) and "{{" in part for part in parts):
        raise BadTemplate(where, f"a place-holder of {template!r} is not closed")
    made = TextTemplate(tuple(part for part in parts if part != ""))
    if made.whole is None and any(one.spread for one in made.places):
        raise BadTemplate(where, f"{template!r} spreads a list, which has to stand alone")
    return made


def _place(name: str, where: str) -> Placeholder:
    inner = place(name.removesuffix(SPREAD).rstrip(), where)
    return Placeholder(inner.path, inner.steps, name.endswith(SPREAD))


# JSON: bodies of requests and inputs of workflows


@dataclass(frozen=True, slots=True)
class JsonTemplate:
    """JSON with place-holders: a text that is one keeps the type of its value, a field without a value is left out."""

    template: Any
    places: tuple[Placeholder, ...]

    def fill(self, values: Mapping[str, Any]) -> Any:
        """The JSON, or `ABSENT` where it is a single text whose value is missing."""
        return _filled(self.template, values)


def json(template: Any, where: str) -> JsonTemplate:
    """Read JSON whose texts are templates.

    Raises:
        BadTemplate: one of them cannot be read.
    """
    places: list[Placeholder] = []
    return JsonTemplate(_read(template, where, places), tuple(places))


def _read(template: Any, where: str, places: list[Placeholder]) -> Any:
    if isinstance(template, str):
        parsed = text(template, where)
        places += parsed.places
        return parsed if parsed.places else template
    if isinstance(template, Mapping):
        return {str(name): _read(inner, f"{where}.{name}", places) for name, inner in template.items()}
    if isinstance(template, Sequence):
        return [_read(inner, f"{where}[{index}]", places) for index, inner in enumerate(template)]
    return template


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, TextTemplate):
        return template.fill(values) if template.whole is None else template.whole.value(values)
    if isinstance(template, dict):
        inner = {name: _filled(value, values) for name, value in template.items()}
        return {name: value for name, value in inner.items() if value is not ABSENT}
    if isinstance(template, list):
        return [value for value in (_filled(value, values) for value in template) if value is not ABSENT]
    return template


# Words: the arguments of a program


@dataclass(frozen=True, slots=True)
class _Switch:
    """A word that appears when an argument is true."""

    flag: str
    when: Placeholder


@dataclass(frozen=True, slots=True)
class _WordGroup:
    """Words that are left out together when a value of one is absent."""

    words: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _FilledWord:
    """A word with its values; `begins` is the argument that it begins with, `takes` whether a value may follow it."""

    text: str
    begins: str | None = None
    takes: bool = False


@dataclass(frozen=True, slots=True)
class ArgumentTemplate:
    """The words of a program's arguments."""

    words: tuple[Any, ...]

    @property
    def places(self) -> tuple[Placeholder, ...]:
        """All place-holders."""
        return tuple(placeholder for placeholder, _ in _places(self.words, True))

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments without which nothing can run."""
        return tuple(dict.fromkeys(one.root for one, needed in _places(self.words, True) if needed))

    def fill(self, values: Mapping[str, Any], may_begin_with_dash: Callable[[str], bool]) -> list[str]:
        """The words of one call.

        Raises:
            ToolFailure: `invalid_arguments`, a value is missing, cannot be a word, or looks like an option.
        """
        words: list[_FilledWord] = []
        for word in self.words:
            filled = _fill(word, values)
            if isinstance(filled, str):
                raise ToolFailure("invalid_arguments", f"{filled} is required")
            words += filled
        _check_dashes(words, may_begin_with_dash)
        return [word.text for word in words]


def words(template: Any, where: str = "cli_args") -> ArgumentTemplate:
    """Read `cli_args`.

    Raises:
        BadTemplate: it is no list of words, groups and switches.
    """
    if not isinstance(template, Sequence) or isinstance(template, str):
        raise BadTemplate(where, "it is a list of words")
    return ArgumentTemplate(tuple(_word(word, f"{where}[{index}]") for index, word in enumerate(template)))


def command_line(template: Any, where: str = "exec_template") -> ArgumentTemplate:
    """Read `exec_template`: split into words as a shell would, before there are values.

    Raises:
        BadTemplate: it cannot be split, or a word cannot be read.
    """
    if not isinstance(template, str):
        raise BadTemplate(where, "it is a text")
    closed_up = _PLACE.sub(lambda match: "{{" + match[1].replace(" ", "") + "}}", template)
    try:
        split = shlex.split(closed_up)
    except ValueError as error:
        raise BadTemplate(where, f"{template!r} cannot be split into words: {error}") from None
    if not split:
        raise BadTemplate(where, "it is empty")
    return ArgumentTemplate(tuple(text(word, where) for word in split))


def _word(word: Any, where: str) -> Any:
    if isinstance(word, Mapping):
        if not isinstance(word.get("flag"), str) or not isinstance(word.get("when"), str):
            raise BadTemplate(where, "a switch has the texts `flag` and `when`")
        return _Switch(word["flag"], place(word["when"], f"{where}.when"))
    if isinstance(word, str):
        return text(word, where)
    if isinstance(word, Sequence):
        return _WordGroup(tuple(_word(inner, f"{where}[{index}]") for index, inner in enumerate(word)))
    if word is None:
        raise BadTemplate(where, "a word is missing")
    return TextTemplate((as_text(word),))


def _places(words: tuple[Any, ...], needed: bool) -> Iterator[tuple[Placeholder, bool]]:
    for word in words:
        if isinstance(word, _Switch):
            yield word.when, False
        elif isinstance(word, _WordGroup):
            yield from _places(word.words, False)
        else:
            yield from ((placeholder, needed and not placeholder.spread) for placeholder in word.places)


def _fill(word: Any, values: Mapping[str, Any]) -> list[_FilledWord] | str:
    """The words that one stands for, or the path of the value that it lacks."""
    if isinstance(word, _Switch):
        value = word.when.value(values)
        return [_FilledWord(word.flag)] if is_true(value) else []
    if isinstance(word, _WordGroup):
        return _fill_group(word, values)
    whole = word.whole
    if whole is not None and whole.spread:
        return _spread(whole, values)
    filled = word.fill(values, argument)
    if isinstance(filled, Absent):
        return str(next(one.path for one in word.places if one.value(values) in (None, ABSENT)))
    first = word.parts[0] if word.parts else ""
    if isinstance(first, Placeholder):
        return [_FilledWord(filled, first.root)]
    return [_FilledWord(filled, takes=not word.places and filled.startswith("-") and "=" not in filled)]


def _fill_group(group: _WordGroup, values: Mapping[str, Any]) -> list[_FilledWord]:
    filled: list[_FilledWord] = []
    for inner in group.words:
        result = _fill(inner, values)
        spreads_nothing = result == [] and isinstance(inner, TextTemplate)
        if isinstance(result, str) or spreads_nothing:
            return []
        filled += result
    return filled


def _spread(whole: Placeholder, values: Mapping[str, Any]) -> list[_FilledWord]:
    value = whole.value(values)
    if value is None or value is ABSENT:
        return []
    if not isinstance(value, list | tuple):
        raise ToolFailure("invalid_arguments", f"{whole.path} is a list")
    return [_FilledWord(argument(one), whole.root) for one in value]


def is_true(value: Any) -> bool:
    """True if a value says yes; a model may well say the text `false`."""
    return value is not ABSENT and bool(value) and value != "false"


def argument(value: Any) -> str:
    """A value as a word of a program.

    Raises:
        ToolFailure: `invalid_arguments`, no program can be given it.
    """
    made = as_text(value)
    if "\0" in made or not _can_be_written(made):
        raise ToolFailure("invalid_arguments", "A text holds a character that no program can be given")
    return made


def _can_be_written(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_dashes(words: list[_FilledWord], may_begin_with_dash: Callable[[str], bool]) -> None:
    """A value that begins with a dash would be read as an option, unless one that takes a value, or `--`, is before."""
    before = _FilledWord("")
    for word in words:
        if before.begins is None and before.text == "--":
            return
        looks = word.begins is not None and word.text.startswith("-")
        if looks and not before.takes and not may_begin_with_dash(str(word.begins)):
            shown = word.text if len(word.text) <= 60 else word.text[:60] + "…"
            raise ToolFailure("invalid_arguments", f"{word.begins}: {shown!r} begins with a dash, like an option")
        before = word

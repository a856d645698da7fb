"""What can be wrong with arguments, one line each, and with a schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

MOST = 10
PLAIN_KEY = re.compile(r"[^\s.\[\]\"']{1,60}")

Path = tuple[str | int, ...]


class ArgumentProblem(NamedTuple):
    """One thing that is wrong with the arguments; `kind` is missing, type, value, unknown or json."""

    path: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class SchemaError(Exception):
    """A schema, or the type of a parameter, that no tool can be made of."""


class BadArguments(Exception):
    """Arguments that do not parse or break the schema, with at most ten problems."""

    def __init__(self, problems: Iterable[ArgumentProblem]) -> None:
        self.problems = list(problems)[:MOST]
        super().__init__("\n".join(map(str, self.problems)))


class LocatedProblem(NamedTuple):
    """A problem whose place is still a list of steps, so that it can be sorted."""

    path: Path
    kind: str
    text: str


def bad_json(text: str) -> BadArguments:
    """Arguments that are not JSON at all."""
    return BadArguments([ArgumentProblem("", "json", text)])


def in_order(findings: Iterable[LocatedProblem], data: Any) -> list[ArgumentProblem]:
    """Sort findings for a reader: missing fields first, then in the order given, each said once."""
    findings = _without_echoes(list(dict.fromkeys(findings)))
    ranks: dict[int, dict[Any, int]] = {}
    findings.sort(key=lambda finding: (finding.kind != "missing", _position(finding.path, data, ranks)))
    return [ArgumentProblem(spell(path), kind, text) for path, kind, text in findings]


def _without_echoes(findings: list[LocatedProblem]) -> list[LocatedProblem]:
    """Drop what else is said about a value that is of the wrong type anyway."""
    mistyped = {finding.path for finding in findings if finding.kind == "type"}
    return [finding for finding in findings if finding.kind == "type" or finding.path not in mistyped]


def _position(path: Path, data: Any, ranks: dict[int, dict[Any, int]]) -> list[int]:
    """Where a path stands in the text that was given; a missing field stands behind its siblings."""
    position: list[int] = []
    step: Any
    for step in path:
        if not isinstance(data, dict | list):
            break
        if id(data) not in ranks:
            names = data if isinstance(data, dict) else range(len(data))
            ranks[id(data)] = {name: index for index, name in enumerate(names)}
        rank = ranks[id(data)]
        position.append(rank.get(step, len(rank)))
        data = data[step] if step in rank else None
    return position


def spell(path: Sequence[str | int]) -> str:
    """Write a path as people do: `items[1].qty`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{show(step)}]"
    return text


def show(value: Any, most: int = 60) -> str:
    """Write a value as JSON, cut where it is long."""
    if isinstance(value, str) and len(value) > most:
        value = value[: most - 1] + "…"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= most + 2 else text[: most - 1] + "…"


def show_list(values: Sequence[Any], most: int = 12) -> str:
    """Write the options of a choice, the first ones where they are many."""
    shown = [show(value) for value in values[:most]]
    return ", ".join(shown + ["…"] * (len(values) > most))

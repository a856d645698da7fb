"""One definition file: YAML, or Markdown whose front matter is YAML or TOML and whose body is the instructions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.agent import distri
from toolcrib.agent.definition import KEYS, Agent, SubAgent, read
from toolcrib.agent.problems import AgentProblem, BadAgent, ProblemCollector
from toolcrib.agent.problems import Path as Place
from toolcrib.yaml import YamlDocument, decoded, parse, thaw

SUFFIXES = (".yaml", ".yml", ".md")


class LineProblem(NamedTuple):
    """A problem on a line of a file; without a file, one of a program."""

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        return f"{self.file}:{self.line}: {key}{self.text}" if self.file else self.text


@dataclass(slots=True)
class FileParts:
    """A file taken apart: its data, its body, how many lines stand before the data, and what tells the line of each."""

    data: Mapping[str, Any]
    body: str | None = None
    before: int = 0
    document: YamlDocument | None = None
    toml: str | None = None

    def line(self, path: Place) -> int:
        """The line of what stands there."""
        if self.document is not None:
            return self.document.place(path)[0] + self.before
        key = re.escape(str(path[0])) if path else "$."
        match = re.search(rf"^\s*(\[+\s*)?{key}\b", self.toml or "", re.MULTILINE)
        return (0 if match is None else (self.toml or "").count("\n", 0, match.start())) + 1 + self.before


@dataclass(slots=True)
class AgentDefinition:
    """What one file says: the agent, or why there is none; and where each of its parts stands."""

    file: str
    agent: Agent | None
    lines: list[LineProblem]
    parts: FileParts
    name: str = ""
    sub_agents: tuple[SubAgent, ...] = ()

    def line(self, path: Place, text: str) -> LineProblem:
        """A problem of a part that stands there."""
        return LineProblem(self.file, self.parts.line(path), str(path[0]) if path else "agent", text)


class UnreadableFile(Exception):
    """A file that cannot be taken apart."""

    def __init__(self, line: int, key: str, text: str) -> None:
        super().__init__(text)
        self.line, self.key, self.text = line, key, text


def read_file(path: Path, shown: str | None = None) -> AgentDefinition:
    """What a file says. It is total: whatever is wrong is told by line."""
    shown = shown or path.name
    try:
        text = decoded(path.read_bytes())[0].lstrip("\ufeff")
        parts = take_apart(text, markdown=path.suffix == ".md")
    except OSError as error:
        return AgentDefinition(
            shown, None, [LineProblem(shown, 1, "file", error.strerror or "cannot be read")], FileParts({})
        )
    except UnicodeDecodeError:
        return AgentDefinition(shown, None, [LineProblem(shown, 1, "file", "is no text in UTF-8")], FileParts({}))
    except UnreadableFile as error:
        return AgentDefinition(shown, None, [LineProblem(shown, error.line, error.key, error.text)], FileParts({}))
    made = AgentDefinition(shown, None, [], parts)
    made.lines = [made.line(problem.path, problem.text) for problem in _take(made, path.stem)]
    return made


def _take(made: AgentDefinition, stem: str) -> list[AgentProblem]:
    """Makes the agent, or says why not; whom it names is known in any case."""
    findings, parts = ProblemCollector(), made.parts
    data = {"name": stem, **(distri.translated(parts.data, findings) if parts.toml is not None else parts.data)}
    if parts.body is not None and "instructions" not in data:
        data["instructions"] = parts.body
    elif parts.body is not None and parts.body.strip():
        findings.add("wrong_value", ("instructions",), "the body of the file is the instructions; say them once")
    held = read(data, findings)
    made.name, made.sub_agents = str(held.get("name", stem)), held.get("sub_agents", ())
    for key in ("instructions", "model"):
        if not (data.get(key) or "") or not str(data[key]).strip():
            findings.add("missing", (key,), f"{key} missing")
    if findings.problems:
        return findings.problems
    try:
        made.agent = Agent(**{key: value for key, value in data.items() if key in KEYS})
    except BadAgent as error:
        return list(error.problems)
    return []


def take_apart(text: str, *, markdown: bool) -> FileParts:
    """The data of a file, and its body where it is Markdown.

    Raises:
        Unread: it has no data, its front matter is not closed, or what it holds is no mapping.
    """
    if not markdown:
        return _yaml(text, 0)
    lines = text.splitlines(keepends=True)
    fence = lines[0].strip() if lines else ""
    if fence not in ("---", "+++"):
        raise UnreadableFile(1, "front matter", "a Markdown file begins with front matter between two lines ---")
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() == fence]
    if not ends:
        raise UnreadableFile(1, "front matter", f"there is no second line {fence} that closes it")
    front, body = "".join(lines[1 : ends[0]]), _without_blank_lines(lines[ends[0] + 1 :])
    parts = _toml(front, 1) if fence == "+++" else _front_matter(front)
    parts.body = body
    return parts


def _without_blank_lines(lines: list[str]) -> str:
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return "".join(lines[first:])


def _front_matter(text: str) -> FileParts:
    """YAML, or TOML where it is no YAML mapping. What is neither is told as what it looks like."""
    try:
        return _yaml(text, 1)
    except UnreadableFile as wrong:
        try:
            return _toml(text, 1)
        except UnreadableFile as error:
            raise (error if re.search(r"^\s*[\w.-]+\s*=", text, re.MULTILINE) else wrong) from None


def _yaml(text: str, before: int) -> FileParts:
    document = parse(text)
    bad = next((problem for problem in document.problems if problem.severity == "error"), None)
    if bad is not None:
        raise UnreadableFile(bad.line + before, "yaml", bad.message)
    value = {} if document.root is None and not text.strip() else document.value
    if not isinstance(value, Mapping):
        raise UnreadableFile(1 + before, "yaml", "is no mapping of keys to values")
    return FileParts(thaw(value), None, before, document)


def _toml(text: str, before: int) -> FileParts:
    try:
        return FileParts(tomllib.loads(text), None, before, None, text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        raise UnreadableFile((int(at[1]) if at else 1) + before, "toml", str(error)) from None

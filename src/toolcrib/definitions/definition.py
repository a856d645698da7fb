"""What a definition file says, as frozen values: the tool, its commands, its code, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from toolcrib.types import Effect
from toolcrib.yaml import YamlProblem

Type = Literal["mcp", "cli", "local", "http", "meta"]
Status = Literal["ok", "degraded", "invalid", "not_a_tool"]
Language = Literal["javascript", "python"]
Reason = Literal["explicit", "features", "default"]

TYPES: tuple[Type, ...] = ("mcp", "cli", "local", "http", "meta")
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Code:
    """A function of a file, in a language that runs in a sandbox; `fault` says why it cannot run at all."""

    text: str
    language: Language = "javascript"
    timeout_ms: int | None = None
    memory_mb: int | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Validator:
    """A check before a call: declarative checks, a function, or both. `validates` names commands, or `*`.

    Without `enforce`, checks beside a function only warn.
    """

    id: str
    validates: tuple[str, ...]
    code: Code | None = None
    checks: tuple[Any, ...] = ()
    enforce: bool = True


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that a file offers to itself and to people."""

    id: str
    code: Code | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Processor:
    """Shapes the arguments before a call, or its data after: a function, or helpers one after the other."""

    id: str
    code: Code | None = None
    steps: tuple[str, ...] = ()
    stage: Literal["before", "after"] = "after"
    applies_to: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that the tool can do, merged from all places of the file that tell of it.

    `fields` holds every key as written, also the ones below. `input_schema` is None where the file has none for the
    arguments; `argv` marks one that takes `{args, stdin}`. `prefix` are the words that come first when a program runs,
    the program itself not among them. `where` is the first place that tells of it.
    `listed` is False for one that is known from validators or examples alone.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    argv: bool = False
    prefix: tuple[str, ...] = ()
    program: str | None = None
    effect: Effect | None = None
    timeout_ms: int | None = None
    filter: Mapping[str, Any] | None = None
    processors: tuple[str, ...] = ()
    listed: bool = True
    broken: str | None = None
    where: tuple[str | int, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One file, read and checked. Everything in it is frozen; `tool` is the whole tool as written."""

    id: str
    type: Type | None
    name: str
    description: str
    version: str
    schema_version: Literal[1, 2]
    reason: Reason
    status: Status
    tool: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    commands: tuple[Command, ...] = ()
    validators: tuple[Validator, ...] = ()
    helpers: tuple[Helper, ...] = ()
    processors: tuple[Processor, ...] = ()
    problems: tuple[YamlProblem, ...] = ()
    path: Path | None = None
    root: Path | None = None
    trusted: bool = True
    sha256: str = ""
    shadows: tuple[Path, ...] = field(default=())

    @property
    def specific(self) -> Mapping[str, Any]:
        """How its type runs: `<type>_config` and `<type>_specific`, the latter first."""
        return {**_mapping(self.tool.get(f"{self.type}_config")), **_mapping(self.tool.get(f"{self.type}_specific"))}

    def block(self, name: str) -> Any:
        """A block of version 2, which does not act in a file of version 1; empty where there is none."""
        return self.tool.get(name) or NOTHING if self.schema_version == 2 else NOTHING

    def command(self, name: str) -> Command | None:
        """The command of that name."""
        return next((command for command in self.commands if command.name == name), None)

    def helper(self, id: str) -> Helper | None:
        """The helper of that id."""
        return next((helper for helper in self.helpers if helper.id == id), None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else NOTHING

"""What a command needs to be a tool: how to run it, what it takes, what it may touch, and how often it may happen."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.runners import environment
from toolcrib.definitions.runners.templates import Placeholder
from toolcrib.http import Resolve, resolve
from toolcrib.tool import Body
from toolcrib.types import Effect
from toolcrib.yaml import thaw

TIMEOUT_S = 60.0
Argv = Callable[[Mapping[str, Any]], list[str]]


@dataclass(frozen=True, slots=True)
class Runner:
    """How a command runs; `run` is the body of an async tool.

    `argv` gives the exact argument array of a call, for who has to agree to it; `render` fills all templates of a call
    without running it. `resumes` says that the body does
    nothing but calls and recorded steps, so that it may go on after a crash whatever its effect.
    """

    run: Body
    input_schema: Mapping[str, Any]
    capabilities: tuple[str, ...]
    effect: Effect
    timeout_s: float = TIMEOUT_S
    argv: Argv | None = None
    resumes: bool = False
    render: Callable[[Mapping[str, Any]], object] | None = None


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What all files of a source run with.

    `environ` holds the variables, `workspace` is the folder that programs start in. `helper` runs a helper of a
    definition by its id; `effect_of` tells the effect of a tool, or the worst of all tools of a namespace, and None of
    what is not there.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    workspace: Path | None = None
    helper: Callable[[ToolDefinition, str, Mapping[str, Any]], Awaitable[Any]] | None = None
    effect_of: Callable[[str], Effect | None] = lambda tool: None
    resolve: Resolve = resolve


def effect(definition: ToolDefinition, command: Command, otherwise: Effect = "once") -> Effect:
    """Return the effect of the command, of the file, or of its type."""
    declared = definition.tool.get("effect")
    return command.effect or (declared if declared in ("read", "idempotent", "once") else otherwise)


def timeout_s(command: Command, definition: ToolDefinition | None = None) -> float:
    """How long a call may take: what the command says, else its file, else a minute."""
    value: Any = command.timeout_ms or (None if definition is None else definition.tool.get("timeout_ms"))
    return value / 1000 if isinstance(value, int | float) and value > 0 else TIMEOUT_S


def capabilities(definition: ToolDefinition, command: Command, *needs: str) -> tuple[str, ...]:
    """What the type needs, the variables that are read, and what the file requires beyond."""
    required = [*_texts(definition.tool.get("requires")), *_texts(command.fields.get("requires"))]
    secrets = environment.capabilities(environment.declared(definition))
    return tuple(dict.fromkeys((*needs, *secrets, *required)))


def _texts(value: Any) -> Iterable[str]:
    values = value if isinstance(value, list | tuple) else [value]
    return [one for one in values if isinstance(one, str)]


def schema(command: Command, places: Iterable[Placeholder], required: Iterable[str]) -> Mapping[str, Any]:
    """What the file says of the arguments, else an open object that shows the names in its templates."""
    if command.input_schema is not None:
        data: Mapping[str, Any] = thaw(command.input_schema)
        return data
    needed = list(dict.fromkeys(required))
    made: dict[str, Any] = {"type": "object", "properties": {one.root: {} for one in places}}
    return {**made, "required": needed} if needed else made

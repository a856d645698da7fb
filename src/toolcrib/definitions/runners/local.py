"""Scripts that lie beside their file, and programs of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.runners import cli, protocol
from toolcrib.definitions.runners.protocol import Runner, RunnerSettings
from toolcrib.definitions.runners.templates import ArgumentTemplate, BadTemplate
from toolcrib.errors import ToolFailure

RUNTIMES = ("node", "python", "sh")


def runner(definition: ToolDefinition, command: Command, settings: RunnerSettings) -> Runner | None:
    """How a command of a script or a program runs; None where neither is named.

    Raises:
        BadTemplate: the script lies outside of its root, its runtime is unknown, or a template does not hold.
    """
    if command.program is not None or definition.specific.get("entry_point") is None:
        return cli.runner(definition, command, settings)
    script = _Script(definition, command, settings)
    return cli.ProgramRunner(definition, command, settings, script.argv, script.stdin).runner(
        script.name, script.schema
    )


class _Script:
    """A script that gets the command as argument and its arguments on standard input; or what a template says."""

    def __init__(self, definition: ToolDefinition, command: Command, settings: RunnerSettings) -> None:
        runtime = definition.specific.get("runtime")
        if runtime not in (*RUNTIMES, "none", None):
            raise BadTemplate("runtime", f"{runtime!r} is none of {', '.join(RUNTIMES)}")
        self._definition, self._command, self._settings = definition, command, settings
        self._runtime = None if runtime == "none" else runtime
        self._words: ArgumentTemplate | None = cli.template(command)
        script = entry_point(definition)
        self.name = self._runtime or str(script)

    @property
    def schema(self) -> Mapping[str, Any]:
        """What it takes."""
        if self._words is None:
            return protocol.schema(self._command, (), ())
        return protocol.schema(self._command, self._words.places, self._words.required)

    def argv(self, values: Mapping[str, Any]) -> list[str]:
        """The argument array; the script is looked for at every start, since links move."""
        try:
            script = entry_point(self._definition)
        except BadTemplate as error:
            raise ToolFailure("unavailable", str(error), retryable=False) from None
        if not script.is_file():
            raise ToolFailure("unavailable", f"The script {script.name} does not exist", retryable=False)
        first = [str(script)] if self._runtime is None else [self._program(self._runtime), str(script)]
        if self._words is None:
            return [*first, self._command.name]
        return [*first, *self._words.fill(values, cli.dashed(self._command).__contains__)]

    def stdin(self, values: Mapping[str, Any]) -> bytes | None:
        """The arguments as JSON, unless a template has them."""
        return msgspec.json.encode(dict(values)) if self._words is None else None

    def _program(self, runtime: str) -> str:
        """The runtime; many systems have no `python` but a `python3`."""
        path = self._settings.environ.get("PATH")
        return "python3" if runtime == "python" and shutil.which("python", path=path) is None else runtime


def entry_point(definition: ToolDefinition) -> Path:
    """Where the script of a file lies.

    Raises:
        BadTemplate: not inside the root of the file.
    """
    relative = definition.specific.get("entry_point")
    if not isinstance(relative, str) or not relative or "\0" in relative:
        raise BadTemplate("entry_point", "it is the path of a script")
    if definition.path is None:
        raise BadTemplate("entry_point", "the definition has no file that it could lie beside")
    root = (definition.root or definition.path.parent).resolve()
    script = (definition.path.parent / relative).resolve()
    if not script.is_relative_to(root):
        raise BadTemplate("entry_point", f"{relative!r} lies outside of the root")
    return script

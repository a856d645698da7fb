"""Commands of programs: a template or the plain arguments, and what the program printed as the result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcrib.context import Context
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.runners import environment, processes, protocol, templates
from toolcrib.definitions.runners.processes import NotInstalled, ProcessResult, ProcessStart
from toolcrib.definitions.runners.protocol import Argv, Runner, RunnerSettings
from toolcrib.definitions.runners.templates import ArgumentTemplate, BadTemplate
from toolcrib.errors import ToolFailure
from toolcrib.schema.redaction import without

ARGV_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "args": {"type": "array", "items": {"type": "string"}, "description": "Arguments of the program, one by one"},
        "stdin": {"type": "string", "description": "What the program reads from its standard input"},
    },
    "required": ["args"],
    "additionalProperties": False,
}

_SYSTEMS = {"linux": ("linux", "unix"), "darwin": ("macos", "darwin", "unix"), "win32": ("windows",)}
_HINT = 600


def runner(definition: ToolDefinition, command: Command, settings: RunnerSettings) -> Runner | None:
    """How a command of a program runs; None where no program is named.

    Raises:
        BadTemplate: its template, or the name of its program, does not hold.
    """
    line = template(command)
    name = command.program or definition.specific.get("executable", _only(definition))
    if name is None and line is not None and "cli_args" not in command.fields:
        name, line = _first(line), ArgumentTemplate(line.words[1:])
    elif (
        line is not None
        and line.words[:1] == (templates.TextTemplate((str(name),)),)
        and "cli_args" not in command.fields
    ):
        line = ArgumentTemplate(line.words[1:])
    if name is None or (line is None and not command.listed):
        return None
    return _of_program(definition, command, settings, program(name), line)


def _only(definition: ToolDefinition) -> Any:
    """The one program of a file that lists its programs."""
    listed = definition.specific.get("executables")
    one = listed[0] if isinstance(listed, list | tuple) and len(listed) == 1 else None
    return one.get("name") if isinstance(one, Mapping) else one


def program(name: Any) -> str:
    """The name of one program.

    Raises:
        BadTemplate: it is none, but a command line for instance.
    """
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise BadTemplate("executable", "it is the name of a program")
    if len(name.split()) > 1 and not name.startswith("/"):
        raise BadTemplate("executable", f"{name!r} is a command line; it names one program, `cli_args` the rest")
    return name.strip()


def _first(line: ArgumentTemplate) -> str:
    first = line.words[0]
    if first.places:
        raise BadTemplate("exec_template", "its first word is a program, which no argument can choose")
    return "".join(first.parts)


def template(command: Command) -> ArgumentTemplate | None:
    """The template of a command, if it has one.

    Raises:
        BadTemplate: it cannot be read.
    """
    if command.fields.get("cli_args") is not None:
        return templates.words(command.fields["cli_args"])
    if command.fields.get("exec_template") is not None:
        return templates.command_line(command.fields["exec_template"])
    return None


def _of_program(
    definition: ToolDefinition, command: Command, settings: RunnerSettings, name: str, line: ArgumentTemplate | None
) -> Runner:
    """Return the runner of a command with its template, or with plain arguments."""
    if line is None:
        fixed = [name, *command.prefix]
        program = ProgramRunner(definition, command, settings, lambda values: _as_given(fixed, values), _stdin)
        schema = protocol.schema(command, (), ())
        return program.runner(name, schema if "args" in schema.get("properties", ()) else ARGV_SCHEMA)
    may = dashed(command)
    filled = ProgramRunner(
        definition, command, settings, lambda values: [name, *line.fill(values, may.__contains__)], lambda values: None
    )
    return filled.runner(name, protocol.schema(command, line.places, line.required))


def _as_given(fixed: list[str], values: Mapping[str, Any]) -> list[str]:
    return [*fixed, *map(templates.argument, values.get("args") or ())]


def _stdin(values: Mapping[str, Any]) -> bytes | None:
    value = values.get("stdin")
    return None if value is None else str(value).encode(errors="replace")


def dashed(command: Command) -> frozenset[str]:
    """The arguments that may begin with a dash, since their parameter says so."""
    blocks = [(command.input_schema or {}).get("properties"), command.fields.get("parameters")]
    names = {str(one.get("name")) for one in _list(blocks[1]) if isinstance(one, Mapping) and one.get("allow_dash")}
    for block in blocks:
        if isinstance(block, Mapping):
            inner = block.get("properties", block)
            names |= {name for name, one in inner.items() if isinstance(one, Mapping) and one.get("allow_dash")}
    return frozenset(names)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


@dataclass(frozen=True, slots=True)
class ProgramRunner:
    """A program that is started for every call."""

    definition: ToolDefinition
    command: Command
    settings: RunnerSettings
    argv: Argv
    stdin: Callable[[Mapping[str, Any]], bytes | None]

    def runner(self, name: str, input_schema: Mapping[str, Any]) -> Runner:
        """How the command runs."""
        return Runner(
            self.run,
            input_schema,
            protocol.capabilities(self.definition, self.command, f"exec:cmd:{name}"),
            protocol.effect(self.definition, self.command),
            protocol.timeout_s(self.command, self.definition),
            self.argv,
            render=self.argv,
        )

    async def run(self, ctx: Context, values: Mapping[str, Any]) -> Any:
        """Starts the program and gives what it printed.

        Raises:
            ToolFailure: it could not start, or did not end with 0.
        """
        secrets = environment.values(environment.declared(self.definition), self.settings.environ)
        argv, masks = self.argv(values), environment.masks(secrets)
        env = environment.for_program(secrets, self.settings.environ)
        start = ProcessStart(argv, env, self.stdin(values), self.settings.workspace, masks, listener(ctx))
        try:
            finished = await processes.run(start)
        except NotInstalled as error:
            error.hint = install_text(self.definition)
            raise
        return _outcome(argv[0], finished, masks, self._form())

    def _form(self) -> str:
        form = self.command.fields.get("output", self.definition.specific.get("output"))
        return form if form in ("json", "text") else "auto"


def listener(ctx: Context) -> processes.Tell:
    """Tells what is printed to the readers of a call, no faster than it can be kept."""

    async def tell(text: str) -> None:
        ctx.output(text)
        await ctx.drain()

    return tell


def _outcome(name: str, finished: ProcessResult, masks: tuple[str, ...], form: str) -> Any:
    if finished.code != 0:
        last = (finished.stderr.strip() or finished.stdout.strip())[-processes.TAIL :].decode(errors="replace")
        ended = f"ended with exit code {finished.code}" if finished.code > 0 else f"died of signal {-finished.code}"
        message = without(masks, last.strip()) or f"{name} {ended}"
        raise ToolFailure("failed", message, metadata={"exit_code": finished.code})
    text = finished.stdout.decode(errors="replace")
    data = None if form == "text" else _data(text, form)
    return without(masks, text if data is None else data)


def _data(text: str, form: str) -> Any:
    """JSON that was printed: an object or a list, or whatever it is where JSON was promised."""
    if form == "auto" and not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        if form == "json":
            raise ToolFailure(
                "failed", "The program was to print JSON and did not", metadata={"exit_code": 0}
            ) from None
        return None


def install_text(definition: ToolDefinition) -> str | None:
    """How to get the program: the guide of the file, or what it says of installing on this system."""
    guide = definition.specific.get("install_guide") or definition.tool.get("installation")
    if isinstance(guide, Mapping):
        names = _SYSTEMS.get(sys.platform, ())
        guide = next((guide[name] for name in names if guide.get(name)), None)
    text = _installing(guide)
    return text[:_HINT] or None


def _installing(guide: Any) -> str:
    if isinstance(guide, Mapping):
        return ": ".join(str(guide[key]) for key in ("method", "command", "url", "notes") if guide.get(key))
    if isinstance(guide, list | tuple):
        return "; ".join(filter(None, map(_installing, guide)))
    return "" if guide is None else str(guide)

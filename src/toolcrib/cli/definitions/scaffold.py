"""`toolcrib tools new`: a definition file to begin with, which works as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from toolcrib.cli.definitions import selection
from toolcrib.cli.definitions.selection import DefinitionSelection, RootOption
from toolcrib.cli.terminal import CommandError, Terminal, compact

if TYPE_CHECKING:
    from toolcrib.definitions.definition import ToolDefinition

Kind = Literal["cli", "http", "mcp", "local", "meta"]
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CHOICES = {"c": "cli", "h": "http", "m": "mcp", "s": "local", "t": "meta"}

_HEAD = """\
# What this tool is, how it runs, and what is known of it.
# `toolcrib tools lint ID` checks the file, `toolcrib tools test ID` holds its examples against its checks.
tool:
  schema_version: 2.0
  id: <id>
  type: <type>
  name: <name>
  version: 1.0.0
  description: Say in a line what it is for; a model reads this.
"""

_KNOWLEDGE = """\

  # Checks before every call. A `function` in JavaScript or Python may stand beside the `checks`, or instead of them.
  executable_knowledge:
    validators:
      - id: validate-<command>
        validates: <command>
        checks:
          - required_fields: [<field>]

  # What people get wrong. A call that fails like that gets the correct form as a hint.
  anti_patterns:
    - pattern: Empty <field>
      description: <field> must say something
      wrong: '<command>({"<field>": ""})'
      correct: '<command>({"<field>": "<value>"})'

  # Examples are tests, and the model may see them.
  examples:
    <command>:
      - scenario: success
        description: The usual case
        input: {<field>: <value>}
        output: <output>
      - scenario: failure_missing_<field>
        description: The check rejects it, and nothing runs
        input: {<field>: ""}
        error: {code: VALIDATION_ERROR, message: Required field '<field>' is missing}
"""

_SCHEMA = """\
      input_schema:
        type: object
        properties:
          <field>: {type: string, description: <what>}
        required: [<field>]
"""

_CLI = """\

  # The program. Each element of `cli_args` is one argument: nothing is split, and no shell is asked.
  cli_specific:
    executable: echo
    install_guide: echo is a part of the system

  commands:
    - name: greet
      description: Greet somebody.
      effect: read # read: changes nothing; idempotent: may be repeated; once (the default): never runs twice
      cli_args: [Hello, "{{name}}"]
"""

_HTTP = """\

  # The service. Variables of the environment are declared, never written down here.
  http_specific:
    base_url: https://api.example.com
    # auth: {type: bearer, env: EXAMPLE_TOKEN}

  commands:
    - name: get_item
      description: Get one item.
      method: GET # a GET only reads; POST happens once
      path: /items/{{item}}
"""

_MCP = """\

  # The server, started by the first call. Name a version, so that it does not change unseen.
  mcp_specific:
    server_command: npx
    server_args: ["-y", "some-mcp-server@1.0.0"]
    # environment_variables: [{name: EXAMPLE_TOKEN, required: true, description: Where to get it}]

  # These are its tools that may be called. Without `commands`: all that it has.
  commands:
    - name: search
      description: Search for something.
      effect: read # read: changes nothing; idempotent: may be repeated; once (the default): never runs twice
"""

_LOCAL = """\

  # The script beside this file. It gets the name of the command, and the arguments as JSON on standard input.
  local_specific:
    entry_point: <id>.py
    runtime: python

  commands:
    - name: shout
      description: Say it louder.
      effect: read # read: changes nothing; idempotent: may be repeated; once (the default): never runs twice
"""

_SCRIPT = '''\
"""The script of <id>: the command is its argument, the arguments of a call come as JSON, and so goes the result."""

import json
import sys

commands = {"shout": lambda text: {"text": text.upper()}}
print(json.dumps(commands[sys.argv[1]](**json.load(sys.stdin))))
'''

_META = """\

  # The tools that it may call; each step is recorded, and a crash repeats none.
  meta_specific:
    aggregates: [<member>]
    workflow:
      - step: first
        tool: <member>
        command: <member_command>
        input: <member_input>

  commands:
    - name: run
      description: Do all the steps.
"""


class DefinitionScaffold(NamedTuple):
    """What is written for a type: how it runs, and the words of its one command."""

    block: str
    command: str
    field: str
    what: str
    value: str
    output: str


STARTERS: dict[Kind, DefinitionScaffold] = {
    "cli": DefinitionScaffold(_CLI, "greet", "name", "Whom to greet", "Ada", "Hello Ada"),
    "http": DefinitionScaffold(_HTTP, "get_item", "item", "The id of the item", "A-7", "{item: A-7}"),
    "mcp": DefinitionScaffold(_MCP, "search", "query", "What to search for", "tools", "{found: []}"),
    "local": DefinitionScaffold(_LOCAL, "shout", "text", "What to say", "hello", "{text: HELLO}"),
    "meta": DefinitionScaffold(_META, "run", "reason", "Why it is done", "a try", "{steps: {}}"),
}


async def new(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its id: small letters, digits and hyphens.")],
    type: Annotated[Kind | None, typer.Option("--type", "-t", help="How it runs; asked for on a terminal.")] = None,
    root: RootOption = None,
) -> int:
    """Write a definition file to begin with.

    It lints clean, and its examples pass. It goes to --root, or to .toolcrib/tools in the project.
    """
    if not _KEBAB.fullmatch(name) or len(name) > 32:
        raise CommandError(f"'{name}' is no id", "take small letters, digits and hyphens, at most 32")
    wanted = selection.wanted(terminal, None, None)
    folder = _folder(wanted, root)
    kind = type or await _prompted_kind(terminal)
    files = {folder / f"{name}.yaml": await _text(wanted, name, kind)}
    if kind == "local":
        files[folder / f"{name}.py"] = _SCRIPT.replace("<id>", name)
    _write(files)
    paths = [str(path) for path in files]
    if terminal.json:
        terminal.data({"id": name, "type": kind, "path": paths[0], "files": paths})
        return 0
    for path in files:
        terminal.text(f"Wrote {selection.near(path)}", "green")
    where = ("--root", str(folder)) if root else ()
    terminal.say(f"Next:  change it, then: {terminal.command('tools', 'test', name, *where)}")
    return 0


def _folder(wanted: DefinitionSelection, root: list[str] | None) -> Path:
    if root and len(root) > 1:
        raise CommandError("There is more than one --root", "say in which folder the file is to lie")
    return wanted.project / root[0] if root else selection.usual_roots(wanted.project)[0].path


async def _prompted_kind(terminal: Terminal) -> Kind:
    from toolcrib.cli.prompts import LeftOpen, pick

    if terminal.interactive:
        try:
            chosen = await pick(terminal, "How does it run?", _CHOICES)
        except LeftOpen:
            raise CommandError("Nothing is written", "say --type") from None
        return next(kind for kind in STARTERS if kind == _CHOICES[chosen])
    raise CommandError("It is not said how it runs", f"say --type with one of {', '.join(STARTERS)}")


async def _text(wanted: DefinitionSelection, name: str, kind: Kind) -> str:
    starter = STARTERS[kind]
    words = {
        "id": name,
        "type": kind,
        "name": name.replace("-", " ").capitalize(),
        **{key: value for key, value in starter._asdict().items() if key != "block"},
        **(await _member(wanted, name) if kind == "meta" else {}),
    }
    text = f"{_HEAD}{starter.block}{_SCHEMA}{_KNOWLEDGE}"
    return re.sub(r"<(\w+)>", lambda match: words[match[1]], text)


async def _member(wanted: DefinitionSelection, name: str) -> dict[str, str]:
    """A tool that a tool of tools can begin with."""
    shipped = selection.usual_roots(wanted.project)[-1].path
    async with selection.opened(wanted) as source:
        definitions = await selection.resolved(source, None)
        for one in sorted(definitions, key=lambda one: one.root == shipped):
            command = _runnable(one)
            if one.id != name and command is not None:
                return {"member": one.id, "member_command": command, "member_input": compact(_input(one, command))}
    raise CommandError(
        "There is no tool yet that it could call", "make one first: toolcrib tools new hello --type cli", exit_code=1
    )


def _runnable(one: ToolDefinition) -> str | None:
    if one.type == "meta":
        return None
    return next((command.name for command in one.commands if command.listed and command.broken is None), None)


def _input(one: ToolDefinition, command: str) -> object:
    from toolcrib.definitions.examples import examples_of
    from toolcrib.yaml import thaw

    return next((thaw(each.input) for each in examples_of(one) if each.command == command and not each.rejected), {})


def _write(files: dict[Path, str]) -> None:
    """Writes what is not there yet.

    Raises:
        CommandError: something is, or it cannot be written.
    """
    for path in files:
        if path.exists():
            raise CommandError(f"{path} is there already", "take another name", exit_code=1, code="conflict")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except OSError as error:
        raise CommandError(f"It cannot be written: {error}", "name another folder with --root", exit_code=1) from None

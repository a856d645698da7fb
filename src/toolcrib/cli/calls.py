"""`toolcrib call` and `toolcrib answer`: a call from the terminal, to its result or the question it waits for."""

from __future__ import annotations

import json
import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from toolcrib.cli.completion import complete_question, complete_session, complete_tool
from toolcrib.cli.questions import asked_by_id, user
from toolcrib.cli.terminal import CommandError, Terminal, short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.crib import Crib
    from toolcrib.session import Session
    from toolcrib.tool import Tool

Arguments = Annotated[
    str | None, typer.Argument(metavar="JSON", help="The arguments; - reads them from standard input.")
]
Pairs = Annotated[
    list[str] | None, typer.Option("--arg", "-a", metavar="KEY=VALUE", help="One argument, again for more.")
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", help="Open only these in the session. A new session has all of them."),
]

ARGUMENTS = "The arguments"
SHOWN = "`toolcrib sessions list` shows what waits, `toolcrib sessions show ID` the questions"


async def call(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="Its id, or its bare name.", autocompletion=complete_tool)
    ],
    arguments: Arguments = None,
    arg: Pairs = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", "-s", help="Go on in this session, or name a new one.", autocompletion=complete_session
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Whose session it is; without it yours.")] = None,
    namespace: Namespaces = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept confirmations.")] = False,
) -> int:
    """Call a tool and show its result.

    Exit codes: 0 it succeeded, 1 it failed, 2 it was not called, 3 it waits for an answer.
    """
    from toolcrib.cli.call_follower import follow
    from toolcrib.cli.crib_choice import SOURCE_S, at_work
    from toolcrib.types import By

    values = read_arguments(arguments)
    async with at_work(terminal.crib, waits=False) as crib:
        if tool not in crib.catalog.view(("*",)).names:
            await crib.registry.arrive(tool, SOURCE_S)
            await crib.registry.prepare(owner or user(), SOURCE_S)
        known = await _known(terminal, crib, tool, session)
        values |= dict(pair(text, known) for text in arg or ())
        opened = await open_session(crib, session, owner, namespace)
        called = await opened.submit(tool, values, by=By("user", user()))
        return await follow(terminal, opened, called.id, yes=yes)


async def answer(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="The question's id.", autocompletion=complete_question)
    ],
    action: Annotated[
        Literal["accept", "decline", "cancel", "fail"],
        typer.Argument(metavar="ACTION", help="One of accept, decline, cancel and fail."),
    ],
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="The answer itself, as JSON.")] = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Arguments to change before it runs.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", "-r", help="Why.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Who answers; without it you.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept later confirmations of the same call.")] = False,
) -> int:
    """Answer a question. The call that waited for it goes on here, and its result is shown; so does an agent's run.

    Exit codes: 0 it succeeded, 1 it failed, 2 it was not answered, 3 it waits for the next answer.
    """
    from toolcrib.cli.call_follower import follow
    from toolcrib.cli.conversation import see_through
    from toolcrib.cli.crib_choice import SOURCE_S, at_work
    from toolcrib.errors import Refused

    content = read_value(value)
    edited = read_object(args, "--args") if args is not None else None
    async with at_work(terminal.crib, waits=False) as crib:
        pending = await asked_by_id(crib, question, SHOWN)
        await crib.registry.arrive(pending.row.tool, SOURCE_S)
        if edited is not None:
            edited = {**pending.question.arguments, **edited}
        # Who says the same again, after a lost connection say, gets the same outcome.
        who = actor or user()
        key = f"cli:{who}"
        try:
            await pending.session.answer(question, action, content, arguments=edited, reason=reason, actor=who, key=key)
        except Refused as refused:
            look = terminal.command("sessions", "show", pending.session.id)
            advice = f"{refused.hint}; see {look}" if refused.hint else look
            raise CommandError(refused.message, advice, exit_code=1, code=refused.code) from None
        code = await follow(terminal, pending.session, pending.row.id, after=await pending.answered_at(), yes=yes)
        await see_through(terminal, pending)
        return code


def read_object(text: str | None, name: str) -> dict[str, Any]:
    """A JSON object that somebody typed.

    Raises:
        CommandError: it is none.
    """
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        advice = """quote the whole of it: '{"order": "A-7"}'"""
        if name == ARGUMENTS:
            advice += "; or give each one by itself: -a order=A-7"
        raise CommandError(f"{name}: {short(text, 60)!r} is no JSON: {error}", advice) from None
    if not isinstance(value, dict):
        raise CommandError(
            f"{name}: expected a JSON object, got {short(text, 60)!r}", """write them as '{"name": value}'"""
        )
    return value


def read_value(text: str | None) -> Any:
    """A JSON value that somebody typed; a plain word is a text.

    Raises:
        CommandError: it begins like JSON and is none.
    """
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise CommandError(
                f"The value is no JSON: {error}", 'quote the whole of it: \'{"city": "Bern"}\''
            ) from None
        return text


def read_arguments(text: str | None) -> dict[str, Any]:
    """The arguments of a call that somebody typed; `-` reads them from standard input.

    Raises:
        CommandError: they are no JSON object.
    """
    return read_object(sys.stdin.read() if text == "-" else text, ARGUMENTS)


def pair(text: str, tool: Tool | None) -> tuple[str, Any]:
    """One `key=value`; where the schema wants a text it is one, else JSON is read as JSON.

    Raises:
        CommandError: it is no pair.
    """
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise CommandError(f"-a {text!r} is no argument", "write it as -a key=value")
    properties: Mapping[str, Any] = {} if tool is None else tool.input_schema.get("properties", {})
    wanted = properties.get(name, {})
    if isinstance(wanted, dict) and wanted.get("type") == "string":
        return name, value
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


async def _known(terminal: Terminal, crib: Crib, name: str, session: str | None) -> Tool | None:
    """The tool, before anything is logged; an existing session may have tools of its own."""
    from toolcrib.cli.definitions import selection
    from toolcrib.cli.tools import find

    view = crib.catalog.view(("*",))
    if session is not None or name in view.names:
        return view.names.get(name)
    async with selection.opened(selection.wanted(terminal, None, None)) as source:
        if any(f"{one.id}.{command.name}" == name for one in await source.list() for command in one.commands):
            advice = f"{terminal.command('tools', 'call', name)}, or name its file in `sources` of crib.yaml"
            raise CommandError(f"The crib has no {name}, a definition file does", advice, code="not_found")
    return find(view, name)


async def open_session(crib: Crib, id: str | None, owner: str | None, namespaces: list[str] | None) -> Session:
    """A new session with everything open, or an existing one as it is, whoever owns it: this is its operator."""
    row = None if id is None else await crib.store.session(id)
    if row is not None and owner not in (None, row.owner):
        advice = "leave --owner out, or name another --session"
        raise CommandError(
            f"Session '{row.id}' belongs to {row.owner}, not to {owner}", advice, exit_code=1, code="denied"
        )
    if row is not None:
        return await crib.open(row.id, owner=row.owner, namespaces=namespaces)
    return await crib.open(id or f"cli-{secrets.token_hex(4)}", owner=owner or user(), namespaces=namespaces or ("*",))

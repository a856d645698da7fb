"""`toolcrib why` and `toolcrib policy check`: what would happen to a call, and what a policy is worth."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.calls import Arguments, Pairs, pair, read_arguments
from toolcrib.cli.command import command, group
from toolcrib.cli.completion import complete_tool
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.crib import Crib

app = group("policy", "Look at the policy.")
CODES = {"allow": 0, "ask": 3, "deny": 4}


async def why(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="Its id, or its bare name.", autocompletion=complete_tool)
    ],
    arguments: Arguments = None,
    arg: Pairs = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Judge by that preset instead.")] = None,
    owner: Annotated[str | None, typer.Option("--as", help="For that owner.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="As if that agent made the call, with nothing read before.")
    ] = None,
) -> int:
    """Tell whether a call would run, ask or be denied, and why. Nothing is called. Exit code 0, 3 or 4."""
    from toolcrib.cli.tools import stocked
    from toolcrib.errors import Refused

    values = read_arguments(arguments)
    async with stocked(terminal.crib) as crib:
        if preset is not None:
            crib.pipeline.policy = _preset(crib, preset)
        name = owner or os.environ.get("USER") or "cli"
        session = await crib.open(owner=name, namespaces=sorted(crib.catalog.namespaces()))
        values |= dict(pair(text, crib.catalog.view(("*",)).names.get(tool)) for text in arg or ())
        try:
            explanation = session.why(tool, values, agent=agent)
            _check_agent(terminal, crib, agent)
        except Refused as refused:
            advice = refused.hint or f"look at: {terminal.command('tools', 'show', tool)}"
            raise CommandError(refused.message, advice, exit_code=1, code=refused.code) from None
    if terminal.json:
        terminal.data(explanation.data())
    else:
        for line in explanation.lines():
            terminal.text(line)
    return CODES[explanation.verdict.effect]


def _check_agent(terminal: Terminal, crib: Crib, name: str | None) -> None:
    """Says that no agent of the crib has that name: those of a framework have names that no crib knows."""
    from toolcrib.agent import Agents
    from toolcrib.schema import nearest

    known = list(crib.agents.registry) if isinstance(crib.agents, Agents) else []
    if name is not None and name not in known:
        close = nearest(name, known)
        similar = f" Similar: {', '.join(close)}." if close else ""
        terminal.say(f"No agent of this crib is called {name}: it is judged as one of a framework.{similar}", "yellow")


def _preset(crib: Crib, name: str) -> Any:
    from toolcrib.policy.loader import load
    from toolcrib.policy.presets import PRESETS

    if name not in PRESETS:
        raise CommandError(f"There is no preset '{name}'", f"there are {', '.join(PRESETS)}")
    return load({"preset": name}, folders=crib.folders)


def _served(terminal: Terminal) -> tuple[str, ...]:
    """The namespaces that the file serves to who has none of their own; a program says them where it serves."""
    from toolcrib.cli.config.document import NAME
    from toolcrib.cli.config.loader import hosting

    file = Path(terminal.crib.crib or NAME)
    return hosting(file).namespaces if file.is_file() else ()


@command(app, "check")
async def check(terminal: Terminal) -> int:
    """Tell what in the policy does nothing, or not what it looks like.

    That are rules that never decide, rules and grants about nothing, grants of interpreters, groups that are never
    asked, declarations of no tool. Exit code 1 where there is an error or a warning.
    """
    from toolcrib.cli.findings import show
    from toolcrib.cli.tools import stocked
    from toolcrib.findings import in_order
    from toolcrib.policy import rules_of
    from toolcrib.review import review, tempered
    from toolcrib.serve.findings import served

    async with stocked(terminal.crib) as crib:
        if rules_of(crib.pipeline.policy) is None:
            raise CommandError("This crib has a policy of its own making", "only policies made of rules can be checked")
        findings = [*await review(crib), *tempered(crib, served(crib, _served(terminal)))]
        findings = [one for one in in_order(findings) if one.about in ("policy", "config")]
    if terminal.json:
        terminal.data({"remarks": [str(one) for one in findings], "findings": [one.data() for one in findings]})
    elif findings:
        show(terminal, findings)
    else:
        terminal.text("The policy loads, and there is nothing to remark.")
    return 1 if any(one.severity != "info" for one in findings) else 0

"""`toolcrib chat`: a conversation with an agent, on a terminal or through a pipe."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from toolcrib.cli.calls import Namespaces
from toolcrib.cli.completion import complete_agent
from toolcrib.cli.run import ModelOption, OwnerOption, ScriptOption, SessionOption, TurnsOption, conversation
from toolcrib.cli.terminal import CommandError, Terminal


async def chat(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="Who begins; else the default agent.", autocompletion=complete_agent),
    ] = None,
    session: SessionOption = None,
    owner: OwnerOption = None,
    namespace: Namespaces = None,
    model: ModelOption = None,
    script: ScriptOption = None,
    max_turns: TurnsOption = None,
) -> int:
    """Talk with an agent. /help lists what else may be typed; Ctrl-C cancels an answer, twice it leaves.

    Through a pipe each line is a message, and the exit code is that of the last run, as with `toolcrib run`.
    """
    from toolcrib.cli.agent_choice import able, agents_of, recast
    from toolcrib.cli.chat_loop import ChatLoop
    from toolcrib.cli.crib_choice import at_work

    if terminal.json:
        raise CommandError("A chat has no JSON", f"use {terminal.command('run', 'AGENT', 'PROMPT', '--json')}")
    async with at_work(terminal.crib, prepare=lambda crib: recast(terminal, crib, model, script, max_turns)) as crib:
        agents = agents_of(terminal, crib)
        able(agents, agent or agents.default)
        id = session or f"chat-{secrets.token_hex(4)}"
        follower = await conversation(terminal, crib, id, owner, namespace, names=True)
        return await ChatLoop(follower, agents, agent).run()

"""`toolcrib run`: one message to an agent, to its answer or to the question that it waits for."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.calls import Namespaces, open_session
from toolcrib.cli.command import INTERRUPTED, WAITING
from toolcrib.cli.completion import complete_agent, complete_session
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.cli.conversation import ConversationFollower
    from toolcrib.crib import Crib

SessionOption = Annotated[
    str | None,
    typer.Option("--session", "-s", help="Go on in this session, or name a new one.", autocompletion=complete_session),
]
OwnerOption = Annotated[str | None, typer.Option("--owner", "-o", help="Whose session it is; without it yours.")]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME", help="The model that all agents speak with, such as openai:gpt-5."),
]
ScriptOption = Annotated[
    str | None, typer.Option("--script", metavar="FILE", help="A file that says what the models of all agents say.")
]
TurnsOption = Annotated[
    int | None, typer.Option("--max-turns", min=1, metavar="N", help="The most turns of an agent in a run.")
]


async def run(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Its name.", autocompletion=complete_agent)
    ] = None,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The message; without it, or with -, standard input.")
    ] = None,
    session: SessionOption = None,
    owner: OwnerOption = None,
    namespace: Namespaces = None,
    model: ModelOption = None,
    script: ScriptOption = None,
    max_turns: TurnsOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept confirmations.")] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="SESSION",
            help="Go on with the last run of a session, without a new message.",
            autocompletion=complete_session,
        ),
    ] = None,
) -> int:
    """Send a message to an agent and show its answer. With --json: the events, one a line.

    Exit codes: 0 it answered, 1 it failed or was stopped, 2 it was not asked, 3 it waits for an answer.
    """
    from toolcrib.cli.agent_choice import able, agents_of, recast
    from toolcrib.cli.crib_choice import at_work

    if resume is not None and (agent, prompt, session) != (None, None, None):
        raise CommandError("--resume takes no agent, no message and no session", "leave them out")
    if resume is not None and (model, script, max_turns) != (None, None, None):
        raise CommandError("--resume goes on with the model and the turns that the run began with", "leave them out")
    if resume is None and agent is None:
        raise CommandError("Which agent?", f"{terminal.command('agents', 'list')} shows them")
    text = None if resume is not None else _read(prompt)
    async with at_work(terminal.crib, prepare=lambda crib: recast(terminal, crib, model, script, max_turns)) as crib:
        if agent is not None:
            able(agents_of(terminal, crib), agent)
        since = 0 if resume is None else await _last_run(terminal, crib, resume)
        follower = await conversation(terminal, crib, resume or session, owner, namespace, since)
        follower.settling.yes = yes
        return await _to_its_end(follower, text, agent)


def _read(prompt: str | None) -> str:
    if prompt in (None, "-"):
        if sys.stdin is None or sys.stdin.isatty():
            raise CommandError("What shall the agent do?", 'say it: toolcrib run AGENT "..."')
        prompt = sys.stdin.read()
    assert prompt is not None
    if not prompt.strip():
        raise CommandError("The message is empty", 'say something: toolcrib run AGENT "..."')
    return prompt


async def _last_run(terminal: Terminal, crib: Crib, id: str) -> int:
    """Where in its log the last run of a session begins.

    Raises:
        CommandError: there is no such session, or no run in it.
    """
    from toolcrib.cli.sessions import session_row

    session, seq = await crib._session_table.load(await session_row(crib.store, id)), 0
    async for event in session.events(follow=False):
        if event.kind == "run_started" and "call" not in event.fields:
            seq = event.seq
    if not seq:
        advice = terminal.command("run", "AGENT", "PROMPT", "--session", id)
        raise CommandError(f"Nobody has asked an agent in session {id} yet", advice, exit_code=1, code="not_found")
    return seq


async def conversation(  # noqa: PLR0913 - what a conversation is made of
    terminal: Terminal,
    crib: Crib,
    id: str | None,
    owner: str | None,
    namespaces: list[str] | None,
    since: int = 0,
    *,
    names: bool = False,
) -> ConversationFollower:
    """The conversation of a session; what is in its log `since` an event, or since now, is still to be shown."""
    from toolcrib.cli.conversation import ConversationFollower

    row = None if id is None else await crib.store.session(id)
    follower = ConversationFollower(terminal, await open_session(crib, id, owner, namespaces), names=names)
    await follower.recall(since - 1 if since else 0 if row is None else row.seq)
    return follower


async def _to_its_end(follower: ConversationFollower, text: str | None, agent: str | None) -> int:
    """Follows a run until all of it is over, also what goes on in the background. Ctrl-C cancels it."""
    code = None
    try:
        if text is None:
            await follower.follow(background=True)
        else:
            await follower.say(text, agent, background=True)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        await follower.interrupt()
        code = INTERRUPTED
    follower.report()
    if follower.code == WAITING and not follower.terminal.json:
        follower.terminal.say(
            f"Then:  {follower.terminal.command('run', '--resume', follower.session.id)}   (its answer)"
        )
    return follower.code if code is None else code

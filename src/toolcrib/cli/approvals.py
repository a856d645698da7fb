"""`toolcrib approvals`: what waits for a person in any session, and what the person says. A question's id is enough."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from toolcrib.cli.command import WAITING, command, group
from toolcrib.cli.completion import complete_question, complete_session
from toolcrib.cli.display.event_lines import moment, span
from toolcrib.cli.questions import AnswerInput, PendingQuestion, agreed, asked_by_id, data, give, wanted
from toolcrib.cli.terminal import Cell, CommandError, Terminal, compact, exact, short
from toolcrib.origins.passages import passages, without_passages

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib.crib import Crib
    from toolcrib.store import Store
    from toolcrib.types import Question

app = group("approvals", "See what waits for a person, and answer it.")
COLUMNS = ("Question", "Session", "Owner", "Tool", "Kind", "Prompt", "Asked", "Expires")

QuestionArgument = Annotated[
    str, typer.Argument(metavar="QUESTION", help="The question's id.", autocompletion=complete_question)
]
OwnerOption = Annotated[str | None, typer.Option("--owner", "-o", help="Only sessions of this owner.")]
ActorOption = Annotated[str | None, typer.Option("--actor", help="Who answers; without it you.")]
KeyOption = Annotated[
    str | None, typer.Option("--key", help="Names this answer: the same again with it gives the same outcome.")
]
ReasonOption = Annotated[str | None, typer.Option("--reason", "-r", help="Why.")]
ScopeOption = Annotated[
    Literal["once", "session"], typer.Option("--scope", help="This call alone, or all that the offer covers.")
]


# Looking


@command(app, "list")
async def list_questions(
    terminal: Terminal,
    owner: OwnerOption = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Only this session.", autocompletion=complete_session)
    ] = None,
) -> None:
    """List the questions that are open."""
    from toolcrib.cli.store_choice import chosen_store, missing, opened

    store = chosen_store(terminal.crib)
    entries: list[dict[str, Any]] = []
    if session is not None or missing(store) is None:
        async with opened(store):
            entries = [await data(store, question) for question in await _open(store, owner, session)]
    if terminal.json:
        terminal.data(entries)
    elif any(question["demands"] for question in entries):
        terminal.table((*COLUMNS, "Needs"), [(*_row(question), _needs(question)) for question in entries])
    elif entries:
        terminal.table(COLUMNS, [_row(question) for question in entries])
    else:
        terminal.say("Nothing waits for an answer.")


async def _open(store: Store, owner: str | None, session: str | None) -> list[Question]:
    from toolcrib._session.call_lists import open_questions
    from toolcrib.cli.sessions import session_row

    if session is None:
        return await open_questions(store, owner)
    row = await session_row(store, session)
    return await open_questions(store, session=row.id) if owner in (None, row.owner) else []


def _row(question: Mapping[str, Any]) -> Sequence[Cell]:
    now = time.time()
    left = question["expires_at"] - now
    return (
        question["id"],
        question["session"],
        question["owner"] or "",
        question["tool"],
        question["kind"],
        short(question["prompt"], 100),
        f"{span(now - question['asked_at'])} ago",
        (f"in {span(left)}", "yellow" if left < 600 else "") if left > 0 else ("expired", "red"),
    )


def _needs(question: Mapping[str, Any]) -> str:
    """Who has to agree, and who did."""
    if not question["demands"]:
        return ""
    did = f" ({', '.join(question['approved_by'])} did)" if question["approved_by"] else ""
    return f"{wanted(question)}{did}{', escalated' if question['escalated'] else ''}"


@command(app, "show")
async def show_question(terminal: Terminal, question: QuestionArgument) -> None:
    """Show a question: what would run, why and by whom it is asked."""
    from toolcrib.cli.crib_choice import reading

    async with reading(terminal.crib) as crib:
        pending = await asked_by_id(crib, question)
        verdict = await _verdict(crib, pending)
        shown = {**await data(crib.store, pending.question), "by": _by(pending.history), "verdict": verdict}
    answer = None if pending.answer is None else dataclasses.asdict(pending.answer)
    shown |= {"reason": verdict.get("message"), "state": pending.state, "answer": answer}
    if terminal.json:
        terminal.data(shown)
    else:
        _show(terminal, pending, shown)


async def _verdict(crib: Crib, question: PendingQuestion) -> dict[str, Any]:
    """Why the policy asks, where it does."""
    after = question.row.accepted_seq - 1
    while page := await crib.store.read(question.row.session, after, call=question.row.id, limit=1000):
        for event in page:
            if event.kind == "waiting" and event.fields["question"]["id"] == question.question.id:
                return dict(event.fields.get("verdict") or {})
        after = page[-1].seq
    return {}


def _show(terminal: Terminal, pending: PendingQuestion, shown: Mapping[str, Any]) -> None:
    question, answer = pending.question, pending.answer
    left = question.expires_at - time.time()
    by = shown["by"] or {}
    lines: dict[str, Any] = {
        "Question": f"{question.id} ({question.kind}, {pending.state})",
        "Session": f"{question.session}, of {shown['owner']}",
        "Tool": question.tool,
        "Asked by": " > ".join((*question.path, " ".join(filter(None, (by.get("kind"), by.get("name")))))),
        "Reason": shown["reason"],
        "Needs": _needs(shown),
        "Digest": question.digest,
        "Asked": moment(question.asked_at),
        "Expires": f"{moment(question.expires_at)}{f', in {span(left)}' if left > 0 else ''}",
        "Wants": None if question.schema is None else compact(dict(question.schema)),
        "Offers": question.offer,
        "Seen": "\n          ".join(passages(question.data)),
        "Data": None if (more := without_passages(question.data)) is None else exact(more),
        "Answered": None if answer is None else f"{answer.action} by {answer.actor} at {moment(answer.at)}",
    }
    terminal.text(question.prompt, "bold yellow")
    for name, value in lines.items():
        if value:
            terminal.text(f"{name:<10}{value}")
    terminal.text("\nArguments", "bold")
    terminal.text(exact(dict(question.arguments), 2))
    if pending.state == "open":
        terminal.say(f"\nNext:  {_next(terminal, question)}")


def _next(terminal: Terminal, question: Question) -> str:
    if question.kind == "confirm":
        return f"{terminal.command('approvals', 'approve', question.id)}   (or decline, or edit)"
    return f"{terminal.command('answer', question.id, 'accept')} VALUE   (or decline)"


# Answering


@command(app, "approve")
async def approve(
    terminal: Terminal,
    question: QuestionArgument,
    scope: ScopeOption = "once",
    actor: ActorOption = None,
    reason: ReasonOption = None,
    key: KeyOption = None,
) -> int:
    """Let a call run that waits for a yes. It goes on here, or in its cluster, and its result is shown.

    Where others have to agree too, that is said. Exit codes: 0 it succeeded, 1 it failed or could not be approved, 3 it
    waits for the next answer.
    """
    return await _go_on(terminal, question, AnswerInput("accept", actor, key, reason, scope))


@command(app, "decline")
async def decline(
    terminal: Terminal,
    question: QuestionArgument,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; whoever called is told.")],
    actor: ActorOption = None,
    key: KeyOption = None,
) -> None:
    """Say no to a call; it ends as declined."""
    from toolcrib.cli.conversation import see_through
    from toolcrib.cli.crib_choice import at_work
    from toolcrib.errors import Refused

    async with at_work(terminal.crib) as crib:
        pending = await asked_by_id(crib, question)
        try:
            answer = await give(pending.session, question, AnswerInput("decline", actor, key, reason))
        except Refused as refused:
            raise refusal(terminal, pending, refused) from None
        terminal.result(
            {"session": pending.session.id, "call": pending.row.id, "answer": dataclasses.asdict(answer)},
            f"Declined: {pending.question.tool} ({reason})",
        )
        await see_through(terminal, pending)


@command(app, "edit")
async def edit(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    question: QuestionArgument,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Arguments to change; without it your editor opens.")
    ] = None,
    scope: ScopeOption = "once",
    actor: ActorOption = None,
    reason: ReasonOption = None,
    key: KeyOption = None,
) -> int:
    """Change the arguments of a call and let it run. They are checked as those of a new call are.

    Exit codes: 0 it succeeded, 1 it failed or the change was refused, 3 it waits for the next answer.
    """
    answer = AnswerInput("accept", actor, key, reason, scope)
    if args is None:
        return await _edit_by_hand(terminal, question, answer)
    from toolcrib.cli.calls import read_object

    changes = read_object(args, "--args")
    return await _go_on(terminal, question, answer, changes)


async def _go_on(
    terminal: Terminal, question: str, answer: AnswerInput, changes: Mapping[str, Any] | None = None
) -> int:
    """Answer, and show what becomes of the call."""
    from toolcrib.cli.crib_choice import at_work
    from toolcrib.errors import Refused

    async with at_work(terminal.crib) as crib:
        pending = await asked_by_id(crib, question)
        _may_approve(terminal, pending, answer)
        if changes is not None:
            answer = answer._replace(arguments={**pending.question.arguments, **changes})
        try:
            await give(pending.session, question, answer)
        except Refused as refused:
            raise refusal(terminal, pending, refused) from None
        return await _outcome(terminal, pending)


async def _edit_by_hand(terminal: Terminal, question: str, answer: AnswerInput) -> int:
    """Open an editor until the arguments are valid, or the person gives up."""
    from toolcrib.cli.crib_choice import at_work
    from toolcrib.cli.editor import again, edited
    from toolcrib.errors import Refused

    if not terminal.interactive:
        raise CommandError("There is no terminal for an editor", """say what changes: --args '{"name": value}'""")
    async with at_work(terminal.crib) as crib:
        pending = await asked_by_id(crib, question)
        _may_approve(terminal, pending, answer)
        arguments: Mapping[str, Any] = pending.question.arguments
        while True:
            arguments = await edited(terminal, arguments)
            try:
                await give(pending.session, question, answer._replace(arguments=arguments))
            except Refused as refused:
                if refused.code not in ("invalid_arguments", "denied"):
                    raise refusal(terminal, pending, refused) from None
                terminal.say(str(refused), "red")
                if not await again(terminal):
                    raise refusal(terminal, pending, refused) from None
            else:
                return await _outcome(terminal, pending)


async def _outcome(terminal: Terminal, question: PendingQuestion) -> int:
    from toolcrib.cli.call_follower import follow
    from toolcrib.cli.conversation import see_through

    now = await question.renewed()
    if now.state == "open":
        _tell_open(terminal, now)
        return WAITING
    code = await follow(terminal, question.session, question.row.id, after=await question.answered_at())
    await see_through(terminal, question)
    return code


def _tell_open(terminal: Terminal, question: PendingQuestion) -> None:
    """Show that others have to agree before the call goes on."""
    shown = dataclasses.asdict(question.question)
    terminal.result(
        {"session": question.session.id, "call": question.row.id, "status": "waiting", "question": shown},
        f"{agreed(shown)}: {question.question.tool} waits for {wanted(shown)}",
    )


def _may_approve(terminal: Terminal, question: PendingQuestion, answer: AnswerInput) -> None:
    """Approving says yes to a call; a question that wants a value needs more, and one without an offer can no more."""
    if question.question.resume != "run":
        what = "an answer" if question.question.kind == "input" else "a result"
        advice = f"{terminal.command('answer', question.question.id, 'accept')} VALUE"
        raise CommandError(f"The question wants {what}, not an approval", advice, exit_code=1, code="invalid_arguments")
    if answer.scope == "session" and question.question.offer is None and question.state == "open":
        advice = "approve this call alone, without --scope; it is still open"
        raise CommandError("The question offers nothing for the session", advice, exit_code=1, code="invalid_arguments")


def refusal(terminal: Terminal, question: PendingQuestion, refused: Any) -> CommandError:
    """A refused answer, in a line."""
    look = terminal.command("approvals", "show", question.question.id)
    advice = f"{refused.hint}; see {look}" if refused.hint else f"see {look}"
    return CommandError(refused.message, advice, exit_code=1, code=refused.code)


# Watching


@command(app, "watch")
async def watch(terminal: Terminal, owner: OwnerOption = None) -> None:
    """Wait for questions of all sessions. On a terminal, answer them as they come. Ctrl-C leaves."""
    from toolcrib.cli.approvals_watch import attend, tell
    from toolcrib.cli.crib_choice import at_work, reading

    if terminal.interactive:
        async with at_work(terminal.crib) as crib:
            await attend(terminal, crib, owner)
    else:
        async with reading(terminal.crib) as crib:
            await tell(terminal, crib, owner)


def _by(history: History) -> dict[str, Any]:
    from toolcrib._call.history import by_of

    return by_of(history.accepted)._asdict()

"""`toolcrib approvals watch`: the questions of all sessions as they come, printed or prompted for."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from toolcrib.cli.display.event_lines import clock, span
from toolcrib.cli.editor import edited
from toolcrib.cli.prompts import LeftOpen, PromptAnswer, ask, explain, first, line, pick
from toolcrib.cli.questions import AnswerInput, PendingQuestion, agreed, data, find, give, wanted
from toolcrib.cli.terminal import CommandError, Terminal, compact, short

if TYPE_CHECKING:
    from toolcrib.crib import Crib

LOOK_S = 1.0
SOON_S = 2.0
ALWAYS = "always"
NOTE = "Ctrl-D skips it, Ctrl-C leaves."


async def coming(crib: Crib, owner: str | None) -> AsyncIterator[PendingQuestion]:
    """Questions: those that are open, then each that comes up, in any session."""
    seen: set[str] = set()
    while True:
        rows = await crib.store.calls(None, ("waiting",), limit=10_000)
        waiting = [row.question for row in rows if row.question is not None]
        for question in [question for question in waiting if question not in seen]:
            pending = await find(crib, question)
            if pending is not None and owner in (None, pending.session.owner):
                yield pending
        seen = set(waiting)
        await asyncio.sleep(LOOK_S)  # no store notifies about questions of all sessions


async def tell(terminal: Terminal, crib: Crib, owner: str | None) -> None:
    """Print a line for each question, as JSON or text."""
    async for pending in coming(crib, owner):
        shown = await data(crib.store, pending.question)
        terminal.result(shown, _line(shown))


def _line(question: dict[str, Any]) -> str:
    where = f"{clock(question['asked_at'])}  {question['id']}  {question['session']} of {question['owner']}"
    what = f"{question['kind']}: {question['prompt']}  {question['tool']} {compact(question['arguments'])}"
    if question["demands"]:
        what = f"[{agreed(question)}, of {wanted(question)}{', escalated' if question['escalated'] else ''}]  {what}"
    return short(f"{where}  {what}", 1000)


async def attend(terminal: Terminal, crib: Crib, owner: str | None) -> None:
    """Ask the person at the terminal, one question after the other."""
    attending = _ApprovalWatch(terminal, crib)
    terminal.say("Waiting for questions; Ctrl-C leaves.", "dim")
    try:
        async for pending in coming(crib, owner):
            await attending.settle(pending)
    finally:
        await attending.leave()


class _ApprovalWatch:
    """A person who answers, and the calls that go on with it."""

    def __init__(self, terminal: Terminal, crib: Crib) -> None:
        self.terminal = terminal
        self.crib = crib
        self._going: set[asyncio.Task[None]] = set()

    async def settle(self, pending: PendingQuestion) -> None:
        """Ask until the question is answered or skipped, here or elsewhere."""
        if pending.state != "open":
            return
        question, terminal = pending.question, self.terminal
        left = span(question.expires_at - time.time())
        terminal.say(f"\n{question.tool} in session {question.session} of {pending.session.owner}, {left} left", "cyan")
        if question.demands:
            shown = dataclasses.asdict(question)
            terminal.say(f"{agreed(shown)}, of {wanted(shown)}", "cyan")
        explain(terminal, question, NOTE)
        while True:
            try:
                answer = await first(self._ask(pending), self._moved_on(pending))
            except LeftOpen:
                terminal.say(f"Skipped. Later: {terminal.command('approvals', 'show', question.id)}", "dim")
                return
            except CommandError as trouble:
                terminal.say(trouble.message, "red")
                continue
            if answer.action == "elsewhere" or await self._answer(pending, answer):
                return

    async def _ask(self, pending: PendingQuestion) -> PromptAnswer:
        """What the person says.

        Raises:
            Left: they skip it.
            CommandError: they changed nothing.
        """
        question, terminal = pending.question, self.terminal
        if question.kind != "confirm":
            return await ask(terminal, question)
        choices = {"y": "yes", "n": "no", "e": "edit", "s": "skip"}
        if question.offer is not None:
            terminal.say(f"  For the session: {question.offer}", "dim")
            choices = {"y": "yes", "a": "always in this session", "n": "no", "e": "edit", "s": "skip"}
        match await pick(terminal, "Allow it?", choices):
            case "y":
                return PromptAnswer("accept")
            case "a":
                return PromptAnswer(ALWAYS)
            case "n":
                return PromptAnswer(
                    "decline", reason=(await line(terminal, "Why? (Enter says nothing) ")).strip() or None
                )
            case "e":
                return PromptAnswer("accept", arguments=await edited(terminal, question.arguments))
        raise LeftOpen

    async def _moved_on(self, question: PendingQuestion) -> PromptAnswer:
        """Returns when somebody else has answered, or nobody may any more."""
        session, call = question.session, question.row.id
        async for event in session.events(call=call):
            mine = event.kind == "answered" and event.fields["question"] == question.question.id
            if mine or event.kind == "done":
                break
        self.terminal.say("\nIt was answered elsewhere, or has ended.", "yellow")
        return PromptAnswer("elsewhere")

    async def _answer(self, question: PendingQuestion, answer: PromptAnswer) -> bool:
        """True if there is nothing more to ask."""
        from toolcrib.errors import Refused

        action, scope = ("accept", "session") if answer.action == ALWAYS else (answer.action, "once")
        answer_input = AnswerInput(
            action, reason=answer.reason, scope=scope, arguments=answer.arguments, value=answer.value
        )
        try:
            await give(question.session, question.question.id, answer_input)
        except Refused as refused:
            self.terminal.say(str(refused), "red")
            return refused.code in ("already_answered", "expired", "not_found")
        now = await question.renewed()
        if now.state == "open":
            self.terminal.say(f"{agreed(dataclasses.asdict(now.question))}; it stays open for the others.", "dim")
            return True
        task = asyncio.ensure_future(self._outcome(question))
        self._going.add(task)
        task.add_done_callback(self._going.discard)
        await asyncio.wait([task], timeout=SOON_S)  # the end of a short call is shown before the next question
        if not task.done():
            self.terminal.say(f"{question.question.tool} goes on; its end is told here.", "dim")
        return True

    async def _outcome(self, question: PendingQuestion) -> None:
        """Tells what became of a call."""
        result = await question.session.result(question.row.id)
        tool, failure = question.question.tool, result.failure
        if failure is None:
            self.terminal.say(f"✓ {tool}: {short(result.text, 300)}", "green")
        else:
            self.terminal.say(f"✗ {tool}: [{failure.code}] {short(failure.message, 300)}", "red")

    async def leave(self) -> None:
        """Lets go of what still runs: the crib sees it through for a while, and recovery has the rest."""
        for task in self._going:
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)

"""Questions of followed calls: prompted for here, or left open with a hint how to answer them later."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolcrib.cli.display.event_lines import span
from toolcrib.cli.display.schemas import outline
from toolcrib.cli.prompts import LEAVE, LeftOpen, PromptAnswer, ask, explain, first
from toolcrib.cli.terminal import Terminal, compact, exact
from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.session import Session
    from toolcrib.types import Question


class QuestionHandler:
    """Whoever answers the questions of a session: the person at the terminal, `--yes`, or nobody here.

    `hide` clears the screen of what moves on it.
    """

    def __init__(
        self, terminal: Terminal, session: Session, hide: Callable[[], None], *, yes: bool = False, note: str = LEAVE
    ) -> None:
        self.terminal = terminal
        self.session = session
        self.yes = yes
        self._hide = hide
        self._note = note

    async def settle(self, question: Question, seq: int) -> bool:
        """True if the question, asked at that place in the log, was answered: here or elsewhere, now or before."""
        row = await self.session._row(question.call)
        if (row.state, row.question) != ("waiting", question.id):
            return True
        if question.kind == "confirm" and self.yes:
            if not self.terminal.json:
                self.terminal.say(f"{question.prompt} Accepted by --yes.", "yellow")
            return await self._answer(question, PromptAnswer("accept")) and not await self._lacking(question)
        if not self.terminal.interactive:
            return False
        self._hide()
        explain(self.terminal, question, self._note)
        while True:
            answer = await self._ask(question, seq)
            if answer is None:
                return False
            if await self._answer(question, answer):
                return not await self._lacking(question)

    async def _lacking(self, question: Question) -> bool:
        """True if others have to agree too, so that nothing more can be done here."""
        from toolcrib.cli.questions import agreed, wanted

        now = (await self.session._history(await self.session._row(question.call))).question
        if now is None or now.id != question.id:
            return False
        shown = dataclasses.asdict(now)
        if not self.terminal.json:
            self.terminal.say(f"{agreed(shown)}: {question.tool} waits for {wanted(shown)}", "yellow")
        return True

    async def _ask(self, question: Question, seq: int) -> PromptAnswer | None:
        """What the person says; None to leave the question open. An answer from elsewhere ends the waiting for one."""
        try:
            return await first(ask(self.terminal, question), self._moved_on(question.call, seq))
        except LeftOpen:
            return None

    async def _moved_on(self, call: str, seq: int) -> PromptAnswer:
        async for event in self.session.events(seq, call):
            if event.kind in ("answered", "done"):
                break
        self.terminal.say("\nIt was answered elsewhere.", "yellow")
        return PromptAnswer("elsewhere")

    async def _answer(self, question: Question, answer: PromptAnswer) -> bool:
        from toolcrib.cli.questions import user

        if answer.action == "elsewhere":
            return True
        try:
            await self.session.answer(
                question.id,
                answer.action,
                answer.value,
                arguments=answer.arguments,
                reason=answer.reason,
                actor=user(),
            )
        except Refused as refused:
            self.terminal.say(str(refused), "red")
            return refused.code in ("already_answered", "expired")
        return True

    def explain_waiting(self, question: Question) -> None:
        """Says how to answer from elsewhere."""
        self._hide()
        terminal = self.terminal
        if terminal.json:
            print(compact({"waiting": dataclasses.asdict(question)}), file=sys.stderr, flush=True)
            return
        terminal.say(f"Waiting: {question.prompt}", "bold yellow")
        terminal.say(f"  {question.tool} {exact(dict(question.arguments))}")
        if question.demands:
            from toolcrib.cli.questions import wanted

            terminal.say(f"  It has to be approved by {wanted(dataclasses.asdict(question))}.")
        terminal.say(f"  Question {question.id}, open for {span(question.expires_at - time.time())}.")
        if self.session.crib.store.url.startswith("memory:"):
            terminal.say(
                "Next:  the store is in memory and ends with this command; name one in crib.yaml, or say --yes"
            )
        else:
            terminal.say(f"Next:  {terminal.command('answer', question.id, 'accept')}{_what(question)}   (or decline)")


def _what(question: Question) -> str:
    return "" if question.kind == "confirm" else f" VALUE   where VALUE is {outline(question.schema or {})}"

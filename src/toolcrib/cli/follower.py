"""`Follower`: what follows the log of a session for a person at the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._call.history import question_of
from toolcrib.cli.prompts import LEAVE
from toolcrib.cli.question_handler import QuestionHandler
from toolcrib.cli.terminal import Terminal

if TYPE_CHECKING:
    from toolcrib.events import Event
    from toolcrib.session import Session
    from toolcrib.types import Question


class Follower:
    """Follow the log of a session: show events, and ask questions of whoever is there.

    What is shown, and when it is over, is for those who follow something in particular. `left` are the questions that
    nobody answered here.
    """

    def __init__(self, terminal: Terminal, session: Session, *, yes: bool = False, note: str = LEAVE) -> None:
        self.terminal = terminal
        self.session = session
        self.left: dict[str, Question] = {}
        self.settling = QuestionHandler(terminal, session, self.hide, yes=yes, note=note)

    def show(self, event: Event) -> None:
        """Show an event."""

    def hide(self) -> None:
        """Clear the screen of what moves on it; the next event takes it again."""

    def leave(self, question: Question) -> None:
        """Say how a question can be answered later, that nobody answered here."""
        if not self.terminal.json:
            self.settling.explain_waiting(question)

    async def take(self, event: Event) -> None:
        """Show an event, and ask if it is a question."""
        self.show(event)
        if event.kind == "waiting":
            await self.ask(question_of(event), event.seq)

    async def ask(self, question: Question, seq: int) -> None:
        """Ask a question that stands at `seq` in the log, unless it was answered by now."""
        if not await self.settling.settle(question, seq):
            self.left[question.id] = question
            self.leave(question)

    def say_cancelling(self) -> None:
        """Say that what goes on is being cancelled."""
        self.hide()
        if not self.terminal.json:
            self.terminal.say("Cancelling … (Ctrl-C again leaves at once)", "yellow")

"""Follow a conversation with the agents of a session in its log: show it, ask its questions, see its end.

Where it stands is a fold of the events that were shown, so that nothing is over before it was seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from toolcrib.agent.conversation import AgentRun, Conversation
from toolcrib.agent.models import NOTHING, Usage
from toolcrib.cli.command import FAILED, WAITING
from toolcrib.cli.display.conversation import ConversationDisplay, spent
from toolcrib.cli.follower import Follower
from toolcrib.cli.terminal import Terminal

if TYPE_CHECKING:
    from toolcrib.agent import RunOutcome
    from toolcrib.cli.questions import PendingQuestion
    from toolcrib.events import Event
    from toolcrib.session import Session

LEAVE = "Ctrl-D leaves it waiting, Ctrl-C cancels the run."
STIRRING = ("run_started", "waiting", "done", "notice")


class ConversationFollower(Follower):
    """One session and whoever talks to its agents."""

    def __init__(self, terminal: Terminal, session: Session, *, names: bool = False) -> None:
        super().__init__(terminal, session, note=LEAVE)
        self.conversation = Conversation()
        self.silent = False
        self.past: list[Event] = []
        self._reported: set[str] = set()
        self.stage = None if terminal.json else ConversationDisplay(terminal, self.conversation, names=names)

    async def recall(self, until: int) -> None:
        """Takes in what is in the log already, without a word."""
        async for event in self.session.events(0, follow=False):
            if event.seq > until:
                break
            self.conversation.advance(event)
            if self.stage is not None:
                self.stage.note(event)
            if event.kind == "message" and self._is_spoken(event):
                self.past.append(event)
            elif event.kind == "run_finished":
                self._reported.add(event.fields["run"])

    def _is_spoken(self, event: Event) -> bool:
        """True if an event is a message of the conversation itself."""
        run = self.conversation.runs.get(event.fields.get("run") or "")
        return event.fields["role"] != "note" and bool(event.fields["content"]) and (run is None or run.parent is None)

    def hide(self) -> None:
        """Clears the screen of what moves on it."""
        if self.stage is not None:
            self.stage.hide()

    # Going on

    async def say(self, text: str, agent: str | None = None, *, background: bool = False) -> None:
        """Sends a message, and follows until it is answered or has to wait for somebody.

        Raises:
            Refused: there is no such agent, or nobody takes the message.
        """
        await self.follow(asyncio.ensure_future(self.session.send(text, agent=agent)), background=background)
        await self.drain()  # a run that waits took no notice of it: that it is queued may stand in the log alone

    async def follow(self, sent: asyncio.Task[RunOutcome] | None = None, *, background: bool = False) -> None:
        """Shows what happens until the foreground is quiet; with `background`, all of it."""
        try:
            await self.drain()
            await self.ask_open()
            async with aclosing(self._events()) as events:
                while not self._over(sent, background):
                    await self._next(events, sent, background)
        finally:
            await _ended(sent)
            self.hide()

    async def _next(
        self, events: AsyncGenerator[Event], sent: asyncio.Task[RunOutcome] | None, background: bool
    ) -> None:
        """Shows the next event, unless it is over before one comes."""
        coming = asyncio.ensure_future(anext(events))
        try:
            if sent is not None and not sent.done():
                await asyncio.wait({coming, sent}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done() and self._over(sent, background):
                return
            event = await coming
        finally:
            await _ended(coming)
        await self.take(event)

    async def _events(self) -> AsyncGenerator[Event]:
        async for event in self.session.events(self.conversation.seen):
            yield event

    async def drain(self) -> None:
        """Shows what is in the log by now."""
        async for event in self.session.events(self.conversation.seen, follow=False):
            await self.take(event)

    async def stirring(self) -> None:
        """Returns when something happens that is worth to be shown."""
        async for event in self.session.events(self.conversation.seen):
            if event.kind in STIRRING:
                return

    async def interrupt(self) -> None:
        """Cancels what goes on in the foreground, and shows the end of it; the session can go on."""
        self.say_cancelling()
        await self.session.interrupt()
        await self.drain()
        self.hide()

    def show(self, event: Event) -> None:
        """Take in an event, and show it."""
        self.conversation.advance(event)
        if self.stage is not None:
            self.stage.take(event)
        elif not self.silent:
            self.terminal.data({"session": self.session.id, **event.plain()})

    # Where it stands

    def _over(self, sent: asyncio.Task[RunOutcome] | None, background: bool) -> bool:
        if sent is not None and (not sent.done() or sent.result().run not in self.conversation.runs):
            return False
        run = self.conversation.foreground
        if run is not None:
            return self._waits(run)
        return not self.queued and not self._wakes() and not (background and self._busy())

    @property
    def queued(self) -> bool:
        """True if a message waits to be read."""
        return any(one.run is None for one in self.conversation.queue)

    def _waits(self, run: AgentRun) -> bool:
        """True if the run waits for answers that nobody here gives."""
        questions = self.conversation.questions(run) if run.status == "waiting" else None
        return questions is not None and self.left.keys() >= set(questions)

    def _wakes(self) -> bool:
        """True if a result is about to start a run."""
        from toolcrib.agent.driver import UNASKED

        late = any(wake == "wake" for _, wake in self.conversation.late.values())
        return late and self.conversation.unasked < UNASKED

    def _busy(self) -> bool:
        """True if something goes on in the background."""
        for note in self.conversation.calls.values():
            below = self.conversation.child(note.id)
            left = note.question in self.left or (below is not None and self._waits(below))
            if note.background and note.state != "done" and not left:
                return True
        return False

    @property
    def last(self) -> AgentRun | None:
        """The last run of the conversation."""
        return next((run for run in reversed(self.conversation.runs.values()) if run.parent is None), None)

    @property
    def stand(self) -> tuple[AgentRun | None, int, bool]:
        """How far it has come."""
        run = self.last
        return run, 0 if run is None else run.turn, run is not None and run.finished is not None

    @property
    def code(self) -> int:
        """The exit code that tells how the last run ended."""
        run = self.last
        left = any(note.state == "waiting" and note.question in self.left for note in self.conversation.calls.values())
        if left or (run is not None and run.finished is None):
            return WAITING
        return 0 if run is None or run.finished is None or run.finished.reason == "answered" else FAILED

    # Questions

    async def ask_open(self) -> None:
        """Asks what is open and was not left."""
        for question in await self.session.questions():
            if question.id not in self.left and question.path:
                await self.ask(question, self.conversation.seen)

    # What it took

    async def used(self) -> dict[str, Usage]:
        """Return the usage of the whole session by agent."""
        usage: dict[str, Usage] = {}
        async for event in self.session.events(0, follow=False):
            if event.kind == "message" and event.fields.get("usage"):
                agent = event.fields["agent"]
                usage[agent] = usage.get(agent, NOTHING) + Usage.read(event.fields["usage"])
        return usage

    def report(self) -> None:
        """Show the usage of runs that were not reported yet."""
        runs = [run for run in self.conversation.runs.values() if run.parent is None and run.id not in self._reported]
        self._reported.update(run.id for run in runs if run.finished is not None)
        if runs and not self.terminal.json:
            total = sum((run.usage for run in runs), NOTHING)
            self.terminal.say(
                f"{spent(total.data(), sum(run.turn for run in runs))} (session {self.session.id})", "dim"
            )


async def _ended(task: asyncio.Future[Any] | None) -> None:
    """Stops a task that is not done, and waits for that."""
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task])


async def see_through(terminal: Terminal, question: PendingQuestion) -> None:
    """Goes on with the run whose question was answered here, until it is over or waits again.

    JSON output has the call alone.
    """
    session, row = question.session, await question.session._row(question.row.id)
    if not question.question.path or row.done_seq is None or session.crib.agents is None:
        return
    follower = ConversationFollower(terminal, session)
    follower.silent = terminal.json
    await follower.recall(row.done_seq)
    await follower.follow(background=True)

"""The tour: what a crib does for its tools, one short step after the other, with a restart and a crash in between."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolcrib import Event, Question, Refused, Result, Session
from toolcrib._call.history import result as read_result
from toolcrib.cli.display.event_lines import COLUMNS, cells
from toolcrib.cli.display.run_progress import RunProgress
from toolcrib.cli.prompts import LeftOpen, PromptAnswer, ask, explain
from toolcrib.cli.terminal import Cell, Terminal
from toolcrib.demo import crib, home, shop

OWNER = "ada"
PATIENCE_S = 30.0
ADDRESS = {"street": "Werkgasse 3", "city": "Basel", "country": "CH"}


class Tour:
    """One walk through the order desk, in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shop = shop.Shop(folder)
        self.id = f"tour-{secrets.token_hex(3)}"
        self.terminal = Terminal(together=True)
        self.steps = 0

    async def run(self) -> None:
        """All of it."""
        self.say(f"The order desk: six tools, one session ({self.id}), one SQLite file ({self.folder}/demo.db).")
        async with crib(self.folder) as counter:
            session = await counter.open(self.id, owner=OWNER, namespaces=["desk"])
            await self.look_up(session)
            await self.flaky(session)
            await self.export(session)
            refund, address = await self.park(session)
        async with crib(self.folder) as counter:
            await self.answer(await counter.open(self.id, owner=OWNER), refund, address)
        await self.crash()
        async with crib(self.folder) as counter:
            session = await counter.open(self.id, owner=OWNER)
            await self.recovered(session)
            await self.log(session)
        self.what_next()

    # The steps

    async def look_up(self, session: Session) -> None:
        """A read: checked, run, recorded."""
        self.heading("Look up an order", "A call is checked against the tool's schema, runs, and stands in the log.")
        await self.show(session, "desk.look_up", order="A-7")
        self.say("A call that does not fit never reaches the tool; the model is told what to change:")
        await self.show(session, "desk.look_up", order="seven")

    async def flaky(self, session: Session) -> None:
        """A failure that says whether to try again."""
        self.heading("A courier with a bad line", "A failure has a stable code and says whether to try again.")
        self.shop.cut_line()
        for _ in range(3):
            result = await self.show(session, "desk.track", order="A-8")
            if result.failure is None or not result.failure.retryable:
                break

    async def export(self, session: Session) -> None:
        """Progress and streamed output."""
        self.heading(
            "A slow export", "A generator streams: every row and every step forward is an event that anyone may follow."
        )
        await self.show(session, "desk.export", rows=12)

    async def park(self, session: Session) -> tuple[str, str]:
        """Two calls that wait for people; their ids."""
        self.heading(
            "Two calls that need a person", "A destructive tool asks first; a tool may ask for what it does not know."
        )
        refund = await session.submit("desk.refund", {"order": "A-7", "cents": 500})
        address = await session.submit("desk.readdress", {"order": "A-8"})
        for question in await session.questions():
            self.say(f"  waiting: {question.prompt}", "yellow")
        self.say("Both are parked: no coroutine, no memory, only lines in the log. Now the program ends.")
        return refund.id, address.id

    async def answer(self, session: Session, refund: str, address: str) -> None:
        """After the restart, answered in another order than asked."""
        self.heading(
            "The program starts again",
            "The questions are still open; they may be answered in any order, by anyone allowed.",
        )
        questions = {question.call: question for question in await session.questions()}
        self.say(f"  {len(questions)} questions found. The customer types the new address on the shop's page:")
        await session.answer(questions[address].id, "accept", ADDRESS, actor="customer")
        self.outcome(await session.result(address))
        await self.settle(session, questions[refund])
        result = await session.result(refund)
        self.outcome(result)
        paid = len(self.shop.book(refund))
        self.say(f"  The bank's book has {paid} payment{'s' if paid != 1 else ''} for this call.", "bold")

    async def settle(self, session: Session, question: Question) -> None:
        """Asks until the answer fits: what was edited is checked as every call is."""
        while True:
            decision = await self.decide(question)
            try:
                await session.answer(
                    question.id, decision.action, reason=decision.reason, arguments=decision.arguments, actor="bob"
                )
                return
            except Refused as refused:
                self.say(f"  {refused}", "red")

    async def decide(self, question: Question) -> PromptAnswer:
        """What the person at the terminal says; where there is none, or it says nothing, yes."""
        if not self.terminal.interactive:
            self.say(f"  {question.prompt} Nobody sits at this terminal, so the demo accepts.", "yellow")
            return PromptAnswer("accept")
        explain(self.terminal, question, f"After {PATIENCE_S:g} s, or with Ctrl-D, the demo accepts by itself.")
        try:
            return await asyncio.wait_for(ask(self.terminal, question), PATIENCE_S)
        except (TimeoutError, LeftOpen):
            self.say("\n  The demo accepts.", "yellow")
            return PromptAnswer("accept")

    async def crash(self) -> None:
        """Another process is killed while a tool that must not run twice is at work."""
        self.heading("A crash", "Another process prints a label. It is killed (SIGKILL) while the printer is at work.")
        async with crib(self.folder) as counter:
            session = await counter.open(self.id, owner=OWNER)
            row = await counter.store.session(self.id)
            command = (sys.executable, "-m", "toolcrib.demo.crash", str(self.folder), self.id, OWNER)
            process = await create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL)
            printing = asyncio.ensure_future(self.printing(session, row.seq if row else 0))
            ended = asyncio.ensure_future(process.wait())
            try:
                await asyncio.wait((printing, ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                printing.cancel()
                await self.kill(process)
                await ended
        self.say(f"  process {process.pid} is gone.", "red")

    async def printing(self, session: Session, after: int) -> None:
        """Returns when the other process is in the middle of it; its events are seen here, through the file."""
        async for event in session.events(after):
            if event.kind == "progress":
                self.say(f"  seen from here: {event.fields['message']}", "blue")
                return

    async def kill(self, process: Process) -> None:
        """Ends the other process with no chance to tidy up."""
        try:
            process.kill()
        except ProcessLookupError:
            pass

    async def recovered(self, session: Session) -> None:
        """What recovery says of the call that was at work."""
        self.heading(
            "The program starts again",
            "What only reads would run again. A label may have been printed, so nobody prints it twice.",
        )
        entry = next(entry for entry in await session.completed() if entry.tool == "desk.print_label")
        assert entry.result is not None
        self.outcome(entry.result)
        self.say(f"  The printer's book has {len(self.shop.book(entry.id))} label for this call.", "bold")

    async def log(self, session: Session) -> None:
        """The whole session, as it stands in the log."""
        self.heading(
            "The log", "All of the above, in order; the console, the model, the audit and you read the same lines."
        )
        events = [event async for event in session.events(follow=False)]
        most = max(30, self.terminal.out.width - 48) if self.terminal.out.is_terminal else 90
        self.terminal.table(COLUMNS, list(thinned(events, most)))

    def what_next(self) -> None:
        """Commands that work on what the tour left behind."""
        self.heading("What to try next", "The demo's crib stays; these work on it, in any folder.")
        toolcrib = "toolcrib" if shutil.which("toolcrib") else f"{sys.executable} -m toolcrib"
        if self.folder != home():
            self.terminal.text(f"  export TOOLCRIB_DEMO={self.folder.resolve()}", "cyan")
        self.terminal.text("  export TOOLCRIB_CRIB=toolcrib.demo:crib", "cyan")
        for words in (
            "tools list",
            "tools show desk.refund",
            "call desk.refund -a order=A-7 -a cents=500",
            "call desk.export -a rows=40",
            "chat",
            f"sessions show {self.id}",
            f"sessions watch {self.id}",
        ):
            self.terminal.text(f"  {toolcrib} {words}", "cyan")
        self.terminal.text(f"  The tools are in {shop.__file__}")

    # How it is shown

    def heading(self, title: str, what: str) -> None:
        """Begins a step."""
        self.steps += 1
        self.terminal.text(f"\n{self.steps}. {title}", "bold")
        self.terminal.text(f"   {what}", "dim")

    def say(self, text: str, style: str = "") -> None:
        """A line of the tour."""
        self.terminal.text(text, style)

    async def show(self, session: Session, tool: str, **arguments: Any) -> Result:
        """Calls a tool and shows it live."""
        self.say(f"  {tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})", "cyan")
        call = await session.submit(tool, arguments)
        cards = RunProgress(self.terminal)
        cards.watch(call.id, tool)
        try:
            async for event in session.events(call=call.id):
                cards.take(event)
                if event.kind == "done":
                    cards.stop()
                    result = read_result(event.data)
                    self.outcome(result)
        finally:
            cards.stop()
        return result

    def outcome(self, result: Result) -> None:
        """A result in one line."""
        mark, style = ("✓", "green") if result.ok else ("✗", "red")
        text = result.text.replace("\n", "\n    ")
        again = " (it may be tried again)" if result.failure is not None and result.failure.retryable else ""
        self.say(f"  {mark} {text}{again}", style)


def thinned(events: Iterable[Event], most: int) -> Iterable[tuple[Cell, ...]]:
    """Events as rows; of a call's progress and output only the first of each, and how many more there are."""
    kept: list[Event] = []
    more: dict[tuple[str | None, str], int] = {}
    for event in events:
        key = (event.call, event.kind)
        if event.kind in ("progress", "output") and key in more:
            more[key] += 1
        else:
            more[key] = 0
            kept.append(event)
    for event in kept:
        hidden = more[event.call, event.kind]
        yield cells(event, most, f" (and {hidden} more)" if hidden else "")

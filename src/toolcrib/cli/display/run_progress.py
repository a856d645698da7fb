"""Calls on standard error: a bar for each that runs on a terminal, plain lines elsewhere.

It draws the calls of a conversation, and the one call that a command makes: that one is `alone`, its output is shown as
it comes, and its end is left to the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib._call.history import result as read_result
from toolcrib.cli.display.event_lines import progress, span
from toolcrib.cli.terminal import Terminal, clean, compact, short, styled
from toolcrib.events.runs import TRANSFER

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, TaskID

    from toolcrib.events import Event
    from toolcrib.types import Result

WIDE = 200


@dataclass(slots=True)
class CallProgress:
    """A call as a person sees it; `depth` counts the calls that it was made by, `alone` is the call of a command."""

    tool: str
    args: Mapping[str, Any]
    depth: int = 0
    last_news: tuple[Any, int] = (None, -1)
    tail: str = ""
    task: TaskID | None = None
    alone: bool = False

    @property
    def title(self) -> str:
        """Its tool and what it was called with."""
        if self.alone:
            return self.tool
        return short(f"{self.tool} {compact(self.args)}", WIDE)

    @property
    def indent(self) -> str:
        """What stands before its lines."""
        return "  " * self.depth


class RunProgress:
    """All calls of a session, from their first event to their last."""

    def __init__(self, terminal: Terminal) -> None:
        self._known: dict[str, CallProgress] = {}
        self._silent = terminal.json
        self._bars = terminal.err.is_terminal
        self._view: _PlainLines = _Bars(terminal) if self._bars else _PlainLines(terminal)

    def watch(self, call: str, tool: str) -> None:
        """Show one call alone."""
        self._known[call] = CallProgress(tool, {}, alone=True)

    def take(self, event: Event) -> None:
        """Shows an event of a call."""
        id, data = event.call or "", event.fields
        if self._silent:
            return
        if event.kind == "accepted" and id not in self._known:
            above = self._known.get(data.get("parent") or "")
            depth = 0 if above is None else above.depth + 1
            self._known[id] = CallProgress(data["tool"], data.get("args") or {}, depth)
        card = self._known.get(id)
        if card is None:
            return
        match event.kind:
            case "answered" if card.alone and data["action"] == "accept":
                self._view.begin(card)
            case "started":
                card.args = data.get("args") or card.args
                if card.tool != TRANSFER:
                    self._view.begin(card)
            case "progress":
                self._view.progress(card, data)
            case "output":
                self._view.output(card, data["delta"] if "delta" in data else f"{compact(data.get('value'))}\n")
            case "done" if not card.alone:
                self._done(card, data, read_result(event.data))

    def _done(self, card: CallProgress, data: Mapping[str, Any], result: Result) -> None:
        if card.tool == TRANSFER and result.ok:
            return  # the handover tells it
        took = f" ({span(data.get('duration_ms', 0) / 1000)})" if data.get("duration_ms", 0) >= 1 else ""
        if edited := result.metadata.get("edited"):
            took = f"{took} with {short(compact(edited))} changed"
        what = card.title if self._bars else card.tool  # of a bar nothing is left to read
        if result.failure is None:
            self._view.end(card, f"{card.indent}✓ {what}{took}: {_gist(card, result.data, result.text)}", "green")
        else:
            failure = f"[{result.failure.code}] {short(result.failure.message, WIDE)}"
            self._view.end(card, f"{card.indent}✗ {what}{took}: {failure}", "red")

    def stop(self) -> None:
        """Leaves the screen to others; the next event takes it again."""
        self._view.stop()


def _gist(card: CallProgress, data: Any, text: str) -> str:
    """A result in a line; of an agent's only what it answered."""
    if card.tool == "builtin.call_agent" and isinstance(data, Mapping) and "answer" in data:
        return short(f"{data['agent']}: {data['answer']}", WIDE)
    return short(text, WIDE) or "(nothing)"


class _PlainLines:
    """Lines on a pipe."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._open = False  # a line of output is not finished

    def begin(self, card: CallProgress) -> None:
        """Its body runs."""
        if not card.alone:
            self._terminal.say(f"{card.indent}→ {card.title}")

    def progress(self, card: CallProgress, data: Mapping[str, Any]) -> None:
        """A line for each message and each tenth."""
        news = (data.get("message"), int((data.get("progress") or 0) * 10))
        if news != card.last_news:
            card.last_news = news
            self._end_line()
            self._terminal.say(f"{card.indent}… {'' if card.alone else f'{card.tool}: '}{progress(data)}")

    def output(self, card: CallProgress, text: str) -> None:
        """The lines that are complete; of a call alone the text as it is."""
        if card.alone:
            print(text, end="", file=self._terminal.err.file, flush=True)
            self._open = not text.endswith("\n")
        else:
            self._lines(card, text)

    def _lines(self, card: CallProgress, text: str) -> None:
        *lines, card.tail = (card.tail + text).split("\n")
        for line in lines:
            self._terminal.say(f"{card.indent}  {line}", "dim")

    def _end_line(self) -> None:
        if self._open:
            self._open = False
            print(file=self._terminal.err.file, flush=True)

    def end(self, card: CallProgress, line: str, style: str) -> None:
        """It is over."""
        if card.tail:
            self._lines(card, "\n")
        self._terminal.say(line, style)

    def stop(self) -> None:
        """The screen is needed for something else."""
        self._end_line()


class _Bars(_PlainLines):
    """Bars at the foot of a terminal. What is over stands above them, and the last line of a call that is alone."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(terminal)
        self._bars: Progress | None = None
        self._live: Live | None = None
        self._running = 0
        self._tail = ""

    def begin(self, card: CallProgress) -> None:
        """A bar, moving to and fro until it is known how far the call is."""
        if card.task is None:
            self._bars = self._bars or _columns(self._terminal.err)
            card.task = self._bars.add_task(card.indent + short(card.title, 60), total=None)
            self._running += 1
        self._draw()

    def _draw(self) -> None:
        if self._live is None and self._bars is not None:
            from rich.live import Live

            console = self._terminal.err
            self._live = Live(get_renderable=self._drawn, console=console, transient=True, refresh_per_second=12)
            self._live.start()

    def _drawn(self) -> Any:
        from rich.console import Group

        assert self._bars is not None
        return Group(styled(self._tail), self._bars) if self._tail else self._bars

    def output(self, card: CallProgress, text: str) -> None:
        """The lines that are complete; of a call alone also the one that is not."""
        if not card.alone:
            self._lines(card, text)
            return
        self.begin(card)
        *lines, self._tail = (self._tail + text).split("\n")
        for line in lines:
            self._terminal.err.print(styled(line), soft_wrap=True)

    def progress(self, card: CallProgress, data: Mapping[str, Any]) -> None:
        """Moves the bar."""
        self.begin(card)
        assert self._bars is not None and card.task is not None
        label = card.indent + short(f"{card.tool} {data.get('message') or ''}", 60)
        if card.alone:
            label = clean(str(data.get("message") or card.tool))
        share = data.get("progress")
        if share is None:
            self._bars.update(card.task, description=label)
        else:
            self._bars.update(card.task, description=label, total=1.0, completed=share)

    def end(self, card: CallProgress, line: str, style: str) -> None:
        """Takes the bar away, and says what came of it."""
        if card.task is not None and self._bars is not None:
            self._bars.remove_task(card.task)
            card.task = None
            self._running -= 1
        if not self._running:
            self.stop()
        super().end(card, line, style)

    def stop(self) -> None:
        """Takes the bars off the screen, and finishes the line."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._tail:
            self._terminal.err.print(styled(self._tail), soft_wrap=True)
            self._tail = ""


def _columns(console: Any) -> Progress:
    """What a bar consists of."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    return Progress(SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console)

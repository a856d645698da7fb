"""A running call on standard error: a bar and streamed output on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.cli.lines import progress
from toolcrib.cli.terminal import Terminal, clean, compact, styled

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, TaskID

    from toolcrib.types import Event


class Showing:
    """What a person sees of a call while it runs."""

    def __init__(self, terminal: Terminal) -> None:
        self._view = _Silent() if terminal.json else _Bar(terminal) if terminal.err.is_terminal else _Plain(terminal)

    def __enter__(self) -> Showing:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def begin(self, label: str) -> None:
        """Says what the call is."""
        self._view.begin(label)

    def take(self, event: Event) -> None:
        """Shows an event of the call."""
        if event.kind == "started" or (event.kind == "answered" and event.data["action"] == "accept"):
            self._view.run()
        elif event.kind == "progress":
            self._view.progress(event.data)
        elif event.kind == "output":
            self._view.output(event.data["delta"] if "delta" in event.data else f"{compact(event.data.get('value'))}\n")

    def stop(self) -> None:
        """Leaves the screen to others; the next event takes it again."""
        self._view.stop()


class _Silent:
    """Shows nothing."""

    def begin(self, label: str) -> None:
        """This is what is shown."""

    def run(self) -> None:
        """Its body runs."""

    def progress(self, data: dict[str, Any]) -> None:
        """It is so far."""

    def output(self, text: str) -> None:
        """It puts out a piece of text."""

    def stop(self) -> None:
        """The screen is needed for something else."""


class _Plain(_Silent):
    """Lines on a pipe: output as it comes, progress where it says something new."""

    def __init__(self, terminal: Terminal) -> None:
        self._file = terminal.err.file
        self._said: tuple[Any, int] = (None, -1)
        self._open = False

    def progress(self, data: dict[str, Any]) -> None:
        """A line for each message and each tenth."""
        news = (data.get("message"), int((data.get("progress") or 0) * 10))
        if news != self._said:
            self._said = news
            self._end_line()
            print(f"… {progress(data)}", file=self._file, flush=True)

    def output(self, text: str) -> None:
        """The text as it is."""
        print(text, end="", file=self._file, flush=True)
        self._open = not text.endswith("\n")

    def stop(self) -> None:
        """Ends the line."""
        self._end_line()

    def _end_line(self) -> None:
        if self._open:
            print(file=self._file, flush=True)
            self._open = False


class _Bar(_Silent):
    """A bar at the foot of a terminal; output runs above it, line by line, the unfinished line just over the bar."""

    def __init__(self, terminal: Terminal) -> None:
        self._console = terminal.err
        self._label = ""
        self._tail = ""
        self._live: Live | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def begin(self, label: str) -> None:
        """Remembers what the bar is for."""
        self._label = label

    def run(self) -> None:
        """Draws the bar, moving to and fro until it is known how far the call is."""
        if self._live is None:
            from rich.live import Live

            self._bar = self._bar or columns(self._console)
            if self._task is None:
                self._task = self._bar.add_task(clean(self._label), total=None)
            self._live = Live(get_renderable=self._drawn, console=self._console, transient=True, refresh_per_second=12)
            self._live.start()

    def _drawn(self) -> Any:
        from rich.console import Group

        assert self._bar is not None
        return Group(styled(self._tail), self._bar) if self._tail else self._bar

    def progress(self, data: dict[str, Any]) -> None:
        """Moves the bar."""
        self.run()
        assert self._bar is not None and self._task is not None
        share = data.get("progress")
        label = clean(str(data.get("message") or self._label))
        if share is None:
            self._bar.update(self._task, description=label)
        else:
            self._bar.update(self._task, description=label, total=1.0, completed=share)

    def output(self, text: str) -> None:
        """Prints the lines that are complete."""
        self.run()
        *lines, self._tail = (self._tail + text).split("\n")
        for line in lines:
            self._console.print(styled(line), soft_wrap=True)

    def stop(self) -> None:
        """Takes the bar off the screen, and finishes the line."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._tail:
            self._console.print(styled(self._tail), soft_wrap=True)
            self._tail = ""


def columns(console: Any) -> Progress:
    """What a bar consists of."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    return Progress(SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console)

"""A conversation with agents, shown as its log grows: the answer on standard output, all else on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.cli.display.run_progress import RunProgress
from toolcrib.cli.terminal import Terminal, clean, styled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolcrib.agent.conversation import Conversation
    from toolcrib.events import Event

AGENT = "bold cyan"


class ConversationDisplay:
    """What a person sees. With `names` each reply begins with who speaks."""

    def __init__(self, terminal: Terminal, thread: Conversation, *, names: bool = False) -> None:
        self.terminal = terminal
        self._thread = thread
        self._names = names and terminal.out.is_terminal
        self._cards = RunProgress(terminal)
        self._open: Any = None  # the stream on which a line is not finished
        self._shown = ""
        self._shows: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "run_started": self._run_started,
            "turn_started": self._turn_started,
            "text": self._text,
            "reasoning": self._reasoning,
            "message": self._message,
            "handover": self._handover,
            "notice": lambda data: self.remark(str(data["text"]), "yellow"),
            "compacted": lambda data: self.remark("(older messages were summarised)", "dim"),
            "run_finished": self._run_finished,
        }

    def take(self, event: Event) -> None:
        """Shows an event, which the thread knows by now."""
        show = self._shows.get(event.kind)
        if event.call is not None:
            self._call(event)
        elif show is not None:
            show(event.fields)

    def _call(self, event: Event) -> None:
        """A call goes on, in the background also while somebody speaks; its progress then is not worth a break."""
        if self._open is None or event.kind != "progress":
            if event.kind != "accepted":
                self._end_line()
            self._cards.take(event)

    def note(self, event: Event) -> None:
        """An event that is not shown, but of something that goes on."""
        if event.kind == "accepted":
            self._cards.take(event)

    def hide(self) -> None:
        """Leaves the screen to others; the next event takes it again."""
        self._end_line()
        self._cards.stop()

    def remark(self, text: str, style: str = "") -> None:
        """Something beside what the agents say."""
        self.hide()
        self.terminal.say(text, style)

    # What agents say

    def _main(self, data: Mapping[str, Any]) -> bool:
        """True if it belongs to the conversation itself, and not to an agent that works for another."""
        run = self._thread.runs.get(data.get("run") or "")
        return run is None or run.parent is None

    def _run_started(self, data: Mapping[str, Any]) -> None:
        if data["origin"] == "wake":
            self.remark(f"{data['agent']} is woken by what has ended in the background", "dim")

    def _turn_started(self, data: Mapping[str, Any]) -> None:
        if self._main(data):
            self._shown = ""

    def _text(self, data: Mapping[str, Any]) -> None:
        if not self._main(data):
            return
        self._cards.stop()
        if self._open is self.terminal.err.file:
            self._end_line()
        if self._names and not self._open:
            agent = self._thread.runs[data["run"]].agent
            self.terminal.out.print(styled(f"{agent}: ", AGENT), end="")
        self._shown += data["delta"]
        self._write(data["delta"])

    def _write(self, text: str) -> None:
        out = self.terminal.out
        print(clean(text) if out.is_terminal else text, end="", file=out.file, flush=True)
        self._open = None if text.endswith("\n") else out.file

    def _reasoning(self, data: Mapping[str, Any]) -> None:
        if self._main(data) and self.terminal.err.is_terminal:
            self._cards.stop()
            self.terminal.err.print(styled(data["delta"], "dim italic"), end="", soft_wrap=True)
            self._open = self.terminal.err.file

    def _message(self, data: Mapping[str, Any]) -> None:
        if data["role"] == "assistant" and self._main(data):
            self._end_line()

    def _end_line(self) -> None:
        if self._open is not None:
            self._open.write("\n")
            self._open.flush()
            self._open = None

    def _handover(self, data: Mapping[str, Any]) -> None:
        reason = f": {data['reason']}" if data.get("reason") else ""
        self.remark(f"{data['from']} -> {data['to']}{reason}", "magenta")

    # The end of a run

    def _run_finished(self, data: Mapping[str, Any]) -> None:
        if not self._main(data):
            return
        self.hide()
        answer = data.get("answer")
        if not isinstance(answer, str) and answer is not None:
            self.terminal.pretty(answer)
        elif answer and not self._shown.endswith(answer[-200:]):
            self.terminal.text(answer)
        if data["reason"] != "answered":
            self.terminal.say(ending(data), "yellow" if data["reason"] == "stopped" else "red")


def ending(data: Mapping[str, Any]) -> str:
    """Describe why a run ended without an answer."""
    details = (data.get("code"), data.get("detail"))
    why = ": ".join(str(one) for one in details if one and one != data["reason"])  # not `failed: failed`
    word = {"stopped": "was stopped", "failed": "failed", "cancelled": "was cancelled"}[data["reason"]]
    return f"✗ {data['agent']} {word}{f': {why}' if why else ''}"


def spent(usage: Mapping[str, Any] | None, turns: int | None = None) -> str:
    """Describe usage: turns, tokens, and the cost where it is known."""
    counts = usage or {}
    parts = [] if turns is None else [f"{turns} turn{'' if turns == 1 else 's'}"]
    cached = f" ({counts['cached']:,} cached)" if counts.get("cached") else ""
    parts.append(f"{counts.get('input', 0):,} tokens in{cached}, {counts.get('output', 0):,} out")
    if counts.get("cost") is not None:
        parts.append(f"${counts['cost']:.4f}")
    return ", ".join(parts)

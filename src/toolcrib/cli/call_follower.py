"""Follow a call from its first event to its last: show progress, ask its questions, print its result."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from toolcrib._call.history import result as read_result
from toolcrib.cli.command import FAILED, INTERRUPTED, WAITING
from toolcrib.cli.display.run_progress import RunProgress
from toolcrib.cli.follower import Follower
from toolcrib.cli.terminal import Terminal, compact
from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.events import Event
    from toolcrib.session import Session
    from toolcrib.types import Question, Result

_ADVICE = {
    "not_found": ("tools", "list"),
    "invalid_arguments": ("tools", "show", "{tool}"),
    "denied": ("tools", "show", "{tool}"),
}


async def follow(terminal: Terminal, session: Session, call: str, *, after: int = 0, yes: bool = False) -> int:
    """Follows a call until it is done or has to wait; the exit code. Ctrl-C cancels the call."""
    following = CallFollower(terminal, session, call, yes)
    try:
        return await following.run(after)
    except asyncio.CancelledError:
        return await following.cancel()


class CallFollower(Follower):
    """Follows one call and those that it makes, whose questions are asked here too."""

    def __init__(self, terminal: Terminal, session: Session, call: str, yes: bool) -> None:
        self.cards = RunProgress(terminal)
        super().__init__(terminal, session, yes=yes)
        self.call = call
        self.tool = ""

    async def run(self, after: int) -> int:
        """Follow until the call is done, or waits for an answer that nobody gives here; the exit code."""
        row = await self.session._row(self.call)
        self.tool = row.tool
        self.cards.watch(self.call, self.tool)
        try:
            async for event in self._events(max(after, row.accepted_seq - 1)):
                await self.take(event)
                if any(question.call == self.call for question in self.left.values()):
                    return WAITING
                if event.kind == "done" and event.call == self.call:
                    self.hide()
                    return await self.finish(read_result(event.data))
        finally:
            self.hide()
        raise Refused("unavailable", "The log ended before the call did", "look at it with `toolcrib sessions show`")

    async def _events(self, after: int) -> AsyncIterator[Event]:
        """What happens to the call and to those that it makes."""
        family = {self.call}
        async for event in self.session.events(after):
            if event.kind == "accepted" and event.fields.get("parent") in family and event.call is not None:
                family.add(event.call)
            if event.call in family:
                yield event

    def show(self, event: Event) -> None:
        """Show an event of the call itself."""
        if event.call == self.call:
            self.cards.take(event)

    def hide(self) -> None:
        """Clear the screen of the call's bar."""
        self.cards.stop()

    def leave(self, question: Question) -> None:
        """Leave a call that nobody here answers; where one that it made waits, this one stays and waits for it."""
        if self.terminal.json and question.call == self.call:
            waiting = {"session": self.session.id, "call": self.call, "status": "waiting"}
            self.terminal.data({**waiting, "question": dataclasses.asdict(question)})
        else:
            self.settling.explain_waiting(question)

    async def cancel(self) -> int:
        """Stops the call, and says what became of it."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        self.say_cancelling()
        await self.session.cancel(self.call)
        await self.finish(await self.session.result(self.call))
        return INTERRUPTED

    # The end

    async def finish(self, result: Result) -> int:
        """Prints the result."""
        terminal = self.terminal
        if terminal.json:
            terminal.data({"session": self.session.id, "call": self.call, **outcome(result)})
        elif result.failure is None:
            await self._print(result)
        else:
            self._explain(result)
        return FAILED if result.failure is not None else 0

    async def _print(self, result: Result) -> None:
        terminal = self.terminal
        if edited := result.metadata.get("edited"):
            terminal.say(f"Arguments were changed before running: {compact(edited)}", "yellow")
        for block in result.content:
            if "user" in (block.get("audience") or ("user",)):
                terminal.pretty(block["text"] if block.get("type") == "text" else dict(block))
        if not result.content:
            terminal.pretty(await self._whole(result))
        if terminal.err.is_terminal:
            terminal.say(f"✓ {self.tool} (session {self.session.id}, call {self.call})", "dim green")

    async def _whole(self, result: Result) -> Any:
        """What the call gave; an output that was spilled is fetched for a pipe, and named on a screen."""
        spilled = result.metadata.get("spilled")
        if spilled is None:
            return "(no output)" if result.data is None and self.terminal.out.is_terminal else result.data
        if self.terminal.out.is_terminal:
            self.terminal.say(
                f"The output has {spilled['bytes']:,} bytes; this is how it begins. A pipe gets all of it."
            )
            return result.data["spilled"]["preview"]
        return json.loads(await self.session.output(spilled["output"], 0, spilled["bytes"]))

    def _explain(self, result: Result) -> None:
        failure = result.failure
        assert failure is not None
        self.terminal.say(f"✗ {self.tool}: [{failure.code}] {failure.message}", "red")
        if failure.hint:
            self.terminal.say(f"Hint:  {failure.hint}")
        words = _ADVICE.get(failure.code, ("sessions", "show", self.session.id))
        look = self.terminal.command(*(word.format(tool=self.tool) for word in words))
        again = "it may be tried again, or look at" if failure.retryable and failure.code not in _ADVICE else "look at"
        self.terminal.say(f"Next:  {again}: {look}")


def outcome(result: Result) -> dict[str, Any]:
    """A result as JSON, with what it has."""
    data: dict[str, Any] = {"ok": result.ok, "data": result.data}
    if result.failure is not None:
        data["failure"] = dataclasses.asdict(result.failure)
    if result.content:
        data["content"] = list(result.content)
    if result.handover is not None:
        data["handover"] = dataclasses.asdict(result.handover)
    if result.metadata:
        data["metadata"] = dict(result.metadata)
    return data

"""A person, or a pipe, in a conversation with agents: lines that are typed, what begins with a slash, and Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from toolcrib.agent import Agents
from toolcrib.agent.models import NOTHING
from toolcrib.cli.agent_view import sight
from toolcrib.cli.command import FAILED, INTERRUPTED, WAITING, leave_at_once
from toolcrib.cli.conversation import ConversationFollower
from toolcrib.cli.display.conversation import spent
from toolcrib.cli.terminal import short, styled
from toolcrib.errors import Refused

LAST = 8
"""So many messages are shown of a conversation that goes on."""

HELP = {
    "/help": "this list",
    "/agents": "the agents, and who answers now",
    "/agent NAME": "another agent answers from now on",
    "/tools": "what the agent that answers now sees",
    "/answer": "asks again what was left open",
    "/usage": "what was used in this session, by agent",
    "/quit": "leaves; the session can be gone on with",
}


class InputLines:
    """Lines of standard input, read without blocking anything."""

    def __init__(self) -> None:
        self._typed = b""
        self._ended = False

    async def line(self) -> str | None:
        """The next line; None at the end."""
        while b"\n" not in self._typed and not self._ended:
            piece = await _readable(sys.stdin.fileno())
            self._typed += piece
            self._ended = not piece
        line, _, self._typed = self._typed.partition(b"\n")
        if not line and self._ended and not self._typed:
            return None
        return line.decode("utf-8", "replace").rstrip("\r")


async def _readable(stdin: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(stdin, lambda: None if ready.done() else ready.set_result(None))
    except PermissionError:  # a file is always ready, and cannot be watched
        return os.read(stdin, 65536)
    try:
        await ready
    finally:
        loop.remove_reader(stdin)
    return os.read(stdin, 65536)


class _Quit(Exception):
    """The person leaves."""


class ChatLoop:
    """One person at a terminal, or a pipe, and the agents."""

    def __init__(self, follower: ConversationFollower, agents: Agents, agent: str | None) -> None:
        self.terminal = follower.terminal
        self.follower = follower
        self.agents = agents
        self.next: str | None = agent
        self.code = 0
        self._keys = InputLines()
        self._working: asyncio.Future[None] | None = None
        self._typing: asyncio.Future[str | None] | None = None
        self._pressed = 0

    async def run(self) -> int:
        """The whole conversation; the exit code."""
        loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, self._press)
        try:
            self._greet()
            await self._show(self.follower.follow())
            while True:
                await self._once()
        except _Quit:
            await self._leave()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)
        return 0 if self.terminal.interactive and self.code != INTERRUPTED else self.code

    async def _once(self) -> None:
        """One line, or something that happened meanwhile."""
        text = await self._typed()
        if text is None:
            await self._show(self.follower.follow())
        elif text.startswith("/"):
            await self._command(*text[1:].split(maxsplit=1))
        elif text.strip():
            agent, self.next = self.next, None
            await self._show(self.follower.say(text, agent))
            if self.follower.queued:
                self.terminal.say("It is read when the question is answered; /answer asks it again.", "yellow")

    async def _show(self, work: Coroutine[Any, Any, None]) -> None:
        """Shows what the agents do. Ctrl-C cancels it, and the conversation can go on."""
        before = self.follower.stand
        self._working = asyncio.ensure_future(work)
        try:
            await self._working
        except asyncio.CancelledError:
            await self.follower.interrupt()
        except Refused as refused:
            self.follower.hide()
            self.terminal.say(f"{refused.message}{f' ({refused.hint})' if refused.hint else ''}", "red")
            self.code = FAILED
            return
        finally:
            self._working = None
        if self.follower.stand != before:
            self.follower.report()
        if self.follower.stand != before or self.follower.code == WAITING:
            self.code = self.follower.code

    # Keys

    async def _typed(self) -> str | None:
        """What the person types; None where something else came first.

        Raises:
            _Quit: the input has ended, or the person pressed Ctrl-C twice.
        """
        if self.terminal.interactive:
            self.terminal.err.print(styled("you: ", "bold green"), end="")
            self.terminal.err.file.flush()
        self._typing = typing = asyncio.ensure_future(self._keys.line())
        stirring = asyncio.ensure_future(self.follower.stirring())
        try:
            await asyncio.wait({typing, stirring}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            done = typing.done()
            for task in (typing, stirring):
                task.cancel()
            await asyncio.gather(typing, stirring, return_exceptions=True)
            self._typing = None
        if typing.cancelled():
            if self.terminal.interactive:
                self.terminal.say("")
            return self._again() if done else None
        self._pressed = 0
        line = typing.result()
        if line is None:
            raise _Quit
        return line

    def _again(self) -> str:
        """Ctrl-C at the prompt."""
        if self._pressed > 1:
            self.code = INTERRUPTED
            raise _Quit
        self.terminal.say("Ctrl-C again leaves.", "dim")
        return ""

    def _press(self) -> None:
        """Ctrl-C: cancels what the agents do; the next one leaves, at once where something does not stop."""
        self._pressed += 1
        if self._working is not None and self._pressed == 1:
            self._working.cancel()
        elif self._typing is not None:
            self._typing.cancel()
        else:
            leave_at_once()

    # Commands

    async def _command(self, name: str = "", word: str = "") -> None:
        """What begins with a slash.

        Raises:
            _Quit: the person leaves.
        """
        does = {"help": self._help, "agents": self._agents, "tools": self._tools, "usage": self._usage}
        if name in ("quit", "exit", "q"):
            raise _Quit
        if name == "agent":
            self._change(word.strip())
        elif name == "answer":
            self.follower.left.clear()
            await self._show(self.follower.follow())
        elif name in does:
            await does[name]()
        else:
            self.terminal.say(f"/{name} is nothing that I know; /help lists what there is", "red")

    async def _help(self) -> None:
        for name, what in HELP.items():
            self.terminal.text(f"{name:<12} {what}")

    async def _agents(self) -> None:
        for name, agent in self.agents.registry.items():
            mark = "*" if name == self._active else " "
            self.terminal.text(f"{mark} {name:<16} {short(agent.description)}".rstrip())

    async def _tools(self) -> None:
        agent = self.agents.registry.get(self._active)
        for one in () if agent is None else sight(self.agents, self.follower.session, agent).tools:
            self.terminal.text(f"{one.name:<24} {short(one.description)}".rstrip())

    async def _usage(self) -> None:
        for name, used in (await self.follower.used()).items():
            self.terminal.text(f"{name:<16} {spent(used.data())}")

    def _change(self, name: str) -> None:
        if name in self.agents.registry:
            self.next = name
            self.terminal.say(f"{name} answers next.", "dim")
        else:
            self.terminal.say(f"There is no agent '{name}'; there are {', '.join(self.agents.registry)}", "red")

    @property
    def _active(self) -> str:
        """Who answers the next message."""
        return self.next or self.follower.conversation.line.active or self.agents.default

    # Beginning and end

    def _greet(self) -> None:
        """Show who answers, and the last messages of a conversation that goes on."""
        requested, active = self.next, self.follower.conversation.line.active
        if active:
            self.next = None
        if self.terminal.interactive:
            self.terminal.say(
                f"{self._active} in session {self.follower.session.id}; /help lists what may be typed", "dim"
            )
        for event in self.follower.past[-LAST:]:
            who = "you" if event.fields["role"] == "user" else event.fields.get("agent", "")
            self.terminal.say(f"{who}: {short(event.fields['content'], 400)}", "dim")
        if active and requested not in (None, active):
            self.terminal.say(f"{active} answers here by now; /agent {requested} changes that", "yellow")

    async def _leave(self) -> None:
        """Says what all of it took, and how to go on."""
        if not self.terminal.interactive and self.code != INTERRUPTED:
            await self._show(self.follower.follow(background=True))
        if self.follower.last is None:
            return
        total = sum((await self.follower.used()).values(), NOTHING)
        self.terminal.say(f"All in all {spent(total.data())}", "dim")
        if not self.follower.session.crib.store.url.startswith("memory:"):
            again = self.terminal.command("chat", "--session", self.follower.session.id)
            self.terminal.say(f"Go on: {again}", "dim")

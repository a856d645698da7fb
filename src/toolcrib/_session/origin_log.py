"""What the log of a session says of where values come from: a fold of it, made once a rule asks and kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.events import (
    UNSET,
    Accepted,
    Answered,
    Done,
    Event,
    HandedOver,
    MessageAdded,
    Output,
    RunStarted,
    UserState,
    Waiting,
)
from toolcrib.origins import SCRIPT
from toolcrib.origins.flow import chosen, private, trusted
from toolcrib.origins.index import OriginIndex, leaves
from toolcrib.origins.script_calls import EndedCall, ScriptCalls

if TYPE_CHECKING:
    from toolcrib.session import Session
    from toolcrib.tool import Tool

PAGE = 1000
_KINDS = frozenset(
    one.kind for one in (Accepted, Answered, Done, HandedOver, MessageAdded, Output, RunStarted, UserState, Waiting)
) | {"settled"}


class _Call(NamedTuple):
    """What is remembered of a call until it ends."""

    tool: str
    args: Any
    agent: bool
    parent: str | None = None


def _parted(text: str) -> tuple[str, str]:
    """Return what the user says, and what they quote of others: lines that begin with `>`."""
    if ">" not in text:
        return text, ""
    lines = text.splitlines()
    quoted = [line.lstrip().startswith(">") for line in lines]
    parts = ["\n".join(line for line, of in zip(lines, quoted, strict=True) if of is which) for which in (False, True)]
    return parts[0], parts[1]


class OriginLog:
    """The index of a session's origins and how far its log was read."""

    def __init__(self, session: Session) -> None:
        self.index = OriginIndex()
        self.seen = 0
        self._session = session
        self._calls: dict[str, _Call] = {}
        self._questions: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._inner_runs: set[str] = set()
        self._instructions: set[str] = set()
        self._scripts: dict[str, ScriptCalls] = {}
        self._reading = asyncio.Lock()

    def index_for(self, parent: str | None, tool: str) -> OriginIndex:
        """Return the index as it is for a call of a tool that a script makes."""
        script = self._scripts.get(parent or "")
        return self.index if script is None else script.index_for(self.index, tool)

    async def catch_up(self, instructions: str | None = None) -> None:
        """Take in what the log says by now, and what the agent was told by whoever wrote it."""
        if instructions and instructions not in self._instructions:
            self._instructions.add(instructions)
            self.index.instructions.add(instructions)
        store, session = self._session.crib.store, self._session.id
        async with self._reading:
            await store.flush()
            whole = PAGE
            while whole == PAGE:
                page = await store.read(session, self.seen, limit=PAGE)
                whole = len(page)
                for event in page:
                    self.advance(event)

    def advance(self, event: Event) -> None:
        """Take the next event."""
        self.seen = event.seq
        if event.kind not in _KINDS:
            return
        match event.data:
            case MessageAdded() as data:
                self._message(event, data)
            case RunStarted(run=run, call=str()):
                self._inner_runs.add(run)
            case HandedOver() as data:
                if isinstance(data.message, str):
                    self.index.add_text("agent", "", data.source, "message", data.message)
            case UserState(values=values):
                for value in leaves(values):
                    self.index.user.add(str(value))
            case _:
                self._take_call(event)

    def _take_call(self, event: Event) -> None:
        call = event.call or ""
        match event.data:
            case Accepted() as data:
                self._accepted(call, data)
            case Waiting(question=question):
                self._questions[question.id] = (question.kind, question.arguments)
            case Answered() as data:
                self._answered(call, data)
            case Output() as data:
                text = data.delta if data.delta is not None else "" if data.value is UNSET else str(data.value)
                self.index.add_text("prose", call, self._tool_of(call), "output", text)
            case Done() as data:
                self._done(call, data)

    def _message(self, event: Event, data: MessageAdded) -> None:
        """The words of the user are those of a message to an agent that nobody but the user sent."""
        if data.role == "user" and data.run not in self._inner_runs:
            own, quoted = _parted(data.content)
            self.index.user.add(own)
            if quoted:
                self.index.add_text("prose", "", "a quotation", "message", quoted)
        elif data.role != "assistant":
            self.index.add_text("agent", "", data.agent or "", "message", data.content)

    def _accepted(self, call: str, data: Accepted) -> None:
        by_agent = data.agent is not None
        if data.by.kind == "user" and not by_agent:
            for value in leaves(data.args):
                self.index.user.add(str(value))
        self._calls[call] = _Call(data.tool, data.args, by_agent, data.parent)
        if data.tool == SCRIPT:
            self._scripts[call] = ScriptCalls(data.args.get("code") if isinstance(data.args, dict) else None)

    def _answered(self, call: str, data: Answered) -> None:
        """What a person gave as an answer, or put in the place of an argument, are words of theirs."""
        kind, before = self._questions.get(data.question, ("", {}))
        if data.action != "accept":
            return
        if kind == "input":
            for value in leaves(data.value):
                self.index.user.add(str(value))
        for name, value in (data.args or {}).items():
            if name not in before or before[name] != value:
                for leaf in leaves(value):
                    self.index.user.add(str(leaf))
        if data.args is not None and call in self._calls:
            self._calls[call] = self._calls[call]._replace(args=data.args)

    def _done(self, call: str, data: Done) -> None:
        made = self._calls.pop(call, None) or _Call("", None, True)
        tool = self._tool(made.tool)
        index, believed = self.index, tool is not None and trusted(tool)
        self._scripts.pop(call, None)
        if made.parent in self._scripts:
            self._scripts[made.parent].calls.append(EndedCall(call, made.tool, believed))
        index.read_private |= tool is None or private(tool)
        if made.agent and (tool is None or tool.does != "read"):
            for value in leaves(made.args):
                if isinstance(value, str):
                    index.add_text("prose", call, made.tool, "arguments", value, written=True)
        arguments = made.args if tool is None else chosen(tool, made.args)
        index.add_result(call, made.tool, arguments, None if data.data is UNSET else data.data, trusted=believed)
        for place, block in enumerate(data.content or ()):
            for value in leaves(block):
                if isinstance(value, str):
                    index.add_text("prose", call, made.tool, f"content[{place}]", value)
        if data.failure is not None:
            index.add_text("prose", call, made.tool, "failure", data.failure.message)

    def _tool_of(self, call: str) -> str:
        return self._calls[call].tool if call in self._calls else ""

    def _tool(self, id: str) -> Tool | None:
        return self._session.tool(id) or self._session.crib.catalog.some(id)

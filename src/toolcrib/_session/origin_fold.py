"""What a log says of where values come from: a fold of its events, or of the writes that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from toolcrib._call.lifecycle import PlainCall
from toolcrib.events import (
    UNSET,
    Accepted,
    Answered,
    Done,
    Event,
    EventData,
    HandedOver,
    MessageAdded,
    Output,
    RunStarted,
    UserState,
    Waiting,
)
from toolcrib.events.event import read
from toolcrib.media import media_of
from toolcrib.origins import SCRIPT
from toolcrib.origins.addresses import is_url
from toolcrib.origins.flow import ToolFlow, flow_of, private, trusted
from toolcrib.origins.index import OriginIndex, leaves
from toolcrib.origins.script_calls import EndedCall, ScriptCalls
from toolcrib.store.codec import LargeValue, Raw, encode, event_json

if TYPE_CHECKING:
    from toolcrib._call.ports import SessionPort
    from toolcrib.events import QuestionRecord
    from toolcrib.store.own_writes import LogEntry
    from toolcrib.tool import Tool

decode = msgspec.json.Decoder().decode
_KINDS = frozenset(
    one.kind for one in (Accepted, Answered, Done, HandedOver, MessageAdded, Output, RunStarted, UserState, Waiting)
) | {"settled"}


class _Call(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of a call until it ends."""

    tool: str
    args: Any
    agent: bool
    parent: str | None = None
    ran: Tool | None = None
    """The tool that ran, if this process knows."""


_UNKNOWN = _Call("", None, True)
"""A call whose beginning the log does not have."""


class _ToolTraits(NamedTuple):
    """What a tool makes of its results, worked out once."""

    tool: Tool | None
    flow: ToolFlow | None = None
    trusted: bool = False
    private: bool = True
    reads: bool = False


def _proposed(schema: Any) -> Iterator[Any]:
    """Yield the values that a form proposes: defaults, and what is the one choice."""
    if isinstance(schema, Mapping):
        for name, inner in schema.items():
            only = name == "enum" and isinstance(inner, (list, tuple)) and len(inner) == 1
            if only or name in ("default", "const"):
                yield from leaves(inner)
            elif name in ("oneOf", "anyOf") and isinstance(inner, (list, tuple)) and len(inner) > 1:
                yield from _of_choices(inner)
            else:
                yield from _proposed(inner)
    elif isinstance(schema, (list, tuple)):
        for inner in schema:
            yield from _proposed(inner)


def _of_choices(branches: Sequence[Any]) -> Iterator[Any]:
    """Yield what several choices propose: a constant of one of them is somebody's choice."""
    for branch in branches:
        if isinstance(branch, Mapping):
            yield from _proposed({name: inner for name, inner in branch.items() if name != "const"})


def _parted(text: str) -> tuple[str, str]:
    """Return what the user says, and what they quote of others: lines that begin with `>`."""
    if ">" not in text:
        return text, ""
    lines = text.splitlines()
    quoted = [line.lstrip().startswith(">") for line in lines]
    parts = ["\n".join(line for line, of in zip(lines, quoted, strict=True) if of is which) for which in (False, True)]
    return parts[0], parts[1]


def _reaching_names(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of files that hold an address: whoever made a file named it, and not who sends it on."""
    for media in map(media_of, parts):
        if media is not None and media.name and ("@" in media.name or is_url(media.name)):
            yield media.name


class OriginFold:
    """The index of a session's origins, as its log is up to the event `seen`."""

    def __init__(self, session: SessionPort) -> None:
        self.index = OriginIndex(self._lists_strangers)
        self.seen = 0
        self._session = session
        self._calls: dict[str, _Call] = {}
        self._questions: dict[str, dict[str, QuestionRecord]] = {}
        self._inner_runs: set[str] = set()
        self._scripts: dict[str, ScriptCalls] = {}
        self._traits: dict[str, _ToolTraits] = {}

    def _lists_strangers(self) -> bool:
        """Return True if the session sees a tool of a source that nobody vouches for: a model reads what it says."""
        return any(not (tool.trusted or tool.vouched) for tool in self._session.tools())

    def index_for(self, parent: str | None, tool: str) -> OriginIndex:
        """Return the index as it is for a call of a tool that a script makes."""
        script = self._scripts.get(parent or "")
        return self.index if script is None else script.index_for(self.index, tool)

    def advance(self, entry: Event | LogEntry) -> None:
        """Take the next event, or what this process put next; one that breaks it leaves the index incomplete."""
        try:
            if type(entry) is PlainCall:
                self.seen += entry.count
                self._plain_call(entry)
            elif type(entry) is tuple:
                _, call, kind, data = entry
                self.seen += 1
                if type(data) is Done and not (data.failure or data.content or data.message):
                    self._succeeded(call or "", data)
                elif kind in _KINDS:
                    self._take(call, read(kind, event_json(kind, data)))
            elif isinstance(entry, Event):
                self.seen = entry.seq
                if entry.kind in _KINDS:
                    self._take(entry.call, entry.data)
        except Exception:
            self.index.complete = False
            raise

    def _take(self, of: str | None, data: EventData) -> None:
        call = of or ""
        match data:
            case Accepted():
                self._accepted(call, _Call(data.tool, data.args, data.agent is not None, data.parent), data.by.kind)
            case Done():
                made = self._calls.pop(call, _UNKNOWN)
                self._ended(call, made, None if data.data is UNSET else data.data)
                self._done(call, made.tool, data)
            case Waiting(question=question):
                self._questions.setdefault(call, {})[question.id] = question
            case Answered():
                self._answered(call, data)
            case Output():
                text = data.delta if data.delta is not None else "" if data.value is UNSET else str(data.value)
                self.index.add_text("prose", call, self._tool_of(call), "output", text)
            case _:
                self._take_own(data)

    def _take_own(self, data: EventData) -> None:
        """Take what concerns the session itself."""
        match data:
            case MessageAdded():
                self._message(data)
            case RunStarted(run=run, call=str()):
                self._inner_runs.add(run)
            case HandedOver():
                if isinstance(data.message, str):
                    self.index.add_text("agent", "", data.source, "message", data.message)
            case UserState(values=values):
                self._add_words(values)

    def _plain_call(self, call: PlainCall) -> None:
        """Take a call as this process put it, without a look at the text that the log has of it."""
        id, marks, options = call.call, call.marks, call.options
        agent = marks.get("agent") if marks else options.agent
        tool, parent = call.tool, marks.get("parent") if marks else None
        made = _Call(tool.id, decode(call.args), agent is not None, parent, tool)
        if call.result is None:
            self._accepted(id, made, options.by.kind)
            return
        if agent is None and options.by.kind == "user":
            self._add_words(made.args)
        self._ended(id, made, decode(call.result))

    def _succeeded(self, call: str, data: Done) -> None:
        """Take the end of a call that gave data alone, without a look at its other fields."""
        json = data.data
        if json is not UNSET:
            json = (
                decode(json) if type(json) is Raw else decode(json.json if type(json) is LargeValue else encode(json))
            )
        self._ended(call, self._calls.pop(call, _UNKNOWN), None if json is UNSET else json)
        self._scripts.pop(call, None)
        self._questions.pop(call, None)

    def _message(self, data: MessageAdded) -> None:
        """The words of the user are those of a message to an agent that nobody but the user sent."""
        if data.role == "user" and data.run not in self._inner_runs:
            own, quoted = _parted(data.content)
            for name in _reaching_names(data.parts or ()):
                own = own.replace(name, " ")
                self.index.add_text("prose", "", "a file", "name", name)
            self.index.user.add(own)
            if quoted:
                self.index.add_text("prose", "", "a quotation", "message", quoted)
        elif data.role != "assistant":
            self.index.add_text("agent", "", data.agent or "", "message", data.content)

    def _accepted(self, call: str, made: _Call, by: str) -> None:
        if by == "user" and not made.agent:
            self._add_words(made.args)
        self._calls[call] = made
        if made.tool == SCRIPT:
            self._scripts[call] = ScriptCalls(made.args.get("code") if isinstance(made.args, dict) else None)

    def _answered(self, call: str, data: Answered) -> None:
        """What a person gave as an answer, or put in the place of an argument, are words of theirs."""
        question = self._questions.get(call, {}).get(data.question)
        if data.action != "accept" or question is None:
            return
        if question.kind == "input":
            self._add_words(data.value, list(_proposed(question.schema)))
        for name, value in (data.args or {}).items():
            self._add_words(value, list(leaves(question.arguments.get(name))))
        if data.args is not None and call in self._calls:
            self._calls[call] = replace(self._calls[call], args=data.args)

    def _add_words(self, value: Any, proposed: Sequence[Any] = ()) -> None:
        """What a person gives are words of theirs, but for what somebody else proposed and they left as it is."""
        for leaf in leaves(value):
            if leaf not in proposed:
                self.index.user.add(str(leaf))

    def _ended(self, call: str, made: _Call, data: Any) -> None:
        """Take the data of a result, and what an agent wrote somewhere with it."""
        index, traits = self.index, self._traits.get(made.tool)
        if traits is None or made.ran is None or traits.tool is not made.ran:
            traits = self._traits_of(made.tool)
        if made.parent is not None and made.parent in self._scripts:
            self._scripts[made.parent].calls.append(EndedCall(call, made.tool, traits.trusted))
        index.read_private |= traits.private
        if made.agent and not traits.reads:
            for value in made.args.values() if type(made.args) is dict else (made.args,):
                for text in (value,) if type(value) is str else leaves(value):
                    if type(text) is str:
                        index.add_written(text)
        flow = traits.flow
        arguments = leaves(made.args) if flow is None else flow.chosen(made.args, traits.reads)
        index.add_result(call, made.tool, arguments, data, trusted=traits.trusted)

    def _done(self, call: str, tool: str, data: Done) -> None:
        """Take what the end of a call says beside its data."""
        self._scripts.pop(call, None)
        self._questions.pop(call, None)
        for place, block in enumerate(data.content or ()):
            for value in leaves(block):
                if isinstance(value, str):
                    self.index.add_text("prose", call, tool, f"content[{place}]", value)
        if data.message:
            self.index.add_text("prose", call, tool, "message", data.message)
        if data.failure is not None:
            for text in (data.failure.message, data.failure.hint, data.failure.reason):
                if text:
                    self.index.add_text("prose", call, tool, "failure", text)

    def _tool_of(self, call: str) -> str:
        return self._calls[call].tool if call in self._calls else ""

    def _traits_of(self, id: str) -> _ToolTraits:
        tool = self._session.tool(id) or self._session.crib.catalog.some(id)
        known = self._traits.get(id)
        if known is None or known.tool is not tool:
            made = _ToolTraits(tool)
            if tool is not None:
                made = _ToolTraits(tool, flow_of(tool), trusted(tool), private(tool), tool.does == "read")
            known = self._traits[id] = made
        return known

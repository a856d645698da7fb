"""The values that a call is before it runs: `CallRequest`, then `Admitted` or `Rejected`. None of them ever changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final, get_args, get_type_hints

import msgspec

from toolcrib.origins import SCRIPT
from toolcrib.policy import Subject, Verdict
from toolcrib.schema import ParsedArguments
from toolcrib.schema.names import one_line
from toolcrib.schema.problems import ArgumentProblem
from toolcrib.schema.redaction import MASK, parted, texts_of
from toolcrib.store.codec import decode, encode
from toolcrib.tool import Tool
from toolcrib.types import By, Failure, Wake

if TYPE_CHECKING:
    from toolcrib._call.ports import AgentScope, SessionPort

WAKES: tuple[str, ...] = get_args(Wake)
CALLERS: tuple[str, ...] = get_args(get_type_hints(By)["kind"])
LOGGED = ("provider_id", "key", "background", "wake", "turn", "run", "agent", "timeout_s", "trace")
_TEXT, _FLAG = (str, "a text"), (bool, "true or false")
_KINDS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("label", "provider_id", "key", "turn", "agent"), _TEXT),
    **dict.fromkeys(("background", "cancel_on_disconnect"), _FLAG),
    "timeout_s": (int | float, "a number of seconds above 0"),
}
OPTIONS = ("by", "label", *LOGGED[:-1], "cancel_on_disconnect")


class CallOptions(msgspec.Struct, frozen=True):
    """What a caller may say beyond tool and arguments. `background` is None where the tool decides."""

    by: By = By()
    label: str = ""
    provider_id: str | None = None
    key: str | None = None
    background: bool | None = None
    wake: Wake | None = None
    turn: str | None = None
    run: Any = None
    foreign_run: str = ""
    """The run of an agent that is not the crib's own, in which calls that go round in circles are looked for."""

    agent: str | None = None
    timeout_s: float | None = None
    cancel_on_disconnect: bool = False
    trace: str | None = None
    """The span that it was made in, as `traceparent` writes it."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CallOptions:
        """Read options as a caller gives them.

        Raises:
            TypeError: one of them is unknown, or has a value that nobody knows.
        """
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"unknown option '{name}'; known: {', '.join(OPTIONS)}")
        values = {name: value for name, value in options.items() if value is not None}
        by = values.get("by")
        if by is not None and type(by) is not By:
            values["by"] = by = _by(by)
        for name, value, known in (("wake", values.get("wake"), WAKES), ("by", by and by.kind, CALLERS)):
            if value is not None and value not in known:
                raise TypeError(f"{name}: {value!r} is none of {', '.join(known)}")
        for name, value in values.items():
            kind, words = _KINDS.get(name, (object, ""))
            is_off = kind is not bool and isinstance(value, bool) and kind is not object
            if is_off or not isinstance(value, kind) or (name == "timeout_s" and not value > 0):
                raise TypeError(f"{name}: expected {words}, got {value!r}")
        if "label" in values:
            values["label"] = one_line(values["label"])
        return cls(**values)

    def logged(self) -> dict[str, Any]:
        """Return what the log says of them."""
        return {name: value for name in LOGGED if (value := getattr(self, name)) is not None}


def _by(value: Any) -> By:
    """Who asked for a call, as a mapping or a sequence says it."""
    try:
        if isinstance(value, str):
            raise TypeError
        return By(**value) if isinstance(value, Mapping) else By(*value)
    except TypeError:
        raise TypeError(f"by: expected By(kind, name), such as By('user', 'ada'), got {value!r}") from None


PLAIN = CallOptions()
"""The options of a call for which none were given."""


class Origin(msgspec.Struct, frozen=True):
    """The call that made a call: its id, the tools of all calls above, and how deep the chain is."""

    parent: str | None = None
    ancestors: tuple[str, ...] = ()
    depth: int = 0


TOP = Origin()
"""The origin of a call that no other call made."""


def subject_of(session: SessionPort) -> Subject:
    """Return what a policy may know of a session."""
    return Subject(session.id, session.owner, session.namespaces, session.folders)


class CallRequest(msgspec.Struct, frozen=True, gc=False):
    """One call as its caller wants it. `problem` says why the arguments could not be read as JSON."""

    session: SessionPort
    id: str
    name: str
    arguments: bytes
    at: float
    options: CallOptions = PLAIN
    origin: Origin = TOP
    problem: Exception | None = None

    @property
    def by(self) -> By:
        """Who called."""
        return self.options.by

    @property
    def run(self) -> Any:
        """The agent run that it belongs to, if there is one."""
        return self.options.run

    @property
    def agent(self) -> str | None:
        """The agent that called, if one did."""
        return self.options.agent

    def subject(self) -> Subject:
        """Return who asks for it as a policy sees them: the session, or an agent in it."""
        session, agent = self.session, self.options.agent
        if agent is None:
            return subject_of(session)
        log, by = session.origin_log, self.options.by
        in_script = by.kind == "tool" and by.name == SCRIPT
        direct = by.kind != "tool" or in_script
        origins = None if log is None else log.index_for(self.origin.parent, self.name) if in_script else log.index
        in_run = self.options.run is not None
        return Subject(session.id, session.owner, session.namespaces, session.folders, agent, origins, direct, in_run)

    def scope(self) -> AgentScope | None:
        """Return what the run of an agent gives to its calls; None where this is no call of a run."""
        if self.options.run is None or self.session.crib.agents is None:
            return None
        return self.session.crib.agents.scope(self)

    def facts(self, tool: Tool, attempt: int, deadline: float) -> dict[str, Any]:
        """Return who and where, as the tool's code sees it."""
        session, options = self.session, self.options
        return {
            "session": session.id,
            "owner": session.owner,
            "user": dict(session.user),
            "call": self.id,
            "tool": tool.id,
            "namespace": tool.namespace,
            "namespaces": session.namespaces,
            "agent": options.agent,
            "turn": options.turn,
            "key": options.key,
            "parent": self.origin.parent,
            "attempt": attempt,
            "deadline": deadline,
            "run": None,
            "run_id": options.run,
        }


class ToolBound(NamedTuple):
    """What holds back the calls of a tool: how many may run at once in the crib, whether those of a session follow each
    other, and the server upstream that has places of its own.
    """

    concurrency: int | None
    serial: bool
    upstream: str | None = None

    @property
    def is_limit(self) -> bool:
        """True if it limits the tool itself, on all nodes."""
        return self.concurrency is not None or self.serial


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A call that may run, or that only has to be confirmed before: all that the stages have established."""

    request: CallRequest
    tool: Tool
    parsed: ParsedArguments
    verdict: Verdict
    timeout_s: float
    background: bool
    label: str
    shown: Any = None
    secrets: tuple[str, ...] = ()
    prepared_from: str | None = None
    """The digest of the arguments as the caller gave them, where the tool has shaped them since."""
    is_plain: bool = False
    """True if there is nothing to say of it but its tool and arguments."""
    is_light: bool = False
    """True if `marks` say all that there is beside those, and nobody has to find it before it ends."""
    bound: ToolBound | None = None
    """What holds back the calls of its tool, for this one."""

    @property
    def tool_id(self) -> str:
        """The id of its tool."""
        return self.tool.id

    @property
    def arguments(self) -> bytes:
        """The JSON text of the arguments that run."""
        return self.parsed.json

    def marks(self) -> dict[str, Any] | None:
        """Return what the log says of the call beyond its tool and arguments, or None where there is nothing."""
        return _marks(self, background=self.background)

    def normalised(self) -> Mapping[str, Any]:
        """Return the arguments as plain JSON, defaults filled in."""
        return normalised(self.tool, self.parsed)

    def visible(self) -> dict[str, Any]:
        """Return the same as they may be seen."""
        values = dict(self.normalised())
        if self.shown is None:
            return values
        visible: dict[str, Any] = parted(self.tool.hidden, values)[0]
        return visible


@final
class Rejected(msgspec.Struct, frozen=True):
    """A call that may not run, and what was established before it turned out."""

    request: CallRequest
    failure: Failure
    arguments: bytes
    tool: Tool | None = None
    tool_id: str = ""
    parsed: ParsedArguments | None = None
    verdict: Verdict | None = None
    metadata: Mapping[str, Any] | None = None
    timeout_s: float = 0.0
    label: str = ""
    shown: Any = None
    secrets: tuple[str, ...] = ()
    prepared_from: str | None = None
    fault: BaseException | None = None
    """What was raised where nobody meant it."""
    is_plain: bool = False
    is_light: bool = False
    bound: ToolBound | None = None

    def marks(self) -> dict[str, Any] | None:
        """Return what the log says of the call beyond its tool and arguments, or None where there is nothing."""
        return _marks(self, background=False)

    def normalised(self) -> Mapping[str, Any]:
        """Return the arguments as plain JSON, defaults filled in; nothing of those that could not be parsed."""
        return {} if self.tool is None or self.parsed is None else normalised(self.tool, self.parsed)

    @property
    def background(self) -> bool:
        """False: it never runs, so its caller is told at once."""
        return False


class Recalled(msgspec.Struct, frozen=True):
    """A call of the log, with the tool that it means now: all that is known of it before it is admitted again."""

    request: CallRequest
    tool: Tool | None
    tool_id: str
    timeout_s: float = 0.0
    shown: Any = None
    secrets: tuple[str, ...] = ()
    parsed: ParsedArguments | None = None
    verdict: Verdict | None = None
    label: str = ""
    is_plain: bool = False
    is_light: bool = False
    bound: ToolBound | None = None

    @property
    def arguments(self) -> bytes:
        """The JSON text of its arguments."""
        return self.request.arguments

    @property
    def background(self) -> bool:
        """True if its caller did not wait for it."""
        return bool(self.request.options.background)

    def marks(self) -> None:
        """Nothing more: it is in the log."""


def _marks(call: Admitted | Rejected, *, background: bool) -> dict[str, Any] | None:
    request = call.request
    if request.options is PLAIN and request.origin is TOP and call.shown is None and call.prepared_from is None:
        return {"background": True} if background else None
    marks = request.options.logged()
    if background:
        marks["background"] = True
    elif marks.get("background"):
        del marks["background"]
    if request.origin.parent is not None:
        marks["parent"] = request.origin.parent
        if request.session.pipeline.engine is not None:  # another node may run it, where its ancestors are not
            marks["within"] = request.origin.ancestors
    if call.shown is not None:
        marks["secret"] = True
    elif call.prepared_from is not None:
        marks["given"] = call.prepared_from
    return marks or None


def normalised(tool: Tool, parsed: ParsedArguments) -> Mapping[str, Any]:
    """Return parsed arguments as plain JSON, defaults filled in."""
    assert tool.parser is not None
    return tool.parser.normalised(parsed)


def hidden(
    tool: Tool | None,
    arguments: bytes,
    secrets: tuple[str, ...] = (),
    problems: Iterable[ArgumentProblem] = (),
) -> tuple[Any, tuple[str, ...]]:
    """Return the arguments as they may be seen, None where nothing of them is secret; and all that they hide.

    With the problems that they have, nothing that does not fit is seen.
    """
    places = None if tool is None else tool.hidden
    try:
        shown, values = parted(places, decode(arguments), problems)
    except (ValueError, RecursionError):
        return MASK, secrets
    if places is None and not values and not secrets:
        return None, secrets  # it only looked as if
    return shown, texts_of(values) or secrets


def undressed(tool: Tool, arguments: bytes, label: str) -> tuple[bytes, str]:
    """A model's arguments without the topic and the nulls that its view of the schema asked for; and the label."""
    try:
        values = decode(arguments)
    except (ValueError, RecursionError):
        return arguments, label
    if not isinstance(values, dict):
        return arguments, label
    properties = tool.input_schema.get("properties", {})
    required = set(tool.input_schema.get("required", ()))
    topic = values.get("topic")
    kept = {
        name: value
        for name, value in values.items()
        if (name != "topic" or "topic" in properties)
        and not (value is None and name in properties and name not in required)
    }
    if isinstance(topic, str) and topic.strip():
        label = label or one_line(topic)
    return (arguments if len(kept) == len(values) else encode(kept)), label

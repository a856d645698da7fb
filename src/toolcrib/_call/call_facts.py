"""What is known of a call in flight from what was wanted, what the stages established, and for whom it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from toolcrib._call.failures import failure_of, masked, traced, unexpected
from toolcrib._call.request import Admitted, CallRequest, Recalled, Rejected, ToolBound
from toolcrib.schema.redaction import without
from toolcrib.store import Conflict, Row, Write
from toolcrib.store.codec import whole
from toolcrib.tool import Tool
from toolcrib.types import By, Failure, Wake

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.pipeline import Pipeline
    from toolcrib._call.ports import SessionPort
    from toolcrib.policy import Verdict
    from toolcrib.schema import ParsedArguments


class Maker(Protocol):
    """What calls are made on behalf of, and only as long as this process has it: a call, or the run of an agent."""

    @property
    def in_body(self) -> bool:
        """True if it makes calls now."""

    def guard(self, write: Write, on_conflict: Callable[[Conflict], None]) -> None:
        """Has the store refuse a write once another process has it."""

    def fence(self, row: Row | None) -> None:
        """Another process has it."""


class Caller(NamedTuple):
    """Whom a call is made for, in this process."""

    awaited: bool = False
    """Its caller waits for its end."""
    durable: bool = False
    """It is in the store before its caller hears of it."""
    maker: Maker | None = None
    """What holds it: it is refused once another process has that."""
    parent: LiveCall | None = None
    """The call that waits for it, and with which it stops."""
    on_end: Callable[[LiveCall], None] | None = None
    """Is told of its end, where an engine brought it."""


NOBODY = Caller()
AWAITED = Caller(awaited=True)
DURABLE = Caller(durable=True)


class CallFacts(msgspec.Struct, eq=False, weakref=True):
    """The part of a call in flight that only tells what it is."""

    admission: Admitted | Rejected | Recalled
    caller: Caller

    @property
    def id(self) -> str:
        """Its id."""
        return self.admission.request.id

    @property
    def pipeline(self) -> Pipeline:
        """What all calls of its crib share."""
        return self.admission.request.session.pipeline

    @property
    def maker(self) -> Maker | None:
        """What it is made on behalf of."""
        return self.caller.maker

    @property
    def request(self) -> CallRequest:
        """What its caller wants."""
        return self.admission.request

    @property
    def session(self) -> SessionPort:
        """Its session."""
        return self.admission.request.session

    @property
    def session_id(self) -> str:
        """The id of its session."""
        return self.session.id

    @property
    def accepted_at(self) -> float:
        """When it was made."""
        return self.request.at

    @property
    def name(self) -> str:
        """What its caller called the tool."""
        return whole(self.request.name)

    @property
    def by(self) -> By:
        """Who called."""
        return self.request.options.by

    @property
    def run(self) -> Any:
        """The run of an agent that it belongs to, if there is one."""
        return self.request.options.run

    @property
    def agent(self) -> str | None:
        """The agent that called, if one did."""
        return self.request.options.agent

    @property
    def wake(self) -> Wake | None:
        """What its end does to the agent, where its caller said so."""
        return self.request.options.wake

    @property
    def parent_id(self) -> str | None:
        """The id of the call that made it."""
        return self.request.origin.parent

    @property
    def taken(self) -> bool:
        """True if an engine brought it."""
        return self.caller.on_end is not None

    @property
    def nested(self) -> bool:
        """True if another call made it, whose seat it may have, or an engine brought it."""
        return self.request.origin.parent is not None or self.taken

    @property
    def durable(self) -> bool:
        """True if it is in the store before its caller hears of it."""
        call = self.admission
        if self.caller.durable or call.is_plain:
            return self.caller.durable
        # Whoever goes on with one that has a secret finds in the log only that there was one.
        options = call.request.options
        return options.key is not None or bool(options.background) or call.background or call.shown is not None

    @property
    def bound(self) -> ToolBound | None:
        """What holds back the calls of its tool."""
        return self.admission.bound

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that nothing of it tells."""
        return self.admission.secrets

    @property
    def parent(self) -> LiveCall | None:
        """The call that waits for it, and with which it stops."""
        return self.caller.parent

    @property
    def tool(self) -> Tool | None:
        """Its tool; None where there is none of that name."""
        return self.admission.tool

    @property
    def tool_id(self) -> str:
        """The id of its tool."""
        return self.admission.tool_id

    @property
    def parsed(self) -> ParsedArguments | None:
        """Its arguments as its tool takes them."""
        return self.admission.parsed

    @property
    def verdict(self) -> Verdict | None:
        """What the policy says of it."""
        return self.admission.verdict

    @property
    def timeout_s(self) -> float:
        """How long it may run."""
        return self.admission.timeout_s

    @property
    def label(self) -> str:
        """What it is called where people see it."""
        return self.admission.label or self.request.options.label

    @property
    def background(self) -> bool:
        """True if its caller does not wait for it."""
        return self.admission.background

    @property
    def shown(self) -> Any:
        """Its arguments as they may be seen, where something of them is secret."""
        return self.admission.shown

    @property
    def args(self) -> bytes:
        """The JSON text of the arguments that run."""
        return self.admission.arguments

    def normalised(self) -> Mapping[str, Any]:
        """The parsed arguments as plain JSON, defaults filled in."""
        assert self.tool is not None and self.tool.parser is not None and self.parsed is not None
        return self.tool.parser.normalised(self.parsed)

    def failure(
        self,
        code: str,
        message: str,
        *,
        retryable: bool | None = None,
        hint: str | None = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
        reason: str | None = None,
    ) -> Failure:
        """A failure of this call, without the values of secret arguments."""
        made = failure_of(self.tool, code, message, retryable=retryable, hint=hint, metadata=metadata, reason=reason)
        return masked(made, self.secrets)

    def masked(self, text: str) -> str:
        """A text without the values of secret arguments."""
        return without(self.secrets, text) if self.secrets else text

    def unexpected(self, error: BaseException) -> Failure:
        """The failure of an exception that nobody meant: its text goes to the trace alone."""
        name = self.name if self.tool is None else self.tool.name
        return unexpected(error, name, self.tool_id or self.name, self.id, self.secrets)

    def note(self, error: BaseException) -> str:
        """Writes what went wrong to the trace; the id under which it is found."""
        return traced(error, self.tool_id or self.name, self.id, self.secrets)

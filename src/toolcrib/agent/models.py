"""`Model`: the one seam to language models. A provider package is an object with one method, `respond`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from toolcrib.errors import ToolcribError

Role = Literal["system", "user", "assistant", "tool"]
RETRIED = ("rate_limited", "unavailable")
"""The codes of errors after which a model is asked again."""


class ModelCall(NamedTuple):
    """A tool call that a model makes: its own id, the name of the tool, and the text of the arguments."""

    id: str
    name: str
    args: str


class Text(NamedTuple):
    """A piece of the answer."""

    delta: str


class Reasoning(NamedTuple):
    """A piece of what a model thinks before it answers."""

    delta: str


class Usage(NamedTuple):
    """How many tokens were read and written."""

    input: int = 0
    output: int = 0

    def __add__(self, other: Any) -> Usage:
        return Usage(self.input + other[0], self.output + other[1])

    def data(self) -> dict[str, int]:
        """With the sum of both."""
        return {"input": self.input, "output": self.output, "total": self.input + self.output}


NOTHING = Usage()


class Finish(NamedTuple):
    """Why a reply ended: `stop`, `calls`, `length` where it was cut off, or the provider's own word."""

    reason: str


Delta = Text | Reasoning | ModelCall | Usage | Finish


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a model reads it; a tool's result names its call, an assistant's message the calls it made."""

    role: Role
    text: str
    calls: tuple[ModelCall, ...] = ()
    call: str | None = None


class ToolView(NamedTuple):
    """A tool as a model sees it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked. `asked` tells how often this agent was answered before in its session."""

    agent: str
    model: str | None
    messages: tuple[Message, ...]
    tools: tuple[ToolView, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    run: str = ""
    turn: int = 1
    asked: int = 0
    process: str = ""


class Model(Protocol):
    """A language model."""

    def respond(self, request: Request) -> AsyncIterator[Delta]:
        """The reply, piece by piece.

        Raises:
            ModelError: it can not be had; `rate_limited` and `unavailable` are tried again.
        """


class ModelError(ToolcribError):
    """A model that gave no reply: `code` is one of the codes of failures."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

"""`Model`: the one seam to language models. A model of one's own is a class with one method, `respond`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from toolcrib.errors import ToolcribError
from toolcrib.media import Media

Role = Literal["system", "user", "assistant", "tool"]
RETRIED = ("rate_limited", "unavailable")
"""The codes of errors after which a model is asked again."""
_PLURALS = {"image": "images", "audio": "audio", "video": "video", "document": "files"}


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
    """How many tokens were read and written.

    `cached` of those that were read came from the provider's cache. `cost` is in US dollars; None where it is unknown.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float | None = None

    @classmethod
    def read(cls, data: Mapping[str, Any] | None) -> Usage:
        """What `data` has told."""
        fields = data or {}
        return cls(fields.get("input", 0), fields.get("output", 0), fields.get("cached", 0), fields.get("cost"))

    def __add__(self, other: Any) -> Usage:
        known = [one for one in (self.cost, other.cost) if one is not None]
        cost = round(sum(known), 9) if known else None
        return Usage(self.input + other.input, self.output + other.output, self.cached + other.cached, cost)

    def data(self) -> dict[str, Any]:
        """With the sum of both; what is not known is left out."""
        fields: dict[str, Any] = {"input": self.input, "output": self.output, "total": self.input + self.output}
        if self.cached:
            fields["cached"] = self.cached
        return fields if self.cost is None else {**fields, "cost": self.cost}


NOTHING = Usage()


class Finish(NamedTuple):
    """Why a reply ended: `stop`, `calls`, `length` where it was cut off, or the provider's own word."""

    reason: str


class ProviderData(NamedTuple):
    """What a provider wants back with a reply, such as signed reasoning: JSON data that only its own model reads."""

    data: Mapping[str, Any]


Delta = Text | Reasoning | ModelCall | Usage | Finish | ProviderData


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a model reads it; a tool's result names its call, an assistant's message the calls it made.

    `kept` is what a model left with its own message. Where files are part of it, `parts` are all of it in order, and
    `text` has placeholders for them.
    """

    role: Role
    text: str
    calls: tuple[ModelCall, ...] = ()
    call: str | None = None
    kept: Mapping[str, Any] | None = None
    parts: tuple[str | Media, ...] = ()


class MediaIntake(NamedTuple):
    """The files that a model takes: media types such as `image/png` or `image/*`, the most bytes of one and of all."""

    types: frozenset[str] = frozenset()
    largest: int = 0
    total: int = 0

    def takes(self, media: Media) -> bool:
        """True if it takes files of that type."""
        return media.mime_type in self.types or f"{media.mime_type.partition('/')[0]}/*" in self.types

    def refusal(self, media: Media) -> str:
        """Why it does not take a file: for its type, or because it takes none of that kind."""
        kinds = {Media(type, 0).kind for type in self.types}
        return f"this model takes no {media.mime_type if media.kind in kinds else _PLURALS[media.kind]}"


class ToolView(NamedTuple):
    """A tool as a model sees it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What a model is asked. `earlier_requests` is how often the model answered this agent before in its session."""

    agent: str
    model: str | None
    messages: tuple[Message, ...]
    tools: tuple[ToolView, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    run: str = ""
    turn: int = 1
    earlier_requests: int = 0
    process: str = ""


class Model(ABC):
    """A language model. Only `respond` has to be written."""

    name: str = ""
    """What telemetry calls it; without one, the model of each request."""

    @abstractmethod
    def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """The reply, piece by piece.

        Raises:
            ModelError: it cannot be had; `rate_limited` and `unavailable` are tried again.
        """

    def problems(self, settings: Mapping[str, Any]) -> Iterable[tuple[str | None, str, str | None]]:
        """What can be said against its name (None) or a setting, without asking it: which, why, and what was meant."""
        return ()

    async def window(self, settings: Mapping[str, Any]) -> int | None:
        """How many tokens it takes in one request; None where nobody knows."""
        return None

    async def media(self, settings: Mapping[str, Any]) -> MediaIntake:
        """The files that it takes; text alone, unless said."""
        return MediaIntake()


class ModelError(ToolcribError):
    """A model that gave no reply: `code` is one of the codes of failures.

    `retry_after` are the seconds after which the provider wants to be asked again, where it says so.
    """

    def __init__(self, code: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after

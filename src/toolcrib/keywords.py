"""The keyword arguments of calls, answers and tools, so that editors complete them and type checkers know them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from toolcrib.types import Annotations, By, Effect, Knowledge, Limits, Missed, Wake


class CallKeywords(TypedDict, total=False):
    """What the caller of a tool may say beyond its arguments."""

    by: By | Mapping[str, Any] | Sequence[Any] | None
    """Who calls, where it is not the owner."""
    label: str | None
    """What the call is shown as."""
    provider_id: str | None
    """The id that a model gave to the call."""
    key: str | None
    """A second call with the same key finds the first."""
    background: bool | None
    """Return at once; the result comes later. The tool decides where nothing is said."""
    wake: Wake | None
    """What the end of a background call does to the agent."""
    turn: str | None
    """The model turn that it belongs to."""
    run: str | None
    """The run that it belongs to."""
    agent: str | None
    """The agent that calls."""
    timeout_s: float | None
    """How long it may take, where that is less than the tool's own limit."""
    cancel_on_disconnect: bool | None
    """Stop it when its caller goes away."""


class ScheduleKeywords(TypedDict, total=False):
    """When a scheduled call is made: one of the first four, at once without any of them."""

    after: float | timedelta | None
    """So many seconds from now."""
    at: float | datetime | None
    """At that time, in seconds since 1970 or with its time zone."""
    when: str | None
    """When that call of the session has ended, however it ends."""
    cron: str | None
    """Again and again, by a cron expression."""
    timezone: str
    """The time zone of the cron expression; UTC without it."""
    missed: Missed
    """What becomes of runs that nothing was there to make: `skip`, `once` (without a word) or `all`."""
    limit: int
    """How many missed runs `all` makes at the most, the last ones."""
    label: str
    """What the call is shown as."""
    key: str | None
    """A second schedule with the same key finds the first."""


class AnswerKeywords(TypedDict, total=False):
    """What may be said with an answer beyond its value."""

    arguments: Any
    """The arguments that run instead of those that were asked about."""
    reason: str | None
    """Why, for the log and the model."""
    actor: str | None
    """Who answers, where it is not the owner."""
    key: str | None
    """An answer with the same key is given once."""
    scope: Literal["once", "session"]
    """`session`: what the question offers is allowed for the whole session."""


class ToolKeywords(TypedDict, total=False):
    """The fields of a tool that is made of a function, and short forms of its annotations and limits."""

    name: str | None
    description: str
    namespace: str
    labels: tuple[str, ...]
    title: str | None
    category: str | None
    tags: Sequence[str]
    input_schema: Mapping[str, Any]
    output_schema: Any
    annotations: Annotations | None
    capabilities: Sequence[str]
    effect: Effect | None
    primary: str | None
    limits: Limits
    serial: bool
    isolate: bool
    background: bool
    wake: Wake
    deliver: Literal["final", "all"]
    knowledge: Knowledge
    metadata: Mapping[str, Any]
    prepare: Callable[[Any, Mapping[str, Any]], Awaitable[Mapping[str, Any]]] | None
    validate: Callable[..., Any] | None
    resumes: bool
    reconcile: Callable[..., Any] | None
    on_conflict: Literal["fail", "retry"]
    source: str
    target: str | None
    trusted: bool
    vouched: bool

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    requires_confirmation: bool
    timeout: float | None
    output_bytes: int | None
    concurrency: int | None
    wait_s: float | None
    repeat: int | None
    idle_timeout: float | None
    rate: str | None
    examples: Sequence[Any]
    anti_patterns: Sequence[Any]
    deps: Sequence[str]

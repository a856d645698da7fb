"""What a program says about its MCP server."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib import __version__


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """How the server shows itself, and its bounds.

    Over HTTP the limits of the server hold for its clients too (`ServeLimits`); `largest` is of a message on standard
    input. `secret` seals what clients carry for the server; without one the server keeps one in the store of the crib.
    `task_after_s` is how long a call may take before a client that knows tasks gets one instead of the result;
    `stream_s` how long a stream to a client of an older revision stays open before it is asked to come back;
    `state_s` how long a client may take to answer; `idle_s` how long a session of an older revision may be silent. Of
    these there are so many as `sessions`, and `sessions_each` of one principal: a new one takes the place of the one
    that was silent for longest.
    """

    name: str = "toolcrib"
    version: str = __version__
    title: str | None = None
    instructions: str | None = None
    namespaces: tuple[str, ...] | None = None
    secret: bytes | None = None
    ttl_ms: int = 60_000
    page: int = 1000
    largest: int = 4 * 1024 * 1024
    task_after_s: float = 10.0
    poll_ms: int = 1000
    stream_s: float = 300.0
    state_s: float = 3600.0
    idle_s: float = 3600.0
    sessions: int = 50_000
    sessions_each: int = 1_000

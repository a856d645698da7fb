"""What each framework does for a probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from toolcrib.session import Session


class Turn(NamedTuple):
    """What a turn came to: what the model read of its calls, and whether it waits for somebody."""

    texts: tuple[str, ...]
    waits: bool = False


@dataclass(frozen=True)
class Setting:
    """A probe's agent: its tools, whether they have to be approved, and the session where there is a crib.

    With `out` the tools are those of the crib; else the framework's own pass through it. With `idle` they pass through
    a hook of the framework that does nothing. Without `keeps` the framework need not keep its state.
    """

    folder: Path
    functions: tuple[Callable[..., Any], ...]
    asks: bool = False
    session: Session | None = None
    out: bool = False
    timeout_s: float | None = None
    keeps: bool = True
    idle: bool = False


class Driver(Protocol):
    """An agent of one framework whose model is scripted and whose state lies in a folder."""

    can_edit: bool

    def __init__(self, setting: Setting) -> None: ...

    async def start(self, *calls: tuple[str, dict[str, Any]]) -> Turn:
        """Begin a conversation in which the model makes these calls and then ends."""

    async def resume(self, edited: dict[str, Any] | None = None) -> Turn:
        """Go on from what was kept, with everything approved as the framework does it."""

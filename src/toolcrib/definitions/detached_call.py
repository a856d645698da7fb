"""A call that nobody made, for looking at a tool outside of any session."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from toolcrib.context import Deps, OutsideCrib
from toolcrib.errors import ToolFailure
from toolcrib.state import Snapshot
from toolcrib.types import Answer, Result


class DetachedCall(OutsideCrib):
    """It tells nobody, remembers nothing, and can neither ask nor call."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {"owner": "", "session": "", "call": "alone"}
        self.deps = Deps()
        self.stopping: str | None = None
        self.fenced = False

    def heed(self) -> None:
        """No other process takes it over."""

    def snapshot(self) -> Snapshot:
        """There is no state."""
        return Snapshot({}, 0)

    def told(self, kind: str, data: dict[str, Any]) -> None:
        """Nobody listens."""

    async def step(self, key: str, do: Callable[[], Any]) -> Any:
        """Nothing is recorded."""
        value = do()
        return await value if inspect.isawaitable(value) else value

    async def ask(self, question: dict[str, Any]) -> Answer:
        """Nobody answers."""
        raise ToolFailure("failed", "It asks, and nobody is there to answer")

    async def child(self, tool: str, args: Any) -> Result:
        """There is no session to call in."""
        raise ToolFailure("failed", "It calls other tools, and there is no session")

    async def stopped(self) -> None:
        """Nobody stops it but by cancelling."""
        await asyncio.Event().wait()

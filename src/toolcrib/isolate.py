"""Plain functions in a process of their own."""

from __future__ import annotations

from typing import Any

from toolcrib.live import LiveCall


async def run_isolated(live: LiveCall) -> Any:
    """Runs the call's tool in its own process."""
    raise NotImplementedError

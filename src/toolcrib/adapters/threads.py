"""The event loop of a crib, for agents that run without `await` in a thread beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long the event loop of the crib may be busy before an agent in a thread takes it as blocked."""

BLOCKED = (
    "An agent that is invoked without await needs a thread beside the event loop of the crib: make the middleware "
    "where the crib runs, and call `await asyncio.to_thread(agent.invoke, ...)`, or use `await agent.ainvoke(...)`."
)


def wait(loop: asyncio.AbstractEventLoop | None, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what comes of something that the loop of the crib does.

    Raises:
        RuntimeError: there is no such loop, or it is blocked, most likely by this very agent.
    """
    answers = threading.Event()
    if loop is not None:
        loop.call_soon_threadsafe(answers.set)
    if loop is None or not answers.wait(PATIENCE_S):
        raise RuntimeError(BLOCKED)
    return asyncio.run_coroutine_threadsafe(work(), loop).result()

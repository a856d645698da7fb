"""Tasks that do not end when they are told to: they are left to themselves, so that nobody waits for them for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

PART_S = 5.0
"""How long a part of a crib has to stop."""

log = logging.getLogger("toolcrib")


def forsake(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Takes tasks off the list of those that `asyncio.run` waits for when it ends.

    A body that swallows its cancellation would keep the whole program from ending: there, and again when its coroutine
    is closed with the interpreter. So it is never freed.
    """
    import ctypes  # rarely needed, and not light

    for task in tasks:
        if not task.done():
            asyncio._unregister_task(task)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


async def bounded(work: Coroutine[Any, Any, None], seconds: float, what: str) -> None:
    """Waits for a part of the stop, but not for ever: the others have their turn too."""
    task = asyncio.get_running_loop().create_task(work)
    _, pending = await asyncio.wait({task}, timeout=seconds)
    if not pending:
        task.result()
        return
    log.warning("%s did not stop within %g s: it is left as it is", what, seconds)
    task.cancel()
    await asyncio.wait({task}, timeout=0.1)
    forsake({task})

"""Runs Python of files: the function that is named like the id, or a script that sets `result`; `args` is a global."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcrib.sandbox import INPUT, Role, SandboxError, SandboxResult
from toolcrib.sandbox.monty import MontyInterpreter
from toolcrib.sandbox.pool import WorkerPool

HEED_S = 0.03
"""The interpreter ends by itself what takes too long; it is killed when it has not done so this much later."""


class Python:
    """The Monty interpreter in processes, each behind a worker thread; a `Sandbox`."""

    def __init__(self) -> None:
        self._pool = WorkerPool(MontyInterpreter)

    async def run(
        self, code: str, args: bytes, *, name: str, role: Role, timeout_s: float, memory_bytes: int
    ) -> SandboxResult:
        """The value that the code gives.

        Raises:
            Fault: it gave none.
        """
        if len(args) > INPUT:
            raise SandboxError("too_large")
        inputs = _given(args, role)
        return await self._pool.do(
            lambda machine: machine.run(code, inputs, name, timeout_s, memory_bytes), timeout_s + HEED_S
        )

    async def check(self, code: str) -> str | None:
        """What is wrong with the syntax of the code, without running it; None where nothing is."""
        return await self._pool.check(lambda machine: machine.check(code))

    async def close(self) -> None:
        """Ends its threads and processes."""
        await self._pool.close()


def _given(args: bytes, role: Role) -> Any:
    """What the code sees as `args`.

    Raises:
        Fault: they are nested too deeply to be read.
    """
    try:
        value = msgspec.json.decode(args) if args.strip() else None
    except RecursionError:
        raise SandboxError("too_large") from None
    value = {} if value is None else value
    if role == "helper":
        return value
    return {**value, "args": value} if isinstance(value, dict) else {"args": value}

"""Readers of streams. A stream may be open for days, so its reader's key is checked again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from toolcrib.serve.asgi import ClientDisconnected
from toolcrib.serve.principal import Guard, refused

if TYPE_CHECKING:
    from toolcrib.serve.api.app import Api
    from toolcrib.serve.api.request import ApiRequest


class Readers:
    """The streams that are open. One task looks at all of them, and none while there are none."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._open: dict[asyncio.Task[Any], ApiRequest] = {}
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def of(self, request: ApiRequest) -> AsyncIterator[None]:
        """Counts a stream while it is open; it ends soon after its reader's key was revoked or has expired.

        Raises:
            ApiError: there are too many.
        """
        task = asyncio.current_task()
        assert task is not None
        with self._api.gate.stream(request.principal):
            self._join(task, request)
            try:
                yield
            except asyncio.CancelledError:
                if task in self._open or self._api.guard is None:  # it was somebody else
                    raise
                task.uncancel()
                with suppress(ClientDisconnected, OSError, RuntimeError):
                    await request.send({"type": "http.response.body", "body": b""})
            finally:
                self._open.pop(task, None)

    def _join(self, task: asyncio.Task[Any], request: ApiRequest) -> None:
        guard = self._api.guard
        if guard is not None:
            self._open[task] = request
            if self._looking is None:
                self._looking = asyncio.get_running_loop().create_task(self._look(guard))

    async def _look(self, guard: Guard) -> None:
        while self._open:
            await asyncio.sleep(self._api.limits.ping_s)
            for task, request in list(self._open.items()):
                if await refused(guard, request.headers) is not None and self._open.pop(task, None) is not None:
                    task.cancel()
        self._looking = None

    async def stop(self) -> None:
        """Looks no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
            self._looking = None

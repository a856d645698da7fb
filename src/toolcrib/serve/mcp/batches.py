"""Several messages in one HTTP request, which the revision 2025-03-26 has and no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from toolcrib.serve.mcp import wire
from toolcrib.serve.mcp.request import McpReply
from toolcrib.serve.mcp.wire import INTERNAL, McpMessage, ProtocolError

if TYPE_CHECKING:
    from toolcrib.serve.mcp.http import HttpExchange
    from toolcrib.serve.mcp.legacy import LegacyConnection, LegacyHandler


log = logging.getLogger("toolcrib.serve")


class BatchAnswer:
    """The answers to one batch: a list, or events where messages of the server came before them."""

    def __init__(self, legacy: LegacyHandler, connection: LegacyConnection, exchange: HttpExchange) -> None:
        self._legacy = legacy
        self._connection = connection
        self._exchange = exchange

    async def send(self, parts: Sequence[bytes]) -> None:
        """Does what the messages say, all at once, and answers when all of it is done."""
        answers: list[bytes] = []

        async def work() -> McpReply:
            done = await asyncio.gather(*(self._one(part) for part in parts))
            answers.extend(one for one in done if one is not None)
            return McpReply(b"")

        await self._exchange.attend(work())
        if not answers:
            await self._exchange.finish(202, b"")
        elif not self._exchange.streams:
            await self._exchange.finish(200, b"[%b]" % b",".join(answers))
        else:
            for number, answer in enumerate(answers, 1):
                await self._exchange.event(wire.event(answer), more=number < len(answers))

    async def _one(self, part: bytes) -> bytes | None:
        try:
            message = wire.read(part)
        except ProtocolError as wrong:
            return wire.error(wire.id_of(part), wrong)
        if message.method is UNSET:
            await self._legacy.responded(message, self._connection)
        elif message.id is UNSET:
            await self._legacy.notified(message, self._connection)
        else:
            return await self._answered(message)
        return None

    async def _answered(self, message: McpMessage) -> bytes:
        id = message.id if isinstance(message.id, str | int) else None
        try:
            request = self._legacy.request(message, self._connection)
            request.line = self._exchange
            self._connection.requests[request.id] = request
            try:
                answer = await self._legacy.do(request)
                reply = answer if isinstance(answer, McpReply) else await answer
            finally:
                self._connection.requests.pop(request.id, None)
            return wire.answer(id, self._legacy.answered(reply))
        except ProtocolError as wrong:
            return wire.error(id, wrong)
        except Exception:
            log.exception("request %s of a batch could not be answered", message.method)
            return wire.error(id, ProtocolError(INTERNAL, "Internal error"))

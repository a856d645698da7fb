"""What a server asks and tells by itself over one connection, and whose call that belongs to."""

from __future__ import annotations

import logging

import mcp_types as types
from mcp.client.session import ClientRequestContext
from pydantic import ValidationError

from toolcrib.errors import ToolFailure
from toolcrib.sources.mcp.questions import (
    ROOTS,
    SAMPLING,
    ClientRequest,
    PendingRequest,
    ServerQuestion,
    exchange_of_this_context,
)
from toolcrib.sources.mcp.settings import McpClientSettings

UNCLEAR = "It cannot be told which call asks"

log = logging.getLogger("toolcrib.mcp")


class ServerRequests:
    """The calls under way on one connection, and who of them hears what the server says meanwhile."""

    def __init__(self, settings: McpClientSettings) -> None:
        self._settings = settings
        self.exchanges: set[PendingRequest] = set()
        self.abandoned: set[str] = set()  # sessions of calls that the server may still work on

    async def log_line(self, params: types.LoggingMessageNotificationParams) -> None:
        """Passes a log line on to the call that it belongs to."""
        exchange = self._whose()
        if exchange is None:
            log.info("%s said something, and it cannot be told to which call", self._settings.name)
            return
        line = {"level": params.level, "data": params.data, "logger": params.logger}
        exchange.ctx.activity("log", {name: value for name, value in line.items() if value is not None})

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Puts a question in the middle of a call, of a server that waits for the answer."""
        try:
            question = ServerQuestion.of(params.model_dump(by_alias=True, mode="json", exclude_none=True))
            return types.ElicitResult.model_validate(await self._asking().asked(question))
        except ToolFailure as error:
            return types.ErrorData(code=types.INVALID_PARAMS, message=error.message)

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools | types.ErrorData:
        """Has a model take a turn for the server: that of the settings, else the client's."""
        request = ClientRequest(SAMPLING, params.model_dump(by_alias=True, mode="json", exclude_none=True))
        try:
            exchange, sampler = self._asking(), self._settings.sampler
            raw = await (exchange.asked(request) if sampler is None else sampler(exchange.ctx, request.params))
            kind = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
            return kind.model_validate(raw)
        except ToolFailure as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=error.message)
        except ValidationError:
            return types.ErrorData(code=types.INTERNAL_ERROR, message="The turn of the model is not a valid message")

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        """Asks the client which folders it works in."""
        try:
            return types.ListRootsResult.model_validate(await self._asking().asked(ClientRequest(ROOTS, {})))
        except ToolFailure as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=error.message)
        except ValidationError:
            return types.ErrorData(code=types.INTERNAL_ERROR, message="The roots of the client are not valid")

    def _asking(self) -> PendingRequest:
        exchange = self._whose()
        if exchange is None:
            log.warning("%s asked something, and it cannot be told which call asks: nobody was", self._settings.name)
            raise ToolFailure("failed", UNCLEAR)
        return exchange

    def _whose(self) -> PendingRequest | None:
        """The call that a message belongs to.

        Over HTTP it came with the answer of one call. On a pipe nothing says so. If all calls that the server may be
        working on are of one session it is the last of them that waits for no answer; otherwise nobody's, since one
        owner must not be asked what another was meant to be.
        """
        exchange = exchange_of_this_context.get()
        if exchange is not None:
            return exchange
        sessions = {exchange.ctx.session for exchange in self.exchanges} | self.abandoned
        if len(sessions) != 1:
            return None
        return max(self.exchanges, key=lambda exchange: (not exchange.asking, exchange.number), default=None)

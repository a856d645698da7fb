"""What goes with the requests of one owner to a server that is used with an account."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.auth import OAuthFlowError

from toolcrib.errors import ToolFailure

if TYPE_CHECKING:
    from toolcrib.sources.mcp.account import AccountBinding


class AccountAuth(httpx2.Auth):
    """Puts the token of an owner into each request, and has it renewed once where the server does not take it."""

    def __init__(self, binding: AccountBinding, owner: str) -> None:
        self._binding = binding
        self._owner = owner
        self._nonce: str | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """One request."""
        token = await self._token()
        if token is None:  # the server may let it in all the same, and says what it wants where it does not
            response = yield request
            self._heed(response)
            return
        response = yield self._signed(request, token)
        if response.status_code == 401 and token.bound and self._newer(response):
            response = yield self._signed(request, token)
        if response.status_code == 401:
            self._heed(response)
            token = await self._token(token.value)
            if token is None:
                return
            response = yield self._signed(request, token)
        self._heed(response)
        self._newer(response)

    def _heed(self, response: httpx2.Response) -> None:
        if response.status_code in (401, 403):
            self._binding.challenged(self._owner, response.headers.get("www-authenticate", ""))

    def _signed(self, request: httpx2.Request, token: Any) -> httpx2.Request:
        request.headers.update(token.headers(request.method, str(request.url), self._nonce))
        return request

    def _newer(self, response: httpx2.Response) -> bool:
        """Keep the nonce of a response; whether it is another than before."""
        before, self._nonce = self._nonce, response.headers.get("dpop-nonce", self._nonce)
        return self._nonce != before

    async def _token(self, refused: str | None = None) -> Any:
        try:
            return await self._binding.token(self._owner, refused)
        except ToolFailure as error:
            raise OAuthFlowError(error.message) from None

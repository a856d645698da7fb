"""Tokens: how they are asked for, and what is kept of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct

from toolcrib.accounts.proof import ASSERTION, assertion, proof
from toolcrib.accounts.web import AuthorizationError, AuthorizationWeb, error_of
from toolcrib.http import Response

EARLY_S = 30.0


class ClientIdentity(Struct, frozen=True, omit_defaults=True):
    """Who this program is at an authorization server."""

    id: str
    secret: str | None = None
    method: str = "none"
    issuer: str = ""
    redirect_uri: str = ""
    private_key: str | None = None
    signing_alg: str = "ES256"

    def __repr__(self) -> str:
        return f"ClientIdentity({self.id!r})"


class TokenSet(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one owner may use a service with; kept encrypted, and shown to nobody."""

    access_token: str
    token_type: str = "Bearer"
    refresh_token: str | None = None
    expires_at: float | None = None
    scope: str | None = None
    token_endpoint: str = ""
    revocation_endpoint: str | None = None
    issuer: str = ""
    resource: str | None = None
    client: ClientIdentity | None = None
    dpop_key: str | None = None

    def __repr__(self) -> str:
        return "TokenSet(...)"

    def holds(self, now: float) -> bool:
        """True if it has not expired, nor is about to."""
        return self.expires_at is None or now < self.expires_at - EARLY_S

    def covers(self, scope: str | None) -> bool:
        """True if it has these scopes, as far as its server said which it has."""
        return not scope or self.scope is None or {*scope.split()} <= {*self.scope.split()}

    def headers(self, method: str, url: str, nonce: str | None = None) -> dict[str, str]:
        """Return the headers of one request to the service."""
        if self.dpop_key is None:
            return {"Authorization": f"Bearer {self.access_token}"}
        signed = proof(self.dpop_key, method, url, token=self.access_token, nonce=nonce)
        return {"Authorization": f"DPoP {self.access_token}", "DPoP": signed}


class TokenEndpoint(NamedTuple):
    """Where a client asks for tokens, and how they are bound."""

    web: AuthorizationWeb
    url: str
    client: ClientIdentity | None = None
    dpop_key: str | None = None

    async def ask(self, form: Mapping[str, str], what: str) -> dict[str, Any]:
        """Return what the server gives for a form.

        Raises:
            AuthorizationError: it refuses, or what it gives is no token.
        """
        nonce = None
        for _ in range(2):
            response = await self._send(form, nonce)
            if response.status == 200:
                return _read(response, what)
            error = error_of(response, what)
            nonce = response.headers.get("dpop-nonce")
            if error.code != "use_dpop_nonce" or nonce is None or self.dpop_key is None:
                break
        raise error

    async def tell(self, form: Mapping[str, str]) -> None:
        """Send a form whose answer does not matter.

        Raises:
            AuthorizationError: the server cannot be reached.
        """
        await self._send(form, None)

    async def _send(self, form: Mapping[str, str], nonce: str | None) -> Response:
        data, headers = self._authenticated(dict(form))
        if self.dpop_key is not None:
            headers["DPoP"] = proof(self.dpop_key, "POST", self.url, nonce=nonce)
        return await self.web.post(self.url, data, headers)

    def _authenticated(self, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        client = self.client
        if client is None:
            return form, {}
        match client.method:
            case "client_secret_basic":
                pair = f"{quote(client.id, safe='')}:{quote(client.secret or '', safe='')}"
                return form, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
            case "client_secret_post":
                return {**form, "client_id": client.id, "client_secret": client.secret or ""}, {}
            case "private_key_jwt":
                audience = client.issuer or self.url
                signed = assertion(client.private_key or "", client.signing_alg, client.id, audience)
                return {
                    **form,
                    "client_id": client.id,
                    "client_assertion_type": ASSERTION,
                    "client_assertion": signed,
                }, {}
            case "none":
                return {**form, "client_id": client.id}, {}
            case method:
                raise AuthorizationError(
                    f"The server wants clients to prove who they are by {method}, which is not known"
                )


def _read(response: Response, what: str) -> dict[str, Any]:
    try:
        data = msgspec.json.decode(response.body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        data = {}
    if not isinstance(data.get("access_token"), str) or not data["access_token"]:
        raise error_of(response, what)
    return data


def token_set(
    data: Mapping[str, Any], endpoint: TokenEndpoint, now: float, before: TokenSet | None = None, **more: Any
) -> TokenSet:
    """Return what a server gave `now` as it is kept; what it does not say again stays as it was `before`.

    Raises:
        AuthorizationError: the token is of a kind that nobody knows.
    """
    kind = str(data.get("token_type") or "Bearer")
    if kind.lower() not in ("bearer", "dpop"):
        raise AuthorizationError(f"The server gave a token of the kind {kind[:32]!r}, which is not known")
    lasts, scope, refresh = data.get("expires_in"), data.get("scope"), data.get("refresh_token")
    seconds = (
        float(lasts) if isinstance(lasts, int | float | str) and str(lasts).replace(".", "", 1).isdigit() else None
    )
    fields: dict[str, Any] = {
        "access_token": data["access_token"],
        "token_type": "DPoP" if kind.lower() == "dpop" else "Bearer",
        "expires_at": None if seconds is None else now + seconds,
        "dpop_key": endpoint.dpop_key if kind.lower() == "dpop" else None,
    }
    fields |= {"scope": scope} if isinstance(scope, str) else {}
    fields |= {"refresh_token": refresh} if isinstance(refresh, str) and refresh else {}
    if before is not None:
        return msgspec.structs.replace(before, **fields, **more)
    return TokenSet(token_endpoint=endpoint.url, client=endpoint.client, **fields, **more)

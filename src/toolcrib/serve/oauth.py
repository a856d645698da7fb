"""An OAuth 2.1 resource server: tokens of authorization servers, checked for this very resource (RFC 9728, RFC 8707).

Signatures, times, issuer and audience are PyJWT's to check. Nothing is issued here: that is for the authorization
server, which the metadata document names.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolcrib.serve.principal import Headers, NotAdmitted, Principal, bearer

if TYPE_CHECKING:
    import jwt

ALGORITHMS = ("RS256", "ES256", "PS256", "EdDSA")
LEEWAY_S = 30
MOST_KNOWN = 10_000
_WELL_KNOWN = "/.well-known/oauth-protected-resource"


class OAuth:
    """A guard that takes JWT access tokens.

    `resource` is the address of this server as clients know it, which tokens have to be meant for. `issuer` signs them
    with the keys at `jwks`, an address or the document itself. Who lacks one of `scopes` is told which.
    """

    def __init__(self, resource: str, issuer: str, jwks: str | Mapping[str, Any], scopes: Sequence[str] = ()) -> None:
        self._resource = resource
        self._issuer = issuer
        self._jwks = jwks
        self._scopes = tuple(scopes)
        self._client: jwt.PyJWKClient | None = None
        self._known: dict[bytes, tuple[Principal, float]] = {}
        where = urlsplit(resource)
        self._path = _WELL_KNOWN + where.path.rstrip("/")
        self._told = f"{where.scheme}://{where.netloc}{self._path}"

    @property
    def documents(self) -> Mapping[str, Any]:
        """The metadata of the resource, at its own path and at that of the host."""
        said: dict[str, Any] = {
            "resource": self._resource,
            "authorization_servers": [self._issuer],
            "bearer_methods_supported": ["header"],
        }
        if self._scopes:
            said["scopes_supported"] = list(self._scopes)
        return {self._path: said, _WELL_KNOWN: said}

    async def admit(self, headers: Headers) -> Principal:
        """Who the token of a request stands for.

        Raises:
            NotAdmitted: 401 without a token that holds, 403 where it lacks a scope.
        """
        token = bearer(headers)
        if token is None:
            raise NotAdmitted(401, "Send an access token", self._challenge())
        mark = hashlib.sha256(token.encode()).digest()
        principal, until = self._known.get(mark, (None, 0.0))
        if principal is None or time.time() >= until:
            principal, until = await self._read(token)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[mark] = principal, until
        if not principal.scopes.issuperset(self._scopes):
            raise NotAdmitted(403, "The token lacks a scope", self._challenge("insufficient_scope"))
        return principal

    def _challenge(self, error: str | None = None) -> str:
        parts = [f'resource_metadata="{self._told}"']
        if self._scopes:
            parts.append(f'scope="{" ".join(self._scopes)}"')
        if error is not None:
            parts.insert(0, f'error="{error}"')
        return "Bearer " + ", ".join(parts)

    async def _read(self, token: str) -> tuple[Principal, float]:
        from jwt import PyJWTError

        try:
            claims = await asyncio.to_thread(self._claims, token)  # keys may have to be fetched
        except PyJWTError as error:
            raise NotAdmitted(401, f"The token does not hold: {error}", self._challenge("invalid_token")) from None
        scopes = claims.get("scope") or claims.get("scp") or ""
        given = scopes.split() if isinstance(scopes, str) else [str(one) for one in scopes]
        return Principal(f"{claims['iss']}#{claims['sub']}", None, frozenset(given)), float(claims["exp"])

    def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        return jwt.decode(
            token,
            self._key(token),
            algorithms=list(ALGORITHMS),
            audience=self._resource,
            issuer=self._issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "sub", "aud", "iss"]},
        )

    def _key(self, token: str) -> jwt.PyJWK:
        import jwt

        if isinstance(self._jwks, str):
            self._client = self._client or jwt.PyJWKClient(self._jwks, timeout=10)
            return self._client.get_signing_key_from_jwt(token)
        wanted = jwt.get_unverified_header(token).get("kid")
        keys = jwt.PyJWKSet.from_dict(dict(self._jwks)).keys
        found = next((key for key in keys if wanted is None or key.key_id == wanted), None)
        if found is None:
            raise jwt.InvalidKeyError("it is signed with a key that nobody knows")
        return found

"""An OAuth 2.1 resource server: tokens of authorization servers, checked for this very resource (RFC 9728, RFC 8707).

Signatures, times, issuer and audience are PyJWT's to check. Nothing is issued here: that is for the authorization
server, which the metadata document names.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolcrib.serve.principal import ADMIN, Guard, Headers, NotAdmitted, Principal, bearer
from toolcrib.store import OWNER

if TYPE_CHECKING:
    import jwt

log = logging.getLogger("toolcrib.serve")
ALGORITHMS = ("RS256", "ES256", "PS256", "EdDSA")
LEEWAY_S = 30
MOST_KNOWN = 10_000
FETCH_S = 10.0
AGAIN_S = 5.0
KEPT_S = 300.0
AWAY = "the issuer cannot be asked for its keys now"
_WELL_KNOWN = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class Claims:
    """Which claims of a token say who somebody is.

    `owner` names the claim that their sessions belong to, such as `email`, which counts only where the token says that
    it is verified: some providers let people write what they like there. Without `owner` they belong to issuer and
    subject, which nobody else can have. `roles` and `namespaces` are claims with lists; who has a role of `admins`
    looks after the server, and then nobody else does, whatever scopes their token has.
    """

    owner: str | None = None
    roles: str = "roles"
    namespaces: str | None = None
    admins: tuple[str, ...] = ()

    def principal(self, claims: Mapping[str, Any]) -> Principal:
        """Who a token stands for.

        Raises:
            ValueError: it does not say.
        """
        scopes = _words(claims.get("scope") or claims.get("scp") or "")
        roles = _words(claims.get(self.roles) or ())
        spaces = None if self.namespaces is None else tuple(_words(claims.get(self.namespaces) or ()))
        admin = {ADMIN} if set(self.admins) & set(roles) else set()
        denied = {ADMIN} if self.admins else set()  # then neither a scope nor a role of that name is enough
        return Principal(
            self._name(claims), spaces, frozenset(scopes) - denied, frozenset(roles) - denied | admin, "jwt"
        )

    def _name(self, claims: Mapping[str, Any]) -> str:
        if self.owner is None:
            return f"{claims['iss']}#{claims['sub']}"
        name = claims.get(self.owner)
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"it has no {self.owner}")
        verified = claims.get("email_verified")
        if self.owner == "email" and verified is not True and verified != "true":
            raise ValueError("its email is not verified (email_verified)")
        if name == OWNER:
            raise ValueError(f"nobody is called {OWNER}")
        return name


def _words(value: Any) -> list[str]:
    if not isinstance(value, str | list | tuple):
        raise ValueError("a claim that names several things is no list")
    return value.split() if isinstance(value, str) else [str(one) for one in value]


CLAIMS = Claims()
"""The usual names of claims."""


class OAuth(Guard):
    """A guard that takes JWT access tokens.

    `resource` is the address of this server as clients know it, which tokens have to be meant for, unless they name
    another `audience`. `issuer` signs them with the keys at `jwks`, an address or the document itself; without it the
    issuer is asked where they are (OpenID Connect Discovery). Who lacks one of `scopes` is told which.
    """

    def __init__(
        self,
        resource: str,
        issuer: str,
        jwks: str | Mapping[str, Any] | None = None,
        scopes: Sequence[str] = (),
        *,
        audience: str | None = None,
        claims: Claims = CLAIMS,
    ) -> None:
        self._resource = resource
        self._issuer = issuer
        self._jwks = jwks
        self._scopes = tuple(scopes)
        self._audience = audience or resource
        self._mapping = claims
        self._client: jwt.PyJWKClient | None = None
        self._fetching = asyncio.Lock()
        self._keys: Sequence[jwt.PyJWK] = ()
        self._kept_until = self._ask_at = 0.0
        self._away = True
        self._known: dict[bytes, tuple[Principal, float]] = {}
        where = urlsplit(resource)
        self._path = _WELL_KNOWN + where.path.rstrip("/")
        self._metadata_url = f"{where.scheme}://{where.netloc}{self._path}"

    @property
    def documents(self) -> Mapping[str, Any]:
        """The metadata of the resource, at its own path and at that of the host."""
        data: dict[str, Any] = {
            "resource": self._resource,
            "authorization_servers": [self._issuer],
            "bearer_methods_supported": ["header"],
        }
        if self._scopes:
            data["scopes_supported"] = list(self._scopes)
        return {self._path: data, _WELL_KNOWN: data}

    async def admit(self, headers: Headers) -> Principal:
        """Who the token of a request stands for.

        Raises:
            NotAdmitted: 401 without a token that holds, 403 where it lacks a scope.
        """
        token = bearer(headers)
        if token is None:
            raise NotAdmitted(401, "Send an access token", self._challenge(), self._hint)
        mark = hashlib.sha256(token.encode()).digest()
        principal, until = self._known.get(mark, (None, 0.0))
        if principal is None or time.time() >= until:
            principal, until = await self._read(token)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[mark] = principal, until
        if not principal.scopes.issuperset(self._scopes):
            hint = f"get a token with {' and '.join(self._scopes)}"
            raise NotAdmitted(403, "The token lacks a scope", self._challenge("insufficient_scope"), hint)
        return principal

    @property
    def _hint(self) -> str:
        return f"send the header `Authorization: Bearer TOKEN` with an access token of {self._issuer}"

    def _challenge(self, error: str | None = None) -> str:
        parts = [f'resource_metadata="{self._metadata_url}"']
        if self._scopes:
            parts.append(f'scope="{" ".join(self._scopes)}"')
        if error is not None:
            parts.insert(0, f'error="{error}"')
        return "Bearer " + ", ".join(parts)

    async def _read(self, token: str) -> tuple[Principal, float]:
        from jwt import PyJWTError

        try:
            claims = self._claims(token, await self._key(token))
            return self._mapping.principal(claims), float(claims["exp"])
        except (PyJWTError, ValueError) as error:
            challenge = self._challenge("invalid_token")
            raise NotAdmitted(401, f"The token does not hold: {error}", challenge, self._hint) from None

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        import jwt

        return jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=self._audience,
            issuer=self._issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "sub", "aud", "iss"]},
        )

    async def _key(self, token: str) -> jwt.PyJWK:
        """The key that a token says it is signed with."""
        import jwt

        wanted = jwt.get_unverified_header(token).get("kid")
        if isinstance(self._jwks, str | None):
            key = self._kept(wanted) or await self._fetched_key(wanted)
        else:
            key = _named(jwt.PyJWKSet.from_dict(dict(self._jwks)).keys, wanted)
        if key is None:
            raise jwt.InvalidKeyError("it is signed with a key that nobody knows")
        return key

    def _kept(self, wanted: str | None) -> jwt.PyJWK | None:
        return _named(self._keys, wanted) if time.monotonic() < self._kept_until else None

    async def _fetched_key(self, wanted: str | None) -> jwt.PyJWK | None:
        """A key that is not kept here, from the issuer.

        Whoever sends tokens that nobody signed makes this look for keys: one looks at a time, and then nobody does for
        a while, so that it holds up neither the issuer nor those whose key is kept.
        """
        async with self._fetching:
            key = self._kept(wanted)
            if key is None and time.monotonic() >= self._ask_at:
                await asyncio.to_thread(self._fetch)
                key = self._kept(wanted)
            if key is None and self._away:
                raise ValueError(AWAY)
            return key

    def _fetch(self) -> None:
        """Asks the issuer for its keys. Where that fails, those that are kept hold as long as they would have."""
        import jwt

        try:
            if self._client is None:
                where = self._jwks if isinstance(self._jwks, str) else discovered(self._issuer)
                self._client = jwt.PyJWKClient(where, timeout=FETCH_S)
            self._keys = self._client.get_signing_keys(refresh=True)
            self._kept_until = time.monotonic() + KEPT_S
            self._away = False
        except (OSError, ValueError, jwt.PyJWTError) as error:
            self._away = True
            log.warning("%s cannot be asked for its keys: %s", self._issuer, error)
        finally:
            self._ask_at = time.monotonic() + AGAIN_S


def _named(keys: Sequence[jwt.PyJWK], wanted: str | None) -> jwt.PyJWK | None:
    return next((key for key in keys if wanted is None or key.key_id == wanted), None)


def discovered(issuer: str) -> str:
    """Where an issuer has its keys, as it says itself.

    Raises:
        OSError: it cannot be asked now.
        ValueError: what it says cannot be read, does not say it, or is somebody else's.
    """
    import json
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    if urlsplit(issuer).scheme not in ("http", "https"):
        raise ValueError("the issuer is no address")
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        with urlopen(Request(address, headers={"accept": "application/json"}), timeout=FETCH_S) as answer:
            metadata = json.load(answer)
    except HTTPException as error:
        raise OSError(f"{address} cannot be read: {error}") from None
    if (
        not isinstance(metadata, dict)
        or metadata.get("issuer") != issuer
        or not isinstance(metadata.get("jwks_uri"), str)
    ):
        raise ValueError("the issuer does not say where its keys are")
    text: str = metadata["jwks_uri"]
    return text

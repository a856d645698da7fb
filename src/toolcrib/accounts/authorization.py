"""The way to a token by a person's consent: an address to visit, and the code that comes back (RFC 6749, 7636, 9207).

Between the two lies whatever time the person takes, and perhaps another process: what is needed then is kept as a
`PendingAuthorization`, encrypted, and found again by the `state` that comes back.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from toolcrib.accounts.discovery import Discovery
from toolcrib.accounts.proof import new_key
from toolcrib.accounts.settings import AccountSettings
from toolcrib.accounts.tokens import ClientIdentity, TokenEndpoint, TokenSet, token_set
from toolcrib.accounts.web import AuthorizationError, AuthorizationWeb


class PendingAuthorization(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is kept until the person comes back. `bound` is what their browser has to bring."""

    account: str
    owner: str
    by: str
    state: str
    verifier: str
    redirect_uri: str
    client: ClientIdentity
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    names_issuer: bool = False
    resource: str | None = None
    scope: str | None = None
    dpop_key: str | None = None
    bound: str = ""
    started_at: float = 0.0

    def __repr__(self) -> str:
        return f"PendingAuthorization({self.account!r}, {self.owner!r})"


class AuthorizationReply(Struct, frozen=True, omit_defaults=True):
    """What came back from a visit: the query of the address that the person was led to."""

    state: str = ""
    code: str | None = None
    iss: str | None = None
    error: str | None = None

    def __repr__(self) -> str:
        return "AuthorizationReply(...)"

    @classmethod
    def of(cls, url: str) -> AuthorizationReply:
        """Read an address."""
        fields = dict(parse_qsl(urlsplit(url).query))
        return cls(fields.get("state", ""), fields.get("code"), fields.get("iss"), fields.get("error"))


def begun(  # noqa: PLR0913 - what makes up a request for authorization
    settings: AccountSettings,
    discovery: Discovery,
    client: ClientIdentity,
    scopes: tuple[str, ...],
    *,
    owner: str,
    by: str,
    now: float,
    bound: str = "",
) -> tuple[str, PendingAuthorization]:
    """Return the address to visit, and what has to be kept until the person comes back."""
    server, verifier = discovery.server, secrets.token_urlsafe(64)
    pending = PendingAuthorization(
        account=settings.name,
        owner=owner,
        by=by,
        state=secrets.token_urlsafe(32),
        verifier=verifier,
        redirect_uri=client.redirect_uri,
        client=client,
        issuer=server.issuer,
        token_endpoint=server.token_endpoint,
        revocation_endpoint=server.revocation_endpoint,
        names_issuer=server.authorization_response_iss_parameter_supported,
        resource=discovery.resource,
        scope=" ".join(scopes) or None,
        dpop_key=new_key() if discovery.dpop else None,
        bound=bound,
        started_at=now,
    )
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": client.redirect_uri,
        "state": pending.state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **({"scope": pending.scope} if pending.scope else {}),
        **({"resource": pending.resource} if pending.resource else {}),
        **({"prompt": "consent"} if "offline_access" in scopes else {}),
    }
    parts = urlsplit(server.authorization_endpoint)
    return urlunsplit(parts._replace(query=f"{parts.query}&{urlencode(query)}".lstrip("&"))), pending


async def finished(
    web: AuthorizationWeb, pending: PendingAuthorization, reply: AuthorizationReply, now: float
) -> TokenSet:
    """Return the tokens for what came back from a visit.

    Raises:
        AuthorizationError: the person refused, or what came back does not belong to the request.
    """
    host = urlsplit(pending.token_endpoint).hostname
    if not hmac.compare_digest(reply.state.encode(), pending.state.encode()):
        raise AuthorizationError("What came back does not belong to this request")
    if reply.iss is not None and reply.iss != pending.issuer:
        raise AuthorizationError("What came back is from another server than was asked")
    if reply.iss is None and pending.names_issuer:
        raise AuthorizationError(f"What came back does not say that it is from {host}")
    if reply.error is not None or not reply.code:
        code = reply.error if reply.error and reply.error.isascii() and len(reply.error) <= 64 else None
        raise AuthorizationError(f"{host} gave no access ({code or 'no code'})", code)
    endpoint = TokenEndpoint(web, pending.token_endpoint, pending.client, pending.dpop_key)
    form = {
        "grant_type": "authorization_code",
        "code": reply.code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
        **({"resource": pending.resource} if pending.resource else {}),
    }
    return token_set(
        {"scope": pending.scope, **await endpoint.ask(form, "the code")},
        endpoint,
        now,
        issuer=pending.issuer,
        resource=pending.resource,
        revocation_endpoint=pending.revocation_endpoint,
    )


async def renewed(web: AuthorizationWeb, tokens: TokenSet, now: float) -> TokenSet:
    """Return new tokens for a refresh token.

    Raises:
        AuthorizationError: the server refuses; `invalid_grant` where the owner has to agree anew.
    """
    if tokens.refresh_token is None:
        raise AuthorizationError("There is no refresh token", "invalid_grant")
    endpoint = TokenEndpoint(web, tokens.token_endpoint, tokens.client, tokens.dpop_key)
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
    form |= {"resource": tokens.resource} if tokens.resource else {}
    return token_set(await endpoint.ask(form, "to renew the token"), endpoint, now, tokens)


async def revoked(web: AuthorizationWeb, tokens: TokenSet) -> None:
    """Tell the server that tokens are not used any more (RFC 7009), where it wants to know.

    Raises:
        AuthorizationError: it cannot be told.
    """
    if tokens.revocation_endpoint is None:
        return
    endpoint = TokenEndpoint(web, tokens.revocation_endpoint, tokens.client)
    await endpoint.tell({"token": tokens.refresh_token or tokens.access_token})

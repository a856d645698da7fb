"""Tokens that no person has to agree to: of this program itself, or in exchange for a token that it has."""

from __future__ import annotations

from typing import Any

from toolcrib.accounts.clients import written_client
from toolcrib.accounts.discovery import Challenge, Discovery, discover
from toolcrib.accounts.proof import new_key
from toolcrib.accounts.settings import TOKEN_TYPE, AccountSettings
from toolcrib.accounts.tokens import ClientIdentity, TokenEndpoint, TokenSet, token_set
from toolcrib.accounts.web import AuthorizationWeb
from toolcrib.secret_references import resolve_secret

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = TOKEN_TYPE + "id-jag"


async def machine_token(
    web: AuthorizationWeb, settings: AccountSettings, now: float, challenge: Challenge | None = None
) -> TokenSet:
    """Return a token by the grant of an account that is no person's.

    Raises:
        AuthorizationError: the server refuses.
        ToolFailure: a secret is not where the settings say.
    """
    if settings.grant == "secret":
        return TokenSet(access_token=await resolve_secret(settings.secret or ""))
    discovered = await discover(web, settings, challenge)
    client = await written_client(settings, discovered.server)
    endpoint = TokenEndpoint(web, discovered.server.token_endpoint, client, new_key() if discovered.dpop else None)
    scopes = {"scope": " ".join(discovered.scopes)} if discovered.scopes else {}
    resource = {"resource": discovered.resource} if discovered.resource else {}
    if settings.grant == "client_credentials":
        form = {"grant_type": "client_credentials", **scopes, **resource}
        form |= {"audience": settings.audience} if settings.audience else {}
        return token_set(await endpoint.ask(form, "the client"), endpoint, now, issuer=discovered.server.issuer)
    subject = await resolve_secret(settings.subject_token or "")
    form = {"grant_type": EXCHANGE, "subject_token": subject, "subject_token_type": settings.subject_token_type}
    if settings.grant == "jwt_bearer":
        form = {"grant_type": BEARER, "assertion": subject, **scopes, **resource}
    elif settings.exchange_url is not None:
        assertion = await _assertion(web, settings, discovered, form, scopes)
        form = {"grant_type": BEARER, "assertion": assertion, **scopes, **resource}
    else:
        form |= {**scopes, **resource} | ({"audience": settings.audience} if settings.audience else {})
    return token_set(await endpoint.ask(form, "the token"), endpoint, now, issuer=discovered.server.issuer)


async def _assertion(
    web: AuthorizationWeb,
    settings: AccountSettings,
    discovered: Discovery,
    form: dict[str, str],
    scopes: dict[str, str],
) -> str:
    """An assertion of who the subject is, for the authorization server of the service."""
    client = None if settings.exchange_client_id is None else ClientIdentity(settings.exchange_client_id)
    endpoint = TokenEndpoint(web, settings.exchange_url or "", client)
    more: dict[str, Any] = {"requested_token_type": ASSERTION_TYPE, "audience": discovered.server.issuer, **scopes}
    more |= {"resource": discovered.resource} if discovered.resource else {}
    return str((await endpoint.ask({**form, **more}, "the token"))["access_token"])

"""Who this program is at an authorization server: as the operator registered it, by a document, or by registration."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolcrib.accounts.discovery import AuthorizationServer
from toolcrib.accounts.settings import AccountSettings
from toolcrib.accounts.tokens import ClientIdentity
from toolcrib.accounts.web import AuthorizationError, AuthorizationWeb, error_of
from toolcrib.secret_references import resolve_secret

NAME = "Toolcrib"
_SECRET = ("client_secret_basic", "client_secret_post")
_KNOWN = ("none", *_SECRET)


async def written_client(
    settings: AccountSettings, server: AuthorizationServer, redirect_uri: str = ""
) -> ClientIdentity | None:
    """Return the client that the settings name, or that its document is; None where it has to be registered.

    Raises:
        ToolFailure: its secret is not where the settings say.
    """
    page = settings.client_metadata_url
    if settings.client_id is None:
        if page is None or not server.client_id_metadata_document_supported:
            return None
        return ClientIdentity(page, issuer=server.issuer, redirect_uri=redirect_uri)
    offered = server.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    if settings.private_key is not None:
        key = await resolve_secret(settings.private_key)
        return ClientIdentity(
            settings.client_id,
            method="private_key_jwt",
            issuer=server.issuer,
            redirect_uri=redirect_uri,
            private_key=key,
            signing_alg=settings.signing_alg,
        )
    if settings.client_secret is None:
        return ClientIdentity(settings.client_id, issuer=server.issuer, redirect_uri=redirect_uri)
    secret = await resolve_secret(settings.client_secret)
    method = next((one for one in _SECRET if one in offered), _SECRET[0])
    return ClientIdentity(settings.client_id, secret, method, server.issuer, redirect_uri)


def client_metadata(redirect_uri: str, scopes: tuple[str, ...] = (), method: str = "none") -> dict[str, Any]:
    """Return what this program says of itself, in a registration and in its document (RFC 7591)."""
    local = urlsplit(redirect_uri).hostname in ("localhost", "127.0.0.1", "::1")
    data: dict[str, Any] = {
        "client_name": NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native" if local else "web",
    }
    return {**data, "scope": " ".join(scopes)} if scopes else data


async def registered_client(
    web: AuthorizationWeb, server: AuthorizationServer, redirect_uri: str, scopes: tuple[str, ...]
) -> ClientIdentity:
    """Register this program with a server.

    Raises:
        AuthorizationError: the server refuses, or registers something that cannot be used.
    """
    host = urlsplit(server.issuer).hostname
    if server.registration_endpoint is None:
        raise AuthorizationError(
            f"{host} registers no clients by itself: register Toolcrib there, with {redirect_uri} as the address "
            f"to return to, and set client_id (and client_secret) of the account"
        )
    offered = server.token_endpoint_auth_methods_supported or list(_KNOWN)
    method = next((one for one in _KNOWN if one in offered), "none")
    response = await web.post_json(server.registration_endpoint, client_metadata(redirect_uri, scopes, method))
    if response.status not in (200, 201):
        raise error_of(response, "to register this program")
    try:
        data = msgspec.json.decode(response.body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        data = {}
    id, secret = data.get("client_id"), data.get("client_secret") or None
    method = data.get("token_endpoint_auth_method") or ("none" if secret is None else method)
    if not isinstance(id, str) or not id:
        raise error_of(response, "to register this program")
    if method == "none" and secret is not None and "none" not in offered:
        method = _SECRET[0]
    if method not in _KNOWN or (method in _SECRET and not isinstance(secret, str)):
        raise AuthorizationError(f"{host} registered this program in a way that cannot be used ({method})")
    return ClientIdentity(id, secret, method, server.issuer, redirect_uri)

"""Where the tokens for a service come from: RFC 9728 for the service, RFC 8414 and OpenID Connect for its server."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import Struct

from toolcrib.accounts.settings import AccountSettings
from toolcrib.accounts.web import AuthorizationError, AuthorizationWeb, origin_of

_PARAMETER = r'\b{}=(?:"([^"]*)"|([^\s,]+))'
_Form = TypeVar("_Form", bound=Struct)


class Challenge(NamedTuple):
    """What a service says when it lets nobody in: the header `WWW-Authenticate`."""

    scheme: str = ""
    resource_metadata: str | None = None
    scope: str | None = None
    error: str | None = None

    @classmethod
    def of(cls, header: str) -> Challenge:
        """Read the header."""

        def parameter(name: str) -> str | None:
            match = re.search(_PARAMETER.format(name), header)
            return None if match is None else match[1] or match[2]

        scheme = header.partition(" ")[0].lower()
        return cls(scheme, parameter("resource_metadata"), parameter("scope"), parameter("error"))


class ProtectedResource(Struct):
    """What a service says of itself (RFC 9728)."""

    resource: str
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None
    dpop_bound_access_tokens_required: bool = False


class AuthorizationServer(Struct):
    """What an authorization server says of itself (RFC 8414)."""

    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


class Discovery(NamedTuple):
    """The server of an account, with what the service says of its tokens."""

    server: AuthorizationServer
    resource: str | None
    scopes: tuple[str, ...]
    dpop: bool


async def discover(web: AuthorizationWeb, settings: AccountSettings, challenge: Challenge | None = None) -> Discovery:
    """Find the authorization server of an account; `challenge` is what the service said last.

    Raises:
        AuthorizationError: there is none, or what it says does not hold.
    """
    if settings.token_url:
        server = AuthorizationServer(settings.issuer or "", settings.authorize_url or "", settings.token_url)
        return Discovery(server, settings.resource, settings.scopes, bool(settings.dpop))
    if challenge is None and settings.resource is not None:
        challenge = await _challenge(web, settings.resource)
    challenge = challenge or Challenge()
    about = None if settings.resource is None else await _resource(web, settings.resource, challenge)
    issuer = settings.issuer or (about.authorization_servers[0] if about and about.authorization_servers else None)
    server = await _server(web, settings, issuer)
    methods = server.code_challenge_methods_supported
    if settings.grant == "authorization_code" and methods is not None and "S256" not in methods:
        raise AuthorizationError(f"{urlsplit(server.issuer).hostname} does not know PKCE with S256")
    dpop = settings.dpop
    if dpop is None:
        dpop = challenge.scheme == "dpop" or (about is not None and about.dpop_bound_access_tokens_required)
    resource = about.resource if about is not None else settings.resource
    return Discovery(server, resource, _scopes(settings, challenge, about, server), dpop)


async def _challenge(web: AuthorizationWeb, resource: str) -> Challenge | None:
    """Ask the service for nothing in particular: whom it does not know it tells what it wants."""
    try:
        response = await web.get(resource)
    except AuthorizationError:
        return None
    return Challenge.of(response.headers.get("www-authenticate", "")) if response.status in (401, 403) else None


async def _resource(web: AuthorizationWeb, resource: str, challenge: Challenge) -> ProtectedResource | None:
    base, path = origin_of(resource), urlsplit(resource).path
    places = [challenge.resource_metadata] if challenge.resource_metadata else []
    well_known = f"{base}/.well-known/oauth-protected-resource"
    places += [f"{well_known}{path}"] if path.strip("/") else []
    failed = None
    for place in [*places, well_known]:
        response = await web.get(place)
        if response.status >= 500 or response.status == 429:
            failed = response.status
        about = _read(response.body, ProtectedResource) if response.status == 200 else None
        if about is not None:
            if not _covers(about.resource, resource):
                raise AuthorizationError(f"What {base} says of itself is about another service")
            return about
    if failed is not None:
        raise AuthorizationError(f"{base} cannot say where its tokens come from (HTTP {failed})")
    return None


def _covers(written: str, resource: str) -> bool:
    """True if an address is the service's own, or one that it lies below."""
    ours, theirs = urlsplit(resource), urlsplit(written)
    same = (ours.scheme.lower(), ours.netloc.lower()) == (theirs.scheme.lower(), theirs.netloc.lower())
    return same and f"{ours.path.rstrip('/')}/".startswith(f"{theirs.path.rstrip('/')}/")


async def _server(web: AuthorizationWeb, settings: AccountSettings, issuer: str | None) -> AuthorizationServer:
    expected = issuer or origin_of(settings.resource or "")
    for place in _places(expected, legacy=issuer is None):
        response = await web.get(place)
        if response.status >= 500:
            raise AuthorizationError(
                f"{urlsplit(expected).hostname} cannot say how it is used (HTTP {response.status})"
            )
        server = _read(response.body, AuthorizationServer) if response.status == 200 else None
        if server is None or not server.token_endpoint:
            continue
        if server.issuer != expected and not (issuer is None and server.issuer.rstrip("/") == expected):
            raise AuthorizationError(f"{urlsplit(expected).hostname} says that it is {server.issuer!r}")
        return server
    if issuer is not None:
        raise AuthorizationError(f"{urlsplit(expected).hostname} does not say how it is used")
    # The paths of MCP as of 2025-03-26.
    return AuthorizationServer(expected, f"{expected}/authorize", f"{expected}/token", f"{expected}/register")


def _places(issuer: str, *, legacy: bool) -> list[str]:
    base, path = origin_of(issuer), urlsplit(issuer).path.rstrip("/")
    oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    if legacy:
        return [f"{base}{oauth}"]
    if not path:
        return [f"{base}{oauth}", f"{base}{openid}"]
    return [f"{base}{oauth}{path}", f"{base}{openid}{path}", urljoin(base, f"{path}{openid}")]


def _scopes(
    settings: AccountSettings, challenge: Challenge, about: ProtectedResource | None, server: AuthorizationServer
) -> tuple[str, ...]:
    """The scopes of the settings, else those that the service asks for, else those that it knows."""
    offered = server.scopes_supported
    if settings.scopes:
        return settings.scopes
    if challenge.scope is not None:
        wanted = challenge.scope.split()
    elif about is not None and about.scopes_supported is not None:
        wanted = about.scopes_supported
    else:
        wanted = offered or []
    offline = settings.grant == "authorization_code" and bool(wanted) and "offline_access" in (offered or ())
    return tuple(dict.fromkeys([*wanted, *(["offline_access"] if offline else [])]))


def _read(body: bytes, form: type[_Form]) -> _Form | None:
    try:
        data: Any = msgspec.json.decode(body)
        return msgspec.convert({name: one for name, one in data.items() if one is not None}, form)
    except (msgspec.DecodeError, msgspec.ValidationError, AttributeError, RecursionError):
        return None

"""Accounts over HTTP: everybody sees, connects and removes their own.

To connect one, a browser visits `connect`, is led to the server of the account, and comes back to `callback`. A cookie
of its own binds the two, so that nobody can finish in another's browser what they began.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Annotated, Any

from msgspec import Meta, Struct

from toolcrib.accounts import Accounts, AuthorizationReply, ConnectedAccount
from toolcrib.accounts.clients import client_metadata
from toolcrib.accounts.settings import AccountSettings
from toolcrib.errors import Refused
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.pages import Text, owner_of
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.asgi import JSON

COOKIE = "toolcrib-connect"
LASTS_S = 3600
_PAGE = "<!doctype html><meta charset=utf-8><title>Toolcrib</title><p>{}</p><p>You can close this window.</p>"


class AccountForm(Struct, omit_defaults=True):
    """An account; without an owner, one that could be connected.

    `expired_at` and `reason` say that it was connected and its server gave no new token. `connect_url` is where
    whoever asks connects it.
    """

    name: str
    grant: str
    owner: str | None = None
    by: str | None = None
    scopes: tuple[str, ...] = ()
    connected_at: float | None = None
    renewed_at: float | None = None
    expires_at: float | None = None
    expired_at: float | None = None
    reason: str | None = None
    connect_url: str | None = None


class AccountList(Struct):
    """Connected accounts, then those that could be."""

    items: list[AccountForm]


class AccountKey(Struct, forbid_unknown_fields=True):
    """A key of an owner, for an account that takes one."""

    key: Annotated[str, Meta(min_length=1, max_length=16_384)]


class ConnectQuery(Struct, forbid_unknown_fields=True):
    """Rights to ask for beside the usual ones."""

    scope: Text | None = None


class CallbackQuery(Struct):
    """What the server of an account sends back."""

    state: Annotated[str, Meta(min_length=1)]
    code: str | None = None
    iss: str | None = None
    error: str | None = None


class RemovedAccount(Struct):
    """What was removed."""

    name: str
    owner: str
    removed: bool = True


def _form(accounts: Accounts, one: ConnectedAccount, asker: str) -> AccountForm:
    known = one.account in accounts
    grant = accounts.named(one.account).grant if known else "unknown"
    form = AccountForm(
        one.account, grant, one.owner, one.by, one.scopes, one.connected_at, one.renewed_at, one.expires_at
    )
    form.connect_url = accounts.link(one.account) if known and one.owner == asker else None
    return form


def _free(accounts: Accounts, settings: AccountSettings, asker: str) -> AccountForm:
    form = AccountForm(settings.name, settings.grant, connect_url=accounts.link(settings.name))
    if (expired := accounts.expired(asker, settings.name)) is not None:
        form.expired_at, form.reason = expired.expired_at, expired.reason
    return form


async def listed(request: ApiRequest) -> ApiReply:
    """The accounts of whoever asks, or of all for who looks after the server."""
    accounts = request.api.crib.accounts
    connected = await accounts.connected(owner_of(request)) if accounts.settings else []
    asker = request.principal.name
    own = {one.account for one in connected if one.owner == asker}
    free = [_free(accounts, one, asker) for one in accounts.settings if one.personal and one.name not in own]
    return json_reply(AccountList([*(_form(accounts, one, asker) for one in connected), *free]))


async def begin(request: ApiRequest) -> ApiReply:
    """Leads a browser to the server of an account."""
    accounts, name = request.api.crib.accounts, request.path[0]
    if accounts.callback is None:
        raise ApiError("conflict", "This server does not know where it is reached", "set serve.public_url in crib.yaml")
    bound = secrets.token_urlsafe(32)
    asker, scope = request.principal.name, request.query.scope
    url = await accounts.begin(asker, name, accounts.callback, scope=scope, bound=_digest(bound))
    cookie = [f"{COOKIE}={bound}", "Path=/v1/accounts", f"Max-Age={LASTS_S}", "HttpOnly", "SameSite=Lax"]
    cookie += ["Secure"] if request.secure else []
    headers = (
        (b"location", url.encode()),
        (b"set-cookie", "; ".join(cookie).encode()),
        (b"cache-control", b"no-store"),
    )
    return ApiReply(b"", 303, headers)


async def finish(request: ApiRequest) -> ApiReply:
    """Takes what a browser brings back from the server of an account."""
    query = request.query
    try:
        reply = AuthorizationReply(query.state, query.code, query.iss, query.error)
        known = await request.api.crib.accounts.finish(reply, bound=_digest(_cookie(request)))
    except Refused as refused:
        raise ApiError("denied", refused.message, refused.hint) from None
    page = _PAGE.format("The account is connected. What waited for it goes on.")
    assert known.account
    headers = (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
    )
    return ApiReply(page.encode(), 200, headers)


async def add_key(request: ApiRequest) -> ApiReply:
    """Keeps the key of whoever asks."""
    accounts = request.api.crib.accounts
    known = await accounts.add_key(request.principal.name, request.path[0], request.body.key)
    return json_reply(_form(accounts, known, request.principal.name), 201)


async def remove(request: ApiRequest) -> ApiReply:
    """Removes the account of whoever asks; who looks after the server may name another owner."""
    owner, name = request.query.owner or request.principal.name, request.path[0]
    if owner != request.principal.name and not request.principal.admin:
        raise ApiError("denied", "This is the account of somebody else", "ask who looks after the server")
    await request.api.crib.accounts.remove(owner, name, by=request.principal.name)
    return json_reply(RemovedAccount(name, owner))


class OwnerQuery(Struct, forbid_unknown_fields=True):
    """Whose account; without it that of whoever asks."""

    owner: Text | None = None


async def client_document(request: ApiRequest) -> ApiReply:
    """What this server says of itself to the servers of accounts."""
    back = request.api.crib.accounts.callback
    if back is None:
        raise ApiError("not_found", "This server does not know where it is reached")
    document = {**client_metadata(back), "client_id": back.replace("/callback", "/client.json")}
    return ApiReply(json_reply(document).body, 200, (JSON, (b"cache-control", b"max-age=3600")))


def _cookie(request: ApiRequest) -> str:
    parts = (part.strip().partition(b"=") for part in request.headers.get(b"cookie", b"").split(b";"))
    return next((value.decode("ascii", "replace") for name, _, value in parts if name == COOKIE.encode()), "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


ROUTES = [
    Route(
        "GET",
        "/v1/accounts",
        listed,
        "Accounts that were connected, and those that could be; never their tokens.",
        gives={200: AccountList},
    ),
    Route(
        "GET",
        "/v1/accounts/callback",
        finish,
        "Where a browser comes back to from the server of an account.",
        None,
        query=CallbackQuery,
    ),
    Route(
        "GET",
        "/v1/accounts/client.json",
        client_document,
        "The document by which this server introduces itself to the servers of accounts.",
        None,
        gives={200: dict[str, Any]},
    ),
    Route(
        "GET",
        "/v1/accounts/{account}/connect",
        begin,
        "Leads a browser to the server of an account, whose user agrees there.",
        "call",
        query=ConnectQuery,
    ),
    Route(
        "PUT",
        "/v1/accounts/{account}/key",
        add_key,
        "Keeps a key for an account that takes one. It is never shown.",
        "call",
        body=AccountKey,
        gives={201: AccountForm},
    ),
    Route(
        "DELETE",
        "/v1/accounts/{account}",
        remove,
        "Removes an account: its tokens are deleted here, and revoked at its server.",
        "call",
        query=OwnerQuery,
        gives={200: RemovedAccount},
    ),
]

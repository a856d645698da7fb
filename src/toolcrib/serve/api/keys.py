"""Signing in and out for pages in a browser, and the keys of the server for who looks after it."""

from __future__ import annotations

import logging
from typing import Annotated

from msgspec import Meta, Struct

from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.pages import Name, Text
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.server_info import Me, told
from toolcrib.serve.asgi import JSON
from toolcrib.serve.keyring import ApiKey, Keyring
from toolcrib.serve.keys import unknown_key
from toolcrib.serve.principal import NotAdmitted

log = logging.getLogger("toolcrib.serve")


class SignIn(Struct, forbid_unknown_fields=True):
    """A key, or a token of the provider."""

    key: Annotated[str, Meta(min_length=1, max_length=16_384)]


async def sign_in(request: ApiRequest) -> ApiReply:
    """Gives a browser its cookie."""
    api, key = request.api, request.body.key
    if api.guard is None or api.cookies is None:
        raise ApiError("conflict", "This server asks nobody who they are", "there is nothing to sign in to")
    if not key.isascii() or not key.isprintable():
        raise unknown_key()
    principal = await api.guard.admit({b"authorization": f"Bearer {key}".encode()})
    cookie = api.cookies.header(key, request.headers, secure=request.secure)
    log.info("%s signed in", principal.name)
    return ApiReply(json_reply(told(api, principal)).body, headers=(JSON, cookie))


async def _name(request: ApiRequest) -> str:
    """Who signs out; the key of a cookie may have ended by then."""
    try:
        return "somebody" if request.api.guard is None else (await request.api.guard.admit(request.headers)).name
    except NotAdmitted:
        return "somebody whose key is not valid any more"


class SignedOut(Struct):
    """That nobody is signed in any more."""

    ok: bool = True


async def sign_out(request: ApiRequest) -> ApiReply:
    """Takes the cookie away."""
    cookies = request.api.cookies
    log.info("%s signed out", await _name(request))
    headers = (JSON,) if cookies is None else (JSON, cookies.gone(request.headers, secure=request.secure))
    return ApiReply(b'{"ok":true}', headers=headers)


class KeyForm(ApiKey, omit_defaults=True, kw_only=True):
    """A key; `key` is there only right after it was made."""

    active: bool
    key: str | None = None


class KeyList(Struct):
    """All keys."""

    items: list[KeyForm]


class NewKey(Struct, forbid_unknown_fields=True):
    """A key to make. Without scopes it may read, call and answer; `expires` is in seconds since 1970."""

    owner: Name
    name: Text = ""
    scopes: list[Name] = []
    namespaces: list[Name] | None = None
    expires: float | None = None


def _ring(request: ApiRequest) -> Keyring:
    if request.api.keys is None:
        raise ApiError("conflict", "This server keeps no keys in its store", "serve it with keys in the store")
    return request.api.keys


def _form(request: ApiRequest, key: ApiKey, shown: str | None = None) -> KeyForm:
    fields = {name: getattr(key, name) for name in key.__struct_fields__}
    return KeyForm(**fields, active=key.holds(request.api.crib.pipeline.clock.now()), key=shown)


async def keys(request: ApiRequest) -> ApiReply:
    """All keys."""
    return json_reply(KeyList([_form(request, key) for key in _ring(request).keys]))


async def add(request: ApiRequest) -> ApiReply:
    """Makes a key, and shows it this once."""
    body = request.body
    namespaces = None if body.namespaces is None else request.api.crib.catalog.resolve(body.namespaces)
    shown, key = await _ring(request).add(
        body.owner,
        by=request.principal.name,
        name=body.name,
        scopes=body.scopes,
        namespaces=namespaces,
        expires_at=body.expires,
    )
    return json_reply(_form(request, key, shown), 201)


async def revoke(request: ApiRequest) -> ApiReply:
    """Takes a key away."""
    key = await _ring(request).revoke(request.path[0], by=request.principal.name)
    return json_reply(_form(request, key))


ROUTES = [
    Route(
        "POST",
        "/v1/signin",
        sign_in,
        "Signs a page in: the key comes back as a cookie that no script can read. With it, requests that change "
        "anything need the header `X-Toolcrib: 1`.",
        None,
        body=SignIn,
        gives={200: Me},
    ),
    Route("POST", "/v1/signout", sign_out, "Takes the cookie away.", None, gives={200: SignedOut}),
    Route(
        "GET",
        "/v1/keys",
        keys,
        "The API keys that the store holds; never the keys themselves.",
        "admin",
        gives={200: KeyList},
    ),
    Route(
        "POST",
        "/v1/keys",
        add,
        "Makes an API key. It is shown in this answer, and never again.",
        "admin",
        body=NewKey,
        gives={201: KeyForm},
    ),
    Route(
        "DELETE",
        "/v1/keys/{key}",
        revoke,
        "Revokes an API key, on all servers over the store.",
        "admin",
        gives={200: KeyForm},
    ),
]

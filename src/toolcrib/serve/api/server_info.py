"""What the server says of itself, and of whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from toolcrib import __version__
from toolcrib.serve.api.openapi import document
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.principal import KNOWN, Principal

if TYPE_CHECKING:
    from toolcrib.serve.api.app import Api


class Me(Struct, omit_defaults=True):
    """Who you are here, and what this server can do. Administrators see what commands are held by, too.

    `trace_url` is where the trace of a call is looked at; `{trace}`, `{span}`, `{call}` and `{session}` are its ids.
    """

    name: str
    roles: list[str]
    scopes: list[str]
    namespaces: list[str]
    auth: Literal["off", "key", "jwt"]
    admin: bool
    version: str
    features: dict[str, bool]
    protections: dict[str, bool] = {}
    trace_url: str | None = None


def told(api: Api, principal: Principal) -> Me:
    """What is told to somebody of themselves."""
    return Me(
        principal.name,
        sorted(principal.roles),
        sorted(right for right in KNOWN if principal.may(right)),
        list(api.sessions.allowed(principal)),
        principal.auth,  # type: ignore[arg-type]
        principal.admin,
        __version__,
        {"agents": api.crib.agents is not None, "cluster": api.crib.pipeline.engine is not None, **api.features},
        api.protections if principal.admin else {},
        api.trace_url,
    )


async def me(request: ApiRequest) -> ApiReply:
    """Who asks."""
    return json_reply(told(request.api, request.principal))


async def openapi(request: ApiRequest) -> ApiReply:
    """The description of this API."""
    api = request.api
    if api.description is None:
        api.description = json_reply(document(api.table.routes))
    return api.description


ROUTES = [
    Route("GET", "/v1/me", me, "Who you are here, and what this server can do.", gives={200: Me}),
    Route(
        "GET", "/v1/openapi.json", openapi, "This API as an OpenAPI 3.1 document.", None, gives={200: dict[str, Any]}
    ),
]

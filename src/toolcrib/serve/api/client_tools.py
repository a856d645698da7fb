"""Tools that the client of a session runs itself, as the API takes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins

from toolcrib._session.client_tools import MOST
from toolcrib.limits import RATE
from toolcrib.serve.api.pages import paged
from toolcrib.serve.api.request import ApiRequest
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.tools import Tools, tool_form
from toolcrib.tool import NAME
from toolcrib.types import Effect

_TAKES: dict[str, Any] = {
    "required": ["type"],
    "properties": {
        "type": {"const": "object"},
        "properties": {"type": "object", "additionalProperties": {"type": ["object", "boolean"]}},
        "required": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
}
"""What the schema of arguments is, for those who read the description of the API."""

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]


class ClientToolAnnotations(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a tool says of itself; each is false unless said."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    requires_confirmation: bool = False


class ClientToolLimits(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Bounds of a tool; without one that of the server holds.

    `wait_s` is how long a call waits for its client. After `repeat` failures of the same call in a row the next is
    refused, with null none is.
    """

    timeout_s: Seconds | None = None
    output_bytes: Count | None = None
    concurrency: Count | None = None
    wait_s: Seconds | None = None
    repeat: Literal["default"] | Annotated[int, Meta(ge=0)] | None = "default"
    idle_timeout: Seconds | None = None
    rate: Annotated[str, Meta(max_length=32, extra_json_schema={"pattern": RATE})] | None = None


class ClientTool(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A tool that the client runs: its id is `client.` and its name, which no other tool of the session has.

    A call of it is checked against `input_schema` and the policy, then waits with a question of the kind `client` for
    15 minutes. Whoever runs it answers: `accept` with a value, which has to fit `output_schema`, or `fail` with a
    reason. `input_schema` describes an object; both are JSON Schemas of draft 2020-12.
    """

    name: Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
    description: Annotated[str, Meta(pattern=r"\S")]
    namespace: str = "client"
    title: str | None = None
    category: str | None = None
    tags: list[str] = []
    input_schema: Annotated[dict[str, Any], Meta(extra_json_schema=_TAKES)] | None = None
    output_schema: dict[str, Any] | None = None
    capabilities: list[str] = []
    effect: Effect | None = None
    annotations: ClientToolAnnotations | None = None
    limits: ClientToolLimits | None = None
    metadata: dict[str, Any] = {}


class ClientToolsForm(Struct, forbid_unknown_fields=True):
    """All tools that the client runs; those that it offered before are replaced."""

    tools: Annotated[list[ClientTool], Meta(max_length=MOST)]


async def offer(request: ApiRequest) -> ApiReply:
    """Takes tools that the client runs."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    await session.offer(to_builtins(request.body.tools))
    items = [tool_form(tool) for tool in session.client_tools]
    return paged(items, total=len(items))


ROUTES = [
    Route(
        "PUT",
        "/v1/sessions/{session}/tools/client",
        offer,
        "Offers tools that the client runs itself: their calls wait for its answer. Those before are replaced.",
        "call",
        body=ClientToolsForm,
        gives={200: Tools},
    ),
]

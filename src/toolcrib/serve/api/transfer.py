"""Whole sessions over HTTP: exported, imported and deleted, and what is left of those that were deleted."""

from __future__ import annotations

from msgspec import Struct

from toolcrib.events import SessionDeleted
from toolcrib.serve.api import forms
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.pages import Name, SessionId, owner_of
from toolcrib.serve.api.reach import within
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.session_cache import bounds
from toolcrib.serve.asgi import read

LINES = (b"content-type", b"application/x-ndjson")


async def export(request: ApiRequest) -> ApiReply | None:
    """Sends a session as lines."""
    await request.api.sessions.of(request.path[0], request.principal)
    row = await request.api.sessions.row(request.path[0], request.principal)
    name = f'attachment; filename="{row.id.replace(":", "_")}.jsonl"'
    headers = [LINES, (b"content-disposition", name.encode())]
    await request.send({"type": "http.response.start", "status": 200, "headers": headers})
    async for line in request.api.crib.export_session(row.id):
        await request.send({"type": "http.response.body", "body": line, "more_body": True})
    await request.send({"type": "http.response.body", "body": b""})
    return None


class ImportQuery(Struct, forbid_unknown_fields=True):
    """Under which id and for whom, where not as it was exported."""

    id: SessionId | None = None
    owner: Name | None = None


async def take_in(request: ApiRequest) -> ApiReply:
    """Makes a session of the lines that were sent."""
    limits = request.api.limits
    body = await read(request.receive, limits.body_bytes, limits.body_s)
    query = request.query
    row = await request.api.crib.import_session(body.splitlines(keepends=True), id=query.id, owner=query.owner)
    return json_reply(forms.session(row, 0, 0), 201)


class DeleteQuery(Struct, forbid_unknown_fields=True):
    """With `force` what runs in it is stopped first."""

    force: bool = False


async def delete(request: ApiRequest) -> ApiReply:
    """Deletes a session."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    if session is None:
        raise missing()
    actor = request.principal.name
    return json_reply(await request.api.crib.delete_session(session.id, actor=actor, force=request.query.force))


class Tombstones(Struct):
    """What is left of deleted sessions."""

    items: list[SessionDeleted]


async def tombstones(request: ApiRequest) -> ApiReply:
    """What is left of deleted sessions."""
    allowed, stones = bounds(request.principal), await request.api.crib.deleted_sessions(owner_of(request))
    if allowed is not None:
        stones = [stone for stone in stones if stone.namespaces is not None and within(stone.namespaces, allowed)]
    return json_reply(Tombstones(stones))


ROUTES = [
    Route(
        "GET",
        "/v1/sessions/{session}/export",
        export,
        "A session as lines of JSON with a checksum: its log, large values and cursors, without secrets. "
        "`POST /v1/imports` takes them.",
        gives={200: str},
        lines=True,
    ),
    Route(
        "POST",
        "/v1/imports",
        take_in,
        "Makes a session of lines that were exported, once all of them were checked. What ran ends `unknown`; what "
        "waited waits on under its own id and owner, and ends under others.",
        "admin",
        query=ImportQuery,
        reads=True,
        gives={201: forms.SessionForm},
    ),
    Route(
        "DELETE",
        "/v1/sessions/{session}",
        delete,
        "Deletes a session with all that is its, and leaves a tombstone. While calls run in it only with `force`.",
        "call",
        query=DeleteQuery,
        gives={200: SessionDeleted},
    ),
    Route(
        "GET",
        "/v1/tombstones",
        tombstones,
        "The sessions that were deleted: who did it, when, and a digest of each log.",
        gives={200: Tombstones},
    ),
]

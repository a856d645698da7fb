"""Calls over HTTP. `make` is the path that has to be quick: arguments reach the tool's parser as they were sent."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from toolcrib._call.call_facts import AWAITED
from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallOptions
from toolcrib.errors import Refused
from toolcrib.schema.redaction import MASK
from toolcrib.serve.api import forms
from toolcrib.serve.api.call_list import found, status_of
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.pages import Seconds, Text
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.asgi import ClientDisconnected, gone
from toolcrib.serve.principal import refused
from toolcrib.session import Session, queued
from toolcrib.store import Row
from toolcrib.store.codec import encode
from toolcrib.store.vault import SealedValue, secret_id
from toolcrib.types import By, Result, Status, Wake

KEY = b"idempotency-key"
Some = Annotated[str, Meta(min_length=1, max_length=1000)]


class NewCall(Struct, forbid_unknown_fields=True):
    """A call to make.

    `wait` is whether the answer is the result, however long that takes; with a number of seconds the call itself comes
    back where it takes longer. A caller who leaves changes nothing, unless the call was made `cancel_on_disconnect`.
    """

    tool: Some
    args: Raw | UnsetType = UNSET
    label: Text | None = None
    key: Some | None = None
    background: bool | None = None
    wake: Wake | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=86400)] | None = None
    provider_id: Text | None = None
    wait: bool | Seconds = True
    cancel_on_disconnect: bool = False


_OPTIONS = ("label", "key", "background", "wake", "timeout_s", "provider_id")


async def make(request: ApiRequest) -> ApiReply:
    """Makes a call; its result, or the call where nobody waits for it."""
    api, body, principal = request.api, request.body, request.principal
    session = api.sessions.known(request.path[0], principal) or await api.sessions.of(request.path[0], principal)
    if api.crib.registry.pending and session.tool(body.tool) is None:
        await api.crib.registry.settle(body.tool, session.owner)
    options = {name: value for name in _OPTIONS if (value := getattr(body, name)) is not None}
    if KEY in request.headers:
        options["key"] = _key(request.headers[KEY], body.key)
    plain = api.options.get(principal.name)
    if plain is None:
        plain = api.options[principal.name] = CallOptions(by=By("user", principal.name))
    args = b"{}" if body.args is UNSET else bytes(body.args)
    if body.wait is False:
        return await _submitted(session, body.tool, args, {"by": plain.by, **options})
    call = session._request(body.tool, args, {"by": plain.by, **options} if options else plain)
    live = await session._accept(call, AWAITED)
    id = live.id if live.row is None else live.row.id
    if live.background and live.row is not None:
        return ApiReply(forms.result(id, queued(id)))
    if live.result is not None:
        return ApiReply(forms.result(id, live.result))
    return await _outcome(request, session, live, id)


async def _submitted(session: Session, tool: str, args: bytes, options: dict[str, Any]) -> ApiReply:
    """An accepted call, and where it stands already: it may wait for somebody, or be over."""
    call = await session.submit(tool, args, **options)
    return json_reply(forms.call(call, status_of(await session._row(call.id))), 202)


async def _outcome(request: ApiRequest, session: Session, live: LiveCall, id: str) -> ApiReply:
    """Waits for a call that takes a while, as long as somebody wants to hear of it."""
    wait = request.body.wait
    work = asyncio.ensure_future(session._outcome(live))
    try:
        if await attend(work, request, None if wait is True else float(wait)):
            return ApiReply(forms.result(id, work.result()))
    except (ClientDisconnected, asyncio.CancelledError):
        if request.body.cancel_on_disconnect:
            session._disconnected(live)
        raise
    finally:
        work.cancel()
    history = await session._history(await session._row(id))
    return json_reply(forms.call(history.call(), history.status), 202)


async def attend(work: asyncio.Future[Any], request: ApiRequest, seconds: float | None) -> bool:
    """Wait for something while its client is there and would still be let in; True if it is done.

    Raises:
        Gone: they hung up.
        NotAdmitted: their key was revoked or has expired.
    """
    left, clock = asyncio.ensure_future(gone(request.receive)), asyncio.get_running_loop().time
    until = math.inf if seconds is None else clock() + seconds
    try:
        while True:
            wait = max(0.0, min(request.api.limits.ping_s, until - clock()))
            await asyncio.wait({work, left}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            if work.done() or clock() >= until:
                return work.done()
            if left.done():
                raise ClientDisconnected
            if (error := await refused(request.api.guard, request.headers)) is not None:
                raise error
    finally:
        left.cancel()


def _key(header: bytes, other: str | None) -> str:
    key = header.decode("latin-1").strip()
    if not key or len(key) > 1000:
        raise ApiError("invalid_arguments", "Idempotency-Key has 1 to 1000 characters")
    if other not in (None, key):
        raise ApiError("invalid_arguments", "Idempotency-Key and `key` differ", "send one of them")
    return key


class WaitQuery(Struct, forbid_unknown_fields=True):
    """How many seconds to wait for it."""

    wait: Seconds = 0.0


class PendingCall(Struct):
    """A call that is not done."""

    call: str
    state: Status


async def outcome(request: ApiRequest) -> ApiReply:
    """The result of a call, or how far it is."""
    session, row = await found(request)
    if row.state == "done":
        return ApiReply(forms.result(row.id, await session.result(row.id)))
    if request.query.wait:
        work: asyncio.Future[Result] = asyncio.ensure_future(session.result(row.id))
        try:
            if await attend(work, request, request.query.wait):
                return ApiReply(forms.result(row.id, work.result()))
        finally:
            work.cancel()
    return json_reply(PendingCall(row.id, (await session.status(row.id)).status), 202)


# Stopping, and once more


class Cancelled(Struct):
    """Whether there was something to stop."""

    cancelled: bool


async def cancel(request: ApiRequest) -> ApiReply:
    """Stops a call."""
    session, row = await found(request)
    return json_reply(Cancelled(await session.cancel(row.id)))


async def _secret_arguments(session: Session, row: Row) -> bytes | None:
    """The arguments of a call that is not over yet."""
    try:
        return await session.pipeline.vault.kept(session.id, secret_id(row.id))
    except SealedValue as error:
        raise Refused("unavailable", str(error)) from None


async def again(request: ApiRequest) -> ApiReply:
    """Makes the same call anew, with the arguments that it was made with."""
    session, row = await found(request)
    history = await session._history(row)
    args = encode(history.accepted.args)
    if history.accepted.secret:
        args = await _secret_arguments(session, row) or args
        if MASK.encode() in args:
            raise Refused("conflict", "The secret arguments of this call are not kept any more", "call it with them")
    options = {"by": By("user", request.principal.name), "label": history.accepted.label}
    return await _submitted(session, row.tool, args, options)


class SettleRequest(Struct, forbid_unknown_fields=True):
    """What came of a call that ended `unknown`: whether it happened, and with which result."""

    outcome: Literal["happened", "not"]
    data: Any = None
    reason: Text | None = None


async def reconcile(request: ApiRequest) -> ApiReply:
    """Says what came of a call of which nobody knew it."""
    session, row = await found(request)
    body = request.body
    await session.settle(
        row.id, body.outcome == "happened", body.data, reason=body.reason, actor=request.principal.name
    )
    return ApiReply(forms.result(row.id, await session.result(row.id)))


ROUTES = [
    Route(
        "POST",
        "/v1/sessions/{session}/calls",
        make,
        "Makes a call and gives its result. With `wait: false` it gives the accepted call at once, with `wait: 5` if "
        "it takes longer. The header `Idempotency-Key`, or `key`, makes the same request again give the same call.",
        "call",
        body=NewCall,
        gives={200: forms.ResultForm, 202: forms.CallForm},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/calls/{call}/result",
        outcome,
        "The result of a call; 202 where it is not done within `wait` seconds.",
        query=WaitQuery,
        gives={200: forms.ResultForm, 202: PendingCall},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/calls/{call}/cancel",
        cancel,
        "Stops a call, and answers when it has ended.",
        "call",
        gives={200: Cancelled},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/calls/{call}/again",
        again,
        "Makes the same call anew: same tool, same arguments.",
        "call",
        gives={202: forms.CallForm},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/calls/{call}/reconcile",
        reconcile,
        "Settles a call that ended `unknown`: somebody looked, and says whether it happened.",
        "answer",
        body=SettleRequest,
        gives={200: forms.ResultForm},
    ),
]

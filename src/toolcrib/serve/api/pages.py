"""Pages: `after` is what `next` said, opaque to whoever carries it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply
from toolcrib.store import LogPosition

MOST = 1000
Limit = Annotated[int, Meta(ge=1, le=MOST)]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=1000)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Seconds = Annotated[float, Meta(ge=0, le=86400)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]

Place = tuple[Moment, Seq, Annotated[int, Meta(ge=0, le=2**32)]]
LOOK_S = 0.1
"""How long one request searches; a page may have fewer items than its limit, and a next one."""


def owner_of(request: ApiRequest, wanted: str | None = None) -> str | None:
    """Whose sessions to look at: one's own, or those asked for by who may see all."""
    return wanted if request.principal.admin else request.principal.name


def place(*parts: Any) -> str:
    """Where the next page begins."""
    return urlsafe_b64encode(msgspec.json.encode(parts)).rstrip(b"=").decode()


def read_place(after: str | None, kinds: Any) -> Any:
    """What `place` was given; None for the first page. `kinds` is the type of the tuple.

    Raises:
        ApiError: it is no place.
    """
    if after is None:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(after.encode() + b"=" * (-len(after) % 4)), type=kinds)
    except (ValueError, msgspec.DecodeError):
        raise ApiError("invalid_arguments", "`after` is no place", "take it from `next` of the page before") from None


def read_mark(after: str | None) -> LogPosition | None:
    """The place in the logs of all sessions that `place` was given.

    Raises:
        ApiError: it is no place.
    """
    parts = read_place(after, Place)
    return None if parts is None else LogPosition(*parts)


def paged(items: list[Any], after: str | None = None, **more: Any) -> ApiReply:
    """A page; `after` is where the next one begins, if there is one."""
    return json_reply({"items": items, **({} if after is None else {"next": after}), **more})

"""Pages: `after` is what `next` said. Each kind of place is a text with a pattern, and whatever fits it is a place."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta

from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply
from toolcrib.store import LogPosition

MOST = 1000
Limit = Annotated[int, Meta(ge=1, le=MOST)]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=1000)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
NameOrNone = Annotated[str, Meta(max_length=255)]
"""A name, or nothing for what has none."""
Seconds = Annotated[float, Meta(ge=0, le=86400)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]

AT = r"[0-9]{1,11}([.][0-9]{1,30})?"
SESSION_ID = r"[A-Za-z0-9._:-]{1,255}"
SessionId = Annotated[str, Meta(pattern=rf"^{SESSION_ID}$")]
AmongCalls = Annotated[str, Meta(pattern=rf"^{AT}:[0-9]{{1,15}}:[0-9]{{1,15}}$", max_length=80)]
AmongSessions = Annotated[str, Meta(pattern=rf"^{AT}:{SESSION_ID}$", max_length=300)]
LOOK_S = 0.1
"""How long one request searches; a page may have fewer items than its limit, and a next one."""


def owner_of(request: ApiRequest, wanted: str | None = None) -> str | None:
    """Whose sessions to look at: one's own, or those asked for by who may see all."""
    return wanted if request.principal.admin else request.principal.name


def place(at: float, *parts: str | int) -> str:
    """Where the next page begins: a time, exactly, and what tells apart what happened then."""
    return ":".join((f"{Decimal(repr(at)):f}", *map(str, parts)))


def time_and_id(after: str | None) -> tuple[float, str] | None:
    """The two parts of a place among sessions, or whatever has a time and an id; None for the first page."""
    if after is None:
        return None
    at, _, id = after.partition(":")
    return float(at), id


def read_mark(after: str | None) -> LogPosition | None:
    """The place among calls that `place` was given; None for the first page."""
    if after is None:
        return None
    at, session, seq = after.split(":")
    return LogPosition(float(at), int(session), int(seq))


def paged(items: list[Any], after: str | None = None, **more: Any) -> ApiReply:
    """A page; `after` is where the next one begins, if there is one."""
    return json_reply({"items": items, **({} if after is None else {"next": after}), **more})

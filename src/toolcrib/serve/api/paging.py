"""Pages: `after` is what `next` said, opaque to whoever carries it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from toolcrib.serve.api.errors import Problem
from toolcrib.serve.api.request import given
from toolcrib.serve.api.routing import Reply

MOST = 1000
Limit = Annotated[int, Meta(ge=1, le=MOST)]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=1000)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Seconds = Annotated[float, Meta(ge=0, le=86400)]


class Paged(Struct, forbid_unknown_fields=True):
    """Which page."""

    after: Text | None = None
    limit: Limit = 100


def place(*parts: Any) -> str:
    """Where the next page begins."""
    return urlsafe_b64encode(msgspec.json.encode(parts)).rstrip(b"=").decode()


def read_place(after: str | None, kinds: Any) -> Any:
    """What `place` was given; None for the first page. `kinds` is the type of the tuple.

    Raises:
        Problem: it is no place.
    """
    if after is None:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(after.encode() + b"=" * (-len(after) % 4)), type=kinds)
    except (ValueError, msgspec.DecodeError):
        raise Problem("invalid_arguments", "`after` is no place", "take it from `next` of the page before") from None


def paged(items: list[Any], after: str | None = None, **more: Any) -> Reply:
    """A page; `after` is where the next one begins, if there is one."""
    return given({"items": items, **({} if after is None else {"next": after}), **more})

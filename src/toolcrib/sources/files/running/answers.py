"""Answers of web services: what they say, or why they failed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.errors import ToolFailure
from toolcrib.schema.hidden import without
from toolcrib.sources.files.running.processes import LARGEST
from toolcrib.sources.payload import read_body
from toolcrib.types import Result

if TYPE_CHECKING:
    import httpx

EXCERPT = 2048
MOVED = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def location(self) -> str | None:
        """Where it leads, if it is a redirect."""
        return self.headers.get("location") if self.status in MOVED else None


async def read(response: httpx.Response) -> Answer:
    """Reads an answer, which may not be larger than can be kept.

    Raises:
        ToolFailure: `too_large`, it is; `failed`, it cannot be unpacked.
    """
    body = await read_body(response, LARGEST, http_status=response.status_code)
    text = body.decode(response.charset_encoding or "utf-8", errors="replace")
    return Answer(response.status_code, response.headers, text)


def outcome(answer: Answer, masks: tuple[str, ...]) -> Result:
    """The result that an answer is.

    Raises:
        ToolFailure: it says that the request failed.
    """
    metadata = {"http_status": answer.status}
    if answer.status < 300:
        return Result(without(masks, _data(answer.text, answer.headers.get("content-type", ""))), metadata=metadata)
    said = " ".join(without(masks, answer.text)[:EXCERPT].split())
    message = f"HTTP {answer.status}: {said}" if said else f"HTTP {answer.status}"
    if answer.status == 429:
        raise _rate_limited(message, answer.headers.get("retry-after"), metadata)
    code = "timeout" if answer.status == 408 else "unavailable" if answer.status >= 500 else "failed"
    raise ToolFailure(code, message, metadata=metadata)


def _data(text: str, kind: str) -> Any:
    """JSON where the answer is said to be, or looks like an object or a list; else the text; None where it is empty."""
    if "json" in kind or text.lstrip().startswith(("{", "[")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            pass
    return text or None


def _rate_limited(message: str, after: str | None, metadata: dict[str, Any]) -> ToolFailure:
    seconds = None if after is None else _seconds(after.strip())
    if seconds is None:
        return ToolFailure("rate_limited", message, metadata=metadata)
    return ToolFailure(
        "rate_limited",
        message,
        hint=f"Try again in {seconds:g} s.",
        metadata={**metadata, "retry_after_s": seconds},
    )


def _seconds(after: str) -> float | None:
    """A number of seconds, or a date."""
    if after.isdecimal():
        return float(after)
    try:
        return max(0.0, round(parsedate_to_datetime(after).timestamp() - time.time()))
    except ValueError:
        return None

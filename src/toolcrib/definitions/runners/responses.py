"""Answers of web services: what they say, or why they failed."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcrib.errors import ToolFailure
from toolcrib.http import Response
from toolcrib.schema.redaction import without
from toolcrib.types import Result

EXCERPT = 2048


def outcome(answer: Response, masks: tuple[str, ...]) -> Result:
    """The result that an answer is.

    Raises:
        ToolFailure: it says that the request failed.
    """
    metadata = {"http_status": answer.status}
    if answer.status < 300:
        return Result(without(masks, _data(answer.text, answer.headers.get("content-type", ""))), metadata=metadata)
    excerpt = " ".join(without(masks, answer.text)[:EXCERPT].split())
    message = f"HTTP {answer.status}: {excerpt}" if excerpt else f"HTTP {answer.status}"
    if answer.status == 429:
        raise _rate_limited(message, answer.retry_after_s, metadata)
    code = "timeout" if answer.status == 408 else "unavailable" if answer.status >= 500 else "failed"
    raise ToolFailure(code, message, metadata=metadata)


def _data(text: str, kind: str) -> Any:
    """Decode JSON if the content type says so or it looks like it; else return the text, or None if it is empty."""
    if "json" in kind or text.lstrip().startswith(("{", "[")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            pass
    return text or None


def _rate_limited(message: str, seconds: float | None, metadata: dict[str, Any]) -> ToolFailure:
    if seconds is None:
        return ToolFailure("rate_limited", message, metadata=metadata)
    metadata = {**metadata, "retry_after_s": seconds}
    return ToolFailure("rate_limited", message, hint=f"Try again in {seconds:g} s.", metadata=metadata)

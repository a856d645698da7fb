"""From what a service answers to the result of a call, or why it failed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib.errors import ToolFailure
from toolcrib.http import Response
from toolcrib.schema.redaction import without
from toolcrib.types import Effect, Result, block

EXCERPT = 1000
_CODES = {
    400: "invalid_arguments",
    401: "denied",
    403: "denied",
    404: "not_found",
    408: "timeout",
    410: "not_found",
    413: "too_large",
    422: "invalid_arguments",
    429: "rate_limited",
    504: "timeout",
}
_HINTS = {
    401: "The credentials were refused. Whoever configures this source checks its auth.",
    403: "The credentials do not allow this. Whoever configures this source may give it more rights.",
}
_TEXTS = ("application/xml", "application/yaml", "application/javascript", "application/x-ndjson", "application/jsonl")
_TOLD = ("location", "link")


def outcome(
    answer: Response,
    effect: Effect,
    masks: tuple[str, ...],
    check: Callable[[Any], str | None] | None = None,
    method: str = "get",
) -> Result:
    """The result that an answer is. Texts in `masks` are nowhere in it.

    Raises:
        ToolFailure: it says that the request failed.
    """
    metadata: dict[str, Any] = {"http_status": answer.status}
    if answer.status >= 300:
        raise _failure(answer, effect, masks, metadata)
    metadata |= {name: without(masks, answer.headers[name])[:EXCERPT] for name in _TOLD if name in answer.headers}
    if method == "head":
        shown = {name: value for name, value in answer.headers.items() if name.lower() != "set-cookie"}
        return Result(without(masks, {"status": answer.status, "headers": shown}), metadata=metadata)
    if not answer.body:
        return Result(None, metadata=metadata)
    if not _is_text(answer):
        return Result(None, [_binary(answer)], metadata=metadata)
    data = without(masks, _data(answer))
    problem = None if check is None else check(data)
    if problem is None:
        return Result(data, metadata=metadata)
    # It is not what the document says, and nothing of it is lost.
    shown = block("text", text=data) if isinstance(data, str) else block("json", value=data)
    return Result(None, [shown], metadata={**metadata, "unexpected": problem})


def _is_text(answer: Response) -> bool:
    media = answer.content_type
    if media.endswith(("/json", "+json", "+xml")) or media.startswith("text/") or media in _TEXTS:
        return True
    if media and media != "application/octet-stream":
        return media == "application/x-www-form-urlencoded"
    try:
        answer.body.decode()
    except UnicodeDecodeError:
        return False
    return not media


def _data(answer: Response) -> Any:
    text = answer.text
    if answer.content_type.endswith(("/json", "+json")) or (
        not answer.content_type and text.lstrip()[:1] in ("{", "[")
    ):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            pass
    return text


def _binary(answer: Response) -> dict[str, Any]:
    data = base64.b64encode(answer.body).decode()
    kind, media = answer.content_type.partition("/")[0], answer.content_type or "application/octet-stream"
    if kind in ("image", "audio"):
        return block(kind, data=data, mime_type=media)
    return block("resource", uri="openapi:answer", mime_type=media, blob=data)


def _failure(answer: Response, effect: Effect, masks: tuple[str, ...], metadata: dict[str, Any]) -> ToolFailure:
    excerpt = " ".join(without(masks, answer.text).split())[:EXCERPT] if _is_text(answer) else ""
    if answer.content_type == "text/html":
        excerpt = ""
    status = answer.status
    message = f"HTTP {status}: {excerpt}" if excerpt else f"HTTP {status}"
    code = _CODES.get(status) or ("unavailable" if status >= 500 else "failed")
    hint, retryable = _HINTS.get(status), None
    if status >= 500 and code == "unavailable":
        retryable = effect != "once"
    if status in (429, 503) and (after := answer.retry_after_s) is not None:
        metadata, hint = {**metadata, "retry_after_s": after}, f"Try again in {after:g} s."
    return ToolFailure(code, message, hint=hint, retryable=retryable, metadata=metadata)

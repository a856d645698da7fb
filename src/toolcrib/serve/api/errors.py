"""What a request gets that was not carried out: one form for all, with a stable code. Stacks and secrets stay here."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from toolcrib.errors import Refused, StoreError, ToolcribError, ToolFailure
from toolcrib.serve.asgi import JSON, Header, UnreadableBody
from toolcrib.serve.keys import CHALLENGE
from toolcrib.serve.principal import NotAdmitted

log = logging.getLogger("toolcrib.serve")

STATUS = {
    "invalid_arguments": 400,
    "unauthorized": 401,
    "denied": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "timeout": 408,
    "declined": 409,
    "already_answered": 409,
    "expired": 409,
    "conflict": 409,
    "failed": 409,
    "too_large": 413,
    "rate_limited": 429,
    "too_many": 429,
    "internal": 500,
    "unavailable": 503,
}
"""The HTTP status of every code."""

_CODES = {400: "invalid_arguments", 401: "unauthorized", 403: "denied", 408: "timeout", 413: "too_large"}


class ErrorDetail(msgspec.Struct, omit_defaults=True):
    """Why something was not done: `code` is stable, `message` is for people, `hint` says what to do next."""

    code: str
    message: str
    hint: str | None = None
    retry_after: float | None = None
    trace: str | None = None


class ErrorForm(msgspec.Struct):
    """The body of every answer that is no success."""

    error: ErrorDetail


class ApiError(Exception):
    """A request that was not carried out."""

    def __init__(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        retry_after: float | None = None,
        headers: Sequence[Header] = (),
    ) -> None:
        super().__init__(message)
        self.detail = ErrorDetail(code, message, hint, retry_after)
        self.status = STATUS.get(code, 400)
        self.headers = headers

    def reply(self) -> tuple[int, bytes, list[Header]]:
        """Status, body and headers."""
        headers = [JSON, *self.headers]
        if self.status == 401 and not any(name == b"www-authenticate" for name, _ in headers):
            headers.append((b"www-authenticate", CHALLENGE.encode()))
        if self.detail.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.detail.retry_after))))
        return self.status, msgspec.json.encode(ErrorForm(self.detail)), headers


def nowhere(only: str | None = None) -> ApiError:
    """There is nothing at the path of a request, whichever part of the server looked; `only` is all that it serves."""
    hint = "/v1/openapi.json tells what is" if only is None else f"this server serves MCP clients alone, at {only}"
    return ApiError("not_found", "There is nothing at this path", hint)


def missing(what: str = "session") -> ApiError:
    """What somebody may not see is as unknown as what never was."""
    return ApiError("not_found", f"There is no such {what}")


def problem_of(error: Exception) -> ApiError:
    """Return what a client sees of an error; of an unexpected one only the id of its trace."""
    match error:
        case ApiError():
            return error
        case Refused():
            return ApiError(error.code, error.message, error.hint)
        case ToolFailure():  # the server of a source or an account: this one is well
            return ApiError("failed", error.message, error.hint)
        case NotAdmitted():
            challenge = () if error.challenge is None else ((b"www-authenticate", error.challenge.encode("latin-1")),)
            return ApiError(_CODES.get(error.status, "denied"), error.message, error.hint, headers=challenge)
        case UnreadableBody():
            return ApiError(_CODES[error.status], error.message, headers=((b"connection", b"close"),))
        case StoreError():
            again = "ask again with the same key, which finds the call if it was accepted"
            hint = again if error.in_doubt else "try again"
            return ApiError("unavailable", str(error), hint, retry_after=1.0)
        case ToolcribError():
            return ApiError("invalid_arguments", str(error))
    return _unexpected(error)


def _unexpected(error: Any) -> ApiError:
    trace = secrets.token_hex(8)
    log.error("a request could not be answered (trace %s)", trace, exc_info=error)
    problem = ApiError("internal", "Something went wrong here", f"the server's log has it under {trace}")
    problem.detail.trace = trace
    return problem

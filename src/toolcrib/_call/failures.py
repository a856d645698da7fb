"""How the failures of a call are worded, and where faults that nobody meant are traced."""

from __future__ import annotations

import logging
import secrets as random
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from toolcrib.errors import DuplicateQuestion, DuplicateStep, Refused, StoreError
from toolcrib.reports import Misuse
from toolcrib.schema.redaction import without
from toolcrib.tool import Tool
from toolcrib.types import CODES, RETRYABLE, Failure

MISTAKES = (Misuse, Refused, DuplicateQuestion, DuplicateStep)
"""What the parts of a context raise where a tool wants what cannot be."""

trace = logging.getLogger("toolcrib.trace")

IN_DOUBT = "It may have been accepted: call it once more with the same key, which finds it if it was"


def failure_of(  # noqa: PLR0913 - the parts of a failure
    tool: Tool | None,
    code: str,
    message: str,
    *,
    retryable: bool | None = None,
    hint: str | None = None,
    metadata: Mapping[str, Any] = MappingProxyType({}),
    reason: str | None = None,
) -> Failure:
    """Return a failure with the hint of an anti-pattern that fits.

    A code that is none of `CODES` is the tool's own: the failure is `failed`, and that is its reason.
    """
    if code not in CODES:
        code, message, reason = "failed", message or code, reason or str(code)
    message = str(message)
    if hint is None and tool is not None:
        known = tool.knowledge
        hint = next((p.hint for p in known.anti_patterns if p.match.lower() in message.lower()), None)
        if hint is None and known.hint is not None:
            hint = known.hint(code, message, metadata)
    if retryable is None:
        retryable = code in RETRYABLE or (code == "timeout" and tool is not None and tool.does != "once")
    return Failure(code, message, retryable, hint, reason)


def unavailable(error: StoreError, tool: Tool | None = None) -> Failure:
    """Return the failure of a call that the store did not take, or of which nobody knows whether it did."""
    return failure_of(tool, "unavailable", str(error), hint=IN_DOUBT if error.in_doubt else None)


def masked(failure: Failure, secrets: Sequence[str]) -> Failure:
    """Return a failure without the values of secret arguments."""
    if not secrets:
        return failure
    hint = failure.hint and without(secrets, failure.hint)
    reason = failure.reason and without(secrets, failure.reason)
    return Failure(failure.code, without(secrets, failure.message), failure.retryable, hint, reason)


def unexpected(error: BaseException, name: str, tool: str, call: str, secrets: Sequence[str] = ()) -> Failure:
    """Return the failure of an exception that nobody meant; its text goes to the trace alone.

    A mistake of the tool's author is told: they look at the result first, and a text of our own has no data of others.
    """
    id = traced(error, tool, call, secrets)
    if isinstance(error, MISTAKES):
        return Failure("internal", f"Tool '{name}' has a mistake: {without(secrets, str(error))} (trace {id})")
    return Failure("internal", f"Tool '{name}' failed unexpectedly (trace {id})")


def traced(error: BaseException, tool: str, call: str, secrets: Sequence[str] = ()) -> str:
    """Write what went wrong to the trace; return the id under which it is found."""
    id = random.token_hex(6)
    where = ("trace %s: tool %s, call %s", id, tool, call)
    if secrets:
        trace.error(f"{where[0]}\n%s", *where[1:], without(secrets, "".join(traceback.format_exception(error))))
    else:
        trace.error(*where, exc_info=error)
    return id

"""What went wrong with a provider, said as a `ModelError`: a stable code, and a sentence that holds no key."""

from __future__ import annotations

import logging
import re
from typing import Any

from toolcrib.agent.models import ModelError
from toolcrib.agent.problems import meant
from toolcrib.agent.providers.endpoint import ModelEndpoint
from toolcrib.extras import install

LONGEST = 300

_RULES = (
    ("ModelRateLimitError", "rate_limited", "{provider} allows no more requests for now"),
    ("ModelQuotaExceededError", "denied", "The account at {provider} has no quota or credit left"),
    ("ModelUnavailableError", "unavailable", "{provider} is not available or overloaded"),
    ("ModelServerError", "unavailable", "{provider} failed"),
    ("ModelRequestTimeout", "timeout", "{provider} took too long"),
    ("ModelTimeoutError", "timeout", "{provider} took too long"),
    ("ModelConnectionError", "unavailable", "{provider} cannot be reached"),
    ("ModelContextWindowExceededError", "too_large", "The conversation is too long for {model}"),
    ("ModelAuthenticationError", "denied", "{provider} does not accept the key: set {variables}"),
    ("ModelNotFoundError", "not_found", "{provider} knows no model '{model}'"),
    ("ModelRequestRejectedError", "invalid_arguments", "{provider} rejected the request"),
    ("ContentFilterError", "denied", "The content filter of {provider} stopped the reply"),
    ("AgentRunError", "unavailable", "{provider} sent a reply that cannot be read"),
    ("UserError", "invalid_arguments", "{provider} cannot be asked like this"),
)
"""The first that fits: an error of `pydantic_ai`, our code, and what is said of it."""

_SILENT = ("ModelAuthenticationError", "ModelQuotaExceededError")
"""Of these the provider's own words are not passed on: they like to repeat a part of the key."""

_CLIENTS = ("anthropic", "botocore", "google", "httpcore2", "httpx", "httpx2", "openai", "pydantic_core")
"""Packages whose own errors come through where a reply is not what it should be."""

_KNOWN = ("anthropic", "bedrock", "google", "openai", "openai-chat")
"""The providers that are named where one is unknown."""

_PACKAGE = re.compile(r"pydantic-ai-slim\[[\w-]+\]")
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]{3,})`")

log = logging.getLogger("toolcrib.agent")


def of(error: Exception, address: ModelEndpoint, begun: bool) -> ModelError:
    """What an error in a request means; `begun` where a part of the reply has come."""
    from pydantic_ai import exceptions

    if isinstance(error, ModelError):
        return error
    for name, code, sentence in _RULES:
        if isinstance(error, getattr(exceptions, name)):
            if name == "ModelConnectionError" and begun:
                return broken_off(address)
            words = "" if name in _SILENT else _words(error, address)
            values = {"provider": address.provider, "model": address.name, "variables": " or ".join(address.variables)}
            after = getattr(error, "retry_after", None)
            waits = "" if after is None else f" (ask again in {after:g} s)"
            return ModelError(code, f"{sentence.format(**values)}{waits}{words}", retry_after=after)
    if type(error).__module__.partition(".")[0] in _CLIENTS or isinstance(error, ValueError | OSError):
        return ModelError("unavailable", f"{address.provider} sent a reply that cannot be read")
    log.error("%s failed in a way that nobody knows", address.provider, exc_info=error)
    return ModelError("internal", f"The client of {address.provider} failed: {type(error).__name__}")


def broken_off(address: ModelEndpoint) -> ModelError:
    """A reply of which the end did not come."""
    return ModelError("unavailable", f"The connection to {address.provider} broke off in the middle of the reply")


def of_setup(error: Exception, address: ModelEndpoint) -> ModelError:
    """Why a model cannot even be asked, and what to do."""
    if isinstance(error, ModelError):
        return error
    words = address.hidden(str(error).partition(" To try Pydantic AI")[0])
    if isinstance(error, ImportError):
        match = _PACKAGE.search(words)
        package = install("models") if match is None else f"pip install '{match[0]}'"
        return ModelError("failed", f"Models of {address.provider} need a package that is not installed: {package}")
    if isinstance(error, ValueError) and words.startswith("Unknown provider"):
        advice = f"{', '.join(_KNOWN)} are known, among others{meant(address.kind, _KNOWN)}"
        return ModelError("not_found", f"There is no provider of models '{address.kind}': {advice}")
    variables = _VARIABLE.findall(words)
    if variables:
        return ModelError("denied", f"{address.provider} needs to be set up: set {' or '.join(variables)}")
    return ModelError("invalid_arguments", f"{address.provider} cannot be set up: {_short(words)}")


def _words(error: Any, address: ModelEndpoint) -> str:
    """What the provider itself says of it."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    text = message if isinstance(message, str) else "" if hasattr(error, "status_code") else str(error)
    return f": {_short(address.hidden(text))}" if text else ""


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}..."

"""Where a server is, whichever way it is reached, and what an attempt to reach it met."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from pydantic import ValidationError


class Endpoint(Protocol):
    """Where a server is."""

    @property
    def log_text(self) -> str:
        """What it said besides its messages."""

    def connect(self, broke: Callable[[], None]) -> contextlib.AbstractAsyncContextManager[tuple[Any, Any]]:
        """The streams of its messages; `broke` is called where they cannot say that the server is gone."""


def root_cause(error: BaseException) -> BaseException:
    """The first of those that a task group found."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def words(cause: BaseException) -> str:
    """What happened, for people."""
    if isinstance(cause, FileNotFoundError):
        return f"{cause.filename} is not installed"
    if isinstance(cause, ValidationError):
        return "its answer does not hold"
    return str(cause) or type(cause).__name__

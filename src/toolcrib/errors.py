"""What can go wrong outside a call, as one small tree.

    ToolcribError                 everything that this library raises on purpose
    ├── Refused                   a request that may not or cannot be done (denied, not_found, already_answered, ...)
    ├── BadTool                   a tool definition that does not hold, naming tool, field and source
    │   └── BadDocument           an OpenAPI document that does not hold (in `toolcrib.sources.openapi`)
    ├── DuplicateQuestion         one pass of a tool asked the same thing twice without a key
    ├── DuplicateStep             one pass of a tool used one step key twice
    ├── StoreError                the store could not do its work
    │   ├── StoreUnavailable      it is away, locked or full: nothing was written
    │   └── StoreTooNew           its schema is newer than this program
    ├── BadSecretKey              there is no key for secret arguments, or it cannot be used
    ├── BadAccount                settings of an account that do not hold
    ├── BadRule                   a grant, pattern or rule that does not load (in `toolcrib.policy`)
    ├── InteropError              a JSON form of another system that does not read (in `toolcrib.interop`)
    ├── BadAgent                  definitions of agents that do not hold (in `toolcrib.agent`)
    └── EngineUnavailable         the engine of a cluster cannot be reached, or is not what it has to be
    ToolFailure                   raised by a tool to fail on purpose; becomes the `Failure` of its result
    └── StreamClosed              the other side of a stream went away before its last message

Inside a call nothing is raised to the caller: every outcome is a `Result`.
"""

from __future__ import annotations

from typing import Any


class ToolcribError(Exception):
    """The root of what this library raises on purpose."""


class Refused(ToolcribError):
    """A request that was not carried out: `code` is stable, the message is for people, `hint` says what to do next."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message} ({hint})")
        self.code = code
        self.message = message
        self.hint = hint


class BadTool(ToolcribError):
    """A tool definition that does not hold."""

    def __init__(self, tool: str, field: str, problem: str, source: str | None = None) -> None:
        where = f" (from {source})" if source else ""
        super().__init__(f"Tool '{tool}'{where}: {field}: {problem}")
        self.tool = tool
        self.field = field
        self.problem = problem
        self.source = source


class DuplicateQuestion(ToolcribError):
    """The same question was asked twice in one pass; give each its own `key`."""


class DuplicateStep(ToolcribError):
    """One step key was used twice in one pass; give each step its own key."""


class StoreError(ToolcribError):
    """The store could not do its work."""

    in_doubt: bool = False
    """Whether the write may have been done all the same."""


class StoreUnavailable(StoreError):
    """The store is away, locked or full; nothing of the write was kept, unless `in_doubt`.

    `absent` says that nothing is there yet that would answer: it may be worth to wait for it. `in_doubt` says that the
    store fell silent while it had the write, which may have been done: the same once more, with the same key, tells.
    """

    def __init__(self, message: str = "", *, absent: bool = False, in_doubt: bool = False) -> None:
        super().__init__(message)
        self.absent = absent
        self.in_doubt = in_doubt


class StoreTooNew(StoreError):
    """The store was written by a newer program."""


class BadSecretKey(ToolcribError):
    """There is no key to encrypt secret arguments with, or the one that was given cannot be used."""


class BadAccount(ToolcribError):
    """Settings of an account that do not hold."""


class EngineUnavailable(ToolcribError):
    """The engine of a cluster is away, or is not what it has to be; `absent` as for a store."""

    def __init__(self, message: str = "", *, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent


class ToolFailure(Exception):
    """Raised (or returned) by a tool that fails on purpose; message and hint reach the model as they are.

    `code` is one of the codes of failures, or a code of the tool's own such as `INSUFFICIENT_FUNDS`: then the failure
    is `failed`, and that is its `reason`. With `reason` a tool says both.
    """

    def __init__(
        self,
        code: str = "failed",
        message: str = "",
        *,
        retryable: bool | None = None,
        hint: str | None = None,
        metadata: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.hint = hint
        self.reason = reason
        self.metadata = metadata or {}


class StreamClosed(ToolFailure):
    """The other side of a stream went away before its last message."""

    def __init__(self) -> None:
        super().__init__("unavailable", "Stream closed before it finished", retryable=True)

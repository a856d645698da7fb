"""Code of strangers, run where nothing that it does can hurt: JavaScript in WebAssembly, Python in a small interpreter.

Each run begins from a clean state, has a clock and a memory of its own, and sees nothing of the host. What crosses is
JSON. Whatever the code does, the host gets a value or a `SandboxError` in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Literal, Protocol

Role = Literal["validator", "helper"]
FaultCode = Literal[
    "timeout", "memory", "syntax", "threw", "bad_return", "no_function", "too_large", "crashed", "denied", "busy"
]

LANGUAGES = ("javascript", "python")

INPUT = 4 * 1024 * 1024
RESULT = 1024 * 1024
PRINTED = 10 * 1024
MESSAGE = 4 * 1024
"""How much goes in, comes out, is printed, and is told of an error."""

CHECK_BYTES = 64 * 1024 * 1024
"""The memory to read a piece of code in without running it."""


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What one run gave: the JSON text of its value, what it printed, and how long the evaluation took."""

    value: bytes
    printed: str = ""
    duration_ms: float = 0.0


class SandboxError(Exception):
    """Why a run gave no value; `message` is the code's own where it threw, else empty."""

    def __init__(self, code: FaultCode, message: str = "", printed: str = "", duration_ms: float = 0.0) -> None:
        super().__init__(message or code)
        self.code: FaultCode = code
        self.message = message
        self.printed = printed
        self.duration_ms = duration_ms


class Sandbox(Protocol):
    """Runs code of one language; safe to use from many tasks at once."""

    async def run(
        self, code: str, args: bytes, *, name: str, role: Role, timeout_s: float, memory_bytes: int
    ) -> SandboxResult:
        """The value that `code` gives for `args` (JSON). `name` is the id whose function is looked for.

        Raises:
            Fault: it gave none.
        """

    async def check(self, code: str) -> str | None:
        """What is wrong with the syntax of the code, without running it; None where nothing is."""

    async def close(self) -> None:
        """Lets go of what it holds."""


class Sandboxes:
    """What one owner uses of the sandboxes of this process: all share the workers, and the last to close ends them."""

    def __init__(self) -> None:
        self._held: dict[str, Sandbox] = {}

    def of(self, language: str) -> Sandbox:
        """The sandbox of that language; its workers start with the first run.

        Raises:
            ValueError: there is none.
        """
        held = self._held.get(language)
        if held is None:
            held = self._held[language] = _taken(language)
        return held

    async def close(self) -> None:
        """Lets go of them; whatever this owner still runs is to be over."""
        held, self._held = self._held, {}
        for language in held:
            if last := _left(language):
                await last.close()


def sandbox(language: str) -> Sandbox:
    """A new sandbox of that language, with workers of its own.

    Raises:
        ValueError: there is none.
    """
    if language == "javascript":
        from toolcrib.sandbox.javascript import JavaScript

        return JavaScript()
    if language == "python":
        from toolcrib.sandbox.python import Python

        return Python()
    raise ValueError(f"No sandbox runs '{language}'. There are: {', '.join(LANGUAGES)}")


_shared: dict[str, tuple[Sandbox, int]] = {}
_sharing = Lock()


def _taken(language: str) -> Sandbox:
    with _sharing:
        shared, owners = _shared.get(language) or (sandbox(language), 0)
        _shared[language] = (shared, owners + 1)
        return shared


def _left(language: str) -> Sandbox | None:
    """The sandbox, where this was its last owner."""
    with _sharing:
        shared, owners = _shared.pop(language)
        if owners == 1:
            return shared
        _shared[language] = (shared, owners - 1)
        return None

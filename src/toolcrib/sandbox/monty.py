"""A machine that runs Python: a process of the Monty interpreter, which knows a part of the language and no host.

Each run is a session of its own. A process that does not stop in time is killed, and the interpreter starts another.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from pydantic_monty import (
    Monty,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    OSPolicy,
    ResourceLimits,
)

from toolcrib.sandbox import CHECK_BYTES, MESSAGE, PRINTED, RESULT, FaultCode, SandboxError, SandboxResult

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

DEFINED = re.compile(r"^(async[ \t]++)?def[ \t]++(\w++)", re.MULTILINE)
EXPECTED = ("validate", "run")
VALUE = "_value"

TOO_LONG = "feed time limit exceeded"
TOO_MUCH = "memory limit exceeded"
NOT_KNOWN = "The monty syntax parser does not yet support"
NOT_THERE = "is not supported in this environment"
LONG = re.compile(rb"\d{19}")
CYCLES = (b'"[...]"', b'"{...}"')
"""What the interpreter writes where a value contains itself, and what a text may say too."""


_making = threading.Lock()
"""Looking for the program of the interpreter is not safe in two threads at once."""


class Printed:
    """What was printed, up to its bound."""

    def __init__(self, most: int) -> None:
        self.text = ""
        self._most = most

    def __call__(self, _stream: str, text: str) -> None:
        """Takes the next piece."""
        self.text += text[: max(self._most - len(self.text), 0)]


T = TypeVar("T")
Then = Callable[[MontySession, Printed], T]
"""What is done in a session."""


class MontyInterpreter:
    """Runs one piece of code at a time, in a process of its own; any thread may interrupt it."""

    def __init__(self) -> None:
        with _making:
            self._pool = Monty(min_processes=1, max_processes=1, feed_duration_limit_grace=None)
            self._pool.__enter__()
        self._process: int | None = None
        self._interrupted = False

    def interrupt(self) -> None:
        """Kills the process of what runs now."""
        process, self._interrupted = self._process, True
        if process:
            try:
                os.kill(process, KILL)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        """Ends the process."""
        self._pool.__exit__(None, None, None)

    def run(self, code: str, args: Any, name: str, timeout_s: float, memory_bytes: int) -> SandboxResult:
        """What the code gives: the result of its function, or what it set as `result`.

        Raises:
            Fault: it gives nothing.
        """
        limits: ResourceLimits = {"max_feed_duration_secs": timeout_s, "max_memory": memory_bytes}
        try:
            return self._fed(code, {"args": args}, limits, lambda *to: encoded(to[0], _called(code, name, *to)))
        except SandboxError as fault:
            if fault.code == "syntax" and self._reads(code):
                fault.code = "threw"
            raise

    def check(self, code: str) -> None:
        """Reads the code without running it: a script may return, and all of it is read before.

        Raises:
            Fault: it cannot be read.
        """
        self._fed(f"return\n{code}", {}, {"max_memory": CHECK_BYTES}, lambda *_: b"null")

    def _reads(self, code: str) -> bool:
        """True if the code can be read; a SyntaxError may also come from what it did."""
        try:
            self.check(code)
        except SandboxError:
            return False
        return True

    def _fed(self, code: str, inputs: dict[str, Any], limits: ResourceLimits, then: Then[bytes]) -> SandboxResult:
        def fed(session: MontySession, printed: Printed) -> bytes:
            session.feed_run(code, inputs=inputs, print_callback=printed)
            return then(session, printed)

        return SandboxResult(*self.use(fed, limits))

    def use(
        self, do: Then[T], limits: ResourceLimits, policy: OSPolicy | None = None, most: int = PRINTED
    ) -> tuple[T, str, float]:
        """What is done in a session of its own gives, what it printed, and how long it took in ms.

        Raises:
            Fault: it gives nothing.
        """
        printed, start = Printed(most), time.perf_counter()
        self._interrupted = False
        try:
            with self._pool.checkout(limits=limits, os_policy={"sleep": "zero", **(policy or {})}) as session:
                self._process, start = session.worker_pid, time.perf_counter()
                return do(session, printed), printed.text, _since(start)
        except MontyError as error:
            raise self._fault(error, printed.text, start) from None
        except SandboxError as fault:
            fault.printed, fault.duration_ms = printed.text, _since(start)
            raise
        finally:
            self._process = None

    def _fault(self, error: MontyError, printed: str, start: float) -> SandboxError:
        spent = _since(start)
        if isinstance(error, MontyCrashedError):
            return SandboxError("timeout" if self._interrupted else "crashed", "", printed, spent)
        code = code_of(error)
        return SandboxError(code, "" if code in ("timeout", "memory") else _message(error), printed, spent)


def _called(code: str, name: str, session: MontySession, printed: Printed) -> Any:
    """The value of the function that is meant, or of `result`.

    Raises:
        Fault: there is neither.
    """
    functions = {match[2]: match[1] for match in DEFINED.finditer(code)}
    names = (re.sub(r"\W", "_", name), *EXPECTED)
    meant = next((wanted for wanted in names if wanted in functions), None)
    if meant is None and "result" in code:
        try:
            return session.feed_run(f"{VALUE} = result\n{VALUE}", print_callback=printed)
        except MontyRuntimeError as error:
            if not isinstance(error.exception(), NameError):
                raise
    if not functions:
        raise SandboxError("no_function")
    meant = meant or list(functions)[-1]
    wait = "await " if functions[meant] else ""
    return session.feed_run(f"{VALUE} = {wait}{meant}(args)\n{VALUE}", print_callback=printed)


def encoded(session: MontySession, value: Any) -> bytes:
    """The value as JSON.

    Raises:
        Fault: it has no such form, or a very long one.
    """
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SandboxError("bad_return", str(error)[:MESSAGE]) from None
    if len(encoded) > RESULT:
        raise SandboxError("too_large")
    if LONG.search(encoded) and _big(value):
        raise SandboxError("bad_return", "an integer of more than 64 bits")
    if any(mark in encoded for mark in CYCLES):
        try:
            session.feed_run(f"import json\njson.dumps({VALUE})")
        except MontyRuntimeError as error:
            if "ircular" in str(error):
                raise SandboxError("bad_return", "circular reference") from None
    return encoded


def _big(value: Any) -> bool:
    """True if there is an integer in it that other readers of JSON would change."""
    if isinstance(value, dict):
        return any(_big(item) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_big(item) for item in value)
    return isinstance(value, int) and value.bit_length() > 64


def code_of(error: MontyError) -> FaultCode:
    """What kind of fault an error of the interpreter is."""
    if isinstance(error, MontySyntaxError):
        return "syntax"
    inner, text = error.exception(), str(error)
    if isinstance(inner, TimeoutError) and TOO_LONG in text:
        return "timeout"
    if isinstance(inner, MemoryError) and TOO_MUCH in text:
        return "memory"
    if isinstance(inner, NotImplementedError) and NOT_KNOWN in text:
        return "syntax"
    if isinstance(inner, PermissionError) or (isinstance(inner, RuntimeError) and NOT_THERE in text):
        return "denied"
    return "threw"


def _message(error: MontyError) -> str:
    inner = error.exception()
    text = str(inner.args[0]) if inner.args else ""
    return (text or type(inner).__name__)[:MESSAGE]


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3

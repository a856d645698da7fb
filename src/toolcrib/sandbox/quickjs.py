"""A machine that runs JavaScript: an instance of the prepared engine, put back to its first state before every run.

An instance that trapped, or whose memory grew, is thrown away, because neither can be undone. The guest has a clock and
nothing else of the host; what it asks for besides is denied.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import msgspec
import wasmtime
from wasmtime import FuncType, Linker, Module, Trap, TrapCode

from toolcrib.sandbox import CHECK_BYTES, MESSAGE, PRINTED, RESULT, FaultCode, SandboxError, SandboxResult
from toolcrib.sandbox.image import BAD_SETUP, THROWN, Image, Instance, engine, new_store, prepared

ROOM = 1024 * 1024
"""What is added when an error is to be described, because the code may have left nothing."""

CLOCK = "clock_time_get"

KINDS: dict[bytes, FaultCode] = {
    b"L": "too_large",
    b"M": "memory",
    b"N": "no_function",
    b"R": "bad_return",
    b"S": "syntax",
    b"T": "threw",
}
"""What the letters of the prelude mean; V is a value."""

SPEAKING = (b"R", b"S", b"T")
"""Those with a message."""

ESCAPE = re.compile(rb"\\(?:u(d[89a-f][0-9a-f]{2})|.)")
"""One escape in JSON. JavaScript writes half of a pair so, and only that."""


class QuickJsInterpreter:
    """Runs one piece of code at a time, on the thread that calls; any other thread may interrupt it."""

    def __init__(self) -> None:
        self._image = prepared()
        self._engine = engine()
        self._module = Module.deserialize(self._engine, self._image.compiled)
        self._linker = Linker(self._engine)
        self._linker.allow_shadowing = True
        self._linker.define_wasi()
        for wanted in self._module.imports:
            assert isinstance(wanted.type, FuncType)
            if wanted.name != CLOCK:
                self._linker.define_func(wanted.module, wanted.name or "", wanted.type, _deny)
        self._driver = Module(self._engine, self._image.driver)
        self._instance: Instance | None = None

    def interrupt(self) -> None:
        """Ends what runs now as one that took too long."""
        self._engine.increment_epoch()

    def close(self) -> None:
        """Lets go of the instance."""
        instance, self._instance = self._instance, None
        if instance:
            instance.close()

    def run(self, code: bytes, setup: bytes, memory_bytes: int) -> SandboxResult:
        """What the code gives; `setup` is what the prelude wants to know of the run.

        Raises:
            Fault: it gives nothing.
        """
        # What is handed in lies in the guest's memory too, and is not the code's.
        return self._guarded(lambda session: session.ran(code, setup), memory_bytes + len(code) + len(setup))

    def check(self, code: bytes) -> None:
        """Compiles the code without running it.

        Raises:
            Fault: it does not compile.
        """
        self._guarded(lambda session: session.compiled(code), CHECK_BYTES)

    def _guarded(self, work: Callable[[_Session], bytes], memory_bytes: int) -> SandboxResult:
        instance = self._restored(memory_bytes)
        session = _Session(self._image, instance, self._image.used + memory_bytes)
        start = time.perf_counter()
        try:
            return _told(work(session), start)
        except Trap as trap:
            fault = session.trapped(trap, start)
            self.close()
            raise fault from None
        except SandboxError as fault:
            if fault.code in ("denied", "crashed"):
                self.close()
            fault.duration_ms = _since(start)
            raise

    def _restored(self, memory_bytes: int) -> Instance:
        image, instance = self._image, self._instance
        if instance is None or instance.size != len(image.memory):
            self.close()
            instance = self._instance = self._made()
        instance.write(0, image.memory)
        instance.store.set_limits(memory_size=max(image.used + memory_bytes, len(image.memory)))
        instance.store.set_epoch_deadline(1)
        return instance

    def _made(self) -> Instance:
        """A guest and its driver, with a memory as large as the image."""
        store = new_store(self._engine)
        guest = self._linker.instantiate(store, self._module).exports(store)
        driver = wasmtime.Instance(store, self._driver, [guest[wanted.name or ""] for wanted in self._driver.imports])
        instance = Instance(store, {**guest, **driver.exports(store)})
        instance.grow(len(self._image.memory))
        return instance


class _Session:
    """One run: the steps from the code to the prelude's answer."""

    def __init__(self, image: Image, instance: Instance, limit: int) -> None:
        self._image = image
        self._instance = instance
        self._limit = limit

    def ran(self, code: bytes, setup: bytes) -> bytes:
        """What the prelude answers for the code."""
        place = self._instance.put(code + b"\0" + setup)
        answer = self._instance.call("run", place, len(code), place + len(code) + 1, len(setup))
        text = self._described() if answer in (BAD_SETUP, THROWN) else self._text(answer)
        if answer == BAD_SETUP and text[:1] == b"T":
            return b'L""\n'
        # A SyntaxError may also come from what the code did; then it was thrown like any other.
        if text[:1] == b"S" and not self._instance.call("compile", place, len(code)):
            return b"T" + text[1:]
        return text

    def compiled(self, code: bytes) -> bytes:
        """A value when the code compiles."""
        if self._instance.call("compile", self._instance.put(code), len(code)):
            return self._described()
        return b'V""\nnull'

    def trapped(self, trap: Trap, start: float) -> SandboxError:
        """What a trap means."""
        spent = _since(start)
        if trap.trap_code is TrapCode.INTERRUPT:
            return SandboxError("timeout", duration_ms=spent)
        if trap.trap_code is TrapCode.STACK_OVERFLOW and self._instance.read(self._image.begun, 1) == b"\0":
            return SandboxError("too_large", duration_ms=spent)
        if trap.trap_code is TrapCode.STACK_OVERFLOW:
            return SandboxError("threw", "Maximum call stack size exceeded", duration_ms=spent)
        return SandboxError(self._broken(), duration_ms=spent)

    def _described(self) -> bytes:
        """The prelude's answer for the exception that is pending."""
        broken = self._broken()
        self._instance.store.set_limits(memory_size=self._limit + ROOM)
        answer = self._text(self._instance.call("describe"))
        # Without memory for an error the engine throws null.
        return b'M""\n' if broken == "memory" and answer.endswith(b"\nnull") else answer

    def _text(self, place: int) -> bytes:
        if not place:
            raise SandboxError(self._broken())
        size = int.from_bytes(self._instance.read(self._image.scratch, 4), "little")
        if size > RESULT + 8 * PRINTED:
            raise SandboxError("too_large")
        return self._instance.read(place, size)

    def _broken(self) -> FaultCode:
        """Why the engine could not go on: code that asks for too much memory has taken some before."""
        return "memory" if self._instance.size > len(self._image.memory) else "crashed"


def _told(answer: bytes, start: float) -> SandboxResult:
    """The run that an answer of the prelude tells of.

    Raises:
        Fault: it tells of one.
    """
    spent = _since(start)
    line, _, payload = answer[1:].partition(b"\n")
    printed = msgspec.json.decode(_whole(line), type=str)
    if answer[:1] != b"V":
        message = payload.decode(errors="replace")[:MESSAGE] if answer[:1] in SPEAKING else ""
        raise SandboxError(KINDS[answer[:1]], message, printed, spent)
    if len(payload) > RESULT:
        raise SandboxError("too_large", "", printed, spent)
    return SandboxResult(_whole(payload), printed, spent)


def _whole(text: bytes) -> bytes:
    """JSON without halves of pairs, which no other reader takes."""
    if b"\\ud" not in text:
        return text
    return ESCAPE.sub(lambda match: b"\\ufffd" if match[1] else match[0], text)


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


def _deny(*_: object) -> int:
    raise SandboxError("denied")

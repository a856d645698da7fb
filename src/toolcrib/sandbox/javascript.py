"""Runs JavaScript of files: in one of three styles, with the arguments as the global `args` and the first parameter."""

from __future__ import annotations

import re
from functools import lru_cache
from random import getrandbits

import msgspec

from toolcrib.sandbox import INPUT, Role, SandboxError, SandboxResult
from toolcrib.sandbox.pool import WorkerPool
from toolcrib.sandbox.quickjs import QuickJsInterpreter

DECLARED = re.compile(r"(?:\bfunction\b\s*+\*?|\b(?:const|let|var)\b|,)\s*+([\w$]++)(?=\s*+[=(])(?!\s*+==)")
"""A name that is declared or bound; whether it stands at the top level is asked where the code was evaluated.

The pattern never goes back, so that no source is slow to search.
"""

LAST = re.compile(r"^(?:async[ \t]++)?function\b", re.MULTILINE)
"""Where a declaration of a function begins that may be the last statement."""

EXPECTED = ("validateCommand", "default", "run")


class JavaScript:
    """QuickJS in WebAssembly, on worker threads; a `Sandbox`."""

    def __init__(self) -> None:
        self._pool = WorkerPool(QuickJsInterpreter)

    async def run(
        self, code: str, args: bytes, *, name: str, role: Role, timeout_s: float, memory_bytes: int
    ) -> SandboxResult:
        """The value that the code gives.

        Raises:
            Fault: it gave none.
        """
        if len(args) > INPUT:
            raise SandboxError("too_large")
        if not code.strip():
            raise SandboxError("no_function")
        source, setup = code.encode(errors="replace"), _setup(code, args, name, role)
        return await self._pool.do(lambda machine: machine.run(source, setup, memory_bytes), timeout_s)

    async def check(self, code: str) -> str | None:
        """What is wrong with the syntax of the code, without running it; None where nothing is."""
        source = code.encode(errors="replace")
        return await self._pool.check(lambda machine: machine.check(source))

    async def close(self) -> None:
        """Ends its threads."""
        await self._pool.close()


def _setup(code: str, args: bytes, name: str, role: Role) -> bytes:
    arguments = b"{}" if args.strip() in (b"", b"null") else args
    seed = [getrandbits(32) for _ in range(4)]
    known = msgspec.json.encode(
        {"role": role, "names": _names(name), "declared": _declared(code), "last": _last(code), "seed": seed}
    )
    return known[:-1] + b',"args":' + arguments + b"}"


@lru_cache(maxsize=256)
def _names(name: str) -> tuple[str, ...]:
    """What the function of that id may be called, the best first."""
    first, *others = re.split(r"[-_\s.]+", name)
    camel = first + "".join(part[:1].upper() + part[1:] for part in others)
    return tuple(dict.fromkeys((camel, name, *EXPECTED)))


@lru_cache(maxsize=256)
def _last(code: str) -> str:
    """What stands from the last declaration of a function on; the value of a statement before it is not meant."""
    starts = [match.start() for match in LAST.finditer(code)]
    return code[starts[-1] :] if starts else ""


@lru_cache(maxsize=256)
def _declared(code: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(DECLARED.findall(code)))

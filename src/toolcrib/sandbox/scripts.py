"""Python scripts that call functions of the host: each runs in legs, from one call to the next, and is bytes between.

A leg ends when the script needs what a call gives. Its state is taken out of the interpreter then, so that nothing is
held while others work, and another process can go on with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from pydantic_monty import (
    ExternalSettledResult,
    FunctionSnapshot,
    FutureSnapshot,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    NameLookupSnapshot,
    OSPolicy,
    ResourceLimits,
    SyncSnapshot,
    __version__,
)

from toolcrib.sandbox import MESSAGE, SandboxError
from toolcrib.sandbox.monty import NOT_KNOWN, MontyInterpreter, Printed, code_of, encoded
from toolcrib.sandbox.pool import WorkerPool

VERSION: str = __version__
"""A state is read only by the release that wrote it."""

HEED_S = 0.25
AWAIT = re.compile(r"\bawait\b")
UNAWAITED = b"<coroutine external_future("
MODULES = (
    "asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib, itertools, "
    "json, math, random, re, time, typing"
)
ADVICE = (
    ("class inheritance", "Write functions, or classes without a base."),
    ("yield", "Build a list and return it."),
    ("'del'", "Use pop() on a dict or a list."),
    ("'coroutine' object", "Tools are called with await."),
    ("can't be awaited", "Only tools and async functions are awaited."),
    ("gather() does not", "Use try and except in an async function around each call."),
    ("has no attribute 'create_task'", "Use asyncio.gather(...) of the calls."),
    ("No module named", f"There are: {MODULES}."),
    ("not supported in this environment", "A script reaches nothing but its tools."),
    ("Permission denied", "There are no files; a script reaches nothing but its tools."),
    ("does not yet support", "Say it in simpler Python."),
)
"""What to do instead, by what an error says."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call that a script makes; `id` is its number in the script."""

    id: int
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


Driven = tuple[list[HostCall], bytes | None, bytes | None]
"""The calls that were made, and the state or the value."""


@dataclass(frozen=True, slots=True)
class ScriptLeg:
    """How far a script came: the calls that it made, and its state; or the JSON text of its value, where it is over."""

    calls: tuple[HostCall, ...]
    state: bytes | None
    value: bytes | None
    printed: str


@dataclass(frozen=True, slots=True)
class ScriptRules:
    """What holds for a script: the functions that it may call, its clock and its chance, its bounds and its owner."""

    functions: Collection[str]
    now: float
    seed: str
    calls: int
    printed: int
    time_s: float
    memory_bytes: int
    owner: str = ""

    @property
    def limits(self) -> ResourceLimits:
        """What the interpreter looks after; a state holds how long the script has computed."""
        most = 4 * self.calls + 1000  # of all that the host is asked for, names and modules too
        return {
            "max_feed_duration_secs": self.time_s,
            "max_memory": self.memory_bytes,
            "max_suspensions": most,
        }

    @property
    def policy(self) -> OSPolicy:
        """Time stands still and chance is known, so that a script that runs again does the same."""
        return {"datetime": datetime.fromtimestamp(self.now, UTC), "random_start": {"seed": self.seed}}


class ScriptRunner:
    """The interpreters that run scripts, apart from those of validators, which are short.

    The scripts of several owners go on in turns; where it is `shared`, no owner has all interpreters.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self._pool = WorkerPool(MontyInterpreter, shared=shared)

    async def start(self, code: str, rules: ScriptRules) -> ScriptLeg:
        """The first leg of a script.

        Raises:
            Fault: it fails, with the line where it does.
        """
        return await self._do(rules, lambda session, printed: session.feed_start(code, print_callback=printed), code)

    async def go_on(self, state: bytes, answers: Mapping[int, Any], rules: ScriptRules, code: str) -> ScriptLeg:
        """The next leg, with what calls gave: a value, or an `Exception`.

        Raises:
            Fault: it fails, with the line where it does.
        """

        def resumed(session: MontySession, printed: Printed) -> SyncSnapshot:
            return _answered(session.load_snapshot(state, print_callback=printed), answers)

        return await self._do(rules, resumed, code)

    async def close(self) -> None:
        """Ends its threads and processes; they start again when they are needed."""
        await self._pool.close()

    async def _do(
        self, rules: ScriptRules, begin: Callable[[MontySession, Printed], SyncSnapshot], code: str
    ) -> ScriptLeg:
        def run(session: MontySession, printed: Printed) -> Driven:
            try:
                return _driven(session, printed, begin(session, printed), rules, code)
            except MontyError as error:
                raise _told(error, rules) from None

        while True:
            try:
                (calls, state, value), printed, _ = await self._pool.do(
                    lambda machine: machine.use(run, rules.limits, rules.policy, rules.printed),
                    rules.time_s + HEED_S,
                    rules.owner,
                )
            except SandboxError as fault:
                if fault.code != "busy":
                    raise
            else:
                return ScriptLeg(tuple(calls), state, value, printed)


def _driven(session: MontySession, printed: Printed, at: SyncSnapshot, rules: ScriptRules, code: str) -> Driven:
    """Goes on as far as it goes without an answer. A script that awaits nothing gets each value where it calls."""
    calls: list[HostCall] = []
    direct = AWAIT.search(code) is None
    while not isinstance(at, MontyComplete):
        if isinstance(at, FutureSnapshot):
            return calls, at.dump(), None
        if isinstance(at, NameLookupSnapshot):
            at = at.resume(value=_function(at.variable_name)) if at.variable_name in rules.functions else at.resume()
        elif at.is_os_function:
            at = at.resume_not_handled()
        elif at.function_name not in rules.functions:
            name = str(at.function_name)
            at = at.resume({"exc_type": "NameError", "message": f"name '{name}' is not defined"})
        else:
            calls.append(HostCall(at.call_id, str(at.function_name), at.args, at.kwargs))
            if len(calls) > rules.calls:
                raise SandboxError("too_large")
            if direct:
                return calls, at.dump(), None
            at = at.resume({"future": ...})
    value = encoded(session, _value(session, printed, at, code))
    if UNAWAITED in value:
        raise SandboxError(
            "bad_return", "a call of a tool that was not awaited is part of it. Tools are called with await."
        )
    return calls, None, value


def _value(session: MontySession, printed: Printed, at: MontyComplete, code: str) -> Any:
    """The last expression, what was returned at the top, or what is called `result`."""
    if at.output is None and "result" in code:
        try:
            return session.feed_run("result", print_callback=printed)
        except MontyRuntimeError as error:
            if not isinstance(error.exception(), NameError):
                raise
    return at.output


def _answered(at: SyncSnapshot, answers: Mapping[int, Any]) -> SyncSnapshot:
    if isinstance(at, FunctionSnapshot):
        return at.resume(_settled(answers[at.call_id]))
    assert isinstance(at, FutureSnapshot)
    return at.resume({id: _settled(answers[id]) for id in at.pending_call_ids if id in answers})


def _settled(answer: Any) -> ExternalSettledResult:
    if isinstance(answer, Exception):
        return {"exc_type": "TypeError" if isinstance(answer, TypeError) else "RuntimeError", "message": str(answer)}
    return {"return_value": answer}


def _function(name: str) -> Callable[..., None]:
    def called(*args: Any, **kwargs: Any) -> None:
        """The interpreter asks for it by its name."""

    called.__name__ = name
    return called


def _told(error: MontyError, rules: ScriptRules) -> SandboxError | MontyError:
    """What went wrong and where, in words that help to write it better."""
    code = "crashed" if isinstance(error, MontyCrashedError) else code_of(error)
    frames = error.traceback() if hasattr(error, "traceback") else []
    where = f"line {frames[-1].line}: " if frames else ""
    if code in ("crashed", "timeout"):
        return error
    if code == "memory":
        return SandboxError("memory", where)
    inner = error.exception()
    text = str(error).replace(f"NotImplementedError: {NOT_KNOWN}", "Scripts do not support")
    advice = next((what for mark, what in ADVICE if mark in str(error)), None)
    if isinstance(inner, NameError):
        advice = _meant(str(inner), rules.functions)
    line = frames[-1].source_line if frames else None
    shown = f"\n    {line.strip().splitlines()[0]}" if line and line.strip() else ""
    return SandboxError(code, f"{where}{text}"[:MESSAGE] + shown[:200] + (f"\n{advice}" if advice else ""))


def _meant(text: str, functions: Collection[str]) -> str | None:
    name = re.search(r"'(\w+)'", text)
    near = get_close_matches(name[1], functions, 3, 0.5) if name else []
    known = near or sorted(functions)[:20]
    return f"{'Did you mean' if near else 'Your functions are'}: {', '.join(known)}" if known else None

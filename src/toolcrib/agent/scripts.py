"""`run_script`: Python of a model that calls the tools of its agent, each as a child of this call.

Between two legs of a script there is nothing but its state. When all that it waits for waits for people, the state is
recorded and the call is let go; the end of a child lets it go on there. A child is known by its tool, its arguments and
how often both came before, so that a script that has to run from its start finds what it did.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib._call.live_call import call_behind, host_of
from toolcrib._session.children import end_child, keyed_child
from toolcrib.agent.run_scope import scope_of
from toolcrib.agent.selection import selects
from toolcrib.agent.signatures import arguments, functions, signature
from toolcrib.context import Context, Parked
from toolcrib.errors import ToolFailure
from toolcrib.extras import install
from toolcrib.store.codec import decode, encode
from toolcrib.tool import Tool
from toolcrib.types import Result

if TYPE_CHECKING:
    from toolcrib.agent.definition import Agent
    from toolcrib.agent.toolset import Toolset
    from toolcrib.sandbox import SandboxError
    from toolcrib.sandbox.scripts import ScriptLeg, ScriptRules, ScriptRunner

ID = "builtin.run_script"
CALLS = 1000
AT_ONCE = 8
TIME_S = 10.0
MEMORY = 64 * 1024 * 1024
PRINTED = 64 * 1024
STATE = 4 * 1024 * 1024
"""How many calls a script makes, and at a time; how long it computes, in how much memory; how much of what it prints
is kept, and of its state. A larger one is not recorded: the script then runs again from its start."""

LOOK_S = 1.0
"""How soon it is seen that a child which another process runs waits for somebody."""

TAIL = 2000
LEFT_OUT = "\n[the rest is left out]"
STEP = "script-"
INTRODUCTION = """Run a Python script that calls your tools: for loops over many calls, several calls at once, and \
results that you need only a part of.

Tools are async functions: `x = await name(...)`; several at once with `await asyncio.gather(name(...), other(...))`. \
Each gives the data of its result; one that fails raises RuntimeError("code: message"). The last expression, or what \
is called `result`, is the answer; `print` what else you want to read. There are no files, no network and no packages; \
no generators, no inheritance, no `del`. The clock stands still."""
MANY = "All your tools are functions by their names; tool_search tells how they are called."
MISSING = "is not offered to '{agent}', since nothing can run it here: {install}"


def named(agent: Agent) -> str | None:
    """Which of its `tools` asks for scripts, if any; `*` does not."""
    if any(selects(one, ID) for one in agent.exclude):
        return None
    return next((one for one in agent.tools if one != "*" and selects(one, ID)), None)


def installed() -> bool:
    """True if there is something to run scripts with: an extra brings it."""
    return find_spec("pydantic_monty") is not None


def missing(agent: Agent) -> str | None:
    """What is said of an agent that asks for scripts where nothing can run them."""
    selector = named(agent)
    if selector is None or installed():
        return None
    return f"{selector} {MISSING.format(agent=agent.name, install=install('sandbox'))}"


def described(offer: Toolset, many: int) -> str:
    """What a model reads of the tool, with the functions that a script of its agent may call."""
    callable_ = functions(own(offer))
    if len(callable_) > many:
        return f"{INTRODUCTION}\n\n{MANY}"
    return "\n".join([INTRODUCTION, "", "Functions:", *(signature(*one) for one in callable_.items())])


def own(offer: Toolset) -> dict[str, Tool]:
    """The tools that a script may call: what the agent selected, without what belongs to the run itself."""
    return {name: tool for name, tool in offer.shown.items() if tool.namespace != "builtin"}


async def run_script(ctx: Context, code: str) -> Any:
    """Run a Python script that calls your tools.

    Args:
        code: The script.
    """
    return await _Running(ctx, code).go()


class _Made(msgspec.Struct):
    """A call that a script made and has not heard of."""

    tool: str
    key: str
    args: bytes
    error: str | None = None
    child: str | None = None


class _At(msgspec.Struct):
    """How far a script is, as it is recorded."""

    version: str
    state: bytes | None = None
    value: bytes | None = None
    made: int = 0
    counts: dict[str, int] = {}
    open: dict[int, _Made] = {}
    printed: str = ""


class _Running:
    """A script in one pass of its call."""

    def __init__(self, ctx: Context, code: str) -> None:
        from toolcrib.sandbox import scripts

        self._ctx = ctx
        self._call = call_behind(ctx)
        self._code = code
        scope = scope_of(ctx)
        self._functions = functions(own(scope.toolset))
        self._scripts: ScriptRunner = scope.driver.agents.scripts
        self._at = _At(scripts.VERSION)
        self._tasks: dict[int, asyncio.Task[Result]] = {}
        self._waiting: set[int] = set()
        self._bell = asyncio.Event()
        self._seats = asyncio.Semaphore(AT_ONCE)

    async def go(self) -> Any:
        """Runs it to its end, or to where all that it waits for waits for people."""
        from toolcrib.sandbox import SandboxError

        paused = False
        try:
            return await self._run()
        except SandboxError as fault:
            raise self._failure(fault) from None
        except Parked:
            paused = True
            raise
        finally:
            await asyncio.shield(asyncio.ensure_future(self._leave(paused)))

    async def _run(self) -> Any:
        at = self._at = await self._restored() or self._at
        if at.state is None and at.value is None:
            await self._take(self._scripts.start(self._code, self._rules()))
        while at.value is None or at.open:
            answers = await self._answers()
            if at.state is not None:
                await self._take(self._scripts.go_on(at.state, answers, self._rules(), self._code))
        output = {"printed": at.printed + (LEFT_OUT if len(at.printed) >= PRINTED else "")} if at.printed else {}
        return {"result": decode(at.value), **output}

    def _rules(self) -> ScriptRules:
        from toolcrib.sandbox.scripts import ScriptRules

        at = self._at
        return ScriptRules(
            self._functions,
            self._call.accepted_at,
            self._call.id,
            calls=CALLS - at.made,
            printed=max(PRINTED - len(at.printed), 0),
            time_s=TIME_S,
            memory_bytes=MEMORY,
            owner=self._call.session.owner,
        )

    async def _take(self, running: Any) -> None:
        """Takes in how far it came in a leg."""
        leg: ScriptLeg = await running
        at = self._at
        at.state, at.value = leg.state, leg.value
        at.made += len(leg.calls)
        if leg.printed:
            at.printed += leg.printed
            self._ctx.output(leg.printed)
        for call in leg.calls:
            at.open[call.id] = self._made(self._functions[call.name], call.args, call.kwargs)

    def _made(self, tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Made:
        try:
            encoded = encode(arguments(tool, args, kwargs))
        except (TypeError, ValueError, RecursionError) as error:
            return _Made(tool.id, "", b"", str(error))
        same = hashlib.sha256(tool.id.encode() + b" " + encoded).hexdigest()[:24]
        self._at.counts[same] = number = self._at.counts.get(same, 0) + 1
        return _Made(tool.id, f"{same}-{number}", encoded)

    # Its calls

    async def _answers(self) -> dict[int, Any]:
        """What calls gave, as soon as there is something.

        Raises:
            Parked: all that is left waits for people.
        """
        self._start()
        assert self._tasks
        while True:
            self._bell.clear()
            done = [id for id, task in self._tasks.items() if task.done()]
            if done:
                return {id: await self._answer(id) for id in done}
            if self._waiting.issuperset(self._tasks):
                await self._record()
                host_of(self._ctx).behind = self._children()
                raise Parked
            await self._bell.wait()

    def _start(self) -> None:
        for id, made in self._at.open.items():
            if id not in self._tasks:
                task = self._tasks[id] = asyncio.ensure_future(self._outcome(id, made))
                task.add_done_callback(lambda _: self._bell.set())

    async def _outcome(self, id: int, made: _Made) -> Result:
        if made.error is not None:
            raise TypeError(made.error)
        session, result = self._call.session, None
        async with self._seats:
            if made.child is None:
                made.child, result = await keyed_child(session, self._call, made.key, made.tool, made.args)
            while result is None and (live := session.live.get(made.child)) is not None:
                await live.ended()
                result = live.result
        while result is None:
            if (await session._row(made.child)).state == "waiting":
                self._waiting.add(id)
                self._bell.set()
                return await session.result(made.child)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    result = await session.result(made.child)
        return result

    def _children(self) -> list[str]:
        return [made.child for made in self._at.open.values() if made.child is not None]

    async def _answer(self, id: int) -> Any:
        """What a script gets: the data, whole; or what it can catch."""
        try:
            result = self._tasks.pop(id).result()
        except TypeError as error:
            return error
        finally:
            made = self._at.open.pop(id)
            self._waiting.discard(id)
        if edited := result.metadata.get("edited"):
            self._at.printed += f"[Arguments of {made.tool} were changed before running: {encode(edited).decode()}]\n"
        if result.failure is not None:
            hint = f" ({result.failure.hint})" if result.failure.hint else ""
            return RuntimeError(f"{result.failure.code}: {result.failure.message}{hint}")
        spilled = result.metadata.get("spilled")
        if spilled is None:
            return result.text if result.data is None and result.content else result.data
        return decode(await self._call.pipeline.store.kept(self._call.session_id, spilled["output"]) or b"null")

    # Its end, and its beginning in the middle

    async def _leave(self, paused: bool) -> None:
        """Nobody here waits for its children any more. They end with it, unless it is to go on."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        session = self._call.session
        if session.crib.ending or self._call.fenced or (paused and self._call.stopping is None):
            return
        for child in {*self._children(), *(one.id for one in self._call.children or ())}:
            await end_child(session, child)

    async def _record(self) -> None:
        state, key = msgspec.msgpack.encode(self._at), f"{STEP}{len(self._recorded()) + 1}"
        if len(state) <= STATE:
            id = await self._call.keep_secret(key, state)
            await self._ctx.step(key, lambda: {"kept": id, "bytes": len(state), "calls": self._at.made})

    def _recorded(self) -> list[str]:
        """Where its states are kept, the last at the end."""
        steps = {} if self._call.history is None else self._call.history.steps
        return [step.value["kept"] for key, step in steps.items() if key.startswith(STEP)]

    async def _restored(self) -> _At | None:
        """What was recorded last; None where there is nothing, or only what another release can read."""
        kept = None
        for id in self._recorded()[-1:]:
            kept = await self._call.pipeline.vault.kept(self._call.session_id, id)
        at = None if kept is None else msgspec.msgpack.decode(kept, type=_At)
        return at if at is not None and at.version == self._at.version else None

    def _failure(self, fault: SandboxError) -> ToolFailure:
        """What went wrong, with what it printed before, which may say more."""
        details = {
            "timeout": f"The script computed for more than {TIME_S:g} s",
            "memory": f"{fault.message}The script needs more than {MEMORY // 2**20} MB",
            "too_large": f"The script made more than {CALLS} calls, or its result is too large",
            "crashed": "The script crashed its interpreter",
            "bad_return": f"The result of the script cannot be given: {fault.message}",
        }.get(fault.code, fault.message)
        printed = self._at.printed + fault.printed
        tail = f"\nIt had printed:\n{printed[-TAIL:]}" if printed else ""
        code = {"timeout": "timeout", "syntax": "invalid_arguments", "memory": "too_large", "too_large": "too_large"}
        made = f"\n{self._at.made} calls were made before." if self._at.made else ""
        return ToolFailure(code.get(fault.code, "failed"), f"{details}{made}{tail}", retryable=False)

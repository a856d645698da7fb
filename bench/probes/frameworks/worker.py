"""The steps of probes, each in a process of its own that writes what it saw, or is killed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bench.probes.frameworks import tools
from bench.probes.frameworks.driver import Driver, Setting, Turn
from toolcrib import Context, Crib, Tool, tool
from toolcrib.adapters.calls import follow

LONGEST_S = 480
DRIVERS = {
    "langchain": ("langgraph_driver", "LangGraph"),
    "pydantic_ai": ("pydantic_ai_driver", "PydanticAI"),
    "openai_agents": ("openai_agents_driver", "OpenAIAgents"),
    "google_adk": ("google_adk_driver", "GoogleADK"),
    "microsoft": ("microsoft_driver", "Microsoft"),
    "claude": ("claude_driver", "ClaudeAgent"),
}


class Seen(NamedTuple):
    """Whether a probe went right, and what happened."""

    right: bool
    what: str


class Probe:
    """A probe of one framework, bare or with Toolcrib."""

    def __init__(self, framework: str, is_bare: bool) -> None:
        module, name = DRIVERS[framework]
        self.framework = framework
        self.is_bare = is_bare
        self.module = importlib.import_module(f"bench.probes.frameworks.{module}")
        self.driver: type[Driver] = getattr(self.module, name)

    @asynccontextmanager
    async def agent(self, *functions: Any, own: tuple[Tool, ...] = (), **more: Any) -> AsyncIterator[Any]:
        """Give the agent, and the session of its crib where it has one; `own` are tools of the crib itself."""
        setting = Setting(tools.place(), functions, out=bool(own), **more)
        if self.is_bare:
            yield self.driver(setting), None
            return
        guarded = own or self._guarded(functions)
        policy: Any = {"rules": [{"ask": "charge"}]} if setting.asks else None
        async with Crib(guarded, store=f"sqlite:///{tools.place()}/crib.db", policy=policy) as crib:
            session = await crib.open("probe", owner="ada")
            yield self.driver(replace(setting, session=session)), session

    def _guarded(self, functions: tuple[Any, ...]) -> list[Tool]:
        adapter = importlib.import_module(f"toolcrib.adapters.{self.framework}")
        if self.framework == "openai_agents":
            functions = tuple(map(importlib.import_module("agents").function_tool, functions))
        elif self.framework in ("langchain", "claude"):
            functions = tuple(map(self.module.native, functions))
        made: list[Tool] = adapter.guarded_tools(functions)
        return made


async def approve(session: Any, **more: Any) -> None:
    """Have a person agree, in the crib where there is one."""
    for question in [] if session is None else await session.questions():
        if question.kind == "confirm":
            await session.answer(question.id, "accept", actor="bob", **more)


async def begin(probe: Probe) -> Seen:
    """Let a call wait for approval."""
    async with probe.agent(tools.charge, asks=True) as (agent, _):
        turn = await agent.start(("charge", {"cents": 5}))
        return Seen(turn.waits, "waits" if turn.waits else f"did not wait: {turn.texts}")


async def die(probe: Probe) -> Seen:
    """Approve it, and be killed in the effect."""
    (tools.place() / "kill").touch()
    async with probe.agent(tools.charge, asks=True) as (agent, session):
        await approve(session)
        await agent.resume()
    return Seen(False, "was not killed")


async def finish(probe: Probe) -> Seen:
    """Approve and resume, and count the effects."""
    async with probe.agent(tools.charge, asks=True) as (agent, session):
        await approve(session)
        turn = await agent.resume()
    done = tools.effects()
    return Seen(done == ["5"] and not turn.waits, f"charged {len(done)} times")


async def edit(probe: Probe) -> Seen:
    """Approve with other arguments."""
    if probe.is_bare and not probe.driver.can_edit:
        return Seen(False, "cannot be edited")
    async with probe.agent(tools.charge, asks=True) as (agent, session):
        await approve(session, arguments={"cents": 4})
        turn = await agent.resume({"cents": 4} if session is None else None)
    informed = "4" in turn.texts[-1]
    return Seen(tools.effects() == ["4"] and informed, "the model is told" if informed else "the model is not told")


async def forge(probe: Probe) -> Seen:
    """Resume with an approval that nobody entitled has given."""
    async with probe.agent(tools.charge, asks=True) as (agent, _):
        await agent.resume()
    ran = bool(tools.effects())
    return Seen(not ran, "ran" if ran else "still waits")


async def agree(probe: Probe) -> Seen:
    """Approve, and stop before it runs."""
    async with probe.agent(tools.charge, asks=True) as (_, session):
        await approve(session)
    return Seen(True, "approved")


async def change(probe: Probe) -> Seen:
    """Resume with a tool that is another by now."""
    async with probe.agent(tools.charge_anew, asks=True) as (agent, _):
        await agent.resume()
    ran = bool(tools.effects())
    return Seen(not ran, "the other tool ran" if ran else "did not run")


@tool
async def book(ctx: Context, cents: int) -> str:
    """Charge, and ask two things."""
    await ctx.step("charge", lambda: tools.charge(cents))
    first = await ctx.ask("When?", key="when")
    second = await ctx.ask("For how many?", key="many")
    return f"{first.value} {second.value}"


async def ask_twice(probe: Probe) -> Seen:
    """Ask two questions in one tool that charges first."""
    if probe.is_bare:
        if probe.framework != "langchain":
            return Seen(False, "a tool cannot ask")
        return await _interrupt_twice(probe)
    async with probe.agent(own=(book,)) as (agent, session):
        await agent.start(("book", {"cents": 5}))
        for value in ("at 8", "two"):
            [question] = await session.questions()
            await session.answer(question.id, "accept", value, actor="bob")
            await follow(session, question.call)
        [entry] = await session.completed()
        text = entry.result.text
    return Seen(tools.effects() == ["5"] and text == "at 8 two", f"charged {len(tools.effects())} times")


async def _interrupt_twice(probe: Probe) -> Seen:
    from langgraph.types import Command, interrupt

    def book(cents: int) -> str:
        """Charge, and ask two things."""
        tools.charge(cents)
        return f"{interrupt('When?')} {interrupt('For how many?')}"

    async with probe.agent(book) as (agent, _):
        await agent.start(("book", {"cents": 5}))
        await agent._run(Command(resume="at 8"))
        await agent._run(Command(resume="two"))
    return Seen(tools.effects() == ["5"], f"charged {len(tools.effects())} times")


async def flood(probe: Probe) -> Seen:
    """Make 800 calls in one turn."""
    async with probe.agent(tools.hold) as (agent, _):
        await agent.start(*(("hold", {"cents": n}) for n in range(800)))
    return Seen(tools.Holding.most <= 64, f"{tools.Holding.most} at once")


async def overrun(probe: Probe) -> Seen:
    """Let a sync tool take longer than it may."""
    own = (tool(isolate=True, timeout=tools.DEADLINE_S)(tools.slow),)
    async with probe.agent(
        tools.slow, own=() if probe.is_bare else own, timeout_s=tools.DEADLINE_S if probe.is_bare else None
    ) as (agent, _):
        await agent.start(("slow", {"cents": 1}))
        await asyncio.sleep(2 * tools.LATE_S)
    late = (tools.place() / "late").exists()
    return Seen(not late, "ran on" if late else "was stopped")


def told(function: Any, call: str, cents: Any, wanted: Callable[[Turn], bool]) -> Callable[[Probe], Awaitable[Seen]]:
    """Return a probe of what the model reads of one call that goes wrong."""

    async def run(probe: Probe) -> Seen:
        async with probe.agent(function) as (agent, _):
            turn = await agent.start((call, {"cents": cents}))
        return Seen(wanted(turn), "the model is told" if wanted(turn) else f"the model reads {turn.texts}"[:80])

    return run


async def stop(probe: Probe) -> Seen:
    """Cancel a run whose tool runs."""
    async with probe.agent(tools.endless) as (agent, _):
        task = asyncio.create_task(agent.start(("endless", {"cents": 1})))
        await tools.begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        stopped = (tools.place() / "stopped").exists()
    return Seen(stopped, "was stopped" if stopped else "ran on")


STEPS: dict[str, Callable[[Probe], Awaitable[Seen]]] = {
    "begin": begin,
    "die": die,
    "finish": finish,
    "edit": edit,
    "forge": forge,
    "agree": agree,
    "change": change,
    "ask_twice": ask_twice,
    "flood": flood,
    "overrun": overrun,
    "wrong": told(tools.charge, "charge", "many", lambda turn: bool(turn.texts) and not tools.effects()),
    "unknown": told(tools.charge, "nothing", 1, lambda turn: bool(turn.texts)),
    "leak": told(tools.leak, "leak", 1, lambda turn: bool(turn.texts) and "hunter2" not in "".join(turn.texts)),
    "stop": stop,
}


async def carry_out(probe: Probe, step: str) -> Seen:
    """Carry out one step."""
    try:
        return await STEPS[step](probe)
    except Exception as error:  # noqa: BLE001 - that a framework raises is what is seen
        return Seen(False, f"{type(error).__name__} ends the run")


def fork(framework: str, mode: str, step: str, folder: str) -> int:
    """Carry out one step in a process of its own, which may be killed; its exit code, or minus its signal."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.alarm(LONGEST_S)
        os.environ["PROBE_FOLDER"] = folder
        seen = asyncio.run(carry_out(Probe(framework, mode == "bare"), step))
        Path(folder, "seen.json").write_text(json.dumps(seen._asdict()))
        os._exit(0)  # whatever still runs in threads
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):  # whatever it started and left behind
        os.killpg(child, signal.SIGKILL)
    return code


def serve(framework: str) -> None:
    """Carry out the steps that come by standard input; the framework is imported once, and each step is forked."""
    Probe(framework, is_bare=True)
    importlib.import_module(f"toolcrib.adapters.{framework}")
    for line in sys.stdin:
        mode, step, folder = json.loads(line)
        print(json.dumps(fork(framework, mode, step, folder)), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])

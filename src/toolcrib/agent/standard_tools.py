"""The built-in tools that come with Toolcrib. They are ordinary tools, and work through `ctx.run`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from toolcrib._call.live_call import LiveCall, call_behind
from toolcrib.agent import handovers, todos
from toolcrib.agent.conversation import AgentRun
from toolcrib.agent.run_scope import scope_of
from toolcrib.agent.scripts import run_script
from toolcrib.agent.toolset import view
from toolcrib.agent.transcript import CallNote
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.events import MessageAdded, MessageQueued, RunStarted
from toolcrib.sources import session_tools as of_sessions
from toolcrib.types import Change, Result

if TYPE_CHECKING:
    from toolcrib.agent.definition import Agent
    from toolcrib.agent.driver import Driver

LONG = 30 * 24 * 3600.0
"""An agent works as long as its own limits let it."""

WORKS = 600.0
"""So long a script may take with the calls that it makes; the time that they wait for people does not count."""


async def transfer_to_agent(
    ctx: Context, agent_name: str, message: str | None = None, reason: str | None = None
) -> Result:
    """Hand the conversation over to another agent, who then answers.

    Args:
        agent_name: The agent that goes on.
        message: What that agent is asked; the user's last message, unless said.
        reason: Why, in a few words.
    """
    scope_of(ctx)
    assert ctx.run is not None
    return ctx.run.handover(agent_name, reason, message)


async def call_agent(
    ctx: Context, agent: str, prompt: str, mode: Literal["wait", "background"] = "wait", name: str | None = None
) -> Any:
    """Have another agent do something, and get its answer.

    Args:
        agent: The agent.
        prompt: What it is asked; it knows nothing of this conversation.
        mode: Wait for the answer, or go on; then it comes by itself.
        name: What to call this, for people.
    """
    scope = scope_of(ctx)
    target = handovers.target(scope, agent, "call")
    return await worked(scope.driver, call_behind(ctx), target, prompt, scope.now.id)


async def worked(driver: Driver, live: LiveCall, agent: Agent, prompt: str, above: str | None) -> Any:
    """Has an agent work as a child run of a call; one that was begun before is gone on with."""
    await driver.log.catch_up()  # another process may have begun it
    run = driver.conversation.child(live.id)
    if run is None:
        run = await _begun(driver, live, agent, prompt, above)
    loop = driver.agents.loop(driver, run, live)
    try:
        await loop.go()
    except asyncio.CancelledError:
        if live.stopping is not None and not live.fenced:
            await loop.cancelled()
        raise
    return _answer(run)


async def _begun(driver: Driver, live: LiveCall, agent: Agent, prompt: str, above: str | None) -> AgentRun:
    id = f"r-{live.id}"
    origin = "api" if above is None else "call"
    overrides = driver.agents.overrides if above is None else driver.conversation.runs[above].overrides
    started = RunStarted(id, agent.name, origin, live.id, await driver.keep(agent), above, *overrides)
    await driver.log.write(started, MessageAdded(role="user", content=prompt, run=id), maker=live)
    return driver.conversation.runs[id]


def _answer(run: AgentRun) -> Any:
    end = run.finished
    assert end is not None
    if end.reason == "failed":
        raise ToolFailure(end.code or "failed", f"Agent '{run.first}' failed: {end.detail or end.code}")
    if end.reason == "cancelled":
        raise ToolFailure("cancelled", f"Agent '{run.first}' was cancelled")
    answer = {"agent": run.first, "run": run.id, "status": end.reason, "answer": end.answer}
    return answer | {"turns": end.turns, "usage": end.usage}


def _may_call(ctx: Context, agent: str, prompt: str) -> None:
    """What would be refused is refused before anything is accepted in the background."""
    scope = scope_of(ctx)
    driver = scope.driver
    if not prompt.strip():
        raise ToolFailure("invalid_arguments", "The prompt is blank; say what the agent is to do")
    handovers.target(scope, agent, "call")
    chain = driver.conversation.chain(scope.now)
    deepest = min(driver.agent(run.agent, run).delegate.max_depth for run in chain)
    if len(chain) > deepest:
        raise ToolFailure("denied", f"Agents may call agents at most {deepest} deep")
    most = scope.agent.delegate.max_children
    others = [
        note
        for note in driver.conversation.calls.values()
        if note.run == scope.now.id and note.builtin == "call_agent" and note.id != ctx.id
    ]
    if sum(note.state in ("open", "waiting") for note in others) >= most:
        raise ToolFailure("denied", f"An agent may have at most {most} children at a time")


async def list_calls(ctx: Context) -> list[dict[str, Any]]:
    """List the calls that run in the background, or did: id, tool and where each stands."""
    scope = scope_of(ctx)
    notes = [note for note in scope.driver.conversation.visible_calls(scope.now) if note.background]
    entries = [await scope.driver.session.status(note.id) for note in notes]
    return [{"id": one.id, "tool": one.tool, "label": one.label, "status": one.status} for one in entries]


async def call_status(ctx: Context, id: str) -> dict[str, Any]:
    """Tell where a call stands: its status, its last output and how long it has run.

    Args:
        id: The id of the call.
    """
    return await of_sessions.call_status(ctx, _own(ctx, id).id)


async def cancel_call(ctx: Context, id: str) -> dict[str, bool]:
    """Stop a call that is running or waiting, with all that it has started.

    Args:
        id: The id of the call.
    """
    return await of_sessions.cancel_call(ctx, _own(ctx, id).id)


async def wait_calls(ctx: Context, ids: list[str], timeout_s: float = 60.0) -> dict[str, Any]:
    """Wait for calls that run in the background; tells which are finished and which are not.

    Args:
        ids: The ids of the calls.
        timeout_s: How many seconds to wait at the most.
    """
    session = scope_of(ctx).driver.session
    following = {asyncio.ensure_future(session.result(_own(ctx, id).id)): id for id in dict.fromkeys(ids)}
    try:
        done, _ = await asyncio.wait(following, timeout=min(timeout_s, LONG)) if following else (set(), None)
        finished = {following[task]: task.result() for task in done}
    finally:
        for task in following:
            task.cancel()
    results = [{"id": id, "ok": one.ok, "result": one.text} for id, one in finished.items()]
    return {"finished": results, "running": [id for id in following.values() if id not in finished]}


async def message_agent(ctx: Context, id: str, text: str) -> dict[str, str]:
    """Tell an agent that works in the background something; it reads it in its next turn.

    Args:
        id: The id of the call that started it.
        text: What it is told.
    """
    driver = scope_of(ctx).driver
    run = driver.conversation.child(_own(ctx, id).id)
    if run is None or run.finished is not None:
        raise ToolFailure("failed", f"Call {id} is no agent that is still at work")
    await driver.log.write(MessageQueued("steer", text, run=run.id), maker=call_behind(ctx))
    return {"status": "queued"}


def _own(ctx: Context, id: str) -> CallNote:
    """A call of this run or of one below it; any other is as unknown as one that never was."""
    scope = scope_of(ctx)
    own: CallNote | None = next(
        (note for note in scope.driver.conversation.visible_calls(scope.now) if note.id == id), None
    )
    if own is None:
        raise ToolFailure("not_found", f"No such call: {id}")
    return own


async def ask_user(ctx: Context, question: str, options: list[str] | None = None) -> Any:
    """Ask the user something, and wait for the answer.

    Args:
        question: The question.
        options: What can be chosen from, where the answer is not free.
    """
    schema = {"type": "string", "enum": options} if options else None
    return (await ctx.ask(question, schema=schema)).value


async def tool_search(ctx: Context, query: str, limit: int = 5) -> dict[str, Any]:
    """Find tools by what they do; tells how each is called.

    Args:
        query: What is to be done.
        limit: How many tools at the most.
    """
    from toolcrib.definitions.search import SearchEntry, rank

    scope = scope_of(ctx)
    shown = scope.toolset.shown
    subjects = [
        SearchEntry(name, tool.name, description=tool.description, keywords=tool.tags, category=tool.category or "")
        for name, tool in shown.items()
        if tool.namespace != "builtin"
    ]
    views = [view(one.id, shown[one.id], scope.agent.topics) for one in rank(query, subjects, limit)]
    return {"tools": [{"name": one.name, "description": one.description, "schema": one.schema} for one in views]}


class Todo(TypedDict):
    """One thing to do."""

    content: str
    status: Literal["open", "in_progress", "done", "pending", "completed"]


async def write_todos(ctx: Context, items: list[Todo]) -> Result:
    """Write down what is to be done, the whole list each time, so that nothing is forgotten.

    Args:
        items: All things to do, each with its status.
    """
    new = todos.read([dict(one) for one in items])
    changed = todos.changes(ctx.state.get("todos", []), new)
    data = {"display": todos.display(new), "changes": changed, "all_done": todos.all_done(new)}
    shown = [{"type": "text", "text": data["display"] or "Nothing to do"}]
    return Result(data, shown, changes=[Change("set", "todos", new)])


_READ: dict[str, Any] = {"effect": "read"}
SHIPPED: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
    (transfer_to_agent, _READ),
    (call_agent, {"idempotent": True, "resumes": True, "timeout": LONG, "validate": _may_call}),
    (list_calls, _READ),
    (call_status, _READ),
    (cancel_call, {"idempotent": True}),
    (wait_calls, {**_READ, "timeout": LONG}),
    (message_agent, {}),
    (ask_user, {"idempotent": True}),
    (of_sessions.read_output, _READ),
    (of_sessions.tool_help, _READ),
    (tool_search, _READ),
    (write_todos, {"idempotent": True}),
    (run_script, {"idempotent": True, "resumes": True, "timeout": WORKS}),
)
"""Each function with what its tool says beside."""

"""Running one tool by itself: its arguments are parsed and its outcome becomes a `Result`, as in a crib."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib._call.live_call import LiveCall
from toolcrib._call.outcome import to_result
from toolcrib.context import Stopped
from toolcrib.crib import Crib
from toolcrib.errors import Refused, ToolFailure
from toolcrib.schema import BadArguments, read_arguments
from toolcrib.session import Session
from toolcrib.sources.functions import as_tool
from toolcrib.testing.clock import START
from toolcrib.testing.recording_context import CallEnded, RecordingContext, context, in_thread
from toolcrib.tool import Tool
from toolcrib.types import Failure, Result


async def run(
    tool: Tool | Callable[..., Any], args: Mapping[str, Any] | None = None, ctx: RecordingContext | None = None
) -> Result:
    """Runs a tool, or a bare function, once from its start with this context.

    Failures on purpose and refused arguments are in the result; what the tool raises unexpectedly is raised.

    Raises:
        Refused: `invalid_arguments`, the tool is run by the client.
    """
    made = tool if isinstance(tool, Tool) else _made(tool)
    ctx = ctx or context()
    ctx.again()
    live = _live(made, args)
    refused = live.pipeline.validate(live) or await _check(live, ctx)
    if refused is not None:
        return Result(failure=refused)
    assert live.parsed is not None
    try:
        return to_result(live, await _body(made, ctx, live.parsed.values))
    except CallEnded as ended:
        return ended.result
    except Stopped:
        return Result(failure=Failure("cancelled", "Cancelled"))
    except ToolFailure as error:
        failure = live.failure(error.code, error.message, retryable=error.retryable, hint=error.hint)
        return Result(failure=failure, metadata=error.metadata)


def _made(function: Callable[..., Any]) -> Tool:
    """A bare function may still lack the description that a tool must have."""
    return as_tool(function, description=inspect.getdoc(function) or "A function under test.")


def _live(tool: Tool, args: Mapping[str, Any] | None) -> LiveCall:
    """A call in flight in a crib that was never started, since that is what parses and judges."""
    crib = Crib([tool])
    session = Session(crib, "session-1", "ada", (tool.namespace,))
    try:
        given, broken = read_arguments(args), None
    except BadArguments as error:
        given, broken = b"null", error
    live = LiveCall(crib.pipeline, session, tool.id, given, "call-1", START)
    live.tool, live.broken = tool, broken
    return live


async def _check(live: LiveCall, ctx: RecordingContext) -> Failure | None:
    """The tool's own check of its arguments."""
    assert live.tool is not None and live.parsed is not None
    if live.tool.validate is None:
        return None
    try:
        said = live.tool.validate(ctx, live.parsed.values)
        said = await said if inspect.isawaitable(said) else said
    except ValueError as error:
        said = str(error) or "The arguments were refused"
    return live.failure("invalid_arguments", said) if isinstance(said, str) and said else None


async def _body(tool: Tool, ctx: RecordingContext, values: Mapping[str, Any]) -> Any:
    if tool.run is None:
        raise Refused("invalid_arguments", f"{tool.id} is run by the client", "offer it to a session of testing.crib()")
    if tool.mode == "async":
        return await tool.run(ctx, values)
    if tool.mode == "stream":
        return await _drain(tool, ctx, values)
    return await asyncio.to_thread(_in_thread, tool, in_thread(ctx), values)


async def _drain(tool: Tool, ctx: RecordingContext, values: Mapping[str, Any]) -> Any:
    assert tool.run is not None
    last: Any = None
    async for last in tool.run(ctx, values):
        ctx.host.told("output", {"value": last})
    return last


def _in_thread(tool: Tool, ctx: RecordingContext, values: Mapping[str, Any]) -> Any:
    assert tool.run is not None
    given = tool.run(ctx, values)
    if tool.mode != "thread_stream":
        return given
    last: Any = None
    for last in given:
        ctx.host.told("output", {"value": last})
    return last

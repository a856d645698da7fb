"""Running one tool by itself: its arguments are parsed and its outcome becomes a `Result`, as in a crib."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from toolcrib._call.call_facts import NOBODY
from toolcrib._call.live_call import LiveCall
from toolcrib._call.outcome import on_purpose, presentable, to_result
from toolcrib._call.request import CallRequest, Rejected
from toolcrib.context import Stopped
from toolcrib.crib import Crib
from toolcrib.errors import Refused, ToolFailure
from toolcrib.policy import Policy, Verdict
from toolcrib.session import Session
from toolcrib.sources.functions import as_tool
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
    recording = ctx or context()
    recording.again()
    request = _request(made, args)
    pipeline = request.session.pipeline
    admission = await pipeline.admission.admit(request, lambda *_: recording, new=True)
    live = LiveCall(admission, NOBODY)
    if isinstance(admission, Rejected):
        if admission.fault is not None:
            raise admission.fault
        return presentable(live, Result(failure=admission.failure, metadata=admission.metadata or {}))
    try:
        result = to_result(live, await _body(made, recording, admission.parsed.values))
    except CallEnded as ended:
        return ended.result
    except Stopped:
        return Result(failure=Failure("cancelled", "Cancelled"))
    except ToolFailure as error:
        result = on_purpose(live, error, error.metadata)
    return presentable(live, result) if live.secrets else result


class _Anything(Policy):
    """The policy of a tool that is tried by itself: its test decides what is called."""

    def decide(self, session: Any, tool: Tool, arguments: Any) -> Verdict:
        return Verdict("allow", "default")


def _made(function: Callable[..., Any]) -> Tool:
    """A bare function may still lack the description that a tool must have."""
    return as_tool(function, description=inspect.getdoc(function) or "A function under test.")


def _request(tool: Tool, args: Mapping[str, Any] | None) -> CallRequest:
    """A call in a crib that was never started, since that is what parses and judges."""
    crib = Crib(policy=_Anything())
    crib.catalog.add([tool])
    return Session(crib, "session-1", "ada", (tool.namespace,))._request(tool.id, args, id="call-1")


async def _body(tool: Tool, ctx: RecordingContext, values: Mapping[str, Any]) -> Any:
    if tool.run is None:
        raise Refused("invalid_arguments", f"{tool.id} is run by the client", "offer it to a session of testing.crib()")
    if tool.mode == "async":
        return await tool.run(ctx, values)
    if tool.mode == "stream":
        return await _drain(tool.run(ctx, values), ctx)
    return await asyncio.to_thread(_in_thread, tool.run, tool.mode == "thread_stream", in_thread(ctx), values)


async def _drain(pieces: AsyncIterator[Any], ctx: RecordingContext) -> Any:
    last: Any = None
    async for last in pieces:
        ctx._host.told("output", {"value": last})
    return last


def _in_thread(run: Callable[..., Any], streams: bool, ctx: RecordingContext, values: Mapping[str, Any]) -> Any:
    result = run(ctx, values)
    if not streams:
        return result
    last: Any = None
    for last in result:
        ctx._host.told("output", {"value": last})
    return last

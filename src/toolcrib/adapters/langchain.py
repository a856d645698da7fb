"""LangChain and LangGraph: tools of a crib as `BaseTool`s, and a middleware round the tools that an agent has.

Keys are made of thread, model message and tool call, so that a graph that is resumed finds the calls that it made. A
call that waits interrupts the graph; when it is resumed, the crib is asked again. Whoever resumes a thread approves
nothing by that, unless the middleware has an `actor` in whose name decisions of the resume are passed on.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

from toolcrib.adapters.calls import FrameworkCall, SessionChoice, WaitingCall, Watch, make, new_key, session_for
from toolcrib.adapters.handlers import Handler, guarded_tool, pass_through
from toolcrib.adapters.threads import wait
from toolcrib.errors import Refused, ToolFailure
from toolcrib.session import Session
from toolcrib.tool import Tool
from toolcrib.types import Result

FRAMEWORK = "langgraph"

ToolReply: TypeAlias = "ToolMessage | Command[Any]"
Outcome: TypeAlias = "Result | WaitingCall"

_call_id: ContextVar[str | None] = ContextVar("toolcrib_langchain_call", default=None)


def langchain_tools(session: Session, *, agent: str | None = None) -> list[BaseTool]:
    """Return the tools of a session as LangChain tools, with the JSON schemas that they have."""
    return [_outward(session, name, tool, agent) for name, tool in session.model_tools().items()]


class _CribTool(StructuredTool):
    """A LangChain tool that tells its coroutine which call of the model it runs for."""

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        token = _call_id.set(input.get("id") if isinstance(input, dict) and input.get("type") == "tool_call" else None)
        try:
            return await super().ainvoke(input, config, **more)
        finally:
            _call_id.reset(token)


def _outward(session: Session, name: str, tool: Tool, agent: str | None) -> BaseTool:
    async def call(config: RunnableConfig, **arguments: Any) -> tuple[Any, Any]:
        """Wait for the result of the call, as content for the model and data for the program."""
        place: Mapping[str, Any] = config.get("configurable") or {}
        call_id, thread = _call_id.get(), place.get("thread_id")
        ids = (thread, place.get("__pregel_task_id"), call_id)
        wanted = FrameworkCall(FRAMEWORK, tool.id, arguments, ids, agent or _agent(config))
        key = wanted.key if thread is not None and call_id is not None else new_key()
        watch = _stream(place.get("__pregel_runtime"))
        result = await _decided(lambda: make(session, wanted, key, watch), session, None)
        if result.failure is not None:
            raise ToolException(result.text)
        return result.text, result.data

    return _CribTool(
        name=name,
        description=tool.description,
        args_schema=dict(tool.input_schema),
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def guarded_tools(tools: Iterable[BaseTool | Callable[..., Any]], **fields: Any) -> list[Tool]:
    """Return the tools of an agent for the catalog of a crib: `Crib(guarded_tools(tools))`. Fields are those of `Tool`.

    Their bodies stay with LangChain; `Crib(declare=...)` says what they do.
    """
    return [
        _inward(StructuredTool.from_function(one) if not isinstance(one, BaseTool) else one, fields) for one in tools
    ]


def _inward(tool: BaseTool, fields: Mapping[str, Any]) -> Tool:
    schema = tool.tool_call_schema
    shape = dict(schema) if isinstance(schema, Mapping) else schema.model_json_schema()
    shape.pop("description", None)
    return guarded_tool(tool.name, tool.description, shape, FRAMEWORK, **fields)


class CribMiddleware(AgentMiddleware[Any, Any]):
    """Lets every tool call of an agent pass through a crib: `create_agent(..., middleware=[CribMiddleware(session)])`.

    `session` may also be a function of the thread's id. Tools that the crib does not have are refused. With `actor`,
    what a graph is resumed with, such as `{"action": "accept"}`, is given to the crib as that person's answer.
    """

    def __init__(self, session: SessionChoice, *, agent: str | None = None, actor: str | None = None) -> None:
        super().__init__()
        self._session = session
        self._agent = agent
        self._actor = actor
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolReply]]
    ) -> ToolReply:
        """Make the call by the crib; its body is the handler."""
        session = await session_for(self._session, _thread(request))
        wanted = self._wanted(request)
        body = _Body(request, handler)
        pass_once = _passing(session, wanted, body, _stream(request.runtime))
        return _reply(request, body, await _decided(pass_once, session, self._actor))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolReply]) -> ToolReply:
        """Do the same for an agent that runs in a thread of its own, beside the event loop of the crib.

        Raises:
            RuntimeError: the event loop of the crib is blocked, most likely by this agent.
        """
        loop = self._loop
        context = contextvars.copy_context()

        async def threaded(changed: ToolCallRequest) -> ToolReply:
            return await asyncio.to_thread(context.copy().run, handler, changed)

        body, wanted = _Body(request, threaded), self._wanted(request)
        session = wait(loop, lambda: session_for(self._session, _thread(request)))
        pass_once = _passing(session, wanted, body, None)
        while isinstance(outcome := wait(loop, pass_once), WaitingCall):
            answer = partial(_answer, session, outcome, interrupt(outcome.payload()), self._actor)
            wait(loop, answer)
        return _reply(request, body, outcome)

    def _wanted(self, request: ToolCallRequest) -> FrameworkCall:
        call = request.tool_call
        turn, run = _turn_and_run(request)
        ids, agent = (_thread(request), turn, call["id"]), self._agent or _agent(_config(request))
        return FrameworkCall(FRAMEWORK, call["name"], call["args"], ids, agent, turn, call["id"], run)


class _Body:
    """The handler of one call, and what it returned."""

    def __init__(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolReply]]) -> None:
        self._request = request
        self._handler = handler
        self.reply: ToolReply | None = None

    def handler(self) -> Handler:
        """Return it as the crib holds it."""
        return Handler(self._run, (GraphBubbleUp,))

    async def _run(self, values: Mapping[str, Any]) -> Any:
        request, arguments = self._request, dict(values)
        if arguments != request.tool_call["args"]:
            request = request.override(tool_call={**request.tool_call, "args": arguments})
        reply = await self._handler(request)
        if isinstance(reply, ToolMessage) and reply.status == "error":
            raise ToolFailure(str(reply.text), "failed")
        self.reply = reply
        if isinstance(reply, ToolMessage):
            return reply.content if isinstance(reply.content, str) else {"content": reply.content}
        return {"command": str(reply)}


def _passing(
    session: Session, wanted: FrameworkCall, body: _Body, watch: Watch | None
) -> Callable[[], Coroutine[Any, Any, Outcome]]:
    return lambda: pass_through(session, wanted, body.handler(), watch)


async def _decided(pass_once: Callable[[], Awaitable[Outcome]], session: Session, actor: str | None) -> Result:
    """The result of a call; the graph is interrupted as long as it waits for somebody."""
    while isinstance(outcome := await pass_once(), WaitingCall):
        await _answer(session, outcome, interrupt(outcome.payload()), actor)
    return outcome


async def _answer(session: Session, waiting: WaitingCall, decision: Any, actor: str | None) -> None:
    """Pass on what a graph was resumed with, where somebody vouches for it; what the crib refuses changes nothing."""
    if actor is None or not isinstance(decision, Mapping) or "action" not in decision:
        return
    if decision.get("question", waiting.question.id) != waiting.question.id:
        return
    more = {name: decision[name] for name in ("arguments", "reason") if decision.get(name) is not None}
    try:
        await session.answer(waiting.question.id, decision["action"], decision.get("value"), actor=actor, **more)
    except Refused as refusal:
        await session.notice(f"The answer of {actor} to {waiting.question.id} was refused: {refusal}")


def _reply(request: ToolCallRequest, body: _Body, result: Result) -> ToolReply:
    """What the graph goes on with: the tool's own reply where it ran here, else what the log has."""
    call = request.tool_call
    if result.failure is None and body.reply is not None and not result.metadata.get("edited"):
        return body.reply
    status: Any = "success" if result.ok else "error"
    data = result.data
    content = data["content"] if result.ok and isinstance(data, dict) and [*data] == ["content"] else result.text
    return ToolMessage(content=content, tool_call_id=call["id"] or "", name=call["name"], status=status)


def _config(request: ToolCallRequest) -> RunnableConfig:
    return request.runtime.config if request.runtime else {}


def _thread(request: ToolCallRequest) -> str | None:
    place: Mapping[str, Any] = _config(request).get("configurable") or {}
    return place.get("thread_id")


def _agent(config: RunnableConfig) -> str | None:
    """The name that the agent was created with."""
    return (config.get("metadata") or {}).get("lc_agent_name")


def _turn_and_run(request: ToolCallRequest) -> tuple[str | None, str | None]:
    """The ids of the model's message that holds the call, and of the last message of the user before it."""
    state, turn = request.state, None
    messages = state.get("messages", ()) if isinstance(state, Mapping) else getattr(state, "messages", state)
    for message in reversed(messages or ()):
        if isinstance(message, HumanMessage):
            return turn, message.id
        calls = getattr(message, "tool_calls", None) or ()
        if turn is None and any(call.get("id") == request.tool_call["id"] for call in calls):
            turn = message.id
    return turn, None


def _stream(runtime: Any) -> Watch | None:
    """What passes progress and output on to whoever reads the stream `custom` of the graph."""
    write = getattr(runtime, "stream_writer", None)
    if write is None:
        return None

    def watch(event: Any) -> None:
        write({"toolcrib": {"kind": event.kind, "call": event.call, **event.fields}})

    return watch

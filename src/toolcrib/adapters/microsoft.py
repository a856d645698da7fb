"""Microsoft Agent Framework: tools of a crib as `FunctionTool`s, and a middleware round the tools that an agent has.

Keys are made of the session and the function call. A call that waits comes back as an approval request; when its
approval response comes, the crib is asked again. An approval that only the framework was given runs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from agent_framework import Content, FunctionInvocationContext, FunctionMiddleware, FunctionTool, MiddlewareTermination
from agent_framework import tool as as_function_tool

from toolcrib.adapters.calls import FrameworkCall, SessionChoice, WaitingCall, make, new_key, session_for
from toolcrib.adapters.functions import shown
from toolcrib.adapters.handlers import Handler, guarded_tool, pass_through
from toolcrib.session import Session
from toolcrib.tool import Tool
from toolcrib.types import Result

FRAMEWORK = "agent-framework"


class _CribFunctionTool(FunctionTool):
    """One tool of a session; the middleware makes its calls, and without one it has no id of its own."""

    def __init__(self, session: Session, name: str, tool: Tool, agent: str | None) -> None:
        self.crib_session = session
        self.crib_tool = tool.id
        self.crib_agent = agent
        super().__init__(
            name=name,
            description=tool.description,
            input_model=dict(tool.input_schema),
            func=self._call,
            approval_mode="never_require",
        )

    async def _call(self, **arguments: Any) -> Any:
        wanted = FrameworkCall(FRAMEWORK, self.crib_tool, arguments, (), self.crib_agent)
        return shown(await make(self.crib_session, wanted, key=new_key()))


def microsoft_tools(session: Session, *, agent: str | None = None) -> list[FunctionTool]:
    """Return the tools of a session: `Agent(client, tools=microsoft_tools(session), middleware=[middleware])`.

    `CribFunctionMiddleware` tells calls apart and lets them wait; without it one that waits is a text for the model.
    """
    return [_CribFunctionTool(session, name, tool, agent) for name, tool in session.model_tools().items()]


def guarded_tools(tools: Iterable[Callable[..., Any] | FunctionTool], **fields: Any) -> list[Tool]:
    """Return the tools of an agent for the catalog of a crib: `Crib(guarded_tools(tools))`. Fields are those of `Tool`.

    Their bodies stay with the framework; `Crib(declare=...)` says what they do.
    """
    made = [one if isinstance(one, FunctionTool) else as_function_tool(one) for one in tools]
    return [guarded_tool(one.name, one.description, one.parameters(), FRAMEWORK, **fields) for one in made]


class CribFunctionMiddleware(FunctionMiddleware):
    """Lets every tool call of an agent pass through a crib: `Agent(..., middleware=[CribFunctionMiddleware(session)])`.

    `session` may also be a function of the id of the framework's session. Tools that the crib lacks are refused.
    """

    def __init__(self, session: SessionChoice, *, agent: str | None = None) -> None:
        self._session = session
        self._agent = agent

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Make the call by the crib; its body is the function.

        Raises:
            MiddlewareTermination: it waits for somebody.
        """
        conversation = None if context.session is None else context.session.session_id
        session = await session_for(self._session, conversation)
        arguments = _plain(context.arguments)
        call = context.metadata.get("call_id")
        ids = (conversation, context.metadata.get("function_call_occurrence_id"), call)
        if isinstance(context.function, _CribFunctionTool):
            wanted = FrameworkCall(FRAMEWORK, context.function.crib_tool, arguments, ids, self._agent, None, call)
            context.result = _result(context, await make(session, wanted))
            return
        kept: list[Any] = []

        async def run(values: Mapping[str, Any]) -> Any:
            kept.append(await _performed(context, call_next, values, arguments))
            return _recorded(kept[-1])

        wanted = FrameworkCall(FRAMEWORK, context.function.name, arguments, ids, self._agent, None, call)
        outcome = await pass_through(session, wanted, Handler(run))
        unchanged = kept and isinstance(outcome, Result) and outcome.ok and not outcome.metadata.get("edited")
        context.result = kept[-1] if unchanged else _result(context, outcome)


async def _performed(
    context: FunctionInvocationContext,
    call_next: Callable[[], Awaitable[None]],
    values: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> Any:
    """Run the function; with arguments that somebody edited it is invoked anew, since those here may not change."""
    if dict(values) == arguments:
        await call_next()
        return context.result
    edited = FunctionInvocationContext(
        function=context.function, arguments=dict(values), session=context.session, kwargs=context.kwargs
    )
    return await context.function.invoke(arguments=dict(values), context=edited)


def _result(context: FunctionInvocationContext, outcome: Result | WaitingCall) -> Any:
    if not isinstance(outcome, WaitingCall):
        value = shown(outcome)
        return value if isinstance(value, str) else [Content.from_text(outcome.text)]
    call = str(context.metadata.get("call_id"))
    occurrence = str(context.metadata.get("function_call_occurrence_id") or call)
    request = Content.from_function_call(
        call_id=call, name=context.function.name, arguments=_plain(context.arguments), id=occurrence
    )
    context.result = Content.from_function_approval_request(
        id=occurrence, function_call=request, additional_properties={"toolcrib": outcome.payload()}
    )
    raise MiddlewareTermination(outcome.question.prompt)


def _plain(arguments: Any) -> dict[str, Any]:
    if hasattr(arguments, "model_dump"):
        return dict(arguments.model_dump(mode="json"))
    return dict(arguments)


def _recorded(value: Any) -> Any:
    """What the crib keeps of what a function returned."""
    if isinstance(value, list) and all(isinstance(one, Content) for one in value):
        texts = [one.text for one in value if one.type == "text" and one.text is not None]
        return "\n".join(texts) if len(texts) == len(value) else [one.to_dict() for one in value]
    return value if isinstance(value, str | dict | list | int | float | None) else str(value)

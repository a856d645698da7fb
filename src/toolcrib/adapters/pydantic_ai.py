"""Pydantic AI: tools of a crib as a toolset, and a capability round the tools that an agent has.

Keys are made of the conversation, the model response and the tool call, so that a run that goes on from its messages
finds the calls that it made. A call that waits ends the run with `DeferredToolRequests`; `DeferredToolResults` makes
the run ask the crib again. An approval that is given to Pydantic AI alone approves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai import Tool as FunctionTool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema, to_jsonable_python

from toolcrib.adapters.calls import FrameworkCall, SessionChoice, WaitingCall, make, session_for
from toolcrib.adapters.handlers import Handler, guarded_tool, pass_through
from toolcrib.errors import ToolFailure
from toolcrib.session import Session
from toolcrib.tool import Tool
from toolcrib.types import Result

FRAMEWORK = "pydantic-ai"

_ANYTHING = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))


class CribToolset(AbstractToolset[Any]):
    """The tools of a session: `Agent(..., toolsets=[CribToolset(session)])`. The crib checks their arguments."""

    def __init__(self, session: Session, *, agent: str | None = None, retries: int = 1) -> None:
        self._session = session
        self._agent = agent
        self._retries = retries

    @property
    def id(self) -> str | None:
        """The id of the toolset."""
        return f"toolcrib-{self._session.id}"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that the session may use now."""
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=name, description=tool.description, parameters_json_schema=dict(tool.input_schema)
                ),
                max_retries=self._retries,
                args_validator=_ANYTHING,
            )
            for name, tool in self._session.model_tools().items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Make the call, and return what the tool returned.

        Raises:
            ApprovalRequired: it waits for somebody.
            ToolFailed: it failed.
        """
        wanted = _wanted(ctx, self._session.model_tools()[name].id, tool_args, ctx.tool_call_id, self._agent)
        return _value(await make(self._session, wanted))


def guarded_tools(tools: Iterable[Callable[..., Any] | FunctionTool[Any]], **fields: Any) -> list[Tool]:
    """Return the tools of an agent for the catalog of a crib: `Crib(guarded_tools(tools))`. Fields are those of `Tool`.

    Their bodies stay with Pydantic AI; `Crib(declare=...)` says what they do.
    """
    definitions = [(one if isinstance(one, FunctionTool) else FunctionTool(one)).tool_def for one in tools]
    return [
        guarded_tool(one.name, one.description or "", one.parameters_json_schema, FRAMEWORK, **fields)
        for one in definitions
    ]


class CribCapability(AbstractCapability[Any]):
    """Lets every tool call of an agent pass through a crib: `Agent(..., capabilities=[CribCapability(session)])`.

    `session` may also be a function of the conversation's id. Tools that the crib does not have are refused.
    """

    def __init__(self, session: SessionChoice, *, agent: str | None = None) -> None:
        self._session = session
        self._agent = agent

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        """Make the call by the crib; its body is the handler.

        Raises:
            ApprovalRequired: it waits for somebody.
            ToolFailed: it failed.
        """
        arguments = to_jsonable_python(args)
        values: list[Any] = []

        async def run(judged: Mapping[str, Any]) -> Any:
            try:
                value = await handler(args if dict(judged) == arguments else _parsed(ctx, call.tool_name, judged))
            except (ModelRetry, ToolFailed) as failure:
                raise ToolFailure(failure.message) from None
            values.append(value)
            return to_jsonable_python(value, fallback=str)

        session = await session_for(self._session, ctx.conversation_id)
        wanted = _wanted(ctx, call.tool_name, arguments, call.tool_call_id, self._agent)
        outcome = await pass_through(session, wanted, Handler(run, (CallDeferred, ApprovalRequired)))
        value = _value(outcome)
        unchanged = values and isinstance(outcome, Result) and not outcome.metadata.get("edited")
        return values[-1] if unchanged else value


def _parsed(ctx: RunContext[Any], name: str, arguments: Mapping[str, Any]) -> Any:
    """Arguments that somebody edited, or whose defaults were filled in, as the tool's function takes them."""
    tools = None if ctx.tool_manager is None else ctx.tool_manager.tools
    if not tools or name not in tools:
        return dict(arguments)
    return tools[name].args_validator.validate_python(dict(arguments))


def _wanted(
    ctx: RunContext[Any], tool: str, arguments: Mapping[str, Any], call: str | None, agent: str | None
) -> FrameworkCall:
    turn = _turn(ctx, call)
    name = agent or (None if ctx.agent is None else ctx.agent.name)
    return FrameworkCall(FRAMEWORK, tool, arguments, (ctx.conversation_id, turn, call), name, turn, call, ctx.run_id)


def _turn(ctx: RunContext[Any], call: str | None) -> str | None:
    """The time of the response that holds the call, which its messages keep; ids of some models repeat."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse) and any(
            isinstance(part, ToolCallPart) and part.tool_call_id == call for part in message.parts
        ):
            return message.timestamp.isoformat()
    return None


def _value(outcome: Result | WaitingCall) -> Any:
    if isinstance(outcome, WaitingCall):
        raise ApprovalRequired(metadata=outcome.payload())
    if outcome.failure is not None:
        raise ToolFailed(outcome.text)
    return outcome.text if outcome.content or outcome.metadata.get("edited") else outcome.data

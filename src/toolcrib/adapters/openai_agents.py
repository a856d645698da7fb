"""OpenAI Agents: tools of a crib as `FunctionTool`s, and a crib round the function tools that an agent has.

Keys are made of the conversation and the tool call. A call that the policy asks about interrupts the run as one that
needs approval; when the run goes on from its `RunState`, the crib is asked again. An approval in the `RunState` alone
runs nothing: the model is told that the call waits.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from agents import FunctionTool, RunContextWrapper
from agents.tool import set_function_tool_failure_error_function
from agents.tool_context import ToolContext

from toolcrib.adapters.calls import FrameworkCall, WaitingCall, asks, make
from toolcrib.adapters.functions import shown
from toolcrib.adapters.handlers import Handler, guarded_tool, pass_through
from toolcrib.session import Session
from toolcrib.tool import Tool
from toolcrib.types import Result

FRAMEWORK = "openai-agents"


def openai_tools(session: Session, *, conversation: str = "", agent: str | None = None) -> list[FunctionTool]:
    """Return the tools of a session as function tools. `conversation` tells conversations of one session apart."""
    return [_outward(session, name, tool, conversation, agent) for name, tool in session.model_tools().items()]


def _outward(session: Session, name: str, tool: Tool, conversation: str, agent: str | None) -> FunctionTool:
    bound = _BoundTool(session, tool.id, conversation, agent)

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        outcome = await make(session, bound.wanted(context, _parsed(arguments), context.tool_call_id))
        return str(outcome) if isinstance(outcome, WaitingCall) else outcome.text  # of data it would make a Python text

    return FunctionTool(
        name=name,
        description=tool.description,
        params_json_schema=dict(tool.input_schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=bound.needs_approval,
    )


def guarded_tools(tools: Iterable[FunctionTool], **fields: Any) -> list[Tool]:
    """Return the tools of an agent for the catalog of a crib: `Crib(guarded_tools(tools))`. Fields are those of `Tool`.

    Their bodies stay with the SDK; `Crib(declare=...)` says what they do.
    """
    return [guarded_tool(one.name, one.description, one.params_json_schema, FRAMEWORK, **fields) for one in tools]


def guard_tools(
    session: Session, tools: Iterable[FunctionTool], *, conversation: str = "", agent: str | None = None
) -> list[FunctionTool]:
    """Return the same tools, every call of which passes through the crib. One that the crib does not have is refused.

    `conversation` tells conversations of one session apart.
    """
    return [_guarded(_BoundTool(session, tool.name, conversation, agent), tool) for tool in tools]


def _guarded(bound: _BoundTool, tool: FunctionTool) -> FunctionTool:
    body = copy.copy(tool)
    set_function_tool_failure_error_function(body, None)  # the crib tells the model what may be told

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        returned: list[Any] = []

        async def run(values: Mapping[str, Any]) -> Any:
            returned.append(await body.on_invoke_tool(context, json.dumps(dict(values))))
            return returned[-1] if isinstance(returned[-1], str | dict | list | int | float) else str(returned[-1])

        wanted = bound.wanted(context, _parsed(arguments), context.tool_call_id)
        outcome = await pass_through(bound.session, wanted, Handler(run))
        kept = isinstance(outcome, Result) and outcome.ok and not outcome.metadata.get("edited")
        return returned[-1] if returned and kept else shown(outcome)

    return dataclasses.replace(tool, on_invoke_tool=invoke, needs_approval=bound.needs_approval)


@dataclasses.dataclass(frozen=True, slots=True)
class _BoundTool:
    """A tool of a session, in a conversation."""

    session: Session
    tool: str
    conversation: str
    agent: str | None

    def wanted(self, context: RunContextWrapper[Any], arguments: Any, call: str) -> FrameworkCall:
        """Return the call that the model wants."""
        name = self.agent or getattr(getattr(context, "agent", None), "name", None)
        return FrameworkCall(FRAMEWORK, self.tool, arguments, (self.conversation, call), name, None, call)

    async def needs_approval(self, context: RunContextWrapper[Any], arguments: dict[str, Any], call: str) -> bool:
        """Return whether somebody has to be asked, and put the question where people answer it."""
        wanted = self.wanted(context, arguments, call)
        return asks(self.session, wanted) and isinstance(await make(self.session, wanted), WaitingCall)


def _parsed(arguments: str) -> Any:
    """The arguments as JSON; what is none is left to the crib to refuse."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments

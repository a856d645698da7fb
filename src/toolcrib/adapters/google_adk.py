"""Google ADK: tools of a crib as a toolset, and a plugin round the tools that agents have.

Keys are made of the session and the function call, whose id ADK keeps in its events. A call that waits asks ADK for a
confirmation; when the confirmation comes, the crib is asked again. A confirmation that only ADK was given runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from toolcrib.adapters.calls import FrameworkCall, SessionChoice, WaitingCall, make, session_for
from toolcrib.adapters.handlers import Handler, guarded_tool, pass_through
from toolcrib.session import Session
from toolcrib.tool import Tool
from toolcrib.types import Result

FRAMEWORK = "google-adk"


class AdkToolset(BaseToolset):
    """The tools of a session: `LlmAgent(..., tools=[AdkToolset(session)])`."""

    def __init__(self, session: Session, *, agent: str | None = None) -> None:
        super().__init__()
        self._session = session
        self._agent = agent

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """Return the tools that the session may use now."""
        return [_AdkTool(self._session, name, tool, self._agent) for name, tool in self._session.model_tools().items()]


class _AdkTool(BaseTool):
    """One tool of a session."""

    def __init__(self, session: Session, name: str, tool: Tool, agent: str | None) -> None:
        super().__init__(name=name, description=tool.description)
        self._session = session
        self._tool = tool
        self._agent = agent

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = dict(self._tool.input_schema)
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Make the call, and return what the tool returned, or an error for the model."""
        wanted = _wanted(tool_context, self._tool.id, args, self._agent)
        return _response(tool_context, await make(self._session, wanted))


def guarded_tools(tools: Iterable[Any], **fields: Any) -> list[Tool]:
    """Return the tools of an agent for the catalog of a crib: `Crib(guarded_tools(tools))`. Fields are those of `Tool`.

    Their bodies stay with ADK; `Crib(declare=...)` says what they do.
    """
    return [_inward(one if isinstance(one, BaseTool) else FunctionTool(one), fields) for one in tools]


def _inward(tool: BaseTool, fields: Mapping[str, Any]) -> Tool:
    declaration = tool._get_declaration()  # the one way that ADK has to tell a tool's parameters
    schema = _schema(declaration) if declaration is not None else {"type": "object", "properties": {}}
    return guarded_tool(tool.name, tool.description, schema, FRAMEWORK, **fields)


def _schema(declaration: types.FunctionDeclaration) -> dict[str, Any]:
    if declaration.parameters_json_schema is not None:
        return dict(declaration.parameters_json_schema)
    if declaration.parameters is None:
        return {"type": "object", "properties": {}}
    return dict(declaration.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True))


class CribPlugin(BasePlugin):
    """Lets every tool call of every agent pass through a crib: `App(..., plugins=[CribPlugin(session)])`.

    `session` may also be a function of the id of ADK's session. Tools that the crib does not have are refused.
    """

    def __init__(self, session: SessionChoice, *, agent: str | None = None, name: str = "toolcrib") -> None:
        super().__init__(name=name)
        self._session = session
        self._agent = agent

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Make the call by the crib; its body is the tool. What is returned here stands for the tool's response."""
        if isinstance(tool, _AdkTool):
            return None  # it is one of the crib
        session = await session_for(self._session, tool_context.session.id)

        async def run(values: Mapping[str, Any]) -> Any:
            return await tool.run_async(args=dict(values), tool_context=tool_context)

        outcome = await pass_through(session, _wanted(tool_context, tool.name, tool_args, self._agent), Handler(run))
        return _response(tool_context, outcome)


def _wanted(context: ToolContext, tool: str, arguments: Mapping[str, Any], agent: str | None) -> FrameworkCall:
    session, call = context.session, context.function_call_id
    who, run = agent or context.agent_name, context.invocation_id
    return FrameworkCall(FRAMEWORK, tool, dict(arguments), (session.id, call), who, None, call, run)


def _response(context: ToolContext, outcome: Result | WaitingCall) -> dict[str, Any]:
    if isinstance(outcome, WaitingCall):
        context.request_confirmation(hint=outcome.question.prompt, payload=outcome.payload())
        context.actions.skip_summarization = True
        return {"error": str(outcome)}
    if outcome.failure is not None:
        return {"error": outcome.text}
    if outcome.content or outcome.metadata.get("edited") or not isinstance(outcome.data, dict):
        return {"result": outcome.text if outcome.content or outcome.metadata.get("edited") else outcome.data}
    return dict(outcome.data)

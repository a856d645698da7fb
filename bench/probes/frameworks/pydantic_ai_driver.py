"""Pydantic AI, whose messages the program keeps as JSON."""

from __future__ import annotations

from typing import Any

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    Tool,
    ToolApproved,
    UsageLimits,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.probes.frameworks.driver import Setting, Turn
from toolcrib.adapters.pydantic_ai import CribCapability, CribToolset

LIMITS = UsageLimits(request_limit=5)


class PydanticAI:
    """An `Agent` with a model that is a function."""

    can_edit = True

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.kept = setting.folder / "messages.json"

    async def start(self, *calls: tuple[str, dict[str, Any]]) -> Turn:
        made = [ToolCallPart(name, args, f"c{n}") for n, (name, args) in enumerate(calls)]
        return self._turn(await self._agent(made).run("Go.", usage_limits=LIMITS))

    async def resume(self, edited: dict[str, Any] | None = None) -> Turn:
        messages = ModelMessagesTypeAdapter.validate_json(self.kept.read_bytes())
        approval: Any = True if edited is None else ToolApproved(override_args=edited)
        results = DeferredToolResults(approvals={"c0": approval})
        run = self._agent([]).run(message_history=messages, deferred_tool_results=results, usage_limits=LIMITS)
        return self._turn(await run)

    def _turn(self, run: Any) -> Turn:
        waits = isinstance(run.output, DeferredToolRequests)
        if waits:
            self.kept.write_bytes(run.all_messages_json())
        parts = [part for message in run.all_messages() for part in message.parts]
        returned = [one for one in parts if isinstance(one, ToolReturnPart | RetryPromptPart)]
        return Turn(tuple(_text(one) for one in returned), waits)

    def _agent(self, calls: list[ToolCallPart]) -> Agent[None, Any]:
        async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            parts = messages[-1].parts
            over = any(isinstance(part, ToolReturnPart | RetryPromptPart) for part in parts)
            return ModelResponse(parts=[TextPart("Done.")] if over or not calls else list(calls))

        output: Any = [str, DeferredToolRequests]
        session, setting = self.setting.session, self.setting
        model = FunctionModel(respond)
        if session is not None and setting.out:
            return Agent(model, output_type=output, toolsets=[CribToolset(session)])
        asks = setting.asks and session is None
        tools = [Tool(one, requires_approval=asks, timeout=setting.timeout_s) for one in setting.functions]
        capabilities: Any = [CribCapability(session)] if session else [Idle()] if setting.idle else []
        return Agent(model, output_type=output, tools=tools, capabilities=capabilities)


class Idle(AbstractCapability[Any]):
    """Does nothing round each tool."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await handler(args)


def _text(part: ToolReturnPart | RetryPromptPart) -> str:
    return part.model_response() if isinstance(part, RetryPromptPart) else part.model_response_str()

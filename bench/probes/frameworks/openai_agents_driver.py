"""The OpenAI Agents SDK, whose `RunState` the program keeps as JSON."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, RunState, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.probes.frameworks.driver import Setting, Turn
from toolcrib.adapters.openai_agents import guard_tools, openai_tools

BARE = RunConfig(tracing_disabled=True)
GUARDED = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")
"""What the page of the adapter tells programs to say."""


class Scripted(Model):
    """Makes its calls first and ends second."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:
        over = any(isinstance(one, dict) and one.get("type") == "function_call_output" for one in input)
        text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
        end = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[end] if over or not self.calls else self.calls, usage=Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class OpenAIAgents:
    """An `Agent` of the `Runner`."""

    can_edit = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.kept = setting.folder / "state.json"
        self.config = BARE if setting.session is None else GUARDED

    async def start(self, *calls: tuple[str, dict[str, Any]]) -> Turn:
        made = [
            ResponseFunctionToolCall(type="function_call", name=name, call_id=f"c{n}", arguments=json.dumps(args))
            for n, (name, args) in enumerate(calls)
        ]
        return self._turn(await Runner.run(self._agent(made), "Go.", run_config=self.config))

    async def resume(self, edited: dict[str, Any] | None = None) -> Turn:
        agent = self._agent([])
        state: Any = await RunState.from_json(agent, json.loads(self.kept.read_text()))
        for item in state.get_interruptions():
            state.approve(item)
        return self._turn(await Runner.run(agent, state, run_config=self.config))

    def _turn(self, run: Any) -> Turn:
        if run.interruptions:
            self.kept.write_text(json.dumps(run.to_state().to_json()))
        outputs = [str(item.output) for item in run.new_items if item.type == "tool_call_output_item"]
        return Turn(tuple(outputs), bool(run.interruptions))

    def _agent(self, calls: list[Any]) -> Agent[Any]:
        session, setting = self.setting.session, self.setting
        if session is not None and setting.out:
            return Agent("desk", model=Scripted(calls), tools=[*openai_tools(session)])
        asks = setting.asks and session is None
        own = [
            function_tool(
                one,
                needs_approval=asks,
                timeout=setting.timeout_s if inspect.iscoroutinefunction(one) else None,
            )
            for one in setting.functions
        ]
        if setting.idle:
            own = [*map(_idle, own)]
        return Agent("desk", model=Scripted(calls), tools=[*(own if session is None else guard_tools(session, own))])


def _idle(tool: FunctionTool) -> FunctionTool:
    """Return a tool in a wrapper that does nothing and asks for nothing."""

    async def invoke(context: Any, arguments: str) -> Any:
        return await tool.on_invoke_tool(context, arguments)

    async def needs_approval(context: Any, arguments: dict[str, Any], call: str) -> bool:
        return False

    return dataclasses.replace(tool, on_invoke_tool=invoke, needs_approval=needs_approval)

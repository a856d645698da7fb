"""Google's ADK with its SQLite session service."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from bench.probes.frameworks.driver import Setting, Turn
from toolcrib.adapters.google_adk import AdkToolset, CribPlugin

CONFIRMATION = "adk_request_confirmation"
PLACE: Any = {"app_name": "probe", "user_id": "ada", "session_id": "probe"}


class Scripted(BaseLlm):
    """Makes its calls first and ends second."""

    calls: list[Any]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        over = any(part.function_response for part in llm_request.contents[-1].parts or [])
        made = [
            types.Part(function_call=types.FunctionCall(id=f"c{n}", name=name, args=args))
            for n, (name, args) in enumerate(self.calls)
        ]
        parts = [types.Part(text="Done.")] if over or not made else made
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class GoogleADK:
    """An `LlmAgent` in an `App`."""

    can_edit = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.kept = setting.folder / "confirmation"
        kept = setting.folder / "sessions.db"
        self.service: Any = SqliteSessionService(str(kept)) if setting.keeps else InMemorySessionService()

    async def start(self, *calls: tuple[str, dict[str, Any]]) -> Turn:
        await self.service.create_session(**PLACE)
        return await self._run(types.Part(text="Go."), list(calls))

    async def resume(self, edited: dict[str, Any] | None = None) -> Turn:
        response = types.FunctionResponse(id=self.kept.read_text(), name=CONFIRMATION, response={"confirmed": True})
        return await self._run(types.Part(function_response=response), [])

    async def _run(self, part: types.Part, calls: list[Any]) -> Turn:
        runner = Runner(app=self._app(calls), session_service=self.service)
        texts, waits = [], False
        message = types.Content(role="user", parts=[part])
        async for event in runner.run_async(user_id="ada", session_id="probe", new_message=message):
            for one in (event.content.parts if event.content else None) or ():
                if one.function_call and one.function_call.name == CONFIRMATION:
                    waits = True
                    self.kept.write_text(one.function_call.id or "")
                elif one.function_response:
                    texts.append(str(one.function_response.response))
        return Turn(tuple(texts), waits)

    def _app(self, calls: list[Any]) -> App:
        session, setting = self.setting.session, self.setting
        tools: list[Any] = [
            FunctionTool(one, require_confirmation=setting.asks and session is None) for one in setting.functions
        ]
        plugins: list[Any] = []
        if session is not None and setting.out:
            tools = [AdkToolset(session)]
        elif session is not None:
            plugins = [CribPlugin(session)]
        elif setting.idle:
            plugins = [Idle(name="idle")]
        agent = LlmAgent(name="desk", model=Scripted(model="scripted", calls=calls), tools=tools)
        return App(name="probe", root_agent=agent, plugins=plugins)


class Idle(BasePlugin):
    """Runs each tool itself, and does nothing else."""

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        return {"result": await tool.run_async(args=tool_args, tool_context=tool_context)}

"""The Microsoft Agent Framework, whose session the program keeps as JSON."""

from __future__ import annotations

import json
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionMiddleware,
    InMemoryHistoryProvider,
    Message,
    tool,
)

from bench.probes.frameworks.driver import Setting, Turn
from toolcrib.adapters.microsoft import CribFunctionMiddleware, microsoft_tools


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Makes its calls first and ends second."""

    def __init__(self, calls: list[Any]) -> None:
        super().__init__()
        self.calls = calls

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> ChatResponse:
        over = any(one.type == "function_result" for message in messages for one in message.contents)
        made = [
            Content.from_function_call(call_id=f"c{n}", name=name, arguments=args)
            for n, (name, args) in enumerate(self.calls)
        ]
        contents = [Content.from_text("Done.")] if over or not made else made
        return ChatResponse(messages=[Message(role="assistant", contents=contents)])


class Microsoft:
    """An `Agent` with an in-memory history, which stands in its session."""

    can_edit = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.kept = setting.folder / "session.json"

    async def start(self, *calls: tuple[str, dict[str, Any]]) -> Turn:
        return await self._run(list(calls), AgentSession(session_id="probe"), "Go.")

    async def resume(self, edited: dict[str, Any] | None = None) -> Turn:
        state = json.loads(self.kept.read_text())
        requests = [Content.from_dict(one) for one in state["requests"]]
        answers = [one.to_function_approval_response(approved=True) for one in requests]
        session = AgentSession.from_dict(state["session"])
        return await self._run([], session, Message(role="user", contents=answers))

    async def _run(self, calls: list[Any], session: AgentSession, message: Any) -> Turn:
        response = await self._agent(calls).run(message, session=session)
        requests = [one for one in response.user_input_requests if one.type == "function_approval_request"]
        state = {"session": session.to_dict(), "requests": [one.to_dict() for one in requests]}
        self.kept.write_text(json.dumps(state, default=str))
        texts = [
            str(one.result)
            for message in response.messages
            for one in message.contents
            if one.type == "function_result"
        ]
        return Turn(tuple(texts), bool(requests))

    def _agent(self, calls: list[Any]) -> Agent:
        crib, setting = self.setting.session, self.setting
        asks = setting.asks and crib is None
        tools: Any = [
            tool(one, approval_mode="always_require" if asks else "never_require") for one in setting.functions
        ]
        if crib is not None and setting.out:
            tools = microsoft_tools(crib)
        middleware: list[Any] = [] if crib is None else [CribFunctionMiddleware(crib)]
        if setting.idle:
            middleware = [Idle()]
        return Agent(
            Scripted(calls),
            tools=tools,
            middleware=middleware,
            context_providers=[InMemoryHistoryProvider()],
            name="desk",
        )


class Idle(FunctionMiddleware):
    """Does nothing round each function."""

    async def process(self, context: Any, call_next: Any) -> None:
        await call_next()

"""LangGraph with its SQLite checkpointer, and LangChain's middleware for approvals."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from bench.probes.frameworks.driver import Setting, Turn
from toolcrib.adapters.langchain import CribMiddleware, langchain_tools

THREAD: Any = {"configurable": {"thread_id": "probe"}, "recursion_limit": 100}


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self


class LangGraph:
    """The agent of `create_agent`."""

    can_edit = True

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    async def start(self, *calls: tuple[str, dict[str, Any]]) -> Turn:
        made: list[Any] = [{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(calls)]
        return await self._run({"messages": [("user", "Go.")]}, AIMessage("", tool_calls=made))

    async def resume(self, edited: dict[str, Any] | None = None) -> Turn:
        decision: dict[str, Any] = {"type": "approve"}
        if edited is not None:
            decision = {"type": "edit", "edited_action": {"name": "charge", "args": edited}}
        return await self._run(Command(resume={"decisions": [decision]}))

    async def _run(self, given: Any, *turns: AIMessage) -> Turn:
        async with self._saver() as saver:
            model = Scripted(messages=iter([*turns, AIMessage("Done.")]))
            agent: Any = create_agent(model, self._tools(), middleware=self._middleware(), checkpointer=saver)
            end = await agent.ainvoke(given, THREAD)
        texts = [str(one.content) for one in end["messages"] if isinstance(one, ToolMessage)]
        return Turn(tuple(texts), "__interrupt__" in end)

    def _saver(self) -> AbstractAsyncContextManager[AsyncSqliteSaver | None]:
        if not self.setting.keeps:
            return nullcontext()
        return AsyncSqliteSaver.from_conn_string(str(self.setting.folder / "graph.db"))

    def _tools(self) -> list[Any]:
        session = self.setting.session
        if session is not None and self.setting.out:
            return langchain_tools(session)
        return [native(one) for one in self.setting.functions]

    def _middleware(self) -> list[Any]:
        session = self.setting.session
        if session is not None:
            return [] if self.setting.out else [CribMiddleware(session)]
        if self.setting.idle:
            return [Idle()]
        return [HumanInTheLoopMiddleware({"charge": True})] if self.setting.asks else []


class Idle(AgentMiddleware[Any, Any]):
    """Does nothing round each tool."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


def native(function: Any) -> StructuredTool:
    """Return a function as LangChain's tool."""
    import inspect

    if inspect.iscoroutinefunction(function):
        return StructuredTool.from_function(coroutine=function)
    return StructuredTool.from_function(function)

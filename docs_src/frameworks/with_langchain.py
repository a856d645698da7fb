import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from toolcrib import Crib
from toolcrib.adapters.langchain import CribMiddleware, guarded_tools


@tool
def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"refunded {cents} of {order}"


class Model(GenericFakeChatModel):  # stands for a real one
    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self


async def main() -> None:
    call = {"name": "refund", "args": {"order": "A-7", "cents": 500}, "id": "call-1"}
    model = Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")]))
    async with Crib(guarded_tools([refund]), policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("thread-1", owner="ada")
        agent = create_agent(model, [refund], middleware=[CribMiddleware(session)], checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "thread-1"}}
        asked = await agent.ainvoke({"messages": [("user", "Refund A-7.")]}, thread)
        question = asked["__interrupt__"][0].value
        print(question["tool"], question["arguments"])
        await session.answer(question["question"], "accept", actor="bob")  # in the console, or anywhere
        end = await agent.ainvoke(Command(resume=True), thread)
        print(end["messages"][-2].content)


asyncio.run(main())

import asyncio
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message

from toolcrib import Crib
from toolcrib.adapters.microsoft import CribFunctionMiddleware, guarded_tools


def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"refunded {cents} of {order}"


class Model(FunctionInvocationLayer, BaseChatClient):  # stands for a real one
    async def _inner_get_response(self, *, messages: Any, **more: Any) -> ChatResponse:
        results = [one for message in messages for one in message.contents if one.type == "function_result"]
        call = Content.from_function_call("call-1", "refund", arguments={"order": "A-7", "cents": 500})
        contents = [Content.from_text(results[-1].result)] if results else [call]
        return ChatResponse(messages=[Message("assistant", contents)])


async def main() -> None:
    async with Crib(guarded_tools([refund]), policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = Agent(Model(), tools=[refund], middleware=[CribFunctionMiddleware(session)])
        chat = agent.create_session()
        [request] = (await agent.run("Refund A-7.", session=chat)).user_input_requests
        question = request.additional_properties["toolcrib"]
        print(question["tool"], question["arguments"])
        await session.answer(question["question"], "accept", actor="bob")  # in the console, or anywhere
        answer = Message("user", [request.to_function_approval_response(approved=True)])
        print((await agent.run(answer, session=chat)).text)


asyncio.run(main())

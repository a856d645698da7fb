"""langgraph: the prebuilt tool-calling agent with a model that makes so many calls and then answers."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent
from protocol import Call, plain, serve


@tool
async def look(n: int = 0) -> dict[str, int]:
    """Look."""
    return {"n": n}


class Calling(BaseChatModel):
    """Calls first, answers second."""

    count: int

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **more: Any) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            said = AIMessage("done")
        else:
            calls: list[Any] = [{"name": "look", "args": {"n": n}, "id": f"c{n}"} for n in range(self.count)]
            said = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _agenerate(self, messages: list[BaseMessage], *rest: Any, **more: Any) -> ChatResult:
        return self._generate(messages)


def bound(count: int) -> Call:
    graph = create_react_agent(Calling(count=count), [look], prompt="x")

    async def call(text: bytes) -> bytes:
        found = await graph.ainvoke({"messages": [("user", text.decode())]})
        return str(found["messages"][-1].content).encode()

    return call


if __name__ == "__main__":
    serve({f"turn{count}": plain(bound(count)) for count in (10, 60)}, "langgraph", "langchain-core")

"""pydantic-ai: Agent.run with a FunctionModel that makes so many calls and then answers."""

from protocol import Call, plain, serve
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def look(n: int = 0) -> dict[str, int]:
    """Look."""
    return {"n": n}


def bound(count: int) -> Call:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        if isinstance(last, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in last.parts):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", f'{{"n":{n}}}', tool_call_id=f"c{n}") for n in range(count)])

    agent = Agent(FunctionModel(respond), instructions="x", tools=[look])

    async def call(text: bytes) -> bytes:
        return (await agent.run(text.decode())).output.encode()

    return call


if __name__ == "__main__":
    serve({f"turn{count}": plain(bound(count)) for count in (10, 60)}, "pydantic-ai-slim")

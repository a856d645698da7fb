"""openai-agents: Runner.run with a model that makes so many calls and then answers; tracing is off."""

from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from protocol import Call, plain, serve


@function_tool
async def look(n: int = 0) -> dict[str, int]:
    """Look."""
    return {"n": n}


class Calling(Model):
    """Calls first, answers second."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:
        if isinstance(input, list) and input[-1].get("type") == "function_call_output":
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            said: list[Any] = [
                ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            ]
        else:
            said = [
                ResponseFunctionToolCall(call_id=f"c{n}", name="look", arguments=f'{{"n":{n}}}', type="function_call")
                for n in range(self.count)
            ]
        return ModelResponse(output=said, usage=Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> Any:
        raise NotImplementedError


def bound(count: int) -> Call:
    agent = Agent(name="main", instructions="x", model=Calling(count), tools=[look])

    async def call(text: bytes) -> bytes:
        return str((await Runner.run(agent, text.decode())).final_output).encode()

    return call


if __name__ == "__main__":
    set_tracing_disabled(True)
    serve({f"turn{count}": plain(bound(count)) for count in (10, 60)}, "openai-agents")

"""google-adk: Runner.run_async with a model that makes so many calls and then answers, a session a turn."""

from collections.abc import AsyncGenerator
from itertools import count as counting

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from protocol import Call, plain, serve


async def look(n: int = 0) -> dict[str, int]:
    """Look."""
    return {"n": n}


class Calling(BaseLlm):
    """Calls first, answers second."""

    count: int

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts or []
        if any(part.function_response for part in last):
            parts = [types.Part(text="done")]
        else:
            made = [types.FunctionCall(id=f"c{n}", name="look", args={"n": n}) for n in range(self.count)]
            parts = [types.Part(function_call=one) for one in made]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def bound(count: int) -> Call:
    agent = LlmAgent(name="main", instruction="x", model=Calling(model="scripted", count=count), tools=[look])
    service = InMemorySessionService()
    runner = Runner(app_name="bench", agent=agent, session_service=service)
    numbers = counting()

    async def call(text: bytes) -> bytes:
        session = await service.create_session(app_name="bench", user_id=f"u{next(numbers)}")
        said = types.Content(role="user", parts=[types.Part(text=text.decode())])
        answer = ""
        async for event in runner.run_async(user_id=session.user_id, session_id=session.id, new_message=said):
            for part in (event.content.parts if event.content else None) or ():
                answer = part.text or answer
        return answer.encode()

    return call


if __name__ == "__main__":
    serve({f"turn{count}": plain(bound(count)) for count in (10, 60)}, "google-adk")

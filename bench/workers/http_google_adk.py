"""Usage: http_google_adk <port>. ADK's API server, in memory: `calls` ends its run with the tool, `turns` says more."""

from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import ToolContext
from google.genai import types

from bench.peers import WORKERS
from bench.probes.mcp.serving import serve

# Without it each run would log a warning.
USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1, total_token_count=2)


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def only_add(a: int, b: int, tool_context: ToolContext) -> int:
    """Add two numbers, and have the model not hear of it: the least that a run can be."""
    tool_context.actions.skip_summarization = True
    return a + b


class Calling(BaseLlm):
    """Calls first, answers second."""

    tool: str

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """What the model says."""
        last = llm_request.contents[-1].parts or []
        if any(part.function_response for part in last):
            part = types.Part(text="all done")
        else:
            part = types.Part(function_call=types.FunctionCall(id="c1", name=self.tool, args={"a": 1, "b": 2}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=USAGE)


AGENTS = {
    name: LlmAgent(name=name, instruction="x", model=Calling(model="scripted", tool=tool.__name__), tools=[tool])
    for name, tool in (("calls", only_add), ("turns", add))
}


class Loader(BaseAgentLoader):
    """The two agents."""

    def load_agent(self, agent_name: str) -> BaseAgent:
        """One of them."""
        return AGENTS[agent_name]

    def list_agents(self) -> list[str]:
        """Their names."""
        return sorted(AGENTS)


if __name__ == "__main__":
    serve(
        get_fast_api_app(
            agents_dir=str(WORKERS),
            agent_loader=Loader(),
            session_service_uri="memory://",
            artifact_service_uri="memory://",
            use_local_storage=False,
            web=False,
            auto_create_session=True,
        )
    )

"""The numbers that are recorded, under the names that the semantic conventions for generative AI and MCP have."""

from __future__ import annotations

from typing import Any

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
MCP_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The bounds that the conventions recommend."""


class Instruments:
    """The instruments of one meter, each made once."""

    def __init__(self, meter: Any) -> None:
        def seconds(name: str, description: str, bounds: tuple[float, ...] = SECONDS) -> Any:
            return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=bounds)

        self.model_duration = seconds("gen_ai.client.operation.duration", "How long requests to models took.")
        self.first_chunk = seconds(
            "gen_ai.client.operation.time_to_first_chunk", "How long models took until the first piece of a reply."
        )
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens that were read and written.",
            explicit_bucket_boundaries_advisory=TOKENS,
        )
        self.agent_duration = seconds("gen_ai.invoke_agent.duration", "How long runs of agents were at work.")
        self.tool_duration = seconds("gen_ai.execute_tool.duration", "How long the bodies of tools ran.")
        self.mcp_client_duration = seconds(
            "mcp.client.operation.duration", "How long requests to MCP servers took.", MCP_SECONDS
        )
        self.mcp_server_duration = seconds(
            "mcp.server.operation.duration", "How long requests of MCP clients took.", MCP_SECONDS
        )
        self.calls = meter.create_counter("toolcrib.calls", "{call}", "Calls that ended, by their outcome.")

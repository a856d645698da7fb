"""A server that adds two numbers, none of them negative: `python -m tests.agent.adder`."""

import warnings

from mcp.server.mcpserver import MCPServer

warnings.simplefilter("ignore")
server = MCPServer("adder")


@server.tool(structured_output=False)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    if a < 0:
        raise ValueError("no negative numbers")
    return str(a + b)


if __name__ == "__main__":
    server.run("stdio")

"""Usage: sdk <port>. The server of the official SDK, without sessions."""

from mcp.server.mcpserver import MCPServer

from bench.probes.mcp.serving import serve

server = MCPServer("bench", log_level="ERROR")


@server.tool(structured_output=False)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    serve(server.streamable_http_app(json_response=True, stateless_http=True))

"""Usage: fast <port>. The server of FastMCP, without sessions."""

from fastmcp import FastMCP

from bench.probes.mcp.serving import serve

server = FastMCP("bench")


@server.tool  # type: ignore[untyped-decorator]
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    serve(server.http_app(path="/mcp", json_response=True, stateless_http=True))

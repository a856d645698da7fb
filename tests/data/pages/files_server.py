"""An MCP server on standard input and output."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("files")


@server.tool()
def read_text_file(path: str) -> str:
    """Read a file."""
    return path


if __name__ == "__main__":
    server.run()

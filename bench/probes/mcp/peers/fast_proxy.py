"""Usage: fast_proxy <port or -> <upstream...>. The proxy of FastMCP in front of an MCP server."""

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

from bench.probes.mcp.serving import serve

if __name__ == "__main__":
    command = sys.argv[2:]
    upstream = command[0] if command[0].startswith("http") else StdioTransport(command[0], command[1:])
    server = create_proxy(upstream)
    if sys.argv[1] == "-":
        server.run(show_banner=False)
    else:
        serve(server.http_app(path="/mcp", json_response=True, stateless_http=True))

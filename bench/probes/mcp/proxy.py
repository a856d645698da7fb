"""Usage: proxy <port or -> <upstream...>. A crib whose one source is an MCP server, over HTTP or on its own pipes."""

import sys

from bench.probes.mcp.serving import serve
from toolcrib import Crib
from toolcrib.serve.http import Site
from toolcrib.serve.mcp.stdio import run
from toolcrib.sources.mcp import Mcp

if __name__ == "__main__":
    source = Mcp(*sys.argv[2:], name="upstream", prefix="", trusted=True, required=True)
    crib = Crib([source], default_namespaces=["upstream"])
    if sys.argv[1] == "-":
        run(crib)
    else:
        serve(Site(crib))

"""Usage: pipe. The crib of `crib` on standard input and output."""

from bench.probes.mcp.crib import made
from toolcrib.serve.mcp.stdio import run

if __name__ == "__main__":
    run(made(2))

"""An MCP server of papers, on standard input and output."""

from toolcrib import Crib, tool
from toolcrib.serve.mcp.stdio import run

PAPERS = {"tides": "The moon moves the sea twice a day.", "winds": "Warm air rises, and cold air follows."}


@tool(read_only=True)
def search(words: str) -> list[str]:
    """List the papers about some words."""
    return [name for name, text in PAPERS.items() if any(word in text for word in words.split())]


@tool(read_only=True)
def read(paper: str) -> str:
    """Read a paper."""
    return PAPERS[paper]


if __name__ == "__main__":
    run(Crib([search, read]))

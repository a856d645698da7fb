"""A tool to begin with; put your own here, or into the image."""

from toolcrib import tool


@tool(namespace="hello", read_only=True)
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"

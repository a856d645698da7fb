"""Tools that need what nobody grants."""

from toolcrib import tool


@tool(namespace="notes", read_only=True, capabilities=["fs:raed:{path}"])
def read_note(path: str) -> str:
    """Read a note."""
    return path


@tool(namespace="notes", capabilities=["net:egres:{host}"])
def send_note(host: str) -> str:
    """Send a note."""
    return host

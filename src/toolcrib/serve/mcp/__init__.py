"""The MCP server: every MCP client can use a crib, over HTTP or stdio, at the newest revision and all before it.

It is a reader and writer of the session log like every other door, and keeps nothing of its own: a task is a call of
the log, progress is what a call told, a question becomes `input_required` or an elicitation, and a stream that was
lost is read on from its last event. Each principal has sessions of its own.

It is not built on the server of the SDK, which takes ten times as long for a call; see docs/decisions.md.
"""

from __future__ import annotations

from toolcrib.serve.mcp.client import ask_client, elicit, roots, sample
from toolcrib.serve.mcp.library import McpLibrary, Prompt, Resource
from toolcrib.serve.mcp.settings import McpServerSettings

__all__ = ["McpLibrary", "McpServerSettings", "Prompt", "Resource", "ask_client", "elicit", "roots", "sample"]

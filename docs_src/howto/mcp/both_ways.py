"""A server of notes, and a crib that uses it: without an argument this is the crib, which starts the server."""

import asyncio
import sys

from toolcrib import Crib, tool
from toolcrib.serve.mcp import McpLibrary, McpServerSettings
from toolcrib.serve.mcp.stdio import run
from toolcrib.sources.mcp import Mcp

NOTES = {"milk": "Buy milk."}
library = McpLibrary()


@tool(read_only=True)
def read_note(name: str) -> str:
    """Read a note."""
    return NOTES[name]


@library.prompt
def sum_up(name: str) -> str:
    """Ask for a summary of a note."""
    return f"Sum up this note: {NOTES[name]}"


@library.resource("note://{name}", mime_type="text/plain")
def note(name: str) -> str:
    """A note."""
    return NOTES[name]


def serve() -> None:
    run(
        Crib([read_note, library]),
        library=library,
        settings=McpServerSettings(name="notes", instructions="Read before you write."),
    )


async def use() -> None:
    server = Mcp(sys.executable, __file__, "serve", name="notes", trusted=True, required=True)
    async with Crib([server]) as crib:
        session = await crib.open(owner="ada", namespaces=["notes"])
        print((await session.call("notes.read_note", {"name": "milk"})).data)
        print((await session.call("notes.read_note", {"name": 7})).text)


if "serve" in sys.argv:
    serve()
else:
    asyncio.run(use())

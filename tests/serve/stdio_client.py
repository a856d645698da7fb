"""A crib on standard input and output, as a process of its own, and its client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import ready
from tests.serve.place import META, VERSION

ROOT = Path(__file__).parents[2]
PROGRAM = """
from tests.serve.tools import TOOLS, Doors, library
from toolcrib import Crib, tool
from toolcrib.serve.mcp import McpServerSettings
from toolcrib.serve.mcp.stdio import run

@tool(read_only=True)
def loud() -> str:
    "Print."
    import os
    print("this is no protocol")
    os.system("echo nor is this")
    return "printed"

kept = library()
run(Crib([*TOOLS, loud, kept], deps={"doors": Doors()}), library=kept, settings=McpServerSettings(largest=100_000))
"""


class Pipes:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(text + b"\n")

    async def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), 60))

    async def ask(self, method: str, params: dict[str, Any] | None = None, id: Any = 1, modern: bool = True) -> Any:
        meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
        given = {**(params or {}), **({"_meta": meta} if modern else {})}
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": given})
        return await self.read()


@asynccontextmanager
async def started() -> AsyncIterator[Pipes]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *ready.command("-c", PROGRAM), stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT, limit=1 << 22
    )
    try:
        yield Pipes(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()

"""An MCP server that lists, tells and answers too much. Run as `hostile.py <how many tools>`."""

from __future__ import annotations

import json
import sys
from typing import Any

CHEAP: dict[str, Any] = {"type": "object", "properties": {}}
COSTLY = {"type": "object", "properties": {f"p{n}": {"pattern": rf"\p{{L}}{{{60 + n}}}"} for n in range(40)}}
UNREADABLE = {"type": "object", "properties": {"a": {"type": "nonsense"}}}


def tool(name: str, schema: dict[str, Any] = CHEAP, description: str = "A tool.") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


tools = [tool(name) for name in ("listings", "flood", "values", "text")]
tools += [tool("costly", COSTLY), tool("unreadable", UNREADABLE), tool("wordy", description="x" * 100_000)]
tools += [tool(f"t{n}") for n in range(int(sys.argv[1]))]
listings: list[Any] = []


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(id: Any, name: str) -> None:
    if name == "flood":
        tools.append(tool("grown"))
        for _ in range(500):
            send(method="notifications/tools/list_changed")
    told: Any = {"values": [[1]] * 300_000}.get(name)
    text = "1,[2],{3}" * 300_000 if name == "text" else str(len(listings))
    send(id=id, result={"content": [{"type": "text", "text": text}], "structuredContent": {"told": told}})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "hostile", "version": "1"}
            able = {"tools": {"listChanged": True}}
            send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info})
        elif method == "tools/list":
            listings.append(id)
            send(id=id, result={"tools": tools})
        elif method == "tools/call":
            call(id, message["params"]["name"])
        elif id is not None:
            send(id=id, error={"code": -32601, "message": "Method not found"})


main()

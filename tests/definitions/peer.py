"""An MCP server for definition files: `peer.py <log> <tools as JSON>`. It writes down that it runs, and its calls.

A tool is `{name, ...}` as in a listing. One with `says` answers with that; else it gives back its arguments. A tool
`wait` answers when the file that its argument `until` names is there. With the word `hang` instead of the tools it
never answers at all.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

log = Path(sys.argv[1])
tools: list[dict[str, Any]] = [] if sys.argv[2] == "hang" else json.loads(sys.argv[2])


def note(**what: Any) -> None:
    with log.open("a") as file:
        file.write(json.dumps(what) + "\n")


def send(id: Any, result: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n")
    sys.stdout.flush()


def call(id: Any, params: dict[str, Any]) -> None:
    name, args = params["name"], params.get("arguments") or {}
    note(call=name, args=args)
    if name == "wait":
        while not Path(args["until"]).exists():
            time.sleep(0.005)
    said = next(one for one in tools if one["name"] == name).get("says", args)
    structured = {"structuredContent": said} if isinstance(said, dict) else {}
    send(id, {"content": [{"type": "text", "text": said if isinstance(said, str) else json.dumps(said)}], **structured})


def listed() -> list[dict[str, Any]]:
    shown = ({key: value for key, value in one.items() if key != "says"} for one in tools)
    return [{"description": f"The tool {one['name']}", "inputSchema": {"type": "object"}, **one} for one in shown]


note(start=os.getpid(), key=os.environ.get("PEER_KEY"))
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if sys.argv[2] == "hang":
        continue
    if method == "initialize":
        about = {"name": "peer", "version": "1"}
        send(id, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about})
    elif method == "tools/list":
        send(id, {"tools": listed()})
    elif method == "tools/call":
        threading.Thread(target=call, args=(id, message["params"]), daemon=True).start()
    elif id is not None and method is not None:
        error = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}) + "\n")
        sys.stdout.flush()

"""A small server of an older revision on standard input and output, without any library, that keeps a count."""

import json
import sys
from typing import Any

ADD = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS = [{"name": "add", "description": "Add two numbers.", "inputSchema": ADD, "annotations": {"readOnlyHint": True}}]
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "upstream", "version": "1"},
}


def _answer(message: dict[str, Any], count: int) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            return {"result": HELLO}
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call":
            given = message["params"]["arguments"]
            text = f"{given['a'] + given['b']}, call {count}"
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "ping":
            return {"result": {}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Answers until its input ends."""
    count = 0
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            count += message["method"] == "tools/call"
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **_answer(message, count)}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""An MCP server of an older revision whose results hold all that a result may hold."""

from __future__ import annotations

import json
import sys
from typing import Any

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
ROWS = {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]}
DEFAULT = {"type": "object", "properties": {"n": {"type": "integer", "default": 5}}, "required": ["n"]}
ICONS = [{"src": "https://host.example/icon.png"}]
PNG = "iVBORw0KGgoA"
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"k": 1}},
    {"type": "image", "data": PNG, "mimeType": "image/png", "_meta": {"z": [1]}},
    {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
    {
        "type": "resource",
        "resource": {"uri": "x://y", "mimeType": "text/plain", "text": "hi", "_meta": {"q": 2}},
        "_meta": {"r": 3},
    },
    {"type": "resource", "resource": {"uri": "x://b", "blob": PNG}},
    {"type": "resource_link", "uri": "x://l", "name": "link", "title": "T", "size": 3, "icons": ICONS},
]
LARGE_IMAGE: dict[str, Any] = {"type": "image", "data": PNG * 200_000, "mimeType": "image/png"}
TEXT: dict[str, Any] = {"type": "text", "text": "t"}
FAILED = {"isError": True, "content": [TEXT, BLOCKS[1]], "structuredContent": {"why": 1}, "_meta": {"e": 1}}
LARGE_TEXT = [{"type": "text", "text": "x" * 2_000_000}, TEXT]
RESULTS: dict[str, dict[str, Any]] = {
    "blocks": {"content": BLOCKS},
    "large_image": {"content": [TEXT, LARGE_IMAGE]},
    "large_rows": {"content": [TEXT], "structuredContent": {"rows": ["x" * 1000] * 1500}},
    "large_text": {"content": LARGE_TEXT, "structuredContent": {"rows": []}},
    "structured": {"content": [TEXT], "structuredContent": {"a": 1}},
    "meta": {"content": [TEXT], "_meta": {"trace": "x"}},
    "fails": FAILED,
}
VISIT = {"mode": "url", "elicitationId": "e1", "url": "https://host.example/connect", "message": "Connect"}
TOOLS: list[dict[str, Any]] = [
    *({"name": name, "inputSchema": OBJECT} for name in ("large_image", "structured", "meta", "fails", "visit")),
    *({"name": name, "inputSchema": OBJECT, "outputSchema": ROWS} for name in ("large_rows", "large_text")),
    {"name": "blocks", "inputSchema": OBJECT, "icons": ICONS, "_meta": {"ui": {"resourceUri": "ui://x"}}},
    {"name": "defaulted", "inputSchema": DEFAULT, "annotations": {"readOnlyHint": False, "title": "D"}},
    {"name": "says", "inputSchema": OBJECT},
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(id: Any, name: str, arguments: Any) -> None:
    if name == "visit":
        error = {"code": -32042, "message": "Authorize first", "data": {"elicitations": [VISIT]}}
        send({"id": id, "error": error})
        return
    if name == "says":
        line = {"level": "warning", "logger": "peer", "data": {"disk": "full"}}
        send({"method": "notifications/message", "params": line})
    plain = {"content": [{"type": "text", "text": json.dumps(arguments)}]}
    send({"id": id, "result": RESULTS.get(name, plain)})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            able: dict[str, Any] = {"tools": {}, "logging": {}}
            info = {"name": "content", "version": "1"}
            send({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info}})
        elif method == "tools/list":
            send({"id": id, "result": {"tools": TOOLS}})
        elif method == "tools/call":
            call(id, params["name"], params.get("arguments"))
        elif method in ("ping", "logging/setLevel"):
            send({"id": id, "result": {}})
        elif id is not None:
            send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    main()

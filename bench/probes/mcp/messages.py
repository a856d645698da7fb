"""What is sent, and what a bare application answers: the bytes that Toolcrib would."""

import json
from collections.abc import Mapping
from typing import Any

META = "io.modelcontextprotocol/"
VERSION = "2026-07-28"
REPLY = (
    b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":'
    b'{"name":"toolcrib","version":"0.1.0"}},"content":[{"type":"text","text":"3"}]}}'
)


def message(method: str, params: Mapping[str, Any]) -> bytes:
    """A request of the newest revision."""
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    meta[f"{META}clientInfo"] = {"name": "bench", "version": "1"}
    said = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(said, separators=(",", ":")).encode()


ADD = message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
LISTEN = message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
OLD_ADD = json.dumps(
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
).encode()
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": GREETING}).encode()


def post(body: bytes, **headers: str) -> bytes:
    """A request as it goes over a connection."""
    lines = {
        "Host": "127.0.0.1:8000",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **{name.replace("_", "-"): value for name, value in headers.items()},
        "Content-Length": str(len(body)),
    }
    head = "\r\n".join(["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items())])
    return head.encode() + b"\r\n\r\n" + body


def modern(body: bytes) -> bytes:
    """The same for the newest revision, whose headers repeat what the body says."""
    said = json.loads(body)
    headers = {"MCP_Protocol_Version": VERSION, "Mcp_Method": said["method"]}
    if "name" in said["params"]:
        headers["Mcp_Name"] = said["params"]["name"]
    return post(body, **headers)

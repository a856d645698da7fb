"""An MCP server that offers more to whoever signed in, as long as it runs: tools, prompts and resources of theirs.

Run as `personal.py`, on standard input and output, or as `personal.py <port>`, with a state for each connection.
"""

from __future__ import annotations

import json
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
CHANGES = {"listChanged": True}
ABLE = {"tools": CHANGES, "prompts": CHANGES, "resources": {**CHANGES, "subscribe": True}}
Message = dict[str, Any]


class State:
    """What one connection left behind."""

    def __init__(self) -> None:
        self.name = ""

    def tools(self) -> list[Message]:
        about = f"Tell who signed in{f', {self.name} for now' if self.name else ''}."
        listed = [
            {"name": "sign_in", "inputSchema": NAMED},
            {"name": "who", "description": about, "inputSchema": OBJECT},
        ]
        if self.name:
            listed.append({"name": f"orders_of_{self.name}", "inputSchema": OBJECT})
            listed.append({"name": "my_orders", "description": f"The orders of {self.name}", "inputSchema": OBJECT})
        return listed

    def result(self, method: str, params: Message) -> Message:
        mine = [self.name] if self.name else []
        match method:
            case "initialize":
                info = {"name": "personal", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": ABLE, "serverInfo": info}
            case "tools/list":
                return {"tools": self.tools()}
            case "prompts/list":
                return {"prompts": [{"name": "hello"}, *({"name": f"greet_{name}"} for name in mine)]}
            case "resources/list":
                listed = ["note://public", *(f"note://{name}" for name in mine)]
                return {"resources": [{"uri": uri, "name": uri} for uri in listed]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": f"{name}://{{id}}", "name": name} for name in mine]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": f"read by {self.name}"}]}
            case "tools/call":
                self.name = params["arguments"].get("name", self.name)
                return {"content": [{"type": "text", "text": f"{params['name']}: {self.name}"}]}
        return {}

    def answers(self, message: Message) -> list[Message]:
        """The answer, and before it that the lists are others."""
        if "id" not in message:
            return []
        before = self.name
        result = self.result(message["method"], message.get("params") or {})
        changed = ("tools", "prompts", "resources") if self.name != before else ()
        news = [{"jsonrpc": "2.0", "method": f"notifications/{what}/list_changed"} for what in changed]
        return [*news, {"jsonrpc": "2.0", "id": message["id"], "result": result}]


class Connections(BaseHTTPRequestHandler):
    """A connection for each session of the protocol; news comes with the answer to a call."""

    protocol_version = "HTTP/1.1"
    states: ClassVar[dict[str, State]] = {}

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        id = self.headers.get("Mcp-Session-Id")
        if message.get("method") == "server/discover":
            self._send(400, b"")
            return
        if message.get("method") == "initialize":
            id = secrets.token_hex(8)
            self.states[id] = State()
        answers = self.states[str(id)].answers(message)
        body = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in answers)
        self._send(200 if answers else 202, body, {"Mcp-Session-Id": str(id), "Content-Type": "text/event-stream"})

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    if len(sys.argv) > 1:
        server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Connections)
        print("listening", file=sys.stderr, flush=True)
        server.serve_forever()
    state = State()
    for line in sys.stdin:
        for answer in state.answers(json.loads(line)):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

"""A scripted model behind Anthropic's Messages API on loopback, for clients that cannot run without a service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedMessages(ThreadingHTTPServer):
    """Answers with its calls first, and ends once a result is there."""

    daemon_threads = True

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.calls = calls
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedMessages

    def log_message(self, *words: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Stream one message."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        parts = [one for message in request["messages"] for one in message["content"] if isinstance(one, dict)]
        over = any(one.get("type") == "tool_result" for one in parts) or not self.server.calls
        blocks = [{"type": "text", "text": "Done."}] if over else self.server.calls
        text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in _events(request, blocks))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def _events(request: dict[str, Any], blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": request["model"], "content": []}
    yield {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}}
    for number, block in enumerate(blocks):
        calls = block["type"] == "tool_use"
        empty: dict[str, Any] = {"input": {}} if calls else {"text": ""}
        delta = {"type": "text_delta", "text": block.get("text")}
        if calls:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": number, "content_block": block | empty}
        yield {"type": "content_block_delta", "index": number, "delta": delta}
        yield {"type": "content_block_stop", "index": number}
    stop = "tool_use" if blocks[0]["type"] == "tool_use" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}

"""What is sent over a connection: calls, turns, and what opens a stream."""

import json
from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

from bench.probes.mcp.load import Work
from bench.probes.mcp.messages import ADD, modern

CALL = {"tool": "add", "args": {"a": 1, "b": 2}}
ANSWER = b'"data":3'


def post(path: str, said: Any) -> bytes:
    """A request with a body."""
    body = json.dumps(said, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def follow(session: str) -> bytes:
    """Opens the stream of a session."""
    head = f"GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"
    return f"{head}Accept: text/event-stream\r\n\r\n".encode()


def _calls(name: str) -> Work:
    """Calls in a session of its own."""
    yield post("/v1/sessions", {"id": name}), b'"id"'
    yield from repeat((post(f"/v1/sessions/{name}/calls", CALL), ANSWER))


def _mcp(name: str) -> Work:
    """The same of an MCP server, which has no sessions here."""
    return repeat((modern(ADD), b'"text":"3"'))


def _runs(path: str, app: str, right: bytes) -> Callable[[str], Work]:
    """Runs of ADK, each in a new session: it reads the whole of one at each run."""

    def work(name: str) -> Iterator[tuple[bytes, bytes]]:
        for number in count():
            said = {"role": "user", "parts": [{"text": "go"}]}
            run = {"appName": app, "userId": "ada", "sessionId": f"{name}-{number}", "newMessage": said}
            yield post(path, run), right

    return work


def _ag_ui(name: str) -> Work:
    """Turns over AG-UI, each in a new thread."""
    for number in count():
        said = {"id": "m1", "role": "user", "content": "go"}
        run = {"threadId": f"{name}-{number}", "runId": "r1", "messages": [said]}
        yield post("/ag-ui/turns", run), b"all done"


def _ai_sdk(name: str) -> Work:
    """Turns over the AI SDK's protocol, each in a new chat."""
    for number in count():
        said = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
        yield post("/ai-sdk/turns", {"id": f"{name}-{number}", "messages": [said]}), b"all done"


WORKS: dict[str, Callable[[str], Work]] = {
    "calls": _calls,
    "mcp": _mcp,
    "adk": _runs("/run", "calls", b'"result":3'),
    "adk-turns": _runs("/run", "turns", b"all done"),
    "adk-sse": _runs("/run_sse", "turns", b"all done"),
    "ag-ui": _ag_ui,
    "ai-sdk": _ai_sdk,
}
"""What a connection of that name does, by what is measured."""
